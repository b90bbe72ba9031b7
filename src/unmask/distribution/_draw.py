"""Inverse-transform draws: one uniform number per token, and never a token of probability zero.

With cumulative sums `F_v = p_0 + … + p_v`, scaled so that the last is exactly one, a uniform `u ∈ [0, 1)`
picks

    v(u) = #{v : F_v ≤ u}

A token of probability zero has `F_v = F_{v−1}`, so the count passes over it, and the scaling keeps `v(u)`
within the vocabulary whatever the rounding of the sums.
"""

import numpy as np
from numpy.typing import NDArray


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums along the last axis, scaled to end at exactly one.

    Arguments:
        probabilities: Shape `(…, vocab)`.

    Returns:
        The same shape.

    Example:
        >>> cumulative(np.array([0.25, 0.0, 0.75])).tolist()
        [0.25, 0.25, 1.0]
    """
    sums = np.cumsum(probabilities, axis=-1)
    return sums / sums[..., -1:]


def invert(sums: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """The tokens that uniform numbers pick.

    Arguments:
        sums: Cumulative sums from `cumulative`, shape `(…, vocab)`.
        uniform: Numbers in `[0, 1)`, shape `(…)`.

    Returns:
        Tokens, shape `(…)`.

    Example:
        >>> invert(cumulative(np.array([0.25, 0.0, 0.75])), np.array(0.25)).tolist()
        2
    """
    return (sums <= uniform[..., None]).sum(axis=-1, dtype=np.int64)
