"""What `python -m experiments.atlas.solver` says of a Sudoku network."""

import csv

import pytest

torch = pytest.importorskip("torch")

from experiments.atlas import solver  # noqa: E402

from unmask.models.transformer import Config  # noqa: E402
from unmask.models.weights import save  # noqa: E402


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """Fills two boards with a tiny network under two rules; the rows of the table."""
    every = solver.compared
    monkeypatch.setattr(solver, "compared", lambda kind, count: list(every(kind, count))[:2])

    def solve(seed: int, folder: str) -> list[dict[str, str]]:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = Config(9, 81, 16, hidden=16, reader_hidden=16).network()
        save(network, tmp_path / f"{seed}.safetensors", about={"alphabet": "123456789"})
        words = ["--model", str(tmp_path / f"{seed}.safetensors"), "--boards", "2", "--batch", "2"]
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
