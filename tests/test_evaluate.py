"""Exact errors of schedules: reference values, identities, estimates, fewest steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from families import FAMILIES
from unmask import gauge, size
from unmask.distribution import Markov, Parity, ReedSolomon
from unmask.evaluate import (
    Estimate,
    conditional_kl,
    expected_kl,
    expected_nll,
    fewest_steps,
    fewest_steps_guaranteed,
    sampled_kl,
)
from unmask.information.curve import Curve

curves = st.lists(st.floats(0, 5), min_size=1, max_size=12).map(lambda drops: Curve(np.cumsum(drops)[::-1]))


def test_reed_solomon_values_of_the_papers_figure_2():
    curve = ReedSolomon(2000, 1995, 2048).curve()
    assert round(curve.total_correlation, 2) == 38.12
    expected = {50: 3.677, 100: 1.640, 250: 0.498, 500: 0.177, 1000: 0.0478}
    for steps, value in expected.items():
        digits = 4 if steps == 1000 else 3
        assert round(expected_kl(size.TC(steps), curve), digits) == value


@given(curves, st.integers(1, 12), st.sampled_from(FAMILIES))
def test_the_error_is_the_mean_over_batches_of_what_each_batch_ignores(curve, steps, family):
    """Σ_i d_i r_i = Σ_n v_n ℓ(n) − H(X), for every schedule and every curve."""
    schedule = family(min(steps, curve.length))
    by_mass = schedule.batch_mass(curve.length) @ curve.loss - curve.entropy
    assert np.isclose(expected_kl(schedule, curve), by_mass, atol=1e-9)
    assert np.isclose(expected_nll(schedule, curve), by_mass + curve.entropy, atol=1e-9)


@given(curves, st.sampled_from(FAMILIES))
def test_one_step_costs_the_total_correlation(curve, family):
    assert np.isclose(expected_kl(family(1), curve), curve.total_correlation, atol=1e-9)


@given(curves, st.integers(1, 12), st.sampled_from(FAMILIES))
def test_the_guarantees_hold_for_every_curve(curve, steps, family):
    """E KL ≤ c · (dependence) with c the worst ratio of overhang to gauge."""
    length = curve.length
    schedule = family(min(steps, length))
    error, overhang = expected_kl(schedule, curve), schedule.overhang(length)
    for measure, value in [
        (gauge.tc(length), curve.total_correlation),
        (gauge.dtc(length), curve.dual_total_correlation),
        (gauge.total(length), curve.information_sum),
        (gauge.both(length), float(curve.drops @ gauge.both(length))),
    ]:
        assert error <= gauge.guarantee(overhang, measure) * value * (1 + 1e-12) + 1e-9
    assert float(curve.drops @ gauge.both(length)) <= min(curve.total_correlation, curve.dual_total_correlation) + 1e-9


def test_guarantees_are_attained_by_mds_codes():
    length, schedule = 16, size.Even(5)
    overhang = schedule.overhang(length)
    errors = [expected_kl(schedule, ReedSolomon(length, d, 16).curve()) / np.log(16) for d in range(1, length)]
    np.testing.assert_allclose(errors, overhang, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_monte_carlo_agrees_with_exact(family):
    """Within 5 standard errors for each family and curve (failure under 1e-5 in all); fixed seed."""
    targets = [ReedSolomon(64, 60, 64).curve(), Markov.sticky(3, 0.9, 64).curve()]
    schedule = family(10)
    estimates = sampled_kl(schedule, targets, 4000, rng=np.random.default_rng(8))
    for curve, estimate in zip(targets, estimates, strict=True):
        assert abs(estimate.mean - expected_kl(schedule, curve)) <= 5 * estimate.standard_error + 1e-9


def test_sizes_of_another_length_are_refused():
    with pytest.raises(ValueError, match="must sum to the length 4"):
        conditional_kl([[2, 3]], Parity(4).curve())


@pytest.mark.parametrize("family", FAMILIES)
def test_fewest_steps_is_the_first_that_meets_the_target(family):
    curve = ReedSolomon(40, 37, 64).curve()
    most = 200 if family(1).may_exceed else 40
    errors = [expected_kl(family(steps), curve) for steps in range(1, most + 1)]
    for target in (3.0, 0.5) if family(1).may_exceed else (3.0, 0.5, 0.05, 0.0):
        first = next(steps for steps, error in enumerate(errors, start=1) if error <= target)
        assert fewest_steps(family, curve, target) == first


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fewest_guaranteed_steps_are_the_first_that_guarantee_it(family):
    most = 200 if family(1).may_exceed else 30
    factors = [gauge.guarantee(family(steps).overhang(30), gauge.total(30)) for steps in range(1, most + 1)]
    for target in (1.0, 0.3):
        first = next(steps for steps, factor in enumerate(factors, start=1) if 8.0 * factor <= target)
        assert fewest_steps_guaranteed(family, gauge.total(30), 8.0, target) == first


def test_log_linear_sizes_may_need_more_steps_than_tokens():
    """With a step for every token of this chain they still lose 0.59 nats; 759 steps are the first to lose 0.1."""
    curve = Markov.sticky(27, 0.4, 128).curve()
    assert round(expected_kl(size.LogLinear(128), curve), 3) == 0.593
    steps = fewest_steps(size.LogLinear, curve, 0.1)
    assert steps == 759
    assert expected_kl(size.LogLinear(steps), curve) <= 0.1 < expected_kl(size.LogLinear(steps - 1), curve)


@pytest.mark.parametrize("length", [2, 3, 5, 13, 64])
def test_beyond_as_many_steps_as_tokens_log_linear_sizes_gain_by_every_step(length):
    """r_i falls at every rank, so on every curve: what the bisection of `fewest_steps` rests on."""
    overhang = np.array([size.LogLinear(steps).overhang(length) for steps in range(length, 6 * length)])
    assert np.all(np.diff(overhang, axis=0) < 0)


@given(curves, st.integers(1, 60))
def test_log_linear_sizes_lose_at_most_the_information_sum_over_the_steps(curve, steps):
    """E KL ≤ Σ_i I(X_i; X_−i) / K, with more steps than tokens too."""
    assert expected_kl(size.LogLinear(steps), curve) <= curve.information_sum / steps * (1 + 1e-12) + 1e-9


@pytest.mark.parametrize("target", [0.0, 1e-9])
def test_a_target_that_no_number_of_steps_meets_is_refused(target):
    curve = Markov.sticky(3, 0.5, 16).curve()
    with pytest.raises(
        ValueError, match=r"must be a value that LogLinear can reach, not .*, because even 131072 steps still"
    ):
        fewest_steps(size.LogLinear, curve, target)
    with pytest.raises(
        ValueError, match=r"'target' must be a value that Even can reach, not .*, because even 16 steps still"
    ):
        fewest_steps(lambda steps: size.Even(1), curve, target)
    assert fewest_steps(size.LogLinear, Curve(np.ones(5)), target) == 1


def test_the_optimum_of_one_curve_can_lose_by_an_extra_step_on_another():
    """19 of 63 extra steps lose, so that a bisection would answer 43 instead of 12."""
    mine, other = Markov.sticky(2, 0.9, 64).curve(), ReedSolomon(64, 40, 64).curve()
    errors = np.array([expected_kl(size.Optimal(steps, mine), other) for steps in range(1, 65)])
    assert np.sum(np.diff(errors) > 1e-9) == 19
    assert fewest_steps(lambda steps: size.Optimal(steps, mine), other, 2.0) == 12 == 1 + np.argmax(errors <= 2.0)
    assert not size.Optimal.monotone
    assert size.Optimal(2, mine).monotone_on(Markov.sticky(2, 0.9, 64).curve())
    table = np.repeat(mine.loss[:, None], 64, axis=1)
    assert fewest_steps(lambda steps: size.OptimalTable(steps, table), other, 2.0) == 12


@given(curves, st.floats(0, 5))
def test_the_fewest_steps_of_the_optimum_are_the_fewest_of_all(curve, target):
    best = size.best_paths(curve, curve.length).costs - curve.entropy
    steps = fewest_steps(lambda count: size.Optimal(count, curve), curve, target + 1e-9)
    assert best[steps - 1] <= target + 1e-8
    assert steps == 1 or best[steps - 2] > target - 1e-8


def test_fewest_guaranteed_steps_meet_the_target_for_the_worst_distribution():
    length, tc, target = 300, 10.0, 0.5
    steps = fewest_steps_guaranteed(size.TC, gauge.tc(length), tc, target)
    assert size.TC(steps).coefficient(length) * tc <= target < size.TC(steps - 1).coefficient(length) * tc


def test_even_sizes_beat_the_papers_schemes_on_a_smooth_curve():
    """Randomised sizes win worst-case ratios over distributions, not on every distribution."""
    curve = Markov.sticky(4, 0.9, 128).curve()
    even = expected_kl(size.Even(16), curve)
    assert even < expected_kl(size.TC(16), curve)
    assert even < expected_kl(size.DTC(16), curve)


@given(curves, st.integers(1, 12), st.integers(0, 2**32))
def test_the_error_given_the_sizes_is_that_of_explicit_sizes(curve, steps, seed):
    sizes = size.TC(min(steps, curve.length)).draw(curve.length, rng=np.random.default_rng(seed))[0]
    expected = expected_kl(size.Explicit(sizes), curve)
    assert conditional_kl(sizes, curve)[0] == pytest.approx(expected, abs=1e-12)


def test_an_estimate_states_the_error_of_a_mean():
    """The root of the sum of squares about the mean, over n − 1 and over n."""
    values = [1.0, 2.0, 4.0, 5.0]
    assert Estimate.of(values) == Estimate(3.0, np.sqrt(10 / 3 / 4), 4)


def test_a_stated_error_is_that_of_the_mean():
    """Mean squared deviation over mean stated variance, of 2,000 estimates: 1 within 4 standard errors (under 1e-4)."""
    rng = np.random.default_rng(5)
    estimates = [Estimate.of(rng.random(5)) for _ in range(2000)]
    ratio = np.mean([(each.mean - 0.5) ** 2 for each in estimates])
    ratio /= np.mean([each.standard_error**2 for each in estimates])
    assert abs(ratio - 1) < 0.15


def test_draws_that_all_miss_a_rare_error_estimate_exactly_zero():
    curve = ReedSolomon(2000, 1999, 2048).curve()
    (estimate,) = sampled_kl(size.TC(1500), [curve], 3, rng=np.random.default_rng(0))
    assert (estimate.mean, estimate.standard_error) == (0.0, 0.0)
