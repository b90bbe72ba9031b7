"""`unmask expect`: the exact error of schedules on a known distribution."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.table import Table

from unmask import _check as check
from unmask import evaluate, size
from unmask.cli import data, engines, options
from unmask.cli.names import size_family
from unmask.cli.output import ROUNDING, number, print_json, progress, terminal
from unmask.cli.rows import check_rows, write_rows
from unmask.engine import Report


@click.command()
@options.data()
@click.option("--size", "names", type=options.SIZE_LIST, metavar="NAMES", required=True, help=options.SIZE_HELP)
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", required=True, help="Numbers of steps.")
@click.option("--draws", type=options.INTEGER, help="Also estimate from this many random schedules.")
@click.option(
    "--output", type=options.FILE, metavar="FILE", help="Also write the rows to this file: .csv, .jsonl or .parquet."
)
@engines.engine
@options.seed
@options.as_json
def expect(
    length: int | None,
    distribution: str | None,
    curve: Path | None,
    monotone: bool,
    estimate_curve: int | None,
    names: list[str],
    steps: list[int],
    draws: int | None,
    output: Path | None,
    engine_name: str,
    workers: int | None,
    address: str | None,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Compute the exact expected KL of schedules on a distribution or a loss curve, in nats.

    Lists are separated by commas. The data are a curve in a file (see `unmask plan`) or a distribution, which needs
    --length and what the second column says:

    \b
      reed-solomon    --dimension --alphabet    any DIMENSION tokens determine the rest
      parity          [--alphabet]              one check token
      linear          --dimension --alphabet    random generator matrix, from --seed
      markov          --alphabet --stay         keeps its token with probability STAY
      mixture         --bias                    a coin of bias BIAS or 1 - BIAS
      latent-parity                             one shared bit and a parity check

    \b
    Examples:
      unmask expect --distribution reed-solomon --length 2000 --dimension 1995 --alphabet 2048 \\
                    --size tc,even --steps 50,500
      unmask expect --distribution markov --length 256 --alphabet 2 --stay 0.9 \\
                    --size even,cosine,tc,dtc --steps 16,32,64
      unmask expect --distribution mixture --length 500 --bias 0.1 --size dtc,even --steps 20 --draws 10000
      unmask expect --distribution linear --length 500 --dimension 480 --alphabet 2 --estimate-curve 400 \\
                    --size tc,minimax-tc --steps 32
      unmask expect --curve validation-loss.csv --monotone --size even,minimax-min,optimal --steps 16,32
      unmask expect --distribution markov --length 4096 --alphabet 2 --stay 0.9 --size even,tc,dtc \\
                    --steps 64,128,256,512 --draws 100000 --engine ray --output rows.parquet

    The exact curve of a linear code of more than 22 tokens is out of reach: --estimate-curve averages over random
    orders instead, and every error then has a standard error.

    JSON: distribution {name (or "curve" and file), options, entropy, tc, dtc} and rows of size, steps, expected_kl, tc,
    dtc; with --draws also estimate and standard_error; with --estimate-curve also curve_error, the standard error that
    expected_kl has from the curve, and estimated_from and curve_standard_error of the distribution; with --monotone
    monotone_change, the largest change of the curve.
    """
    check_rows(output, (".csv", ".jsonl", ".parquet"))
    engine = engines.engine_named(engine_name, workers, address)
    rng = np.random.default_rng(seed)
    known = data.read(length, distribution, curve, monotone, estimate_curve, parameters, rng=rng)
    if known is None:
        raise check.InputError("", "Say what the data are: --distribution with its options, or --curve FILE")
    loss = known.curve
    if draws is not None:
        check.integer("draws", draws, least=2)
    schedules = [(name, size_family(name, loss)(count)) for name in names for count in steps]
    for _, schedule in schedules:
        schedule.mean_sizes(loss.length)  # refuses more steps than tokens before any work is done
    streams = rng.spawn(len(schedules))
    shards = [(name, schedule, stream) for (name, schedule), stream in zip(schedules, streams, strict=True)]
    with progress() as bar, engines.working(engine):
        task = bar.add_task("Computing", total=len(schedules) * (draws or 1))
        rows = engine.map(_Expected(known, draws), shards, lambda shard, done: bar.advance(task, done))
    if output is not None:
        write_rows(rows, output)
    if as_json:
        measures = {"entropy": loss.entropy, "tc": loss.total_correlation, "dtc": loss.dual_total_correlation}
        print_json({"distribution": {**known.record, **measures}, "rows": rows})
        return
    screen = terminal()
    screen.print(known.title, style="bold", markup=False)
    screen.print(f"TC {number(loss.total_correlation)} nats, DTC {number(loss.dual_total_correlation)} nats")
    for note in known.notes:
        screen.print(note)
    screen.print(_table(rows, steps))
    if len(names) > 1:
        screen.print("[dim]* smallest for its number of steps[/dim]")
    if output is not None:
        screen.print(f"Written: {output}", soft_wrap=True, markup=False)


@dataclass(frozen=True, eq=False)
class _Expected:
    """Work on shards: the name of a size, the schedule, and its own source of randomness. A shard is a row."""

    known: data.Data
    draws: int | None

    def __call__(self, shard: tuple[str, size.Blind, np.random.Generator], report: Report) -> dict[str, Any]:
        name, schedule, rng = shard
        loss = self.known.curve
        row: dict[str, Any] = {
            "size": name,
            "steps": schedule.steps,
            "expected_kl": evaluate.expected_kl(schedule, loss),
            "tc": loss.total_correlation,
            "dtc": loss.dual_total_correlation,
        }
        if (spread := self.known.standard_error(schedule)) is not None:
            row["curve_error"] = spread
        if self.draws is None:
            report(1)
            return row
        (estimate,) = evaluate.sampled_kl(schedule, [loss], self.draws, rng=rng, progress=report)
        return row | {"estimate": estimate.mean, "standard_error": estimate.standard_error}


def _number(value: float) -> str:
    return "0" if abs(value) < ROUNDING else number(value)


def _table(rows: list[dict[str, Any]], steps: list[int]) -> Table:
    sampled = "estimate" in rows[0]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("steps", justify="right")
    table.add_column("size")
    table.add_column("expected KL (nats)", justify="right")
    estimated = "curve_error" in rows[0]
    if estimated:
        table.add_column("± s.e. of curve", justify="right")
    if sampled:
        table.add_column("Monte Carlo", justify="right")
        table.add_column("standard error", justify="right")
    for count in steps:
        group = [row for row in rows if row["steps"] == count]
        best = min(row["expected_kl"] for row in group)
        for row in group:
            wins = len(group) > 1 and row["expected_kl"] == best
            exact = _number(row["expected_kl"])
            cells = [str(count), row["size"], f"[bold green]{exact} *[/bold green]" if wins else f"{exact}  "]
            if estimated:
                cells.append("0" if row["curve_error"] < ROUNDING else f"{row['curve_error']:.2g}")
            if sampled:
                # Fixed sizes have no spread; what rounding leaves of it is not worth a column.
                error = row["standard_error"] if row["standard_error"] > 1e-12 * row["estimate"] else 0.0
                cells += [number(row["estimate"]), f"{error:.2g}"]
            table.add_row(*cells)
        table.add_section()
    return table
