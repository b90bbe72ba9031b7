"""One sentence for every bad argument.

Every public entry point calls these before doing any work, so that a mistake is answered by
"Argument 'x' must …, not …." and never by a traceback from the middle of a computation.
"""

import difflib
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Beyond it a float, and so JSON as most programs read it, has no room for every integer.
EXACT = 2**53


def integer(name: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return `value` as an int if it is a whole number within `[least, most]`.

    Raises:
        TypeError: if `value` is not an integer (booleans are not).
        ValueError: if it is out of range.

    Example:
        >>> integer("steps", 8, least=1)
        8
        >>> integer("steps", 0, least=1)
        Traceback (most recent call last):
        ValueError: Argument 'steps' must be at least 1, not 0.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"Argument '{name}' must be an integer, not {value!r}.")
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"Argument '{name}' must be an integer, not {value!r}.") from None
    if least is not None and number < least:
        raise ValueError(f"Argument '{name}' must be at least {least}, not {number}.")
    if most is not None and number > most:
        raise ValueError(f"Argument '{name}' must be at most {most}, not {number}.")
    return number


def real(name: str, value: object, *, least: float | None = None, above: float | None = None) -> float:
    """Return `value` as a float if it is a finite number (no string or boolean), at least `least` and above `above`."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise TypeError(f"Argument '{name}' must be a number, not {value!r}.") from None
    if not np.isfinite(number):
        raise ValueError(f"Argument '{name}' must be finite, not {number}.")
    if least is not None and number < least:
        raise ValueError(f"Argument '{name}' must be at least {least:g}, not {number:g}.")
    if above is not None and number <= above:
        raise ValueError(f"Argument '{name}' must be greater than {above:g}, not {number:g}.")
    return number


def spelled(name: str, word: str) -> float:
    """The finite number that a word of a command line stands for."""
    try:
        return real(name, float(word))
    except ValueError:
        if word.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise
        raise TypeError(f"Argument '{name}' must be a number, not {word!r}.") from None


def steps_and_length(steps: object, length: object) -> tuple[int, int]:
    """Return both as ints if `1 <= steps <= length`: every step must reveal at least one token."""
    length = integer("length", length, least=1)
    steps = integer("steps", steps, least=1)
    if steps > length:
        raise ValueError(
            f"Argument 'steps' must be at most the length {length}, not {steps}. Every step reveals at least one token."
        )
    return steps, length


def array(name: str, values: object) -> NDArray[Any]:
    """Return `values` as an array if they fill one."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"Argument '{name}' must be an array, not rows of different lengths.") from None


def numbers(name: str, values: object) -> NDArray[np.float64]:
    """Return `values` as an array of float64 if they are real numbers.

    Example:
        >>> numbers("loss", [1, "two"])
        Traceback (most recent call last):
        TypeError: Argument 'loss' must hold numbers, not <U21.
    """
    given = array(name, values)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"Argument '{name}' must hold numbers, not {given.dtype}.")
    return given.astype(np.float64, copy=False)


def probabilities(name: str, values: object, *, axis: int = -1) -> NDArray[np.float64]:
    """Return `values` as float64 if they are non-negative and sum to one along `axis`."""
    given = numbers(name, values)
    if given.size == 0 or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise ValueError(f"Argument '{name}' must hold non-negative finite numbers, at least one of them.")
    worst = float(np.max(np.abs(given.sum(axis=axis) - 1)))
    if worst > 1e-9:
        raise ValueError(f"Argument '{name}' must sum to 1, not to a value {worst:.2g} away from it.")
    return given


def tokens(name: str, values: object, *, length: int, vocab: int) -> NDArray[np.int64]:
    """Return `values` as a `(batch, length)` array of token ids; one sequence becomes a batch of one."""
    given = array(name, values)
    if given.dtype.kind not in "iu":
        raise TypeError(f"Argument '{name}' must hold integers, not {given.dtype}.")
    given = np.atleast_2d(given.astype(np.int64))
    if given.ndim != 2 or given.shape[1] != length:
        raise ValueError(f"Argument '{name}' must have {length} positions, not the shape {given.shape}.")
    if given.size and (given.min() < 0 or given.max() >= vocab):
        raise ValueError(f"Argument '{name}' must hold token ids from 0 to {vocab - 1}.")
    return given


def known(kind: str, name: object, names: Iterable[str]) -> str:
    """Return `name` if it is one of `names`; otherwise say which one was probably meant."""
    names = list(names)
    if not isinstance(name, str):
        raise TypeError(f"Argument '{kind}' must be a name, not {name!r}.")
    if name in names:
        return name
    # One of two letters right is a slip; half of a long word is another word.
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5 if len(name) < 4 else 0.6)
    hint = f"Did you mean '{close[0]}'?" if close else f"Choose from {', '.join(sorted(names))}."
    raise ValueError(f"Argument '{kind}' must be a known name, not '{name}'. {hint}")


@contextmanager
def renamed(theirs: str, mine: str) -> Iterator[None]:
    """Let a mistake found further down speak of the argument that the caller was given.

    Example:
        >>> with renamed("path", "model"):
        ...     raise ValueError("Argument 'path' must name a file.")
        Traceback (most recent call last):
        ValueError: Argument 'model' must name a file.
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(f"Argument '{theirs}'", f"Argument '{mine}'")) from None
