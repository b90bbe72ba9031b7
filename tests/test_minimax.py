"""The minimax schedules: optimality by linear programming, by domination, and by a dual certificate."""

import math
import re
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from families import FAMILIES, MINIMAX
from unmask import gauge, size
from unmask.distribution import ReedSolomon
from unmask.evaluate import conditional_kl, expected_kl
from unmask.information.curve import Curve
from unmask.size._windows import descend
from unmask.size.minimax import solve
from unmask.size.systematic import Systematic


class GivenCuts(Systematic):
    """Systematic sampling of given cut probabilities."""

    def __init__(self, probabilities):
        super().__init__(round(float(np.sum(probabilities))) + 1)
        object.__setattr__(self, "probabilities", np.asarray(probabilities))

    def cut_probabilities(self, length):
        return self.probabilities


def flow_program(values, steps):
    """Minimise `c` over all flows on states (k, revealed): every random schedule is one, and conversely."""
    length = len(values) + 1
    edges = [
        (k, n, m)
        for k in range(1, steps + 1)
        for n in range(k - 1, length - (steps - k))
        for m in range(n + 1, length - (steps - k) + 1)
        if (n == 0) == (k == 1) and (m == length) == (k == steps)
    ]
    index = {edge: i for i, edge in enumerate(edges)}
    nodes = {(k, m) for k, _, m in edges if k < steps}
    node_row = {node: i for i, node in enumerate(sorted(nodes))}
    equal = lil_matrix((len(nodes) + 1, len(edges) + 1))
    bound = lil_matrix((length - 1, len(edges) + 1))
    for (k, n, m), i in index.items():
        if k == 1:
            equal[len(nodes), i] = 1.0
        else:
            equal[node_row[k - 1, n], i] -= 1.0
        if k < steps:
            equal[node_row[k, m], i] += 1.0
        for rank in range(n + 1, m):
            bound[rank - 1, i] = m - rank
    bound[:, len(edges)] = -np.asarray(values)[:, None]
    right = np.zeros(len(nodes) + 1)
    right[-1] = 1.0
    cost = np.zeros(len(edges) + 1)
    cost[-1] = 1.0
    return linprog(cost, A_ub=bound.tocsr(), b_ub=np.zeros(length - 1), A_eq=equal.tocsr(), b_eq=right, method="highs")


GRID = [(5, 2), (8, 3), (12, 4), (12, 11), (16, 8), (20, 5), (25, 12), (40, 3), (40, 10)]


@pytest.mark.parametrize("name", MINIMAX)
@pytest.mark.parametrize(("length", "steps"), GRID)
def test_the_factor_equals_the_linear_program_over_all_schedules(name, length, steps):
    family, measure = MINIMAX[name]
    program = flow_program(measure(length), steps)
    assert program.success
    assert abs(family(steps).factor(length) - program.fun) < 1e-7


@pytest.mark.parametrize(("length", "steps"), [(6, 2), (12, 4), (20, 5)])
def test_the_universal_factor_equals_the_linear_program(length, steps):
    overhangs = [size.Minimax(steps, measure).overhang(length) for measure in (gauge.tc, gauge.dtc, gauge.total)]
    program = flow_program(np.min(overhangs, axis=0), steps)
    assert abs(size.Universal(steps).factor(length) - program.fun) < 1e-7


@pytest.mark.parametrize("name", MINIMAX)
@pytest.mark.parametrize(("length", "steps"), [(6, 2), (10, 4), (14, 5)])
def test_an_adversarial_tuple_of_mds_codes_certifies_the_factor(name, length, steps):
    """Drops d ≥ 0 with Σ d_i g_i = 1 on which even the best fixed schedule, hence any schedule, loses `c`.

    A tuple of independent codes has such drops (`test_inequalities`).

    The drops are the multipliers of the linear program; that no schedule beats them is then checked by the shortest
    path on the curve they define, without the program.
    """
    family, measure = MINIMAX[name]
    program = flow_program(measure(length), steps)
    drops = np.maximum(-program.ineqlin.marginals, 0.0)
    drops /= drops @ measure(length)
    curve = Curve(np.append(np.cumsum(drops[::-1])[::-1], 0.0))
    best = expected_kl(size.Optimal(steps, curve), curve)
    assert best == pytest.approx(family(steps).factor(length), abs=1e-7)
    assert expected_kl(family(steps), curve) == pytest.approx(best, abs=1e-7)


TABLE = [
    (10, 2, 0.6465, 1.3172, 1.3172),
    (20, 5, 0.2508, 0.2991, 0.4850),
    (60, 12, 0.1155, 0.1257, 0.2302),
    (2000, 50, 0.05360, 0.05677, 0.10927),
    (2000, 100, 0.02290, 0.02342, 0.04612),
    (2000, 500, 0.00246, 0.00246, 0.00492),
]


@pytest.mark.parametrize(("length", "steps", "tc", "dtc", "both"), TABLE)
def test_the_table_of_the_theory_note(length, steps, tc, dtc, both):
    digits = 5 if length == 2000 else 4
    got = [MINIMAX[name][0](steps).factor(length) for name in ("tc", "dtc", "min")]
    assert [round(value, digits) for value in got] == [tc, dtc, both]


@pytest.mark.parametrize("name", MINIMAX)
@pytest.mark.parametrize(("length", "steps"), [(7, 3), (100, 17), (5000, 321)])
def test_the_overhang_attains_the_factor(name, length, steps):
    family, measure = MINIMAX[name]
    schedule = family(steps)
    assert gauge.guarantee(schedule.overhang(length), measure(length)) == pytest.approx(
        schedule.factor(length), rel=1e-9
    )
    assert schedule.cut_probabilities(length).sum() == pytest.approx(steps - 1, abs=1e-6)


@pytest.mark.parametrize("name", MINIMAX)
def test_the_overhang_is_the_gauge_or_one_more_than_the_next(name):
    """r_i = min(c g_i, 1 + r_{i+1}), r_L = 0."""
    family, measure = MINIMAX[name]
    length, expected = 200, [0.0]
    for value in measure(length)[::-1]:
        expected.append(min(family(23).factor(length) * value, 1 + expected[-1]))
    np.testing.assert_allclose(family(23).overhang(length), expected[:0:-1], atol=1e-9)


def test_tc_and_dtc_are_not_mirror_images():
    """The overhang looks one way only, so the minimax schedules for TC and DTC have different factors."""
    assert size.Minimax(5, gauge.tc).factor(20) < size.Minimax(5, gauge.dtc).factor(20)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("length", "steps"), [(9, 4), (30, 7), (64, 60)])
def test_systematic_sampling_dominates_every_schedule_with_the_same_cut_probabilities(family, length, steps):
    """r_i ≥ Σ_m (1 − b_i − … − b_{i+m})_+ , attained by systematic sampling of the cuts."""
    schedule = family(steps)
    cut = schedule.cut_probabilities(length)
    lower = [np.maximum(1 - np.cumsum(cut[i:]), 0.0).sum() for i in range(length - 1)]
    assert np.all(schedule.overhang(length) >= np.array(lower) - 1e-9)
    if abs(cut.sum() - (steps - 1)) < 1e-9:  # schedules that may skip steps have fewer cuts on average
        np.testing.assert_allclose(GivenCuts(cut).overhang(length), lower, atol=1e-9)


@st.composite
def markov_schedules(draw):
    """A random Markov chain over (step, revealed): every random schedule has the overhang of one of these."""
    length = draw(st.integers(2, 9))
    steps = draw(st.integers(1, length))
    seed = draw(st.integers(0, 2**32))
    sharpness = draw(st.sampled_from([0.1, 1.0, 10.0]))
    law = {(): 1.0}
    for k in range(1, steps + 1):
        step_law = {}
        for sizes, chance in law.items():
            left = length - sum(sizes)
            options = [left] if k == steps else list(range(1, left - (steps - k) + 1))
            # The draw must depend on (k, revealed) alone.
            local = np.random.default_rng([seed, k, left])
            for option, p in zip(options, local.dirichlet(np.full(len(options), sharpness)), strict=True):
                step_law[(*sizes, option)] = chance * p
        law = step_law
    return length, steps, law


@given(markov_schedules())
@settings(max_examples=60)
def test_systematic_sampling_dominates_random_markov_schedules(case):
    """The theorem on any chain over (k, N): equal cut probabilities, never a smaller overhang."""
    length, steps, law = case
    cut, overhang = np.zeros(length - 1), np.zeros(length - 1)
    for sizes, chance in law.items():
        ends = np.concatenate([[0], np.cumsum(sizes)])
        for end in ends[1:-1]:
            cut[end - 1] += chance
        for start, end in pairwise(ends):
            for rank in range(start + 1, min(end, length - 1) + 1):
                overhang[rank - 1] += chance * (end - rank)
    assert cut.sum() == pytest.approx(steps - 1)
    assert np.all(overhang >= GivenCuts(cut).overhang(length) - 1e-9)


@pytest.mark.parametrize("name", MINIMAX)
@pytest.mark.parametrize(("length", "steps"), [(1, 1), (2, 1), (2, 2), (30, 1), (30, 30), (31, 7), (1000, 999)])
def test_draws_have_exactly_the_steps_and_at_least_one_token_each(name, length, steps):
    draws = MINIMAX[name][0](steps).draw(length, rng=np.random.default_rng(1), count=300)
    assert draws.shape == (300, steps)
    assert draws.min() >= 1
    assert np.all(draws.sum(axis=1) == length)


@pytest.mark.parametrize("phase", [0.0, 1 - 2.0**-53])
@pytest.mark.parametrize(
    "schedule", [size.Offset(500), size.Minimax(4, gauge.tc), size.Logit(1999), size.Universal(90)]
)
def test_no_phase_leaves_a_step_empty(schedule, phase):
    """The last phase below 1 rounds up to the next integer when a number of steps is added to it."""
    assert schedule.sizes_at(2000, [phase]).min() >= 1


@pytest.mark.parametrize("phases", [[1.0], [-0.1], [np.nan], 0.5])
def test_phases_are_numbers_below_one(phases):
    with pytest.raises(ValueError, match="'phases' must be a list of numbers that are at least 0 and less than 1"):
        size.Offset(2).sizes_at(4, phases)


def test_the_last_step_of_a_long_schedule_has_its_own_probability():
    """The rounding error of a long running sum does not end up in the last stretch, which is narrower than it."""
    schedule, length = size.Minimax(10**5, gauge.both), 10**6
    tail = 1 - np.cumsum(schedule.cut_probabilities(length)[::-1])
    assert schedule.mean_sizes(length)[-1] - 1 == pytest.approx(tail[tail > 0].sum(), rel=5e-6)


@pytest.mark.parametrize("schedule", [size.Minimax(3, gauge.tc), size.Universal(3), size.Universal(1)])
def test_what_is_handed_out_cannot_spoil_what_is_kept(schedule):
    with pytest.raises(ValueError, match="read-only"):
        schedule.cut_probabilities(9)[:] = 0.0


def test_a_gauge_of_your_own_is_copied():
    values = np.ones(8)
    mine = gauge.Vector(values)
    values[:] = 5.0
    assert mine(9).tolist() == [1.0] * 8


def test_gauges_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"not a list\. For your own numbers, use unmask\.gauge\.Vector\."):
        size.Minimax(2, [1.0, 2.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="must return 9 numbers for a length of 10, not 3"):
        size.Minimax(2, lambda length: np.ones(3)).factor(10)
    with pytest.raises(ValueError, match="must not hold numbers as small as"):
        solve([1e-320, 1.0, 1.0], 2)


def test_one_step_and_one_token_per_step_are_special():
    assert size.Minimax(1, gauge.tc).factor(9) == 1.0
    assert size.Minimax(1, gauge.dtc).factor(9) == 8.0
    assert size.Minimax(9, gauge.tc).factor(9) == 0.0
    assert size.Universal(9).factor(9) == 1.0


def test_stratification_leaves_the_law_of_every_row_unchanged():
    """Frequencies of the sizes in each row over 4,000 batches of 4 within 6 standard errors (failure under 1e-5)."""
    schedule, length, batches = size.Minimax(3, gauge.tc), 7, 4000
    rng = np.random.default_rng(6)
    draws = np.array([schedule.draw_stratified(length, rng=rng, count=4) for _ in range(batches)])
    for row in range(4):
        found, counts = np.unique(draws[:, row], axis=0, return_counts=True)
        chance = np.array([np.exp(schedule.log_probability(sizes)) for sizes in found])
        assert chance.sum() == pytest.approx(1.0)
        assert np.all(np.abs(counts - batches * chance) < 6 * np.sqrt(batches * chance * (1 - chance)) + 1e-6)


def test_stratifying_by_intervals_would_change_the_law_of_a_row():
    """With phases (b + U)/B a row sees only its own stretch: not the law of a single draw."""
    schedule, length = size.Minimax(3, gauge.tc), 7
    first_row = schedule.sizes_at(length, np.random.default_rng(0).random(2000) / 4)
    everything = schedule.sizes_at(length, np.random.default_rng(0).random(2000))
    assert len(np.unique(first_row, axis=0)) < len(np.unique(everything, axis=0))


def test_stratified_batches_can_vary_more():
    """One cut of 65 tokens and drops 3, 1, 2, 6, sixteen ranks apart: the rows of a batch of four lose nearly the same.

    The variance of a batch's mean is then 1.87 times that of independent phases; exact, from all 64 cuts.
    """
    length, batch = 65, 4
    drops = np.zeros(length - 1)
    drops[[0, 16, 32, 48]] = 3, 1, 2, 6
    curve = Curve(np.append(np.cumsum(drops[::-1])[::-1], 0.0))
    phases = (np.arange(length - 1) + 0.5) / (length - 1)
    errors = conditional_kl(size.Offset(2).sizes_at(length, phases), curve)
    stratified = errors.reshape(batch, -1).mean(axis=0)
    assert stratified.var() / (errors.var() / batch) == pytest.approx(1.871, abs=1e-3)


def test_stratified_batches_often_vary_less():
    schedule, curve = size.Minimax(8, gauge.dtc), ReedSolomon(64, 20, 64).curve()
    rng = np.random.default_rng(3)
    spread = [
        np.std([conditional_kl(draw(64, rng=rng, count=16), curve).mean() for _ in range(300)])
        for draw in (schedule.draw_stratified, schedule.draw)
    ]
    assert spread[0] < 0.5 * spread[1]


def test_half_the_papers_error_on_the_papers_own_setting():
    curve = ReedSolomon(2000, 1995, 2048).curve()
    ratio = expected_kl(size.Minimax(500, gauge.tc), curve) / expected_kl(size.TC(500), curve)
    assert ratio <= 0.54


def ratios(length, steps):
    """The guarantees over the paper's: minimax for TC, for DTC, and that for both by TC and by DTC."""
    paper = size.TC(steps).coefficient(length), size.DTC(steps).coefficient(length)
    both = size.Minimax(steps, gauge.both).overhang(length)
    return (
        size.Minimax(steps, gauge.tc).factor(length) / paper[0],
        size.Minimax(steps, gauge.dtc).factor(length) / paper[1],
        gauge.guarantee(both, gauge.tc(length)) / paper[0],
        gauge.guarantee(both, gauge.dtc(length)) / paper[1],
    )


def test_the_gains_over_the_paper_are_those_of_the_page_on_theory():
    """Every number of its table by the number of steps, at length 2000."""
    page = (Path(__file__).parent.parent / "docs" / "theory.md").read_text(encoding="utf-8")
    rows = {
        name: [float(value) for value in values.split(" | ")]
        for name, values in re.findall(r"^\| (\$L = 2000\$, \$K\$|minimax[^|]*) \| ([\d. |]+) \|$", page, re.MULTILINE)
    }
    steps = [int(value) for value in rows.pop("$L = 2000$, $K$")]
    assert len(steps) >= 10
    assert len(rows) == 4
    np.testing.assert_allclose(list(rows.values()), np.transpose([ratios(2000, k) for k in steps]), atol=0.00501)


def test_the_gains_of_the_readme_hold_for_the_steps_it_names():
    """Between 50 and 1,000 steps at length 2000: 0.48 to 0.56 of the paper's, and within 13 % of both of its two."""
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert "At length 2,000, with 50 to 1,000 steps" in readme
    assert "0.48 to 0.56 times the one that the paper's schedules guarantee" in readme
    assert "at most 13 % above what the paper's schedule for that measure guarantees" in readme
    found = np.array([ratios(2000, steps) for steps in (50, 60, 80, 100, 150, 250, 400, 500, 700, 850, 1000)])
    assert (round(found[:, :2].min(), 2), round(found[:, :2].max(), 2)) == (0.48, 0.56)
    assert round(found[:, 2:].max(), 2) == 1.13


def test_short_blocks_leave_little_room():
    assert [round(ratios(4, steps)[0], 2) for steps in (2, 3)] == [1.0, 1.0]
    assert (round(ratios(32, 8)[0], 2), round(ratios(2000, 250)[0], 2)) == (0.69, 0.52)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=12), st.floats(0.01, 3), st.floats(1.001, 2))
def test_the_expected_number_of_cuts_falls_strictly_with_the_factor(values, factor, more):
    """B_1(c) > B_1(c') for c < c' while B_1(c') > 0: the minimax factor is unique."""
    gauges, cut = np.array(values), np.empty(len(values))
    first, second = descend(gauges, factor, 1, cut), descend(gauges, factor * more, 1, cut)
    assert first > second if second > 0 else first >= 0


def test_one_schedule_for_both_measures_is_within_6_percent_of_the_papers_two():
    schedule = size.Minimax(500, gauge.both)
    best = min(size.TC(500).coefficient(2000), size.DTC(500).coefficient(2000))
    overhang = schedule.overhang(2000)
    assert gauge.guarantee(overhang, gauge.tc(2000)) <= 1.06 * best
    assert gauge.guarantee(overhang, gauge.dtc(2000)) <= 1.06 * best


@pytest.mark.parametrize("steps", [8, 16, 32, 64, 128])
def test_the_universal_schedule_keeps_all_three_guarantees_within_its_factor(steps):
    length, schedule = 256, size.Universal(steps)
    factor, overhang = schedule.factor(length), schedule.overhang(length)
    assert 2.0 < factor < 2.25
    for measure in (gauge.tc, gauge.dtc, gauge.total):
        best = size.Minimax(steps, measure).factor(length)
        assert gauge.guarantee(overhang, measure(length)) <= factor * best * (1 + 1e-9)


def test_any_positive_vector_is_a_gauge():
    values = np.random.default_rng(0).random(19) + 0.1
    schedule = size.Minimax(6, gauge.Vector(values))
    assert gauge.guarantee(schedule.overhang(20), values) == pytest.approx(schedule.factor(20))
    assert schedule.factor(20) == pytest.approx(flow_program(values, 6).fun, abs=1e-7)
    with pytest.raises(ValueError, match="must be a list of positive finite numbers"):
        gauge.Vector([1.0, 0.0])
    with pytest.raises(ValueError, match="Argument 'length' must be 20 for a gauge of 19 numbers, not 21"):
        schedule.factor(21)


@pytest.mark.parametrize("fewer", [1, 10])
@pytest.mark.parametrize("name", MINIMAX)
def test_the_factor_keeps_its_digits_with_almost_as_many_steps_as_tokens(name, fewer):
    """c = (L−K) / Σ g, exactly, while c (g_i + g_{i+1}) ≤ 1 at every rank.

    No cut in [i, i+1] then has the probability (1 − b_i − b_{i+1})_+ = 0, so that r_i = 1 − b_i = c g_i, and the b_i
    sum to K−1.
    """
    length = 10**6
    family, measure = MINIMAX[name]
    values = [int(value) for value in measure(length)]
    factor = fewer / sum(values)
    assert 2 * factor * max(values) < 1
    assert family(length - fewer).factor(length) == pytest.approx(factor, rel=1e-12, abs=0)


@pytest.mark.parametrize("length", [1000, 10**6])
def test_the_factor_and_the_overhang_of_two_steps_for_tc_are_exact(length):
    """b_i = 1 / (H_{L−1} (L−i)) sums to 1, the window of a rank is all that comes after it, and r_i = c (L−i).

    From rank i on, r_i − r_{i+1} = 1 − (L−i) b_i = 1 − 1/H_{L−1} = c.
    """
    schedule = size.Minimax(2, gauge.tc)
    harmonic = math.fsum(1 / np.arange(1.0, length))
    assert schedule.factor(length) == pytest.approx(1 - 1 / harmonic, rel=1e-14)
    expected = (1 - 1 / harmonic) * gauge.tc(length)
    np.testing.assert_allclose(schedule.overhang(length), expected, rtol=1e-12)


@pytest.mark.parametrize("length", [1000, 10**6])
def test_the_overhang_of_a_window_as_long_as_the_text_is_exact(length):
    """With two steps at a random phase every b_j is 1/(L−1): r_i = Σ_{m ≤ n} (1 − m/(L−1)) for the n = L−i terms.

    That is n (2(L−1) − n − 1) / (2(L−1)), a quotient of two integers below 2^53.
    """
    left = gauge.tc(length)
    exact = left * (2 * (length - 1) - left - 1) / (2 * (length - 1))
    np.testing.assert_allclose(size.Offset(2).overhang(length), exact, rtol=1e-13)


@pytest.mark.parametrize("name", MINIMAX)
@pytest.mark.parametrize("steps", [2, 3, 30, 10**4])
def test_both_passes_keep_their_digits_at_great_length(name, steps):
    """The cut probabilities sum to K−1, in a sum without rounding, and their overhang attains the factor."""
    length = 10**6
    family, measure = MINIMAX[name]
    schedule = family(steps)
    assert math.fsum(schedule.cut_probabilities(length)) == pytest.approx(steps - 1, rel=1e-11, abs=0)
    assert gauge.guarantee(schedule.overhang(length), measure(length)) == pytest.approx(
        schedule.factor(length), rel=1e-11, abs=0
    )


def test_a_million_tokens_take_seconds():
    solve(gauge.tc(100), 10)
    start = time.perf_counter()
    factor, cut = solve(gauge.tc(10**6), 10**5)
    assert time.perf_counter() - start < 10  # two seconds on an idle machine; `make bench` measures it
    assert cut.sum() == pytest.approx(10**5 - 1)
    assert factor == pytest.approx(1.85999e-05, rel=1e-5)


@pytest.mark.parametrize(
    ("length", "steps", "measure"), [(5000, 2, gauge.total), (2164, 2, gauge.dtc), (3695, 2, gauge.both)]
)
def test_the_factor_is_found_where_the_search_is_slow(length, steps, measure):
    """Cases on which a root finder limited to a hundred evaluations gives up."""
    schedule = size.Minimax(steps, measure)
    assert gauge.guarantee(schedule.overhang(length), measure(length)) == pytest.approx(
        schedule.factor(length), rel=1e-9
    )
    assert schedule.cut_probabilities(length).sum() == pytest.approx(steps - 1, abs=1e-9)
