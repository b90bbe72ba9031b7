"""The exact distribution of a sampler that takes tokens back, for distributions small enough to enumerate.

With a revision the sampler is a Markov chain on partial sequences, followed here from step to step whatever the rule.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.evaluate._walk import Walk
from unmask.evaluate.enumeration import joint_of
from unmask.information.measures import kl
from unmask.order import BlindOrder, Blocks, Calibrated, Delimited, EndLater, Random
from unmask.predict import MaskPredictor
from unmask.predict.base import mask_predictor
from unmask.revision import TakeBack
from unmask.schedule import Schedule
from unmask.size import LogLinear
from unmask.size.base import Blind, Planned

_LARGEST = 4096  # partial sequences
_LONGEST = 6  # tokens, where every order is followed by itself


@final
@dataclass(frozen=True, eq=False)
class RevisedLaw:
    """What a sampler generates, and how far that is from a target.

    Attributes:
        output: The law of its texts, an array of shape `(vocab,) * length`.
        kl: `KL(p ‖ q)` from the target to it, in nats.
        total_variation: Half the sum of absolute differences.
        evaluations: Evaluations of a sequence, on average.
    """

    output: NDArray[np.float64]
    kl: float
    total_variation: float
    evaluations: float

    def __post_init__(self):
        check.numbers("output", self.output)
        for name in ("total_variation", "evaluations"):
            check.real(name, getattr(self, name), least=0.0)


def revised_law(predictor: MaskPredictor, schedule: Schedule, target: ArrayLike) -> RevisedLaw:
    """Enumerate a sampler with any revision, or none, from fully masked sequences at temperature 1.

    If positions of a symmetric distribution score equally, rounding decides which comes first, as it does in a sampler
    with this predictor. Such a law may differ from one machine to another.

    Arguments:
        predictor: The model; `ExactPredictor(distribution)` is the perfect one.
        schedule: Fixed sizes, `LogLinear`, or sizes that look at predictions; an order that is random, always the
            same, or looks at predictions; no blocks.
        target: The joint distribution to compare with, an array of shape `(vocab,) * length`.

    Example:
        >>> from unmask import order, revision, size
        >>> from unmask.distribution import Parity, Table
        >>> from unmask.predict import ExactPredictor
        >>> pair = Table.of(Parity(2)).probabilities  # two equal bits
        >>> one = Schedule(size.Even(1), order.Random())
        >>> fixed = Schedule(size.Even(1), order.Random(), revision.Gibbs(1))
        >>> [round(revised_law(ExactPredictor(Parity(2)), each, pair).total_variation, 3) for each in (one, fixed)]
        [0.5, 0.0]
    """
    mask_predictor(predictor)
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    joint = joint_of(target)
    if (vocab := joint.shape[0]) != predictor.vocab:
        raise check.InputError("target", f"have {predictor.vocab} tokens, like the predictor", found=f"{vocab}")
    if (vocab + 1) ** (length := joint.ndim) > _LARGEST:
        raise check.InputError("target", "be small enough to enumerate", found=f"{vocab}^{length} sequences")
    _check_schedule(schedule)
    if isinstance(schedule.within, Random) and not isinstance(schedule.size, Blind) and length > _LONGEST:
        detail = "because the order is random and the size looks at predictions, so every order is followed by itself"
        raise check.InputError("target", f"have at most {_LONGEST} tokens", found=f"{length}", detail=detail)
    if predictor.remembers and schedule.revision is None:
        must = "have no memory if the schedule has no revision"
        raise check.InputError("predictor", must, remedy="Use evaluate.replay.")
    law, evaluations = Walk(predictor, schedule, length, vocab)()
    output = np.zeros(joint.shape)
    for each, chance in law.items():
        output[each.tokens] += chance
    return RevisedLaw(output, kl(joint.ravel(), output.ravel()), float(np.abs(joint - output).sum()) / 2, evaluations)


def _check_schedule(schedule: Schedule) -> None:
    order, size, rule = schedule.order, schedule.size, schedule.revision
    if isinstance(order, Blocks | Delimited):
        raise check.InputError("schedule", "have no blocks, because they cannot be enumerated")
    looks_back = not isinstance(size, Blind) and size.looks_back
    if schedule.spaced is not None or isinstance(order, Calibrated | EndLater) or looks_back:
        raise check.InputError("schedule", "not use Spaced, Calibrated, EndLater or Stable, which cannot be enumerated")
    if isinstance(order, BlindOrder) and not isinstance(order, Random) and not order.fixed:
        remedy = "Give it a shift." if hasattr(order, "shift") else ""
        raise check.InputError("schedule", "have a random or a fixed order", found=check.shown(order), remedy=remedy)
    if isinstance(size, Blind) and not isinstance(size, Planned | LogLinear):
        raise check.InputError("schedule", "have fixed or log-linear sizes", found=check.shown(size))
    if rule is not None and rule.extra:
        raise check.InputError("schedule", "have no extra steps after the last, because these cannot be enumerated")
    if isinstance(size, LogLinear) and not (isinstance(rule, TakeBack) and rule.by_rate):
        raise check.InputError("schedule", "have a revision that remasks at random if its sizes are log-linear")
