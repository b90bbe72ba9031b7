"""The axes of a chart: where a value lies between its ends, and round numbers to write beside it.

`zoom.js` finds the round numbers of a part of an axis in the same way.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROOM = 0.04  # of the height, above the highest value


@dataclass(frozen=True)
class Axis:
    """Maps values to `[0, 1]`; `ticks` are places there, with their labels."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, values: NDArray[np.float64], logarithmic: bool, *, from_zero: bool = True) -> "Axis":
        """The vertical axis, with some room above."""
        low, high = float(values.min()), float(values.max())
        if logarithmic:
            low, high = math.log10(low), math.log10(high)
        elif from_zero:
            low = min(low, 0.0)
        if high - low < 1e-12 * max(abs(high), 1.0):
            low, high = (low - 0.5, high + 0.5) if logarithmic or not from_zero else (0.0, high or 1.0)
        low -= 0.0 if logarithmic or from_zero else _ROOM * (high - low)
        high += _ROOM * (high - low)
        return cls._with(low, high, logarithmic, _decades(low, high) if logarithmic else _round_numbers(low, high))

    @classmethod
    def across(cls, values: NDArray[np.float64], logarithmic: bool) -> "Axis":
        """The horizontal axis, from the first value to the last.

        It counts steps or tokens: by whole numbers, and by powers of two if it is logarithmic.
        """
        low, high = float(values.min()), float(values.max())
        if logarithmic:
            low, high = math.log10(low), math.log10(high)
        if high - low < 1e-12 * max(abs(high), 1.0):
            low, high = low - 0.5, high + 0.5
        return cls._with(low, high, logarithmic, _doublings(low, high) if logarithmic else _whole_numbers(low, high))

    @classmethod
    def _with(cls, low: float, high: float, logarithmic: bool, marks: list[float]) -> "Axis":
        ticks = tuple(((mark - low) / (high - low), _label(10**mark if logarithmic else mark)) for mark in marks)
        return cls(low, high, logarithmic, ticks)

    @property
    def said(self) -> str:
        """Its ends and whether it is logarithmic, for `chart.js`."""
        return f"{self.low:.10g} {self.high:.10g} {int(self.logarithmic)}"

    @property
    def bottom(self) -> float:
        """Its least value."""
        return 10**self.low if self.logarithmic else self.low

    def place(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.log10(values) if self.logarithmic else values
        return (values - self.low) / (self.high - self.low)


def _round_numbers(low: float, high: float) -> list[float]:
    """Four to six multiples of 1, 2 or 5 times a power of ten."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= 5.5)
    return [mark * step for mark in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _whole_numbers(low: float, high: float) -> list[float]:
    """The same without those in between, if there is a whole number."""
    marks = _round_numbers(low, high)
    return [mark for mark in marks if abs(mark - round(mark)) < 1e-9] or marks


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, every second or third if there are many; with 2 and 5 if there are few."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if last - first >= 2:
        return [float(mark) for mark in range(first, last + 1, -(-(last - first) // 5))]
    wanted = (1, 2, 5) if high - low > 0.5 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    marks = [power + math.log10(digit) for power in range(first - 1, last + 1) for digit in wanted]
    return [mark for mark in marks if low - 1e-9 <= mark <= high + 1e-9] or [low, high]


def _doublings(low: float, high: float) -> list[float]:
    """Powers of two, every second or third if there are many; other round numbers if there are few."""
    double = math.log10(2)
    first, last = math.ceil(low / double - 1e-9), math.floor(high / double + 1e-9)
    if last - first < 1:
        return _decades(low, high)
    return [mark * double for mark in range(first, last + 1, -(-(last - first) // 9) or 1)]


def _label(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        digits, power = f"{value:.5e}".split("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:,.6g}"
