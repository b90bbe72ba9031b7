"""Whose results the folder of a kind keeps."""

from pathlib import Path

import pytest
from experiments.atlas import owners, pack, together

from unmask import InputError

OF_BOTH = (
    "costs-both.npz",
    "texts-both.npz",
    "whole-both.json",
    "calibration-both.json",
    "advised-both.json",
    "recipe-both.json",
    "seen.json",
)
OF_OTHERS = ("costs-both-comb.npz", "texts-both-comb.npz", "costs-causal.npz", "whole-causal.json")


@pytest.fixture
def folder(tmp_path):
    """Results of three networks, with records of whose they are."""
    for name in ("both", "both-comb", "causal"):
        owners.claim(tmp_path, name, f"first-{name}", pytest.fail)
    for name in OF_BOTH + OF_OTHERS:
        (tmp_path / name).touch()
    return tmp_path


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_network_keeps_its_results(folder):
    before = names(folder)
    for name in ("both", "both-comb", "causal"):
        owners.claim(folder, name, f"first-{name}", pytest.fail)
    assert names(folder) == before


def test_results_of_another_network_are_set_aside_and_those_of_other_names_stay(folder):
    """No rule of `both-comb` is learned from `both`."""
    before, said = names(folder), []
    owners.claim(folder, "both", "second", said.append)
    assert names(folder) == before - set(OF_BOTH) | {"set-aside"}
    place = folder / "set-aside" / "both-first-both"
    assert names(place) == {*OF_BOTH, "fingerprint-both.txt"}
    listed = ", ".join(OF_BOTH)
    assert said == [f"set aside in '{place}', because other weights took their place: {listed}"]
    assert owners.owner(folder, "both") == "second"
    owners.claim(folder, "both-comb", "second", said.append)
    assert not (folder / "costs-both-comb.npz").exists()
    assert owners.owner(folder, "causal") == "first-causal"


def test_results_return_with_their_weights(folder):
    before, said = names(folder), []
    (folder / "costs-both.npz").write_text("first")
    owners.claim(folder, "both", "second", said.append)
    (folder / "costs-both.npz").write_text("second")
    owners.claim(folder, "both", "first-both", said.append)
    assert (folder / "costs-both.npz").read_text() == "first"
    assert names(folder) == before | {"set-aside"}
    assert names(folder / "set-aside") == {"both-second"}
    assert said[-1].startswith(f"brought back from '{folder / 'set-aside' / 'both-first-both'}', because they are of")
    owners.claim(folder, "both", "second", said.append)
    assert (folder / "costs-both.npz").read_text() == "second"
    assert names(folder / "set-aside") == {"both-first-both"}


def test_no_result_that_was_set_aside_is_replaced(folder):
    place = folder / "set-aside" / "both-first-both"
    place.mkdir(parents=True)
    (place / "costs-both.npz").write_text("other")
    before = names(folder)
    said = r"hold every result only once, but '.*both-first-both' also has costs-both\.npz"
    with pytest.raises(InputError, match=said):
        owners.claim(folder, "both", "second", pytest.fail)
    assert names(folder) == before
    assert (place / "costs-both.npz").read_text() == "other"


@pytest.mark.parametrize("record", ["", "../../elsewhere", "a b"])
def test_a_record_that_is_no_fingerprint_is_one_sentence(folder, record):
    (folder / "fingerprint-both.txt").write_text(record)
    with pytest.raises(InputError, match=r"intact files, but '.*fingerprint-both\.txt' cannot be used"):
        owners.claim(folder, "both", "second", pytest.fail)


def test_one_table_has_the_names_of_all_results():
    assert set(owners.MEASURED) == {name.replace("both", "*") for name in (*OF_BOTH, "fingerprint-both.txt")}
    assert set(together.KEPT) == {*owners.MEASURED, "*-run/log.csv", "*.log"}
    assert set(pack.NETWORKS) == {*owners.MEASURED, "*.safetensors"}


def test_results_that_nobody_recorded_are_left_to_their_owner(folder):
    (folder / "fingerprint-causal.txt").unlink()
    before = names(folder)
    said = "says so for costs-causal.npz, whole-causal.json. Move or remove these files."
    with pytest.raises(InputError, match=said):
        owners.claim(folder, "causal", "first-causal", pytest.fail)
    assert names(folder) == before


def test_after_a_kill_what_is_left_is_not_taken_for_results_of_the_next_network(folder, monkeypatch):
    moved, before = Path.replace, names(folder)

    def replace(path: Path, target: Path) -> Path:
        if path.name == "seen.json":
            raise KeyboardInterrupt
        return moved(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            owners.claim(folder, "both", "second", lambda line: None)
    assert owners.owner(folder, "both") == "first-both"
    assert names(folder) != before | {"set-aside"}
    owners.claim(folder, "both", "first-both", lambda line: None)
    assert names(folder) == before | {"set-aside"}


def test_after_a_kill_results_still_return_with_their_weights(folder, monkeypatch):
    """The record comes first, and the results whenever their network is asked for."""
    before = names(folder)
    owners.claim(folder, "both", "second", lambda line: None)
    with monkeypatch.context() as patch:
        patch.setattr(owners, "kept", lambda folder, network: [])
        owners.claim(folder, "both", "first-both", lambda line: None)
    owners.claim(folder, "both", "first-both", lambda line: None)
    assert names(folder) == before | {"set-aside"}
