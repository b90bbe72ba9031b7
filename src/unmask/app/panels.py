"""What the tabs show, as HTML: charts with their sentences, and tables. The texts of *Watch* are in `player`."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from unmask.app import chart
from unmask.app.chart import Chart, spoken
from unmask.app.data import distributions as tradeoffs
from unmask.app.data import model as measured
from unmask.app.data import schedules as laws
from unmask.app.lines import Bars, Bound, Joined, Line, Marked, Points, Ticks
from unmask.names import DISTRIBUTIONS, GAUGES, SIZES
from unmask.words.sentences import ROUNDING, counted, evaluated, number

_SPREAD = "The number after ± is the standard error that comes from estimating the curve."
_SAME = 1 + 1e-9  # factors that differ by less are the same but for rounding
_GREY = 7  # the colour of what is no schedule
_MARKED = 5  # the colour of what is advised
_SHOWN = (8, 16, 32, 64, 128, 256)  # columns of the table of errors, as far as they fit


def _style(name: str) -> int:
    """A schedule has its colour wherever it appears, and whatever else does."""
    look = SIZES[name].look
    assert look is not None  # of every size that the page offers
    return look.page


def schedules(view: laws.SizeLaws, measure: str) -> str:
    """Mean sizes, cut probabilities, and overhang against a gauge."""
    return "".join(chart.html(each) for each in _schedule_charts(view, measure)) + guarantees(view)


def _schedule_charts(view: laws.SizeLaws, measure: str) -> list[Chart]:
    place = np.arange(1.0, view.length)
    step = np.arange(1.0, view.steps + 1)
    spread = max(law.mean_sizes.max() / max(law.mean_sizes.min(), 1e-300) for law in view.laws)
    sizes = "; ".join(_range(law.name, law.mean_sizes) for law in view.laws)
    cuts = "; ".join(_cuts(law) for law in view.laws)
    ticks = (
        " Ticks at the top mark where steps of fixed sizes end, which is certain."
        if any(map(_fixed, view.laws))
        else ""
    )
    peaks = "; ".join(
        f"{law.name} at most {spoken(float(law.overhang.max()))} at token {int(law.overhang.argmax()) + 1}"
        for law in view.laws
    )
    least = view.least[measure]
    within = [law.name for law in view.laws if law.guarantees[measure] <= least * _SAME]
    verdict = "none of these schedules stays below it everywhere"
    if within:
        verdict = f"{_listed(within)} stay{'s' if len(within) == 1 else ''} below it everywhere"
    best = f"best possible: {number(least)} × gauge of {GAUGES[measure].factor}"
    allowed = Bound(best, place, least * GAUGES[measure].make(view.length), _GREY)
    return [
        Chart(
            "mean-sizes",
            "Mean sizes",
            f"Tokens revealed by each of {counted(view.steps, 'step')}, on average: {sizes}.",
            "step",
            "tokens",
            [Bars(law.name, step, law.mean_sizes, _style(law.name)) for law in view.laws],
            log_y=spread > 20,
        ),
        Chart(
            "cuts",
            "Cut probabilities",
            f"Probability that a step ends after this many of the {view.length:,} tokens: {cuts}.{ticks}",
            "tokens revealed",
            "probability",
            [(Ticks if _fixed(law) else Joined)(law.name, place, law.cuts, _style(law.name)) for law in view.laws],
        ),
        Chart(
            "overhang",
            "Overhang against the gauge",
            f"Tokens revealed in the same step as the i-th, but after it, on average: {peaks}. The dotted line is the "
            f"most that the best guarantee for {GAUGES[measure].factor} allows, {number(least)} times its gauge; "
            f"{verdict}.",
            "token i",
            "tokens after it",
            [*(Joined(law.name, place, law.overhang, _style(law.name)) for law in view.laws), allowed],
        ),
    ]


def guarantees(view: laws.SizeLaws) -> str:
    """The guarantees in a table, the best of each column in bold."""
    heads = ["size", *(f"× {entry.factor}" for entry in GAUGES.values()), "by theorem"]
    best = {key: min(law.guarantees[key] for law in view.laws) for key in GAUGES}
    rows = []
    for law in view.laws:
        cells = [
            f"<b>{number(value)}</b>" if value <= best[key] * _SAME else number(value)
            for key, value in law.guarantees.items()
        ]
        rows.append([escape(law.name), *cells, "" if law.theorem is None else number(law.theorem)])
    rows.append(["<i>best possible</i>", *(number(view.least[key]) for key in GAUGES), ""])
    caption = (
        "For every distribution of this length, the expected KL is at most this factor times the dependence between "
        "the tokens: total correlation (TC), dual total correlation (DTC), the smaller of the two, or their sum. The "
        "smallest factor of each column is in bold. The last column has the factors that the theorems of Zhao & Cai's "
        "paper give for the paper's own schedules: times TC for tc, and times DTC for dtc."
    )
    return table("Guarantees", heads, rows, caption)


def errors(view: tradeoffs.Tradeoff) -> str:
    """Error against steps on one distribution, and some of it in a table."""
    loss = view.known.curve
    summary = DISTRIBUTIONS[view.known.record["name"]].sentence.format(**view.known.record)
    facts = (
        f"{view.known.title} ({summary}): "
        f"entropy {spoken(loss.entropy)}, TC {spoken(loss.total_correlation)}, "
        f"DTC {spoken(loss.dual_total_correlation)} nats."
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in view.known.notes)
    head = f"<p class='facts'>{escape(facts)}</p>{notes}"
    if not view.errors:
        return head
    lines: list[Line] = []
    for each in view.errors:
        kl = np.where(each.kl > ROUNDING, each.kl, 0.0)
        lines.append(Marked(Joined(each.name, each.steps.astype(float), kl, _style(each.name))))
        # Nothing is worse than a single step, which costs TC: a promise above that says nothing.
        says = (each.bound > ROUNDING) & (each.bound <= loss.total_correlation * _SAME)
        bound = np.where(says, each.bound, np.nan)
        lines.append(
            Bound(f"{each.name}, {each.promise}", each.steps.astype(float), bound, _style(each.name), label="")
        )
    middle = int(np.searchsorted(view.errors[0].steps, np.sqrt(loss.length)))
    count = int(view.errors[0].steps[middle])
    ranked = sorted(view.errors, key=lambda each: each.kl[middle])
    words = ", ".join(f"{each.name} {_error(each, middle)}" for each in ranked)
    spread = "" if ranked[0].error is None else f" {_SPREAD}"
    figure = Chart(
        "errors",
        "Error against steps",
        f"Expected KL with {counted(count, 'step')}, in nats: {words}. Dotted lines are guarantees, known beforehand, "
        f"and no error is above its guarantee. A ▾ marks an error of zero, as with one token per step.{spread}",
        "steps",
        "expected KL, nats",
        lines,
        log_x=True,
        log_y=True,
    )
    return head + chart.html(figure) + _error_table(view)


def _error_table(view: tradeoffs.Tradeoff) -> str:
    steps = view.errors[0].steps
    shown = sorted({int(np.abs(steps - count).argmin()) for count in _SHOWN if count <= view.known.curve.length})
    shown = shown or list(range(len(steps)))
    best = [min(each.kl[place] for each in view.errors) for place in shown]
    rows = []
    for each in view.errors:
        cells = [
            f"<b>{_error(each, place)}</b>" if each.kl[place] <= least + ROUNDING else _error(each, place)
            for place, least in zip(shown, best, strict=True)
        ]
        rows.append([escape(each.name), *cells])
    heads = ["size", *(f"K = {int(steps[place])}" for place in shown)]
    caption = "The smallest of each column is in bold." + ("" if view.errors[0].error is None else f" {_SPREAD}")
    return table("Expected KL in nats", heads, rows, caption)


def report(view: measured.Overview, warning: str) -> str:
    """Advice, loss curves, costs and the implied sizes, after a warning if there is one."""
    first, *others = view.words
    before = f"<p class='warning' role='note'>{escape(warning)}</p>" if warning else ""
    words = f"<p class='advice'>{escape(first)}</p>" + "".join(f"<p>{escape(each)}</p>" for each in others)
    measured_on = f"{counted(view.calibration.texts, 'text')} of {counted(view.calibration.length, 'token')}"
    about = f"<p class='facts'>{escape(measured_on)} were measured.</p>"
    return before + words + about + "".join(chart.html(each) for each in _report_charts(view))


def _report_charts(view: measured.Overview) -> list[Chart]:
    """What it costs comes first, since that is what the advice was chosen by; then what it was computed from."""
    colours = {each.name: place for place, each in enumerate(view.losses)}
    charts = []
    if view.losses:
        charts.append(_cost_chart(view, colours))
    elif view.tried:
        charts.append(_tried_chart(view))
    sizes = view.sizes
    # Nothing is to be seen where predictions decide the sizes, or where all are the same, as the advice says in words.
    if sizes.size and sizes.min() < sizes.max():
        charts.append(_size_chart(view.advice.order, sizes, colours))
    if view.losses:
        charts.append(_loss_chart(view, colours))
    return charts


def _cost_chart(view: measured.Overview, colours: Mapping[str, int]) -> Chart:
    ends = "; ".join(f"{each.name} {spoken(each.costs.min())}" for each in view.losses)
    advice, unit = view.advice, view.advice.tokens * np.log(2)
    best = advice.best / unit
    above = [np.where(each.costs - best > ROUNDING, each.costs - best, 0.0) for each in view.losses]
    ends_at = float(max(each.costs.size for each in view.losses))
    marks: list[Line] = []
    if advice.limit is not None:
        allowed = advice.limit / unit - best
        both = np.array([1.0, ends_at])
        marks.append(Bound(f"target, {spoken(allowed)}", both, np.repeat(allowed, 2), _GREY, "target"))
    spent = np.array([advice.evaluations])
    took = np.array([advice.plan.nll / unit - best])
    marks.append(Points(f"advised: {advice.order}", spent, took, _MARKED, label="advised"))
    return Chart(
        "costs",
        "Cost of the best sizes",
        f"Predicted bits per token above the best cost of one token at a time ({advice.reference}, "
        f"{spoken(best)}), against the number of steps. The lowest total cost of each order: {ends}. The advice costs "
        f"{_more(float(took[0]))} with {evaluated(advice.evaluations)}. A ▾ marks a cost that is no higher than the "
        "best.",
        "steps",
        "bits per token above the best",
        [
            *(
                Marked(Joined(each.name, np.arange(1.0, each.costs.size + 1), extra, colours[each.name]))
                for each, extra in zip(view.losses, above, strict=True)
            ),
            *marks,
        ],
        log_x=True,
        log_y=True,
    )


def _size_chart(order: str, sizes: np.ndarray, colours: Mapping[str, int]) -> Chart:
    bars = Bars(order, np.arange(1.0, sizes.size + 1), sizes.astype(float), colours.get(order, len(colours)))
    said = f"Tokens revealed by each of {counted(sizes.size, 'step')} in the order {order}: {_explicit(sizes)}."
    return Chart("implied", "The advised schedule", said, "step", "tokens", [bars])


def _loss_chart(view: measured.Overview, colours: Mapping[str, int]) -> Chart:
    least = min(view.losses, key=lambda each: each.loss[-1])
    ranges = "; ".join(f"{each.name} {spoken(each.loss[0])} to {spoken(each.loss[-1])}" for each in view.losses)
    return Chart(
        "losses",
        "Loss curves",
        f"Mean loss of a masked token in bits, from the fewest visible tokens measured to the most: {ranges}. "
        f"The curve of {least.name} ends lowest.",
        "visible tokens",
        "bits per token",
        [Joined(each.name, each.visible.astype(float), each.loss, colours[each.name]) for each in view.losses],
    )


def _tried_chart(view: measured.Overview) -> Chart:
    """What was measured schedule by schedule, which is all there is of a model that remembers."""
    ends = "; ".join(f"{each.name} {spoken(each.costs.min())}" for each in view.tried)
    return Chart(
        "costs",
        "Cost of the measured schedules",
        f"Bits per token against evaluations of a text; the lowest of each kind: {ends}.",
        "evaluations",
        "bits per token",
        [Joined(each.name, each.evaluations, each.costs, place) for place, each in enumerate(view.tried)],
        log_x=True,
    )


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table whose cells are HTML already; it scrolls by itself where the page is narrow."""
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for name, *cells in rows
    )
    key = escape(title.lower().replace(" ", "-"))
    return (
        f'<p class="caption" id="{key}-caption"><b>{escape(title)}</b> {escape(caption)}</p>'
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(title)}">'
        f'<table aria-describedby="{key}-caption"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _range(name: str, sizes: np.ndarray) -> str:
    low, high = spoken(float(sizes.min())), spoken(float(sizes.max()))
    return f"{name} {low} in every step" if low == high else f"{name} from {low} to {high}"


def _more(bits: float) -> str:
    return f"{spoken(abs(bits))} {'less' if bits < 0 else 'more'}"


def _explicit(sizes: np.ndarray) -> str:
    return f"from {sizes.min()} to {sizes.max()}, {sizes[0]} first and {sizes[-1]} last"


def _cuts(law: laws.SizeLaw) -> str:
    if _fixed(law):
        return f"{law.name} at {counted(int(law.cuts.sum()), 'fixed place')}"
    return f"{law.name} from {spoken(float(law.cuts.min()))} to {spoken(float(law.cuts.max()))}"


def _fixed(law: laws.SizeLaw) -> bool:
    return bool(np.all((law.cuts == 0) | (law.cuts == 1)))


def _error(each: tradeoffs.Errors, place: int) -> str:
    value = number(float(each.kl[place])) if each.kl[place] > ROUNDING else "0"
    if each.error is None:
        return value
    return f"{value} ± {each.error[place] if each.error[place] > ROUNDING else 0:.2g}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
