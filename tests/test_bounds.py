"""The paper's bounds hold, are refused outside their domain, and give the steps they should."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import cut_design_law
from unmask import bounds, gauge, size
from unmask.distribution import ReedSolomon, Table
from unmask.evaluate import conditional_kl, expected_kl
from unmask.information import dual_total_correlation, total_correlation

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
    with pytest.raises(ValueError, match="Theorem 1 needs at least 2 steps"):
        bounds.theorem_1(2000, 1, 1.0)


@given(length_and_steps)
def test_the_rates_of_the_introduction_bound_the_theorems(case):
    """f_tc(K, L) ≤ log(L)/K for K ≤ L − 7, and f_dtc ≤ (log(L−1)+1)/(K − log(L−1) − 1) for K > log(L−1) + 1."""
    length, steps = case
    if steps <= length - 7:
        assert bounds.tc_rate(length, steps) == pytest.approx(np.log(length) / steps)
        assert bounds.tc_factor(length, steps) <= bounds.tc_rate(length, steps)
    if steps > np.log(length - 1) + 1:
        assert bounds.dtc_factor(length, steps) <= bounds.dtc_rate(length, steps) * (1 + 1e-12)


def test_the_rates_are_refused_where_they_do_not_hold():
    assert bounds.tc_rate(100, 93) > 0
    with pytest.raises(ValueError, match=r"holds for at most L - 7 = 93 steps at length 100, not for 94"):
        bounds.tc_rate(100, 94)
    assert bounds.dtc_rate(2000, 9) > 0
    with pytest.raises(ValueError, match=r"more than log\(L-1\) \+ 1 = 8\.6 steps at length 2000, not for 8"):
        bounds.dtc_rate(2000, 8)


@given(st.integers(2, 300), st.floats(0, 500), st.floats(0.01, 5))
def test_the_iteration_complexities_suffice_and_never_exceed_the_length(length, dependence, target):
    for complexity, scheme in ((bounds.complexity_tc, size.TC), (bounds.complexity_dtc, size.DTC)):
        steps = max(1, int(np.ceil(complexity(length, dependence, target))))
        assert steps <= length
        assert scheme(steps).coefficient(length) * dependence <= target * (1 + 1e-9)


def test_the_complexity_by_tc_is_the_papers_formula_where_that_was_derived():
    """(TC/ε) log L up to L − 7 steps; beyond, L steps, which make no error."""
    assert bounds.complexity_tc(128, 0.2, 0.1) == pytest.approx(2 * np.log(128))
    edge = 121 / np.log(128)
    assert bounds.complexity_tc(128, edge * (1 - 1e-12), 1.0) == pytest.approx(121)
    assert bounds.complexity_tc(128, edge * (1 + 1e-12), 1.0) == 128


def harmonic(n):
    return sum(1 / i for i in range(1, n + 1))


@pytest.mark.parametrize(("length", "steps", "masked"), [(20, 8, 12), (20, 12, 13), (30, 10, 30), (9, 4, 8)])
def test_lemma_6_is_the_papers_formula(length, steps, masked):
    m = min(masked - steps, length / steps * (harmonic(length - 1) - harmonic(length - masked)))
    assert bounds.dtc_coefficient_bound(length, steps, masked) == pytest.approx(m / (length - m), rel=1e-12)


@pytest.mark.parametrize(("largest", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16)])
def test_li_and_cai_round_the_largest_size_up_to_a_power_of_two(largest, power):
    """(2^⌈log₂ s_max⌉ − 1)/L · Σ I."""
    assert bounds.li_cai(100, largest, 5.0, 0.25) == pytest.approx((power - 1) / 100 * 5.0 + 0.25)


def test_one_step_is_promised_by_theorem_2_only_where_tc_must_be_within_the_target():
    """TC can be (L−1) DTC: a DTC within the target does not make one step enough."""
    length, dtc, target = 100, 0.2, 0.3
    steps = bounds.steps_for_dtc(length, dtc, target)
    promised = [k for k in range(6, length + 1) if bounds.theorem_2(length, k, dtc) <= target]
    assert steps == min(promised) > 1
    assert bounds.steps_for_dtc(length, 0.003, target) == 1


def test_the_first_number_of_steps_that_theorem_2_speaks_of_is_tried():
    """H_1999 = 8.18, so that 9 steps are the first, and promise a factor of 9.95."""
    assert bounds.steps_for_dtc(2000, 1.0, 10.0) == 9


def test_the_choice_is_by_promises_not_by_measures():
    """f_tc < f_dtc, so that π_tc promises less even for a TC that is a little larger than the DTC."""
    choice = bounds.choose(2000, 100, tc=1.05, dtc=1.0)
    assert isinstance(choice.size, size.TC)
    assert choice.tc_error < choice.dtc_error


@pytest.mark.parametrize("length", range(1, 13))
def test_lemma_5_is_a_statement_on_every_rank(length):
    """On L' of L positions `r_i ≤ f_dtc(K, L') (L − L' + i)`, with equality at the first: so for every distribution."""
    for masked in range(1, length + 1):
        for steps in range(1, masked + 1):
            scheme = size.dtc_scheme(masked, length)
            overhang = scheme.table(steps).law()[2]
            allowed = scheme.coefficient(steps) * (length - masked + np.arange(1, masked))
            assert np.all(overhang <= allowed * (1 + 1e-12) + 1e-14)
            assert overhang[:1] == pytest.approx(allowed[:1], rel=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 3))
def test_lemma_5_bounds_what_a_part_of_the_positions_costs_given_the_rest(seed, masked, steps):
    """E KL ≤ f_dtc(K, L')[(L−L')/L' TC + L/L' DTC], for the law of a random table given each x outside the part."""
    length, vocab, steps = 4, 2, min(steps, masked)
    joint = np.random.default_rng(seed).dirichlet(np.full(vocab**length, 0.3)).reshape((vocab,) * length)
    odds = [Fraction(1, length - masked + j) for j in range(1, masked)]
    law = cut_design_law(odds, steps)
    for known in np.ndindex(*(vocab,) * (length - masked)):
        if joint[known].sum() == 0:
            continue
        given_known = Table(joint[known] / joint[known].sum())
        error = sum(float(p) * conditional_kl([sizes], given_known.curve())[0] for sizes, p in law.items())
        tc, dtc = total_correlation(given_known.probabilities), dual_total_correlation(given_known.probabilities)
        assert error <= bounds.lemma_5(length, steps, masked, max(tc, 0.0), max(dtc, 0.0)) + 1e-10


def test_lemma_5_for_all_positions_is_the_exact_theorem_2():
    assert bounds.lemma_5(2000, 100, 2000, 7.0, 3.0) == pytest.approx(3 * size.DTC(100).coefficient(2000), rel=1e-12)
    with pytest.raises(ValueError, match="Argument 'masked' must be at most 10, not 11"):
        bounds.lemma_5(10, 2, 11, 1.0, 1.0)


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.integers(2, n))))
def test_no_schedule_is_good_on_the_hard_curve(case):
    """E KL ≥ TC − (K−1)(1 − (M/L)^{1/(K−1)}) for the best schedule there is, with the stated TC and DTC."""
    length, rest, steps = case
    curve = bounds.hard_curve(length, rest)
    tc = harmonic(length) - harmonic(rest)
    assert curve.total_correlation == pytest.approx(tc, abs=1e-12)
    assert curve.dual_total_correlation == pytest.approx(length / rest - 1 - tc, abs=1e-12)
    bound = tc - (steps - 1) * (1 - (rest / length) ** (1 / (steps - 1)))
    assert expected_kl(size.Optimal(steps, curve), curve) >= bound - 1e-9


@pytest.mark.parametrize("length", [8, 64, 256, 2000])
def test_the_lower_bound_is_below_the_minimax_factor_and_of_the_right_order(length):
    """No schedule promises less than `lower_factor · TC`; it is at least log(L/3K)/(6K) for log L ≤ K ≤ L/12.

    In numbers it is more: at least 0.4 log(L/K)/K for log L ≤ K ≤ L/4.
    """
    for steps in sorted({2, 3, 5, 8, *(length // part for part in (64, 16, 8, 4, 2)), length - 1} - {0, 1}):
        factor = bounds.lower_factor(length, steps)
        assert 0 <= factor <= size.Minimax(steps, gauge.tc).factor(length)
        if np.log(length) <= steps <= length / 4:
            assert factor >= 0.4 * np.log(length / steps) / steps
        if np.log(length) <= steps <= length / 12:
            assert factor >= np.log(length / (3 * steps)) / (6 * steps)
    assert bounds.lower_factor(length, 1) == 1
    assert bounds.lower_factor(length, length) == 0


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
