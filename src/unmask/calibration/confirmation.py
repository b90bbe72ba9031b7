"""A learned order that has to win on texts it was not learned from.

A search that looks at many orders finds one that suits its texts by luck. So the texts are split. On one half
`refine_order` looks for the cheapest order, starting from orders learned from dependence and from the standard ones:
comb, spread and random. On the other half the result and the standard orders are replayed, and the learned order is
taken only if it costs less than the best standard order there by more than the noise,

    mean_x [c_standard(x) − c_learned(x)]  >  t · standard error,

with the same texts for both and `t` the quantile of Student's distribution that a normal variable stays below as often
as two standard deviations. Otherwise the best standard order is the answer. A learned order that is really worse than
the best standard one passes with a probability below 2.3 %, up to the normality of the mean.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask import order, size
from unmask._scipy import student_quantile
from unmask._torch import Tensor
from unmask.calibration.measurement import check_measurable
from unmask.calibration.refinement import Refined, refine_order
from unmask.calibration.shards import finite
from unmask.engine import LOCAL, Engine
from unmask.evaluate.exact import Estimate
from unmask.evaluate.given import texts_of
from unmask.evaluate.likelihood import replays
from unmask.evaluate.sets import check_sizes
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

LEAST_TEXTS = 8
_SURE = 2.0
_LEAST = 1e-9  # nats: below it is rounding
_STANDARD: dict[str, order.BlindOrder] = {
    "whole-comb": order.Comb(shift=0),
    "spread": order.Spread(),
    "random": order.Random(),
}


@final
@dataclass(frozen=True, eq=False)
class Confirmed:
    """The order to take, and what the orders cost on the texts that were held out.

    Attributes:
        order: The learned order, or the best standard one.
        kept: The name of that standard order; None if the learned order is better by more than the noise.
        refined: What the search found on its half of the texts.
        costs: Nats per sequence on the other half, by name: "learned" and the standard orders.
        gain: How much less the learned order costs than the best standard one, text by text on the other half.
        searched: Texts of the search.
        held_out: Texts of the other half.
    """

    order: order.BlindOrder
    kept: str | None
    refined: Refined
    costs: dict[str, Estimate]
    gain: Estimate
    searched: int
    held_out: int


def confirmed_order(
    predictor: MaskPredictor,
    starts: Mapping[str, order.BlindOrder],
    sizes: Sequence[int],
    tokens: Sequences | Tensor,
    *,
    rng: check.Rng,
    standard: Mapping[str, order.BlindOrder] | None = None,
    evaluations: int = 256,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Confirmed:
    """Refine an order on half of the texts, and keep it if it beats the standard orders on the other half.

    Arguments:
        predictor: The model.
        starts: Orders to begin with, by their names, such as those of `learned_orders`.
        sizes: Positions of each step, all at least 1 and together all positions.
        tokens: Texts of one length, at least 8. Every second one is held out.
        rng: Draws what is random of the orders, and which exchanges are tried first.
        standard: More orders to begin with and to compare with, by their names, such as those of a grid. Comb, spread
            and random order always take part.
        evaluations: About how many evaluations of each text the search may spend. The comparison takes as many again
            as there are steps, for each order.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Raises:
        InputError: if an argument is not what it should be, texts differ in length or in what is to be filled, or the
            model gives losses that are not finite numbers.
    """
    texts = texts_of(tokens, predictor, least=LEAST_TEXTS)
    check_measurable(predictor)
    if not texts.equal or not bool(texts.masked.all()):
        raise check.InputError("tokens", "be texts of the same length without given tokens")
    sizes, source = check_sizes(sizes, texts.tokens.shape[1]), check.generator("rng", rng)
    known = _STANDARD | dict(standard or {})
    check.instance("starts", starts, Mapping, "be a mapping from names to orders")
    if "learned" in known:
        raise check.InputError("standard", "have no order named 'learned', which is the name of the result")
    refined = refine_order(
        predictor,
        {**{name: kind for name, kind in known.items() if name not in _STANDARD}, **starts},
        sizes,
        texts[::2],
        rng=source,
        evaluations=evaluations,
        batch=batch,
        engine=engine,
        progress=progress,
    )
    held = texts[1::2]
    kinds: dict[str, order.BlindOrder] = {"learned": refined.order, **known}
    found = replays(
        predictor,
        [Schedule(size.Explicit(sizes), kind) for kind in kinds.values()],
        held,
        rng=source.integers(2**62, size=len(held)).tolist(),
        batch=batch,
        engine=engine,
        progress=lambda number, done: progress(done),
    )
    for each in found:
        finite(each.nll)
    nats = {name: np.asarray(each.nll, dtype=np.float64) for name, each in zip(kinds, found, strict=True)}
    best = min(known, key=lambda name: nats[name].mean())
    gain = Estimate.of(nats[best] - nats["learned"])
    better = gain.mean > max(student_quantile(len(held) - 1, _SURE) * gain.standard_error, _LEAST)
    return Confirmed(
        refined.order if better else known[best],
        None if better else best,
        refined,
        {name: Estimate.of(each) for name, each in nats.items()},
        gain,
        len(texts) - len(held),
        len(held),
    )


def confirming_evaluations(texts: int, steps: int, evaluations: int, *, standard: int = 0) -> int:
    """The most evaluations of a text, summed over texts, that `confirmed_order` spends; for a bar of progress.

    Arguments:
        texts: All texts.
        steps: Steps of the order.
        evaluations: As for `confirmed_order`, and at least what its starting orders take.
        standard: Orders to compare with beside comb, spread and random.
    """
    held = texts // 2
    return (texts - held) * evaluations + held * steps * (1 + len(_STANDARD) + standard)
