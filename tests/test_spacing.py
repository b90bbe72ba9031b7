"""Positions of a step kept apart: the filter around any order, and the order that stays near what is known."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pairs import label  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LENGTH, VOCAB = 24, 5
MODEL = Logits(table_model(VOCAB, LENGTH, 3, torch.float64, 0.6), VOCAB, VOCAB)
INSIDE = [order.Confidence(), order.Margin(), order.Entropy(), order.Random(), order.LeftToRight(), order.Nearby()]
LOOKING = [size.Threshold(0.3), size.Threshold(0.0), size.Factor(2.0), size.EntropyBound(6.0)]
FIXED = [size.Even(6), size.Cosine(5), size.TC(7), size.LogLinear(6)]


def filled(which, how_many, seeds=(1, 2, 3), start=(3, LENGTH)):
    return Sampler(MODEL, Schedule(how_many, which)).run(start, rng=list(seeds))


def gaps(trace):
    """The least distance between two positions of one step, in every sequence and step with two."""
    for row in trace.revealed.numpy():
        for step in range(row.max() + 1):
            positions = np.flatnonzero(row == step)
            if positions.size > 1:
                yield int(np.diff(positions).min())


@pytest.mark.parametrize("which", INSIDE, ids=label)
@pytest.mark.parametrize("how_many", LOOKING, ids=label)
@pytest.mark.parametrize("distance", [2, 4, 30])
def test_a_size_that_looks_never_reveals_two_positions_nearer_than_the_distance(which, how_many, distance):
    trace = filled(order.Spaced(which, distance), how_many)
    assert int(trace.tokens.max()) < VOCAB
    assert min(gaps(trace), default=distance) >= distance
    assert distance < LENGTH or trace.steps == LENGTH  # one by one, as two are never that far apart


@pytest.mark.parametrize("which", INSIDE, ids=label)
@pytest.mark.parametrize("how_many", FIXED, ids=label)
@pytest.mark.parametrize("distance", [1, 3, 100])
def test_a_fixed_size_keeps_its_sizes_and_its_steps(which, how_many, distance):
    """The distance gives way, not the sizes: those are what the schedule draws without a distance."""
    spaced, plain = filled(order.Spaced(which, distance), how_many), filled(which, how_many)
    assert torch.equal(spaced.sizes, plain.sizes)
    assert spaced.evaluations.tolist() == plain.evaluations.tolist()
    if distance == 1:
        assert torch.equal(spaced.revealed, plain.revealed)


def test_a_distance_that_can_be_kept_is_kept_by_fixed_sizes():
    """Two of 24 positions 8 apart can be found while more than 14 are masked, wherever: no 8 others cover all."""
    trace = filled(order.Spaced(order.Confidence(), 8), size.Even(12))
    for row in trace.revealed.numpy():
        for step in range(4):
            assert np.diff(np.flatnonzero(row == step)).min() >= 8


def test_where_the_distance_cannot_be_kept_it_is_halved():
    """Of positions 0 to 5, three a step, 4 apart: 0 and 4, and then 2; of 1, 3, 5 the first and the last, and 3."""
    spaced = order.Spaced(order.LeftToRight(), 4)
    assert spaced.apart(np.arange(6), [3, 3]).tolist() == [0, 4, 2, 1, 5, 3]
    trace = Sampler(Logits(table_model(2, 6), 2, 2), Schedule(size.Even(2), spaced)).run((1, 6), rng=[0])
    assert trace.revealed[0].tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("fading", [False, True])
@pytest.mark.parametrize("sizes", [[4, 4, 4, 4, 4, 4], [1, 2, 3, 4, 5, 9], [24]], ids=str)
@pytest.mark.parametrize("distance", [1, 2, 5, 8, 40])
def test_on_the_host_and_on_the_device_the_same_positions_are_taken(sizes, distance, fading):
    """A blind order is rearranged before the model runs; one that looks and ranks alike is filtered at each step."""

    class Weighed(order.ReactiveOrder):
        def score(self, prediction):
            return WEIGHTS[prediction.places]

    WEIGHTS = torch.rand(LENGTH, generator=torch.Generator().manual_seed(distance))
    ranked = np.argsort(-WEIGHTS.numpy(), kind="stable")
    found = filled(order.Spaced(Weighed(), distance, fading), size.Explicit(sizes), [0], (1, LENGTH)).revealed[0]
    walk = order.Spaced(order.Random(), distance, fading).apart(ranked, sizes)
    wanted = np.empty(LENGTH, dtype=np.int64)
    wanted[walk] = np.repeat(np.arange(len(sizes)), sizes)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("how_many", [size.Even(5), size.Threshold(0.3)], ids=label)
@pytest.mark.parametrize("fading", [False, True])
def test_rows_are_independent_and_replay_follows_the_same_path(how_many, fading):
    which = order.Blocks(order.Spaced(order.Entropy(), 4, fading), 16)
    start = torch.full((4, LENGTH), VOCAB)
    start[1, :5], start[2, 3:20] = 1, 2  # rows with fewer to fill
    together = Sampler(MODEL, Schedule(how_many, which)).run(start, rng=[5, 6, 7, 8])
    for row in range(4):
        alone = Sampler(MODEL, Schedule(how_many, which)).run(start[row : row + 1], rng=[5 + row])
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert torch.equal(alone.revealed[0], together.revealed[row])
    again = replay(MODEL, Schedule(how_many, which), together.tokens, masked=start == VOCAB, rng=[5, 6, 7, 8])
    torch.testing.assert_close(again.nll, together.nll, rtol=0, atol=1e-12)
    assert again.evaluations.tolist() == together.evaluations.tolist()


def test_a_fading_distance_shrinks_with_what_is_masked():
    """In a block of 24 a distance of 8 is 8 with 24 masked, 4 with 12, and never below 2."""
    which = order.Spaced(order.LeftToRight(), 8, fading=True)
    trace = Sampler(MODEL, Schedule(size.Threshold(0.0), which), Greedy()).run((1, LENGTH), rng=[0])
    left, revealed = LENGTH, trace.revealed[0].numpy()
    for step in range(trace.steps):
        positions = np.flatnonzero(revealed == step)
        if positions.size > 1:
            assert np.diff(positions).min() >= max(2, left * 8 // LENGTH)
        left -= positions.size


@pytest.mark.parametrize(("prompt", "length", "steps"), [(4, 20, 4), (1, 33, 8), (10, 74, 16), (0, 24, 6)])
def test_nearby_is_a_whole_comb_after_a_prompt(prompt, length, steps):
    """Step by step the same sets, where the steps divide the positions."""
    positions = np.arange(prompt, length)
    walk = order.Nearby().arrange(positions, length=length, steps=steps, rng=0).reshape(steps, -1)
    comb = order.Comb(shift=0).arrange(positions, length=length, steps=steps, rng=0).reshape(steps, -1)
    np.testing.assert_array_equal(np.sort(walk, axis=1), np.sort(comb, axis=1))


def test_nearby_grows_from_tokens_in_the_middle():
    """Tokens 8 and 15 of 24 are given: the first step of four stands beside them, on both sides, 4 apart or more."""
    positions = np.setdiff1d(np.arange(24), [8, 15])
    walk = order.Nearby(4).arrange(positions, length=24, steps=6, rng=0)
    assert walk[:4].tolist() == [7, 14, 18, 3]
    assert order.Nearby(2).arrange(positions, length=24, steps=6, rng=0)[:4].tolist() == [7, 9, 14, 16]


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match="Argument 'distance' must be at least 1, not 0"):
        order.Spaced(order.Confidence(), 0)
    with pytest.raises(ValueError, match="Argument 'order' must be an order without blocks or spacing, not Blocks"):
        order.Spaced(order.Blocks(order.Confidence(), 4), 2)
    with pytest.raises(ValueError, match="must be an order without blocks or spacing, not Delimited"):
        order.Spaced(order.Delimited(order.Confidence(), 4, [0]), 2)
    with pytest.raises(ValueError, match="Argument 'fading' must be True or False, not 1"):
        order.Spaced(order.Confidence(), 2, 1)
    with pytest.raises(ValueError, match="Argument 'sizes' must split the 3 positions"):
        order.Spaced(order.Random(), 2).apart(np.arange(3), [1, 1])
    with pytest.raises(ValueError, match="Argument 'distance' must be at least 1, not 0"):
        order.Nearby(0)
