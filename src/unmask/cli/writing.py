"""The first half of the demo: the built-in model writes a text, and what schedules cost it."""

import math
from contextlib import ExitStack
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from unmask import models, order, size
from unmask.calibrate import Calibration
from unmask.calibrate import advice as advise
from unmask.cli.names import size_family
from unmask.cli.watch import frames
from unmask.sample import Sampler
from unmask.schedule import Schedule

STEPS = 16
_COLUMNS = (8, 16, 32, 64)
_ROWS: tuple[tuple[str, order.BlindOrder, str], ...] = (
    ("random", order.Random(), "even"),
    ("random", order.Random(), "cosine"),
    ("random", order.Random(), "tc"),
    ("random", order.Random(), "minimax-min"),
    ("random", order.Random(), "optimal"),
    ("spread", order.Spread(), "even"),
    ("comb", order.Comb(), "even"),
)


def write(model: models.Model, screen: Console | None, seed: int = 3) -> str:
    """One text from the model in a few comb steps, letter by letter on the screen if there is one."""
    schedule = Schedule(size.Even(STEPS), order.Comb())
    sampler = Sampler(model.predictor, schedule)
    with ExitStack() as stack:
        look = None
        if screen is not None and screen.is_terminal:
            live = stack.enter_context(Live(console=screen, auto_refresh=False, transient=True))
            look = frames(screen, live, model.codec, schedule, 1)
        trace = sampler.run((1, model.length), rng=[seed], watch=look)
    return model.codec.decode(trace.tokens[0].tolist())


def costs(calibration: Calibration) -> list[dict[str, Any]]:
    """Rows of order, size, steps and predicted bits per token, one by one at the end of each order."""
    rows = []
    assert calibration.random is not None  # of the built-in model
    curve = calibration.random.curve
    for name, which, how_many in _ROWS:
        family = size_family(how_many, curve)
        for steps in _COLUMNS:
            cost = advise.forecast(calibration, Schedule(family(steps), which))
            if cost is not None:
                rows.append(_row(name, how_many, steps, cost[0], calibration.length))
    for name, cost in advise.one_by_one(calibration).items():
        rows.append(_row(name, "one by one", calibration.length, cost, calibration.length))
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    """The same for people: a line for each schedule, a column for each number of steps, the least in each marked."""
    cells = {(row["order"], row["size"], row["steps"]): row["bits_per_token"] for row in rows}
    result = Table(
        "order", "sizes", *(f"K={steps}" for steps in _COLUMNS), "K=256", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in result.columns[2:]:
        column.justify = "right"
    least = {steps: min(bits for (_, _, k), bits in cells.items() if k == steps) for steps in _COLUMNS}
    one_by_one = min(bits for (_, s, _), bits in cells.items() if s == "one by one")
    for name, _, how_many in _ROWS:
        line = [cells.get((name, how_many, steps)) for steps in _COLUMNS]
        marked = [_cell(bits, bits == least[steps]) for bits, steps in zip(line, _COLUMNS, strict=True)]
        whole = next((bits for (o, s, _), bits in cells.items() if o == name and s == "one by one"), None)
        result.add_row(name, how_many, *marked, _cell(whole, whole == one_by_one))
    whole = next((bits for (o, s, _), bits in cells.items() if o == "left-to-right" and s == "one by one"), None)
    result.add_row("left to right", "", *[""] * len(_COLUMNS), _cell(whole, whole == one_by_one))
    return result


def _row(name: str, how_many: str, steps: int, nats: float, length: int) -> dict[str, Any]:
    return {"order": name, "size": how_many, "steps": steps, "bits_per_token": nats / (length * math.log(2))}


def _cell(bits: float | None, wins: bool) -> str:
    if bits is None:
        return ""
    return f"[bold green]{bits:.3f} *[/bold green]" if wins else f"{bits:.3f}  "
