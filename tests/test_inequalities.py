"""The theorems on entropies that the schedules rest on, one property each; the docstring is the statement."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.information import (
    drops,
    dual_total_correlation,
    entropy,
    information_curve,
    information_sum,
    kl,
    loss_curve,
    total_correlation,
)
from unmask.information.curve import Curve

NEAR = 1e-10


@st.composite
def joints(draw, least_length: int = 1) -> np.ndarray:
    """Joints of up to five tokens: dense, sparse, and with weights many orders of magnitude apart."""
    vocab = draw(st.integers(2, 3))
    length = draw(st.integers(least_length, 5 if vocab == 2 else 4))
    cells = vocab**length
    entry = draw(st.sampled_from([st.integers(1, 9), st.integers(0, 1), st.sampled_from([0.0, 0.0, 1.0, 1e-6, 1e-12])]))
    weights = np.array(draw(st.lists(entry, min_size=cells, max_size=cells)), dtype=float)
    if weights.sum() == 0:
        weights[draw(st.integers(0, cells - 1))] = 1.0
    return (weights / weights.sum()).reshape((vocab,) * length)


def _product_of_marginals(joint: np.ndarray) -> np.ndarray:
    axes = range(joint.ndim)
    marginals = [joint.sum(axis=tuple(j for j in axes if j != i)) for i in axes]
    return reduce(np.multiply.outer, marginals)


def _mean_over_sets(joint: np.ndarray, size: int, measure) -> float:
    sets = list(itertools.combinations(range(joint.ndim), size))
    return math.fsum(measure(chosen) for chosen in sets) / len(sets)


common = settings(max_examples=60)


@common
@given(joints())
def test_single_batch(joint):
    """Drawing all tokens at once from their marginals costs `KL(p ‖ Π p_i) = TC(X)`."""
    assert kl(joint, _product_of_marginals(joint)) == pytest.approx(total_correlation(joint), abs=NEAR)


@common
@given(joints(), st.data())
def test_chain_of_a_fixed_first_batch(joint, data):
    """For any set `S` with complement `S'`, `TC(X) = TC(X_S) + TC(X_S' | X_S) + Σ_{i∈S'} I(X_i; X_S)`."""
    chosen = sorted(data.draw(st.sets(st.integers(0, joint.ndim - 1))))
    rest = [i for i in range(joint.ndim) if i not in chosen]
    gained = sum(entropy(joint, [i]) - entropy(joint, [i], chosen) for i in rest)
    parts = total_correlation(joint, chosen) + total_correlation(joint, rest, chosen) + gained
    assert total_correlation(joint) == pytest.approx(parts, abs=NEAR)


@common
@given(joints(least_length=2), st.data())
def test_recursion_over_a_random_first_batch(joint, data):
    """For a random first batch `S` of size `s`, `E[TC(X_S) + TC(X_S' | X_S)] = s ℓ(0) + (L−s) ℓ(s) − H(X)`."""
    length = joint.ndim
    size = data.draw(st.integers(1, length - 1))
    loss = loss_curve(information_curve(joint))

    def cost(chosen):
        rest = [i for i in range(length) if i not in chosen]
        return total_correlation(joint, chosen) + total_correlation(joint, rest, chosen)

    expected = size * loss[0] + (length - size) * loss[size] - entropy(joint)
    assert _mean_over_sets(joint, size, cost) == pytest.approx(expected, abs=NEAR)


@common
@given(joints())
def test_loss_is_the_mean_conditional_entropy_of_a_masked_token(joint):
    """`ℓ(n)` is the mean of `H(X_i | X_A)` over random sets `A` of `n` tokens and random `i` outside `A`."""
    length = joint.ndim
    loss = loss_curve(information_curve(joint))
    for visible in range(length):

        def masked_entropy(chosen):
            rest = [i for i in range(length) if i not in chosen]
            return sum(entropy(joint, [i], chosen) for i in rest) / len(rest)

        assert loss[visible] == pytest.approx(_mean_over_sets(joint, visible, masked_entropy), abs=NEAR)


@common
@given(joints())
def test_han(joint):
    """Han's inequality: the loss curve never increases, and is not negative."""
    loss = loss_curve(information_curve(joint))
    assert (loss >= -NEAR).all()
    assert (drops(loss) >= -NEAR).all()
    Curve(loss)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_curve_that_rises_is_refused_unless_by_rounding(scale):
    """Differences of entropies carry errors of 1e-9 of the largest; whatever rises by a hundred times that is wrong."""
    Curve(scale * np.array([1.0, 0.5, 0.5 + 5e-10, 0.1]))
    with pytest.raises(ValueError, match=r"must not increase, but it rises by .* from 1 to 2 visible tokens"):
        Curve(scale * np.array([1.0, 0.5, 0.5 + 1e-7, 0.1]))
    with pytest.raises(ValueError, match="must not be negative, but it ends at"):
        Curve(scale * np.array([1.0, 0.5, -1e-7]))


@common
@given(joints())
def test_all_measures_are_non_negative(joint):
    """`H, TC, DTC, Σ I ≥ 0`."""
    for measure in (entropy, total_correlation, dual_total_correlation, information_sum):
        assert measure(joint) >= -NEAR


@common
@given(joints(), st.data())
def test_conditional_measures_are_non_negative(joint, data):
    """`H(X_S | X_T), TC(X_S | X_T), DTC(X_S | X_T) ≥ 0`."""
    positions = st.sets(st.integers(0, joint.ndim - 1))
    chosen, known = sorted(data.draw(positions)), sorted(data.draw(positions))
    for measure in (entropy, total_correlation, dual_total_correlation):
        assert measure(joint, chosen, known) >= -NEAR


@common
@given(joints(least_length=2))
def test_each_total_correlation_bounds_the_other(joint):
    """Austin: `TC ≤ (L−1) DTC` and `DTC ≤ (L−1) TC`."""
    tc, dtc = total_correlation(joint), dual_total_correlation(joint)
    assert tc <= (joint.ndim - 1) * dtc + NEAR
    assert dtc <= (joint.ndim - 1) * tc + NEAR


@common
@given(joints())
def test_the_two_correlations_add_up(joint):
    """`TC + DTC = Σ_i I(X_i; X_−i)`."""
    both = total_correlation(joint) + dual_total_correlation(joint)
    assert both == pytest.approx(information_sum(joint), abs=NEAR)


@common
@given(joints())
def test_the_drops_carry_every_measure(joint):
    """`TC = Σ d_i (L−i)`, `DTC = Σ d_i i`, `Σ I = L Σ d_i`, `H = Σ ℓ(n)`."""
    loss = loss_curve(information_curve(joint))
    drop, rank = drops(loss), np.arange(1, joint.ndim)
    assert drop @ (joint.ndim - rank) == pytest.approx(total_correlation(joint), abs=NEAR)
    assert drop @ rank == pytest.approx(dual_total_correlation(joint), abs=NEAR)
    assert joint.ndim * drop.sum() == pytest.approx(information_sum(joint), abs=NEAR)
    assert loss.sum() == pytest.approx(entropy(joint), abs=NEAR)


@common
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_independent_tuples_add_their_curves(length, seed):
    """If every token is a pair and the two sequences are independent, the loss curve is the sum of theirs."""
    first, second = np.random.default_rng(seed).dirichlet([0.3] * 2**length, size=2).reshape(2, *(2,) * length)
    pairs = np.einsum(first, range(0, 2 * length, 2), second, range(1, 2 * length, 2), range(2 * length))
    curves = [loss_curve(information_curve(joint)) for joint in (first, second, pairs.reshape((4,) * length))]
    np.testing.assert_allclose(curves[2], curves[0] + curves[1], atol=NEAR)


def test_a_mixture_does_not_have_the_mean_of_the_curves():
    """Half of the time three equal bits, half of the time three free ones: neither curve nor entropy is the mean."""
    equal, free = np.zeros((2, 2, 2)), np.full((2, 2, 2), 1 / 8)
    equal[0, 0, 0] = equal[1, 1, 1] = 1 / 2
    curves = [loss_curve(information_curve(joint)) for joint in (equal, free, (equal + free) / 2)]
    assert curves[2][1] - (curves[0][1] + curves[1][1]) / 2 > 0.2


@common
@given(joints(), st.data())
def test_merging_tokens_never_increases_total_correlation(joint, data):
    """Data processing: applying a function to one token cannot raise TC."""
    axis = data.draw(st.integers(0, joint.ndim - 1))
    merged = np.concatenate(
        [
            np.take(joint, [0, 1], axis=axis).sum(axis=axis, keepdims=True),
            np.take(joint, range(2, joint.shape[axis]), axis=axis),
        ],
        axis=axis,
    )
    assert total_correlation(merged) <= total_correlation(joint) + NEAR


@common
@given(joints(), st.integers(0, 10**6))
def test_divergence_is_non_negative(joint, seed):
    """Gibbs: `KL(p ‖ q) ≥ 0`, and infinite exactly when `q` misses part of the support of `p`."""
    other = np.random.default_rng(seed).dirichlet([0.5] * joint.size).reshape(joint.shape)
    assert kl(joint, other) >= 0
    assert math.isinf(kl(other, joint)) == bool(((joint == 0) & (other > 0)).any())
