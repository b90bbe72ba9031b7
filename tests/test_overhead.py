"""A step of the sampler dispatches no more operations than it must: a count, which no busy machine disturbs.

`benchmarks/operations.py` counts what a step dispatches beside its predictor. The bounds are the numbers of the commit
before revision, spacing and grids came (a78a092), with torch 2.x on the CPU: what a schedule does not use must cost it
nothing. Another version of torch may split an operation into several, for which there is a little room.
"""

import importlib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from unmask import InputError, order, size  # noqa: E402
from unmask.predict import Prediction  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

FOLDER = Path(__file__).parent.parent / "benchmarks"
ROOM = 1.04
BEFORE = {
    "random": 98,
    "comb": 98,
    "confidence": 166,
    "margin": 170,
    "entropy": 169,
    "confidence, threshold 0.5": 183,
    "entropy, entropy bound 2": 190,
    "confidence in blocks of 8": 166,
}


@pytest.fixture
def operations(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("operations")


@pytest.mark.parametrize("name", BEFORE)
def test_a_step_dispatches_no_more_operations_than_before_there_were_revisions(operations, name):
    assert set(operations.SCHEDULES) == set(BEFORE)
    assert operations.dispatched(operations.SCHEDULES[name]).total() <= BEFORE[name] * ROOM


def test_blind_steps_never_ask_which_positions_are_masked(operations):
    """The answer has a size of its own, for which a GPU would be waited for; a reactive step has to ask."""
    assert operations.dispatched(operations.SCHEDULES["random"])["aten.nonzero.default"] == 0
    assert operations.dispatched(operations.SCHEDULES["comb"])["aten.nonzero.default"] == 0
    assert operations.dispatched(operations.SCHEDULES["confidence"])["aten.nonzero.default"] == 2


def test_progress_and_places_are_computed_where_an_order_reads_them_and_nowhere_else(operations):
    """An order that reads progress dispatches more than one that does not; both read the same confidences."""
    plain = operations.dispatched(Schedule(size.Even(8), order.Confidence())).total()
    reading = operations.dispatched(Schedule(size.Even(8), order.EndLater([1], 0.2))).total()
    assert reading > plain


def test_what_a_prediction_is_told_later_is_checked_when_it_is_read():
    asked = []
    prediction = Prediction((torch.zeros(3, 2),), lambda logits: logits, 2)

    def places():
        asked.append("places")
        return torch.arange(3)

    told = prediction.at(places, lambda: torch.zeros(4))
    assert asked == []
    assert told.places.tolist() == told.places.tolist() == [0, 1, 2]
    assert asked == ["places"]
    with pytest.raises(InputError, match="Argument 'progress' must hold one number for each of the 3 rows"):
        told.progress  # noqa: B018 - reading is what fails
    with pytest.raises(InputError, match="Argument 'places' must hold one integer for each of the 3 rows"):
        prediction.at(torch.zeros(3), torch.zeros(3))
    assert (prediction.places, prediction.progress) == (None, None)
