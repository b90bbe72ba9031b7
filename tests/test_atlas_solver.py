"""What `python -m experiments.atlas.solver` says of a Sudoku network."""

import csv

import pytest

torch = pytest.importorskip("torch")

from experiments.atlas import solver  # noqa: E402

from unmask.models.transformer import Config  # noqa: E402
from unmask.models.weights import save  # noqa: E402


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """Fills a few boards with a tiny network under three rules; the rows of the table."""
    every = solver.compared

    def three(kind, count):
        found = list(every(kind, count))
        return [*found[:2], *(rule for rule in found if rule.name == f"random/even:{count}")]

    monkeypatch.setattr(solver, "compared", three)

    def solve(
        seed: int, folder: str, boards: int = 2, length: int = 81, alphabet: str = "123456789"
    ) -> list[dict[str, str]]:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = Config(len(alphabet), length, 16, hidden=16, reader_hidden=16).network()
        save(network, tmp_path / f"{seed}.safetensors", about={"alphabet": alphabet})
        words = ["--model", str(tmp_path / f"{seed}.safetensors"), "--boards", str(boards), "--batch", "2"]
        solver.main([*words, "--folder", str(tmp_path / folder), "--results", str(tmp_path)])
        with (tmp_path / "atlas-solver.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    return solve


def test_each_network_is_judged_by_the_boards_that_it_filled_itself(solved):
    """Boards of another network are in the same folder."""
    first, second = solved(1, "shared"), solved(2, "shared")
    assert second != first
    assert second == solved(2, "alone")
    assert first == solved(1, "shared")


def test_no_board_is_filled_twice_by_the_same_network(solved, capsys):
    first = solved(1, "shared")
    assert "evaluations" in capsys.readouterr().out
    assert solved(1, "shared") == first
    assert "evaluations" not in capsys.readouterr().out


def test_rules_are_compared_with_one_cell_at_a_time_in_random_order(solved):
    """Wherever that rule stands in the list."""
    rows = solved(1, "alone", boards=3)
    usual = [row for row in rows if row["rule"].startswith("random/") and float(row["evaluations"]) > 7]
    assert {row["draw"] for row in usual} == {"temperature 1", "greedy"}
    assert {row[f"{score}_over"] for row in usual for score in ("solved", "cells")} == {"0"}
    # A network that has learned nothing solves no board, but some cells are right by chance.
    assert "0" not in {row["cells_over"] for row in rows if row not in usual and row["draw"] == "temperature 1"}


@pytest.mark.parametrize("other", [{"length": 80}, {"alphabet": "987654321"}, {"alphabet": "12345678"}])
def test_a_network_of_other_texts_is_one_sentence(solved, capsys, other):
    with pytest.raises(SystemExit) as caught:
        solved(1, "other", **other)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: --model must be a network of 81 cells with the digits 1 to 9, but '")
    assert said.endswith("1.safetensors' was made for other texts.\n")


def test_what_is_wrong_with_the_number_of_boards_is_one_sentence(solved, capsys):
    solved(1, "shared")
    wrong = {boards: f"must be at least 2, not {boards}." for boards in (-1, 0, 1)} | {3: "must be 2, as in '"}
    for boards, said in wrong.items():
        with pytest.raises(SystemExit) as caught:
            solved(1, "shared", boards=boards)
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith(f"Error: --boards {said}")
