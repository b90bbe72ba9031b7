"""Names at the ends of curves, so that nobody has to go back and forth between a curve and its legend.

Curves that end at the right edge have their names in the margin beside it, one below the other. Those that end before
it have theirs next to the end, if it covers neither another name nor a curve. How wide letters are is known to the
browser alone; here it is estimated, and a name that might not fit is left to the legend.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

TALL, _WIDE = 0.075, 0.0105  # of a name's line, and of a letter, as shares of a chart of 220 by 650 pixels
_INK = 0.06  # of a name's line without the room above and below its letters
_EDGE = 0.985  # what ends beyond this ends at the right edge
_LONGEST = 28  # letters
_MOST = 13  # names that stand one below the other


@dataclass(frozen=True)
class End:
    """The end of a curve.

    Attributes:
        name: What to write there; nothing if empty.
        line: The number of the curve. colour: That of its colour.
        x, y: Where it ends, as shares of the chart.
    """

    name: str
    line: int
    colour: int
    x: float
    y: float


def html(ends: Sequence[End], curves: Sequence[NDArray[np.float64]]) -> tuple[str, int]:
    """The names, and how many letters wide the margin for them must be.

    Arguments:
        ends: The ends of the curves.
        curves: Every curve that is drawn, as places in the chart: shares of its width and height, shape `(points, 2)`.
    """
    named = [end for end in ends if end.name and len(end.name) <= _LONGEST]
    beside = sorted((end for end in named if end.x >= _EDGE), key=lambda end: end.y)
    if len(beside) > _MOST:
        beside = []
    room = max((len(end.name) for end in beside), default=0)
    heights = _apart([end.y for end in beside])
    spans = [_span(end, 1.0, at) for end, at in zip(beside, heights, strict=True)]
    edge = 1.0 + _WIDE * room
    taken = [(1.0, edge, at) for at in heights]
    parts = np.concatenate([np.empty((0, 4)), *(_strokes(each) for each in curves)])
    for end in sorted((end for end in named if end.x < _EDGE), key=lambda end: end.x):
        wide = _WIDE * (len(end.name) + 1)
        # To the right of the end if there is room, below first, as most curves come from above; else before and below.
        beyond = [(end.x, end.y - TALL), (end.x, end.y), (end.x, end.y + TALL)]
        for x, at in [*beyond, (end.x - wide, end.y - TALL)]:
            free = all(x > right or x + wide < left or abs(at - y) >= TALL for left, right, y in taken)
            # A curve between a name and its end would take the name for itself.
            low, high = min(at - _INK / 2, end.y), max(at + _INK / 2, end.y)
            free = free and not _crossed(parts, (x + _WIDE / 2, low), (x + wide - _WIDE / 2, high))
            if free and -0.02 <= at <= 1.0 and x >= 0.0 and x + wide <= max(edge, 1.0):
                taken.append((x, x + wide, at))
                spans.append(_span(end, x, at))
                break
    return (f'<div class="ends" aria-hidden="true">{"".join(spans)}</div>' if spans else ""), room


def _strokes(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The strokes of a curve, from where to where, shape `(strokes, 4)`. One point by itself is a stroke to itself."""
    return np.hstack([curve[:-1], curve[1:]] if len(curve) > 1 else [curve, curve])


def _crossed(parts: NDArray[np.float64], low: tuple[float, float], high: tuple[float, float]) -> bool:
    """Whether a straight part of a curve, a row `x, y, x, y`, enters a rectangle with these corners.

    Example:
        >>> across, beside = np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([[0.0, 0.5, 0.3, 0.5]])
        >>> _crossed(across, (0.4, 0.4), (0.6, 0.6)), _crossed(beside, (0.4, 0.4), (0.6, 0.6))
        (True, False)
    """
    start, way = parts[:, :2], parts[:, 2:] - parts[:, :2]
    way = np.where(way == 0, 1e-12, way)
    # How far along the part it passes the sides of the rectangle, in each direction.
    sides = np.sort(np.stack([(low - start) / way, (high - start) / way]), axis=0)
    enters, leaves = sides[0].max(axis=1, initial=0.0), sides[1].min(axis=1, initial=1.0)
    return bool((enters <= leaves).any())


def _apart(wanted: Sequence[float]) -> list[float]:
    """Heights in the same order, each at least one line above the one before, and near to those wanted.

    Example:
        >>> [round(at, 3) for at in _apart([0.0, 0.0, 0.5])], [round(at, 3) for at in _apart([0.98, 0.99])]
        ([0.0, 0.075, 0.5], [0.925, 1.0])
    """
    found: list[float] = []
    for at in wanted:
        found.append(max(at, found[-1] + TALL) if found else max(at, 0.0))
    most = 1.0
    for place in range(len(found) - 1, -1, -1):
        found[place] = min(found[place], most)
        most = found[place] - TALL
    return found


def _span(end: End, x: float, y: float) -> str:
    return (
        f'<span class="c{end.colour}" data-line="{end.line}" style="left:{x:.2%};bottom:{y:.2%}">'
        f"{escape(end.name)}</span>"
    )
