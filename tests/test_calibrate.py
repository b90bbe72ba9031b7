"""Calibration on known distributions, where everything it estimates is known."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.calibrate import Calibration, measure  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import expected_nll, replay  # noqa: E402
from unmask.predict import ExactPredictor  # noqa: E402
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
