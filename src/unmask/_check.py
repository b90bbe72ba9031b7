"""Checks of arguments: one sentence for every bad one, before any work is done.

Every public entry point calls these, so that a mistake is answered by "Argument 'x' must …, not …." and never by a
traceback from the middle of a computation. The sentence is made of the parts of an `InputError` (`unmask._errors`).
"""

import difflib
import operator
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from types import UnionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from unmask._errors import InputError, blamed, clipped, renamed, shown, type_of, within

__all__ = ["InputError", "blamed", "clipped", "renamed", "shown", "type_of", "within"]

T = TypeVar("T")

# Where randomness comes from: a generator, or a seed that makes one.
Rng = np.random.Generator | int

# Tokens of the longest sequence: one vector of numbers for its tokens takes 128 MiB.
LONGEST = 2**24
# Numbers in the largest array that a call may make: 1 GiB of them, and some calls need three or four such arrays.
ROOM = 2**27

# What sentences say of a word that their readers may not know.
BLIND_SIZE = "Choose one that is known before the model runs, such as even sizes."
BLIND_ORDER = "Choose one that is known before the model runs, such as random order."

# Beyond it a float, and so JSON as most programs read it, has no room for every integer.
EXACT = 2**53


def integer(name: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return `value` as an int if it is a whole number within `[least, most]`.

    Raises:
        InputError: if `value` is not an integer (booleans are not), or is out of range.

    Example:
        >>> integer("steps", 8, least=1)
        8
        >>> integer("steps", 0, least=1)
        Traceback (most recent call last):
        unmask.InputError: Argument 'steps' must be at least 1, not 0.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise InputError(name, "be an integer", found=shown(cast(object, value)), empty=value is None) from None
    if least is not None and number < least:
        raise InputError(name, f"be at least {least}", found=_digits(number))
    if most is not None and number > most:
        raise InputError(name, f"be at most {most}", found=_digits(number))
    return number


def _digits(number: int) -> str:
    # Python refuses to write integers of many thousand digits.
    return str(number) if abs(number) < 10**30 else f"a number of {int(number.bit_length() * 0.30103) + 1:,} digits"


def real(name: str, value: object, *, least: float | None = None, above: float | None = None) -> float:
    """Return `value` as a float if it is a finite number (no string or boolean), at least `least` and above `above`."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise InputError(name, "be a number", found=shown(cast(object, value)), empty=value is None) from None
    except OverflowError:
        raise InputError(name, "be finite", found="a number too large for a float") from None
    if not np.isfinite(number):
        raise InputError(name, "be finite", found=f"{number}")
    if least is not None and number < least:
        raise InputError(name, f"be at least {least:g}", found=f"{number:g}")
    if above is not None and number <= above:
        raise InputError(name, f"be greater than {above:g}", found=f"{number:g}")
    return number


def lacking(name: str, other: str) -> InputError:
    """What is wrong with the argument `name` where the `other` one, without which it has no use, was not given."""
    return InputError("", f"{{{name}}} needs {other}", remedy=f"Give {other}, or leave out {{{name}}}.")


def spelled(name: str, word: str) -> float:
    """The finite number that a word of a command line stands for."""
    try:
        number = float(word)
    except ValueError:
        raise InputError(name, "be a number", found=shown(word)) from None
    return real(name, number)


def steps_and_length(steps: object, length: object) -> tuple[int, int]:
    """Return both as ints if `1 <= steps <= length`: every step must reveal at least one token."""
    length = integer("length", length, least=1, most=LONGEST)
    steps = integer("steps", steps, least=1)
    if steps > length:
        raise InputError(
            "steps", f"be at most the length {length}", found=_digits(steps),
            remedy="Every step reveals at least one token.",
        )  # fmt: skip
    return steps, length


def instance(name: str, value: object, kind: type[T] | UnionType, must: str, remedy: str = "") -> T:
    """Return `value` if it is of the kind; `must` says what that is, as in "be a Schedule".

    Example:
        >>> instance("stop", 3, str, "be a word")
        Traceback (most recent call last):
        unmask.InputError: Argument 'stop' must be a word, not 3.
    """
    if not isinstance(value, kind):
        raise InputError(name, must, found=shown(value), remedy=remedy)
    return cast(T, value)


def function(name: str, value: object, must: str = "be a function") -> None:
    """Refuse `value` unless it can be called."""
    if not callable(value):
        raise InputError(name, must, found=shown(value))


def listed(name: str, values: object, must: str, *, most: int = 2**24) -> Sequence[Any]:
    """Return `values` if they are a list, a tuple or a range (no text) of at most so many."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputError(name, must, found=shown(values))
    try:
        count = len(values)  # pyright: ignore[reportUnknownArgumentType] - of what, the caller looks at
    except OverflowError:  # range(10**30), which no list could ever hold
        count = most + 1
    if count > most:
        raise InputError(name, f"hold at most {most} values")
    return values  # pyright: ignore[reportUnknownVariableType] - as above


def positions(name: str, values: object, length: int) -> list[int]:
    """Return `values`, anything that can be gone through, as positions of a sequence of `length` tokens."""
    try:
        # One more than there can be shows a repetition, even where they never end.
        some = list(islice(cast(Iterable[object], values), length + 1))
    except TypeError:
        raise InputError(name, "be a list of positions", found=shown(values)) from None
    return [integer(name, value, least=0, most=length - 1) for value in some]


def path(name: str, value: object) -> str:
    """Return `value` as the name of a file, whether or not there is one."""
    try:
        text = os.fspath(cast("os.PathLike[str]", value))
    except TypeError:
        text = None
    return instance(name, text if isinstance(text, str) else value, str, "be the name of a file")


def room(name: str, count: int, each: int = 1) -> None:
    """Refuse a count of things, each of so many numbers, that would fill the memory.

    Example:
        >>> room("count", 10**9, 128)
        Traceback (most recent call last):
        unmask.InputError: Argument 'count' must be at most 1048576, not 1000000000. More would fill the memory.
    """
    if count * each > ROOM:
        raise InputError(
            name, f"be at most {ROOM // max(each, 1)}", found=_digits(count), remedy="More would fill the memory."
        )


def array(name: str, values: object) -> NDArray[Any]:
    """Return `values` as an array if they fill one."""
    if isinstance(values, range):  # which says nothing of the memory that it would take
        listed(name, values, "be an array", most=ROOM)
    try:
        return np.asarray(values)
    except Exception as error:  # a stranger's object may fail at anything
        ragged = isinstance(error, ValueError) and isinstance(values, Sequence)
        raise InputError(
            name, "be an array", found="rows of different lengths" if ragged else type_of(cast(object, values))
        ) from None


def held(values: NDArray[Any]) -> str:
    """What a sentence says of an array that holds something else than it should.

    Example:
        >>> held(np.array(["a"])), held(np.array([0.5]))
        ('text', 'float64')
    """
    return {"U": "text", "S": "bytes", "O": "objects"}.get(values.dtype.kind, str(values.dtype))


def numbers(name: str, values: object) -> NDArray[np.float64]:
    """Return `values` as an array of float64 if they are real numbers.

    Example:
        >>> numbers("loss", [1, "two"])
        Traceback (most recent call last):
        unmask.InputError: Argument 'loss' must hold numbers, not text.
    """
    given = array(name, values)
    if given.dtype.kind not in "biuf":
        raise InputError(name, "hold numbers", found=held(given))
    return given.astype(np.float64, copy=False)


def probabilities(name: str, values: object, *, axis: int = -1) -> NDArray[np.float64]:
    """Return `values` as float64 if they are non-negative and sum to one along `axis`."""
    given = numbers(name, values)
    if given.size == 0 or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise InputError(name, "hold one or more finite numbers, none of them negative")
    sums = given.sum(axis=axis)
    worst = float(np.max(np.abs(sums - 1)))
    if worst > 1e-9:
        where, which = (" in every row", "one") if sums.ndim else ("", "the")
        raise InputError(name, f"sum to 1{where}", detail=f"but {which} sum is off by {worst:.2g}")
    return given


def tokens(name: str, values: object, *, length: int, vocab: int) -> NDArray[np.int64]:
    """Return `values` as a `(batch, length)` array of token ids; one sequence becomes a batch of one."""
    given = array(name, values)
    if given.dtype.kind not in "iu":
        raise InputError(name, "hold integers", found=held(given))
    given = np.atleast_2d(given.astype(np.int64))
    if given.ndim != 2 or given.shape[1] != length:
        raise InputError(name, f"have {length} positions", detail=f"but its shape is {given.shape}")
    if given.size and (given.min() < 0 or given.max() >= vocab):
        raise InputError(name, f"hold token ids from 0 to {vocab - 1}")
    return given


def generator(name: str, value: object) -> np.random.Generator:
    """Return `value` as a generator of random numbers: one of numpy, or a seed that makes one.

    Example:
        >>> bool(generator("rng", 0).integers(10) == np.random.default_rng(0).integers(10))
        True
        >>> generator("rng", np.random)
        Traceback (most recent call last):
        unmask.InputError: Argument 'rng' must be a numpy generator or a seed, not a module.
    """
    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return np.random.default_rng(seed(name, cast(object, value)))
    found = type_of(value) if not isinstance(value, str | bool | float) else shown(value)
    raise InputError(name, "be a numpy generator or a seed", found=found)


def seed(name: str, value: object) -> int:
    """Return `value` as a seed: an integer from 0 to 2^64 − 1, which every generator here takes."""
    return integer(name, value, least=0, most=2**64 - 1)


def known(kind: str, name: object, names: Iterable[str]) -> str:
    """Return `name` if it is one of `names`; otherwise say which one was probably meant."""
    names = list(names)
    if not isinstance(name, str):
        raise InputError(kind, "be a name", found=shown(name), empty=name is None)
    if name in names:
        return name
    small = {each.lower(): each for each in names}
    # One of two letters right is a slip; half of a long word is another word.
    close = difflib.get_close_matches(name[:80].lower(), small, n=1, cutoff=0.5 if len(name) < 4 else 0.6)
    guess = small[close[0]] if close else ""
    hint = f"Did you mean '{guess}'?" if close else f"Choose from {', '.join(sorted(names))}."
    raise InputError(
        kind, "be a known name", found=shown(name), remedy=hint, choices=tuple(names), kind=kind, close=guess
    )
