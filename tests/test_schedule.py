"""Schedules: any size with any order, saved and read back, every mistake in a file answered in one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from pairs import BLOCKED, CURVE, DELIMITED, LATER, ORDERS, SIZES, label
from unmask import InputError, gauge, order, size
from unmask.schedule import SAVED_ORDERS as ORDER_NAMES
from unmask.schedule import SAVED_SIZES as SIZE_NAMES
from unmask.schedule import Schedule

ALL_ORDERS = [*ORDERS, *LATER, *BLOCKED]
ALL_SIZES = [*SIZES, size.Minimax(2, gauge.Vector([1.0, 2.0, 0.5]))]
PLAIN = {"schema": 1, "size": {"name": "even", "steps": 2}, "order": {"name": "random"}}


def test_every_public_size_and_order_has_a_name():
    public = {getattr(size, name) for name in size.__all__}
    sizes = {c for c in public if isinstance(c, type) and issubclass(c, size.Blind | size.Reactive)}
    assert sizes - {size.Blind, size.Planned, size.Systematic, size.Reactive} == set(SIZE_NAMES.values())
    assert {type(which) for which in [*ALL_ORDERS, *DELIMITED]} == set(ORDER_NAMES.values())
    assert {type(how_many) for how_many in ALL_SIZES} == set(SIZE_NAMES.values())


@pytest.mark.parametrize("how_many", ALL_SIZES, ids=label)
@pytest.mark.parametrize("which", ALL_ORDERS, ids=label)
def test_every_pair_survives_json(how_many, which):
    schedule = Schedule(how_many, which)
    data = json.loads(json.dumps(schedule.to_json()))
    back = Schedule.from_json(data)
    assert back.to_json() == schedule.to_json()
    assert type(back.size) is type(how_many)
    assert back.order == which
    if isinstance(how_many, size.Blind):
        np.testing.assert_array_equal(back.size.mean_sizes(4), how_many.mean_sizes(4))


@pytest.mark.parametrize("which", DELIMITED, ids=label)
def test_blocks_that_follow_the_text_survive_json_and_refuse_fixed_sizes(which):
    schedule = Schedule(size.Threshold(0.5), which)
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule
    with pytest.raises(
        ValueError,
        match=r"Argument 'size' must be a size that looks at predictions, not Even\(steps=2\). The length of",
    ):
        Schedule(size.Even(2), which)


@pytest.mark.parametrize("how_many", ALL_SIZES, ids=label)
@pytest.mark.parametrize("which", ALL_ORDERS, ids=label)
def test_every_pair_fills_every_mask_once(how_many, which):
    torch = pytest.importorskip("torch")
    from unmask.predict import Logits
    from unmask.sample import Sampler

    if isinstance(which, order.Blocks) and label(how_many) in ("Explicit", "Optimal", "SquareRoot", "OptimalTable"):
        pytest.skip("made for exactly four tokens")
    if isinstance(which, order.Blocks) and isinstance(getattr(how_many, "gauge", None), gauge.Vector):
        pytest.skip("made for exactly four tokens")
    model = Logits(lambda tokens: torch.sin(torch.arange(8.0)).view(1, 4, 2).expand(tokens.shape[0], 4, 2), 2, 2)
    trace = Sampler(model, Schedule(how_many, which)).run((5, 4), rng=torch.Generator().manual_seed(0))
    assert int(trace.tokens.max()) < 2
    assert torch.equal(trace.sizes.sum(dim=1), torch.full((5,), 4))
    if isinstance(how_many, size.Blind) and not isinstance(which, order.Blocks):
        assert trace.steps <= how_many.steps


@pytest.mark.parametrize(("which", "how_many", "blind"), [
    (order.Random(), size.Even(2), True),
    (order.Blocks(order.Comb(), 2), size.TC(2), True),
    (order.Confidence(), size.Even(2), False),
    (order.Blocks(order.Margin(), 2), size.Even(2), False),
    (order.Random(), size.Threshold(), False),
])  # fmt: skip
def test_a_schedule_is_blind_if_no_part_looks(which, how_many, blind):
    assert Schedule(how_many, which).blind is blind


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "schedule.json"
    schedule = Schedule(size.Optimal(2, CURVE), order.Blocks(order.Comb(2), 4))
    schedule.save(path)
    assert Schedule.load(path).to_json() == schedule.to_json()
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_that_are_none_are_not_saved(tmp_path):
    """JSON has no NaN, and strict readers refuse the whole file; below the diagonal a table may be given anything."""
    table = np.ones((3, 3))
    table[2, 0] = np.nan
    schedule = Schedule(size.OptimalTable(2, table), order.Random())
    schedule.save(tmp_path / "schedule.json")
    assert "NaN" not in (tmp_path / "schedule.json").read_text()
    assert Schedule.load(tmp_path / "schedule.json") == schedule
    (tmp_path / "schedule.json").unlink()
    broken = size.Threshold(0.5)
    object.__setattr__(broken, "threshold", np.nan)  # no one can make it otherwise
    with pytest.raises(ValueError, match="Argument 'threshold' must be finite, so that 'threshold' can be saved"):
        Schedule(broken, order.Random()).save(tmp_path / "schedule.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="this system has no such device")
def test_what_is_no_file_is_refused_in_a_sentence(tmp_path):
    for place, said in {
        "/dev/zero": "be a file of finite length",
        tmp_path: "be a file, not the folder '.*'",
        tmp_path / "none": "be the name of an existing file",
    }.items():
        with pytest.raises(ValueError, match=said):
            Schedule.load(place)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "schedule.json"
    Schedule(size.Even(2), order.Random()).save(path)
    before = path.read_text()

    class Mine(size.Even):
        pass

    with pytest.raises(
        ValueError, match=r"Your own Mine cannot be saved; only unmask's own sizes, orders and revisions can"
    ):
        Schedule(Mine(3), order.Random()).save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_of_numpy_are_saved_as_plain_ones():
    schedule = Schedule(size.Even(np.int64(3)), order.Comb(np.int64(2)))
    assert json.loads(json.dumps(schedule.to_json()))["size"] == {"name": "even", "steps": 3}


def test_a_gauge_function_of_ones_own_is_refused():
    with pytest.raises(ValueError, match=r"Your own gauge function cannot be saved. Use gauge.Vector"):
        Schedule(size.Minimax(2, lambda length: gauge.tc(length)), order.Random()).to_json()


@pytest.mark.parametrize(("change", "sentence"), [
    ({"extra": 1}, "The schedule must not have the field 'extra'. Its fields are order, revision, schema, size."),
    ({"schema": 2}, "Argument 'schema' must be 1, not 2. The schedule comes from another version of unmask."),
    ({"size": {"name": "evem", "steps": 2}}, "Argument 'size' must be a known name, not 'evem'. Did you mean 'even'?"),
    ({"size": {"name": "even"}}, "The size 'even' must have the field 'steps'."),
    ({"size": {"name": "even", "steps": 2, "seed": 0}},
     "The size 'even' must not have the field 'seed'. Its fields are name, steps."),
    ({"size": {"name": "even", "steps": 0}}, "Argument 'steps' must be at least 1, not 0."),
    ({"size": {"steps": 2}}, "Argument 'size' must be an object with a name, not {'steps': 2}."),
    ({"size": "even"}, "Argument 'size' must be an object with a name, not 'even'."),
    ({"size": {"name": "minimax", "steps": 2, "gauge": "tv"}},
     "Argument 'gauge' must be a known name, not 'tv'. Did you mean 'tc'?"),
    ({"size": {"name": "minimax", "steps": 2, "gauge": ["a"]}}, "Argument 'gauge' must be a list of numbers."),
    ({"size": {"name": "optimal", "steps": 2, "curve": {"a": 1}}}, "Argument 'curve' must be a list of numbers."),
    ({"size": {"name": "optimal-table", "steps": 2, "table": "x"}}, "Argument 'table' must be a list of numbers."),
    ({"size": {"name": "explicit", "values": [2, 0]}},
     "Argument 'values' must hold sizes of at least 1. Leave out the steps of size zero."),
    ({"order": {"name": "blocks", "length": 2, "order": {"name": "rnd"}}},
     "Argument 'order' must be a known name, not 'rnd'."),
    ({"order": {"name": "comb", "segments": 0}}, "Argument 'segments' must be at least 1, not 0."),
])  # fmt: skip
def test_a_wrong_file_is_answered_in_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=r"Argument|The ") as error:
        Schedule.from_json(PLAIN | change)
    assert str(error.value).startswith(sentence)


def test_wrong_kinds_are_type_errors():
    for change, sentence in [
        ({"size": {"name": "even", "steps": "2"}}, "Argument 'steps' must be an integer, not '2'."),
        (
            {"size": {"name": "at-most", "most": 2, "size": {"name": "even", "steps": 2}}},
            "Argument 'size' must be a size that looks at predictions, not Even(steps=2).",
        ),
    ]:
        with pytest.raises(InputError) as error:
            Schedule.from_json(PLAIN | change)
        assert str(error.value) == sentence
    with pytest.raises(ValueError, match=r"Argument 'size' must be a size from unmask.size, such as Even\(16\), not 3"):
        Schedule(3, order.Random())
    with pytest.raises(
        ValueError, match=r"Argument 'order' must be an order from unmask.order, such as Comb\(\), not 'random'"
    ):
        Schedule(size.Even(2), "random")

    class Neither(order.Order):
        pass

    with pytest.raises(
        ValueError, match=r"Argument 'order' must be an order from unmask.order, such as Comb\(\), not <"
    ):
        Schedule(size.Even(2), Neither())


def test_missing_parts_and_other_shapes_are_refused():
    with pytest.raises(ValueError, match="The schedule must have the field 'order'"):
        Schedule.from_json({"schema": 1, "size": PLAIN["size"]})
    with pytest.raises(ValueError, match="The schedule must be a JSON object, not a list"):
        Schedule.from_json([])


@pytest.mark.parametrize("content", [b"", b"{", b"not json", b"\xff\xfe\x00"])
def test_a_file_that_is_not_json_is_said_to_be_none(tmp_path, content):
    path = tmp_path / "schedule.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"must (be valid JSON|be text in UTF-8), but .*schedule.json'? is not"):
        Schedule.load(path)
