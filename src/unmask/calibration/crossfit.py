"""What a choice costs on texts that it was not made on.

The cheapest of many on some texts is cheap on these for its luck too. So its cost is **cross-fitted**: the texts are
cut into `F` folds of neighbours, the same choice is made without each fold, and what is chosen is paid for on the fold
that was left out,

    quoted = 1/N · Σ_f Σ_{i∈f} cost_i(choice without f).

Every text is paid once, by a schedule that has not seen it: the mean is without bias for a choice made on `N − N/F`
texts. The choice that is taken has seen all `N` and is a little better than those, so that what is left is a small
pessimism: of what few texts cost a choice, which shrinks as `1/N`, about the `F`-th part.

With a target, each fold also chooses its own number of steps. So what is quoted for a target differs a little from what
is quoted for the number of steps that meets it, and the quote may miss the target: the texts that were measured meet it
for their luck too. To take more steps until the quote meets it would only move the luck into the quote.

Its error has two parts. One is the standard error of that mean: over texts, or over folds where that is larger, since
the texts of a fold share a choice. From few texts it is itself uncertain, and is widened by Student's factor, so that
twice the error covers about as much as two standard errors of a normal law do (95.4 %).
The other is by how much the choices without a fold cost more or less, on all texts, than the one that is taken: where a
choice hangs by a thread, the quoted cost is a mean over several, and which of them is taken was chance. Neither knows
what no sample shows: where few texts cost much and most cost little, a handful of them says too little by any formula.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from unmask._scipy import student_quantile
from unmask.calibration.calibration import Calibration
from unmask.calibration.choice import Candidate
from unmask.calibration.groups import Deviations, Fold, Groups

FOLDS = 8


@final
class Quote(NamedTuple):
    """What to expect of a choice on other texts.

    Attributes:
        cost: Nats per sequence.
        error: Its error over texts that have as many tokens to fill on average, of which two cover what two standard
            errors do, however few the texts.
        chance: The part of that error which comes from the choice.
    """

    cost: float
    error: float
    chance: float


def crossfitted(calibration: Calibration, chosen: Candidate, again: Callable[[Calibration], Candidate]) -> Quote | None:
    """What a choice costs on texts that it was not made on, and the error of that.

    With fewer than eight texts each of them is left out in turn.

    Arguments:
        calibration: What was measured.
        chosen: What was chosen on all texts.
        again: Chooses from a calibration that lacks some of the texts, as `chosen` was chosen from all of them.

    Returns:
        What to expect on other texts; None if the calibration has not kept how texts differ, or has only one.
    """
    texts = calibration.texts
    known = [losses.differences(losses.best(1)) for losses in calibration.losses.values()]
    known += [rule.differences for rule in calibration.rules.values()]
    if texts < 2 or any(each is None or each.texts != texts for each in known):
        return None
    groups = min(each.values.size for each in known if each is not None)
    bounds, paid = Groups.bounds(texts, groups), np.empty(groups)
    weights = np.diff(bounds) / texts
    taken, otherwise = Deviations(texts, _paid(calibration, chosen)).joined(groups), 0.0
    count = min(FOLDS, texts)
    for fold in (Fold(number, count) for number in range(count)):
        other = again(calibration.without(fold))
        inside = fold.among(texts)[bounds[:-1]]
        values = Deviations(texts, _paid(calibration, other)).joined(groups)
        paid[inside] = values[inside]
        # Other texts would have led to another choice, and by how much that costs more or less is a jackknife's to say.
        otherwise += float(weights @ (values - taken)) ** 2 * (count - 1) / count
    cost = float(weights @ paid)
    each = Deviations.of(texts, paid, calibration.tokens_of(groups))
    folds = Deviations(texts, each.joined(count))
    chance = math.sqrt(otherwise)
    return Quote(cost, math.hypot(max(each.error, folds.error) * _student(groups - 1), chance), chance)


def _student(freedom: int) -> float:
    """By how much an error from few texts must be widened for twice of it to cover what it does from many.

    Example:
        >>> [round(_student(freedom), 2) for freedom in (1, 7, 15, 63)]
        [6.98, 1.21, 1.09, 1.02]
    """
    return student_quantile(freedom, 2.0) / 2


def _paid(calibration: Calibration, chosen: Candidate) -> NDArray[np.float64]:
    """What a candidate costs on each group of texts."""
    if chosen.measured:
        return calibration.rules[chosen.name].nll.astype(np.float64)
    return calibration.losses[chosen.name].grouped(chosen.plan.size)
