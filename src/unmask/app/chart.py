"""Line charts as HTML: quick to write, as wide as the page, light or dark, and with a sentence for whoever cannot see.

The curves are an SVG that is stretched to the width at hand. Numbers and names are ordinary text beside it, so that
they stay legible on a telephone. Every chart has a sentence that says what it shows, with the numbers, and the picture
refers to it (`aria-describedby`). Values under the pointer and the buttons of the legend are the work of `chart.js`,
which reads them from the curves; `zoom.js` shows a part of the horizontal axis.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask.app import labels
from unmask.app.axis import Axis
from unmask.words.sentences import number

_WIDTH, _HEIGHT = 1000, 1000  # units of the drawing, stretched by the page
_BUCKETS = 240  # a curve has at most two points in each: its least and its greatest
_COLOURS = 8  # of page.css
_MARK = 0.06  # of the height: the mark of a zero
_ROW, _TICK = 0.06, 0.04  # of the height: from one row of ticks to the next, and the length of a tick
_DASHES = ("", "8 3", "12 3 2 3")


@dataclass(frozen=True, eq=False)
class Line:
    """One curve.

    Arguments:
        name: What the legend says.
        x, y: The points. Values that are not finite, or not positive on a logarithmic axis, leave a gap.
        style: Number of its colour; more than there are colours change the dashes.
        faint: Whether it is drawn as a bound: thin and dotted.
        bars: Whether each value holds from one half before its place to one half after.
        ticks: Whether it is 1 at some places and 0 elsewhere: these are ticks at the upper edge, beside any scale.
        zeros: Whether places where it is exactly 0 are marked at the lower edge; a logarithmic axis has no room for 0.
        points: Whether every value was measured by itself: each is a dot, and the pointer reads the number itself.
        errors: The standard error of each value, drawn as a bar; None if there are none. Only for `points`.
        label: What stands at its end; its name by default, and nothing if empty.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: int
    faint: bool = False
    bars: bool = False
    ticks: bool = False
    zeros: bool = False
    points: bool = False
    errors: NDArray[np.float64] | None = None
    label: str | None = None


@dataclass(frozen=True, eq=False)
class Chart:
    """A picture and its words.

    Arguments:
        key: Unique on the page. title: What is drawn. sentence: What is to be seen in it, with the numbers.
        x_label, y_label: What the axes count.
        lines: The curves.
        log_x, log_y: Whether an axis is logarithmic.
        from_zero: Whether the vertical axis begins at 0, if it is not logarithmic.
    """

    key: str
    title: str
    sentence: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True


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


def html(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    lines = [_drawn(line, chart) for line in chart.lines]
    lines = [line for line in lines if line.x.size or line.zeros.size]
    if not any(line.x.size for line in lines):
        return (
            f'<figure class="chart"><figcaption><h2 class="title">{escape(chart.title)}</h2>'
            f"<p>{escape(chart.sentence)}</p></figcaption></figure>"
        )
    x_axis = Axis.across(np.concatenate([[*line.x, *line.zeros] for line in lines]), chart.log_x)
    # Ticks stand beside the scale, which is theirs only if there is nothing else.
    scaled = [line for line in lines if not line.ticks] or lines
    y_axis = Axis.of(
        np.concatenate([[*line.low, *line.high] for line in scaled]), chart.log_y, from_zero=chart.from_zero
    )
    ticked = [line for line in lines if line.ticks]
    paths = "".join(
        _ticks(line, place, x_axis, ticked.index(line)) if line.ticks else _path(line, place, x_axis, y_axis)
        for place, line in enumerate(lines)
        if line.x.size
    )
    heights = _heights(lines)
    marks = _marks(lines, x_axis, heights)
    grid = "".join(f'<path class="grid" d="M0 {_y(at)}H{_WIDTH}"/>' for at, _ in y_axis.ticks)
    rows = "".join(f'<span style="bottom:{at:.2%}">{label}</span>' for at, label in y_axis.ticks)
    columns = "".join(f'<span style="left:{at:.2%}">{label}</span>' for at, label in x_axis.ticks)
    ends, room = labels.html(
        [_end(line, place, x_axis, y_axis, heights) for place, line in enumerate(lines) if line.x.size],
        [
            np.stack([x_axis.place(line.x), y_axis.place(edge)], axis=1)
            for line in scaled
            for edge in ((line.low, line.high) if line.band else (line.high,))
        ],
    )
    legend = "".join(
        f'<li><button type="button" aria-pressed="true" data-line="{place}">{_swatch(line)}{escape(line.name)}'
        "</button></li>"
        for place, line in enumerate(lines)
    )
    margin = max(len(label) for _, label in y_axis.ticks)
    scale = ", logarithmic" if chart.log_y else ""
    return (
        f'<figure class="chart" style="--margin:{margin}ch;--ends:{room}ch" data-chart="{chart.key}" '
        f'data-x="{x_axis.said}" data-y="{y_axis.said}" data-unit="{escape(chart.x_label)}">'
        f'<h2 class="title" id="{chart.key}-title">{escape(chart.title)}</h2>{_zoom(chart.title)}'
        f'<div class="unit">{escape(chart.y_label)}{scale}</div>'
        f'<div class="field"><div class="rows" aria-hidden="true">{rows}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{chart.key}-title" aria-describedby="{chart.key}-words">{grid}{paths}</svg>'
        f'<div class="clip" aria-hidden="true"><div class="zeros">{marks}</div></div>{ends}'
        f'<div class="columns" aria-hidden="true">{columns}</div></div>'
        f'<div class="unit below">{escape(chart.x_label)}{", logarithmic" if chart.log_x else ""}</div>'
        f"<ul>{legend}</ul>"
        f'<figcaption id="{chart.key}-words">{escape(chart.sentence)}</figcaption></figure>'
    )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A curve as it is drawn; from `low` to `high` where it turns more often than can be seen."""

    name: str
    style: int
    faint: bool
    ticks: bool
    x: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    zeros: NDArray[np.float64]
    label: str
    measured: NDArray[np.float64] | None = None  # columns x, y and error, where each value was measured by itself

    @property
    def band(self) -> bool:
        return self.low is not self.high


def _drawn(line: Line, chart: Chart) -> _Drawn:
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    good &= (x > 0) | (not chart.log_x)
    zeros = x[good & (y == 0)] if line.zeros else np.empty(0)
    label = line.name if line.label is None else line.label
    good &= (y > 0) | (not chart.log_y)
    x, y = x[good], y[good]
    if line.points:
        spread = np.full(good.shape, np.nan) if line.errors is None else np.asarray(line.errors, dtype=np.float64)
        return _Drawn(
            line.name, line.style, line.faint, False, x, y, y, zeros, label, np.stack([x, y, spread[good]], axis=1)
        )
    if line.ticks:
        x, y = x[y > 0], y[y > 0]
        if x.size > _BUCKETS:  # more of them would be a solid block
            x, y = (each[np.arange(_BUCKETS) * x.size // _BUCKETS] for each in (x, y))
        return _Drawn(line.name, line.style, line.faint, True, x, y, y, zeros, "")
    if line.bars and x.size <= _BUCKETS:
        x, y = np.stack([x - 0.5, x + 0.5], axis=1).ravel(), np.repeat(y, 2)
    if _turns(y) > _BUCKETS:
        # One line to and fro would be a solid block, or teeth that are not there.
        edges = np.arange(_BUCKETS) * x.size // _BUCKETS
        high = np.maximum.reduceat(y, edges)
        low = np.minimum.reduceat(y, edges)
        x = np.concatenate([x[edges][:-1], x[-1:]])
        return _Drawn(line.name, line.style, line.faint, False, x, low, high, zeros, label)
    x, y = thinned(x, y)
    return _Drawn(line.name, line.style, line.faint, False, x, y, y, zeros, label)


def _turns(y: NDArray[np.float64]) -> int:
    """How often a curve turns up or down; what is flat but for rounding does not."""
    change = np.diff(y)
    up = change[np.abs(change) > 1e-9 * np.abs(y).max(initial=0.0)] > 0
    return int(np.count_nonzero(up[1:] != up[:-1]))


def _ticks(line: _Drawn, place: int, x_axis: Axis, row: int) -> str:
    """Ticks of one curve at the upper edge, each curve in a row of its own."""
    top = _HEIGHT * _ROW * row
    marks = "".join(f"M{at:.1f} {top:.0f}v{_HEIGHT * _TICK:.0f}" for at in (x_axis.place(line.x) * _WIDTH).tolist())
    return f'<path {_look(line)} data-line="{place}" data-kind="ticks" d="{marks}"/>'


def _path(line: _Drawn, place: int, x_axis: Axis, y_axis: Axis) -> str:
    if line.measured is not None:
        return _points(line, line.measured, place, x_axis, y_axis)
    across = x_axis.place(line.x) * _WIDTH
    low, up = ((1 - y_axis.place(values)) * _HEIGHT for values in (line.low, line.high))
    if line.x.size == 1:  # a lone point would not be seen
        across, up = np.array([across[0] - 8, across[0] + 8]), np.repeat(up, 2)
    if line.band:
        across, up = np.concatenate([across, across[::-1]]), np.concatenate([up, low[::-1]])
    points = " ".join(f"{a:.1f} {b:.1f}" for a, b in zip(across.tolist(), up.tolist(), strict=True))
    kind = "band" if line.band else "line"
    return f'<path {_look(line)} data-line="{place}" data-kind="{kind}" d="M{points}{"Z" if line.band else ""}"/>'


def _points(line: _Drawn, measured: NDArray[np.float64], place: int, x_axis: Axis, y_axis: Axis) -> str:
    """A dot for every value, a line through them, and a bar of one standard error to each side."""
    x, y, spread = measured.T
    across, up = x_axis.place(x) * _WIDTH, (1 - y_axis.place(y)) * _HEIGHT
    pairs = [f"{a:.1f} {b:.1f}" for a, b in zip(across.tolist(), up.tolist(), strict=True)]
    rows = [[_exact(value) for value in row] for row in measured.tolist()]
    look = f'class="line c{line.style % _COLOURS}'
    through = (
        f'<path {_look(line)} data-line="{place}" data-kind="points" data-values="{json.dumps(rows)}" '
        f'd="M{" ".join(pairs)}"/>'
    )
    dots = "".join(f"M{pair}h0" for pair in pairs)
    known = np.isfinite(spread) & (spread > 0)
    floor = y[known] * 1e-6 if y_axis.logarithmic else -np.inf  # a logarithmic axis has no place below 0
    reach = (np.maximum(y[known] + side * spread[known], floor) for side in (-1, 1))
    low, high = (np.clip((1 - y_axis.place(each)) * _HEIGHT, 0, _HEIGHT) for each in reach)
    ends = zip(across[known].tolist(), low.tolist(), high.tolist(), strict=True)
    bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends)
    return (
        through
        + (f'<path {look} bar" data-line="{place}" d="{bars}"/>' if bars else "")
        + f'<path {look} dot" data-line="{place}" d="{dots}"/>'
    )


def _exact(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _end(
    line: _Drawn, place: int, x_axis: Axis, y_axis: Axis, heights: Mapping[tuple[int, float], float]
) -> labels.End:
    """Where a curve ends, and what is written there: beside its mark if it ends with a zero."""
    if line.ticks:
        return labels.End("", place, 0, 0.0, 0.0)
    across, up = x_axis.place(line.x[-1:]), y_axis.place(line.high[-1:])
    if line.zeros.size and line.zeros[-1] >= line.x[-1]:
        across, up = x_axis.place(line.zeros[-1:]), [heights[place, float(line.zeros[-1])] + _MARK / 2]
    return labels.End(line.label, place, line.style % _COLOURS, float(across[0]), float(up[0]))


def _zoom(title: str) -> str:
    """Controls of `zoom.js`; all but the first are for a chart of which a part is shown."""
    return (
        f'<div class="zoom" role="group" aria-label="Zoom of {escape(title)}">'
        '<output class="part"></output>'
        '<input type="range" data-zoom="part" aria-label="Part shown" min="0" max="1000" step="1" hidden=""/>'
        '<button type="button" data-zoom="out" hidden="">Zoom out</button>'
        '<button type="button" data-zoom="in">Zoom in</button>'
        '<button type="button" data-zoom="all" hidden="">Show all</button></div>'
    )


def _heights(lines: Sequence[_Drawn]) -> dict[tuple[int, float], float]:
    """How high the mark of a zero stands, by curve and place: several at one place are one above the other.

    They are as far apart as their names, if there is room for all.
    """
    many = max(Counter(place for line in lines for place in line.zeros.tolist()).values(), default=1)
    apart = min(labels.TALL, (1 - _MARK) / many)
    below: Counter[float] = Counter()
    found = {}
    for number_of, line in enumerate(lines):
        for place in line.zeros.tolist():
            found[number_of, place] = apart * below[place]
            below[place] += 1
    return found


def _marks(lines: Sequence[_Drawn], x_axis: Axis, heights: Mapping[tuple[int, float], float]) -> str:
    """A mark for every zero at the lower edge."""
    marks = []
    for (number_of, place), height in heights.items():
        style = f"left:{float(x_axis.place(np.array(place))):.2%};bottom:{height:.2%}"
        kind = f'class="c{lines[number_of].style % _COLOURS}" data-line="{number_of}"'
        marks.append(f'<span {kind} style="{style}">▾</span>')
    return "".join(marks)


def _look(line: _Drawn) -> str:
    dash = "1 4" if line.faint else _DASHES[line.style // _COLOURS % len(_DASHES)]
    more = (" faint" if line.faint else "") + (" band" if line.band else "")
    kind = f"line c{line.style % _COLOURS}{more}"
    return f'class="{kind}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _swatch(line: _Drawn) -> str:
    return f'<svg viewBox="0 0 24 8" aria-hidden="true"><path {_look(line)} d="M0 4H24"/></svg>'


def _y(share: float) -> str:
    return f"{(1 - share) * _HEIGHT:.0f}"


def spoken(value: float) -> str:
    """A number in a sentence: four digits, without zeros that say nothing.

    Example:
        >>> spoken(8.0), spoken(0.0135), spoken(12345.6)
        ('8', '0.0135', '12,346')
    """
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
