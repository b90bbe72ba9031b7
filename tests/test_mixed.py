"""Calibration of texts that differ in how much is to be filled: forecasts, and schedules that fit themselves."""

import numpy as np
import pytest
import torch

from unmask import _files, gauge, order, size
from unmask._check import InputError
from unmask.calibration import Calibration, Mixed, advise, forecast, measure
from unmask.calibration.shards import MixedTally
from unmask.distribution import Markov, Mixture, ReedSolomon
from unmask.evaluate.exact import Estimate
from unmask.evaluate.levels import random_order
from unmask.evaluate.likelihood import replay
from unmask.predict import ExactPredictor
from unmask.sample import PADDED, Sampler
from unmask.schedule import Schedule
from unmask.sequences import Sequences

LENGTH = 16
LAWS = {
    "chain": Markov.sticky(4, 0.8, LENGTH),
    "code": ReedSolomon(LENGTH, 7, 16),
    "mixture": Mixture([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length=LENGTH),
}
BLIND = {
    "random": order.Random(), "left-to-right": order.LeftToRight(), "spread": order.Spread(), "comb-4": order.Comb(4),
}  # fmt: skip


def texts(law, count, seed, least=5):
    """Texts of which a beginning of random length is given."""
    rng = np.random.default_rng(seed)
    tokens = torch.from_numpy(law.sample(count, rng=rng))
    left = rng.integers(least, LENGTH + 1, size=count)
    return Sequences.of(tokens, torch.from_numpy(np.arange(LENGTH) >= LENGTH - left[:, None]))


@pytest.mark.parametrize("name", LAWS)
def test_what_fixed_sizes_cost_in_a_fixed_order_is_exactly_what_a_replay_gives(name):
    """Text by text: nothing is random, and with every place measured nothing is interpolated."""
    law = LAWS[name]
    rows, predictor = texts(law, 24, 1), ExactPredictor(law)
    losses = measure(predictor, order.LeftToRight(), rows, rng=0, points=LENGTH)
    assert isinstance(losses, Mixed)
    for sizes in (size.Even(1), size.Even(3), size.Cosine(5), size.Even(LENGTH), losses.best(4)):
        exact = replay(predictor, Schedule(sizes, order.LeftToRight()), rows, rng=0).nll.numpy()
        np.testing.assert_allclose(losses.each(sizes), exact, atol=1e-4)


@pytest.mark.parametrize("which", BLIND)
@pytest.mark.parametrize("name", LAWS)
def test_forecasts_are_what_is_measured(name, which):
    """Every blind schedule, with prompts of random length, on other texts; fails with probability below 2e-3 each.

    Differences are in units of the standard error of both; the largest of five is compared with 3.
    """
    law, kind = LAWS[name], BLIND[which]
    predictor = ExactPredictor(law)
    rows, others = texts(law, 100, 2), texts(law, 300, 3)
    losses = measure(predictor, kind, rows, rng=0, points=LENGTH)
    each = float(rows.counts.double().mean())
    schedules = [size.Even(3), size.Cosine(4), losses.best(4), size.TC(4), size.Minimax(3, gauge.both)]
    for sizes in schedules:
        told = losses.forecast(sizes)
        if told is None:
            assert not isinstance(sizes, size.Planned) or (isinstance(kind, order.Comb) and sizes != losses.best(4))
            assert not isinstance(kind, order.Random)
            continue
        nll = replay(predictor, Schedule(sizes, kind), others, rng=1).nll
        found = Estimate.ratio(nll.numpy(), others.counts.numpy())
        assert abs(told.nll / each - found.mean) < 3 * np.hypot(told.error / each, found.standard_error)


def test_nothing_is_forecast_that_divides_a_tooth_of_some_text():
    """On the same texts and paired, what is forecast differs by less than 4 standard errors: it fails 6 in 100,000."""
    law = Markov.sticky(4, 0.8, LENGTH)
    predictor, comb, rows = ExactPredictor(law), order.Comb(4), texts(law, 200, 2)
    losses = measure(predictor, comb, rows, rng=0, points=LENGTH)
    calibration = Calibration(LENGTH, "exact", 200, {"comb-4": losses})
    for sizes in (size.Even(3), size.Even(4), size.Cosine(4), losses.best(2), losses.best(3), losses.best(4)):
        told = losses.forecast(sizes)
        assert (told is None) == isinstance(sizes, size.Even | size.Cosine)
        if told is not None:
            more = losses.each(sizes) - replay(predictor, Schedule(sizes, comb), rows, rng=1).nll.numpy()
            assert abs(more.mean()) < 4 * more.std() / np.sqrt(200)
    # One tooth for each of four steps is this comb in texts of 13 to 16 tokens, and another one in all others.
    assert forecast(calibration, Schedule(losses.best(4), comb)) is not None
    assert forecast(calibration, Schedule(size.Even(4), order.Comb())) is None


@pytest.mark.parametrize("which", BLIND)
@pytest.mark.parametrize("points", [5, LENGTH])
def test_costs_of_all_numbers_of_steps_are_those_of_each(which, points):
    law = LAWS["chain"]
    losses = measure(ExactPredictor(law), BLIND[which], texts(law, 40, 8, least=1), rng=0, points=points)
    assert isinstance(losses, Mixed)
    alone = [losses.each(losses.best(steps)).mean() for steps in range(1, losses.most + 1)]
    np.testing.assert_allclose(losses.costs, alone, rtol=1e-6)


def test_a_calibration_of_such_texts_survives_its_file(tmp_path):
    law = LAWS["chain"]
    rows, predictor = texts(law, 30, 4), ExactPredictor(law)
    losses = {name: measure(predictor, kind, rows, rng=0, points=8) for name, kind in BLIND.items()}
    found = Calibration(LENGTH, "exact", 30, losses)
    assert found.tokens == pytest.approx(rows.counts.double().mean().item())
    found.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    for name in BLIND:
        for count in (5, 9, LENGTH):
            mine, theirs = (each.plan(name, 4).size.fitted(count).sizes(count) for each in (again, found))
            assert mine.tolist() == theirs.tolist()
        assert again.plan(name, 4).nll == pytest.approx(found.plan(name, 4).nll, rel=1e-6)
    with pytest.raises(ValueError, match=r"^Argument 'sizes' must be for texts that all have the same number of to"):
        again.predict("random", size.Even(4).sizes(LENGTH))
    even = Schedule(size.Even(4), order.Spread())
    assert forecast(again, even).nll == pytest.approx(forecast(found, even).nll, rel=1e-6)
    (tmp_path / "bad.json").write_text((tmp_path / "c.json").read_text().replace('"tokens": [', '"tokens": [0, '))
    with pytest.raises(ValueError, match="must be 30 integers from 1 to 16"):
        Calibration.load(tmp_path / "bad.json")


def test_equal_texts_give_what_they_did():
    """Whether texts are said to be sequences or a table: the same numbers, of the same kind."""
    law = LAWS["chain"]
    tokens = torch.from_numpy(law.sample(20, rng=np.random.default_rng(5)))
    for kind in BLIND.values():
        one = measure(ExactPredictor(law), kind, tokens, rng=0, points=8)
        other = measure(ExactPredictor(law), kind, Sequences.of(tokens.tolist()), rng=0, points=8)
        assert type(one) is type(other) is not Mixed
        assert np.array_equal(one.table, other.table)


@pytest.mark.parametrize("kind", [order.Random(), order.Comb(4), order.Spread()], ids=repr)
def test_at_the_measured_length_the_sizes_are_the_optimum_and_elsewhere_they_fit(kind):
    law = LAWS["chain"]
    tokens = torch.from_numpy(law.sample(64, rng=np.random.default_rng(6)))
    losses = measure(ExactPredictor(law), kind, tokens, rng=0, points=LENGTH)
    for steps in (1, 2, 4):
        best = losses.best(steps)
        paths = losses.paths(steps)
        assert best.sizes(LENGTH).tolist() == np.diff(losses.nodes[paths.cuts(steps)]).tolist()
        assert losses.forecast(best).nll == pytest.approx(paths.costs[steps - 1])
        for count in (1, 2, 3, 7, 16, 40):
            sizes = best.fitted(count).sizes(count)
            assert sizes.sum() == count
            assert sizes.min() >= 1
            assert sizes.size <= min(steps, count)


def test_what_is_advised_runs_with_any_prompt_in_blocks_and_at_any_length():
    law = LAWS["chain"]
    predictor = ExactPredictor(law)
    rows = texts(law, 40, 7)
    found = Calibration(LENGTH, "x", 40, {"random": measure(predictor, order.Random(), rows, rng=0, points=8)})
    chosen = advise(found, steps=4).plan.schedule
    for schedule in (chosen, Schedule(chosen.size, order.Blocks(order.Random(), 5))):
        trace = Sampler(predictor, schedule).fill(texts(law, 10, 8, least=1), rng=0)
        assert not bool((trace.tokens == predictor.mask).any())
        assert trace.evaluations.max() <= 4 * 4


def test_the_optimism_is_added_to_what_is_quoted():
    law = LAWS["mixture"]
    predictor = ExactPredictor(law)
    losses = {name: measure(predictor, kind, texts(law, 16, 9), rng=0, points=8) for name, kind in BLIND.items()}
    found = advise(Calibration(LENGTH, "x", 16, losses), steps=3)
    assert found.optimism is not None
    assert found.above_error is not None


def test_one_by_one_in_random_order_is_estimated_for_texts_that_differ():
    """Within 4 standard errors of the exact mean: it fails with probability below 1e-4."""
    law = LAWS["chain"]
    predictor, rows = ExactPredictor(law), texts(law, 200, 10)
    quick, _ = random_order(predictor, rows, rng=0, points=4)
    slow = replay(predictor, Schedule(size.Even(LENGTH), order.Random()), rows, rng=0).nll
    difference = (quick - slow).numpy()
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(difference.size)


def test_rows_of_any_lengths_are_filled_as_each_is_alone():
    """The record has them in their order, each as it is alone with its seed; what is after an end is padding."""
    from unmask import models

    model = models.load("builtin")
    prompts = ["the ___ of", "a ____", "in the beginning ____ was the ____", "____"]
    ids = [model.codec.prompt(text, model.predictor.mask) for text in prompts]
    rows = Sequences.of(
        [[0 if token == model.predictor.mask else token for token in row] for row in ids],
        [[token == model.predictor.mask for token in row] for row in ids],
    )
    sampler = Sampler(model.predictor, Schedule(size.Even(3), order.Comb()))
    trace = sampler.fill(rows, rng=[3, 4, 5, 6], batch=3)
    for number, row in enumerate(ids):
        alone = sampler.run(torch.tensor([row]), rng=[3 + number])
        assert trace.tokens[number, : len(row)].tolist() == alone.tokens[0].tolist()
        assert trace.revealed[number, : len(row)].tolist() == alone.revealed[0].tolist()
        assert set(trace.revealed[number, len(row) :].tolist()) <= {PADDED}
        assert trace.evaluations[number] == alone.evaluations[0]


def test_what_a_file_could_not_be_read_again_with_is_refused_before_it_is_measured():
    counts, order_of = np.append(np.full(511, 512), 511), torch.arange(512)
    with pytest.raises(InputError, match="512 texts of up to 512 tokens are too many to measure at 512 places"):
        MixedTally(order.LeftToRight(), counts, 512, 512, order_of)
    MixedTally(order.LeftToRight(), counts[:300], 512, 512, order_of[:300])
    raw = 300 * 512 * 513 // 2 * 4
    assert raw * 4 / 3 < _files.CALIBRATION
