"""Loss curves by simulation, for distributions whose exact curve is out of reach.

Draw `x` from the distribution and a uniformly random order of the positions. With the first `n` of the order
visible, the mean over the masked positions of the entropy of their conditional marginals,

    ℓ̂(n) = 1/(L−n) · Σ_{i masked} H(p_i(· | x_visible))

has expectation `ℓ(n)`: the average runs over the set, over its tokens, and (in closed form) over the position
and the token asked for, which is why the entropy is used and not the surprise `−log p_i(x_i)` of a single
token. One draw serves all `n` along its own order; draws are independent, so the spread between them gives
the standard error of each `ℓ̂(n)`.

The truth never increases with `n` but a mean of finitely many draws may. The estimate keeps the raw means and
also a `Curve`, which is the non-increasing sequence nearest to them in least squares (isotonic regression).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._scipy import entr, falling
from unmask.distribution.base import Distribution
from unmask.information.curve import Curve

# Marginals are asked for in batches of about this many numbers (128 MB of doubles).
_NUMBERS_AT_ONCE = 2**24


@final
@dataclass(frozen=True, eq=False)
class CurveEstimate:
    """An estimated loss curve.

    Arguments:
        curve: The estimate made non-increasing by isotonic regression.
        loss: The raw means, which are unbiased, shape `(length,)`.
        standard_error: The standard error of each raw mean, shape `(length,)`, estimated from the spread of the
            draws; zero says that they all agreed, not that the mean is exact.
        draws: How many independent draws were averaged.
    """

    curve: Curve
    loss: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    draws: int


def estimate_curve(distribution: Distribution, draws: int, *, rng: check.Rng) -> CurveEstimate:
    """Estimate the loss curve of any distribution from its conditional marginals.

    Each draw asks for `length` rows of marginals.

    Arguments:
        distribution: The distribution.
        draws: The number of independent draws, at least 2.
        rng: The source of randomness: a numpy generator, or a seed that makes one.

    Returns:
        The estimate with its standard errors.

    Raises:
        InputError: if `draws` is less than 2, which leaves no standard error.

    Example:
        Every order of a parity code looks the same, so that the estimate is exact.

        >>> from unmask.distribution import Parity
        >>> estimate = estimate_curve(Parity(4), 10, rng=np.random.default_rng(0))
        >>> np.round(estimate.loss / np.log(2), 12).tolist(), float(estimate.standard_error.max())
        ([1.0, 1.0, 1.0, 0.0], 0.0)
    """
    check.instance("distribution", distribution, Distribution, "be a distribution")
    draws = check.integer("draws", draws, least=2)
    length, source = distribution.length, check.generator("rng", rng)
    check.room("draws", draws, length)
    rows = max(1, min(length, _NUMBERS_AT_ONCE // (length * distribution.vocab)))
    losses = np.empty((draws, length))
    for draw, tokens in enumerate(distribution.sample(draws, rng=source)):
        rank = source.permutation(length)
        for start in range(0, length, rows):
            visible = np.arange(start, min(start + rows, length))
            masked = rank[None, :] >= visible[:, None]
            marginals = distribution.marginals(np.broadcast_to(tokens, masked.shape), masked)
            # Revealed positions are certain, so that they add nothing to the sum.
            losses[draw, visible] = entr(marginals).sum(axis=(1, 2)) / (length - visible)
    return average(losses)


def average(losses: ArrayLike) -> CurveEstimate:
    """The estimate that independent loss curves make together.

    Arguments:
        losses: One unbiased curve per draw, shape `(draws, length)` with at least two draws.

    Returns:
        Their mean with its standard error, and the mean made non-increasing.

    Example:
        >>> estimate = average(np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
        >>> estimate.loss.tolist(), estimate.curve.loss.tolist()
        ([1.0, 0.0, 0.5], [1.0, 0.25, 0.25])
    """
    values = check.numbers("losses", losses)
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise check.InputError(
            "losses", "have the shape (draws, length) with at least two draws", found=f"{values.shape}"
        )
    draws = values.shape[0]
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws)
    return CurveEstimate(Curve(falling(mean)), mean, error, draws)
