"""The paper's schemes: the recursion, the conditional Poisson designs, and their equality."""

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from reference import (
    cut_design_law,
    law_moments,
    paper_dtc,
    paper_size_law,
    paper_tc,
    stirling_dtc,
    stirling_first_kind,
)
from unmask import size
from unmask.evaluate.enumeration import compositions

PAPER_TC_FACTOR = lambda m, f, g: m * f / (1 + (m - 2) * g)  # noqa: E731


def relative(value, reference):
    return abs(value / reference - 1) if reference else abs(value)


def test_f_tc_matches_the_60_digit_reference_to_1e12_for_every_length_up_to_300_and_all_steps():
    for (steps, length), value in paper_tc(300).items():
        assert relative(size.tc_scheme(length).coefficient(steps), float(value)) < 1e-12
        if length % 25 == 0:
            assert relative(size.TC(steps).coefficient(length), float(value)) < 1e-12


def test_f_dtc_matches_the_60_digit_reference_to_1e12_for_every_length_up_to_300_and_all_steps():
    """By Stirling numbers, which the next test compares with the paper's recursion."""
    for (steps, length), value in stirling_dtc(300).items():
        assert relative(size.dtc_scheme(length).coefficient(steps), float(value)) < 1e-12
        if length % 25 == 0:
            assert relative(size.DTC(steps).coefficient(length), float(value)) < 1e-12


@pytest.mark.parametrize("length", [2, 3, 5, 10, 37, 100, 300])
def test_f_dtc_by_stirling_numbers_is_that_of_the_papers_recursion(length):
    by_paper, by_numbers = paper_dtc(length), stirling_dtc(length)
    for steps in range(1, length + 1):
        assert relative(float(by_numbers[steps, length]), float(by_paper[steps, length])) < 1e-14


def test_the_papers_own_update_loses_digits_that_the_martingale_form_keeps():
    exact, literal = paper_tc(300), paper_tc(300, number=float)
    worst = max(relative(literal[k, 300], float(exact[k, 300])) for k in range(2, 300))
    stable = max(relative(size.tc_scheme(300).coefficient(k), float(exact[k, 300])) for k in range(2, 300))
    assert worst > 1e-11
    assert stable < 1e-14


def test_reference_values_of_the_theory_note():
    values = [
        (size.TC(100), 0.04302), (size.DTC(100), 0.04701), (size.TC(500), 0.00465), (size.DTC(500), 0.00469),
        (size.TC(50), 0.09646), (size.DTC(50), 0.11883),
    ]  # fmt: skip
    for schedule, expected in values:
        assert round(schedule.coefficient(2000), 5) == expected
    small = [((10, 2), 0.6465, 2.1814), ((20, 5), 0.3230, 0.6182), ((60, 12), 0.1796, 0.2631)]
    for (length, steps), tc, dtc in small:
        assert round(size.TC(steps).coefficient(length), 4) == tc
        assert round(size.DTC(steps).coefficient(length), 4) == dtc


def test_pi_tc_equalises_the_overhang_at_length_2000():
    """r_i = f_tc (L−i) for every rank, by the law of the recursion, to 1e-10."""
    table = size.tc_scheme(2000).table(500)
    _, _, overhang = table.law()
    np.testing.assert_allclose(overhang, table.coefficients[-1, -1] * (2000 - np.arange(1, 2000)), rtol=1e-10)


@pytest.mark.parametrize(("length", "steps"), [(2000, 500), (2000, 2), (2000, 20), (2000, 1990), (300, 299)])
def test_the_recursion_and_the_design_have_the_same_moments(length, steps):
    for scheme, schedule in ((size.tc_scheme(length), size.TC(steps)), (size.dtc_scheme(length), size.DTC(steps))):
        cut, mean, overhang = scheme.table(steps).law()
        np.testing.assert_allclose(schedule.cut_probabilities(length), cut, rtol=1e-10)
        np.testing.assert_allclose(schedule.mean_sizes(length), mean, rtol=1e-10)
        np.testing.assert_allclose(schedule.overhang(length), overhang, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("length", range(2, 11))
def test_the_paper_and_the_design_agree_on_every_composition(length):
    """P(sizes) of π_tc by the paper's recursion = Π 1/(L−cut), normalised; of π_dtc = Π 1/cut."""
    tc, dtc = paper_tc(length, number=Fraction), paper_dtc(length, number=Fraction)

    def dtc_factor(m, f, g):
        return (length - m) * f / (1 + (length - m + 2) * g)

    for steps in range(1, length + 1):
        tc_law = paper_size_law(tc, PAPER_TC_FACTOR, steps, length)
        dtc_law = paper_size_law(dtc, dtc_factor, steps, length)
        assert tc_law == cut_design_law([Fraction(1, length - j) for j in range(1, length)], steps)
        assert dtc_law == cut_design_law([Fraction(1, j) for j in range(1, length)], steps)
        assert dtc_law == {sizes[::-1]: chance for sizes, chance in tc_law.items()}
        for sizes in compositions(length, steps):
            assert np.isclose(size.TC(steps).log_probability(sizes), np.log(float(tc_law[sizes])), atol=1e-12)
            assert np.isclose(size.DTC(steps).log_probability(sizes), np.log(float(dtc_law[sizes])), atol=1e-12)


def symmetric(degree, numbers):
    """The elementary symmetric polynomial, as a fraction; 0 for a degree below 0."""
    if degree < 0:
        return Fraction(0)
    row = [Fraction(1)] + [Fraction(0)] * degree
    for number in numbers:
        row = [1 if d == 0 else row[d] + number * row[d - 1] for d in range(degree + 1)]
    return Fraction(row[degree])


def inverses(first, last):
    return [Fraction(1, j) for j in range(first, last + 1)]


def test_the_coefficient_of_pi_tc_is_the_chance_of_no_cut_before_the_last_token():
    """f_tc(K, m) = e_{K−1}(1/2 … 1/(m−1)) / e_{K−1}(1, 1/2 … 1/(m−1)), in fractions, and the identity behind it."""
    table = paper_tc(12, number=Fraction)
    for m in range(2, 13):
        for k in range(1, m + 1):
            a, e = symmetric(k - 1, inverses(2, m - 1)), symmetric(k - 1, inverses(1, m - 1))
            assert table[k, m] == a / e
            if m > 2:
                before = symmetric(k - 1, inverses(1, m - 2)), symmetric(k - 1, inverses(2, m - 2))
                assert (m - 1) * a == before[0] + (m - 2) * before[1]


@pytest.mark.parametrize("length", range(2, 10))
def test_pi_tc_is_an_equaliser_in_fractions(length):
    """r_i = f_tc(K, L) (L−i) for every rank and every number of steps, by enumeration of the design."""
    coefficients = paper_tc(length, number=Fraction)
    for steps in range(1, length + 1):
        law = cut_design_law([Fraction(1, length - j) for j in range(1, length)], steps)
        overhang = exact_overhang(law, length)
        assert overhang == [coefficients[steps, length] * (length - i) for i in range(1, length)]


def exact_overhang(law, length):
    overhang = [Fraction(0)] * (length - 1)
    for sizes, chance in law.items():
        end = 0
        for size_ in sizes:
            for rank in range(end + 1, min(end + size_, length - 1) + 1):
                overhang[rank - 1] += chance * (end + size_ - rank)
            end += size_
    return overhang


@pytest.mark.parametrize("length", range(2, 10))
def test_the_coefficient_of_pi_dtc_is_the_overhang_of_the_next_token(length):
    """f_dtc(K, L') = R_K(a)/(a+1) with a = L − L' tokens revealed; with a = 0 it is r_1. In fractions."""
    coefficients = paper_dtc(length, number=Fraction)
    for masked in range(2, length + 1):
        revealed = length - masked
        for steps in range(1, masked + 1):
            law = cut_design_law(inverses(revealed + 1, length - 1), steps)
            assert coefficients[steps, masked] == exact_overhang(law, masked)[0] / (revealed + 1)


@pytest.mark.parametrize("length", range(2, 10))
def test_the_closed_forms_of_pi_dtc_in_fractions(length):
    """E[s_k] = Σ_t C(k−1+t, t) e_{K−1+t}/e_{K−1} and r_i = i Σ_{l≥i} L/(l(l+1)) G(l); r_i/i never grows."""
    for steps in range(1, length + 1):
        law = cut_design_law(inverses(1, length - 1), steps)
        e = [symmetric(c, inverses(1, length - 1)) for c in range(length)]
        for k in range(1, steps + 1):
            mean = sum(math.comb(k - 1 + t, t) * e[steps - 1 + t] for t in range(length - steps + 1)) / e[steps - 1]
            assert sum(chance * sizes[k - 1] for sizes, chance in law.items()) == mean
        none = [symmetric(steps - 1, inverses(1, l - 1)) / e[steps - 1] for l in range(1, length)]
        terms = [Fraction(length, l * (l + 1)) * none[l - 1] for l in range(1, length)]
        expected = [i * sum(terms[i - 1 :]) for i in range(1, length)]
        overhang = exact_overhang(law, length)
        assert overhang == expected
        assert all(overhang[i] / (i + 1) <= overhang[i - 1] / i for i in range(1, length - 1))


def test_batches_of_pi_tc_are_the_cycles_of_a_random_permutation():
    """The cycles, listed by their smallest element, of all permutations of 6 items with 3 cycles."""

    def cycle_sizes(permutation):
        left, sizes = set(range(len(permutation))), []
        while left:
            start, length = min(left), 0
            while start in left:
                left.remove(start)
                start, length = permutation[start], length + 1
            sizes.append(length)
        return tuple(sizes)

    counts = Counter(cycle_sizes(p) for p in permutations(range(6)))
    counts = {sizes: count for sizes, count in counts.items() if len(sizes) == 3}
    for sizes, count in counts.items():
        assert np.isclose(np.exp(size.TC(3).log_probability(sizes)), count / sum(counts.values()))


def test_f_tc_is_a_ratio_of_stirling_numbers():
    """f_tc = e_{K−1}(1/2 … 1/(L−1)) / e_{K−1}(1 … 1/(L−1)), and e_{K−1}(1 … 1/(L−1)) = c(L, K)/(L−1)!."""
    length = 60
    row = stirling_first_kind(length)
    for steps in range(1, length + 1):
        # e_c(1/2 …) from e_c(1, 1/2 …) = e_c(1/2 …) + e_{c−1}(1/2 …), exactly
        reduced = sum((-1) ** t * row[steps - t] for t in range(steps))
        expected = Fraction(reduced, row[steps])
        assert relative(size.TC(steps).coefficient(length), float(expected)) < 1e-12


def test_pi_dtc_overhang_is_proportional_to_rank_only_for_small_ranks():
    overhang = size.DTC(20).overhang(100)
    ratio = overhang / np.arange(1, 100)
    np.testing.assert_allclose(ratio[:20], size.DTC(20).coefficient(100), rtol=1e-12)
    assert np.all(np.diff(ratio[20:]) < 0)


def test_table_draws_and_design_draws_have_the_same_law():
    """Two-sample chi-square tests at failure probability 1e-6 each, fixed seed: a first size, and all compositions."""
    rng = np.random.default_rng(2026)
    for length, steps, key in [(8, 4, tuple), (120, 30, lambda sizes: min(int(sizes[0]), 12))]:
        table = size.dtc_scheme(length).table(steps).draw(rng=rng, count=20_000)
        taken = size.ConditionalPoisson(-np.log(np.arange(1.0, length)), steps - 1).draw(rng, 20_000)
        _, cuts = np.nonzero(taken)
        design = np.diff(cuts.reshape(-1, steps - 1) + 1, axis=1, prepend=0, append=length)
        assert np.all(design.sum(axis=1) == length)
        first, second = Counter(map(key, table.tolist())), Counter(map(key, design.tolist()))
        keys = [k for k in first | second if first[k] + second[k] >= 10]
        result = chi2_contingency([[first[k] for k in keys], [second[k] for k in keys]])
        assert result.pvalue > 1e-6


def test_draws_at_a_million_tokens_have_the_right_sums_and_cuts():
    """The number of cuts in the first half of each of 4 draws is within 6 standard errors (failure under 1e-7)."""
    length, steps = 10**6, 10**5
    schedule = size.DTC(steps)
    sizes = schedule.draw(length, rng=np.random.default_rng(3), count=4)
    assert sizes.shape == (4, steps)
    assert np.all(sizes.sum(axis=1) == length)
    assert sizes.min() >= 1
    cut = schedule.cut_probabilities(length)
    half = length // 2
    expected, spread = cut[:half].sum(), np.sqrt((cut[:half] * (1 - cut[:half])).sum())
    counts = (np.cumsum(sizes, axis=1) <= half).sum(axis=1)
    assert np.all(np.abs(counts - expected) < 6 * spread)


@pytest.mark.parametrize(("length", "whole"), [(6, 6), (6, 9), (5, 20)])
def test_pi_dtc_on_a_subset_of_a_longer_sequence_continues_its_design(length, whole):
    """With `whole − length` tokens revealed before, the cut after `j` more has odds 1/(whole − length + j)."""
    steps = 3
    odds = [Fraction(1, whole - length + j) for j in range(1, length)]
    cut, mean, overhang = law_moments(cut_design_law(odds, steps), length, steps)
    got = size.dtc_scheme(length, whole).table(steps).law()
    np.testing.assert_allclose(got[0], cut, rtol=1e-12)
    np.testing.assert_allclose(got[1], mean, rtol=1e-12)
    np.testing.assert_allclose(got[2], overhang, rtol=1e-12, atol=1e-14)


def test_table_draws_follow_the_tables_law():
    """Mean sizes of 10^5 draws within 6 standard errors of exact at every step (failure under 1e-6 in all)."""
    for scheme in (size.tc_scheme(60), size.dtc_scheme(60)):
        table = scheme.table(15)
        draws = table.draw(rng=np.random.default_rng(5), count=100_000)
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert np.all(np.abs(draws.mean(axis=0) - table.law()[1]) < 6 * error)
