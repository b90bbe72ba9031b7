"""Line charts as HTML: quick to write, as wide as the page, light or dark, and with a sentence for whoever cannot see.

The curves are an SVG that is stretched to the width at hand. Numbers and names are ordinary text beside it, so that
they stay legible on a telephone. Every chart has a sentence that says what it shows, with the numbers, and the picture
refers to it (`aria-describedby`). Values under the pointer and the buttons of the legend are the work of `chart.js`,
which reads them from the curves; `zoom.js` shows a part of the horizontal axis.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from unmask.app import labels
from unmask.app.axis import Axis
from unmask.app.lines import Line
from unmask.app.shapes import HEIGHT, WIDTH, Drawn
from unmask.words.sentences import number

_MARK = 0.06  # of the height: the mark of a zero


@dataclass(frozen=True, eq=False)
class Chart:
    """A picture and its words.

    Arguments:
        key: Unique on the page. title: What is drawn. sentence: What is to be seen in it, with the numbers.
        x_label, y_label: What the axes count.
        lines: The lines.
        log_x, log_y: Whether an axis is logarithmic.
        from_zero: Whether the vertical axis begins at 0, or at the lowest value if that is negative; a logarithmic one
            never does.
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


def html(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    lines = [line.drawn(chart.log_x, chart.log_y) for line in chart.lines]
    lines = [line for line in lines if line.x.size or line.zeros.size]
    if not any(line.x.size for line in lines):
        return (
            f'<figure class="chart"><figcaption><h2 class="title">{escape(chart.title)}</h2>'
            f"<p>{escape(chart.sentence)}</p></figcaption></figure>"
        )
    x_axis = Axis.across(np.concatenate([[*line.x, *line.zeros] for line in lines]), chart.log_x)
    heights = np.concatenate([line.heights(chart.log_y) for line in lines])
    # What stands beside the scale is a share of 1, and has the scale if there is nothing else.
    y_axis = Axis.of(heights if heights.size else np.ones(1), chart.log_y, from_zero=chart.from_zero)
    paths = "".join(
        line.html(place, x_axis, y_axis, sum(each.rows for each in lines[:place]))
        for place, line in enumerate(lines)
        if line.x.size
    )
    stacked = _stacked(lines)
    marks = _marks(lines, x_axis, stacked)
    grid = "".join(f'<path class="grid" d="M0 {_y(at)}H{WIDTH}"/>' for at, _ in y_axis.ticks)
    rows = "".join(f'<span style="bottom:{at:.2%}">{label}</span>' for at, label in y_axis.ticks)
    columns = "".join(f'<span style="left:{at:.2%}">{label}</span>' for at, label in x_axis.ticks)
    ends, room = labels.html(
        [_end(line, place, x_axis, y_axis, stacked) for place, line in enumerate(lines) if line.x.size],
        [np.stack([x_axis.place(line.x), y_axis.place(edge)], axis=1) for line in lines for edge in line.edges],
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
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{chart.key}-title" aria-describedby="{chart.key}-words">{grid}{paths}</svg>'
        f'<div class="clip" aria-hidden="true"><div class="zeros">{marks}</div></div>{ends}'
        f'<div class="columns" aria-hidden="true">{columns}</div></div>'
        f'<div class="unit below">{escape(chart.x_label)}{", logarithmic" if chart.log_x else ""}</div>'
        f"<ul>{legend}</ul>"
        f'<figcaption id="{chart.key}-words">{escape(chart.sentence)}</figcaption></figure>'
    )


def _end(line: Drawn, place: int, x_axis: Axis, y_axis: Axis, stacked: Mapping[tuple[int, float], float]) -> labels.End:
    """Where a line ends, and what is written there: beside its mark if it ends with a zero."""
    across, up = x_axis.place(line.x[-1:]), y_axis.place(line.upper[-1:])
    if line.zeros.size and line.zeros[-1] >= line.x[-1]:
        across, up = x_axis.place(line.zeros[-1:]), [stacked[place, float(line.zeros[-1])] + _MARK / 2]
    return labels.End(line.label, place, line.ink.colour, float(across[0]), float(up[0]))


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


def _stacked(lines: Sequence[Drawn]) -> dict[tuple[int, float], float]:
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


def _marks(lines: Sequence[Drawn], x_axis: Axis, stacked: Mapping[tuple[int, float], float]) -> str:
    """A mark for every zero at the lower edge."""
    marks = []
    for (number_of, place), height in stacked.items():
        style = f"left:{float(x_axis.place(np.array(place))):.2%};bottom:{height:.2%}"
        kind = f'class="c{lines[number_of].ink.colour}" data-line="{number_of}"'
        marks.append(f'<span {kind} style="{style}">▾</span>')
    return "".join(marks)


def _swatch(line: Drawn) -> str:
    return f'<svg viewBox="0 0 24 8" aria-hidden="true"><path {line.look} d="M0 4H24"/></svg>'


def _y(share: float) -> str:
    return f"{(1 - share) * HEIGHT:.0f}"


def spoken(value: float) -> str:
    """A number in a sentence: four digits, without zeros that say nothing.

    Example:
        >>> spoken(8.0), spoken(0.0135), spoken(12345.6)
        ('8', '0.0135', '12,346')
    """
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
