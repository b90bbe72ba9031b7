"""What is drawn of a line: a path of the SVG, or several, and what the rest of the chart must know of it."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from unmask.app.axis import Axis

WIDTH, HEIGHT = 1000, 1000  # units of the drawing, stretched by the page
_COLOURS = 8  # of page.css
_DASHES = ("", "8 3", "12 3 2 3")
_ROW, _TICK = 0.06, 0.04  # of the height: from one row of ticks to the next, and the length of a tick
_ALONE = 8  # units to each side of a point that no other point is joined to: by itself it would not be seen


@final
@dataclass(frozen=True)
class Ink:
    """How a path looks.

    Attributes:
        colour: The number of its colour. dash: The pattern of its dashes; none if empty.
        kind: One more class of `page.css`; none if empty.
    """

    colour: int
    dash: str = ""
    kind: str = ""

    @classmethod
    def of(cls, style: int) -> "Ink":
        """That of a style; more styles than there are colours change the dashes."""
        return cls(style % _COLOURS, _DASHES[style // _COLOURS % len(_DASHES)])

    @classmethod
    def faint(cls, style: int) -> "Ink":
        """Thin and dotted."""
        return cls(style % _COLOURS, "1 4", "faint")

    def classes(self, *more: str) -> str:
        return f'class="{" ".join(("line", f"c{self.colour}", *filter(None, (self.kind, *more))))}"'

    def attributes(self, *more: str) -> str:
        return self.classes(*more) + (f' stroke-dasharray="{self.dash}"' if self.dash else "")


@dataclass(frozen=True, eq=False)
class Drawn(ABC):
    """A line as it is drawn.

    Arguments:
        name: What the legend says. label: What stands at its end; nothing if empty.
        ink: How it looks.
        x: Where its points are.
        zeros: Where it is exactly 0 and marked for it.
    """

    rows: ClassVar[int] = 0  # that it takes at the upper edge

    name: str
    label: str
    ink: Ink
    x: NDArray[np.float64]
    zeros: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), kw_only=True)

    @property
    @abstractmethod
    def upper(self) -> NDArray[np.float64]:
        """Its upper edge, a height for each point."""

    @property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        """The heights that names must leave free, for each point."""
        return (self.upper,)

    def heights(self, logarithmic: bool) -> NDArray[np.float64]:
        """The values that the vertical axis must have, if it is logarithmic or if it is not."""
        return np.concatenate([np.empty(0), *self.edges])

    @property
    def look(self) -> str:
        """The attributes of its path, and of its sample in the legend."""
        return self.ink.attributes()

    @abstractmethod
    def html(self, place: int, x_axis: Axis, y_axis: Axis, row: int) -> str:
        """Its path.

        Arguments:
            place: Its number, by which the scripts of the page find it.
            x_axis, y_axis: The axes.
            row: Rows at the upper edge that are taken.
        """


@final
@dataclass(frozen=True, eq=False)
class Stroke(Drawn):
    """Points joined by straight lines."""

    y: NDArray[np.float64]

    @property
    def upper(self) -> NDArray[np.float64]:
        return self.y

    def html(self, place: int, x_axis: Axis, y_axis: Axis, row: int) -> str:
        across, up = _across(self.x, x_axis), _down(self.y, y_axis)
        if self.x.size == 1:
            across, up = np.array([across[0] - _ALONE, across[0] + _ALONE]), np.repeat(up, 2)
        return f'<path {self.look} data-line="{place}" data-kind="line" d="M{" ".join(_pairs(across, up))}"/>'


@final
@dataclass(frozen=True, eq=False)
class Band(Drawn):
    """All between two edges: a line that turns more often than can be seen."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def upper(self) -> NDArray[np.float64]:
        return self.high

    @property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        return self.low, self.high

    @property
    def look(self) -> str:
        return self.ink.attributes("band")

    def html(self, place: int, x_axis: Axis, y_axis: Axis, row: int) -> str:
        across = _across(self.x, x_axis)
        low, high = (_down(edge, y_axis) for edge in self.edges)
        pairs = _pairs(np.concatenate([across, across[::-1]]), np.concatenate([high, low[::-1]]))
        return f'<path {self.look} data-line="{place}" data-kind="band" d="M{" ".join(pairs)}Z"/>'


@final
@dataclass(frozen=True, eq=False)
class Notches(Drawn):
    """Ticks at the upper edge, in a row of their own beside any scale."""

    rows: ClassVar[int] = 1

    @property
    def upper(self) -> NDArray[np.float64]:
        return np.ones(self.x.shape)

    @property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        return ()

    def html(self, place: int, x_axis: Axis, y_axis: Axis, row: int) -> str:
        top = HEIGHT * _ROW * row
        marks = "".join(f"M{at:.1f} {top:.0f}v{HEIGHT * _TICK:.0f}" for at in _across(self.x, x_axis).tolist())
        return f'<path {self.look} data-line="{place}" data-kind="ticks" d="{marks}"/>'


@final
@dataclass(frozen=True, eq=False)
class Scatter(Drawn):
    """A dot for every value, a line through them, and a bar of one standard error to each side.

    The pointer reads the numbers themselves, so that the path has them too. An error that is not finite is not known.
    """

    y: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def upper(self) -> NDArray[np.float64]:
        return self.y

    @property
    def _spread(self) -> NDArray[np.float64]:
        """The length of each bar to one side; 0 if there is none."""
        return np.where(np.isfinite(self.error) & (self.error > 0), self.error, 0.0)

    def heights(self, logarithmic: bool) -> NDArray[np.float64]:
        lowest = self.y - self._spread
        if logarithmic:
            # The lower end of a bar may be 0 or less, which has no place there, or so little above 0 that the axis
            # would have decades for it alone. Such a bar is drawn down to the lower edge: it goes on below.
            lowest = np.where(lowest > self.y / 2, lowest, self.y)
        return np.concatenate([lowest, self.y + self._spread])

    def html(self, place: int, x_axis: Axis, y_axis: Axis, row: int) -> str:
        across, up = _across(self.x, x_axis), _down(self.y, y_axis)
        pairs = _pairs(across, up)
        numbers = [[_exact(value) for value in each] for each in zip(self.x, self.y, self.error, strict=True)]
        through = (
            f'<path {self.look} data-line="{place}" data-kind="points" data-values="{json.dumps(numbers)}" '
            f'd="M{" ".join(pairs)}"/>'
        )
        dots = "".join(f"M{pair}h0" for pair in pairs)
        known = self._spread > 0
        ends = (np.maximum(each, y_axis.bottom)[known] for each in (self.y - self._spread, self.y + self._spread))
        low, high = (_down(each, y_axis).tolist() for each in ends)
        bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(across[known].tolist(), low, high, strict=True))
        return (
            through
            + (f'<path {self.ink.classes("bar")} data-line="{place}" d="{bars}"/>' if bars else "")
            + f'<path {self.ink.classes("dot")} data-line="{place}" d="{dots}"/>'
        )


def _across(x: NDArray[np.float64], axis: Axis) -> NDArray[np.float64]:
    return axis.place(x) * WIDTH


def _down(y: NDArray[np.float64], axis: Axis) -> NDArray[np.float64]:
    """Units below the upper edge."""
    return (1 - axis.place(y)) * HEIGHT


def _pairs(across: NDArray[np.float64], down: NDArray[np.float64]) -> list[str]:
    return [f"{a:.1f} {b:.1f}" for a, b in zip(across.tolist(), down.tolist(), strict=True)]


def _exact(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
