"""The one-by-one likelihood of a model in random order, from few evaluations.

Revealed one by one in uniformly random order, a text `x` costs on average over the orders

    Σ_{n=0}^{L−1} E_A (1/(L−n)) Σ_{i∉A} −log p̂_i(x_i | x_A),        A a uniformly random n-subset,

since every masked position is equally likely to come next. One evaluation with `n` visible gives the mean over all
masked positions at once, so that a few levels `n`, one drawn in each of as many strata of `0 … L−1`, estimate the sum
without bias and about as well as the `L` evaluations of a replay do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.given import NOT_NUMBERS, Randomness, seed_of, texts_of
from unmask.predict import MaskPredictor, Watched, predicting


def random_order(
    predictor: MaskPredictor,
    tokens: Tensor,
    *,
    rng: Randomness,
    points: int = 32,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[Tensor, int]:
    """Estimate the one-by-one likelihood in random order.

    Arguments:
        predictor: The model.
        tokens: Texts, shape `(count, length)`.
        rng: A seed, or a generator that gives one. Levels and sets come from it, for each text its own.
        points: Evaluations of each text, if it has so many tokens.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Returns:
        Nats of each text, float64, unbiased; and the evaluations each took.

    Raises:
        InputError: if an argument is not what it should be, or the model gives losses that are not numbers.
    """
    tokens, seed = texts_of(tokens, predictor), seed_of(rng)
    check.function("progress", progress)
    count, length = tokens.shape
    if length == 0:
        raise check.InputError("tokens", "have at least one position")
    points = min(check.integer("points", points, least=1), length)
    edges = np.arange(points + 1) * length // points
    visible = np.empty((count, points), dtype=np.int64)
    keys = np.empty((count, length), dtype=np.int64)
    for row in range(count):
        source = np.random.default_rng([seed, row])
        visible[row] = source.integers(edges[:-1], edges[1:])
        keys[row] = source.permutation(length)
    levels, rank = (torch.as_tensor(each).to(tokens.device) for each in (visible, keys))
    work = _Levels(predictor, tuple(np.diff(edges).tolist()))
    job = Job(engine, work, (tokens, levels, rank), batch=batch, whole=predictor.whole)
    nats = torch.cat(job([()], lambda task, done: progress(done))[0])
    if bool(nats.isnan().any()):
        raise check.InputError("", NOT_NUMBERS)
    return nats, points


@final
@dataclass(frozen=True, eq=False)
class _Levels:
    """Work on shards: texts, the levels of each, and the rank of each position.

    Arguments:
        predictor: The model.
        widths: How many levels each stratum has.
    """

    predictor: MaskPredictor
    widths: tuple[int, ...]

    @predicting
    def __call__(self, shard: tuple[Tensor, Tensor, Tensor], report: Report) -> Tensor:
        tokens, levels, rank = shard
        predictor = Watched(self.predictor, report)
        total = torch.zeros(tokens.shape[0], dtype=torch.float64, device=tokens.device)
        for level, width in zip(levels.T, self.widths, strict=True):
            masked = rank >= level[:, None]
            rows = torch.nonzero(masked.flatten())[:, 0]
            prediction = predictor(tokens.masked_fill(masked, predictor.mask), masked, rows)
            losses = torch.zeros(masked.numel(), dtype=torch.float64, device=tokens.device)
            losses[rows] = prediction.losses(tokens.flatten()[rows])
            total += float(width) * (losses.view_as(masked).sum(dim=1) / (tokens.shape[1] - level))
        return total.cpu()
