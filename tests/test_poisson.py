"""The conditional Poisson design against enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unmask.size import ConditionalPoisson

odds_and_size = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=7).flatmap(
    lambda odds: st.tuples(st.just(np.array(odds)), st.integers(0, len(odds)))
)


def enumerate_design(odds, size):
    sets = list(combinations(range(odds.size), size))
    weights = np.array([np.prod(odds[list(s)]) for s in sets])
    return sets, weights, weights.sum()


@given(odds_and_size)
def test_inclusion_exclusion_and_normaliser_match_enumeration(case):
    odds, size = case
    sets, weights, total = enumerate_design(odds, size)
    design = ConditionalPoisson(np.log(odds), size)
    inside = np.array([sum(w for s, w in zip(sets, weights, strict=True) if j in s) for j in range(odds.size)])
    outside = np.array([sum(w for s, w in zip(sets, weights, strict=True) if j not in s) for j in range(odds.size)])
    np.testing.assert_allclose(design.inclusion(), inside / total, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(design.exclusion(), outside / total, rtol=1e-9, atol=1e-13)
    assert np.isclose(design.log_normaliser(), np.log(total), rtol=1e-10, atol=1e-10)


@given(odds_and_size)
@example((np.array([1.0, 1.0, 5.0, 2.58328e05, 3.07306e05, 3.07374e05]), 4))  # the first guess makes all p round to 1
def test_prefix_exclusion_matches_enumeration(case):
    odds, size = case
    sets, weights, total = enumerate_design(odds, size)
    expected = [
        sum(w for s, w in zip(sets, weights, strict=True) if max(s, default=-1) < l) / total
        for l in range(odds.size + 1)
    ]
    got = ConditionalPoisson(np.log(odds), size).prefix_exclusion()
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13)


def test_draws_take_as_many_of_every_other_item_as_they_should():
    """The mean of 60,000 draws within 5 standard errors (failure under 1e-6), fixed seed.

    A draw takes every other item first and keeps what it took with a probability that depends on their number: an
    error there shifts this mean, and hardly any single inclusion probability.
    """
    design = ConditionalPoisson(-np.log(np.arange(1.0, 400)), 30)
    counts = design.draw(np.random.default_rng(4), 60_000)[:, ::2].sum(axis=1)
    error = counts.std() / np.sqrt(counts.size)
    assert abs(counts.mean() - design.inclusion()[::2].sum()) < 5 * error


@pytest.mark.parametrize(("n", "size"), [(400, 30), (400, 380), (1500, 1)])
def test_draws_have_the_right_size_and_inclusion_probabilities(n, size):
    """Every inclusion frequency of 4,000 draws within 6 standard errors (failure under 1e-5 in all)."""
    odds = np.exp(np.random.default_rng(1).normal(size=n))
    design = ConditionalPoisson(np.log(odds), size)
    taken = design.draw(np.random.default_rng(2), 4000)
    assert np.all(taken.sum(axis=1) == size)
    inclusion = design.inclusion()
    assert np.isclose(inclusion.sum(), size)
    error = np.sqrt(inclusion * (1 - inclusion) / len(taken)) + 1e-4
    assert np.all(np.abs(taken.mean(axis=0) - inclusion) < 6 * error)
