"""Which tokens a step reveals when positions are uniformly random.

Given the sizes of each sequence, its masked positions are split into disjoint sets of those sizes, every split being
equally likely. The sets are returned as one array that says at which step each position is revealed: it is compact,
works for any number of sequences with different masks, and costs `O(K + L)` per sequence.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import check
from unmask.loops import compiled

KEPT = -1  # the step of a position that was never masked


def reveal_steps(sizes: ArrayLike, masked: ArrayLike, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the step `0 … steps−1` at which each masked position is revealed.

    Arguments:
        sizes: Sizes of each sequence, shape `(batch, steps)`, as drawn by a size schedule.
        masked: Booleans, shape `(batch, length)`, true where a token is to be revealed. Rows may differ in how many
            they have; each row of `sizes` must sum to its own number.
        rng: Source of randomness.

    Returns:
        Shape `(batch, length)`; `KEPT` where the position is not masked.

    Example:
        >>> steps = reveal_steps([[2, 1]], [[True, False, True, True]], rng=np.random.default_rng(0))
        >>> sorted(steps[0].tolist())
        [-1, 0, 0, 1]
    """
    sizes, masked = np.atleast_2d(check.array("sizes", sizes)), np.atleast_2d(check.array("masked", masked))
    if sizes.dtype.kind not in "iu" or (sizes.size and sizes.min() < 0):
        raise ValueError("Argument 'sizes' must hold non-negative integers.")
    if masked.dtype != np.bool_:
        raise TypeError(f"Argument 'masked' must hold booleans, not {masked.dtype}.")
    if sizes.shape[0] != masked.shape[0]:
        raise ValueError(
            f"Argument 'sizes' must have one row for each of the {masked.shape[0]} sequences, not {sizes.shape[0]}."
        )
    wrong = np.nonzero(sizes.sum(axis=1) != masked.sum(axis=1))[0]
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"Argument 'sizes' must sum to the number of masked positions, but row {row} sums to "
            f"{int(sizes[row].sum())} with {int(masked[row].sum())} positions masked."
        )
    result = np.full(masked.shape, KEPT, dtype=np.int64)
    _shuffle_into(result, sizes.astype(np.int64), masked, rng)
    return result


@compiled
def _shuffle_into(result, sizes, masked, rng):
    """Give each masked position the next step label, then shuffle the labels (Fisher–Yates)."""
    batch, length = masked.shape
    positions = np.empty(length, dtype=np.int64)
    for row in range(batch):
        count = 0
        for position in range(length):
            if masked[row, position]:
                positions[count] = position
                count += 1
        step, left = 0, 0
        for index in range(count):
            while left == 0:
                left = sizes[row, step]
                step += 1
            result[row, positions[index]] = step - 1
            left -= 1
        for index in range(count - 1, 0, -1):
            other = rng.integers(0, index + 1)
            here, there = positions[index], positions[other]
            kept = result[row, here]
            result[row, here] = result[row, there]
            result[row, there] = kept
