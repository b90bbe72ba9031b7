"""The protocol of the atlas, from data to tables, on kinds small enough for a test."""

import csv
import json
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from experiments import common  # noqa: E402
from experiments.atlas import __main__ as command  # noqa: E402
from experiments.atlas import figure, kinds, measuring, networks, owners, seeing, ship, writing  # noqa: E402
from experiments.atlas import rules as rules_module  # noqa: E402
from experiments.atlas.kind import Data, Kind, Rows, Settings  # noqa: E402
from experiments.atlas.lessons import Combination, CombMasks, UniformAnswers, even_step, ranked  # noqa: E402
from experiments.atlas.parts import Atlas  # noqa: E402
from experiments.atlas.rules import comb, rules  # noqa: E402
from experiments.atlas.tables import tables, updates  # noqa: E402
from experiments.atlas.turns import Turns  # noqa: E402

import unmask  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.calibration import ByDistance, Calibration, Dependence, measure_orders, measure_rules  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.models.transformer import Config  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.train.masks import steps_of  # noqa: E402

CHAIN = Markov.sticky(vocab=3, stay=0.8, length=12)


class Toy(Kind):
    """Rows of a chain, of which the first two tokens are given."""

    name, title, length, vocab, width, judged = "toy", "a chain", 12, 3, 16, ("kept",)

    def make(self, folder: Path, shared: Path | None) -> None:
        (folder / "made").touch()

    def read(self, folder: Path) -> Data:
        assert (folder / "made").exists()
        rng = np.random.default_rng(0)
        train, valid, test = (CHAIN.sample(count, rng=rng) for count in (2000, 40, 40))
        hidden = ~self.visible(40, rng=rng)
        return Data(train.astype(np.uint8), Rows(valid, hidden), Rows(test, hidden))

    def read_rows(self, count: int) -> Rows:
        return Rows(
            CHAIN.sample(count, rng=np.random.default_rng(1)), ~self.visible(count, rng=np.random.default_rng(2))
        )

    def visible(self, count: int, *, rng: np.random.Generator):
        return np.broadcast_to(np.arange(self.length) < 2, (count, self.length))

    def alphabet(self, folder: Path) -> dict[str, str]:
        return {"alphabet": "abc"}

    def text(self, tokens) -> str:
        return "".join("abc"[token] for token in tokens)

    def scores(self, tokens, rows):
        return {"kept": (tokens[:, 1:] == tokens[:, :-1]).mean(axis=1)}


class Board(Toy):
    """The same as a grid of 3 x 4 cells, of which random ones are given."""

    name, title, layout, judged = "board", "a small board", (3, 4), ("kept",)

    def whole(self, folder: Path) -> Rows:
        return Rows.blank(self.read_rows(5).tokens)

    def visible(self, count: int, *, rng: np.random.Generator):
        return rng.permuted(np.broadcast_to(np.arange(12) < 5, (count, 12)), axis=1)


def test_every_network_and_no_other_has_a_name_in_tables():
    assert set(common.NETWORKS) == set(networks.NETWORKS)
    assert {name for kind in command.kinds.KINDS.values() for name in kind.networks} == set(networks.NETWORKS)


def test_each_network_has_the_shape_the_lessons_and_the_rules_of_its_name():
    """Both networks that look both ways have one shape, and the two others another one."""
    kind, found = Toy(), networks.TAUGHT
    assert networks.BOTH == ("both", "both-comb")
    assert {name: type(networks.shape_of(kind, name)) for name in found} == {
        "both": Config, "causal": CausalConfig, "left-to-right": CausalConfig, "both-comb": Config,
    }  # fmt: skip
    lessons = {name: type(networks.lessons_of(kind, name, 10)) for name in found}
    assert lessons == {
        "both": UniformAnswers, "causal": Combination, "left-to-right": Combination, "both-comb": CombMasks,
    }  # fmt: skip
    assert found["both"].rules is None
    orders = {name: {rule.order for rule in each.rules(kind, 10)} for name, each in found.items() if each.rules}
    assert orders == {
        "causal": {"whole-comb", "random", "margin", "left-to-right"},
        "left-to-right": {"left-to-right"},
        "both-comb": {"random", "spread", "comb", "whole-comb", "margin"},
    }


def test_even_steps_are_those_of_the_size():
    for count in range(1, 30):
        for steps in range(1, 32):
            sizes = size.Even(min(steps, count)).sizes(count)
            expected = np.repeat(np.arange(sizes.size), sizes)
            assert np.array_equal(even_step(np.arange(count), np.array([count]), steps), expected)


@pytest.mark.parametrize("kind", [Toy(), Board()])
@pytest.mark.parametrize("which", ["comb", "left-to-right"])
def test_what_a_causal_network_learns_are_the_steps_that_a_sampler_takes(kind, which):
    """The fast way for a whole batch gives the plan of the library, given tokens left out."""
    rng = np.random.default_rng(1)
    chosen = comb(kind, shift=0) if which == "comb" else order.LeftToRight()
    for steps in (1, 3, 7):
        found = Combination(kind, ((chosen, steps, 1.0),)).draw(20, kind.length, rng=rng)
        hidden = found >= 0
        assert np.array_equal(found, steps_of(Schedule(size.Even(steps), chosen), hidden, rng))


@pytest.mark.parametrize("kind", [Toy(), Board()])
def test_random_steps_are_even_and_what_is_given_has_none(kind):
    found = Combination(kind, ((order.Random(), 3, 1.0),)).draw(64, kind.length, rng=np.random.default_rng(2))
    for row in found:
        count = int((row >= 0).sum())
        assert np.bincount(row[row >= 0]).tolist() == size.Even(3).sizes(count).tolist()
    assert len(np.unique(found, axis=0)) > 30


@pytest.mark.parametrize("masks", [UniformAnswers(Toy()), CombMasks(Toy(), (2, 5))])
def test_masks_hide_at_least_one_token_and_nothing_that_is_given(masks):
    found = masks.draw(128, 12, rng=np.random.default_rng(3))
    assert found.any(axis=1).all()
    assert not found[:, :2].any()


def test_uniform_answers_mask_every_number_of_tokens_equally_often():
    """Stratified over the batch: with 50 texts and 10 numbers each comes 5 times, whatever the phase."""
    found = UniformAnswers(Toy()).draw(50, 12, rng=np.random.default_rng(4)).sum(axis=1)
    assert np.bincount(found, minlength=11)[1:].tolist() == [5] * 10


def test_a_rank_counts_hidden_positions_alone():
    hidden = np.array([[True, False, True, True]])
    assert ranked(hidden, np.array([[0.5, 0.0, 0.9, 0.1]])).tolist() == [[1, 4, 2, 0]]


@pytest.mark.parametrize("kind", [Toy(), Board()])
def test_every_rule_is_named_once_and_takes_at_most_its_budget(kind):
    found = list(rules(kind, 64, equal=True))
    assert len({rule.name for rule in found}) == len(found)
    planned = [rule for rule in found if isinstance(rule.schedule.size, size.Blind)]
    assert {rule.schedule.size.steps for rule in planned} >= set(kind.settings.budgets(64))


def test_a_small_trial_changes_nothing_for_the_next_run_of_the_same_process(tmp_path, monkeypatch):
    monkeypatch.setitem(command.kinds.KINDS, "toy", Toy)
    before = [rule.key for rule in rules(Toy(), 64, equal=True)]
    command.main(["toy", "--tiny", "--width", "8", "--parts", "make", "--folder", str(tmp_path)])
    assert [rule.key for rule in rules(Toy(), 64, equal=True)] == before
    assert Toy().width == Toy.width == 16


def test_what_is_tried_is_not_taken_for_the_data_and_networks_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setitem(command.kinds.KINDS, "toy", Toy)
    monkeypatch.chdir(tmp_path)
    command.main(["toy", "--tiny", "--parts", "make", "train", "--networks", "both"])
    assert (tmp_path / "runs" / "atlas" / "toy-tiny" / "both.safetensors").exists()
    assert not (tmp_path / "runs" / "atlas" / "toy").exists()


def test_training_fits_the_time_that_it_is_given_and_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "_TRIED", 6)
    monkeypatch.setattr(networks, "_WARM", 2)
    data, said = Board().read(_made(tmp_path)), []
    late = Turns(until=time.time() - 1)
    assert not networks.trained(Board(), "causal", data, tmp_path, seconds=9, turns=late, say=said.append).exists()
    assert "its turn did not come" in said.pop()
    for _ in range(40):  # each turn lasts but an update or two
        if networks.trained(Board(), "causal", data, tmp_path, seconds=0.1, tokens=100, say=said.append).exists():
            break
        assert "run it again" in said[-1]
    else:
        pytest.fail("it never ends")
    assert sum("ms an update" in line for line in said) == 1
    before = (tmp_path / "causal.safetensors").read_bytes()
    networks.trained(Board(), "causal", data, tmp_path, seconds=2, tokens=100, say=pytest.fail)
    assert (tmp_path / "causal.safetensors").read_bytes() == before
    model = unmask.load(str(tmp_path / "causal.safetensors"))
    assert model.codec.decode([0, 1, 2]) == "abc"
    assert {type(schedule.order) for schedule in model.schedules} == {order.CombGrid, order.Random}


def test_a_process_waits_for_its_turn_and_gives_up_when_time_is_over(tmp_path):
    alone = Turns(tmp_path / "lock")
    with alone.turn(after=1) as mine:
        assert not mine()
        with alone.turn(after=2) as other:
            assert not other()  # it may begin without a turn
        with Turns(tmp_path / "lock", until=time.time() + 0.2).turn(after=1) as other:
            assert other()  # it stops, as the turn does not come
            assert other.begun is None
    with Turns(tmp_path / "lock").turn(after=1, most=0.0) as mine:
        assert mine()  # the turn was given back, and this one is over at once
        assert mine.begun is not None
    with Turns(until=time.time() - 1).turn(after=5) as over:
        assert over()


def test_a_network_that_is_shipped_is_not_trained(tmp_path, monkeypatch):
    class Shipped(Toy):
        shipped = {"both": "own.safetensors"}  # noqa: RUF012

    data = Toy().read(_made(tmp_path))
    path = networks.trained(Toy(), "both", data, tmp_path, seconds=9, updates=2, tokens=100, say=lambda line: None)
    loaded = unmask.load(str(path))
    path.unlink()
    monkeypatch.setattr(networks, "load_model", lambda name: loaded if name == "own.safetensors" else pytest.fail(name))
    found = networks.trained(Shipped(), "both", data, tmp_path, seconds=9, say=pytest.fail)
    assert unmask.load(str(found)).fingerprint == loaded.fingerprint


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    Board().make(folder, None)
    return folder


@pytest.mark.parametrize("kind", [Toy(), Board()])
def test_a_kind_goes_from_data_to_tables_and_nothing_is_done_twice(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(kind, "settings", Settings(divisors=(4, 2), thresholds=(0.9,), bounds=(1.0,)))
    atlas = Atlas(kind, tmp_path / kind.name, rows=4, batch=12)
    atlas.make(None)
    names = networks.NETWORKS if kind.layout is None else networks.NETWORKS[:3]
    for name in names:
        networks.trained(kind, name, atlas.data, atlas.folder, seconds=60, updates=2, tokens=100, say=lambda line: None)
    atlas.measure(names)
    atlas.write(("both",))
    atlas.whole(names, most=3)
    tables(atlas, common.RESULTS)
    kept = {path.name: path.read_bytes() for path in atlas.folder.glob("*.npz")}
    again = Atlas(kind, atlas.folder, rows=4, batch=12)
    monkeypatch.setattr(measuring, "replay", lambda *words, **more: pytest.fail("it was measured"))
    monkeypatch.setattr(measuring, "measure_rules", lambda predictor, rules, texts, kept, **more: kept)
    again.measure(names)
    again.write(("both",))
    assert {path.name: path.read_bytes() for path in atlas.folder.glob("*.npz")} == kept
    costs = rows_of(tmp_path / "results" / f"atlas-{kind.name}.csv")
    assert {row["network"] for row in costs} == set(names)
    listed = {"random", "spread", "halton", "comb", "confidence", "margin", "entropy", "learned", "dilated", "advised"}
    assert {row["order"] for row in costs if row["network"] == "both"} >= listed
    assert all(0 < float(row["bits"]) < 5 for row in costs)
    assert all(float(row["passes"]) <= float(row["evaluations"]) for row in costs)
    assert {float(row["passes"]) <= 1 for row in costs if row["network"] == "left-to-right"} == {True}
    calibration = atlas.calibrated("both")
    for rule in atlas.advised("both"):  # the choice of the library, made on validation rows
        advice = unmask.advise(calibration, steps=int(rule.size))
        assert rule.schedule.to_json() == advice.schedule.to_json()
    choices = rows_of(tmp_path / "results" / f"atlas-{kind.name}-advised.csv")
    assert [int(row["budget"]) for row in choices] == kind.settings.budgets(atlas.count)
    scores = rows_of(tmp_path / "results" / f"atlas-{kind.name}-scores.csv")
    assert {row["draw"] for row in scores} == {"temperature 1", "greedy"}
    assert all(0 <= float(row["kept"]) <= 1 for row in scores)
    usual = [row for row in scores if row["rule"] == f"random/even:{atlas.count}" and row["network"] == "both"]
    assert {float(row["kept_over"]) for row in usual} == {0.0}
    if kind.layout:
        whole = rows_of(tmp_path / "results" / f"atlas-{kind.name}-whole.csv")
        assert {(row["network"], row["exact"]) for row in whole} >= {("both", "no"), ("left-to-right", "yes")}
        assert {row["texts"] for row in whole} == {"3"}

    monkeypatch.setattr(figure, "KINDS", {kind.name: kind})
    figure.costs([tmp_path / "atlas.svg"], [tmp_path / "atlas-tall.svg"])
    figure.dependence([tmp_path / "dependence.svg"])
    drawn = (tmp_path / "atlas.svg").read_text(encoding="utf-8")
    assert kind.title in drawn
    labels = ("advised", "causal in the schedule, whole comb", "left to right, one by one")
    assert all(label in drawn for label in labels)


def test_a_name_that_means_another_schedule_is_measured_and_written_again(tmp_path):
    """As `advised/4` does, once a calibration has more rules to choose from."""
    rows, said = Toy().read_rows(6), []
    texts = measuring.sequences(rows, 6, "cpu")
    predictor = unmask.ExactPredictor(CHAIN)
    other = rules_module.Rule("spread", "even:4", Schedule(size.Even(4), order.Spread()))
    for steps in (2, 2, 5):
        advised = rules_module.Rule("advised", "4", Schedule(size.Even(steps), order.Comb()))
        costs = measuring.Costs(tmp_path, 6)
        measuring.measured(predictor, "both", [advised, other], texts, costs, 6, said.append)
        path = tmp_path / "texts-both.npz"
        writing.written(predictor, [advised, other], rows, 6, path, "cpu", 6, said.append)
        again = measuring.Costs(tmp_path, 6)
        assert set(again.found["both"]) == {advised.key, other.key}
        assert again.get("both", advised).evaluations.tolist() == [steps] * 6
        scored = list(writing.scored(Toy(), rows, path, [advised, other], usual=other))
        assert [row["evaluations"] for row in scored] == [steps, steps, 4, 4]
        assert [row["kept_over"] for row in scored][2:] == [0, 0]
    assert sum("advised/4" in line for line in said) == 6
    assert sum("spread/even:4" in line for line in said) == 3


def test_whole_texts_are_measured_again_under_a_name_that_means_another_schedule(tmp_path):
    """And where nobody kept which schedule the name meant."""
    texts, said = measuring.sequences(Toy().read_rows(6), 6, "cpu"), []
    path, predictor = tmp_path / "whole-both.json", unmask.ExactPredictor(CHAIN)

    def whole(steps: int) -> list[dict[str, object]]:
        advised = rules_module.Rule("advised", "4", Schedule(size.Even(steps), order.Comb()))
        measuring.whole(predictor, "both", [advised], texts, path, 6, said.append)
        return json.loads(path.read_text())

    first = whole(2)
    assert whole(2) == first
    assert [line.partition(": ")[0] for line in said] == ["both advised/4", "both random/even:10"]
    second = whole(5)
    assert sorted((row["rule"], row["evaluations"]) for row in second) == [("advised/4", 5), ("random/even:10", 10)]
    assert len(said) == 3
    for row in second:
        del row["key"]
    path.write_text(json.dumps(second))
    assert {row["rule"]: row["nats"] for row in whole(5)} == {row["rule"]: row["nats"] for row in second}
    assert len(said) == 5


def test_results_for_another_number_of_texts_are_not_replaced(tmp_path):
    """With fewer rows, to try something in a folder that has results of a GPU."""
    rows, predictor = Toy().read_rows(6), unmask.ExactPredictor(CHAIN)
    rule = rules_module.Rule("random", "even:2", Schedule(size.Even(2), order.Random()))
    texts = measuring.sequences(rows, 6, "cpu")
    measuring.measured(predictor, "both", [rule], texts, measuring.Costs(tmp_path, 6), 6, lambda line: None)
    writing.written(predictor, [rule], rows, 6, tmp_path / "texts-both.npz", "cpu", 6, lambda line: None)
    measuring.whole(predictor, "both", [rule], texts, tmp_path / "whole.json", 6, lambda line: None)
    seeing.seen(Toy(), predictor, measuring.sequences(rows, 3, "cpu"), tmp_path / "seen.json", 6)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    fewer = measuring.sequences(rows, 4, "cpu")
    for name, work in {
        "costs-both.npz": lambda: measuring.Costs(tmp_path, 4),
        "texts-both.npz": lambda: writing.written(
            predictor, [rule], rows, 4, tmp_path / "texts-both.npz", "cpu", 4, pytest.fail
        ),
        "whole.json": lambda: measuring.whole(
            predictor, "both", [rule], fewer, tmp_path / "whole.json", 4, pytest.fail
        ),
        "seen.json": lambda: seeing.seen(
            Toy(), predictor, measuring.sequences(rows, 2, "cpu"), tmp_path / "seen.json", 4
        ),
    }.items():
        with pytest.raises(unmask.InputError, match=rf"'rows' must be 6, as in '.*{name}', not 4\. For another"):
            work()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_network_is_loaded_by_the_name_of_its_folder(tmp_path, capsys):
    data = Toy().read(_made(tmp_path / "toy"))
    networks.trained(Toy(), "both", data, tmp_path / "toy", seconds=9, updates=2, tokens=100, say=lambda line: None)
    networks.owning(Toy(), tmp_path / "toy", "both", "cpu", pytest.fail)
    (tmp_path / "toy" / "calibration-both.json").write_text("{}")
    folder = ship.ship("toy", "both", tmp_path, tmp_path / "models")
    assert unmask.load(folder).codec.decode([2, 0]) == "ca"
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "calibration.json"}
    assert "calibration" not in capsys.readouterr().out
    (tmp_path / "toy" / "calibration-both.json").unlink()
    ship.ship("toy", "both", tmp_path, tmp_path / "models")
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]  # no calibration of another network
    said = f"toy both: shipped without a calibration: '{tmp_path / 'toy' / 'calibration-both.json'}' is not"
    assert capsys.readouterr().out == f"{said} there\n"
    (tmp_path / "toy" / "calibration-both.json").write_text("{}")
    (tmp_path / "toy" / "fingerprint-both.txt").write_text("that-of-the-network-before")
    ship.ship("toy", "both", tmp_path, tmp_path / "models")
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]
    assert capsys.readouterr().out == f"{said} of these weights\n"
    (tmp_path / "toy" / "fingerprint-both.txt").unlink()
    ship.ship("toy", "both", tmp_path, tmp_path / "models")
    said = said.removesuffix("is not")
    assert capsys.readouterr().out == f"{said}may be of others, as nobody recorded its weights\n"
    with pytest.raises(unmask.InputError, match=r"'network' must be one that was trained, but .*causal\.safetensors'"):
        ship.ship("toy", "causal", tmp_path, tmp_path / "models")


def test_weights_are_known_by_their_file_as_they_are_by_their_record(tmp_path):
    data = Toy().read(_made(tmp_path))
    path = networks.trained(Toy(), "both", data, tmp_path, seconds=9, updates=2, tokens=100, say=lambda line: None)
    networks.owning(Toy(), tmp_path, "both", "cpu", pytest.fail)
    assert owners.fingerprint(path) == owners.owner(tmp_path, "both")


def test_a_kill_while_a_network_is_shipped_leaves_no_calibration_of_the_one_before(tmp_path, monkeypatch):
    data = Toy().read(_made(tmp_path / "toy"))
    networks.trained(Toy(), "both", data, tmp_path / "toy", seconds=9, updates=2, tokens=100, say=lambda line: None)
    networks.owning(Toy(), tmp_path / "toy", "both", "cpu", pytest.fail)
    (tmp_path / "toy" / "calibration-both.json").write_text("{}")
    folder = ship.ship("toy", "both", tmp_path, tmp_path / "models")
    before = (folder / "model.safetensors").read_bytes()

    def killed(source, target):
        Path(target).write_bytes(Path(source).read_bytes()[:9])
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copyfile", killed)
    with pytest.raises(KeyboardInterrupt):
        ship.ship("toy", "both", tmp_path, tmp_path / "models")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"model.safetensors": before}


def test_advice_is_chosen_anew_if_a_rule_of_the_same_name_is_another_schedule(tmp_path):
    """The first choice is a comb in six steps, the best for six; then its name stands for a single step."""
    predictor, kept = unmask.ExactPredictor(CHAIN), Calibration(10, "chain", 40)
    texts, found = measuring.sequences(Toy().read_rows(40), 40, "cpu"), []
    kept = measure_orders(predictor, {"random": order.Random()}, texts, kept, rng=0)
    for steps in (6, 1):
        rule = {"comb": Schedule(size.Even(steps), order.Comb(2))}
        kept = measure_rules(predictor, rule, texts, kept, rng=0)
        (advised,) = measuring.advised(kept, [6], tmp_path / "advised-both.json")
        found.append(advised.schedule)
    assert found[0].to_json() == Schedule(size.Even(6), order.Comb(2)).to_json()
    assert isinstance(found[1].order, order.Random)


def test_a_network_that_was_not_trained_is_one_sentence(tmp_path):
    train = "python -m experiments.atlas toy --parts train --networks both"
    said = r"'folder' must hold the network 'both', but there is no '.*both\.safetensors'\. "
    with pytest.raises(unmask.InputError, match=rf"{said}Train it with: {train}\.$"):
        networks.owning(Toy(), tmp_path, "both", "cpu", pytest.fail)


def test_a_calibration_of_another_network_is_not_gone_on_with(tmp_path):
    """As one that stayed behind when a network came back from another machine."""
    data = Toy().read(_made(tmp_path))
    for name, steps in (("both", 2), ("both-comb", 3)):
        networks.trained(Toy(), name, data, tmp_path, seconds=9, updates=steps, tokens=100, say=lambda line: None)
    one, other = (networks.loaded(tmp_path / f"{name}.safetensors", "cpu") for name in ("both", "both-comb"))
    texts, path = measuring.sequences(data.valid, 2, "cpu"), tmp_path / "calibration-both.json"
    with torch.no_grad():
        for _ in range(2):
            found = measuring.calibrated(Toy(), one, texts, [], path, 4, lambda line: None)
        for model, rows in ((other, texts), (one, measuring.sequences(data.test, 2, "cpu"))):
            with pytest.raises(
                unmask.InputError, match=r"a calibration of this network and these texts, but '.*' is of another"
            ):
                measuring.calibrated(Toy(), model, rows, [], path, 4, pytest.fail)
    assert Calibration.load(path).losses.keys() == found.losses.keys()


def test_a_network_that_takes_the_place_of_another_has_results_of_its_own_alone(tmp_path, capsys, monkeypatch):
    """As one that was trained again, or came back from another machine: every number is that of an empty folder."""
    kind = Board()
    kind.settings = Settings(divisors=(4,), thresholds=(), bounds=())
    data = kind.read(_made(tmp_path))
    for name, steps in (("first", 2), ("second", 3)):
        place = tmp_path / name
        place.mkdir()
        networks.trained(kind, "both", data, place, seconds=9, updates=steps, tokens=100, say=lambda line: None)

    def results(folder: Path, weights: str) -> dict[str, bytes]:
        atlas = Atlas(kind, folder, rows=4, batch=12)
        atlas.make(None)
        (folder / "both.safetensors").write_bytes((tmp_path / weights / "both.safetensors").read_bytes())
        atlas.measure(["both"])
        atlas.write(["both"])
        atlas.whole(["both"], most=3)
        tables(atlas, folder / "results")
        return kept(folder) | kept(folder / "results")

    def kept(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".npz", ".json", ".csv")}

    first = results(tmp_path / "used", "first")
    assert "set aside" not in capsys.readouterr().out
    measured = kept(tmp_path / "used")
    found = results(tmp_path / "used", "second")
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "set aside" in line]
    place = tmp_path / "used" / "set-aside" / f"both-{owners.fingerprint(tmp_path / 'first' / 'both.safetensors')}"
    assert said.startswith(
        f"set aside in '{place}', because other weights took their place: costs-both.npz, texts-both.npz"
    )
    assert found == results(tmp_path / "new", "second")
    assert kept(place) == measured
    capsys.readouterr()
    # With their weights the results come back, and nothing is measured again.
    monkeypatch.setattr(measuring, "replay", lambda *words, **more: pytest.fail("it was measured"))
    assert results(tmp_path / "used", "first") == first
    assert f"brought back from '{place}', because they are of these weights: costs-both.npz" in capsys.readouterr().out
    assert not place.exists()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Runs parts of a toy by command, in a folder of its own; says nothing."""

    class Few(Toy):
        settings = Settings(divisors=(4,), thresholds=(), bounds=())

    monkeypatch.setitem(command.kinds.KINDS, "toy", Few)
    default = {"--rows": "4", "--batch": "12", "--tokens": "100", "--updates": "2"}

    def go(parts: str, *words: str) -> Path:
        mine = [word for name, value in default.items() if name not in words for word in (name, value)]
        place = ["--folder", str(tmp_path / "toy"), "--results", str(tmp_path / "results")]
        command.main(["toy", *place, *mine, *words, "--parts", *parts.split()])
        return tmp_path / "toy"

    return go


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_need_no_weights_and_change_nothing_in_the_folder(toy, tmp_path):
    folder = toy("make train measure write table", "--networks", "both", "causal")
    written = contents(tmp_path / "results")
    assert {row["network"] for row in rows_of(tmp_path / "results" / "atlas-toy.csv")} == {"both", "causal"}
    for path in folder.glob("*.safetensors"):
        path.unlink()
    before = contents(folder)
    toy("table")
    assert contents(tmp_path / "results") == written
    assert contents(folder) == before


def test_obeying_what_is_said_of_missing_weights_loses_nothing(toy, tmp_path, capsys):
    """Whoever trains again, where the weights stayed elsewhere, has all results of the old ones in the end."""
    folder = toy("make train measure write", "--networks", "both")
    (folder / "both.safetensors").unlink()
    (folder / "both-run" / "checkpoint.pt").unlink()
    results = {path.name: path.read_bytes() for path in folder.glob("*-both.*")}
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        toy("measure", "--networks", "both")
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        f"Error: --folder must hold the network 'both', but there is no '{folder / 'both.safetensors'}'. "
        "Bring its weights back, or train it again: python -m experiments.atlas toy --parts train --networks both. "
        "Once new weights are measured, the results of the old ones are set aside.\n"
    )
    toy("train", "--networks", "both", "--updates", "3")
    with pytest.raises(SystemExit) as caught:
        toy("table")
    assert capsys.readouterr().err == (
        "Error: --folder must hold the weights of its results, but those of 'both' are different. "
        "Move these weights away, or measure them, which sets the results of the others aside: "
        "python -m experiments.atlas toy --parts measure\n"
    )
    assert {path.name: path.read_bytes() for path in folder.glob("*-both.*")} == results
    toy("measure write table", "--networks", "both")
    (place,) = (folder / "set-aside").iterdir()
    assert {path.name: path.read_bytes() for path in place.glob("*-both.*")} == results


def test_the_network_that_is_missing_is_named_and_no_other(toy, capsys):
    toy("make train", "--networks", "left-to-right")
    with pytest.raises(SystemExit):
        toy("see", "--networks", "left-to-right")
    assert "Error: --folder must hold the network 'both', but" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        toy("measure", "--networks", "causal")
    said = capsys.readouterr().err
    assert "Error: --folder must hold the network 'causal', but" in said
    assert "python -m experiments.atlas toy --parts train --networks causal." in said
    with pytest.raises(SystemExit):
        toy("table")
    said = capsys.readouterr().err
    assert said.startswith("Error: --folder must hold ")
    assert said.endswith("python -m experiments.atlas toy --parts measure\n")


def test_advice_that_was_not_calibrated_is_no_table(toy, capsys):
    folder = toy("make train measure", "--networks", "both")
    (folder / "calibration-both.json").unlink()
    with pytest.raises(SystemExit):
        toy("table")
    said = "must hold the costs of all rules, but 1 is missing: both advised. Measure them with: python -m"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rows", "-1"), "--rows must be at least 2, not -1."),
        (("--rows", "0"), "--rows must be at least 2, not 0."),
        (("--rows", "1"), "--rows must be at least 2, not 1."),
        (("--batch", "0"), "--batch must be at least 1, not 0."),
        (("--tokens", "0"), "--tokens must be at least 1, not 0."),
        (("--tokens", "-1"), "--tokens must be at least 1, not -1."),
        (("--updates", "0"), "--updates must be at least 1, not 0."),
        (("--updates", "-1"), "--updates must be at least 1, not -1."),
        (("--seconds", "0"), "--seconds must be greater than 0, not 0."),
        (("--seconds", "-5"), "--seconds must be greater than 0, not -5."),
        (("--seconds", "nan"), "--seconds must be finite, not nan."),
        (("--width", "0"), "--width must be at least 1, not 0."),
        (("--width", "7"), "--width must be a multiple of 8, twice the number of heads, not 7."),
    ],
)
def test_a_number_that_means_nothing_is_one_sentence_before_any_work(toy, tmp_path, capsys, words, said):
    with pytest.raises(SystemExit) as caught:
        toy("make train measure", *words)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"Error: {said}\n"
    assert not list(tmp_path.iterdir())


def test_numbers_of_updates_that_are_refused_leave_the_run_as_it_was(toy, tmp_path, capsys):
    data = Toy().read(_made(tmp_path))
    for wrong in (0, -3):
        with pytest.raises(unmask.InputError, match="'updates' must be at least 1"):
            networks.trained(Toy(), "both", data, tmp_path, seconds=9, updates=wrong, say=pytest.fail)
    assert not (tmp_path / "both-run").exists()
    folder = toy("make train", "--networks", "both", "--updates", "3")
    (folder / "both.safetensors").unlink()
    with pytest.raises(SystemExit):  # another number than the run began with
        toy("train", "--networks", "both", "--updates", "4")
    assert "--folder must be empty or hold the same run" in capsys.readouterr().err
    command.main(["toy", "--folder", str(folder), "--networks", "both", "--tokens", "100", "--parts", "train"])
    assert (folder / "both.safetensors").exists()
    (folder / "both.safetensors").unlink()
    (folder / "both-run" / "updates.txt").write_text("")
    with pytest.raises(SystemExit):
        command.main(["toy", "--folder", str(folder), "--networks", "both", "--tokens", "100", "--parts", "train"])
    path = folder / "both-run" / "updates.txt"
    assert f"--folder must hold intact files, but '{path}' cannot be used." in capsys.readouterr().err


@pytest.mark.parametrize("share", [0, 0.2, 0.9])
def test_a_damaged_file_is_one_sentence_with_its_name(toy, capsys, share):
    folder = toy("make train measure write", "--networks", "both")
    names = [
        "seen.json", "costs-both.npz", "texts-both.npz", "advised-both.json", "calibration-both.json",
        "both.safetensors", "recipe-both.json", "fingerprint-both.txt",
    ]  # fmt: skip
    for name in names:
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))] + (b"?" if name.startswith("finger") else b""))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            toy("measure write table", "--networks", "both")
        assert caught.value.code == 2
        said = capsys.readouterr().err
        network = name.endswith("safetensors")
        must = "be a folder in which every network is intact" if network else "hold intact files"
        assert said.startswith(f"Error: --folder must {must}, but '{path}' ")
        assert said.count("\n") == 1
        path.write_bytes(whole)
    toy("measure write table", "--networks", "both")


def test_tables_without_some_rules_are_written_only_if_somebody_asks_for_them(tmp_path, monkeypatch, capsys):
    """A table that lacks rules looks like a whole one, and would take its place."""

    class Few(Toy):
        settings = Settings(divisors=(4,), thresholds=(), bounds=())

    monkeypatch.setitem(command.kinds.KINDS, "toy", Few)
    results = tmp_path / "results"
    words = ["toy", "--folder", str(tmp_path / "toy"), "--results", str(results), "--rows", "4", "--batch", "12"]
    command.main(
        [*words, "--updates", "2", "--tokens", "100", "--networks", "both", "--parts", "make", "train", "measure"]
    )
    command.main([*words, "--parts", "table"])
    before = {path: path.read_bytes() for path in results.iterdir()}
    capsys.readouterr()
    command.main([*words, "--updates", "2", "--tokens", "100", "--networks", "causal", "--parts", "train"])
    with pytest.raises(SystemExit) as caught:
        command.main([*words, "--parts", "table"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "Error: --folder must hold the costs of all rules, but 4 are missing: causal whole-comb/even:2, "
        "causal random/even:2, causal margin/even:2, …. "
        "Measure them with: python -m experiments.atlas toy --parts measure\n"
    )
    assert {path: path.read_bytes() for path in results.iterdir()} == before
    command.main([*words, "--parts", "table", "--partial"])
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "not measured" in line]
    assert said.startswith("toy: not measured, and in no table: causal whole-comb/even:2, causal random/even:2, ")
    assert said.endswith(", causal left-to-right/even:10")
    command.main([*words, "--networks", "causal", "--parts", "measure", "table"])
    assert "not measured" not in capsys.readouterr().out


def test_updates_are_those_of_the_weights_and_not_of_some_run_that_lies_there(tmp_path):
    kind = Toy()
    kind.settings = Settings(divisors=(4,), thresholds=(), bounds=())
    atlas = Atlas(kind, tmp_path, rows=4, batch=12)
    atlas.make(None)
    for name, steps in (("left-to-right", 2), ("causal", 3), ("both", 2)):
        networks.trained(kind, name, atlas.data, tmp_path, seconds=9, updates=steps, tokens=100, say=lambda line: None)
    atlas.measure(["left-to-right", "causal"])
    (tmp_path / "causal-run" / "log.csv").write_text("step\n900,1.0\n")
    assert updates(Atlas(kind, tmp_path, rows=4, batch=12)) == {"left-to-right": 2, "causal": 3}
    (tmp_path / "causal.safetensors").unlink()
    assert updates(Atlas(kind, tmp_path, rows=4, batch=12)) == {"left-to-right": 2, "causal": 3}  # as was kept
    for path in tmp_path.glob("recipe-*.json"):  # as in folders from before these were kept
        path.unlink()
    assert updates(Atlas(kind, tmp_path, rows=4, batch=12)) == {"left-to-right": 2}
    kind.shipped = {"left-to-right": "causal"}
    assert updates(Atlas(kind, tmp_path, rows=4, batch=12)) == {}


def test_what_is_measured_is_chosen_on_other_rows_and_spread_over_all():
    """Not the first of the test rows: neighbours are alike."""
    rows = Toy().read_rows(40)
    some = rows.spread(10)
    assert np.array_equal(some.tokens, rows.tokens[::4])
    assert len(rows.spread(100)) == 40


@pytest.mark.parametrize("counts", [(3, 5, 4), (4, 4, 4)])
def test_equalised_texts_have_as_many_to_fill_and_nothing_new_is_hidden(counts):
    hidden = np.stack([np.arange(9) < count for count in counts])
    texts = measuring.sequences(Rows(np.zeros((3, 9), dtype=np.int64), hidden), 3, "cpu")
    found = seeing.equalised(texts)
    assert found.counts.tolist() == [min(counts)] * 3
    assert not (found.masked & ~texts.masked).any()


def test_pairs_that_are_alike_are_one_measurement():
    values = np.arange(16.0).reshape(1, 4, 4)
    counts = np.ones((1, 4, 4)) - np.eye(4)
    alike = np.array([[(i + j) % 2 for j in range(4)] for i in range(4)])
    found = seeing.pooled(Dependence((0.0,), values * counts, counts, counts, texts=2), alike)
    odd = [values[0, i, j] for i in range(4) for j in range(4) if alike[i, j] and i != j]
    assert found.values[0, 0, 1] == pytest.approx(np.mean(odd))
    assert found.counts[0, 0, 1] == len(odd)
    assert found.errors[0, 0, 1] == pytest.approx(len(odd) ** -0.5)
    assert found.values[0, 2, 2] == 0


def test_a_learned_order_reveals_what_is_hidden_in_even_steps(tmp_path):
    """What is given of every text stands in the first list, and takes nothing of its size."""
    sets = seeing._learned(Toy(), ByDistance((0.0,), *np.ones((3, 1, 12)), texts=4), np.arange(2, 12), 5)
    assert sorted(place for part in sets for place in part) == list(range(12))
    assert {0, 1} < set(sets[0])
    (rule,) = seeing.learned({"orders": {"5": sets}, "tokens": 10}, equal=True)
    steps = steps_of(rule.schedule, ~Toy().visible(1, rng=np.random.default_rng(0)), np.random.default_rng(0))[0]
    assert np.bincount(steps[2:]).tolist() == [2] * 5


def test_on_a_large_grid_the_order_of_a_quarter_is_taken_four_times():
    class Large(Board):
        length, layout = 48, (6, 8)

    counts = np.ones((1, 48, 48)) - np.eye(48)
    sets = seeing._learned_in_quarters(Large(), Dependence((0.0,), counts, counts, counts, texts=4), np.arange(48), 8)
    assert [len(part) for part in sets] == [6] * 8
    assert sorted(place for part in sets for place in part) == list(range(48))
    assert {(place // 8 % 2, place % 2) for part in sets[2:4] for place in part} == {(1, 1)}


@pytest.mark.parametrize("name", [name for name in common.KINDS if common.atlas_rows(name)])
def test_the_committed_passes_are_those_of_the_formula(name):
    """Those of networks that look both ways, which depend on the rule; the share of tokens to fill is one number."""
    kind = kinds.KINDS[name]()
    found = [r for r in common.atlas_rows(name) if r["network"] in networks.BOTH and r["order"] != "advised"]
    spent = np.array([float(r["evaluations"]) for r in found])
    looking = [any(each in r["order"] for each in ("confidence", "margin", "entropy")) for r in found]
    blocks = [-(-kind.length // 32) if r["order"].startswith("blocks-32/") else 1 for r in found]
    assert any(looking)
    looks = [common.looked_at(n, b) if each else 1.0 for n, b, each in zip(spent, blocks, looking, strict=True)]
    shape = networks.TAUGHT["both"].shape(kind)
    none, whole = (
        np.array([common.passes(shape, n, reads=k * each) for n, each in zip(spent, looks, strict=True)])
        for k in (0, 1)
    )
    shares = (np.array([float(r["passes"]) for r in found]) - none) / (whole - none)
    assert np.median(shares) == pytest.approx({"sudoku": 0.631, "countdown": 0.5}.get(name, 1.0), abs=1e-3)
    assert none + np.median(shares) * (whole - none) == pytest.approx([float(r["passes"]) for r in found], rel=1e-4)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
