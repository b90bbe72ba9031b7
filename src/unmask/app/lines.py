"""The lines of a chart: each kind says what of its values is drawn, and how.

A chart is about a thousand pixels wide, and a line may have thousands of values: what nobody can see is left out here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask.app.shapes import Band, Drawn, Ink, Notches, Scatter, Stroke

_BUCKETS = 240  # a line has at most two points in each: its least and its greatest


class Line(ABC):
    """A line of a chart."""

    @abstractmethod
    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        """What is drawn of it, on axes of which each may be logarithmic."""


@dataclass(frozen=True, eq=False)
class Valued(Line, ABC):
    """A line that has values.

    Arguments:
        name: What the legend says.
        x, y: The values. Those that are not finite, or not positive on a logarithmic axis, are not drawn.
        style: Number of its colour; more than there are colours change the dashes.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int

    def across(self, log_x: bool) -> NDArray[np.bool_]:
        """Which values have a place on the horizontal axis."""
        return np.isfinite(self.x) & np.isfinite(self.y) & ((self.x > 0) | (not log_x))

    def within(self, log_x: bool, log_y: bool) -> NDArray[np.bool_]:
        """Which values have a place in the chart."""
        return self.across(log_x) & ((self.y > 0) | (not log_y))


@final
@dataclass(frozen=True, eq=False)
class Joined(Valued):
    """Values joined by straight lines."""

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        shown = self.within(log_x, log_y)
        return _through(self.name, self.name, Ink.of(self.style), self.x[shown], self.y[shown])


@final
@dataclass(frozen=True, eq=False)
class Bound(Valued):
    """What others stay below, or compare with: thin and dotted.

    Arguments:
        name, x, y, style: As of any line.
        label: What stands at its end; its name by default, and nothing if empty.
    """

    label: str | None = None

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        shown = self.within(log_x, log_y)
        label = self.name if self.label is None else self.label
        return _through(self.name, label, Ink.faint(self.style), self.x[shown], self.y[shown])


@final
@dataclass(frozen=True, eq=False)
class Bars(Valued):
    """Each value holds from one half before its place to one half after, if there are so few that this can be seen."""

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        shown = self.within(log_x, log_y)
        x, y = self.x[shown], self.y[shown]
        if x.size <= _BUCKETS:
            x, y = np.stack([x - 0.5, x + 0.5], axis=1).ravel(), np.repeat(y, 2)
        return _through(self.name, self.name, Ink.of(self.style), x, y)


@final
@dataclass(frozen=True, eq=False)
class Ticks(Valued):
    """1 at some places and 0 elsewhere: a tick at the upper edge for each 1, beside any scale."""

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        x = self.x[self.within(log_x, log_y) & (self.y > 0)]
        if x.size > _BUCKETS:  # more of them would be a solid block
            x = x[np.arange(_BUCKETS) * x.size // _BUCKETS]
        return Notches(self.name, "", Ink.of(self.style), x)


@final
@dataclass(frozen=True, eq=False)
class Points(Valued):
    """Every value was measured by itself: each is a dot, and the pointer reads the number itself.

    Arguments:
        name, x, y, style: As of any line.
        errors: The standard error of each value, drawn as a bar; not a number where it is not known. None if no error
            is known.
        label: What stands at its end; its name by default, and nothing if empty.
    """

    errors: NDArray[np.float64] | None = None
    label: str | None = None

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        shown = self.within(log_x, log_y)
        label = self.name if self.label is None else self.label
        errors = np.full(shown.shape, np.nan) if self.errors is None else self.errors
        return Scatter(self.name, label, Ink.of(self.style), self.x[shown], self.y[shown], errors[shown])


@final
@dataclass(frozen=True, eq=False)
class Marked(Line):
    """Another line, with a mark at the lower edge for each value that is exactly 0: a logarithmic axis has no 0."""

    line: Valued

    def drawn(self, log_x: bool, log_y: bool) -> Drawn:
        zero = self.line.across(log_x) & (self.line.y == 0)
        return replace(self.line.drawn(log_x, log_y), zeros=self.line.x[zero])


def thinned(x: ArrayLike, y: ArrayLike, buckets: int = _BUCKETS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A curve with at most two points per bucket, its least and its greatest, and its ends.

    Example:
        >>> x, y = thinned(np.arange(10_000), np.arange(10_000) % 7 == 3, buckets=10)
        >>> len(x), float(y.min()), float(y.max())
        (21, 0.0, 1.0)
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.size <= 2 * buckets:
        return x, y
    edges = np.arange(buckets + 1) * x.size // buckets
    kept = []
    for start, stop in pairwise(edges.tolist()):
        part = y[start:stop]
        kept += sorted({start + int(part.argmin()), start + int(part.argmax())})
    # The ends are where readers look first.
    index = np.unique([0, *kept, x.size - 1])
    return x[index], y[index]


def _through(name: str, label: str, ink: Ink, x: NDArray[np.float64], y: NDArray[np.float64]) -> Drawn:
    """A stroke through these points, or what is seen of one that turns too often."""
    if _turns(y) <= _BUCKETS:
        return Stroke(name, label, ink, *thinned(x, y))
    # One line to and fro would be a solid block, or teeth that are not there.
    edges = np.arange(_BUCKETS) * x.size // _BUCKETS
    high, low = np.maximum.reduceat(y, edges), np.minimum.reduceat(y, edges)
    return Band(name, label, ink, np.concatenate([x[edges][:-1], x[-1:]]), low, high)


def _turns(y: NDArray[np.float64]) -> int:
    """How often a curve turns up or down; what is flat but for rounding does not."""
    change = np.diff(y)
    up = change[np.abs(change) > 1e-9 * np.abs(y).max(initial=0.0)] > 0
    return int(np.count_nonzero(up[1:] != up[:-1]))
