"""One kind of randomness: a seed, a generator of numpy or torch, or one for each row, wherever any is taken."""

import numpy as np
import pytest

from unmask import InputError, order
from unmask.distribution import (
    LatentParity,
    LinearCode,
    Markov,
    Mixture,
    Parity,
    ReedSolomon,
    Table,
    estimate_curve,
    latent_code,
)

torch = pytest.importorskip("torch")

from pairs import label  # noqa: E402
from unmask import size  # noqa: E402
from unmask.adapters.hosted import Hosted  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.predict import ExactPredictor  # noqa: E402
from unmask.sample import Sampler, seeds_of  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LAWS = [
    Table([[0.45, 0.05], [0.05, 0.45]]),
    Parity(4),
    ReedSolomon(4, 2, 5),
    LinearCode([[1, 0, 1], [0, 1, 1]], 2),
    Markov.sticky(3, 0.5, 6),
    Mixture([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], length=3),
    LatentParity(5),
]
ORDERS = [
    order.Random(),
    order.Spread(),
    order.SpreadGrid(3, 4),
    order.CombGrid(3, 4),
    order.Sets([[3, 8, 1], [0, 2, 4, 5, 6, 7, 9, 10, 11]]),
    order.Comb(),
    order.Periodic([1, 0, 2]),
    order.LeftToRight(),
    order.Dilated(),
]
CHAIN = LAWS[4]
SAMPLER = Sampler(ExactPredictor(CHAIN), Schedule(size.TC(3), order.Random()))
BAD = [None, "0", 0.5, True, np.random, np.random.RandomState(0), -1, 2**64, 10**30, np.float64(3), b"1", object()]


def same(first, second):
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.revealed, second.revealed)
    assert first.seeds == second.seeds


# The core, which takes a numpy generator or a seed


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_a_seed_draws_what_its_generator_draws(law):
    drawn = law.sample(5, rng=np.random.default_rng(7))
    for seed in (7, np.int64(7), np.uint8(7)):
        np.testing.assert_array_equal(law.sample(5, rng=seed), drawn)
    estimate = estimate_curve(law, 3, rng=7).loss
    np.testing.assert_array_equal(estimate, estimate_curve(law, 3, rng=np.random.default_rng(7)).loss)


@pytest.mark.parametrize("which", ORDERS, ids=label)
def test_an_order_takes_a_seed_too(which):
    def arranged(rng):
        return which.arrange(np.arange(12), length=12, steps=4, rng=rng)

    np.testing.assert_array_equal(arranged(3), arranged(np.random.default_rng(3)))


def test_codes_take_a_seed_too():
    def code(rng):
        return latent_code(6, 2, rng=rng)

    np.testing.assert_array_equal(code(4).generator, code(np.random.default_rng(4)).generator)
    one, two = (LAWS[3].estimate_curve(4, rng=rng).loss for rng in (4, np.random.default_rng(4)))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("bad", BAD, ids=lambda value: type(value).__name__)
def test_what_is_neither_seed_nor_generator_is_refused(bad):
    calls = [
        *(lambda law=law: law.sample(2, rng=bad) for law in LAWS),
        *(lambda which=which: which.arrange(np.arange(12), length=12, steps=4, rng=bad) for which in ORDERS),
        lambda: estimate_curve(CHAIN, 2, rng=bad),
        lambda: LAWS[3].estimate_curve(2, rng=bad),
        lambda: latent_code(6, 2, rng=bad),
        lambda: SAMPLER.init((2, 6), rng=bad),
        lambda: SAMPLER.run((2, 6), rng=[0, bad]),
        lambda: SAMPLER.batches((2, 6), rng=bad),
        lambda: replay(SAMPLER.predictor, SAMPLER.schedule, torch.zeros((2, 6), dtype=torch.int64), rng=bad),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"^Argument 'rng' must ") as error:
            call()
        assert str(error.value).count(". ") == 0


def test_numpys_generators_of_old_draw_as_before():
    """Numbers that were drawn before seeds were taken: no draw has changed."""
    rng = np.random.default_rng(0)
    assert CHAIN.sample(2, rng=rng).tolist() == [[1, 1, 0, 0, 2, 2], [1, 1, 1, 2, 2, 0]]
    assert order.Random().arrange(np.arange(6), length=6, steps=2, rng=rng).tolist() == [5, 4, 2, 1, 3, 0]
    assert seeds_of(torch.Generator().manual_seed(0), 2) == (900450186894289455, 3969543146641149120)
    assert SAMPLER.run((2, 6), rng=[3, 4]).tokens.tolist() == [[0, 0, 2, 1, 0, 1], [2, 2, 2, 0, 1, 1]]


# The sampler, which takes one for the batch or one for each row


def test_one_seed_for_a_batch_is_a_torch_generator_with_that_seed():
    for rng in (5, np.int32(5), np.uint64(5)):
        same(SAMPLER.run((3, 6), rng=rng), SAMPLER.run((3, 6), rng=torch.Generator().manual_seed(5)))


def test_the_first_rows_do_not_depend_on_how_many_follow():
    for make in (lambda: 11, lambda: np.random.default_rng(11), lambda: torch.Generator().manual_seed(11)):
        assert seeds_of(make(), 3) == seeds_of(make(), 1000)[:3]
        assert len(set(seeds_of(make(), 1000))) == 1000


def test_a_numpy_generator_draws_a_seed_for_each_row():
    expected = tuple(int(seed) for seed in np.random.default_rng(2).integers(2**62, size=3))
    assert seeds_of(np.random.default_rng(2), 3) == expected
    same(SAMPLER.run((3, 6), rng=np.random.default_rng(2)), SAMPLER.run((3, 6), rng=expected))


def test_a_row_is_repeated_alone_by_the_seed_of_its_record():
    whole = SAMPLER.run((3, 6), rng=9)
    for row, seed in enumerate(whole.seeds):
        assert torch.equal(SAMPLER.run((1, 6), rng=[seed]).tokens[0], whole.tokens[row])


def test_rows_may_bring_seeds_and_generators_of_any_kind():
    made = [3, np.int64(4), np.random.default_rng(5), torch.Generator().manual_seed(6)]
    mixed = SAMPLER.run((4, 6), rng=made)
    numbers = (3, 4, *seeds_of(np.random.default_rng(5), 1), *seeds_of(6, 1))
    same(mixed, SAMPLER.run((4, 6), rng=numbers))
    for several in (np.array([3, 4]), torch.tensor([3, 4]), range(3, 5), (3, 4)):
        same(SAMPLER.run((2, 6), rng=several), SAMPLER.run((2, 6), rng=[3, 4]))


def test_seeds_go_up_to_64_bits():
    same(SAMPLER.run((1, 6), rng=[2**64 - 1]), SAMPLER.run((1, 6), rng=[np.uint64(2**64 - 1)]))
    assert SAMPLER.run((1, 6), rng=2**64 - 1).tokens.shape == (1, 6)
    with pytest.raises(InputError, match=r"^Argument 'rng' must be at most 18446744073709551615, not 18"):
        SAMPLER.run((1, 6), rng=[2**64])


@pytest.mark.parametrize(
    "listed", [[1], [1, 2, 3], range(10**30), np.zeros((2, 2), dtype=int), "12"], ids=lambda value: type(value).__name__
)
def test_a_list_has_one_entry_for_each_row(listed):
    with pytest.raises(InputError, match=r"^Argument 'rng' must "):
        SAMPLER.run((2, 6), rng=listed)


def test_everything_above_takes_the_same():
    texts = torch.from_numpy(CHAIN.sample(3, rng=0))
    numbers = seeds_of(1, 3)
    first, second = (replay(SAMPLER.predictor, SAMPLER.schedule, texts, rng=rng).nll for rng in (1, numbers))
    assert torch.equal(first, second)
    traces = [SAMPLER.batches((3, 6), rng=rng, batch=2) for rng in (1, numbers)]
    for one, two in zip(*traces, strict=True):
        same(one, two)
    hosted = Hosted(SAMPLER.schedule, 3)
    assert hosted.begin(torch.full((3, 6), 3), vocab=3, rng=1).seeds == numbers
