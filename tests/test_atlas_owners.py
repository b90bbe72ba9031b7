"""Whose results the folder of a kind keeps."""

from pathlib import Path

import pytest
from experiments.atlas import owners

from unmask import InputError

OF_BOTH = (
    "costs-both.npz",
    "texts-both.npz",
    "whole-both.json",
    "calibration-both.json",
    "advised-both.json",
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


def test_results_of_another_network_are_removed_and_those_of_other_names_stay(folder):
    """No rule of `both-comb` is learned from `both`."""
    before, said = names(folder), []
    owners.claim(folder, "both", "second", said.append)
    assert names(folder) == before - set(OF_BOTH)
    assert len(said) == 1
    assert owners.owner(folder, "both") == "second"
    owners.claim(folder, "both-comb", "second", said.append)
    assert not (folder / "costs-both-comb.npz").exists()
    assert owners.owner(folder, "causal") == "first-causal"


def test_results_that_nobody_recorded_are_left_to_their_owner(folder):
    (folder / "fingerprint-causal.txt").unlink()
    before = names(folder)
    said = "says of which weights costs-causal.npz, whole-causal.json are. Move or remove these files."
    with pytest.raises(InputError, match=said):
        owners.claim(folder, "causal", "first-causal", pytest.fail)
    assert names(folder) == before


def test_after_a_kill_what_is_left_is_not_taken_for_results_of_the_next_network(folder, monkeypatch):
    removed = Path.unlink

    def unlink(path: Path) -> None:
        if path.name == "seen.json":
            raise KeyboardInterrupt
        removed(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        owners.claim(folder, "both", "second", lambda line: None)
    assert owners.owner(folder, "both") == "first-both"
