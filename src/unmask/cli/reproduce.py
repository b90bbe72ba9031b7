"""`unmask reproduce`: the three figures of the paper, at full size."""

import csv
import time
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np

from unmask import _check as check
from unmask import paper, plot
from unmask.cli import options
from unmask.cli.output import progress
from unmask.cli.report import Column, Report, grid, plain, words
from unmask.words.outputs import staged
from unmask.words.sentences import number

_FIGURES = {"figure1": paper.figure1, "figure2": paper.figure2, "figure3": paper.figure3}
_MANY = 20_000  # draws from which even rare sizes are drawn often enough for a normal law
_QUOTED = (50, 100, 250, 500, 1000)  # steps of Figure 2(a) that other people quote


@options.command
@click.argument("figures", nargs=-1, type=options.one_of("figure", _FIGURES), metavar="[FIGURE]...")
@click.option(
    "--output",
    type=options.FOLDER,
    required=True,
    metavar="DIR",
    help="Folder for the files. The command creates it if it is missing.",
)
@click.option("--draws", type=options.INTEGER, default=100_000, show_default=True, help="Monte Carlo draws per point.")
@options.seed
def reproduce(figures: tuple[str, ...], output: Path, draws: int, seed: int) -> Report:
    """Reproduce the three figures of Zhao & Cai's paper, as PNG and SVG, with every number in a CSV file.

    \b
      figure1    mean size of each step of the tc and dtc schemes
      figure2    expected KL of the tc scheme, against the number of steps and against TC
      figure3    expected KL of the dtc scheme, against the number of steps and against DTC

    The figures use sequences of 2000 tokens and Reed-Solomon codes over an alphabet of 2048 letters, as in the paper.
    They show the exact values, the paper's bounds and fixed-size baseline, and equal sizes with a random offset. If you
    name no figure, the command makes all three.

    \b
    Examples:
      unmask reproduce --output figures
      unmask reproduce figure2 --output figures --draws 10000
      unmask reproduce figure1 figure3 --output figures --json

    JSON: draws, seed, seconds, and figures (rows of {figure, points (how many were estimated), worst_z (the largest
    deviation, in standard errors), files}).
    """
    chosen = list(dict.fromkeys(figures or _FIGURES))
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
    columns = (
        words("figure"),
        Column("estimated points", lambda row: str(row["points"])),
        Column("worst deviation", lambda row: f"{row['worst_z']:.2f} s.e."),
        Column("files", lambda row: f"{row['figure']}.png .svg .csv", left=True),
    )
    worst = max(rows, key=lambda each: each["worst_z"])
    # Šidák: of points that share their draws, as some do here, a large one is rarer still.
    chance = 1 - (1 - 2 * NormalDist().cdf(-worst["worst_z"])) ** worst["points"]
    said = f"at least one of {worst['points']:,} deviations is {worst['worst_z']:.2f} standard errors or more"
    often = f"at most {chance:.0%}" if chance >= 0.01 else "less than 1%"
    shown: list[Any] = [grid(columns, rows), f"By chance alone, {said} in {often} of all runs."]
    if draws < _MANY:
        shown.append("With so few draws, sizes that are hardly ever drawn deviate by more than their errors say.")
    for figure in made:
        if figure.name == "figure2":
            shown += ["Figure 2(a), expected KL in nats:", _quoted(figure)]
    shown.append(plain(f"Files are in {output}; {draws:,} draws per point, seed {seed}, {seconds:.0f} s."))
    return Report({"draws": draws, "seed": seed, "seconds": round(seconds, 1), "figures": rows}, shown)


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


def _quoted(figure: paper.Figure) -> Any:
    """Figure 2(a) at the steps that other people quote."""
    headings = ("Monte Carlo", "exact", "theorem 1", "fixed", "random offset")
    rows = [
        dict(zip(headings, (point.estimate.mean, point.exact, point.bound, point.ceil, point.offset), strict=True))
        | {"steps": point.steps}
        for point in figure.panels[0].points
        if point.steps in _QUOTED and point.estimate is not None and point.bound is not None
    ]
    values = [Column(heading, lambda row, key=heading: number(row[key])) for heading in headings]
    return grid([Column("steps", lambda row: str(row["steps"])), *values], rows)
