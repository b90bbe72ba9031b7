"""Numbers and advice, as people read them."""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from unmask import bounds, size
from unmask.calibration import Advice, Calibration, Forecast
from unmask.order import Blocks
from unmask.words.rules import order_and_size

_FEW = 32  # texts below which a choice among schedules is noticeably too hopeful
NO_RULES = (
    "No rules that look at predictions were measured. On Sudoku, such rules do far better than any planned order; on "
    "English text, they do worse. To compare them on your data, run `unmask calibrate` with --rules "
    "confidence,entropy-bound."
)
ROUNDING = 1e-9  # nats: an error below is exactly zero but for rounding


def number(value: float) -> str:
    """Four significant digits, without an exponent where people do not expect one.

    Example:
        >>> number(0.0478203), number(1.64), number(15211.11), number(0.0)
        ('0.04782', '1.640', '15,211', '0')
        >>> number(1e30)
        '1.000e+30'
    """
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    if abs(value) >= 9999.5:
        return f"{value:,.0f}"
    return f"{value:#.4g}".rstrip(".") if value else "0"


def error(value: float) -> str:
    """The same for an error, of which rounding alone may be left."""
    return "0" if abs(value) < ROUNDING else number(value)


def counted(number_of: int, noun: str) -> str:
    """So many things.

    Example:
        >>> counted(1, "step"), counted(2000, "token")
        ('1 step', '2,000 tokens')
    """
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"


def evaluated(number_of: float) -> str:
    """So many evaluations, on average.

    Example:
        >>> evaluated(1), evaluated(16.0), evaluated(9.25)
        ('1 evaluation', '16 evaluations', '9.25 evaluations')
    """
    return f"{number_of:.4g} {'evaluation' if number_of == 1 else 'evaluations'}"


def per_evaluation(tokens: float) -> str:
    """Tokens per evaluation, which is what others call tokens per forward pass.

    Example:
        >>> per_evaluation(2.5)
        '2.50 tokens per evaluation'
    """
    return f"{tokens:.2f} tokens per evaluation"


def abbreviated(values: Sequence[float] | NDArray[Any], most: int = 12) -> str:
    """The values, the middle ones left out when there are more than `most`.

    Example:
        >>> abbreviated(range(100), most=6)
        '0, 1, 2, … 97, 98, 99'
    """
    whole = len(values) <= most
    words = [f"{value:.4g}" for value in (values if whole else [*values[: most // 2], *values[-most // 2 :]])]
    if not whole:
        words[most // 2] = f"… {words[most // 2]}"
    return ", ".join(words)


def visible(text: str) -> str:
    """The text with a dot for every letter that cannot be seen."""
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def bits(nats: float, length: float) -> float:
    """Bits per token of so many nats per sequence."""
    return nats / length / math.log(2)


def nats(value: float) -> str:
    """An amount of information."""
    return f"{value:g} {'nat' if value == 1 else 'nats'}"


def dependence(tc: float | None, dtc: float | None) -> str:
    """What is known of the dependence."""
    return " and ".join(f"{label} {number(value)}" for label, value in (("TC", tc), ("DTC", dtc)) if value is not None)


def promised(sizes: size.Blind, length: int) -> dict[str, Any]:
    """The paper's own numbers for its own schemes, and the factor of a minimax schedule, by what they are called."""
    if isinstance(sizes, size.Minimax | size.Universal):
        return {"factor": sizes.factor(length)}
    if isinstance(sizes, size.TC):
        holds = sizes.steps > 1
        theorem = bounds.tc_factor(length, sizes.steps) if holds else None
    elif isinstance(sizes, size.DTC):
        holds = sizes.steps > bounds.harmonic(length - 1)
        theorem = bounds.dtc_factor(length, sizes.steps) if holds else None
    else:
        return {}
    return {"coefficient": sizes.coefficient(length), "theorem": theorem}


def fewest(
    length: int, tc: float | None, dtc: float | None, target: float, guaranteed: list[Any], measured: list[Any]
) -> str:
    """Which sizes to take for a target error, and with how many steps."""
    row = min(guaranteed, key=lambda row: row["exact"])
    if row["exact"] == length > 1:
        advice = f"No schedule of fewer than {length} steps can guarantee this target: reveal one token at a time."
    else:
        data_with = f"every distribution with {dependence(tc, dtc)}"
        advice = (
            f"Take '{row['size']}' with {counted(row['exact'], 'step')}: the expected KL is {nats(target)} or less "
        )
        advice += f"for {data_with}."
    known = [row for row in measured if row["steps"] is not None]
    if known:
        best = min(known, key=lambda row: (row["steps"], row["expected_kl"]))
        advice += (
            f" If the data follow exactly this distribution, '{best['size']}' needs {counted(best['steps'], 'step')}"
        )
        advice += "." if best["sure"] else ", but perhaps only because fixed sizes happen to suit this length."
    return advice


def scored(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many evaluations scoring took, and writing would take."""

    def among(key: str) -> str:
        least, most = min(row[key] for row in rows), max(row[key] for row in rows)
        return f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"

    spent = f"Scored in {among('passes')} {'evaluation' if among('passes') == '1' else 'evaluations'} a text"
    if all(row["passes"] == row["evaluations"] for row in rows):
        return f"{spent}, as many as writing one takes."
    return f"{spent}; writing one takes {among('evaluations')}."


def order(name: str) -> str:
    """The name of an order within a sentence."""
    kind, _, number = name.rpartition("-")
    return f"{number} comb segments ({name})" if kind in ("comb", "whole-comb") and number else f"{name} order"


def _sizes(plan: Forecast, length: int) -> str:
    values = plan.sizes
    if values.tolist() == size.Even(values.size).sizes(length).tolist():
        whole = length % values.size == 0
        each = f"{counted(int(values[0]), 'token')} each"
        return f"even sizes, {each if whole else f'{values[0]} or {values[-1]} tokens'}"
    return f"the sizes {abbreviated(values, 16)}"


def _named(name: str, rules: Container[str]) -> str:
    """An order or a measured rule within a sentence."""
    return f"the rule {name}" if name in rules else order(name)


def _reference(found: Advice, calibration: Calibration) -> str:
    """The order that was best one by one, which may have been measured as a rule."""
    rule = None if found.reference in calibration.losses else calibration.rules[found.reference].schedule
    return order(found.reference if rule is None else order_and_size(found.reference, rule)[0])


def _taken(found: Advice, length: int, equal: bool) -> str:
    """What to do."""
    if not found.measured:
        fitting = "" if equal else f", for {counted(length, 'token')} to fill and in proportion for fewer"
        return f"Take {counted(found.steps, 'step')}: {order(found.order)}, {_sizes(found.plan, length)}{fitting}."
    ranking, sizes = order_and_size(found.order, found.plan.schedule)
    looks = "" if found.plan.schedule.blind else " It looks at predictions, and was measured by replay."
    spent = f"{found.evaluations:.1f} evaluations on average"
    if found.plan.schedule.blind and equal:
        spent = evaluated(found.evaluations)
    schedule = found.plan.schedule
    kind = sizes.partition(":")[0] if schedule.blind else sizes  # the number after a blind size is its steps
    if isinstance(schedule.order, Blocks) and isinstance(schedule.size, size.Blind):
        inner, each = ranking.partition("/")[2] or ranking, counted(schedule.size.steps, "step")
        kind = sizes.partition(":")[0]
        tokens = counted(schedule.order.length, "token")
        tokens += "" if schedule.order.start is None else ", counted from the beginning"
        return f"Take blocks of {tokens}: {inner} order inside, {each} a block, {kind} sizes, {spent} in all.{looks}"
    return f"Take the rule {found.order}: {ranking} order, {kind} sizes, {spent}.{looks}"


def _kept(found: Advice, target: float) -> str:
    """Whether the target is met."""
    assert found.limit is not None
    allowed = found.limit * (1 + 1e-12)
    begin = f" The target, {target:g} bits per token above that cost, is "
    if found.cost <= allowed or found.plan.nll > allowed:
        return f"{begin}predicted to be {'met' if found.cost <= allowed else 'missed'}."
    more = bits(found.cost - found.limit, found.tokens)
    stricter = f"ask for a stricter target, such as {target - more:.2g}, or " if target - more >= 0.005 else ""
    missed = (
        f"{begin}met on the texts that the schedule was chosen on; on other texts, expect to miss it by {more:.3f}."
    )
    return f"{missed} To meet it there too, {stricter}calibrate with more texts."


def advice(found: Advice, calibration: Calibration, target: float | None) -> list[str]:
    """The advice for people: what to do, what it costs, what else there is, and what is not known yet."""
    length, tokens, steps = calibration.length, calibration.tokens, counted(found.steps, "step")
    best, cost = bits(found.best, tokens), bits(found.cost, tokens)
    error_of = bits(found.cost_error, tokens)
    above = cost - best
    result = [_taken(found, length, calibration.tokens == length)]
    about = "" if found.plan.exact_error else "about "
    paired = "" if found.above_error is None else f" (± {bits(found.above_error, tokens):.3f})"
    what = "Predicted cost" if found.optimism is None else "Predicted cost on other texts"
    one_each = counted(length, "step") if tokens == length else "one token per step"
    price = (
        f"{what}: {cost:.3f} bits per token (standard error {about}{error_of:.3f}), which is "
        f"{abs(above):.3f}{paired} {'above' if above >= 0 else 'below'} the best cost of one token at a time among "
        f"the measured orders, {best:.3f} in {_reference(found, calibration)} with {one_each}."
    )
    if target is not None and found.limit is not None:
        price += _kept(found, target)
        uncertain = error_of if found.above_error is None else bits(found.above_error, tokens)
        if uncertain > target and found.texts >= _FEW:
            price += (
                " The standard error is larger than the target: calibrate with more --texts before you rely on this."
            )
    result.append(price)
    if found.texts < _FEW:
        few = f"The schedule was chosen on only {counted(found.texts, 'text')}"
        end = "calibrate with more --texts before you rely on this."
        if found.optimism is None:
            result.append(f"{few}, so the prediction is likely to be too low: {end}")
        else:
            result.append(f"{few}, on which it costs {bits(found.plan.nll, tokens):.3f}: {end}")
    name, count, least = found.least
    if least + max(0.0, found.optimism or 0.0) < found.best * (1 - 1e-9):
        result.append(
            f"The lowest measured cost is {bits(least, tokens):.3f}, for {_named(name, calibration.rules)} with "
            f"{counted(count, 'step')}. This is below the cost of one token at a time, so a target of 0 can be met too."
        )
    if found.runner_up is not None:
        result.append(_runner_up(found, tokens, target))
    if found.even is not None:
        even = f"Even sizes in random order would cost {bits(found.even, tokens):.3f} with {steps}"
        if target is not None:
            needed = found.even_steps
            even += (
                f", and would need {counted(needed, 'step')} for the target"
                if needed
                else ", and would never meet the target"
            )
        if found.even < found.cost:
            even += ". So far nothing shows that the advised sizes are better: calibrate with more --texts"
        result.append(even + ".")
    if calibration.missing:
        missing, all_ = len(calibration.missing), len(calibration.wanted)
        rules = any("/" in name for name in calibration.wanted)
        result.append(
            f"Only {all_ - missing} of {all_} orders {'and rules ' if rules else ''}have been measured so far: "
            f"{', '.join(calibration.missing)} {'is' if missing == 1 else 'are'} missing. Run the same "
            "`unmask calibrate` command again to measure the rest."
        )
    return result


def _runner_up(found: Advice, tokens: float, target: float | None) -> str:
    """What else there is. Its sizes were chosen on the same texts, and are as much too hopeful as those advised."""
    assert found.runner_up is not None
    name, plan = found.runner_up
    who = "The best blind schedule" if found.measured else "The runner-up"
    cost = bits(plan.nll + (found.optimism or 0.0), tokens)
    result = f"{who} with {counted(found.steps, 'step')}, {order(name)}, would cost {cost:.3f}"
    if found.measured and found.runner_up_error is not None:
        more = bits(plan.nll - found.plan.nll, tokens)
        result += f", {more:.3f} more (± {bits(found.runner_up_error, tokens):.3f}, on the same texts),"
    if target is not None:
        needed = found.runner_up_steps
        result += (
            f" and would meet the target with {counted(needed, 'step')}"
            if needed
            else " and would never meet the target"
        )
    return result.rstrip(",") + "."


def candidates(found: Advice, tokens: float) -> list[dict[str, Any]]:
    """All that were compared, the cheapest first."""
    rows: list[dict[str, Any]] = []
    for each in found.candidates:
        ranking, sizes = order_and_size(each.name, each.plan.schedule) if each.measured else (each.name, "best")
        rows.append(
            {
                "order": ranking,
                "size": sizes,
                "evaluations": each.evaluations,
                "bits_per_token": bits(each.plan.nll, tokens),
                "error": bits(each.plan.error, tokens),
                "how": "measured" if each.measured else "forecast",
            }
        )
    return rows


def advice_record(found: Advice, tokens: float) -> dict[str, Any]:
    """The same for programs.

    Arguments:
        found: The advice.
        tokens: Tokens to fill of a text, on average.
    """

    def cost(nats: float, needed: int | None, **more: Any) -> dict[str, Any]:
        return {**more, "bits_per_token": bits(nats, tokens), "steps_for_target": needed}

    name, plan = found.runner_up or (None, None)
    rows = candidates(found, tokens)
    paired = None if found.runner_up_error is None else bits(found.runner_up_error, tokens)
    hopeful = found.optimism or 0.0
    return {
        "reference": {"order": found.reference, "bits_per_token": bits(found.best, tokens)},
        "steps": found.steps,
        "order": rows[0]["order"],
        "size": rows[0]["size"],
        "how": rows[0]["how"],
        "evaluations": found.evaluations,
        "sizes": found.plan.sizes.tolist() or None,
        "bits_per_token": bits(found.cost, tokens),
        "error": bits(found.cost_error, tokens),
        "exact_error": found.plan.exact_error,
        "above": bits(found.cost - found.best, tokens),
        "above_error": None if found.above_error is None else bits(found.above_error, tokens),
        "texts": found.texts,
        "optimism": None if found.optimism is None else bits(found.optimism, tokens),
        "runner_up": None
        if plan is None
        else cost(plan.nll + hopeful, found.runner_up_steps, order=name, difference_error=paired),
        "even_random": None if found.even is None else cost(found.even, found.even_steps),
        "candidates": rows,
        "schedule": found.plan.schedule.to_json(),
    }
