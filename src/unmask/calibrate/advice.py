"""What a calibration says: what a schedule will cost, and which one to take.

Everything is a total, model error included: nats per sequence on texts like those that were measured. A target is an
allowance above the **best one-by-one likelihood** among the measured orders, since that is what the model can do when
nothing is revealed in parallel. One by one is known for the random order, whose curve is its sum, and for every order
measured at all places, such as `LeftToRight`.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask.calibrate.calibration import Calibration, Forecast
from unmask.calibrate.groups import Fold
from unmask.calibrate.losses import Losses, Predicted
from unmask.order import BlindOrder, Comb, Order
from unmask.schedule import Schedule

_FOLDS = 8


def _require(calibration: object) -> None:
    check.instance("calibration", calibration, Calibration, "be a Calibration")


def measured_as(calibration: Calibration, order: object, steps: int) -> str | None:
    """The name under which an order was measured; None if it was not.

    A comb without a number of segments is the measured comb with one tooth for each of `steps` steps.
    """
    _require(calibration)
    check.instance("order", order, Order, "be an order of unmask.order")
    steps = check.integer("steps", steps, least=1)
    for name, losses in calibration.losses.items():
        if losses.order == order:
            return name
        if isinstance(order, Comb) and isinstance(losses.order, Comb):
            length = calibration.length
            if order.teeth(length, steps) == losses.order.teeth(length, steps):
                return name
    return None


def forecast(calibration: Calibration, schedule: Schedule) -> Predicted | None:
    """What a schedule is predicted to cost; None where nothing was measured.

    Under the random order that is known of all sizes; other orders are predicted for fixed sizes whose cuts are among
    the measured places.
    """
    _require(calibration)
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    sizes, order = schedule.size, schedule.order
    if not (isinstance(sizes, size.Blind) and isinstance(order, BlindOrder)):
        return None
    name = measured_as(calibration, order, sizes.steps)
    if name is None:
        return None
    return calibration.losses[name].forecast(sizes)


def one_by_one(calibration: Calibration) -> dict[str, float]:
    """Nats per sequence with one token per step, for every order where that was measured; the best first.

    Raises:
        InputError: if there is no such order.
    """
    _require(calibration)
    costs = {name: losses.one_by_one for name, losses in calibration.losses.items()}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    if not known:
        raise check.InputError(
            "",
            "The calibration has no order that was measured one by one",
            remedy="Measure 'random' or 'left-to-right' as well.",
        )
    return dict(sorted(known.items(), key=lambda pair: pair[1]))


@final
@dataclass(frozen=True, eq=False)
class Advice:
    """A schedule, and what else could have been had; costs in nats per sequence.

    Attributes:
        reference: The order with the best one-by-one likelihood.
        best: That likelihood.
        limit: What the target allows in all; None without a target.
        steps: Number of steps advised.
        order: Name of the order advised.
        plan: The schedule and its predicted cost.
        runner_up: The next best order with as many steps, and its plan; None if no other allows so many.
        runner_up_steps: Steps the runner-up needs for the target; None if it never gets there.
        even_steps: Steps that even sizes in random order need for the target; None if they never get there, or if the
            random order was not measured.
        even: Their cost with the steps advised.
        least: The order and number of steps whose best sizes cost least of all, and that cost.
        texts: Number of texts that all this was measured on.
        above_error: Standard error of `plan.nll − best`, paired: texts that are hard for one are hard for the other.
            None if the calibration has not kept how texts differ.
        optimism: By how much the predicted cost is too low because the schedule was chosen on the texts that it is
            predicted from: by how much more, on average, such a choice made without some texts costs on those. It is an
            estimate, small against `plan.error` from some 32 texts on, and may be negative. None if the calibration has
            not kept how texts differ.
    """

    reference: str
    best: float
    limit: float | None
    steps: int
    order: str
    plan: Forecast
    runner_up: tuple[str, Forecast] | None
    runner_up_steps: int | None
    even_steps: int | None
    even: float | None
    least: tuple[str, int, float]
    texts: int
    above_error: float | None
    optimism: float | None


def advise(calibration: Calibration, *, target: float | None = None, steps: int | None = None) -> Advice:
    """The schedule to take: the fewest steps that keep the target, or the best with a given number of steps.

    Arguments:
        calibration: What was measured.
        target: Bits per token allowed above the best one-by-one likelihood among the measured orders.
        steps: The number of steps, if it is settled; the target is then only compared with.

    Raises:
        InputError: if neither is given, or no measured order allows so many steps or reaches the target.
    """
    _require(calibration)
    length = calibration.length
    if target is None and steps is None:
        raise check.InputError("", "Advice needs a target or a number of steps")
    if target is not None:
        target = check.real("target", target, least=0.0)
    choice = _choose(calibration, target, steps)
    ranked, limit, costs = choice.ranked, choice.limit, choice.costs
    runner_up = ranked[1] if len(ranked) > 1 else None
    even_steps = even = None
    if (random := calibration.random) is not None:
        even = _even(random, choice.steps)
        tried = (_even(random, k) for k in range(1, length + 1))
        even_steps = None if limit is None else _first(np.fromiter(tried, dtype=np.float64), limit)
    name, plan = ranked[0]
    return Advice(
        reference=choice.reference,
        best=choice.best,
        limit=limit,
        steps=choice.steps,
        order=name,
        plan=plan,
        runner_up=runner_up,
        runner_up_steps=None if runner_up is None or limit is None else _first(costs[runner_up[0]], limit),
        even_steps=even_steps,
        even=even,
        least=min(((each, int(cost.argmin()) + 1, float(cost.min())) for each, cost in costs.items()), key=_cost),
        texts=calibration.texts,
        above_error=_paired_error(calibration, choice.reference, name, plan),
        optimism=_optimism(calibration, target, steps),
    )


@final
@dataclass(frozen=True, eq=False)
class _Choice:
    """What a calibration would have one take.

    Attributes:
        reference: The order with the best one-by-one likelihood.
        best: That likelihood.
        limit: What the target allows in all; None without a target.
        costs: For each order, the cost of the best sizes with 1, 2, … steps.
        steps: Number of steps.
        ranked: The orders that allow so many, with their plans, the best first.
    """

    reference: str
    best: float
    limit: float | None
    costs: dict[str, NDArray[np.float64]]
    steps: int
    ranked: list[tuple[str, Forecast]]


def _choose(calibration: Calibration, target: float | None, steps: int | None) -> _Choice:
    reference, best = next(iter(one_by_one(calibration).items()))
    limit = None if target is None else best + target * math.log(2) * calibration.tokens
    costs = {name: calibration.costs(name) for name in calibration.losses}
    if steps is None:
        assert limit is not None
        steps = min(k for k in (_first(values, limit) for values in costs.values()) if k is not None)
    else:
        most = max(values.size for values in costs.values())
        steps = check.integer("steps", steps, least=1, most=most)
    return _Choice(reference, best, limit, costs, steps, calibration.best(steps))


def _even(random: Losses, steps: int) -> float:
    """What even sizes in random order cost."""
    found = random.forecast(size.Even(steps))
    assert found is not None  # in random order everything is known
    return found.nll


def _cost(least: tuple[str, int, float]) -> float:
    return least[2]


def _first(costs: NDArray[np.float64], limit: float) -> int | None:
    """The smallest number of steps whose cost is within the limit."""
    # The limit may be one of the costs, summed up in another order.
    good = np.nonzero(costs <= limit * (1 + 1e-12))[0]
    return int(good[0]) + 1 if good.size else None


def _paired_error(calibration: Calibration, reference: str, name: str, plan: Forecast) -> float | None:
    """Standard error of what the plan costs more than the reference one by one."""
    mine = calibration.losses[name].differences(plan.size)
    theirs = calibration.losses[reference].differences(size.Even(calibration.length))
    both = None if mine is None or theirs is None else mine.minus(theirs)
    return None if both is None else both.error


def _optimism(calibration: Calibration, target: float | None, steps: int | None) -> float | None:
    """What a choice made without an eighth of the texts costs more on that eighth than it was predicted to.

    For a schedule that does not depend on the texts, the weighted differences add up to zero exactly; what is left
    comes from the choice. An eighth is left out in turn, and with fewer than eight texts each of them.
    """
    texts = calibration.texts
    known = [losses.differences(losses.best(1)) for losses in calibration.losses.values()]
    if any(each is None or each.texts != texts for each in known) or texts < 2:
        return None
    count = min(_FOLDS, texts)
    total = weights = 0.0
    for fold in (Fold(number, count) for number in range(count)):
        inside = int(fold.among(texts).sum())
        rest = {name: losses.without(fold) for name, losses in calibration.losses.items()}
        name, plan = _choose(replace(calibration, losses=rest), target, steps).ranked[0]
        weight = inside * (texts - inside)
        total += weight * (calibration.losses[name].on(plan.size, fold) - plan.nll)
        weights += weight
    # The fewer texts, the greater the optimism, in inverse proportion: with all of them it is a little less.
    return total / weights * (1 - 1 / count)
