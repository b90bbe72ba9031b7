"""`unmask reproduce`: the paper's three figures, at full size."""

import csv
import time
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np
from rich import box
from rich.table import Table

from unmask import _check as check
from unmask import paper, plot
from unmask.cli import options
from unmask.cli.completion import Words
from unmask.cli.output import number, print_json, progress, staged, terminal

_FIGURES = {"figure1": paper.figure1, "figure2": paper.figure2, "figure3": paper.figure3}
_CHECKED_STEPS = (50, 100, 250, 500, 1000)


@click.command()
@click.argument("figures", nargs=-1, type=Words(_FIGURES), metavar="[FIGURE]...")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder for the files; made if missing.",
)
@click.option("--draws", type=options.INTEGER, default=100_000, show_default=True, help="Monte-Carlo draws per point.")
@options.seed
@options.as_json
def reproduce(figures: tuple[str, ...], output: Path, draws: int, seed: int, as_json: bool) -> None:
    """Make the paper's three figures: PNG, SVG, and a CSV with every number.

    \b
      figure1    mean size of each step of both schemes
      figure2    expected KL of the tc scheme, against the steps and against TC
      figure3    expected KL of the dtc scheme, against the steps and against DTC

    At length 2000 on Reed-Solomon codes over 2048 letters, as in the paper, with the exact values, the theorem's bound,
    the paper's fixed-size baseline, and equal sizes at a random phase. All three figures by default.

    \b
    Examples:
      unmask reproduce --output figures
      unmask reproduce figure2 --output figures --draws 10000
      unmask reproduce figure1 figure3 --output figures --json

    JSON: draws, seed, seconds, and figures with figure, points (how many were estimated), worst_z (largest deviation
    in standard errors), files.
    """
    chosen = list(dict.fromkeys(check.known("figure", name, _FIGURES) for name in figures or _FIGURES))
    check.integer("draws", draws, least=2)
    plot.require()
    # Each figure has its own stream, so that it does not depend on which others are made.
    streams = dict(zip(_FIGURES, np.random.default_rng(seed).spawn(len(_FIGURES)), strict=True))
    begin = time.perf_counter()
    made: list[paper.Figure] = []
    with staged(output) as folder:
        with progress() as bar:
            for name in chosen:
                advance = partial(bar.advance, bar.add_task(name, total=1.0))
                made.append(_FIGURES[name](draws, rng=streams[name], progress=advance))
        for figure in made:
            plot.paper_figure(figure, [folder / f"{figure.name}.png", folder / f"{figure.name}.svg"])
            _write(figure, folder / f"{figure.name}.csv")
    seconds = time.perf_counter() - begin
    rows = [_summary(figure, output) for figure in made]
    if as_json:
        print_json({"draws": draws, "seed": seed, "seconds": round(seconds, 1), "figures": rows})
        return
    screen = terminal()
    table = Table("figure", box=box.SIMPLE_HEAD)
    table.add_column("estimated points", justify="right")
    table.add_column("worst deviation", justify="right")
    table.add_column("files")
    for row in rows:
        table.add_row(row["figure"], str(row["points"]), f"{row['worst_z']:.2f} s.e.", f"{row['figure']}.png .svg .csv")
    screen.print(table)
    row = max(rows, key=lambda each: each["worst_z"])
    # Šidák: of points that share their draws, as some do here, a large one is rarer still.
    chance = 1 - (1 - 2 * NormalDist().cdf(-row["worst_z"])) ** row["points"]
    words = f"one of {row['points']:,} deviations is {row['worst_z']:.2f} standard errors or more"
    screen.print(f"By chance alone {words} in at most {chance:.0%} of all runs.")
    for figure in made:
        if figure.name == "figure2":
            screen.print("Figure 2(a), expected KL in nats:")
            screen.print(_known_values(figure))
    screen.print(f"Files are in {output}; {draws:,} draws per point, seed {seed}, {seconds:.0f} s.", soft_wrap=True)


def _write(figure: paper.Figure, path: Path) -> None:
    columns = ("panel", "scheme", "axis", "x", "steps", "dimension")
    values = ("estimate", "standard_error", "exact", "bound", "ceil", "offset", "z", "draws")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns + values)
        for panel in figure.panels:
            for point in panel.points:
                guess = point.estimate
                sampled = (None, None, None) if guess is None else (guess.mean, guess.standard_error, guess.draws)
                where = (panel.name, panel.scheme, panel.axis, point.x, point.steps, point.dimension)
                law = (point.exact, point.bound, point.ceil, point.offset, point.z)
                table.writerow((*where, *sampled[:2], *law, sampled[2]))


def _summary(figure: paper.Figure, output: Path) -> dict[str, Any]:
    return {
        "figure": figure.name,
        "points": sum(point.estimate is not None for panel in figure.panels for point in panel.points),
        "worst_z": figure.worst,
        "files": [str(output / f"{figure.name}.{suffix}") for suffix in ("png", "svg", "csv")],
    }


def _known_values(figure: paper.Figure) -> Table:
    """Figure 2(a) at the steps that other people quote."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("steps", "Monte Carlo", "exact", "theorem 1", "fixed", "random phase"):
        table.add_column(heading, justify="right")
    for point in figure.panels[0].points:
        if point.steps in _CHECKED_STEPS and point.estimate is not None and point.bound is not None:
            values = (point.estimate.mean, point.exact, point.bound, point.ceil, point.offset)
            table.add_row(str(point.steps), *(number(value) for value in values))
    return table
