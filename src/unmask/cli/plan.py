"""`unmask plan`: what one schedule does, and what it guarantees."""

from typing import Any

import click
import numpy as np
from rich.table import Table

from unmask import bounds, gauge, size
from unmask.cli import options
from unmask.cli.names import size_family
from unmask.cli.output import abbreviated, number, picture, print_json, terminal

_GAUGES = {"tc": gauge.tc, "dtc": gauge.dtc, "min": gauge.both, "sum": gauge.total}
_MEASURES = {"tc": "TC", "dtc": "DTC", "min": "min(TC, DTC)", "sum": "(TC + DTC)"}


@click.command()
@click.option("--length", type=options.INTEGER, required=True, help="Number of tokens.")
@click.option("--steps", type=options.INTEGER, required=True, help="Number of steps.")
@click.option("--size", "name", type=options.SIZE, metavar="NAME", required=True, help=options.SIZE_HELP)
@options.seed
@options.as_json
def plan(length: int, steps: int, name: str, seed: int, as_json: bool) -> None:
    """Show the sizes of a schedule and what it guarantees.

    The guarantee is the smallest c such that the expected KL is at most c times the dependence, for every
    distribution of that length: c times its total correlation (tc), its dual total correlation (dtc), the smaller of
    the two (min), or their sum, which is the sum of I(X_i; X_-i) over the tokens (sum).

    \b
    Examples:
      unmask plan --length 2000 --steps 100 --size tc
      unmask plan --length 16 --steps 4 --size cosine
      unmask plan --length 1000000 --steps 100000 --size dtc --json > plan.json

    JSON: length, steps, size, mean_sizes (one per step), overhang (expected number of tokens after the i-th in its own
    batch, i = 1 ... length-1), guarantee {tc, dtc, min, sum}, sizes (one draw for --seed); for tc and dtc also
    coefficient (the paper's f) and theorem (the factor of its bound, null where that does not hold).
    """
    schedule = size_family(name)(steps)
    with terminal(stderr=True).status("Computing the law of the sizes"):
        sizes = schedule.draw(length, rng=np.random.default_rng(seed))[0]
        means = schedule.mean_sizes(length)
        overhang = schedule.overhang(length)
        factors = {key: gauge.guarantee(overhang, make(length)) for key, make in _GAUGES.items()}
        promise = _paper(schedule, length)
    if as_json:
        print_json(
            {
                "length": length,
                "steps": steps,
                "size": name,
                "mean_sizes": means.tolist(),
                "overhang": overhang.tolist(),
                "guarantee": factors,
                "sizes": sizes.tolist(),
                **promise,
            }
        )
        return
    screen = terminal()
    screen.print(f"[bold]{name}[/bold]: {_count(length, 'token')} in {_count(steps, 'step')}\n")
    for line in picture(means):
        screen.print(line, markup=False, no_wrap=True, crop=False)
    screen.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_row("Mean sizes", abbreviated(np.asarray(means)))
    facts.add_row("One draw", f"{abbreviated(np.asarray(sizes))}   (seed {seed})")
    screen.print(facts)
    screen.print("\nExpected KL, for every distribution, is at most")
    promises = Table.grid(padding=(0, 1))
    for key, factor in factors.items():
        promises.add_row(" ", f"[bold]{number(factor)}[/bold]", f"× {_MEASURES[key]}", _remark(key, schedule, promise))
    screen.print(promises)


def _count(number_of: int, noun: str) -> str:
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"


def _paper(schedule: size.Blind, length: int) -> dict[str, Any]:
    """The paper's own numbers, for its own schemes."""
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
    mine = (isinstance(schedule, size.TC) and key == "tc") or (isinstance(schedule, size.DTC) and key == "dtc")
    if not mine:
        return ""
    theorem = promise["theorem"]
    holds = (
        "whose theorem does not hold for so few steps" if theorem is None else f"whose theorem says {number(theorem)}"
    )
    return f"[dim]the paper's coefficient, {holds}[/dim]"
