"""What a calibration has to choose from, and which of it is the cheapest on the texts that were measured.

Candidates are the best blind schedule of each measured order, whose cost is a forecast, and the measured rules, which
look at predictions or are all there is of a model that remembers. They are compared at equal evaluations: with `K`
steps, a rule takes part if it spends at most `K` evaluations on average, one percent more being no difference.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask.calibration.calibration import Calibration, Forecast
from unmask.calibration.groups import Deviations
from unmask.order import Blocks

TOLERANCE = 0.01  # share of the evaluations by which a rule may exceed them

Costs = Mapping[str, NDArray[np.float64]]


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule that might be taken.

    Attributes:
        name: The name of its order; of a measured rule, the name of that.
        plan: The schedule and its cost on all texts.
        evaluations: Evaluations of a sequence, on average.
        measured: True if it was measured by replay, and is no forecast.
    """

    name: str
    plan: Forecast
    evaluations: float
    measured: bool


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """What a calibration would have one take.

    Attributes:
        reference: The order, or the measured rule, with the best one-by-one likelihood.
        best: That likelihood.
        limit: What the target allows in all; None without a target.
        steps: Number of steps of blind schedules; evaluations that rules may take, where there are no others.
        ranked: All that do with as many evaluations, the cheapest first.
    """

    reference: str
    best: float
    limit: float | None
    steps: int
    ranked: list[Candidate]


def one_by_one(calibration: Calibration) -> dict[str, float]:
    """Nats per sequence with one token per step, for every order and rule where that was measured; the best first.

    Rules that look at predictions are left out: what is compared with is an order.

    Raises:
        InputError: if there is none.
    """
    check.instance("calibration", calibration, Calibration, "be a Calibration")
    costs = {name: rule.cost for name, rule in calibration.rules.items() if rule.one_by_one}
    known = {name: losses.one_by_one for name, losses in calibration.losses.items()}
    costs |= {name: cost for name, cost in known.items() if cost is not None}
    if not costs:
        remedy = "Measure 'random' or 'left-to-right' as well."
        if not calibration.losses and calibration.rules:
            remedy = f"Measure the rule 'left-to-right/even:{calibration.length}' as well."
        raise check.InputError("", "The calibration has no order that was measured one token at a time", remedy=remedy)
    return dict(sorted(costs.items(), key=lambda pair: pair[1]))


def costs_of(calibration: Calibration) -> dict[str, NDArray[np.float64]]:
    """For each order, the cost of the best sizes with 1, 2, … steps."""
    return {name: calibration.costs(name) for name in calibration.losses}


def choose(calibration: Calibration, target: float | None, steps: int | None, costs: Costs | None = None) -> Choice:
    """The cheapest with so many steps, or with the fewest evaluations that keep the target.

    Arguments:
        calibration: What was measured.
        target: Bits per token allowed above the best one-by-one likelihood.
        steps: The number of steps, if it is settled.
        costs: What `costs_of` gives, if it is known already.

    Raises:
        InputError: if nothing keeps the target, or no order allows so many steps.
    """
    reference, best = next(iter(one_by_one(calibration).items()))
    limit = None if target is None else best + target * math.log(2) * calibration.tokens
    most = max((losses.most for losses in calibration.losses.values()), default=calibration.length)
    if steps is not None:
        steps = check.integer("steps", steps, least=1, most=most)
        return Choice(reference, best, limit, steps, _ranked(calibration, steps))
    assert limit is not None
    counts = [first(values, limit) for values in (costs or costs_of(calibration)).values()]
    blind = min((count for count in counts if count is not None), default=math.inf)
    kept = [rule.spent for rule in calibration.rules.values() if rule.cost <= _allowed(limit)]
    fewest = min([blind, *kept])
    if fewest == math.inf:
        raise check.InputError("target", f"be larger than {target:g}", remedy="No measured schedule meets this target.")
    allowed = fewest * (1 + TOLERANCE)
    count = int(blind if blind <= allowed else min(most, max(1, math.floor(allowed))))
    return Choice(reference, best, limit, count, _ranked(calibration, count, fewest if fewest < blind else 0.0))


def _ranked(calibration: Calibration, steps: int, spent: float = 0.0) -> list[Candidate]:
    """The best blind schedules with so many steps, and the rules with as many evaluations as these, or as `spent`.

    Raises:
        InputError: if there is none, since all that was measured takes more.
    """
    blind = [
        Candidate(name, plan, calibration.losses[name].evaluations(plan.size), False)
        for name, plan in calibration.best(steps)
    ]
    most = max(spent, *(each.evaluations for each in blind)) if blind else max(spent, steps)
    rules = [
        Candidate(name, _as_measured(calibration, name), rule.spent, True)
        for name, rule in calibration.rules.items()
        if rule.spent <= most * (1 + TOLERANCE)
    ]
    if not blind and not rules:
        fewest = math.ceil(min(rule.spent for rule in calibration.rules.values()) / (1 + TOLERANCE))
        remedy = "No measured schedule takes fewer."
        raise check.InputError("steps", f"be at least {fewest}", found=f"{steps}", remedy=remedy)
    return sorted([*blind, *rules], key=lambda each: each.plan.nll)


def _as_measured(calibration: Calibration, name: str) -> Forecast:
    rule = calibration.rules[name]
    sizes, fixed = rule.schedule.size, np.zeros(0, np.int64)
    if isinstance(sizes, size.Planned) and not isinstance(rule.schedule.order, Blocks):
        fitted = sizes.fitted(calibration.length)  # which may be fewer tokens than there are steps
        fixed = fitted.sizes(calibration.length) if isinstance(fitted, size.Planned) else fixed
    return Forecast(rule.schedule, rule.cost, rule.error, True, fixed)


def first(costs: NDArray[np.float64], limit: float) -> int | None:
    """The smallest number of steps whose cost is within the limit."""
    good = np.flatnonzero(costs <= _allowed(limit))
    return int(good[0]) + 1 if good.size else None


def _allowed(limit: float) -> float:
    return limit * (1 + 1e-12)  # it may be one of the costs, summed up in another order


def deviations(calibration: Calibration, chosen: Candidate) -> Deviations | None:
    """By how much texts deviate from what a candidate costs on average; None if that was not kept."""
    if chosen.measured:
        return calibration.rules[chosen.name].differences
    return calibration.losses[chosen.name].differences(chosen.plan.size)


def reference_deviations(calibration: Calibration, name: str) -> Deviations | None:
    """The same of what is compared with, an order or a rule one by one."""
    if name in calibration.losses:
        return calibration.losses[name].differences(size.Even(calibration.length))
    return calibration.rules[name].differences


def cheapest(calibration: Calibration, target: float | None, steps: int | None) -> Candidate:
    """The first of `choose`; if no schedule meets the target, the cheapest of all, whatever it takes."""
    costs = costs_of(calibration) if steps is None else None
    try:
        return choose(calibration, target, steps, costs).ranked[0]
    except check.InputError:
        if costs is None:
            raise
        if not costs:
            return _ranked(calibration, calibration.length)[0]
        lowest = min(costs, key=lambda name: float(costs[name].min()))
        return choose(calibration, None, int(costs[lowest].argmin()) + 1).ranked[0]
