"""The one-by-one likelihood of a model in random order, from few evaluations.

Revealed one by one in uniformly random order, a text `x` costs on average over the orders

    Σ_{n=0}^{L−1} E_A (1/(L−n)) Σ_{i∉A} −log p̂_i(x_i | x_A),        A a uniformly random n-subset,

since every masked position is equally likely to come next. One evaluation with `n` visible gives the mean over all
masked positions at once, so that a few levels `n`, one drawn in each of as many strata of `0 … L−1`, estimate the sum
without bias and about as well as the `L` evaluations of a replay do.
"""

import numpy as np

from unmask import check
from unmask.backend import Tensor, torch
from unmask.predict import MaskPredictor


@torch.no_grad()
def random_order(
    predictor: MaskPredictor, tokens: Tensor, *, seed: int, points: int = 32, batch: int = 64
) -> tuple[Tensor, int]:
    """Estimate the one-by-one likelihood in random order.

    Arguments:
        predictor: The model.
        tokens: Texts, shape `(count, length)`.
        seed: Seeds levels and sets; each text has its own.
        points: Evaluations of each text, if it has so many tokens.
        batch: Texts at once.

    Returns:
        Nats of each text, float64, unbiased; and the evaluations each took.
    """
    count, length = tokens.shape
    points = min(check.integer("points", points, least=1), length)
    edges = np.arange(points + 1) * length // points
    visible = np.empty((count, points), dtype=np.int64)
    keys = np.empty((count, length))
    for row in range(count):
        rng = np.random.default_rng([seed, row])
        visible[row] = rng.integers(edges[:-1], edges[1:])
        keys[row] = rng.permutation(length)
    rank = torch.from_numpy(keys).to(tokens.device)
    total = torch.zeros(count, dtype=torch.float64, device=tokens.device)
    for start in range(0, count, batch):
        part = slice(start, start + batch)
        for point in range(points):
            level = torch.from_numpy(visible[part, point]).to(tokens.device)
            masked = rank[part] >= level[:, None]
            rows = torch.nonzero(masked.flatten())[:, 0]
            prediction = predictor(tokens[part].masked_fill(masked, predictor.mask), masked, rows)
            losses = torch.zeros(masked.numel(), dtype=torch.float64, device=tokens.device)
            losses[rows] = prediction.losses(tokens[part].flatten()[rows])
            mean = losses.view_as(masked).sum(dim=1) / (length - level)
            total[part] += float(edges[point + 1] - edges[point]) * mean
    return total.cpu(), points
