"""`unmask expect`: the exact error of schedules on a known distribution."""

from typing import Any

import click
import numpy as np
from rich import box
from rich.table import Table

from unmask import check, evaluate
from unmask.cli import options
from unmask.cli.names import build_distribution, size_family
from unmask.cli.output import number, print_json, progress, terminal


@click.command()
@options.distribution(required=True)
@click.option("--length", type=options.INTEGER, required=True, help="Number of tokens.")
@click.option("--size", "names", type=options.SIZE_LIST, metavar="NAMES", required=True, help=options.SIZE_HELP)
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", required=True, help="Numbers of steps.")
@click.option("--draws", type=options.INTEGER, help="Also estimate from this many random schedules.")
@options.seed
@options.as_json
def expect(
    distribution: str,
    length: int,
    names: list[str],
    steps: list[int],
    draws: int | None,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Compute the exact expected KL of schedules on a distribution, in nats.

    Lists are separated by commas. A distribution needs --length and what the second column says:

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

    JSON: distribution {name, options, entropy, tc, dtc} and rows of size, steps, expected_kl, tc, dtc; with --draws
    also estimate and standard_error.
    """
    rng = np.random.default_rng(seed)
    given = {"length": length, **parameters}
    curve = build_distribution(distribution, given, rng=rng).curve()
    if draws is not None:
        check.integer("draws", draws, least=2)
    schedules = [(name, size_family(name)(count)) for name in names for count in steps]
    for _, schedule in schedules:
        schedule.mean_sizes(length)  # refuses more steps than tokens before any work is done
    rows: list[dict[str, Any]] = []
    with progress() as bar:
        task = bar.add_task("Computing", total=len(schedules) * (draws or 1))
        for (name, schedule), stream in zip(schedules, rng.spawn(len(schedules)), strict=True):
            bar.update(task, description=f"{name}, {schedule.steps} steps")
            row: dict[str, Any] = {
                "size": name,
                "steps": schedule.steps,
                "expected_kl": evaluate.expected_kl(schedule, curve),
                "tc": curve.total_correlation,
                "dtc": curve.dual_total_correlation,
            }
            if draws is None:
                bar.advance(task)
            else:
                (estimate,) = evaluate.sampled_kl(
                    schedule, [curve], draws, rng=stream, progress=lambda done: bar.advance(task, done)
                )
                row |= {"estimate": estimate.mean, "standard_error": estimate.standard_error}
            rows.append(row)
    described = {"name": distribution, **{key: value for key, value in given.items() if value is not None}}
    if as_json:
        measures = {"entropy": curve.entropy, "tc": curve.total_correlation, "dtc": curve.dual_total_correlation}
        print_json({"distribution": described | measures, "rows": rows})
        return
    screen = terminal()
    about = ", ".join([distribution, *(f"{key} {value:g}" for key, value in given.items() if value is not None)])
    screen.print(f"[bold]{about}[/bold]")
    screen.print(f"TC {number(curve.total_correlation)} nats, DTC {number(curve.dual_total_correlation)} nats")
    screen.print(_table(rows, steps))
    if len(names) > 1:
        screen.print("[dim]* smallest for its number of steps[/dim]")


def _table(rows: list[dict[str, Any]], steps: list[int]) -> Table:
    sampled = "estimate" in rows[0]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("steps", justify="right")
    table.add_column("size")
    table.add_column("expected KL (nats)", justify="right")
    if sampled:
        table.add_column("Monte Carlo", justify="right")
        table.add_column("standard error", justify="right")
    for count in steps:
        group = [row for row in rows if row["steps"] == count]
        best = min(row["expected_kl"] for row in group)
        for row in group:
            wins = len(group) > 1 and row["expected_kl"] == best
            exact = number(row["expected_kl"])
            cells = [str(count), row["size"], f"[bold green]{exact} *[/bold green]" if wins else f"{exact}  "]
            if sampled:
                # Fixed sizes have no spread; what rounding leaves of it is not worth a column.
                error = row["standard_error"] if row["standard_error"] > 1e-12 * row["estimate"] else 0.0
                cells += [number(row["estimate"]), f"{error:.2g}"]
            table.add_row(*cells)
        table.add_section()
    return table
