"""How many boards a Sudoku network solves under each rule: `python -m experiments.atlas.solver`.

The network is the one that `python -m experiments.atlas.ship sudoku` puts into models/, or another one that you name.
The boards are made here, with unique solutions and the same numbers of clues as those of the atlas, from a seed that
neither training nor measuring uses.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from experiments import common
from experiments.atlas import measuring, mistakes, rules, writing
from experiments.atlas.kind import Rows
from experiments.atlas.parts import say
from experiments.atlas.rules import RANKED, Rule
from experiments.atlas.sudoku import Sudoku, full, thinned, turned

from unmask import InputError, load, order, size
from unmask import _check as check
from unmask.models import Model, described
from unmask.schedule import Schedule

SEED = 81
STEPS = (7, 28)
DIGITS = "123456789"


def puzzles(count: int) -> Rows:
    """So many boards with unique solutions, and which of their cells are empty."""
    rng = np.random.default_rng(SEED)
    solved = turned(full(count, rng=rng).astype(np.uint8), rng=rng)
    return Rows(solved.astype(np.int64), thinned(solved.astype(np.int8), rng=rng) < 0)


def compared(kind: Sudoku, count: int) -> Iterator[Rule]:
    """The rules: planned and reactive orders in few steps and one by one, thresholds and entropy bounds.

    Arguments:
        kind: The kind.
        count: Empty cells of a board, of the one that has most.
    """
    orders = {"random": order.Random(), "spread": rules.spread(kind), "comb": rules.comb(kind), **RANKED}
    for steps in STEPS:
        for name, which in orders.items():
            yield Rule(name, f"even:{steps}", Schedule(size.Even(steps), which))
    yield from rules.confident(kind.settings)
    yield measuring.random_order_of(count)
    yield Rule("margin", f"even:{count}", Schedule(size.Even(count), orders["margin"]))


def checked(network: Model) -> Model:
    """The network, if it fills boards.

    Raises:
        InputError: if it was made for other texts.
    """
    if network.length != Sudoku.length or described(network.codec) != {"alphabet": DIGITS}:
        must = f"be a network of {Sudoku.length} cells with the digits 1 to 9"
        raise InputError("model", must, detail=f"but '{network.name}' was made for other texts")
    return network


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.solver", description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="models/sudoku", help="the network")
    parser.add_argument("--boards", type=int, default=512, help="how many boards to fill")
    parser.add_argument("--batch", type=int, default=64, help="boards at once")
    parser.add_argument("--folder", type=Path, default=Path("runs") / "solver", help="where filled boards are kept")
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="where the table goes")
    options = parser.parse_args(arguments)
    with mistakes.sentences({"rows": "--boards"}):
        solve(options.model, options.boards, options.batch, options.folder, options.results)


@torch.no_grad()
def solve(model: str, boards: int, batch: int, folder: Path, results: Path) -> None:
    """Fill the boards under each rule, going on where an earlier run stopped, and write atlas-solver.csv."""
    check.integer("boards", boards, least=2)  # of a single one there is no error
    check.integer("batch", batch, least=1)
    kind, network = Sudoku(), checked(load(model))
    rows = puzzles(boards)
    folder.mkdir(parents=True, exist_ok=True)
    count = int(rows.hidden.sum(axis=1).max())
    wanted, usual = list(compared(kind, count)), measuring.random_order_of(count)
    path = folder / f"texts-{network.fingerprint}.npz"  # those of other networks stay beside it
    writing.written(network.predictor, wanted, rows, boards, path, "cpu", batch, say)
    found = [{"network": model, **row} for row in writing.scored(kind, rows, path, wanted, usual)]
    common.write(results / "atlas-solver.csv", list(found[0]), found)


if __name__ == "__main__":
    main()
