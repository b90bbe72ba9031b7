"""What a calibration says: what a schedule will cost, and which one to take.

Everything is a total, model error included: nats per sequence on texts like those that were measured. A target is an
allowance above the **best one-by-one likelihood** among the measured orders, since that is what the model can do when
nothing is revealed in parallel. One by one is known for the random order, whose curve is its sum, and for every order
measured at all places, such as `LeftToRight`.
"""

import math
from dataclasses import dataclass

import numpy as np

from unmask import _check as check
from unmask import size
from unmask.calibrate.calibration import Calibration, Forecast
from unmask.order import BlindOrder, Comb
from unmask.schedule import Schedule


def measured_as(calibration: Calibration, order: object, steps: int) -> str | None:
    """The name under which an order was measured; None if it was not.

    A comb without a number of segments is the measured comb with one tooth for each of `steps` steps.
    """
    for name, losses in calibration.losses.items():
        if losses.order == order:
            return name
        if isinstance(order, Comb) and isinstance(losses.order, Comb):
            length = calibration.length
            if order.teeth(length, steps) == losses.order.teeth(length, steps):
                return name
    return None


def forecast(calibration: Calibration, schedule: Schedule) -> tuple[float, float] | None:
    """Predicted nats per sequence of a schedule and its standard error, about; None where nothing was measured.

    Under the random order that is known of all sizes; other orders are predicted for fixed sizes whose cuts are among
    the measured places.
    """
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
        ValueError: if there is no such order.
    """
    costs = {name: losses.one_by_one for name, losses in calibration.losses.items()}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    if not known:
        raise check.InputError(
            "",
            "The calibration has no order that was measured one by one",
            remedy="Measure 'random' or 'left-to-right' as well.",
        )
    return dict(sorted(known.items(), key=lambda pair: pair[1]))


@dataclass(frozen=True, eq=False)
class Advice:
    """A schedule, and what else could have been had; costs in nats per sequence.

    Attributes:
        reference: The order with the best one-by-one likelihood. best: That likelihood.
        limit: What the target allows in all; None without a target.
        steps: Number of steps advised. order: Name of the order advised. plan: The schedule and its predicted cost.
        runner_up: The next best order with as many steps, and its plan; None if no other allows so many.
        runner_up_steps: Steps the runner-up needs for the target; None if it never gets there.
        even_steps: Steps that even sizes in random order need for the target; None if they never get there, or if the
            random order was not measured.
        even: Their cost with the steps advised.
        least: The order and number of steps whose best sizes cost least of all, and that cost.
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


def advise(calibration: Calibration, *, target: float | None = None, steps: int | None = None) -> Advice:
    """The schedule to take: the fewest steps that keep the target, or the best with a given number of steps.

    Arguments:
        calibration: What was measured.
        target: Bits per token allowed above the best one-by-one likelihood among the measured orders.
        steps: The number of steps, if it is settled; the target is then only compared with.

    Raises:
        ValueError: if neither is given, or no measured order allows so many steps or reaches the target.
    """
    length = calibration.length
    reference, best = next(iter(one_by_one(calibration).items()))
    if target is None and steps is None:
        raise check.InputError("", "Advice needs a target or a number of steps")
    limit = None if target is None else best + check.real("target", target, least=0.0) * math.log(2) * length
    costs = {name: calibration.costs(name) for name in calibration.losses}
    if steps is None:
        assert limit is not None
        steps = min(k for k in (_first(values, limit) for values in costs.values()) if k is not None)
    else:
        most = max(values.size for values in costs.values())
        steps = check.integer("steps", steps, least=1, most=most)
    ranked = calibration.best(steps)
    runner_up = ranked[1] if len(ranked) > 1 else None
    even_steps = even = None
    if (random := calibration.random) is not None:
        even = random.cost(size.Even(steps).sizes(length))[0]
        tried = (random.cost(size.Even(k).sizes(length))[0] for k in range(1, length + 1))
        even_steps = None if limit is None else _first(np.fromiter(tried, dtype=np.float64), limit)
    return Advice(
        reference,
        best,
        limit,
        steps,
        *ranked[0],
        runner_up,
        None if runner_up is None or limit is None else _first(costs[runner_up[0]], limit),
        even_steps,
        even,
        min(((name, int(values.argmin()) + 1, float(values.min())) for name, values in costs.items()), key=_cost),
    )


def _cost(least: tuple[str, int, float]) -> float:
    return least[2]


def _first(costs: np.ndarray, limit: float) -> int | None:
    """The smallest number of steps whose cost is within the limit."""
    # The limit may be one of the costs, summed up in another order.
    good = np.nonzero(costs <= limit * (1 + 1e-12))[0]
    return int(good[0]) + 1 if good.size else None
