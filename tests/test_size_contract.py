"""What every public size schedule must satisfy, against enumeration of its law and against its draws."""

import numpy as np
import pytest

from families import FAMILIES
from reference import law_moments
from unmask import size
from unmask.evaluate.enumeration import compositions

CASES = [(1, 1), (2, 1), (2, 2), (5, 2), (6, 3), (7, 7), (8, 5), (9, 1)]


def test_every_public_schedule_is_listed_here():
    public = {getattr(size, name) for name in size.__all__}
    final = {c for c in public if isinstance(c, type) and issubclass(c, size.Blind)}
    abstract = {size.Blind, size.Planned, size.Systematic}
    one_length_only = {size.Explicit, size.Optimal, size.OptimalTable, size.SquareRoot}
    assert final - abstract - one_length_only == {type(family(2)) for family in FAMILIES}


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
    assert np.all(mass >= -1e-9)
    assert np.all(schedule.overhang(length) >= -1e-12)
    # A batch starts at n > 0 only if there is a cut at n, and then holds at least one token.
    assert np.all(mass[1:] >= schedule.cut_probabilities(length) - 1e-9)


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


@pytest.mark.parametrize("family", [f for f in FAMILIES if f is not size.LogLinear])
@pytest.mark.parametrize("steps", [5, 17])
def test_more_steps_than_tokens_are_refused(family, steps):
    with pytest.raises(ValueError, match=f"Argument 'steps' must be at most the length 4, not {steps}"):
        family(steps).mean_sizes(4)


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
