"""The optimal schedule against brute force over all compositions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import size
from unmask.distribution import Markov, ReedSolomon
from unmask.evaluate import expected_kl, expected_nll
from unmask.evaluate.enumeration import compositions
from unmask.information.curve import Curve

curves = st.lists(st.floats(0, 3), min_size=1, max_size=12).map(lambda drops: Curve(np.cumsum(drops)[::-1]))


@given(curves, st.integers(1, 12))
@settings(max_examples=60)
def test_optimal_sizes_are_the_best_of_all_compositions(curve, steps):
    steps = min(steps, curve.length)
    best = min(expected_nll(size.Explicit(sizes), curve) for sizes in compositions(curve.length, steps))
    assert expected_nll(size.Optimal(steps, curve), curve) == pytest.approx(best, abs=1e-9)
    assert size.best_paths(curve, curve.length).costs[steps - 1] == pytest.approx(best, abs=1e-9)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.integers(0, 2**32))))
@settings(max_examples=60)
def test_optimal_sizes_for_a_table_are_the_best_of_all_compositions(case):
    length, steps, seed = case
    table = np.random.default_rng(seed).random((length, length))

    def cost(sizes):
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return sum(table[n, n:m].sum() for n, m in pairwise(ends))

    best = min(cost(sizes) for sizes in compositions(length, steps))
    assert cost(size.OptimalTable(steps, table).sizes(length)) == pytest.approx(best, abs=1e-12)


def test_a_table_that_depends_on_the_visible_tokens_alone_gives_the_curves_optimum():
    curve = Markov.sticky(4, 0.9, 64).curve()
    table = np.repeat(curve.loss[:, None], 64, axis=1)
    for steps in (1, 5, 20, 64):
        by_table = size.Explicit(size.OptimalTable(steps, table).sizes(64))
        assert expected_kl(by_table, curve) == pytest.approx(expected_kl(size.Optimal(steps, curve), curve), abs=1e-9)


def test_the_best_error_is_convex_in_the_number_of_steps():
    costs = size.best_paths(Markov.sticky(3, 0.8, 100).curve(), 100).costs
    assert np.all(np.diff(costs) <= 1e-9)
    assert np.all(np.diff(costs, 2) >= -1e-9)


def test_a_code_needs_one_step_more_than_its_free_tokens_allow():
    """A code of dimension d is exact in two steps: d free tokens, then the determined rest."""
    curve = ReedSolomon(32, 20, 32).curve()
    assert size.Optimal(2, curve).sizes(32).tolist() == [20, 12]
    assert expected_kl(size.Optimal(2, curve), curve) == 0


def test_the_square_root_rule_is_close_to_the_optimum_on_a_smooth_curve():
    curve = Markov.sticky(27, 0.9, 1024).curve()
    for steps in (64, 128):
        best, rule = expected_kl(size.Optimal(steps, curve), curve), expected_kl(size.SquareRoot(steps, curve), curve)
        assert best <= rule <= 1.05 * best
        assert rule < expected_kl(size.Even(steps), curve)


@pytest.mark.parametrize("rate", [0.5, 4.0])
def test_the_best_error_on_a_smooth_curve_tends_to_its_limit(rate):
    """K/L · E KL → ½ (∫ √(−λ'))² for ℓ(n) = λ(n/L), for the optimum and for the square-root rule; within 2 % here."""
    length, steps = 20_000, 100
    curve = Curve(np.exp(-rate * np.arange(length) / length))
    limit = 0.5 * (np.sqrt(rate) * (1 - np.exp(-rate / 2)) / (rate / 2)) ** 2
    for make in (size.Optimal, size.SquareRoot):
        assert expected_kl(make(steps, curve), curve) * steps / length == pytest.approx(limit, rel=0.02)


def test_the_square_root_rule_is_even_for_independent_tokens():
    assert size.SquareRoot(4, Curve(np.ones(8))).sizes(8).tolist() == [2, 2, 2, 2]


@settings(max_examples=100)
@given(st.lists(st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0]), min_size=1, max_size=30), st.data())
def test_the_square_root_rule_reveals_everything_on_any_curve_and_never_beats_the_optimum(drops, data):
    """Curves that are flat at an end or everywhere, such as those of codes, leave no mass to split there."""
    curve = Curve(np.cumsum([0.0, *drops])[::-1])
    steps = data.draw(st.integers(1, curve.length))
    sizes = size.SquareRoot(steps, curve).sizes(curve.length)
    assert sizes.sum() == curve.length
    assert sizes.min() >= 1
    best, rule = (expected_kl(make(steps, curve), curve) for make in (size.Optimal, size.SquareRoot))
    assert best <= rule + 1e-9


def test_curves_and_tables_of_another_length_are_refused():
    with pytest.raises(ValueError, match="Argument 'length' must be the length 3 of the curve, not 4"):
        size.Optimal(2, Curve([1.0, 0.5, 0.1])).sizes(4)
    with pytest.raises(
        ValueError, match=r"Argument 'table' must be square, with at least one row, not of shape \(2, 3\)"
    ):
        size.OptimalTable(1, np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"with at least one row, not of shape \(0, 0\)"):
        size.OptimalTable(1, np.zeros((0, 0)))
    with pytest.raises(ValueError, match="must hold finite numbers"):
        size.OptimalTable(1, np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="because the table of paths has to fit into memory"):
        size.best_paths(Curve(np.ones(100_000)), 10_000)


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_arrays_and_loops_find_the_same_paths(length, monkeypatch):
    """Ties included: drops are drawn from few values, so that many paths cost the same."""
    from unmask.size import optimal

    rng = np.random.default_rng(length)
    for curve in (
        Curve(np.sort(rng.exponential(size=length))[::-1]),
        Curve(np.sort(rng.integers(0, 3, size=length))[::-1]),
    ):
        table = rng.integers(0, 4, size=(length, length)).astype(float)
        arrays = optimal.best_paths(curve, length), optimal.table_paths(table, length)
        with monkeypatch.context() as patch:
            patch.setattr(optimal, "_SHORT", 0)
            loops = optimal.best_paths(curve, length), optimal.table_paths(table, length)
        for mine, theirs in zip(arrays, loops, strict=True):
            assert np.array_equal(mine.costs, theirs.costs)
            for steps in range(1, length + 1):
                assert np.array_equal(mine.cuts(steps), theirs.cuts(steps))
