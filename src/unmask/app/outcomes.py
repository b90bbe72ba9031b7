"""What the tab *Results* shows, as HTML: for each collection two sentences, a chart, and all of its numbers."""

from html import escape

import numpy as np

from unmask.app import chart
from unmask.app.chart import Chart, spoken
from unmask.app.data.results import AXES, Collection, Compared, Series
from unmask.app.lines import Bound, Line, Marked, Points
from unmask.app.panels import table
from unmask.words.sentences import counted, number

_NOTHING = 1e-6  # bits: what is below is zero on an axis that spans decades
_SAID = 9  # rules in the sentence of a chart
_GREY = 7  # the colour of what is no rule


def compared(view: Compared) -> str:
    """One collection after the other."""
    return "".join(_collection(each, view) for each in view.collections)


def axis_of(each: Collection, axis: str) -> str:
    """The axis of a collection: the one asked for, unless its work was not counted so."""
    return axis if each.counted(axis) else "evaluations"


def _collection(each: Collection, view: Compared) -> str:
    axis, series = axis_of(each, view.axis), each.chosen(view.which)
    words = f"<p class='sees'>{escape(each.sees)}</p><p class='takes'>{escape(each.takes)}</p>"
    return (
        f"<section class='collection' aria-label='{escape(each.title)}'>"
        f"{words}{_chart(each, axis, series)}{_table(each, series)}</section>"
    )


def _chart(each: Collection, axis: str, series: tuple[Series, ...]) -> str:
    lines: list[Line] = [_line(one, axis, place, each.logarithmic) for place, one in enumerate(series)]
    if each.reference is not None:
        name, cost = each.reference
        known = [work for one in series for value in one.values if (work := value.along(axis)) is not None]
        both = np.array([min(known), max(known)])
        lines.append(Bound(f"{name}, {spoken(cost)}", both, np.repeat(cost, 2), _GREY, name))
    ranked = sorted(series, key=lambda one: min(value.cost for value in one.values))
    said = "; ".join(f"{one.name} {_lowest(one, axis)}" for one in ranked[:_SAID])
    more = f"; {len(ranked) - _SAID} more are in the table" if len(ranked) > _SAID else ""
    few = " A ▾ marks less than a millionth of a bit." if each.logarithmic else ""
    bars = " Bars are one standard error to each side." if _has_errors(series) else ""
    return chart.html(
        Chart(
            f"results-{each.key}",
            each.title,
            f"The lowest cost of each rule, in {each.unit}: {said}{more}.{bars}{few}",
            AXES[axis],
            each.unit,
            lines,
            log_x=True,
            log_y=each.logarithmic,
            from_zero=False,
        )
    )


def _line(one: Series, axis: str, place: int, logarithmic: bool) -> Line:
    work = np.array([value.along(axis) for value in one.values], dtype=np.float64)
    cost = np.array([value.cost for value in one.values])
    spread = np.array([np.nan if value.error is None else value.error for value in one.values])
    if not logarithmic:
        return Points(one.name, work, cost, place, spread)
    return Marked(Points(one.name, work, np.where(cost > _NOTHING, cost, 0.0), place, spread))


def _lowest(one: Series, axis: str) -> str:
    best = min(one.values, key=lambda value: value.cost)
    return f"{spoken(max(best.cost, 0.0)) if best.cost > _NOTHING else '0'} at {spoken(best.along(axis) or 0.0)}"


def _has_errors(series: tuple[Series, ...]) -> bool:
    return any(value.error for one in series for value in one.values)


def _table(each: Collection, series: tuple[Series, ...]) -> str:
    passes = each.counted("passes")
    heads = ["rule", "setting", "evaluations", *(["passes"] if passes else []), each.unit, "± error"]
    rows = [
        [
            escape(one.name),
            escape(value.setting),
            spoken(value.evaluations),
            *([spoken(value.passes or 0.0)] if passes else []),
            number(value.cost) if abs(value.cost) > _NOTHING else "0",  # digits below one another
            "" if value.error is None else f"{value.error:#.2g}".rstrip("."),
        ]
        for one in series
        for value in one.values
    ]
    caption = f"{counted(len(rows), 'number')}, from experiments/results/{each.source}."
    return f"<div class='numbers'>{table(f'{each.title}, in numbers', heads, rows, caption)}</div>"
