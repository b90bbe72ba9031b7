"""`unmask demo`: the newcomer's first minute.

A text written step by step by each built-in model, what schedules cost the one that takes them all, and then the exact
theory: the error of schedules on three distributions.
"""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from unmask import evaluate, plot, size
from unmask.calibration import Calibration, forecast, one_by_one
from unmask.cli import options
from unmask.cli.group import wants_json
from unmask.cli.output import progress, terminal
from unmask.cli.report import Column, Report, Row, best, dim, grid, plain, title, words
from unmask.distribution import Markov, ReedSolomon
from unmask.schedule import Schedule
from unmask.words.inputs import BUILTIN, CAUSAL, shipped_calibration
from unmask.words.outputs import staged
from unmask.words.schedules import order_named, order_title, size_family
from unmask.words.sentences import bits, error, number

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models import Model

_LENGTH, _STEPS = 256, 32
_SWEEP = (8, 12, 16, 24, 32, 48, 64, 96, 128)
_SIZES = ("even", "cosine", "log-linear", "tc", "dtc", "minimax-min", "optimal")
_FILE = "unmask-demo.png"
_SEED = 3  # of the text

# The second table: orders, sizes and numbers of steps on the built-in model.
_COUNTS = (8, 16, 32, 64)
_PAIRS = (
    ("random", "even"), ("random", "cosine"), ("random", "tc"), ("random", "minimax-min"), ("random", "optimal"),
    ("spread", "even"), ("comb", "even"), ("left-to-right", ""),
)  # fmt: skip
_ONE_BY_ONE = "one by one"

_WRITING = """\
Two built-in models of 6 million parameters each, trained on English text, write 256 characters in 16 evaluations \
instead of 256: sixteen letters per step, one in each segment of sixteen, next to the letters already there ('comb'). \
'causal' was trained only for such steps and computes every letter once; 'builtin' looks both ways, works with any \
schedule, and computes the whole text again at every step.
"""

_COSTS = """\
Bits per character of 'builtin' under several schedules: what a text costs it one letter at a time, plus what it \
loses by revealing letters together in K steps. Most code uses even sizes in random order. Sixteen comb steps cost \
less than revealing all 256 letters one at a time in random order.
"""

_INTRODUCTION = f"""\
A masked diffusion model writes {_LENGTH} tokens in {_STEPS} steps by revealing several tokens at once, each drawn as \
if the others of its step did not exist. This causes an error, the KL divergence between the data and what \
the sampler writes, which is computed exactly here. The schedule says how many tokens each step reveals; no schedule \
is best for all data.
"""

_REMARK = """\
If the dependence is at the end (few check tokens: low TC) or at the beginning (few free tokens: low DTC), fixed sizes \
reveal too much at the wrong moment, unless a step happens to end in the right place. In the first case 'tc' loses \
little, in the second 'dtc', and each guarantees this for any data with that TC or DTC. 'minimax-min' is one schedule \
for both. If the dependence is spread evenly, as in this Markov chain, fixed sizes do better than schedules with \
guarantees. 'optimal' is made for the loss curve of the data and has the lowest error of all. If you can measure a \
curve, use it. If you cannot, use minimax sizes, whose guarantees hold for all data.
"""


@options.command
@click.option(
    "--output", type=options.FOLDER, default=Path(), metavar="DIR",
    help=f"Folder for {_FILE}. [default: the current folder]",
)  # fmt: skip
def demo(output: Path) -> Report:
    """Show how two models write a text and what schedules cost, and save a figure: your first minute with unmask.

    \b
    Examples:
      unmask demo
      unmask demo --output figures
      unmask demo --json

    JSON: length, steps, rows of {distribution, tc, dtc, size, expected_kl}, figure (its path, or null if matplotlib is
    not installed), texts of the built-in models (rows of {model, order, text, seconds, bits_per_token}, where
    bits_per_token is the cost of the text under the model that wrote it) and costs of 'builtin' (rows of {order, size,
    steps, bits_per_token}). Without torch, texts and costs are null.
    """
    screen = None if wants_json() else terminal()
    curves = {
        "code, low TC": ReedSolomon(_LENGTH, _LENGTH - 4, 256).curve(),
        "code, low DTC": ReedSolomon(_LENGTH, 4, 256).curve(),
        "Markov chain": Markov.sticky(2, 0.8, _LENGTH).curve(),
    }
    errors: dict[str, dict[str, list[float]]] = {name: {} for name in curves}
    hindered = _hindered()
    drawn = hindered is None
    with staged(output) if drawn else nullcontext(output) as folder:
        written = _written(screen)
        with progress() as bar:
            for name in bar.track(_SIZES, description="Computing"):
                for data, curve in curves.items():
                    errors[data][name] = evaluate.tradeoff(size_family(name, curve), curve, _SWEEP).tolist()
        if drawn:
            heading = f"Error of seven schedules on {_LENGTH} tokens: without a curve, none is best for all data"
            plot.comparison(_SWEEP, errors, _STEPS, folder / _FILE, heading)
    rows = [
        {
            "distribution": data,
            "tc": curve.total_correlation,
            "dtc": curve.dual_total_correlation,
            "size": name,
            "expected_kl": errors[data][name][_SWEEP.index(_STEPS)],
        }
        for data, curve in curves.items()
        for name in _SIZES
    ]
    figure = str(output / _FILE) if drawn else None
    shown = [
        _INTRODUCTION,
        title(f"Expected KL in nats, {_LENGTH} tokens in {_STEPS} steps"),
        _error_table(rows, list(curves)),
        dim("* smallest error in its column\n"),
        _REMARK,
        plain(f"No figure. {hindered}" if figure is None else f"Figure: {figure}"),
    ]
    record = {"length": _LENGTH, "steps": _STEPS, "rows": rows, "figure": figure, **written}
    return Report(record, shown, next="unmask plan --length 256 --steps 32 --size minimax-min")


def _error_table(rows: list[dict[str, Any]], data: list[str]) -> Any:
    """A line for each size, a column for each distribution, and the dependence of each below."""
    found = {(row["size"], row["distribution"]): row for row in rows}
    least = {name: min(row["expected_kl"] for row in rows if row["distribution"] == name) for name in data}

    def cell(name: str, row: Row) -> str:
        if row["kind"] == 0:
            value = found[row["size"], name]["expected_kl"]
            return best(error(value), value == least[name])
        return f"[dim]{number(found[_SIZES[0], name][row['size']])}  [/dim]"

    lines = [{"size": name, "label": name, "kind": 0} for name in _SIZES]
    lines += [{"size": key, "label": key.upper(), "kind": 1} for key in ("tc", "dtc")]
    columns = [Column(name, lambda row, name=name: cell(name, row)) for name in data]
    return grid([words("schedule", "label"), *columns], lines, section="kind")


def _written(screen: Console | None) -> dict[str, Any]:
    """Texts of the built-in models and what schedules cost, on the screen if there is one; nothing without torch."""
    try:
        from unmask import models
    except ImportError:
        if screen is not None:
            screen.print(
                'No text: torch is not installed. To see texts, run: pip install "unmask[torch]"\n', markup=False
            )
        return {"texts": None, "costs": None}
    if screen is not None:
        screen.print(_WRITING)
    texts = [_text(models.load(name), screen) for name in (CAUSAL, BUILTIN)]
    calibration = shipped_calibration()
    costs = None if calibration is None else _costs(calibration)
    if screen is not None and costs is not None:
        screen.print(_COSTS)
        screen.print(_cost_table(costs))
        screen.print(dim("* smallest in its column; K=256 is one letter at a time. All costs are predicted"))
        screen.print(dim("  from validation text. Without a model, a letter costs 4.75 bits.\n"))
    return {"texts": texts, "costs": costs}


def _text(model: "Model", screen: Console | None) -> dict[str, Any]:
    """A text of a model in its own order, watched as it appears if there is a terminal."""
    from unmask.sample import Sampler
    from unmask.words.own import own_order

    sampler = Sampler(model.predictor, Schedule(size.Even(16), own_order(model)))
    sampler.run((1, model.length), rng=[_SEED])  # what comes first is slower
    begin = time.perf_counter()
    trace = sampler.run((1, model.length), rng=[_SEED])
    seconds = time.perf_counter() - begin
    text, cost = model.codec.decode(trace.tokens[0].tolist()), float(trace.bits_per_token[0])
    if screen is not None:
        if screen.is_terminal:
            from unmask.cli.watch import live

            with live(screen, model.codec, sampler.schedule, 1) as look:
                sampler.run((1, model.length), rng=[_SEED], watch=look)
        words = f"{model.name}: {seconds:.2f} seconds, {cost:.2f} bits per character under the model itself"
        screen.print(title(words))
        screen.print(f"[cyan]{text}[/cyan]\n")
    which = order_title(sampler.schedule.order)
    return {"model": model.name, "order": which, "text": text, "seconds": round(seconds, 3), "bits_per_token": cost}


def _costs(calibration: Calibration) -> list[dict[str, Any]]:
    """Rows of order, size, steps and predicted bits per token, one by one at the end of each order."""

    def row(name: str, how_many: str, steps: int, nats: float) -> dict[str, Any]:
        return {"order": name, "size": how_many, "steps": steps, "bits_per_token": bits(nats, calibration.length)}

    rows: list[dict[str, Any]] = []
    assert calibration.curve is not None  # of the built-in model
    for name, how_many in _PAIRS:
        for steps in _COUNTS if how_many else ():
            sizes = size_family(how_many, calibration.curve)(steps)
            if (cost := forecast(calibration, Schedule(sizes, order_named(name)))) is not None:
                rows.append(row(name, how_many, steps, cost[0]))
    return rows + [row(name, _ONE_BY_ONE, calibration.length, cost) for name, cost in one_by_one(calibration).items()]


def _cost_table(rows: list[dict[str, Any]]) -> Any:
    """The same for people: a line for each schedule, a column for each number of steps, the least in each marked."""
    cells = {(row["order"], row["size"], row["steps"]): row["bits_per_token"] for row in rows}
    least = {
        steps: min(row["bits_per_token"] for row in rows if row["steps"] == steps) for steps in (*_COUNTS, _LENGTH)
    }

    def cell(row: Row, steps: int) -> str:
        how_many = row["sizes"] if steps < _LENGTH else _ONE_BY_ONE
        found = cells.get((row["order"], how_many, steps))
        return "" if found is None else best(f"{found:.3f}", found == least[steps])

    columns = [
        Column("order", lambda row: row["order"].replace("-", " "), left=True),
        words("sizes"),
        *(Column(f"K={steps}", lambda row, steps=steps: cell(row, steps)) for steps in (*_COUNTS, _LENGTH)),
    ]
    return grid(columns, [{"order": name, "sizes": how_many} for name, how_many in _PAIRS], tight=True)


def _hindered() -> str | None:
    """Why no figure can be drawn here, if none can."""
    try:
        plot.require()
    except ImportError as error:
        return str(error)
    return None
