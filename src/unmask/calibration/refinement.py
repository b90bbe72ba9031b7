"""An order improved by measuring it: swaps of positions that lower its cost on texts.

Pairs do not tell all (`unmask.calibration.dependence`), and a trained model is not equally good in all orders. So
orders are compared by what counts,

    Σ_k Σ_{i∈S_k} −log p̂_i(x_i | x_{S_1 ∪ … ∪ S_{k−1}}),

on the same texts. One evaluation of a text with a set visible gives the losses of all other positions, which every
order that passes through this set can use; an exchange of two positions between steps `a < b` needs those sets that are
new among the `b − a` between them, and no others. The search begins at the orders it is given, comb, spread and random
order among them, the best first. It keeps an exchange that lowers the mean cost by more than three standard errors,
since the best of some hundred exchanges looks better by two or three of them even where all are equal. On these texts
the result is never worse than what it began with, and on others not by more than the noise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import order
from unmask._torch import Tensor, torch
from unmask.calibration.measurement import check_measurable
from unmask.calibration.shards import finite
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.exact import Estimate
from unmask.evaluate.given import texts_of
from unmask.evaluate.sets import check_sizes
from unmask.predict import MaskPredictor, predicting
from unmask.sequences import Sequences

_SURE = 3.0
_LEAST = 1e-9  # nats: below it is rounding
Cut = tuple[tuple[int, ...], ...]


@final
@dataclass(frozen=True, eq=False)
class Refined:
    """The best order found, and what it and others cost on the texts.

    Attributes:
        order: The order.
        cost: Its nats per sequence.
        gain: How much less that is than the best of the orders given, text by text; too good by what was chosen.
        starts: Nats per sequence of the orders it began with, by their names.
        evaluations: Evaluations of each text that it took.
    """

    order: order.Sets
    cost: Estimate
    gain: Estimate
    starts: dict[str, Estimate]
    evaluations: int


def refine_order(
    predictor: MaskPredictor,
    starts: Mapping[str, order.BlindOrder],
    sizes: Sequence[int],
    tokens: Sequences | Tensor,
    *,
    rng: check.Rng,
    evaluations: int = 256,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Refined:
    """Improve an order on texts by exchanging positions.

    Arguments:
        predictor: The model.
        starts: Orders to begin with, by their names, such as those of `learned_orders`. Comb, spread and random order
            join them.
        sizes: Positions of each step, all at least 1 and together all positions.
        tokens: Texts of one length, at least 2.
        rng: Draws what is random of the orders, and which exchanges are tried first.
        evaluations: About how many evaluations of each text to spend; with fewer than the orders themselves need, the
            best of them is the answer.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Raises:
        InputError: if an argument is not what it should be, texts differ in length, or the model gives losses that are
            not finite numbers.
    """
    texts = texts_of(tokens, predictor, least=2)
    check_measurable(predictor)
    if not texts.equal:
        raise check.InputError("tokens", "be texts of the same length")
    length = texts.tokens.shape[1]
    sizes, source = check_sizes(sizes, length), check.generator("rng", rng)
    evaluations = check.integer("evaluations", evaluations, least=1)
    check.function("progress", progress)
    check.room("evaluations", evaluations, 2 * len(texts) * length)
    check.instance("starts", starts, Mapping, "be a mapping from names to orders")
    usual: dict[str, order.BlindOrder] = {
        "comb": order.Comb(shift=0),
        "spread": order.Spread(),
        "random": order.Random(),
    }
    named: dict[str, Cut] = {}
    for name, kind in {**usual, **starts}.items():
        check.instance("starts", kind, order.BlindOrder, "hold blind orders", check.BLIND_ORDER)
        walk = kind.arrange(np.arange(length), length=length, steps=len(sizes), rng=source)
        named[name] = tuple(tuple(part.tolist()) for part in np.split(walk, np.cumsum(sizes)[:-1]))
    measured = _Kept(predictor, texts, batch, engine, progress)
    measured.learn(list(named.values()))
    costs = {name: measured.cost(sets) for name, sets in named.items()}
    ranked = sorted(dict.fromkeys(named.values()), key=lambda sets: measured.cost(sets).mean())
    first = best = ranked[0]
    for begin in ranked:
        found = _descended(measured, begin, source, evaluations)
        if measured.cost(found).mean() < measured.cost(best).mean():
            best = found
    return Refined(
        order.Sets(best),
        Estimate.of(measured.cost(best)),
        Estimate.of(measured.cost(first) - measured.cost(best)),
        {name: Estimate.of(cost) for name, cost in costs.items()},
        len(measured.known),
    )


def _descended(measured: "_Kept", sets: Cut, rng: np.random.Generator, most: int) -> Cut:
    """Exchange positions as long as that surely helps, and evaluations are left."""
    cost = measured.cost(sets)
    improving = True
    while improving:
        improving = False
        for other in _exchanges(sets, rng):
            new = measured.learn([other], most)
            if new is None:
                return sets
            change = Estimate.of(measured.cost(other) - cost)
            if change.mean < -max(_SURE * change.standard_error, _LEAST):
                sets, cost, improving = other, measured.cost(other), True
                break
    return sets


def _exchanges(sets: Cut, rng: np.random.Generator) -> Iterator[Cut]:
    """All ways to exchange two positions of different steps, in random order."""
    step = {place: k for k, each in enumerate(sets) for place in each}
    places = sorted(step)
    pairs = np.array([(i, j) for i in places for j in places if step[i] < step[j]], dtype=np.int64).reshape(-1, 2)
    for i, j in rng.permutation(pairs).tolist():
        turned = {i: j, j: i}
        yield tuple(tuple(turned.get(place, place) for place in each) for each in sets)


@final
class _Kept:
    """Losses of all positions of all texts, by the set that is visible; what is asked for is measured once."""

    def __init__(
        self,
        predictor: MaskPredictor,
        texts: Sequences,
        batch: int,
        engine: Engine,
        progress: Callable[[int], object],
    ) -> None:
        cuts = texts.cuts(batch, pad=predictor.pad, whole=predictor.whole)
        self._job = Job(engine, _Visible(predictor), (texts.tokens, texts.masked), cuts)
        self._progress = progress
        self.known: dict[frozenset[int], NDArray[np.float32]] = {}

    def learn(self, orders: Sequence[Cut], most: int | None = None) -> int | None:
        """Measure what these orders need and nobody has; nothing, and None, if that would be more than `most`."""
        new = list(dict.fromkeys(seen for sets in orders for seen in _beginnings(sets) if seen not in self.known))
        if most is not None and len(self.known) + len(new) > most:
            return None
        found = self._job([(sorted(seen),) for seen in new], lambda task, done: self._progress(done))
        for seen, parts in zip(new, found, strict=True):
            losses = torch.cat(parts)
            finite(losses)
            self.known[seen] = losses.numpy().astype(np.float32)
        return len(new)

    def cost(self, sets: Cut) -> NDArray[np.float64]:
        """Nats of each text."""
        parts = [self.known[seen][:, list(step)] for seen, step in zip(_beginnings(sets), sets, strict=True)]
        return np.sum([part.sum(axis=1, dtype=np.float64) for part in parts], axis=0)


def _beginnings(sets: Cut) -> list[frozenset[int]]:
    """What is visible before each step."""
    return [frozenset(place for step in sets[:k] for place in step) for k in range(len(sets))]


@final
@dataclass(frozen=True, eq=False)
class _Visible:
    """Work on shards: positions that are visible, texts, and what is to be filled of them."""

    predictor: MaskPredictor

    @predicting
    def __call__(self, shard: tuple[list[int], Tensor, Tensor], report: Report) -> Tensor:
        seen, tokens, hidden = shard
        masked = hidden.clone()
        masked[:, seen] = False
        rows = torch.nonzero(masked.flatten())[:, 0]
        losses = torch.zeros(masked.numel(), dtype=torch.float64, device=tokens.device)
        if len(rows):
            prediction = self.predictor(tokens.masked_fill(masked, self.predictor.mask), masked, rows)
            losses[rows] = prediction.losses(tokens.flatten()[rows])
        report(len(tokens))
        return losses.view_as(masked).cpu()
