"""What a calibration tells you: what a schedule will cost, and which one to use.

Everything is a total, model error included: nats per sequence on texts like those that were measured. A target is an
allowance above the **best one-by-one likelihood** among the measured orders, since that is what the model can do when
nothing is revealed in parallel. One by one is known for the random order, whose curve is its sum, for every order
measured at all places, such as `LeftToRight`, and for every rule that reveals one token per step. Of a model that
remembers there are rules alone, its planned schedules: then the advice is the best of these.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask import size
from unmask.calibration.calibration import Calibration, Forecast
from unmask.calibration.choice import Candidate, cheapest, choose, costs_of, deviations, first, reference_deviations
from unmask.calibration.choice import one_by_one as one_by_one
from unmask.calibration.crossfit import crossfitted
from unmask.calibration.groups import Deviations
from unmask.calibration.losses import Losses, Predicted
from unmask.calibration.mixed import Mixed
from unmask.order import BlindOrder, Comb, Order
from unmask.schedule import Schedule


def _require(calibration: object) -> None:
    check.instance("calibration", calibration, Calibration, "be a Calibration")


def measured_as(calibration: Calibration, order: object, steps: int) -> str | None:
    """The name under which an order was measured; None if it was not.

    A comb without a number of segments is the measured comb with one tooth for each of `steps` steps, whatever the
    number of tokens among those that were measured.
    """
    _require(calibration)
    check.instance("order", order, Order, "be an order of unmask.order")
    steps = check.integer("steps", steps, least=1)
    for name, losses in calibration.losses.items():
        if losses.order == order:
            return name
        if isinstance(order, Comb) and isinstance(losses.order, Comb) and order.shift == losses.order.shift:
            kinds = np.unique(losses.tokens).tolist() if isinstance(losses, Mixed) else [calibration.length]
            if all(order.teeth(count, steps) == losses.order.teeth(count, steps) for count in kinds):
                return name
    return None


def forecast(calibration: Calibration, schedule: Schedule) -> Predicted | None:
    """What a schedule is predicted to cost; None where nothing was measured.

    Under the random order that is known of all sizes; other orders are predicted for fixed sizes whose cuts are among
    the measured places. A rule that was measured is predicted to cost what it did.
    """
    _require(calibration)
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    if (rule := next((each for each in calibration.rules.values() if each.schedule == schedule), None)) is not None:
        return Predicted(rule.cost, rule.error, True)
    sizes, order = schedule.size, schedule.order
    if not (isinstance(sizes, size.Blind) and isinstance(order, BlindOrder)):
        return None
    name = measured_as(calibration, order, sizes.steps)
    if name is None:
        return None
    return calibration.losses[name].forecast(sizes)


@final
@dataclass(frozen=True, eq=False)
class Advice:
    """A schedule, and what else could have been had; costs in nats per sequence.

    Errors of costs are over texts that have as many tokens to fill on average: those of nats per token, times `tokens`.

    Attributes:
        reference: The order, or the measured rule, with the best one-by-one likelihood.
        best: That likelihood.
        limit: What the target allows in all; None without a target.
        steps: Number of steps advised; where a rule is advised, of the blind schedules it was compared with, or as many
            evaluations as it may take where no order was measured.
        order: Name of the order advised, or of the measured rule.
        plan: The schedule and its cost on the texts that it was chosen on.
        candidates: All that were compared, at as many evaluations, the cheapest first; the first is advised.
        runner_up: The next best blind order with as many steps, and its plan; None if no other allows so many.
        runner_up_error: Standard error of `runner_up.nll − plan.nll`, paired. None without a runner-up, or if the
            calibration has not kept how texts differ.
        runner_up_steps: Steps the runner-up needs for the target, if its cost is as much too low on these texts as that
            of the advice (`optimism`); None if it never gets there.
        even_steps: Steps that even sizes in random order need for the target; None if they never get there, or if the
            random order was not measured.
        even: Their cost with the steps advised.
        least: The order and number of steps whose best sizes cost least of all, and that cost; or a rule, its
            evaluations and its cost.
        texts: Number of texts that all this was measured on.
        tokens: Tokens to fill in one of them, on average: a cost in bits per token is `cost / tokens / log(2)`.
        above_error: Standard error of `cost − best`, paired: texts that are hard for one are hard for the other. None
            if the calibration has not kept how texts differ.
        cost: What to expect of the schedule on other texts: what choices made without some texts cost on those
            (`unmask.calibration.crossfit`). It is `plan.nll` if the calibration has not kept how texts differ.
        cost_error: Its error, of which two cover what two standard errors do, however few the texts. It is usually
            larger than `plan.error`, because it also allows for few texts and for the choice; it is `plan.error` if the
            calibration has not kept how texts differ.
        optimism: `cost − plan.nll`: by how much the cost on these texts is too low because the schedule was chosen on
            them. It is an estimate, small against `plan.error` from some 32 texts on, and may be negative. None if the
            calibration has not kept how texts differ.
    """

    reference: str
    best: float
    limit: float | None
    steps: int
    order: str
    plan: Forecast
    candidates: tuple[Candidate, ...]
    runner_up: tuple[str, Forecast] | None
    runner_up_error: float | None
    runner_up_steps: int | None
    even_steps: int | None
    even: float | None
    least: tuple[str, int, float]
    texts: int
    tokens: float
    above_error: float | None
    cost: float
    cost_error: float
    optimism: float | None

    @property
    def evaluations(self) -> float:
        """Evaluations of a sequence under the schedule advised, on average."""
        return self.candidates[0].evaluations

    @property
    def measured(self) -> bool:
        """Whether that is a rule that was measured, and no forecast."""
        return self.candidates[0].measured

    @property
    def schedule(self) -> Schedule:
        """The schedule advised."""
        return self.plan.schedule

    def __str__(self) -> str:
        """A few lines for people, in bits per token."""

        def bits(nats: float) -> str:
            return f"{nats / self.tokens / math.log(2):.3f}"

        kind = "measured rule" if self.measured else "order"
        spent = f"{self.evaluations:.4g} {'evaluation' if self.evaluations == 1 else 'evaluations'}"
        lines = [
            f"{kind} {self.order}, {spent} a text",
            f"{bits(self.cost)} ± {bits(self.cost_error)} bits per token to expect on other texts",
            f"{bits(self.best)} one token at a time, in the best order measured, {self.reference}",
        ]
        if self.even is not None:
            steps = "1 step" if self.steps == 1 else f"{self.steps} even steps"
            lines.append(f"{bits(self.even)} with {steps} in random order")
        if self.runner_up is not None:
            lines.append(f"{bits(self.runner_up[1].nll)} in the next best order, {self.runner_up[0]}")
        return "\n".join([*lines, f"from {self.texts:,} texts; the schedule is .schedule"])


def advise(calibration: Calibration, *, target: float | None = None, steps: int | None = None) -> Advice:
    """The schedule to take: the fewest evaluations that keep the target, or the best with a given number of steps.

    Blind schedules of all measured orders and measured rules are compared alike (`unmask.calibration.choice`).

    Arguments:
        calibration: What was measured.
        target: Bits per token allowed above the best one-by-one likelihood among the measured orders.
        steps: The number of steps, if it is settled; the target is then only compared with.

    Raises:
        InputError: if neither is given, or nothing that was measured allows so many steps, takes so few, or reaches the
            target.
    """
    _require(calibration)
    length = calibration.length
    if target is None and steps is None:
        raise check.InputError("", "Advice needs {target} or {steps}")
    if target is not None:
        target = check.real("target", target, least=0.0)
    costs = costs_of(calibration)
    choice = choose(calibration, target, steps, costs)
    chosen, limit = choice.ranked[0], choice.limit
    runner_up = next((each for each in choice.ranked[1:] if not each.measured), None)
    even_steps = even = None
    if (random := calibration.random) is not None:
        even = _even(random, choice.steps)
        tried = (_even(random, k) for k in range(1, length + 1))
        even_steps = None if limit is None else first(np.fromiter(tried, dtype=np.float64), limit)
    least = [(name, int(cost.argmin()) + 1, float(cost.min())) for name, cost in costs.items()]
    least += [(name, round(rule.spent), rule.cost) for name, rule in calibration.rules.items()]
    texts = deviations(calibration, chosen)
    quoted = crossfitted(calibration, chosen, lambda other: cheapest(other, target, steps))
    optimism = None if quoted is None else quoted.cost - chosen.plan.nll
    allowed = None if limit is None else limit - (optimism or 0.0)  # on the texts that schedules are chosen on
    above = _error_between(texts, reference_deviations(calibration, choice.reference))
    return Advice(
        reference=choice.reference,
        best=choice.best,
        limit=limit,
        steps=choice.steps,
        order=chosen.name,
        plan=chosen.plan,
        candidates=tuple(choice.ranked),
        runner_up=None if runner_up is None else (runner_up.name, runner_up.plan),
        runner_up_error=None if runner_up is None else _error_between(texts, deviations(calibration, runner_up)),
        runner_up_steps=None if runner_up is None or allowed is None else first(costs[runner_up.name], allowed),
        even_steps=even_steps,
        even=even,
        least=min(least, key=_cost),
        texts=calibration.texts,
        tokens=calibration.tokens,
        above_error=None if quoted is None or above is None else math.hypot(above, quoted.chance),
        cost=chosen.plan.nll if quoted is None else quoted.cost,
        cost_error=chosen.plan.error if quoted is None else quoted.error,
        optimism=optimism,
    )


def _even(random: Losses, steps: int) -> float:
    """What even sizes in random order cost."""
    found = random.forecast(size.Even(steps))
    assert found is not None  # in random order everything is known
    return found.nll


def _cost(least: tuple[str, int, float]) -> float:
    return least[2]


def _error_between(mine: Deviations | None, theirs: Deviations | None) -> float | None:
    both = None if mine is None or theirs is None else mine.minus(theirs)
    return None if both is None else both.error
