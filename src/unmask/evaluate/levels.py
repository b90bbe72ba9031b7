"""The one-by-one likelihood of a model in random order, from few evaluations.

Revealed one by one in uniformly random order, a text `x` of which `L` tokens are to be filled costs on average over
the orders

    Σ_{n=0}^{L−1} E_A (1/(L−n)) Σ_{i∉A} −log p̂_i(x_i | x_A),        A a uniformly random n-subset,

since every masked position is equally likely to come next. One evaluation with `n` visible gives the mean over all
masked positions at once, so that a few levels `n`, one drawn in each of as many strata of `0 … L−1`, estimate the sum
without bias and about as well as the `L` evaluations of a replay do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.given import NOT_NUMBERS, Randomness, seed_of, texts_of
from unmask.predict import MaskPredictor, Watched, predicting
from unmask.sample.trace import answered
from unmask.sequences import Sequences, put_back, trimmed


def random_order(
    predictor: MaskPredictor,
    tokens: Sequences | Tensor,
    *,
    rng: Randomness,
    points: int = 32,
    end: int | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[Tensor, int]:
    """Estimate the one-by-one likelihood in random order.

    Arguments:
        predictor: The model.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: A seed, or a generator that gives one. Levels and sets come from it, for each text its own.
        points: Evaluations of each text, if it has so many tokens.
        end: The token id after which a text is over: what follows it is not scored.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Returns:
        Nats of each text, float64, unbiased; and the evaluations each took.

    Raises:
        InputError: if an argument is not what it should be, the model gives losses that are not numbers, or it
            remembers: `unmask.evaluate.replay` then scores one by one, in one pass.
    """
    texts, order = texts_of(tokens, predictor).by_length()
    if predictor.remembers:  # a set of visible tokens does not say how they came
        raise check.InputError(
            "predictor",
            "predict from the visible tokens only",
            detail="but this one remembers the steps in which they were revealed",
            remedy="To score one token at a time in random order, use `replay`, which takes one pass.",
        )
    seed = seed_of(rng)
    check.function("progress", progress)
    masked: NDArray[np.bool_] = texts.masked.cpu().numpy()
    numbers: list[int] = plain(order)
    counts = masked.sum(axis=1)
    if len(counts) and counts.min() == 0:
        raise check.InputError("tokens", "have at least one position to fill in each text")
    points = check.integer("points", points, least=1)
    # Strata that a text has no tokens for are empty, and its mean over them counts nothing.
    most = min(points, int(counts.max(initial=1)))
    levels = np.zeros((len(counts), most), dtype=np.int64)
    widths = np.zeros((len(counts), most), dtype=np.int64)
    rank = np.full(masked.shape, -1, dtype=np.int64)
    for row, (number, count) in enumerate(zip(numbers, counts.tolist(), strict=True)):
        own = min(points, count)
        edges = np.arange(own + 1) * count // own
        source = np.random.default_rng([seed, number])
        levels[row, :own] = source.integers(edges[:-1], edges[1:])
        widths[row, :own] = np.diff(edges)
        rank[row, masked[row]] = source.permutation(count)
    place = texts.tokens.device
    table = (torch.as_tensor(each).to(place) for each in (levels, widths, rank))
    columns = (texts.tokens, texts.masked, texts.lengths, *table)
    job = Job(engine, _Levels(predictor, end), columns, texts.cuts(batch, pad=predictor.pad, whole=predictor.whole))
    nats = put_back(job([()], lambda task, done: progress(done))[0], order)
    if bool(nats.isnan().any()):
        raise check.InputError("", NOT_NUMBERS)
    return nats, most


@final
@dataclass(frozen=True, eq=False)
class _Levels:
    """Work on shards: texts, the levels of each, how many levels each stands for, and the rank of each position.

    Arguments:
        predictor: The model.
        end: The token id after which a text is over.
    """

    predictor: MaskPredictor
    end: int | None

    @predicting
    def __call__(self, shard: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], report: Report) -> Tensor:
        tokens, hidden, lengths, levels, widths, rank = shard
        tokens, hidden = trimmed(tokens, hidden, lengths, self.predictor.pad)
        rank = rank[:, : tokens.shape[1]]
        predictor = Watched(self.predictor, report)
        counts = hidden.sum(dim=1)
        # What is beyond the end is masked and revealed like the rest: it has its share of the order, and no cost.
        beyond = ~answered(tokens, hidden, self.end).flatten()
        total = torch.zeros(tokens.shape[0], dtype=torch.float64, device=tokens.device)
        for level, width in zip(levels.T, widths.T, strict=True):
            masked = hidden & (rank >= level[:, None]) & (width > 0)[:, None]
            rows = torch.nonzero(masked.flatten())[:, 0]
            prediction = predictor(tokens.masked_fill(masked, predictor.mask), masked, rows)
            losses = torch.zeros(masked.numel(), dtype=torch.float64, device=tokens.device)
            losses[rows] = prediction.losses(tokens.flatten()[rows])
            losses.masked_fill_(beyond, 0.0)
            total += width * (losses.view_as(masked).sum(dim=1) / (counts - level))
        return total.cpu()
