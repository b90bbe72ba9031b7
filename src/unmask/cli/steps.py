"""`unmask steps`: how many steps a target error needs, by theorem and exactly."""

import math
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from rich import box
from rich.progress import Progress
from rich.table import Table

from unmask import bounds, evaluate, gauge, size
from unmask.cli import options
from unmask.cli.names import build_distribution, size_family
from unmask.cli.output import number, print_json, progress, terminal
from unmask.curve import Curve

_DEFAULT = ("tc", "dtc", "even", "cosine")


@click.command()
@click.option("--length", type=options.INTEGER, required=True, help="Number of tokens.")
@click.option("--target", type=options.NUMBER, required=True, help="Expected KL to reach, in nats.")
@click.option("--tc", type=options.NUMBER, help="Total correlation of the data, in nats.")
@click.option("--dtc", type=options.NUMBER, help="Dual total correlation of the data, in nats.")
@options.distribution(required=False)
@click.option(
    "--size",
    "names",
    type=options.SIZE_LIST,
    metavar="NAMES",
    help=f"With a distribution; {','.join(_DEFAULT)} by default.",
)
@options.seed
@options.as_json
def steps(
    length: int,
    target: float,
    tc: float | None,
    dtc: float | None,
    distribution: str | None,
    names: list[str] | None,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Find the fewest steps that reach a target error.

    Give what is known of the data: --tc, --dtc or both, or a distribution with its options (see `unmask expect`).
    From TC and DTC follow guarantees for every such distribution: by the paper's theorem, by its simplified
    complexity, and exactly. A distribution also gives the fewest steps of each schedule on that very distribution.

    \b
    Examples:
      unmask steps --length 2000 --tc 38.12 --target 0.1
      unmask steps --length 2000 --tc 500 --dtc 20 --target 0.5 --json
      unmask steps --distribution markov --length 256 --alphabet 2 --stay 0.9 --target 1

    JSON: length, target, tc, dtc, guaranteed (rows of size, theorem, simplified, exact), measured (rows of size, steps,
    expected_kl; empty without a distribution), recommendation.
    """
    curve = None
    if distribution is None:
        _refuse_without_distribution(parameters, names)
        if tc is None and dtc is None:
            raise ValueError("Say what is known of the data: --tc, --dtc, or --distribution with its options.")
    else:
        if tc is not None or dtc is not None:
            raise ValueError("A distribution has its own TC and DTC. Leave out --tc and --dtc, or --distribution.")
        given = {"length": length, **parameters}
        curve = build_distribution(distribution, given, rng=np.random.default_rng(seed)).curve()
        tc, dtc = curve.total_correlation, curve.dual_total_correlation
    guaranteed = _guarantees(length, tc, dtc, target)
    measured = [] if curve is None else _measure(names or list(_DEFAULT), curve, target)
    advice = _advice(length, tc, dtc, target, guaranteed, measured)
    if as_json:
        print_json(
            {
                "length": length,
                "target": target,
                "tc": tc,
                "dtc": dtc,
                "guaranteed": guaranteed,
                "measured": measured,
                "recommendation": advice,
            }
        )
        return
    screen = terminal()
    screen.print(f"[bold]Fewest steps for {_nats(target)} at length {length}[/bold]\n")
    screen.print(f"For every distribution with {_known(tc, dtc)}:")
    table = Table("size", box=box.SIMPLE_HEAD)
    for heading in ("by theorem", "simplified", "exactly"):
        table.add_column(heading, justify="right")
    for row in guaranteed:
        simplified, exact = f"≈ {math.ceil(row['simplified'])}", f"[bold]{row['exact']}[/bold]"
        table.add_row(row["size"], str(row["theorem"]), simplified, exact)
    screen.print(table)
    if measured:
        screen.print(f"On this distribution ({distribution}):")
        table = Table("size", box=box.SIMPLE_HEAD)
        table.add_column("steps", justify="right")
        table.add_column("expected KL (nats)", justify="right")
        for row in measured:
            table.add_row(row["size"], f"[bold]{row['steps']}[/bold]", number(row["expected_kl"]))
        screen.print(table)
    screen.print(advice)


def _nats(value: float) -> str:
    return f"{value:g} {'nat' if value == 1 else 'nats'}"


def _known(tc: float | None, dtc: float | None) -> str:
    parts = [f"{label} {number(value)}" for label, value in (("TC", tc), ("DTC", dtc)) if value is not None]
    return " and ".join(parts)


def _refuse_without_distribution(parameters: dict[str, float | None], names: list[str] | None) -> None:
    idle = [f"--{name}" for name, value in parameters.items() if value is not None] + (["--size"] if names else [])
    if idle:
        raise ValueError(f"Without --distribution there is no use for {' and '.join(idle)}. Leave it out.")


def _guarantees(length: int, tc: float | None, dtc: float | None, target: float) -> list[dict[str, Any]]:
    rows = []
    if tc is not None:
        rows.append(
            {
                "size": "tc",
                "theorem": bounds.steps_for_tc(length, tc, target),
                "simplified": bounds.complexity_tc(length, tc, target),
                "exact": evaluate.fewest_steps_guaranteed(size.TC, gauge.tc(length), tc, target),
            }
        )
    if dtc is not None:
        rows.append(
            {
                "size": "dtc",
                "theorem": bounds.steps_for_dtc(length, dtc, target),
                "simplified": bounds.complexity_dtc(length, dtc, target),
                "exact": evaluate.fewest_steps_guaranteed(size.DTC, gauge.dtc(length), dtc, target),
            }
        )
    return rows


def _measure(names: list[str], curve: Curve, target: float) -> list[dict[str, Any]]:
    rows = []
    with progress() as bar:
        for name in names:
            family = size_family(name)
            # Some families are scanned step by step, so that the bar can follow the number of steps tried.
            count = evaluate.fewest_steps(_watched(family, bar, name, curve.length), curve, target)
            kl = evaluate.expected_kl(family(count), curve)
            rows.append({"size": name, "steps": count, "expected_kl": kl})
    return rows


def _watched(family: type[size.Blind], bar: Progress, name: str, length: int) -> Callable[[int], size.Blind]:
    task = bar.add_task(name, total=length)

    def make(count: int) -> size.Blind:
        bar.update(task, completed=count)
        return family(count)

    return make


def _advice(
    length: int,
    tc: float | None,
    dtc: float | None,
    target: float,
    guaranteed: list[dict[str, Any]],
    measured: list[dict[str, Any]],
) -> str:
    fewest = min(row["exact"] for row in guaranteed)
    if tc is not None and dtc is not None:
        name = "tc" if isinstance(bounds.choose(length, fewest, tc, dtc).size, size.TC) else "dtc"
    else:
        name = guaranteed[0]["size"]
    if fewest == length:
        advice = f"No guarantee below {length} steps: at this target, reveal one token at a time."
    else:
        advice = (
            f"Take '{name}' with {fewest} steps: {_nats(target)} or less for every distribution with {_known(tc, dtc)}."
        )
    if measured:
        best = min(measured, key=lambda row: row["steps"])
        advice += f" If the data follow this very distribution, '{best['size']}' needs {best['steps']} steps"
        fixed = not size_family(best["size"]).monotone
        advice += "; fixed sizes may owe such a count to their alignment with the length." if fixed else "."
    return advice
