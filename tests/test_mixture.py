import math
import re

import mpmath
import numpy as np
import pytest

from unmask.distribution import LatentParity, Markov, Mixture, Table, estimate_curve
from unmask.distribution.estimate import average
from unmask.distribution.mixture import _types

BIT = math.log(2)


def test_identical_positions_have_the_law_of_repeated_ones():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet([0.5] * 3, 4)
    weights = rng.dirichlet([1.0] * 4)
    short = Mixture(weights, laws, length=5)
    long = Mixture(weights, np.repeat(laws[:, None], 5, axis=1))
    np.testing.assert_allclose(short.curve().loss, long.curve().loss, atol=1e-12)
    np.testing.assert_allclose(Table.of(short).probabilities, Table.of(long).probabilities, atol=1e-16)
    draws = [mixture.sample(20, rng=np.random.default_rng(1)) for mixture in (short, long)]
    np.testing.assert_array_equal(*draws)


def test_long_curve_agrees_with_sixty_digits():
    """Two coins: `h(n)` summed over the number of heads at 60 digits, length 300."""
    length, bias = 300, (0.25, 0.625)
    loss = Mixture([0.5, 0.5], [[1 - b, b] for b in bias], length=length).curve().loss
    with mpmath.workdps(60):

        def information(visible: int) -> mpmath.mpf:
            total = mpmath.mpf(0)
            for heads in range(visible + 1):
                p = sum(mpmath.mpf(b) ** heads * (1 - mpmath.mpf(b)) ** (visible - heads) for b in bias) / 2
                total -= mpmath.binomial(visible, heads) * p * mpmath.log(p)
            return total

        for visible in (0, 1, 2, 17, 100, 299):
            exact = float(information(visible + 1) - information(visible))
            assert loss[visible] == pytest.approx(exact, rel=1e-13)


def test_dual_total_correlation_is_at_most_the_entropy_of_the_component():
    """`DTC ≤ I(X; M) ≤ H(w)`, with near equality once the tokens give the component away."""
    weights = np.array([0.2, 0.3, 0.5])
    laws = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    hidden = -(weights * np.log(weights)).sum()
    dtc = Mixture(weights, laws, length=60).curve().dual_total_correlation
    assert hidden * 0.999 < dtc <= hidden + 1e-9


def test_one_component_is_independent():
    curve = Mixture([1.0], [[0.25, 0.75]], length=50).curve()
    np.testing.assert_allclose(curve.loss, -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)), rtol=1e-14)


def test_posterior_survives_many_tokens():
    """Both likelihoods underflow at this length; their ratio does not matter, the posterior is certain."""
    mixture = Mixture([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], length=5000)
    tokens = np.zeros(5000, dtype=int)
    masked = np.zeros(5000, dtype=bool)
    masked[7] = True
    np.testing.assert_allclose(mixture.marginals(tokens, masked)[0, 7], [0.9, 0.1], atol=1e-15)
    assert mixture.log_probability(tokens)[0] == pytest.approx(math.log(0.5) + 5000 * math.log(0.9))


def test_count_vectors_are_complete():
    for total, parts in [(0, 3), (4, 1), (5, 2), (6, 4)]:
        types = _types(total, parts)
        assert len(types) == math.comb(total + parts - 1, parts - 1)
        assert (types.sum(axis=1) == total).all()
        assert (types >= 0).all()
        assert len({tuple(row) for row in types}) == len(types)


def test_exact_curves_have_a_stated_reach():
    wide = Mixture([1.0], np.full((1, 50), 0.02), length=10)
    with pytest.raises(ValueError, match=r"^The exact curve is for at most 2,000,000 vectors .*estimate_curve"):
        wide.curve()
    long = Mixture([1.0], np.full((1, 21, 2), 0.5))
    with pytest.raises(ValueError, match=r"^The exact curve is for at most 2\^20 sequences .*estimate_curve"):
        long.curve()
    allowed = Mixture([1.0], np.full((1, 20, 2), 0.5))  # 2^20 sequences, but too many with some tokens masked
    sentence = "The exact curve is for at most 2^20 sequences and 2^31 partly masked ones, not for 2^20 and 3^20."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        allowed.curve()
    np.testing.assert_allclose(estimate_curve(long, 2, rng=np.random.default_rng(0)).loss, BIT)


@pytest.mark.parametrize("length", [3, 4, 10, 1000])
def test_latent_parity_fools_both_total_correlations(length):
    """`TC = DTC = L log 2` while `Σ d_i min(i, L−i) = 2 log 2`."""
    curve = LatentParity(length).curve()
    rank = np.arange(1, length)
    assert curve.total_correlation == pytest.approx(length * BIT)
    assert curve.dual_total_correlation == pytest.approx(length * BIT)
    assert curve.drops @ np.minimum(rank, length - rank) == pytest.approx(2 * BIT)


def test_latent_parity_of_one_and_two_tokens():
    assert LatentParity(1).curve().loss.tolist() == [BIT]
    assert LatentParity(2).curve().loss == pytest.approx([2 * BIT, 0.0], abs=1e-15)
    assert set(LatentParity(1).sample(100, rng=np.random.default_rng(0)).ravel().tolist()) == {0, 2}


def test_latent_parity_of_mixed_latent_bits_is_impossible():
    marginals = LatentParity(4).marginals([0, 2, 0, 0], [False, False, True, True])
    np.testing.assert_array_equal(marginals[0, 2:], np.full((2, 4), 0.25))


def test_estimates_are_unbiased_raw_and_non_increasing_as_a_curve():
    chain = Markov.sticky(2, 0.7, 12)
    estimate = estimate_curve(chain, 10, rng=np.random.default_rng(0))
    assert (np.diff(estimate.loss) > 0).any()
    assert (np.diff(estimate.curve.loss) <= 1e-15).all()
    assert estimate.curve.loss.sum() == pytest.approx(estimate.loss.sum())


def test_averages_carry_the_usual_standard_error():
    losses = np.random.default_rng(0).random((7, 3))
    estimate = average(losses)
    np.testing.assert_allclose(estimate.standard_error, losses.std(axis=0, ddof=1) / math.sqrt(7))


def test_estimates_in_small_batches_are_the_same(monkeypatch):
    mixture = Mixture([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length=9)
    whole = estimate_curve(mixture, 5, rng=np.random.default_rng(0))
    monkeypatch.setattr("unmask.distribution.estimate._NUMBERS_AT_ONCE", 40)
    parts = estimate_curve(mixture, 5, rng=np.random.default_rng(0))
    np.testing.assert_allclose(whole.loss, parts.loss, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: Mixture([[1.0]], [[1.0]]),
            "Argument 'weights' must be a list of numbers, not an array of shape (1, 1).",
        ),
        (
            lambda: Mixture([0.5, 0.5], [[0.5, 0.5]], length=3),
            "Argument 'components' must have the shape (2, length, vocab) or (2, vocab), not (1, 2).",
        ),
        (
            lambda: Mixture([0.5, 0.4], [[1.0], [1.0]], 3),
            "Argument 'weights' must sum to 1, but the sum is off by 0.1.",
        ),
        (
            lambda: Mixture([1.0], [[0.5, 0.6]], 3),
            "Argument 'components' must sum to 1 in every row, but one sum is off by 0.1.",
        ),
        (
            lambda: Mixture([1.0], [[0.5, 0.5]]),
            "Argument 'length' must be a number of tokens, not None. The components do not say how many positions "
            "there are.",
        ),
        (
            lambda: Mixture([1.0], [[[0.5, 0.5]]], length=2),
            "Argument 'length' must be 1, the number of positions in the components, not 2. Leave it out.",
        ),
        (lambda: LatentParity(0), "Argument 'length' must be at least 1, not 0."),
        (
            lambda: estimate_curve(LatentParity(2), 1, rng=np.random.default_rng(0)),
            "Argument 'draws' must be at least 2, not 1.",
        ),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match="Argument") as error:
        call()
    assert str(error.value) == sentence
