"""What every public size schedule must satisfy, against enumeration of its law and against its draws."""

import numpy as np
import pytest

from families import FAMILIES
from reference import law_moments
from unmask import gauge, paper, size
from unmask.distribution import Parity
from unmask.evaluate import sampled_kl, sampled_prediction_error
from unmask.evaluate.enumeration import compositions
from unmask.information.curve import Curve

CASES = [(1, 1), (2, 1), (2, 2), (5, 2), (6, 3), (7, 7), (8, 5), (9, 1)]


def test_every_public_schedule_is_listed_here():
    public = {getattr(size, name) for name in size.__all__}
    final = {c for c in public if isinstance(c, type) and issubclass(c, size.Blind)}
    abstract = {size.Blind, size.Planned, size.Systematic}
    one_length_only = {size.Explicit, size.Optimal, size.OptimalTable, size.SquareRoot}
    assert final - abstract - one_length_only == {type(family(2)) for family in FAMILIES}


def test_every_size_is_one_of_two_kinds_and_abstract_or_final():
    public = {getattr(size, name) for name in size.__all__}
    sizes = {c for c in public if isinstance(c, type) and issubclass(c, size.Size)}
    abstract = {size.Size, size.Blind, size.Planned, size.Systematic, size.Reactive}
    assert abstract < sizes
    for kind in sizes - {size.Size}:
        assert issubclass(kind, size.Blind) != issubclass(kind, size.Reactive)
        assert getattr(kind, "__final__", False) != (kind in abstract), kind


CURVE, TABLE = Curve([3.0, 2.0, 1.5, 1.0]), np.arange(16.0).reshape(4, 4)
ONE_LENGTH = [size.Explicit([1, 3]), size.Optimal(2, CURVE), size.OptimalTable(2, TABLE), size.SquareRoot(2, CURVE)]


@pytest.mark.parametrize("schedule", [*(family(2) for family in FAMILIES), *ONE_LENGTH], ids=repr)
def test_randomness_is_a_generator_or_a_seed(schedule):
    wanted = schedule.draw(4, rng=np.random.default_rng(7), count=3)
    np.testing.assert_array_equal(schedule.draw(4, rng=7, count=3), wanted)
    np.testing.assert_array_equal(schedule.draw(4, rng=np.int64(7), count=3), wanted)
    for wrong in (np.random, None, 0.5, True, "seed", np.random.RandomState(0)):
        with pytest.raises(ValueError, match="Argument 'rng' must be a numpy generator or a seed, not "):
            schedule.draw(4, rng=wrong)
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="Argument 'rng' must be at "):
            schedule.draw(4, rng=wrong)


DRAWS = {
    "table": lambda rng: size.tc_scheme(9).table(3).draw(rng=rng, count=5),
    "design": lambda rng: size.ConditionalPoisson(np.zeros(7), 3).draw(rng, 5),
    "stratified": lambda rng: size.Offset(3).draw_stratified(9, rng=rng, count=5),
    "sampled_kl": lambda rng: sampled_kl(size.TC(2), [Parity(4).curve()], 20, rng=rng),
    "sampled_prediction_error": lambda rng: sampled_prediction_error(
        lambda tokens, masked: np.full((*tokens.shape, 2), 0.5), size.TC(2), Parity(4), 20, rng=rng
    ),
    "figure1": lambda rng: paper.figure1(2, rng=rng),
    "figure2": lambda rng: paper.figure2(2, rng=rng),
    "figure3": lambda rng: paper.figure3(2, rng=rng),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_whatever_draws_takes_a_generator_or_a_seed(draw):
    np.testing.assert_equal(draw(3), draw(np.random.default_rng(3)))
    for wrong in (np.random, None, "seed"):
        with pytest.raises(ValueError, match="Argument 'rng' must be a numpy generator or a seed, not "):
            draw(wrong)


def test_many_draws_from_a_seed_differ():
    """A seed stands for one generator, also where the draws are made in several parts."""
    sizes = size.tc_scheme(40).table(5).draw(rng=0, count=600)
    assert not np.array_equal(sizes[:256], sizes[256:512])
    assert len(np.unique(sizes, axis=0)) > 300


def test_sizes_are_equal_if_they_are_made_of_the_same():
    same = [
        *((family(3), family(3)) for family in FAMILIES),
        (size.Explicit([1, 2]), size.Explicit(np.array([1, 2]))),
        (size.Optimal(2, CURVE), size.Optimal(2, Curve(CURVE.loss.copy()))),
        (size.OptimalTable(2, TABLE), size.OptimalTable(2, TABLE.tolist())),
        (size.OptimalTable(2, TABLE), size.OptimalTable(2, np.triu(TABLE) - np.tril(np.full((4, 4), np.nan), -1))),
        (size.OptimalTable(1, [[0.0]]), size.OptimalTable(1, [[-0.0]])),
        (size.Minimax(2, gauge.Vector([1, 2])), size.Minimax(2, gauge.Vector([1.0, 2.0]))),
        (size.tc_scheme(4), size.tc_scheme(4)),
        (size.dtc_scheme(4, 6), size.dtc_scheme(4, 6)),
    ]
    for first, second in same:
        assert first == second, first
        assert hash(first) == hash(second), first
    different = [
        *((family(3), family(4)) for family in FAMILIES),
        (size.OptimalTable(2, TABLE), size.OptimalTable(2, 2 * TABLE)),
        (size.OptimalTable(2, TABLE), size.OptimalTable(3, TABLE)),
        (size.OptimalTable(2, TABLE), size.Optimal(2, CURVE)),
        (size.tc_scheme(4), size.tc_scheme(5)),
        (size.tc_scheme(4), size.dtc_scheme(4)),
        (size.dtc_scheme(4), size.dtc_scheme(4, 5)),
        (size.tc_scheme(4), 4),
    ]
    for first, second in different:
        assert first != second, first


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "steps"), CASES)
def test_the_law_is_a_distribution_with_the_stated_moments(family, length, steps):
    schedule = family(steps)
    law = {
        sizes: np.exp(schedule.log_probability(sizes))
        for sizes in compositions(length, steps, least=0 if schedule.may_skip else 1)
    }
    assert np.isclose(sum(law.values()), 1)
    cut, mean, overhang = law_moments(law, length, steps)
    np.testing.assert_allclose(schedule.cut_probabilities(length), cut, atol=1e-12)
    np.testing.assert_allclose(schedule.mean_sizes(length), mean, atol=1e-12)
    np.testing.assert_allclose(schedule.overhang(length), overhang, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_follow_the_law(family):
    """Counts of each composition within 6 standard errors in 20,000 draws (failure under 1e-6 for each family)."""
    length, steps, count = 7, 3, 20_000
    schedule = family(steps)
    draws = schedule.draw(length, rng=np.random.default_rng(11), count=count)
    assert draws.shape == (count, steps)
    assert np.all(draws.sum(axis=1) == length)
    found, counts = np.unique(draws, axis=0, return_counts=True)
    chance = np.array([np.exp(schedule.log_probability(sizes)) for sizes in found])
    assert np.isclose(chance.sum(), 1, atol=0.01)
    assert np.all(np.abs(counts - count * chance) <= 6 * np.sqrt(count * chance * (1 - chance)) + 1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "steps"), [(100, 7), (100, 50), (257, 256)])
def test_moments_are_consistent_at_moderate_length(family, length, steps):
    schedule = family(steps)
    mean, mass = schedule.mean_sizes(length), schedule.batch_mass(length)
    assert mean.shape == (steps,)
    assert np.isclose(mean.sum(), length)
    assert np.isclose(mass.sum(), length)
    assert np.all(schedule.overhang(length) >= -1e-12)
    np.testing.assert_allclose(np.cumsum(mass - 1)[:-1], schedule.overhang(length), atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "steps"), [(6, 2), (7, 3), (14, 5), (100, 50), (200, 10)])
def test_a_batch_starts_only_at_a_cut_and_holds_a_token_or_more(family, length, steps):
    """b_n ≤ v_n ≤ (L−n) b_n without a tolerance: where no cut can be, the mass is zero, whatever was rounded."""
    schedule = family(steps)
    mass, cut = schedule.batch_mass(length)[1:], schedule.cut_probabilities(length)
    assert np.all(mass >= cut)
    assert np.all(mass <= cut * np.arange(length - 1, 0, -1))


@pytest.mark.parametrize("family", FAMILIES)
def test_one_step_per_token_is_exact_and_one_step_reveals_all(family):
    if family is not size.LogLinear:  # its sizes are random even with a step for every token
        np.testing.assert_allclose(family(12).overhang(12), 0, atol=1e-12)
    np.testing.assert_allclose(family(1).overhang(12), 12 - np.arange(1, 12))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_draw(family):
    first, second = (family(5).draw(40, rng=np.random.default_rng(9), count=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f(1).monotone])
def test_families_that_claim_it_lose_nothing_by_an_extra_step(family):
    """r_i decreases with the number of steps at every rank."""
    overhang = np.array([family(steps).overhang(40) for steps in range(1, 41)])
    assert np.all(np.diff(overhang, axis=0) <= 1e-10)


def test_even_sizes_can_lose_by_an_extra_step():
    assert size.Even(3).overhang(5)[2] > size.Even(2).overhang(5)[2]


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f(1).may_exceed])
@pytest.mark.parametrize("steps", [5, 17])
def test_more_steps_than_tokens_are_refused(family, steps):
    with pytest.raises(ValueError, match=f"Argument 'steps' must be at most the length 4, not {steps}"):
        family(steps).mean_sizes(4)
    assert family(steps).fitted(4) == family(4)
    for number in ("coefficient", "factor"):
        if hasattr(family(steps), number):
            with pytest.raises(ValueError, match=f"Argument 'steps' must be at most the length 1, not {steps}"):
                getattr(family(steps), number)(1)


def test_log_linear_sizes_alone_may_have_more_steps_than_tokens():
    assert [family for family in FAMILIES if family(1).may_exceed] == [size.LogLinear]
    assert size.LogLinear(17).fitted(4) == size.LogLinear(17)
    assert size.LogLinear(17).draw(4, rng=0).shape == (1, 17)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_that_are_drawn_say_how_to_draw_them(family):
    schedule = family(2)
    if isinstance(schedule, size.Planned):
        assert schedule.sizes(8).sum() == 8
        return
    name = type(schedule).__name__
    said = rf"^{name} draws its sizes at random, so it has no fixed sizes\. Call draw\(length, rng=…\) instead\.$"
    with pytest.raises(ValueError, match=said):
        schedule.sizes(8)
    assert schedule.draw(8, rng=0).sum() == 8


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_must_be_a_positive_integer(family):
    with pytest.raises(ValueError, match="Argument 'steps' must be at least 1, not 0"):
        family(0)
    with pytest.raises(ValueError, match=r"Argument 'steps' must be an integer, not 2\.5"):
        family(2.5)


def test_log_linear_keeps_its_digits_at_great_length():
    """Two independent sums for P(no cut after the last but one token); log-factorials would leave 1e-10 of error."""
    schedule, length = size.LogLinear(100), 10**5
    assert schedule.overhang(length)[-1] == pytest.approx(1 - schedule.cut_probabilities(length)[-1], abs=5e-11)
    assert schedule.batch_mass(length).min() >= 0
