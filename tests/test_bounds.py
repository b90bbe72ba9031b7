"""The paper's bounds hold, are refused outside their domain, and give the steps they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask import bounds, gauge, size
from unmask.distribution import ReedSolomon
from unmask.evaluate import expected_kl

length_and_steps = st.integers(2, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))


@given(length_and_steps)
def test_lemma_4_bounds_f_tc(case):
    """f_tc(K, L) ≤ (H_{L−K+1} − 1)/(K + H_{L−K+1} − 2)."""
    length, steps = case
    assert size.TC(steps).coefficient(length) <= bounds.tc_factor(length, steps) * (1 + 1e-12)


@given(length_and_steps)
def test_lemma_6_bounds_f_dtc(case):
    """f_dtc(K, L) ≤ m/(L − m), and both are below Theorem 2's factor where that holds."""
    length, steps = case
    exact, bound = size.DTC(steps).coefficient(length), bounds.dtc_coefficient_bound(length, steps)
    assert exact <= bound * (1 + 1e-12)
    if steps > bounds.harmonic(length - 1):
        assert bound <= bounds.dtc_factor(length, steps) * (1 + 1e-12)


@given(length_and_steps, st.integers(0, 50))
def test_lemma_6_bounds_f_dtc_on_a_subset(case, revealed):
    masked, steps = case
    exact = size.dtc_scheme(masked, masked + revealed).coefficient(steps)
    assert exact <= bounds.dtc_coefficient_bound(masked + revealed, steps, masked) * (1 + 1e-12)


def test_theorem_2_is_refused_where_it_does_not_hold():
    assert bounds.harmonic(1999) > 8
    with pytest.raises(
        ValueError, match=r"Theorem 2 holds for more than H_\(L-1\) = 8.178 steps at length 2000, not for 8"
    ):
        bounds.theorem_2(2000, 8, 1.0)
    assert bounds.theorem_2(2000, 9, 1.0) > 0


def test_theorem_1_is_refused_for_one_step():
    with pytest.raises(ValueError, match="Theorem 1 holds from 2 steps on"):
        bounds.theorem_1(2000, 1, 1.0)


@given(length_and_steps)
def test_the_papers_simplified_tc_rate_holds(case):
    """f_tc(K, L) ≤ log(L)/K for K ≤ L − 7."""
    length, steps = case
    if steps <= length - 7:
        assert bounds.tc_factor(length, steps) <= np.log(length) / steps


@given(st.integers(2, 300), st.floats(0.01, 50), st.floats(0.01, 5))
def test_the_iteration_complexities_suffice(length, dependence, target):
    for complexity, scheme, factor in (
        (bounds.complexity_tc, size.TC, dependence),
        (bounds.complexity_dtc, size.DTC, dependence),
    ):
        steps = int(np.ceil(complexity(length, dependence, target)))
        if 2 <= steps <= length:
            assert scheme(steps).coefficient(length) * factor <= target * (1 + 1e-9)


@given(length_and_steps, st.floats(0, 20))
def test_steps_by_theorem_are_the_fewest_it_promises(case, tc):
    length, _ = case
    target = 0.3
    steps = bounds.steps_for_tc(length, tc, target)
    assert (steps == 1) == (tc <= target)
    assert steps in (1, length) or bounds.theorem_1(length, steps, tc) <= target
    if steps > 2:
        assert bounds.theorem_1(length, steps - 1, tc) > target
    steps = bounds.steps_for_dtc(length, tc, target)
    assert steps in (1, length) or bounds.theorem_2(length, steps, tc) <= target


@given(st.integers(2, 100).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_li_cai_bounds_every_fixed_schedule(case):
    """r_i ≤ s_max − 1 ≤ 2^⌈log₂ s_max⌉ − 1."""
    length, steps = case
    for family in (size.Even, size.Ceil, size.Cosine):
        schedule = family(steps)
        factor = gauge.guarantee(schedule.overhang(length), gauge.total(length))
        assert factor <= bounds.li_cai(length, int(schedule.sizes(length).max()), 1.0) + 1e-12


def test_the_choice_follows_the_smaller_promise():
    low_tc, low_dtc = ReedSolomon(256, 251, 256).curve(), ReedSolomon(256, 5, 256).curve()
    for curve, kind in ((low_tc, size.TC), (low_dtc, size.DTC)):
        choice = bounds.choose(256, 32, curve.total_correlation, curve.dual_total_correlation)
        assert isinstance(choice.size, kind)
        assert expected_kl(choice.size, curve) <= min(choice.tc_error, choice.dtc_error) * (1 + 1e-12)


@pytest.mark.parametrize("n", [0, 1, 5, 127, 128, 10_000])
def test_harmonic_numbers(n):
    assert np.isclose(bounds.harmonic(n), sum(1 / i for i in range(1, n + 1)), rtol=1e-13)
