"""The dependence of positions: what is measured is what it should be, and the orders learned from it are good ones."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pairs import random_table  # noqa: E402
from unmask import InputError, order  # noqa: E402
from unmask.calibration import (  # noqa: E402
    ByDistance,
    Dependence,
    learned_order,
    learned_orders,
    load_dependence,
    measure_dependence,
    measure_distances,
    measure_sets,
    refine_order,
)
from unmask.calibration.learning import _Problem  # noqa: E402
from unmask.calibration.revealing import OnTexts, OwnPredictions  # noqa: E402
from unmask.distribution import Markov, Parity, Table  # noqa: E402
from unmask.evaluate import SetDependence, SetLosses, output_law  # noqa: E402
from unmask.predict import ExactPredictor  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402
from unmask.size import Explicit  # noqa: E402

SHARES = (0.0, 0.25, 0.5, 1.0)


def exact(table, visible):
    """`I(X_i; X_j | X_A)` on average over all sets of so many others."""
    length = table.length
    found = np.zeros((length, length))
    for i, j in itertools.permutations(range(length), 2):
        others = [k for k in range(length) if k not in (i, j)]
        sets = [sum(1 << k for k in chosen) for chosen in itertools.combinations(others, visible)]
        found[i, j] = np.mean([table.losses[seen, i] - table.losses[seen | 1 << j, i] for seen in sets])
    return found


def texts_of(law, count, seed=0):
    return torch.from_numpy(law.sample(count, rng=seed))


@pytest.mark.parametrize("gain", [OnTexts(), OwnPredictions()], ids=["on texts", "own predictions"])
@pytest.mark.parametrize("law", [Markov.sticky(3, 0.7, 6), random_table(3, length=6)], ids=["markov", "table"])
def test_measured_dependence_is_conditional_information(law, gain):
    """All 120 numbers within 5 standard errors, and their scores spread like those of a normal law.

    5 standard errors fail with probability below 1e-4 for 120 normal numbers; the seed is fixed.
    """
    table = SetLosses.of(law)
    found = measure_dependence(ExactPredictor(law), texts_of(law, 1500), rng=1, shares=SHARES, gain=gain, batch=500)
    off = ~np.eye(6, dtype=bool)
    scores = []
    for number, visible in enumerate((0, 1, 2, 4)):
        wanted = exact(table, visible)
        np.testing.assert_allclose(wanted, wanted.T, atol=1e-12)
        away, error = (found.values[number] - wanted)[off], found.errors[number][off]
        scores.append(away / np.maximum(error, 1e-9))
        assert np.all(np.abs(away) <= 5 * error + 1e-9)
    if isinstance(gain, OnTexts) and isinstance(law, Table):  # in a chain many are zero without any spread
        assert 0.8 < np.std(np.concatenate(scores)) < 1.25


def test_the_models_own_predictions_spread_less():
    law = Markov.sticky(3, 0.6, 6)
    parts = {
        gain: measure_dependence(ExactPredictor(law), texts_of(law, 400), rng=1, gain=gain, batch=400)
        for gain in (OnTexts(), OwnPredictions())
    }
    far = [found.errors[:, 0, 5].mean() for found in parts.values()]
    assert far[1] < far[0] / 3


def test_pooled_by_distance_is_the_mean_over_pairs_as_far_apart():
    """A chain that begins stationary is as dependent everywhere; within 5 standard errors (below 1e-4 in all)."""
    law = Markov.sticky(3, 0.7, 7)
    table = SetLosses.of(law)
    found = measure_distances(ExactPredictor(law), texts_of(law, 1500), rng=1, shares=(0.0, 1.0), batch=500)
    for number, visible in enumerate((0, 5)):
        wanted = exact(table, visible)
        for far in range(1, 7):
            mean = np.mean(np.diagonal(wanted, far))
            assert abs(found.values[number, far] - mean) <= 5 * found.errors[number, far] + 1e-9
    pooled = measure_dependence(ExactPredictor(law), texts_of(law, 1500), rng=1, shares=(0.0, 1.0), batch=500)
    np.testing.assert_allclose(pooled.by_distance.values, found.values, atol=1e-12)
    np.testing.assert_array_equal(pooled.by_distance.counts, found.counts)


@pytest.mark.parametrize("reveals", [10, 8])
def test_errors_pooled_from_single_pairs_are_upper_bounds(reveals):
    """Of dependence at distances 1 to 5, on 60 sets of 40 texts: at least the spread over these sets.

    If a text has every pair (10 reveals of 10), the bound holds for each set and not by chance. In both cases it is at
    least 1.59 times the true spread (600 sets), which 60 normal numbers overstate by that with probability below 1e-8.
    """
    law, far = Markov.sticky(2, 0.85, 10), slice(1, 6)
    values, errors = [], []
    for seed in range(60):
        texts, how = texts_of(law, 40, seed), {"rng": seed, "shares": (0.0,), "reveals": reveals}
        pairs = measure_dependence(ExactPredictor(law), texts, **how).by_distance
        own = measure_distances(ExactPredictor(law), texts, **how)
        np.testing.assert_allclose(pairs.values, own.values, atol=1e-12)
        if reveals == 10:
            assert np.all(pairs.errors >= own.errors * (1 - 1e-9))
        values.append(pairs.values[0, far])
        errors.append(pairs.errors[0, far])
    assert np.all(np.mean(errors, axis=0) >= np.std(values, axis=0, ddof=1))


def test_parity_shows_only_when_all_but_two_are_known():
    found = measure_dependence(ExactPredictor(Parity(5)), texts_of(Parity(5), 64), rng=0, shares=(0.0, 0.5, 1.0))
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(found.values[:2], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.values[2][off & (found.counts[2] > 0)], np.log(2))


def test_batches_do_not_change_what_is_measured():
    law = Markov.sticky(3, 0.7, 5)
    one, other = (
        measure_distances(ExactPredictor(law), texts_of(law, 40), rng=1, batch=batch).values for batch in (40, 7)
    )
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_what_is_given_is_neither_told_of_nor_telling():
    law = Markov.sticky(3, 0.7, 5)
    masked = torch.ones((40, 5), dtype=torch.bool)
    masked[:, 2] = False
    found = measure_dependence(ExactPredictor(law), Sequences.of(texts_of(law, 40), masked), rng=1)
    assert found.counts[:, 2].sum() == found.counts[:, :, 2].sum() == 0
    assert found.counts[:, 0, 1].sum() > 0


@pytest.mark.parametrize("measure", [measure_dependence, measure_distances])
def test_a_file_gives_back_what_was_measured(measure, tmp_path):
    law = Markov.sticky(3, 0.7, 5)
    found = measure(ExactPredictor(law), texts_of(law, 40), rng=1, model="mine")
    found.save(tmp_path / "d.json")
    again = load_dependence(tmp_path / "d.json")
    assert type(again) is type(found)
    assert (again.shares, again.texts, again.model) == (found.shares, found.texts, "mine")
    for part in ("values", "errors", "counts"):
        np.testing.assert_allclose(getattr(again, part), getattr(found, part), rtol=1e-6)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="be a file written by"):
        load_dependence(tmp_path / "other.json")


def test_the_cost_of_sets_is_the_divergence_of_what_is_sampled():
    """Averaged over all cuts of the positions, the excess is the expected divergence of random order."""
    law = random_table(5, length=4)
    table = SetLosses.of(law)
    cuts = [[list(first), [i for i in range(4) if i not in first]] for first in itertools.combinations(range(4), 2)]
    mean = np.mean([table.excess(sets) for sets in cuts])
    assert mean == pytest.approx(output_law(law.marginals, Explicit([2, 2]), law.probabilities).expected_kl, abs=1e-12)


@pytest.mark.parametrize("sizes", [[2, 2, 2], [1, 3, 2], [6], [1] * 6])
def test_the_best_sets_are_those_of_a_search_through_all(sizes):
    from unmask.evaluate import partitions

    table = SetLosses.of(random_table(6, length=6))
    best = min(table.cost(sets) for sets in partitions(range(6), tuple(sizes)))
    found = table.best(sizes)
    assert list(found.sizes) == sizes
    assert table.cost(found) == pytest.approx(best, abs=1e-12)
    assert learned_order(table, sizes) == found


def test_what_a_step_ignores_is_its_total_correlation_however_its_positions_are_named():
    table = SetLosses.of(random_table(6, length=5))
    pairs = SetDependence.of(table)
    for sets in ([[0, 1, 2, 3, 4]], [[3, 0], [1, 4, 2]], [[2], [0, 1, 3], [4]], [[4], [3], [2], [1], [0]]):
        assert pairs.excess(sets) == pytest.approx(table.excess(sets), abs=1e-12)
    for sizes in ([2, 3], [1, 2, 2], [3, 1, 1]):
        assert table.cost(pairs.best(sizes)) == pytest.approx(table.cost(table.best(sizes)), abs=1e-12)


@pytest.mark.parametrize("gain", [OnTexts(), OwnPredictions()])
def test_every_set_is_measured_as_it_is_if_each_text_comes_as_often_as_it_should(gain):
    """Texts in proportion to their probabilities leave no noise: what is measured is what the law has, to rounding."""
    bits = np.array(list(itertools.product((0, 1), repeat=4)))
    odds = 1 + (bits[:, 0] == bits[:, 2]) + 2 * (bits[:, 1] ^ bits[:, 2] == bits[:, 3])
    law = Table((odds / odds.sum()).reshape((2,) * 4))
    texts = torch.from_numpy(np.repeat(bits, odds, axis=0))
    wanted = SetDependence.of(SetLosses.of(law)).values
    for batch in (7, 64, 1000):
        found = measure_sets(ExactPredictor(law), texts, gain=gain, batch=batch)
        np.testing.assert_allclose(found.values, wanted, atol=1e-6)


def test_sets_are_refused_where_they_are_too_many_or_not_free():
    law = Markov.sticky(2, 0.7, 17)
    with pytest.raises(InputError, match="Argument 'tokens' must have at most 16 positions, not 17"):
        measure_sets(ExactPredictor(law), texts_of(law, 2))
    law = Markov.sticky(2, 0.7, 4)
    masked = torch.ones((4, 4), dtype=torch.bool)
    masked[0, 0] = False
    with pytest.raises(InputError, match="Argument 'tokens' must be texts of the same length without given tokens"):
        measure_sets(ExactPredictor(law), Sequences.of(texts_of(law, 4), masked))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["chain", "parity", "table", "independent"])
def test_what_pairs_teach_is_never_worse_than_what_is_known(name, seed):
    """By the exact cost, from 200 texts; with 12 fixed cases it holds or not, and the slack is a hundredth of a nat."""
    laws = {
        "chain": Markov.sticky(3, 0.8, 8),
        "parity": Parity(8),
        "table": random_table(seed, length=8),
        "independent": Markov.sticky(2, 0.5, 8),
    }
    law = laws[name]
    table = SetLosses.of(law)
    texts = torch.from_numpy(law.sample(200, rng=seed))
    for gain in (OnTexts(), OwnPredictions()):
        found = measure_dependence(ExactPredictor(law), texts, rng=seed, gain=gain, batch=200)
        for steps in (2, 4):
            each = 8 // steps
            walks = {
                kind: [kind.arrange(np.arange(8), length=8, steps=steps, rng=n) for n in range(20)]
                for kind in (order.Comb(shift=0), order.Spread(), order.Random())
            }
            known = [
                np.mean([table.excess(walk.reshape(-1, each).tolist()) for walk in some]) for some in walks.values()
            ]
            assert table.excess(learned_order(found, [each] * steps)) <= min(known) + 0.01


def test_pairs_that_depend_are_revealed_apart():
    """Six bits in three equal pairs, far apart from each other in no order that knows only lines."""
    pairs, values = [(0, 3), (1, 5), (2, 4)], np.zeros((1, 6, 6))
    for i, j in pairs:
        values[0, i, j] = values[0, j, i] = np.log(2)
    found = learned_order(Dependence((0.0,), values, np.zeros((1, 6, 6)), np.ones((1, 6, 6)), texts=2), [3, 3])
    assert all((i in found.sets[0]) != (j in found.sets[0]) for i, j in pairs)


def test_both_directions_of_a_pair_are_one_measurement():
    """They are the same number in each text, so an order must gain two errors of one direction; nothing is random."""
    law = Markov.sticky(2, 0.8, 6)
    found = measure_dependence(ExactPredictor(law), texts_of(law, 60), rng=0, shares=(0.0,), reveals=6)
    for each in (found.values, found.errors, found.counts):
        np.testing.assert_allclose(each, each.transpose(0, 2, 1), atol=1e-12)
    known = learned_order(Dependence((0.0,), *np.zeros((2, 1, 4, 4)), np.ones((1, 4, 4)), 2), [2, 2])
    for gain, kept in ((1.9, True), (2.1, False)):
        values, errors = np.zeros((2, 1, 4, 4))
        values[0, 0, 2] = values[0, 2, 0] = gain
        errors[0, 0, 2] = errors[0, 2, 0] = 1.0
        pairs = Dependence((0.0,), values, errors, np.ones((1, 4, 4)), 2)
        # Two pairs of four are two apart, and their one number has one error.
        far = ByDistance((0.0,), np.array([[0, 0, gain, 0]]), np.array([[0, 0, 1.0, 0]]), np.ones((1, 4)), 2)
        for each in (pairs, far):
            assert (learned_order(each, [2, 2]) == known) == kept


def test_an_error_of_a_pair_is_the_spread_of_what_is_measured():
    """Of both directions together, on 200 sets of 60 texts: within 10 %.

    Over other sets this ratio is 1.007 with a standard deviation of 0.011: it fails with probability below 1e-9.
    """
    law, off = Markov.sticky(2, 0.8, 6), ~np.eye(6, dtype=bool)
    values, errors = [], []
    for seed in range(200):
        found = measure_dependence(ExactPredictor(law), texts_of(law, 60, seed), rng=seed, shares=(0.0,), reveals=6)
        problem = _Problem.of(found, [2, 2, 2])
        values.append(problem.values[0][off])
        errors.append(problem.errors[0][off])
    stated, spread = np.mean(np.square(errors), axis=0).sum(), np.var(values, axis=0, ddof=1).sum()
    assert 0.9 < np.sqrt(stated / spread) < 1.1


def test_noise_leaves_the_order_that_is_known():
    """Of numbers with a mean of zero and errors as large as they are, nothing is learned: in 20 of 20 tries."""
    source = np.random.default_rng(0)
    comb = order.Comb(shift=0).arrange(np.arange(12), length=12, steps=3, rng=0).reshape(3, 4)
    spread = order.Spread().arrange(np.arange(12), length=12, steps=3, rng=0).reshape(3, 4)
    known = [[sorted(step) for step in each.tolist()] for each in (comb, spread)]
    for _ in range(20):
        noise = source.normal(size=(1, 12, 12))
        found = learned_order(Dependence((0.0,), noise, np.ones((1, 12, 12)) * 2, np.ones((1, 12, 12)), 2), [4, 4, 4])
        assert [sorted(step) for step in found.sets] in known


def test_refining_never_ends_above_where_it_began_and_finds_the_best_of_a_code():
    """Two checks on six bits: any two of a step that complete one are drawn as if free."""
    every = itertools.product((0, 1), repeat=6)
    bits = np.array([x for x in every if (x[0] ^ x[1] ^ x[2], x[3] ^ x[4] ^ x[5]) == (0, 0)])
    cells = np.zeros((2,) * 6)
    cells[tuple(bits.T)] = 1 / len(bits)
    law, table = Table(cells), SetLosses.listed(bits)
    texts = texts_of(law, 64)
    found = refine_order(ExactPredictor(law), {}, [4, 2], texts, rng=0, evaluations=100)
    assert table.excess(found.order) == pytest.approx(0.0, abs=1e-9)
    assert found.cost.mean <= min(each.mean for each in found.starts.values())
    assert found.evaluations <= 100
    assert set(found.starts) == {"comb", "spread", "random"}


def test_bad_arguments_get_one_sentence():
    law = Markov.sticky(2, 0.7, 4)
    predictor, texts = ExactPredictor(law), texts_of(law, 8)
    for arguments, sentence in (
        (
            {"shares": [0.5, 0.2]},
            "Argument 'shares' must be different numbers from 0 to 1 in ascending order, not [0.5, 0.2].",
        ),
        (
            {"shares": [0.5, 0.5]},
            "Argument 'shares' must be different numbers from 0 to 1 in ascending order, not [0.5, 0.5].",
        ),
        ({"shares": []}, "Argument 'shares' must be different numbers from 0 to 1 in ascending order, not []."),
        ({"reveals": 0}, "Argument 'reveals' must be at least 1, not 0."),
        ({"gain": 3}, "Argument 'gain' must be a Gain, such as OnTexts(), not 3."),
    ):
        with pytest.raises(InputError) as caught:
            measure_dependence(predictor, texts, rng=0, **arguments)
        assert str(caught.value) == sentence
    found = measure_dependence(predictor, texts, rng=0)
    with pytest.raises(InputError, match="Argument 'sizes' must sum to 4, the number of positions, not 3"):
        learned_order(found, [1, 2])
    with pytest.raises(InputError, match="Argument 'values' must have the shape"):
        ByDistance((0.0,), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3)), 2)
    with pytest.raises(InputError, match="Argument 'sets' must have 4 positions, not 2"):
        SetLosses.of(law).cost([[0], [1]])
    assert len(learned_orders(found, [2, 2])) >= 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((None, "2x3", None), "'layout' needs 'dependence'. Give 'dependence', or leave out 'layout'."),
        ((None, None, "d.svg"), "'figure' needs 'dependence'. Give 'dependence', or leave out 'figure'."),
        (
            ("d.json", "6", None),
            "Argument 'layout' must be positive numbers of rows and columns with an x between them, as in 28x28, "
            "not '6'",
        ),
        (
            ("d.json", "0x6", None),
            "Argument 'layout' must be positive numbers of rows and columns with an x between them, as in 28x28, "
            "not '0x6'",
        ),
        (("d.json", None, "d.txt"), "Argument 'figure' must end in .png, .svg or .pdf"),
    ],
)
def test_options_of_the_command_are_refused_before_any_work(given, sentence, tmp_path, monkeypatch):
    from pathlib import Path

    from unmask.cli.pairs import check_pairs

    monkeypatch.chdir(tmp_path)
    dependence, layout, figure = given
    with pytest.raises(InputError, match=sentence):
        check_pairs(dependence and Path(dependence), layout, figure and Path(figure))


def test_far_distances_are_drawn_together_with_their_means_and_errors():
    """By hand: 5 alone and with 6 (half an octave), each weighted by its pairs; what nobody measured has no point."""
    from unmask.cli.pairs import merged

    values, errors, counts = np.zeros((3, 1, 8))
    values[0, [1, 2, 5, 6]] = 4.0, 2.0, 1.0, 3.0
    errors[0, [1, 2, 5, 6]] = 0.5, 0.4, 0.3, 0.4
    counts[0, [1, 2, 5, 6]] = 7, 6, 3, 1
    far, nats, wide = merged(ByDistance((0.0,), values, errors, counts, 7), 0)
    assert far == pytest.approx([1, 2, 30**0.5])
    assert nats == pytest.approx([4, 2, (3 * 1 + 3) / 4])
    assert wide == pytest.approx([0.5, 0.4, ((3 * 0.3) ** 2 + 0.4**2) ** 0.5 / 4])


@pytest.mark.parametrize("measure", [measure_dependence, measure_distances])
def test_what_the_command_says_and_draws_is_what_was_measured(measure, tmp_path):
    from unmask.cli.pairs import check_measurable_pairs, draw_pairs, pairs_record, shown_pairs

    law = Markov.sticky(3, 0.7, 6)
    found = measure(ExactPredictor(law), texts_of(law, 60), rng=1)
    record = pairs_record(found)
    assert (record["pairs"] is None) != (record["distances"] is None)
    if record["pairs"] is not None:
        first = record["pairs"][0]
        assert first["nats"] == pytest.approx(found.matrix.max())
        assert abs(first["of"] - first["told_by"]) == 1
    else:
        assert [row["distance"] for row in record["distances"]] == [1, 2, 3, 4, 5]
    assert shown_pairs(record)
    draw_pairs(found, tmp_path / "d.svg")
    assert (tmp_path / "d.svg").stat().st_size > 1000
    with pytest.raises(InputError, match="have 6 cells, one for each position, but 2x4 has 8"):
        check_measurable_pairs(None, None, (2, 4), Sequences.of(texts_of(law, 4)))
