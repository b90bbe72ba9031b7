"""`unmask demo`: the newcomer's first minute.

A text written step by step by the built-in model, what schedules cost that model, and then the exact theory: the error
of schedules on three distributions.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from unmask import evaluate, plot
from unmask.cli import options
from unmask.cli.names import size_family
from unmask.cli.output import ROUNDING, number, print_json, progress, staged, terminal
from unmask.distribution import Markov, ReedSolomon

_LENGTH, _STEPS = 256, 32
_SWEEP = (8, 12, 16, 24, 32, 48, 64, 96, 128)
_SIZES = ("even", "cosine", "log-linear", "tc", "dtc", "minimax-min", "optimal")
_FILE = "unmask-demo.png"

_WRITING = """\
The built-in model, 6 million parameters that know English letters, writes 256 characters in 16 evaluations instead of \
256: sixteen letters a step, one in each stretch of sixteen, each beside what is already there ('comb')."""

_COSTS = """\
Bits per character of that model under several schedules: its own error, plus what is lost by revealing letters \
together in K steps. Everyone copies the even split in random order; the comb in 16 steps beats it one by one."""

_INTRODUCTION = f"""\
A masked diffusion model writes {_LENGTH} tokens in {_STEPS} steps by revealing several tokens at once, each drawn as \
if the others of its batch did not exist. What they should have known of each other is lost: the KL divergence \
between the data and what the sampler writes, computed here exactly. How many tokens each step reveals is the \
schedule; without knowing the data, none is best."""

_REMARK = """\
Where dependence sits at the end (few check tokens: low TC) or at the beginning (few free tokens: low DTC), fixed \
sizes reveal too much at the wrong moment unless a cut happens to fall right, while 'tc' or 'dtc' lose little and \
guarantee as much for any data of that TC or DTC. 'minimax-min' is one schedule for both. Where dependence is spread \
evenly, as in this Markov chain, fixed sizes do better than such guarantees. 'optimal' is made for the loss curve of \
the data and wins over all: with a curve, use it; without one, minimax is what holds for all data."""


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help=f"Folder for {_FILE}; the current one by default.",
)
@options.as_json
def demo(output: Path, as_json: bool) -> None:
    """Watch a text being written, see what schedules cost, and a figure: the first minute with unmask.

    \b
    Examples:
      unmask demo
      unmask demo --output figures
      unmask demo --json

    JSON: length, steps, rows of distribution, tc, dtc, size, expected_kl, figure (a path, or null where matplotlib is
    not installed), text and costs of the built-in model (rows of order, size, steps, bits_per_token; null without
    torch).
    """
    screen = terminal()
    curves = {
        "code, low TC": ReedSolomon(_LENGTH, _LENGTH - 4, 256).curve(),
        "code, low DTC": ReedSolomon(_LENGTH, 4, 256).curve(),
        "Markov chain": Markov.sticky(2, 0.8, _LENGTH).curve(),
    }
    errors: dict[str, dict[str, list[float]]] = {name: {} for name in curves}
    drawn = _can_draw()
    with staged(output) if drawn else nullcontext(output) as folder:
        if not as_json:
            _written(screen)
        with progress() as bar:
            for size in bar.track(_SIZES, description="Computing"):
                for name, curve in curves.items():
                    family = size_family(size, curve)
                    errors[name][size] = evaluate.tradeoff(family, curve, _SWEEP).tolist()
        if drawn:
            title = f"Error of seven schedules on {_LENGTH} tokens: without a curve, none is best for all data"
            plot.comparison(_SWEEP, errors, _STEPS, folder / _FILE, title)
    here = _SWEEP.index(_STEPS)
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "distribution": name,
                "tc": curve.total_correlation,
                "dtc": curve.dual_total_correlation,
                "size": size,
                "expected_kl": errors[name][size][here],
            }
            for name, curve in curves.items()
            for size in _SIZES
        ]
        figure = str(output / _FILE) if drawn else None
        print_json({"length": _LENGTH, "steps": _STEPS, "rows": rows, "figure": figure, **_written(None)})
        return
    screen.print(_INTRODUCTION + "\n")
    screen.print(f"[bold]Expected KL in nats, {_LENGTH} tokens in {_STEPS} steps[/bold]")
    table = Table("schedule", box=box.SIMPLE_HEAD)
    for name in curves:
        table.add_column(name, justify="right")
    best = {name: min(values[here] for values in errors[name].values()) for name in curves}
    for size in _SIZES:
        cells = [(errors[name][size][here], best[name]) for name in curves]
        table.add_row(size, *(_cell(value, value == least) for value, least in cells))
    table.add_section()
    table.add_row("[dim]TC[/dim]", *(f"[dim]{number(curve.total_correlation)}  [/dim]" for curve in curves.values()))
    table.add_row(
        "[dim]DTC[/dim]", *(f"[dim]{number(curve.dual_total_correlation)}  [/dim]" for curve in curves.values())
    )
    screen.print(table)
    screen.print("[dim]* smallest error in its column[/dim]\n")
    screen.print(_REMARK + "\n")
    if drawn:
        screen.print(f"Figure: {output / _FILE}", soft_wrap=True)
    else:
        screen.print('No figure: matplotlib is not installed. To get it: pip install "unmask[plot]"', markup=False)
    screen.print("Next: unmask plan --length 256 --steps 32 --size minimax-min", soft_wrap=True)


def _written(screen: Console | None) -> dict[str, Any]:
    """A text of the built-in model and what schedules cost it, on the screen if there is one; nothing without torch."""
    try:
        from unmask import models
        from unmask.cli import writing
    except ImportError:
        if screen is not None:
            screen.print('No text: torch is not installed. To see some: pip install "unmask[torch]"\n', markup=False)
        return {"text": None, "costs": None}
    model = models.load(models.BUILTIN)
    if screen is not None:
        screen.print(_WRITING + "\n")
    text = writing.write(model, screen)
    calibration = models.calibration_of(model)
    costs = None if calibration is None else writing.costs(calibration)
    if screen is not None:
        screen.print(f"[cyan]{text}[/cyan]\n", highlight=False)
        if costs is not None:
            screen.print(_COSTS + "\n")
            screen.print(writing.table(costs))
            screen.print(
                "[dim]* smallest in its column, predicted from validation text; K=256 is one by one.\n"
                "  A letter costs 4.75 bits if nothing is known.[/dim]\n"
            )
    return {"text": text, "costs": costs}


def _can_draw() -> bool:
    try:
        plot.require()
    except ImportError:
        return False
    return True


def _cell(value: float, wins: bool) -> str:
    shown = number(value) if value > ROUNDING else "0"
    return f"[bold green]{shown} *[/bold green]" if wins else f"{shown}  "
