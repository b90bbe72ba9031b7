"""Orders: permutations of whatever is masked, spread or combed as they say."""

import numpy as np
import pytest

from enumeration import arrangements, van_der_corput
from pairs import label
from reference import chi_square
from unmask import order, size

BLIND = [
    order.Random(),
    order.Spread(),
    order.Comb(),
    order.Comb(3),
    order.LeftToRight(),
    order.Dilated(),
    order.Periodic([1, 0, 2]),
    order.Nearby(),
    order.Nearby(3),
    order.Halton(),
    order.Halton(rolled=True),
]


def arranged(which, length, steps=None, positions=None, seed=0):
    positions = np.arange(length) if positions is None else positions
    return which.arrange(positions, length=length, steps=steps or length, rng=np.random.default_rng(seed))


def test_every_public_order_is_known_here():
    final = {
        c for c in vars(order).values() if isinstance(c, type) and issubclass(c, order.Order) and c is not order.Order
    }
    listed = {type(which) for which in BLIND} | {order.SpreadGrid, order.CombGrid, order.Sets}
    around = {order.Blocks, order.Spaced, order.Delimited}
    reactive = {order.Confidence, order.Margin, order.Entropy, order.Calibrated, order.EndLater}
    assert final == listed | around | reactive | {order.BlindOrder, order.ReactiveOrder}


@pytest.mark.parametrize("which", BLIND, ids=label)
def test_every_blind_order_is_a_permutation_at_any_length_and_on_any_subset(which):
    rng = np.random.default_rng(1)
    for length in range(1, 71):
        for positions in (np.arange(length), np.flatnonzero(rng.random(length) < 0.4)):
            if positions.size:
                result = arranged(which, length, max(1, length // 4), positions, seed=length)
                np.testing.assert_array_equal(np.sort(result), positions)


def test_a_grid_is_permuted_whatever_its_sides():
    rng = np.random.default_rng(2)
    for height in range(1, 9):
        for width in range(1, 9):
            length = height * width
            positions = np.flatnonzero(rng.random(length) < 0.6)
            for subset in (np.arange(length), positions):
                grids = order.SpreadGrid(height, width), order.CombGrid(height, width), order.Halton(height, width)
                for which in grids:
                    result = arranged(which, length, 1 + length // 3, positions=subset)
                    np.testing.assert_array_equal(np.sort(result), subset)


@pytest.mark.parametrize("length", [1, 2, 4, 8, 16, 64])
def test_prefixes_of_the_spread_order_have_equal_gaps(length):
    """Any `2^j` first positions of a length `L = 2^m` are exactly `L/2^j` apart, around the circle."""
    for seed in range(5):
        walk = arranged(order.Spread(), length, seed=seed)
        for count in (2**j for j in range(length.bit_length())):
            prefix = np.sort(walk[:count])
            gaps = np.diff(np.append(prefix, prefix[0] + length))
            np.testing.assert_array_equal(gaps, length // count)


@pytest.mark.parametrize("length", [3, 5, 12, 37, 50, 70])
def test_prefixes_of_the_spread_order_are_even_at_any_length(length):
    """The first `n` positions leave no gap above twice the even one, rounded up by one."""
    walk = arranged(order.Spread(), length)
    for count in range(1, length + 1):
        prefix = np.sort(walk[:count])
        gaps = np.diff(np.append(prefix, prefix[0] + length))
        assert gaps.max() <= 2 * length / count + 1


def test_bit_reversal_is_the_van_der_corput_sequence():
    for length in range(1, 71):
        np.testing.assert_array_equal(order.bit_reversal(length), van_der_corput(length))


@pytest.mark.parametrize(("which", "steps"), [(order.Spread(), 4), (order.Comb(), 4), (order.Comb(2), 4)], ids=str)
def test_shifts_are_uniform(which, steps):
    """First positions over 4,000 draws against the enumerated ones: chi-square at level 1e-6."""
    rng, positions = np.random.default_rng(3), np.arange(8)
    found = np.bincount([which.arrange(positions, length=8, steps=steps, rng=rng)[0] for _ in range(4000)], minlength=8)
    chances = np.zeros(8)
    for chance, walk in arrangements(which, list(range(8)), 8, steps):
        chances[walk[0]] += chance
    assert chi_square(found, chances) > 1e-6


def test_random_order_is_uniform_over_permutations():
    """24 permutations of 4 positions in 6,000 draws: chi-square at level 1e-6."""
    rng = np.random.default_rng(4)
    draws = [tuple(order.Random().arrange(np.arange(4), length=4, steps=2, rng=rng)) for _ in range(6000)]
    _, counts = np.unique(draws, axis=0, return_counts=True)
    assert counts.size == 24
    assert chi_square(counts, np.full(24, 1 / 24)) > 1e-6


@pytest.mark.parametrize(("length", "steps"), [(12, 4), (64, 8), (60, 5), (16, 16), (7, 1)])
def test_the_teeth_of_a_comb_are_the_steps_by_default(length, steps):
    """With `K` steps that divide `L`, step `j` takes one token of each of the `L/K` segments, `K` apart."""
    for seed in range(6):
        walk = arranged(order.Comb(), length, steps, seed=seed).reshape(steps, length // steps)
        for tooth in np.sort(walk, axis=1):
            np.testing.assert_array_equal(np.diff(tooth), steps)


@pytest.mark.parametrize(("length", "steps"), [(100, 16), (60, 8), (257, 16), (13, 4), (10, 7)])
def test_an_even_step_of_a_comb_is_one_tooth_whatever_the_remainder(length, steps):
    """A prompt leaves any number of positions: tokens of a step stay `K` apart, and neighbours never come together."""
    sizes = size.Even(steps).sizes(length)
    for which in (order.Comb(), order.Periodic(range(steps))):
        for seed in range(6):
            walk = arranged(which, length, steps, seed=seed)
            for tooth in np.split(walk, np.cumsum(sizes)[:-1]):
                np.testing.assert_array_equal(np.diff(np.sort(tooth)), steps)


@pytest.mark.parametrize("which", [order.Comb(), order.Comb(3), order.Comb(1)], ids=str)
@pytest.mark.parametrize(("length", "steps"), [(12, 4), (13, 4), (31, 7), (64, 8)])
def test_from_the_second_tooth_on_a_comb_grows_to_the_right(which, length, steps):
    """Every token of a later tooth has its left neighbour revealed before it; the very first position has none."""
    for seed in range(6):
        walk = arranged(which, length, steps, seed=seed)
        rank = np.argsort(walk)
        teeth = min(steps, length) if which.segments is None else -(-length // which.segments)
        first = {int(p) for p in walk if (p - walk[0]) % teeth == 0}
        for position in range(1, length):
            if position not in first:
                assert rank[position - 1] < rank[position]


def test_a_comb_on_a_subset_counts_masked_positions():
    positions = np.array([3, 4, 10, 11, 12, 20])
    walk = arranged(order.Comb(2), 24, 3, positions, seed=1)
    indices = np.searchsorted(positions, walk).reshape(3, 2)
    assert np.all(np.abs(np.diff(indices, axis=1)) == 3)


@pytest.mark.parametrize("length", [1, 2, 5, 16, 60, 64])
def test_a_comb_whose_steps_nobody_knows_has_as_many_segments_as_teeth(length):
    """With a size that looks at predictions the first tooth is `⌈√L⌉` apart: neighbours never come together."""
    teeth = int(np.ceil(np.sqrt(length)))
    for seed in range(4):
        walk = order.Comb().arrange(np.arange(length), length=length, steps=None, rng=np.random.default_rng(seed))
        np.testing.assert_array_equal(np.sort(walk), np.arange(length))
        tooth = np.sort(walk[: length // teeth])
        assert np.all(np.diff(tooth) % teeth == 0)


@pytest.mark.parametrize("first", [0, 5, 32])
def test_the_spread_order_is_spread_over_the_stretch_to_fill(first):
    """After a prompt, or in a block, prefixes of `2^j` among 32 positions are exactly `32/2^j` apart."""
    for seed in range(5):
        walk = arranged(order.Spread(), 100, positions=np.arange(first, first + 32), seed=seed)
        for count in (2, 4, 8, 16):
            prefix = np.sort(walk[:count])
            np.testing.assert_array_equal(np.diff(np.append(prefix, prefix[0] + 32)), 32 // count)


def test_more_segments_than_positions_are_no_trouble():
    np.testing.assert_array_equal(np.sort(arranged(order.Comb(50), 6, 2)), np.arange(6))


@pytest.mark.parametrize("side", [2, 4, 8])
def test_prefixes_of_the_grid_order_fill_a_square_by_quarters(side):
    """The first `4^j` positions form a lattice: every distance on the torus at least `side/2^j` in rows or columns."""
    for seed in range(3):
        walk = arranged(order.SpreadGrid(side, side), side * side, seed=seed)
        for j in range(side.bit_length()):
            cells = np.stack(np.divmod(walk[: 4**j], side), axis=1)
            step = side // 2**j
            assert len({(r % step, c % step) for r, c in cells}) == 1
            assert len({(r, c) for r, c in cells}) == 4**j


def test_a_grid_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match=r"Argument 'length' must be 2 x 3 = 6, not 5"):
        arranged(order.SpreadGrid(2, 3), 5)
    with pytest.raises(ValueError, match=r"Argument 'length' must be 2 x 3 = 6, not 5"):
        arranged(order.Halton(2, 3), 5)
    with pytest.raises(ValueError, match=r"A grid needs a height and a width\. Give both, or neither"):
        order.Halton(2)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16, 31, 32, 33, 64])
def test_dilated_is_the_rule_of_halving_strides(count):
    """Round `t` reveals the unrevealed `k` (from 1) with `(k−1) mod ⌊B/2^t⌋ = 0`, in `⌈log2 B⌉` rounds."""
    left, rounds = list(range(1, count + 1)), []
    for t in range(1, max(1, int(np.ceil(np.log2(count)))) + 1):
        stride = max(count // 2**t, 1)
        now = [k for k in left if (k - 1) % stride == 0]
        left = [k for k in left if k not in now]
        rounds += [now] if now else []
    assert not left
    sizes = order.Dilated.rounds(count)
    walk = arranged(order.Dilated(), count)
    assert sizes == [len(now) for now in rounds]
    for mine, theirs in zip(np.split(walk, np.cumsum(sizes)[:-1]), rounds, strict=True):
        assert (mine + 1).tolist() == theirs


def test_blocks_are_counted_from_the_first_masked_position():
    which = order.Blocks(order.Random(), 4)
    blocks = which.blocks(np.array([5, 6, 8, 9, 10, 17]))
    assert [block.tolist() for block in blocks] == [[5, 6, 8], [9, 10], [17]]
    assert which.blocks(np.array([], dtype=np.int64)) == []
    assert [b.tolist() for b in order.Random().blocks(np.array([1, 7]))] == [[1, 7]]


def test_the_same_seed_gives_the_same_order():
    for which in BLIND:
        np.testing.assert_array_equal(arranged(which, 20, 5, seed=7), arranged(which, 20, 5, seed=7))


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match="Argument 'segments' must be at least 1, not 0"):
        order.Comb(0)
    with pytest.raises(ValueError, match="Argument 'length' must be at least 1, not 0"):
        order.Blocks(order.Random(), 0)
    with pytest.raises(ValueError, match="Argument 'order' must be an order without blocks"):
        order.Blocks(order.Blocks(order.Random(), 2), 4)
    with pytest.raises(ValueError, match="Argument 'height' must be at least 1, not 0"):
        order.SpreadGrid(0, 4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("length", "steps"), [(24, 6), (25, 4), (7, 7)])
def test_residues_in_their_own_order_are_a_comb(length, steps, seed):
    comb = arranged(order.Comb(), length, steps, seed=seed)
    np.testing.assert_array_equal(arranged(order.Periodic(range(steps)), length, steps, seed=seed), comb)


def test_residues_come_in_the_order_given():
    walk = arranged(order.Periodic([2, 0, 3, 1]), 16, 4, seed=3).reshape(4, 4)
    residue = (walk - (walk[1, 0] % 4)) % 4  # the second to come is residue 0
    assert residue.tolist() == [[r] * 4 for r in (2, 0, 3, 1)]


@pytest.mark.parametrize("residues", [[0, 2], [1, 2], [0, 0, 1]])
def test_residues_must_be_a_permutation(residues):
    with pytest.raises(ValueError, match="Argument 'residues' must hold each number from 0 to"):
        order.Periodic(residues)
