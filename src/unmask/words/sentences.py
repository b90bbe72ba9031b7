"""Numbers and advice, as people read them."""

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from unmask import bounds, size
from unmask.calibrate import Advice, Calibration, Forecast

_FEW = 32  # texts below which a choice among schedules is noticeably too hopeful
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
        advice = f"No schedule of fewer than {length} steps can promise this target: reveal one token at a time."
    else:
        data_with = f"every distribution with {dependence(tc, dtc)}"
        advice = f"Take '{row['size']}' with {row['exact']} steps: {nats(target)} or less for {data_with}."
    known = [row for row in measured if row["steps"] is not None]
    if known:
        best = min(known, key=lambda row: (row["steps"], row["expected_kl"]))
        advice += f" If the data follow this very distribution, '{best['size']}' needs {best['steps']} steps"
        advice += "." if best["sure"] else "; fixed sizes may owe such a count to their alignment with the length."
    return advice


def order(name: str) -> str:
    """The name of an order within a sentence."""
    return f"{name.removeprefix('comb-')} comb segments ({name})" if name.startswith("comb-") else f"{name} order"


def _sizes(plan: Forecast, length: int) -> str:
    values = plan.sizes
    if values.tolist() == size.Even(values.size).sizes(length).tolist():
        whole = length % values.size == 0
        return f"even sizes, {values[0]} tokens each" if whole else f"even sizes, {values[0]} or {values[-1]} tokens"
    return f"the sizes {abbreviated(values, 16)}"


def advice(found: Advice, calibration: Calibration, target: float | None) -> list[str]:
    """The advice for people: what to do, what it costs, what else there is, and what is not known yet."""
    length, steps = calibration.tokens, counted(found.steps, "step")
    most = calibration.length
    best, cost = bits(found.best, length), bits(found.plan.nll, length)
    error_of = bits(found.plan.error, length)
    above = cost - best
    fitting = "" if length == most else f", for {counted(most, 'token')} to fill and in proportion for fewer"
    result = [f"Take {steps}: {order(found.order)}, {_sizes(found.plan, most)}{fitting}."]
    about = "" if found.plan.exact_error else "about "
    paired = "" if found.above_error is None else f" (± {bits(found.above_error, length):.3f})"
    one_each = counted(most, "step") if length == most else "one token per step"
    price = (
        f"Predicted cost: {cost:.3f} bits per token (standard error {about}{error_of:.3f}), which is "
        f"{abs(above):.3f}{paired} {'above' if above >= 0 else 'below'} the best one-by-one likelihood among the "
        f"measured orders, {best:.3f} in {order(found.reference)} with {one_each}."
    )
    if target is not None and found.limit is not None:
        kept = found.plan.nll <= found.limit * (1 + 1e-12)
        price += f" The target of {target:g} bits per token above it is {'kept' if kept else 'missed'}, as predicted."
        uncertain = error_of if found.above_error is None else bits(found.above_error, length)
        if uncertain > target and found.texts >= _FEW:
            price += " The standard error is larger than the target: calibrate with more --texts before relying on it."
    result.append(price)
    if found.texts < _FEW:
        too_low = 0.0 if found.optimism is None else bits(found.optimism, length)
        by = f" by about {too_low:.3f} bits per token" if too_low >= 0.0005 else ""
        result.append(
            f"Chosen on only {counted(found.texts, 'text')}, the prediction is likely to be too low{by}: calibrate "
            "with more --texts before relying on it."
        )
    name, count, least = found.least
    if least < found.best * (1 - 1e-9):
        result.append(
            f"The least of all measured costs is {bits(least, length):.3f}, {order(name)} with "
            f"{counted(count, 'step')}. It is below that likelihood: a target of 0 can be kept too."
        )
    if found.runner_up is not None:
        name, plan = found.runner_up
        more = f"The runner-up with {steps}, {order(name)}, would cost {bits(plan.nll, length):.3f}"
        if target is not None:
            needed = found.runner_up_steps
            more += f" and keep the target with {counted(needed, 'step')}" if needed else " and never keep the target"
        result.append(more + ".")
    if found.even is not None:
        even = f"Even sizes in random order would cost {bits(found.even, length):.3f} with {steps}"
        if target is not None:
            needed = found.even_steps
            even += f", and need {counted(needed, 'step')} for the target" if needed else ", and never keep the target"
        result.append(even + ".")
    if calibration.missing:
        known, all_ = len(calibration.losses), len(calibration.wanted)
        result.append(
            f"Only {known} of {all_} orders are measured so far: {', '.join(calibration.missing)} "
            f"{'is' if all_ - known == 1 else 'are'} missing. Give the calibrate command again to finish it."
        )
    return result


def advice_record(found: Advice, length: float) -> dict[str, Any]:
    """The same for programs."""

    def cost(nats: float, needed: int | None, **more: Any) -> dict[str, Any]:
        return {**more, "bits_per_token": bits(nats, length), "steps_for_target": needed}

    name, plan = found.runner_up or (None, None)
    return {
        "reference": {"order": found.reference, "bits_per_token": bits(found.best, length)},
        "steps": found.steps,
        "order": found.order,
        "sizes": found.plan.sizes.tolist(),
        "nll": found.plan.nll / length,
        "bits_per_token": bits(found.plan.nll, length),
        "error": found.plan.error / length,
        "exact_error": found.plan.exact_error,
        "above": bits(found.plan.nll - found.best, length),
        "above_error": None if found.above_error is None else bits(found.above_error, length),
        "texts": found.texts,
        "optimism": None if found.optimism is None else bits(found.optimism, length),
        "runner_up": None if plan is None else cost(plan.nll, found.runner_up_steps, order=name),
        "even_random": None if found.even is None else cost(found.even, found.even_steps),
        "schedule": found.plan.schedule.to_json(),
    }
