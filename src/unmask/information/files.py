"""Loss curves and gauges kept in files.

Two formats, told apart by the first letter:

    JSON    a list of numbers, or an object that has the list under the key "loss" (a gauge: "gauge")
    CSV     one number per line, or two columns `n,loss` (a gauge: `i,gauge`), with or without a line of headings

A curve lists `ℓ(0) … ℓ(L−1)`, a gauge `g_1 … g_{L−1}`. With two columns the first is the index, in any order. A number
that is missing, doubled or not finite is refused with the place where it was found, and so is a curve that increases.
Nothing is interpolated, extrapolated or mended unless asked for.
"""

import csv
import json
from dataclasses import dataclass
from os import PathLike
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._files import read_text
from unmask._scipy import falling
from unmask.gauge import Vector
from unmask.information.curve import Curve

_NEAREST = "Use {monotone} to replace it with the nearest curve that does not."


@final
@dataclass(frozen=True)
class CurveFile:
    """A curve as it was read.

    Arguments:
        curve: The curve.
        change: By how much isotonic regression changed its values at most, in nats; zero if it was not needed.
    """

    curve: Curve
    change: float


def read_curve(path: str | PathLike[str], *, length: int | None = None, monotone: bool = False) -> CurveFile:
    """Read a loss curve.

    Arguments:
        path: The file.
        length: How many tokens the curve must have; as many as there are numbers by default.
        monotone: Whether to replace a curve that increases by the nearest one that does not, in least squares. A
            measured curve may increase by its noise.

    Raises:
        InputError: if the file cannot be read, a number is missing or out of place, or the curve increases.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write("n,loss\\n0,1.5\\n1,0.5\\n2,0.7\\n")
        ...     file.flush()
        ...     reading = read_curve(file.name, monotone=True)
        >>> reading.curve.loss.round(3).tolist(), round(reading.change, 3)
        ([1.5, 0.6, 0.6], 0.1)
    """
    values = _numbers(path, "curve", "loss", first=0, length=length)
    if values.size == 0:
        raise check.InputError("curve", "have at least one number", detail=f"but '{path}' has none")
    if values.min() < -1e-9:
        where = int(np.argmin(values))
        raise check.InputError(
            "curve", "not be negative", detail=f"but '{path}' has {values[where]:g} at {where} visible tokens"
        )
    # Regression would change a curve that does not increase by the rounding of its means.
    nearest = falling(values) if monotone and np.any(np.diff(values) > 0) else values
    try:
        return CurveFile(Curve(nearest), float(np.max(np.abs(nearest - values))))
    except check.InputError as error:
        raise error.changed(argument="curve", remedy=_NEAREST if error.must == "not increase" else "") from None


def read_gauge(path: str | PathLike[str], *, length: int | None = None) -> Vector:
    """Read a gauge: one positive number for each rank from 1 to `length − 1`.

    Raises:
        InputError: if the file cannot be read, or the numbers are not that many or not positive.
    """
    values = _numbers(path, "gauge", "gauge", first=1, length=length)
    if np.any(values <= 0):
        where = int(np.argmax(values <= 0))
        raise check.InputError("gauge", "be positive", detail=f"but '{path}' has {values[where]:g} at rank {where + 1}")
    return Vector(values)


def _numbers(path: str | PathLike[str], name: str, key: str, *, first: int, length: int | None) -> NDArray[np.float64]:
    """The numbers of a file, one for each index from `first` on, and below `length` unless that is None."""
    count = None if length is None else check.integer("length", length, least=1, most=check.LONGEST) - first
    text = read_text(path, name)
    if not text.strip():
        raise check.InputError(name, "be a file of numbers", detail=f"but '{path}' is empty")
    values = _from_json(text, path, name, key) if text.lstrip()[0] in "[{" else _from_csv(text, path, name, key, first)
    if count is not None and len(values) != count:
        must = f"have {count} number{'' if count == 1 else 's'} for a length of {length}"
        raise check.InputError(name, must, detail=f"but '{path}' has {len(values)}")
    return np.array(values, dtype=np.float64)


def _from_json(text: str, path: str | PathLike[str], name: str, key: str) -> list[float]:
    try:
        record: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise check.InputError(
            name, "be valid JSON", detail=f"but '{path}' has an error on line {error.lineno}: {error.msg}"
        ) from None
    except (RecursionError, ValueError):
        raise check.InputError(name, "be a list of numbers", detail=f"but '{path}' is not") from None
    if isinstance(record, dict):
        if key not in record:
            raise check.InputError(name, f'have the key "{key}"', detail=f"but '{path}' does not")
        record = cast(dict[str, Any], record)[key]
    if not isinstance(record, list):
        raise check.InputError(name, "be a list of numbers", detail=f"but '{path}' is not")
    values = cast(list[Any], record)
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            shown = json.dumps(value) if len(str(value)) < 40 else "something else"
            raise check.InputError(
                name, "hold finite numbers", detail=f"but '{path}' has {shown} at position {place + 1}"
            )
    return [float(value) for value in values]


def _from_csv(text: str, path: str | PathLike[str], name: str, key: str, first: int) -> list[float]:
    symbol = "n" if first == 0 else "i"
    lines: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            # Line by line, and strictly: a quote that nobody closes would swallow all lines after it.
            words = [word.strip() for row in csv.reader([line], strict=True) for word in row]
        except csv.Error as error:
            raise check.InputError(
                name,
                f"have one number per line or two columns {symbol},{key}",
                detail=f"but line {number} of '{path}' cannot be read: {error}",
            ) from None
        if any(words):
            lines.append((number, words))
    if lines and not any(_is_number(word) for word in lines[0][1]):  # headings
        lines = lines[1:]
    columns = len(lines[0][1]) if lines else 1
    rows: list[list[float]] = []
    for number, words in lines:
        if len(words) != columns or columns > 2:
            raise check.InputError(
                name,
                f"have one number per line or two columns {symbol},{key}",
                detail=f"but line {number} of '{path}' has {len(words)} column{'s' if len(words) > 1 else ''}",
            )
        row = [_number(word) for word in words]
        if None in row:
            bad = words[row.index(None)]
            raise check.InputError(
                name, "hold finite numbers", detail=f"but line {number} of '{path}' has '{bad[:40]}'"
            )
        rows.append([value for value in row if value is not None])
    if columns == 1:
        return [value for (value,) in rows]
    return _in_order(rows, path, name, symbol, first)


def _in_order(rows: list[list[float]], path: str | PathLike[str], name: str, symbol: str, first: int) -> list[float]:
    """The second column, by the first: every index from `first` to the largest, once."""
    found: dict[float, float] = {}
    for index, value in rows:
        if index != int(index) or not first <= index < check.EXACT:
            raise check.InputError(
                name, f"have whole numbers of at least {first} in column {symbol}", detail=f"but '{path}' has {index:g}"
            )
        if index in found:
            raise check.InputError(
                name, f"have each number only once in column {symbol}", detail=f"but '{path}' has {index:g} twice"
            )
        found[index] = value
    last = int(max(found))
    missing = last + 1 - first - len(found)
    if missing:
        absent = next(index for index in range(first, last) if index not in found)
        others = f" and {missing - 1} more are" if missing > 1 else " is"
        raise check.InputError(
            name,
            f"have every number from {first} to {last} in column {symbol}",
            detail=f"but {absent}{others} missing from '{path}'",
        )
    return [found[index] for index in sorted(found)]


def _is_number(word: str) -> bool:
    """Whether the word is a number, be it "nan"."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _number(word: str) -> float | None:
    """The word as a finite number; None if it is not."""
    return float(word) if _is_number(word) and np.isfinite(float(word)) else None


def _finite(value: float) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False
