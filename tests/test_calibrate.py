"""Calibration on known distributions, where everything it estimates is known."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.calibrate import Calibration, measure  # noqa: E402
from unmask.calibrate.advice import advise, forecast  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import expected_nll, replay  # noqa: E402
from unmask.predict import ExactPredictor, Logits  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

CHAIN = Markov.sticky(4, 0.85, 32)
TEXTS = torch.from_numpy(CHAIN.sample(400, rng=np.random.default_rng(0)))
PREDICTOR = ExactPredictor(CHAIN)


@pytest.fixture(scope="module")
def calibration():
    orders = {"random": order.Random(), "spread": order.Spread(), "comb-4": order.Comb(4), "comb-8": order.Comb(8)}
    losses = {name: measure(PREDICTOR, kind, TEXTS, seed=1, points=17) for name, kind in orders.items()}
    return Calibration(32, "exact", 400, losses)


def test_the_measured_curve_is_the_true_one(calibration):
    """Within 5 standard errors at every measured place (failure under 1e-4); fixed seed."""
    losses = calibration.losses["random"]
    true = CHAIN.curve().loss[losses.visible]
    assert np.all(np.abs(losses.mean - true) < 5 * losses.error + 1e-9)
    assert losses.visible[0] == 0
    assert losses.visible[-1] == 31


def test_places_are_finer_where_the_curve_bends(calibration):
    visible = calibration.losses["random"].visible
    assert np.diff(visible)[:4].mean() < np.diff(visible)[-4:].mean()


@pytest.mark.parametrize(("name", "steps"), [("comb-4", 8), ("comb-8", 4), ("spread", 8), ("random", 8)])
def test_predicted_and_replayed_likelihoods_agree(calibration, name, steps):
    """On the same texts, within 4 of the combined standard errors; fixed seed."""
    plan = calibration.plan(name, steps)
    fresh = torch.from_numpy(CHAIN.sample(400, rng=np.random.default_rng(7)))
    measured = replay(PREDICTOR, plan.schedule, fresh, rng=torch.Generator().manual_seed(3)).per_sequence
    assert abs(measured.mean - plan.nll) < 4 * np.hypot(measured.standard_error, plan.error)


def test_the_implied_schedule_is_nearly_the_best_for_the_true_curve(calibration):
    curve = CHAIN.curve()
    implied = calibration.plan("random", 6).schedule.size
    assert expected_nll(implied, curve) <= expected_nll(size.Optimal(6, curve), curve) + 0.05


def test_orders_are_ranked_by_predicted_total(calibration):
    ranked = calibration.best(8)
    assert [plan.nll for _, plan in ranked] == sorted(plan.nll for _, plan in ranked)
    assert ranked[0][0] != "random"


def test_a_calibration_survives_its_file(calibration, tmp_path):
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    assert again.plan("comb-4", 8).schedule == calibration.plan("comb-4", 8).schedule
    assert again.plan("random", 5).nll == pytest.approx(calibration.plan("random", 5).nll, rel=1e-5)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="must name a calibration in JSON"):
        Calibration.load(tmp_path / "bad.json")
    with pytest.raises(ValueError, match=r"must name a file to read, not '.*': no such file or directory"):
        Calibration.load(tmp_path / "none.json")


def test_cuts_that_were_not_measured_are_refused(calibration):
    with pytest.raises(ValueError, match="A cut at 3 visible tokens was not measured"):
        calibration.predict("comb-4", np.array([3, 29]))
    with pytest.raises(ValueError, match="must be at most 8 for the order comb-4"):
        calibration.plan("comb-4", 9)
    assert calibration.predict("comb-4", np.array([4, 28]))[0] > 0


def test_a_comb_with_even_sizes_is_predicted_from_its_teeth(calibration):
    nll, error = calibration.predict("comb-4", size.Even(8).sizes(32))
    schedule = Schedule(size.Even(8), order.Comb(4))
    measured = replay(PREDICTOR, schedule, TEXTS, rng=torch.Generator().manual_seed(5)).per_sequence
    assert abs(measured.mean - nll) < 4 * np.hypot(measured.standard_error, error)


def test_costs_of_every_number_of_steps_are_those_of_the_plans(calibration):
    for name, most in (("random", 32), ("comb-4", 8), ("spread", 17)):
        costs = calibration.costs(name)
        assert costs.size == most
        for steps in (1, 5, most):
            assert costs[steps - 1] == pytest.approx(calibration.plan(name, steps).nll)


def test_places_that_were_asked_for_are_measured():
    losses = measure(PREDICTOR, order.Spread(), TEXTS[:2], seed=1, points=8, places=[4, 8, 12])
    assert {0, 4, 8, 12, 16, 31} <= set(losses.visible.tolist())
    assert losses.visible.size == 8


def test_a_damaged_calibration_is_refused(calibration):
    data = calibration.to_json()
    for broken in ({**data, "losses": {"random": {}}}, {**data, "losses": 3}, {**data, "length": 31}):
        with pytest.raises(ValueError, match="The calibration is damaged"):
            Calibration.from_json(broken)


def test_forecasts_are_known_where_something_was_measured(calibration):
    """For the random order the forecast of fixed sizes is the sum over the curve; a comb is found by its teeth."""
    even = Schedule(size.Even(8), order.Random())
    assert forecast(calibration, even)[0] == pytest.approx(calibration.predict("random", size.Even(8).sizes(32))[0])
    tc = Schedule(size.TC(8), order.Random())
    expected = expected_nll(size.TC(8), calibration.random.curve)
    assert forecast(calibration, tc)[0] == pytest.approx(expected)
    comb = Schedule(size.Even(8), order.Comb())
    assert forecast(calibration, comb) == calibration.predict("comb-4", size.Even(8).sizes(32))
    assert forecast(calibration, Schedule(size.Even(16), order.Comb())) is None
    assert forecast(calibration, Schedule(size.TC(8), order.Comb(4))) is None
    assert forecast(calibration, Schedule(size.Even(8), order.Confidence())) is None


def test_advice_needs_an_order_measured_one_by_one(calibration):
    only = Calibration(32, "exact", 400, {"comb-4": calibration.losses["comb-4"]})
    with pytest.raises(ValueError, match="no order that was measured one by one"):
        advise(only, target=0.1)
    with pytest.raises(ValueError, match="needs a target or a number of steps"):
        advise(calibration)
    assert advise(calibration, target=0.0).plan.nll <= CHAIN.curve().entropy * 1.1


def test_partly_masked_texts_are_calibrated_as_they_are_replayed():
    """In a fixed order, the predicted cost on the measured texts is their exact likelihood."""
    keys = np.random.default_rng(3).permuted(np.tile(np.arange(32), (20, 1)), axis=1)
    masked, texts = torch.from_numpy(keys < 12), TEXTS[:20]
    losses = measure(PREDICTOR, order.LeftToRight(), texts, seed=0, masked=masked, points=12)
    found = Calibration(12, "exact", 20, {"left-to-right": losses})
    for sizes in ([12], [5, 4, 3], [1] * 12):
        schedule = Schedule(size.Explicit(sizes), order.LeftToRight())
        exact = replay(PREDICTOR, schedule, texts, rng=list(range(20)), masked=masked).per_sequence.mean
        assert found.predict("left-to-right", np.array(sizes))[0] == pytest.approx(exact, rel=1e-9)
    everything = torch.ones_like(texts, dtype=torch.bool)
    one, other = (measure(PREDICTOR, order.Comb(8), texts, seed=1, masked=mask) for mask in (None, everything))
    assert np.array_equal(one.table, other.table)
    uneven = torch.from_numpy(keys < np.where(np.arange(20) == 0, 11, 12)[:, None])
    with pytest.raises(ValueError, match="as many positions in each text, at least 1, not 11 to 12"):
        measure(PREDICTOR, order.Random(), texts, seed=0, masked=uneven)
    with pytest.raises(ValueError, match="must hold booleans of shape"):
        measure(PREDICTOR, order.Random(), texts, seed=0, masked=masked[:, 1:])


def test_a_comb_whose_teeth_cannot_be_equal_is_measured_where_they_start():
    """30 tokens in 8 teeth: the first 6 teeth have 4, the last 2 have 3; even sizes are then forecast, and planned."""
    chain = Markov.sticky(3, 0.8, 30)
    texts = torch.from_numpy(chain.sample(64, rng=np.random.default_rng(0)))
    losses = measure(ExactPredictor(chain), order.Comb(4), texts, seed=0)
    assert losses.visible.tolist() == [0, 4, 8, 12, 16, 20, 24, 27]
    calibration = Calibration(30, "", 64, {"comb-4": losses})
    even = Schedule(size.Even(8), order.Comb(4))
    told = forecast(calibration, even)
    assert told is not None
    assert calibration.plan("comb-4", 8).sizes.tolist() == [4, 4, 4, 4, 4, 4, 3, 3]
    assert told[0] == pytest.approx(calibration.plan("comb-4", 8).nll)


def test_a_model_whose_losses_are_not_numbers_is_refused():
    broken = Logits(lambda tokens: torch.full((*tokens.shape, 3), torch.nan), vocab=3, mask=3)
    with pytest.raises(ValueError, match="not numbers"):
        measure(broken, order.Random(), torch.zeros((4, 6), dtype=torch.int64), seed=0)
