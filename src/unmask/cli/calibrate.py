"""`unmask calibrate`: measure a model once, so that its best schedules can be computed."""

import hashlib
import math
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from rich import box
from rich.table import Table

from unmask import _check as check
from unmask import models, order, size
from unmask._torch import Tensor
from unmask.calibrate import Calibration, measure
from unmask.calibrate.losses import Losses
from unmask.cli import engines, options, schedules
from unmask.cli import model as shared
from unmask.cli.output import abbreviated, check_place, number, print_json, progress, terminal
from unmask.engine import LOCAL, SHARD, Engine

ORDERS = ("random", "spread", "comb-4", "comb-8", "comb-16", "comb-32")
POINTS = 33
_TABLE = (8, 16, 32, 64)


@click.command()
@shared.source
@shared.unseen
@click.option("--output", type=options.FILE, required=True, metavar="FILE", help="Where to keep it, as JSON.")
@click.option(
    "--orders", type=schedules.ORDER_LIST, default=",".join(ORDERS), show_default=True, metavar="NAMES",
    help="Orders to measure.",
)  # fmt: skip
@shared.texts
@shared.length
@click.option(
    "--points", type=options.INTEGER, default=POINTS, show_default=True, metavar="P",
    help="Places at which random and spread orders are measured; more is finer and slower.",
)  # fmt: skip
@engines.engine
@options.seed
@options.as_json
def calibrate(
    source: shared.Source,
    text: Path,
    output: Path,
    orders: list[str],
    count: int | None,
    length: int | None,
    points: int,
    engine_name: str,
    workers: int | None,
    address: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure the losses of a model under several orders; the best schedule for it is then a computation.

    A comb is measured wherever a tooth begins, other orders at --points places. 'left-to-right' is measured everywhere,
    which takes one evaluation per token and adds its one-by-one likelihood to what `unmask advise` compares with. The
    file is written after every order, and running the command again continues it: orders that it already has, for the
    same model, texts and seed, are kept.

    \b
    Examples:
      unmask calibrate --text held-out.txt --output calibration.json
      unmask calibrate --model my-run --text held-out.txt --output c.json --texts 256
      unmask calibrate --text held-out.txt --output c.json --orders random,comb-16,left-to-right --json
      unmask calibrate --text held-out.txt --output c.json --texts 4096 --engine ray
    Then:
      unmask advise --calibration calibration.json --target 0.05

    JSON: model, length, texts, seconds, orders, measured (those measured now), entropy, tc and dtc of the model (from
    the random order; each with nats per sequence and bits_per_token, null without that order), rows of steps, order,
    sizes, nll (nats per token), bits_per_token, error (the standard error of nll, about); best orders first.
    """
    wanted = {name: schedules.blind_named(name) for name in orders}
    check_place("output", output)
    engine = engines.engine_named(engine_name, workers, address, source.place)
    model = source.load_for(length)
    if click.get_current_context().get_parameter_source("orders") is not ParameterSource.DEFAULT:
        with check.renamed("order", "orders"):
            schedules.check_combs(orders, model.length)
    wanted = {name: kind for name, kind in wanted.items() if schedules.fits(kind, model.length)}
    tokens = shared.read_windows(model, text, count)
    begin = time.perf_counter()
    kept = _kept(output, model, tokens, seed)
    try:
        with engines.working(engine):
            found, done = measured(model, wanted, tokens, seed, points, kept, lambda each: each.save(output), engine)
    except KeyboardInterrupt:
        left = "has what was finished, and the same command goes on" if output.exists() else "was not written"
        raise click.Abort(f"Stopped: '{output}' {left}.") from None
    seconds = time.perf_counter() - begin
    rows = _rows(found)
    facts = _facts(found)
    if as_json:
        about = {"model": source.name, "length": found.length, "texts": found.texts, "seconds": round(seconds, 1)}
        print_json({**about, "orders": list(found.losses), "measured": done, **facts, "rows": rows})
        return
    screen = terminal()
    for name in found.losses if not done else []:
        screen.print(f"Already measured: {name}")
    if facts["entropy"] is not None:
        screen.print(f"[bold]The model on {found.texts} sequences of {found.length} tokens[/bold]\n")
        grid = Table.grid(padding=(0, 2))
        for label, fact in zip(("entropy", "total correlation", "dual total correlation"), facts.values(), strict=True):
            if fact is not None:
                bits = f"{fact['bits_per_token']:.3f} bits per token"
                grid.add_row(f"  {label}", f"{number(fact['nats'])} nats", bits)
        screen.print(grid)
        screen.print("  [dim]one by one in random order, the model's own error included[/dim]\n")
    screen.print("[bold]Best measured schedules[/bold]")
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("steps", "order", "bits/token", "sizes"):
        table.add_column(heading, justify="left" if heading in ("order", "sizes") else "right")
    for steps in _TABLE:
        for row in [row for row in rows if row["steps"] == steps][:2]:
            table.add_row(
                str(steps), row["order"], f"{row['bits_per_token']:.3f}", abbreviated(np.array(row["sizes"]), 8)
            )
    screen.print(table)
    screen.print(f"Written: {output}   ({seconds:.0f} s)", soft_wrap=True, markup=False)
    line = f"Next: unmask advise {source.words} --calibration {shlex.quote(str(output))} --target 0.05"
    screen.print(line, soft_wrap=True, markup=False)


def measured(
    model: models.Model,
    wanted: dict[str, order.BlindOrder],
    tokens: Tensor,
    seed: int,
    points: int,
    kept: Calibration,
    save: Callable[[Calibration], None],
    engine: Engine = LOCAL,
) -> tuple[Calibration, list[str]]:
    """Measure the orders that are missing from `kept`; the whole, and the names of those measured now.

    Arguments:
        model: The model. wanted: Orders by name. tokens: Texts. seed: Seeds the orders. points: Places to measure.
        kept: What is known already. save: Called with everything known after each order. engine: Who does it.
    """
    losses, done = dict(kept.losses), []
    with progress() as bar:
        tasks = {
            name: bar.add_task(name, total=_cost(kind, model.length, points) * tokens.shape[0])
            for name, kind in wanted.items()
            if name not in losses
        }
        for name, task in tasks.items():
            losses[name] = _measure(model, wanted[name], tokens, seed, points, engine, partial(bar.advance, task))
            done.append(name)
            kept = replace(kept, losses=dict(losses), wanted=tuple(dict.fromkeys([*losses, *wanted])))
            save(kept)
    return kept, done


def blank(model: models.Model, tokens: Tensor, seed: int) -> Calibration:
    """A calibration without any order."""
    digest = hashlib.sha256(tokens.cpu().numpy().tobytes() + str(seed).encode()).hexdigest()[:16]
    return Calibration(model.length, model.fingerprint, tokens.shape[0], {}, digest)


def _measure(
    model: models.Model,
    kind: order.BlindOrder,
    tokens: Tensor,
    seed: int,
    points: int,
    engine: Engine,
    report: Callable[[int], None],
) -> Losses:
    length = model.length
    run = partial(measure, model.predictor, kind, tokens, rng=seed, batch=SHARD, engine=engine, progress=report)
    if isinstance(kind, order.LeftToRight):
        return run(points=length, places=range(length))
    # Where the cuts of even sizes fall, so that those can be predicted in orders that have no curve.
    steps = min(length, 1 << max(0, (points - 1).bit_length() - 1))
    places = () if isinstance(kind, order.Random) else np.cumsum(size.Even(steps).sizes(length))[:-1].tolist()
    return run(points=points, places=places)


def _cost(kind: order.BlindOrder, length: int, points: int) -> int:
    """Evaluations of each text."""
    if isinstance(kind, order.Comb):
        return -(-length // min(kind.segments or length, length))
    return length if isinstance(kind, order.LeftToRight) else min(points, length)


def _kept(output: Path, model: models.Model, tokens: Tensor, seed: int) -> Calibration:
    """What the output file has already.

    Raises:
        ValueError: if the file holds something else, or was made for another model, length, text or seed.
    """
    fresh = blank(model, tokens, seed)
    if not output.exists():
        return fresh
    found = shared.read_calibration(output)
    shared.check_calibration(found, output, model, "Choose another --output for this one.")
    if (found.texts, found.source) != (fresh.texts, fresh.source):
        raise check.InputError(
            "",
            f"The calibration '{output}' was made with other texts or another seed",
            remedy="Choose another --output, or give the same --text, --texts and --seed to continue it.",
        )
    return found


def _rows(found: Calibration) -> list[dict[str, Any]]:
    return [
        {
            "steps": steps,
            "order": name,
            "sizes": plan.sizes.tolist(),
            "nll": plan.nll / found.length,
            "bits_per_token": plan.nll / found.length / math.log(2),
            "error": plan.error / found.length,
        }
        for steps in _TABLE
        if steps <= found.length
        for name, plan in found.best(steps)
    ]


def _facts(found: Calibration) -> dict[str, dict[str, float] | None]:
    curve = None if found.random is None else found.random.curve
    if curve is None:
        return {"entropy": None, "tc": None, "dtc": None}
    values = {"entropy": curve.entropy, "tc": curve.total_correlation, "dtc": curve.dual_total_correlation}
    return {key: {"nats": value, "bits_per_token": value / found.length / math.log(2)} for key, value in values.items()}
