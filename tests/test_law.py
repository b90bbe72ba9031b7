"""The enumerated law of the sampler against the fast formulas, and the two divergences."""

import math
from itertools import product

import numpy as np
import pytest

from families import FAMILIES
from reference import chi_square
from unmask import gauge, size
from unmask.distribution import LatentParity, Markov, Parity, Table
from unmask.evaluate import expected_kl
from unmask.evaluate.enumeration import (
    _visited_masks,
    compositions,
    objective,
    output_law,
    prediction_error,
    sampled_prediction_error,
)


def random_table(seed, length=4, vocab=2, sparse=False):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(vocab**length, 0.4))
    if sparse:
        weights[rng.random(weights.size) < 0.4] = 0.0
    return Table((weights / weights.sum()).reshape((vocab,) * length))


def tempered(distribution, power):
    """A wrong predictor: the true marginals, flattened and mixed with a little of everything."""

    def predictor(tokens, masked):
        p = distribution.marginals(tokens, masked) ** power + 0.01
        return p / p.sum(axis=-1, keepdims=True)

    return predictor


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sparse", [False, True])
def test_expected_kl_matches_enumeration_of_everything_the_sampler_does(family, sparse):
    table = random_table(1, sparse=sparse)
    for steps in range(1, 5):
        law = output_law(table.marginals, family(steps), table.probabilities)
        assert np.isclose(law.output.sum(), 1)
        assert np.isclose(law.expected_kl, expected_kl(family(steps), table.curve()), atol=1e-10)
        assert law.mixture_kl <= law.expected_kl + 1e-12


@pytest.mark.parametrize("distribution", [Parity(5), LatentParity(3), Markov.sticky(2, 0.8, 5)])
def test_expected_kl_matches_enumeration_for_structured_distributions(distribution):
    joint = Table.of(distribution).probabilities
    for family in (size.Even, size.TC, size.DTC):
        law = output_law(distribution.marginals, family(2), joint)
        assert np.isclose(law.expected_kl, expected_kl(family(2), distribution.curve()), atol=1e-10)


def test_the_mixture_law_can_be_strictly_closer_than_each_of_its_parts():
    law = output_law(Parity(4).marginals, size.Even(2), Table.of(Parity(4)).probabilities)
    assert law.mixture_kl <= law.expected_kl
    table = random_table(3, length=3, vocab=3)
    law = output_law(table.marginals, size.TC(2), table.probabilities)
    assert law.mixture_kl < law.expected_kl - 1e-4


def test_one_token_at_a_time_reproduces_the_distribution():
    table = random_table(4, sparse=True)
    law = output_law(table.marginals, size.Even(4), table.probabilities)
    np.testing.assert_allclose(law.output, table.probabilities, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_prediction_error_is_what_a_wrong_predictor_adds(family, steps):
    """Decoupling: E KL of the real sampler − E KL of the ideal one = ε_pred(π), by enumeration of both sides."""
    table = random_table(5, length=4, vocab=2)
    predictor = tempered(table, 0.5)
    real = output_law(predictor, family(steps), table.probabilities).expected_kl
    ideal = output_law(table.marginals, family(steps), table.probabilities).expected_kl
    error = prediction_error(predictor, family(steps), table)
    assert error > 0
    assert np.isclose(real - ideal, error, atol=1e-10)


def test_the_objective_is_maximised_by_the_true_marginals():
    table = random_table(6)
    best = objective(table.marginals, size.TC(2), table)
    assert all(objective(tempered(table, power), size.TC(2), table) < best for power in (0.3, 0.8, 1.5))


def test_the_objective_of_the_true_marginals_is_the_negative_likelihood():
    """J(p*) = −Σ_n v_n ℓ(n)."""
    table = random_table(7)
    for schedule in (size.Even(2), size.TC(3), size.LogLinear(3)):
        expected = -schedule.batch_mass(4) @ table.curve().loss
        assert np.isclose(objective(table.marginals, schedule, table), expected, atol=1e-10)


def test_the_estimated_prediction_error_agrees_with_the_exact_one():
    """Within 5 standard errors (failure under 1e-6), fixed seed."""
    table = random_table(8, length=5)
    for schedule in (size.Even(3), size.DTC(2), size.LogLinear(4)):
        predictor = tempered(table, 0.7)
        exact = prediction_error(predictor, schedule, table)
        estimate = sampled_prediction_error(predictor, schedule, table, 20_000, rng=np.random.default_rng(4))
        assert abs(estimate.mean - exact) < 5 * estimate.standard_error


def test_a_predictor_that_excludes_the_truth_has_infinite_error():
    table = random_table(9, length=3)

    def certain(tokens, masked):
        result = np.zeros((*tokens.shape, 2))
        result[..., 0] = 1.0
        return result

    assert prediction_error(certain, size.Even(2), table) == np.inf
    assert output_law(certain, size.Even(2), table.probabilities).expected_kl == np.inf


@pytest.mark.parametrize(("schedule", "length"), [(size.Minimax(2, gauge.total), 6), (size.Minimax(3, gauge.dtc), 7)])
def test_a_level_that_is_never_visited_costs_nothing(schedule, length):
    """The last token never is a batch of its own, so a predictor may exclude the truth there: its error is 0, exactly.

    Everywhere else it is right. The last cut has probability 0 because c g_{L−1} exceeds 1.
    """
    assert schedule.cut_probabilities(length)[-1] == 0.0
    table = Table(np.full((2,) * length, 0.5**length))

    def wrong_about_the_last(tokens, masked):
        result = np.full((*tokens.shape, 2), 0.5)
        result[masked.sum(axis=1) == 1] = [1.0, 0.0]
        return result

    assert prediction_error(wrong_about_the_last, schedule, table) == 0.0


def test_too_much_to_enumerate_is_refused():
    with pytest.raises(ValueError, match="small enough to enumerate, not 2\\^14 sequences"):
        output_law(lambda t, m: t, size.Even(7), np.full((2,) * 14, 2.0**-14))
    for refused in (objective, prediction_error):
        with pytest.raises(ValueError, match="'distribution' must be small enough to enumerate, not 2\\^40 sequences"):
            refused(Parity(40).marginals, size.Even(7), Parity(40))
        with pytest.raises(ValueError, match="small enough to enumerate, not 2\\^14 sequences"):
            refused(Parity(14).marginals, size.Even(7), Parity(14))


@pytest.mark.parametrize("steps", [5000, 10**9])
def test_too_many_steps_are_refused_before_they_are_enumerated(steps):
    """So many sizes would exhaust the stack, the memory or the patience of whoever counts them one by one."""
    with pytest.raises(ValueError, match=f"'size' must be small enough to enumerate, not {steps} steps"):
        output_law(Parity(4).marginals, size.LogLinear(steps), Table.of(Parity(4)).probabilities)


def test_more_steps_than_tokens_are_enumerated_where_a_size_allows_them():
    """1,100 steps, more than Python's stack is deep, for a single token; and none for sizes that need a token each."""
    coin = Table([0.25, 0.75])
    law = output_law(coin.marginals, size.LogLinear(1100), coin.probabilities)
    np.testing.assert_allclose(law.output, [0.25, 0.75], rtol=1e-12)
    with pytest.raises(ValueError, match="'steps' must be at most the length 1, not 2"):
        output_law(coin.marginals, size.Even(2), coin.probabilities)


def test_arguments_in_another_order_are_refused():
    """Predictor, size, data."""
    table = random_table(1)
    for call in (objective, prediction_error):
        with pytest.raises(ValueError, match="'size' must be a blind size, not a Table"):
            call(table.marginals, table, size.Even(2))
        with pytest.raises(ValueError, match="'distribution' must be a distribution, not an ndarray"):
            call(table.marginals, size.Even(2), table.probabilities)
    with pytest.raises(ValueError, match="'size' must be a blind size, not a Threshold"):
        output_law(table.marginals, size.Threshold(), table.probabilities)


@pytest.mark.parametrize("least", [0, 1, 2])
def test_compositions_are_all_there_are_in_order(least):
    for length in range(6):
        for steps in range(1, 5):
            expected = [sizes for sizes in product(range(least, length + 1), repeat=steps) if sum(sizes) == length]
            assert list(compositions(length, steps, least=least)) == expected


@pytest.mark.parametrize(
    ("schedule", "length"),
    [(size.Explicit([1, 1, 1]), 3), (size.Explicit([2, 1, 1]), 4), (size.TC(2), 4), (size.Ceil(3), 4)],
)
def test_masks_of_the_objective_have_their_law(schedule, length):
    """P(M) = Σ_k E[|S_k|/L; M = S_k ∪ … ∪ S_K]: level n with `v_n / L`, every set of a level alike.

    A chi-square test at failure probability 1e-6 for each schedule, fixed seed.
    """
    masks = _visited_masks(length, schedule, 20_000, np.random.default_rng(7))
    codes = masks @ (1 << np.arange(length))
    mass = schedule.batch_mass(length)
    levels = [length - code.bit_count() for code in range(2**length)]
    chances = [0.0 if n == length else mass[n] / length / math.comb(length, n) for n in levels]
    assert chi_square(np.bincount(codes, minlength=2**length), chances) > 1e-6


def test_a_predictor_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="must return the shape \\(8, 3, 2\\), not \\(8, 3\\)"):
        output_law(lambda t, m: t, size.Even(2), np.full((2, 2, 2), 0.125))
