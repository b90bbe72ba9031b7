"""`unmask steps`: how many steps a target error needs, by theorem and exactly."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.progress import Progress
from rich.table import Table

from unmask import _check as check
from unmask import bounds, evaluate, gauge, size
from unmask.cli import data, options
from unmask.cli.names import SIZES, Family, size_family
from unmask.cli.output import number, print_json, progress, terminal
from unmask.information.curve import Curve

_DEFAULT = ("tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "even", "cosine", "optimal")
_LONG = 4096  # the table of optimal paths for every number of steps would grow beyond a gigabyte


@click.command()
@click.option("--target", type=options.NUMBER, required=True, help="Expected KL to reach, in nats.")
@click.option("--tc", type=options.NUMBER, help="Total correlation of the data, in nats.")
@click.option("--dtc", type=options.NUMBER, help="Dual total correlation of the data, in nats.")
@options.data()
@click.option(
    "--size",
    "names",
    type=options.SIZE_LIST,
    metavar="NAMES",
    help=f"With a distribution or curve; {','.join(_DEFAULT)} by default ('optimal' up to length {_LONG}).",
)
@options.seed
@options.as_json
def steps(
    target: float,
    tc: float | None,
    dtc: float | None,
    length: int | None,
    distribution: str | None,
    curve: Path | None,
    monotone: bool,
    estimate_curve: int | None,
    names: list[str] | None,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Find the fewest steps that reach a target error.

    Give what is known of the data: --tc, --dtc or both, a distribution with its options (see `unmask expect`), or a
    loss curve (see `unmask plan`). From TC and DTC follow guarantees for every such distribution: by the paper's
    theorem, by its simplified complexity, and exactly, for the paper's sizes and for the minimax ones, the best there
    are. A distribution or curve also gives the fewest steps of each schedule on that very distribution.

    \b
    Examples:
      unmask steps --length 2000 --tc 38.12 --target 0.1
      unmask steps --length 2000 --tc 500 --dtc 20 --target 0.5 --json
      unmask steps --distribution markov --length 256 --alphabet 2 --stay 0.9 --target 1
      unmask steps --curve validation-loss.csv --monotone --target 5

    JSON: length, target, tc, dtc, guaranteed (rows of size, theorem, simplified, exact; the first two are null for
    minimax sizes, and simplified for target 0), measured (rows of size, steps, expected_kl; empty without a
    distribution or curve), recommendation; with a distribution or curve also data.
    """
    known = data.read(
        length, distribution, curve, monotone, estimate_curve, parameters, rng=np.random.default_rng(seed)
    )
    if known is None:
        if names:
            raise check.InputError(
                "", "Without --distribution or --curve there is no use for --size", remedy="Leave it out."
            )
        if tc is None and dtc is None:
            raise check.InputError(
                "", "Say what is known of the data: --tc, --dtc, --distribution with its options, or --curve FILE"
            )
        length = data.required_length(length)
    else:
        if tc is not None or dtc is not None:
            what = "--distribution" if curve is None else "--curve"
            raise check.InputError(
                "",
                "A distribution has its own TC and DTC, and so has a curve",
                remedy=f"Leave out --tc and --dtc, or {what}.",
            )
        length = known.curve.length
        tc, dtc = known.curve.total_correlation, known.curve.dual_total_correlation
    guaranteed = _guarantees(length, tc, dtc, target)
    measured = [] if known is None else _measure(names or _default(length), known.curve, target)
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
                **({} if known is None else {"data": known.record}),
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
        theorem = "" if row["theorem"] is None else str(row["theorem"])
        simplified = "" if row["simplified"] is None else f"≈ {math.ceil(row['simplified'])}"
        table.add_row(row["size"], theorem, simplified, f"[bold]{row['exact']}[/bold]")
    screen.print(table)
    if known is not None:
        screen.print(f"On {known.title}:", markup=False)
        for note in known.notes:
            screen.print(note)
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


def _default(length: int) -> list[str]:
    return [name for name in _DEFAULT if name != "optimal" or length <= _LONG]


def _guarantees(length: int, tc: float | None, dtc: float | None, target: float) -> list[dict[str, Any]]:
    """What is promised for all data with that TC and DTC: the paper's sizes, then the minimax ones."""
    papers, best = [], []
    if tc is not None:
        theorem = bounds.steps_for_tc(length, tc, target)
        simplified = _where_it_holds(bounds.complexity_tc, length, tc, target)
        papers.append(_row("tc", size.TC, gauge.tc, length, tc, target, theorem, simplified))
        best.append(_minimax("tc", gauge.tc, length, tc, target))
    if dtc is not None:
        theorem = bounds.steps_for_dtc(length, dtc, target)
        simplified = _where_it_holds(bounds.complexity_dtc, length, dtc, target)
        papers.append(_row("dtc", size.DTC, gauge.dtc, length, dtc, target, theorem, simplified))
        best.append(_minimax("dtc", gauge.dtc, length, dtc, target))
    if tc is not None and dtc is not None:
        best.append(_minimax("min", gauge.both, length, min(tc, dtc), target))
        best.append(_minimax("sum", gauge.total, length, tc + dtc, target))
    return papers + best


def _where_it_holds(complexity: Callable[[int, float, float], float], length: int, dependence: float, target: float):
    """The simplified complexity; None where it says nothing: for no error at all, or for a single token."""
    if target == 0 or length == 1:
        return None
    value = complexity(length, dependence, target)
    return value if math.isfinite(value) else None


def _minimax(name: str, measure: Any, length: int, dependence: float, target: float) -> dict[str, Any]:
    family = partial(size.Minimax, gauge=measure)
    return _row(f"minimax-{name}", family, measure, length, dependence, target, None, None)


def _row(
    name: str,
    family: Family,
    measure: Any,
    length: int,
    dependence: float,
    target: float,
    theorem: int | None,
    simplified: float | None,
) -> dict[str, Any]:
    exact = evaluate.fewest_steps_guaranteed(family, measure(length), dependence, target)
    return {"size": name, "theorem": theorem, "simplified": simplified, "exact": exact}


def _measure(names: list[str], curve: Curve, target: float) -> list[dict[str, Any]]:
    rows = []
    with progress() as bar:
        for name in names:
            family = size_family(name, curve)
            # Some families are scanned step by step, so that the bar can follow the number of steps tried.
            count = evaluate.fewest_steps(_watched(family, bar, name, curve.length), curve, target)
            kl = evaluate.expected_kl(family(count), curve)
            rows.append({"size": name, "steps": count, "expected_kl": kl})
    return rows


def _watched(family: Family, bar: Progress, name: str, length: int) -> Family:
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
    row = min(guaranteed, key=lambda row: row["exact"])
    if row["exact"] == length > 1:
        advice = f"No schedule of fewer than {length} steps can promise this target: reveal one token at a time."
    else:
        data_with = f"every distribution with {_known(tc, dtc)}"
        advice = f"Take '{row['size']}' with {row['exact']} steps: {_nats(target)} or less for {data_with}."
    if measured:
        best = min(measured, key=lambda row: (row["steps"], row["expected_kl"]))
        advice += f" If the data follow this very distribution, '{best['size']}' needs {best['steps']} steps"
        lucky = best["size"] in SIZES and not SIZES[best["size"]](1).monotone
        advice += "; fixed sizes may owe such a count to their alignment with the length." if lucky else "."
    return advice
