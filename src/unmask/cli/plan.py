"""`unmask plan`: what one schedule does, and what it guarantees."""

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

from unmask import _check as check
from unmask import bounds, evaluate, gauge, size
from unmask.cli import data, options
from unmask.cli.names import GAUGE_SIZE, size_family
from unmask.cli.output import abbreviated, counted, number, picture, print_json, terminal
from unmask.information.files import read_gauge
from unmask.schedule import GAUGES

MEASURES = {"tc": "TC", "dtc": "DTC", "min": "min(TC, DTC)", "sum": "(TC + DTC)"}


@click.command()
@click.option("--steps", type=options.INTEGER, required=True, help="Number of steps.")
@click.option("--size", "name", type=options.SIZE, metavar="NAME", help=options.SIZE_HELP)
@click.option("--gauge", "measure", type=options.FILE, metavar="FILE", help="Plan the minimax schedule for this gauge.")
@options.data()
@options.seed
@options.as_json
def plan(
    steps: int,
    name: str | None,
    measure: Path | None,
    length: int | None,
    distribution: str | None,
    curve: Path | None,
    monotone: bool,
    estimate_curve: int | None,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Show the sizes of a schedule and what it guarantees.

    The guarantee is the smallest c such that the expected KL is at most c times the dependence, for every
    distribution of that length: c times its total correlation (tc), its dual total correlation (dtc), the smaller of
    the two (min), or their sum, which is the sum of I(X_i; X_-i) over the tokens (sum). The minimax sizes have the
    smallest c that any schedule can have.

    Sizes 'optimal' and 'square-root' are made for a loss curve: of a distribution (see `unmask expect`) or in a file. A
    curve file holds the loss with 0, 1, ... length-1 tokens visible, in nats: a JSON list, an object with the key
    "loss", or CSV with one number per line or columns n,loss. A gauge file holds length-1 positive numbers.

    \b
    Examples:
      unmask plan --length 2000 --steps 100 --size tc
      unmask plan --length 2000 --steps 100 --size minimax-tc
      unmask plan --steps 16 --size optimal --curve validation-loss.csv --monotone
      unmask plan --steps 16 --gauge gauge.json
      unmask plan --length 1000000 --steps 100000 --size dtc --json > plan.json

    JSON: length, steps, size, mean_sizes (one per step), overhang (expected number of tokens after the i-th in its own
    batch, i = 1 ... length-1), guarantee {tc, dtc, min, sum}, sizes (one draw for --seed); for tc and dtc also
    coefficient (the paper's f) and theorem (the factor of its bound, null where that does not hold); for minimax sizes
    and universal also factor; with a distribution or curve also data and expected_kl.
    """
    chosen = _name(name, measure)
    known = data.read(
        length, distribution, curve, monotone, estimate_curve, parameters, rng=np.random.default_rng(seed)
    )
    length = length if known is None else known.curve.length
    if measure is None:
        length = data.required_length(length)
        schedule = size_family(chosen, None if known is None else known.curve)(steps)
    else:
        values = read_gauge(measure, length=length)
        length = values.values.size + 1
        schedule = size.Minimax(steps, values)
    with terminal(stderr=True).status("Computing the law of the sizes"):
        sizes = schedule.draw(length, rng=np.random.default_rng(seed))[0]
        means = schedule.mean_sizes(length)
        overhang = schedule.overhang(length)
        factors = {key: gauge.guarantee(overhang, make(length)) for key, make in GAUGES.items()}
        promise = promised(schedule, length)
        error = None if known is None else evaluate.expected_kl(schedule, known.curve)
    if as_json:
        on_data = {} if known is None else {"data": known.record, "expected_kl": error}
        if known is not None and (spread := known.standard_error(schedule)) is not None:
            on_data["standard_error"] = spread
        print_json(
            {
                "length": length,
                "steps": steps,
                "size": chosen,
                "mean_sizes": means.tolist(),
                "overhang": overhang.tolist(),
                "guarantee": factors,
                "sizes": sizes.tolist(),
                **promise,
                **on_data,
            }
        )
        return
    screen = terminal()
    screen.print(f"[bold]{chosen}[/bold]: {counted(length, 'token')} in {counted(steps, 'step')}\n")
    for line in picture(means):
        screen.print(line, markup=False, no_wrap=True, crop=False)
    screen.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_row("Mean sizes", abbreviated(np.asarray(means)))
    if isinstance(schedule, size.Planned):
        facts.add_row("", "[dim]the same in every draw[/dim]")
    else:
        facts.add_row("One draw", f"{abbreviated(np.asarray(sizes))}   (seed {seed})")
    screen.print(facts)
    screen.print("\nExpected KL, for every distribution, is at most")
    promises = Table.grid(padding=(0, 1))
    for key, factor in factors.items():
        promises.add_row(" ", f"[bold]{number(factor)}[/bold]", f"× {MEASURES[key]}", _remark(key, schedule, promise))
    if measure is not None:
        promises.add_row(" ", f"[bold]{number(promise['factor'])}[/bold]", "× Σ gauge · drops", _best(schedule))
    screen.print(promises)
    if isinstance(schedule, size.Universal):
        screen.print(
            f"\nFactor {number(promise['factor'])}: the best guarantees that {counted(steps, 'step')} can give for TC, "
            "for DTC and for their sum, each on its own, hold all at once within this factor."
        )
    if known is not None and error is not None:
        screen.print(f"\nExpected KL on {known.title}: [bold]{number(error)}[/bold] nats", soft_wrap=True)
        for note in known.notes:
            screen.print(note)


def _name(name: str | None, measure: Path | None) -> str:
    if measure is not None:
        if name not in (None, GAUGE_SIZE):
            raise check.InputError(
                "", f"With --gauge the size is '{GAUGE_SIZE}', not '{name}'", remedy="Leave out one of the two."
            )
        return GAUGE_SIZE
    if name == GAUGE_SIZE:
        raise check.InputError(
            "",
            f"Size '{GAUGE_SIZE}' is made for a gauge",
            remedy="Give one with --gauge FILE, or take minimax-tc, minimax-dtc, minimax-min or minimax-sum.",
        )
    if name is None:
        raise click.UsageError("Missing option '--size'.")
    return name


def promised(schedule: size.Blind, length: int) -> dict[str, Any]:
    """The paper's own numbers for its own schemes, and the factor of a minimax schedule."""
    if isinstance(schedule, size.Minimax | size.Universal):
        return {"factor": schedule.factor(length)}
    if isinstance(schedule, size.TC):
        return {
            "coefficient": schedule.coefficient(length),
            "theorem": _where_it_holds(bounds.tc_factor, length, schedule),
        }
    if isinstance(schedule, size.DTC):
        return {
            "coefficient": schedule.coefficient(length),
            "theorem": _where_it_holds(bounds.dtc_factor, length, schedule),
        }
    return {}


def _where_it_holds(factor: Any, length: int, schedule: size.Blind) -> float | None:
    try:
        return factor(length, schedule.steps)
    except ValueError:
        return None


def _remark(key: str, schedule: size.Blind, promise: dict[str, Any]) -> str:
    if isinstance(schedule, size.Minimax) and schedule.gauge is GAUGES[key]:
        return _best(schedule)
    mine = (isinstance(schedule, size.TC) and key == "tc") or (isinstance(schedule, size.DTC) and key == "dtc")
    if not mine:
        return ""
    theorem = promise["theorem"]
    holds = (
        "whose theorem does not hold for so few steps" if theorem is None else f"whose theorem says {number(theorem)}"
    )
    return f"[dim]the paper's coefficient, {holds}[/dim]"


def _best(schedule: size.Blind) -> str:
    return f"[dim]the smallest factor that {counted(schedule.steps, 'step')} can have[/dim]"
