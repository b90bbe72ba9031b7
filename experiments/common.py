"""What the scripts of this folder share: where their files go, and how a table is written."""

import argparse
import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unmask._atomic import replacing
from unmask.information.curve import Curve
from unmask.words.schedules import Family, size_family


class Named(NamedTuple):
    """What readers call something: a title, and a short name."""

    title: str
    short: str


FIGURES = Path(__file__).parent.parent / "docs" / "figures"
RESULTS = Path(__file__).parent / "results"
# What the kinds of data of the atlas are called over a panel, and in a table.
KINDS = {
    "books": Named("English word pieces", "word pieces"),
    "characters": Named("English characters", "characters"),
    "sudoku": Named("Sudoku", "Sudoku"),
    "countdown": Named("Countdown arithmetic", "countdown"),
    "molecules": Named("Molecules (SMILES)", "molecules"),
    "digits": Named("Binarised digits", "digits"),
}
# The networks of the atlas, in the order of tables.
NETWORKS = {"both": "both ways", "both-comb": "taught combs", "causal": "causal", "left-to-right": "left to right"}


def families(names: Iterable[str], curve: Curve | None = None) -> dict[str, Family]:
    """Name on the command line -> the schedule with a given number of steps."""
    return {name: size_family(name, curve) for name in names}


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV, six significant digits: at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for row in rows:
            cells = (row[column] for column in columns)
            table.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells)


def read(name: str) -> list[dict[str, str]]:
    """The rows of a committed result."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def atlas_rows(kind: str, what: str = "") -> list[dict[str, str]]:
    """The rows of a table of the atlas; none if that kind of data has not been measured."""
    name = f"atlas-{kind}{what}.csv"
    return read(name) if (RESULTS / name).exists() else []


def atlas_seen(kind: str) -> dict[str, Any]:
    """What a kind of data is like: TC, DTC, loss curve, dependence, and how long networks learned."""
    return json.loads((RESULTS / f"atlas-{kind}-seen.json").read_text(encoding="utf-8"))


def atlas_measured(kinds: Iterable[str]) -> list[str]:
    """Which of these kinds of data have been measured."""
    return [kind for kind in kinds if (RESULTS / f"atlas-{kind}.csv").exists()]


def places(name: str) -> tuple[list[Path], Path]:
    """Where the figure of that name and its table go.

    Into the documentation and `results/`; or all into the folder named on the command line, with a PNG to look at.
    """
    parser = argparse.ArgumentParser(description="Draw a figure, and write its numbers.")
    parser.add_argument("folder", type=Path, nargs="?", help="for all files, and a PNG to look at; docs/ by default")
    if (folder := parser.parse_args().folder) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return [folder / f"{name}.svg", folder / f"{name}.png"], folder / f"{name}.csv"
    FIGURES.mkdir(parents=True, exist_ok=True)
    return [FIGURES / f"{name}.svg"], RESULTS / f"{name}.csv"


def markdown(head: list[str], body: list[list[str]]) -> str:
    """A table for a page: columns with numbers to the right, the first one and columns of words to the left."""
    numbers = [any(re.search("^[^a-z]*[0-9][^a-z]*$", line[place]) for line in body) for place in range(len(head))]
    sides = ["---", *("---:" if each else "---" for each in numbers[1:])]
    lines = [head, sides, *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def narrow(figures: Sequence[Path]) -> list[Path]:
    """Where the versions for phones go, of figures that have panels side by side."""
    return [path.with_stem(f"{path.stem}-tall") for path in figures]


def passes(shape: Any, steps: float, *, reads: float) -> float:
    """Arithmetic in passes: multiplications over those of one pass of a network over the text.

    Arguments:
        shape: The shape of the network.
        steps: How often all positions go through its layers.
        reads: Positions taken through the readers in all, over the length.
    """
    readers = shape.readers * shape.width * (2 * shape.width + 3 * shape.reader_hidden)
    layers = shape.layers * shape.width * (4 * shape.width + 3 * shape.hidden) + 2 * shape.width**2
    return (steps * layers + reads * readers) / (layers + readers)


def looked_at(steps: float, blocks: float = 1) -> float:
    """How many positions a rule that looks at predictions reads, over those that it fills.

    Before each step it reads the masked positions of the current block. In even steps these are all positions of the
    block, then one step's fewer each time: (steps + 1) / 2 times its positions in all. For sizes that are not even it
    is an estimate.

    Arguments:
        steps: Evaluations of a text.
        blocks: How many blocks it is filled in, one after the other.
    """
    return (steps / blocks + 1) / 2
