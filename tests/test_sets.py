"""Uniformly random disjoint sets."""

import numpy as np
import pytest

from unmask.sets import KEPT, reveal_steps


def test_every_split_is_equally_likely():
    """Counts of the 12 splits of 4 positions into sizes 2, 1, 1 within 6 standard errors (failure under 1e-7)."""
    count = 24_000
    steps = reveal_steps(np.tile([2, 1, 1], (count, 1)), np.ones((count, 4), dtype=bool), rng=np.random.default_rng(1))
    splits, counts = np.unique(steps, axis=0, return_counts=True)
    assert len(splits) == 12
    assert np.all(np.abs(counts - count / 12) < 6 * np.sqrt(count / 12))


def test_rows_with_different_masks_each_keep_their_own_sizes():
    rng = np.random.default_rng(2)
    masked = rng.random((200, 30)) < 0.6
    masked[:, 0] = True
    sizes = np.zeros((200, 5), dtype=int)
    for row, total in enumerate(masked.sum(axis=1)):
        sizes[row] = rng.multinomial(total, np.full(5, 0.2))
    steps = reveal_steps(sizes, masked, rng=rng)
    assert np.all((steps == KEPT) == ~masked)
    for step in range(5):
        np.testing.assert_array_equal((steps == step).sum(axis=1), sizes[:, step])


def test_wrong_sums_are_refused_with_the_row():
    with pytest.raises(ValueError, match="row 1 sums to 2 with 3 positions masked"):
        reveal_steps([[1, 2], [1, 1]], np.ones((2, 3), dtype=bool), rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match="must hold booleans"):
        reveal_steps([[3]], [[1, 1, 1]], rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="one row for each of the 2 sequences, not 1"):
        reveal_steps([[3]], np.ones((2, 3), dtype=bool), rng=np.random.default_rng(0))
