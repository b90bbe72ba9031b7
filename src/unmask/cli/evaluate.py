"""`unmask evaluate`: the exact cost of schedules on texts, by replay."""

import math
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from unmask import models, plot
from unmask._atomic import replacing
from unmask._torch import Tensor, torch
from unmask.calibrate import Calibration
from unmask.calibrate.advice import forecast
from unmask.cli import engines, options, schedules
from unmask.cli import model as shared
from unmask.cli.output import check_place, counted, print_json, progress, terminal
from unmask.cli.rows import check_rows, write_rows
from unmask.engine import SHARD, Engine
from unmask.evaluate import Estimate
from unmask.evaluate.levels import random_order
from unmask.evaluate.likelihood import replays

_POINTS = 32
_COLUMNS = (
    "order", "size", "steps", "nll", "bits_per_token", "standard_error", "excess", "excess_error", "difference",
    "difference_error", "evaluations", "predicted", "predicted_error",
)  # fmt: skip


@click.command()
@shared.source
@shared.unseen
@click.option("--order", "orders", type=schedules.ORDER_LIST, metavar="NAMES", help=schedules.ORDER_HELP)
@click.option(
    "--size", "sizes", type=schedules.SIZE_LIST, metavar="NAMES",
    help=f"{schedules.SIZE_HELP}; with --calibration also optimal and square-root.",
)  # fmt: skip
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", help="Numbers of steps.")
@click.option(
    "--schedule", "files", type=options.FILE, multiple=True, metavar="FILE", help="A schedule from a file; repeatable."
)
@shared.texts
@shared.length
@click.option("--calibration", "measured", type=options.FILE, metavar="FILE", help="Also predict the cost from it.")
@click.option("--no-reference", is_flag=True, help="Do not measure one by one in random order; excess is then null.")
@click.option(
    "--output", type=options.FILE, metavar="FILE",
    help="Also write the rows to this file: JSON lines if it ends in .jsonl, Parquet if in .parquet, else CSV.",
)  # fmt: skip
@click.option("--figure", type=options.FILE, metavar="PNG", help="Also draw bits per token against evaluations.")
@engines.engine
@options.seed
@options.as_json
def evaluate(
    source: shared.Source,
    text: Path,
    orders: list[str] | None,
    sizes: list[str] | None,
    steps: list[int] | None,
    files: tuple[Path, ...],
    count: int | None,
    length: int | None,
    measured: Path | None,
    no_reference: bool,
    output: Path | None,
    figure: Path | None,
    engine_name: str,
    workers: int | None,
    address: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure what schedules cost on a text: the exact K-step negative log-likelihood, by replay.

    Every schedule of the lists is run with the text's own tokens in place of draws. All see the same sequences and
    seeds, so that their differences have small errors. The cost is a total: the model's own error in that order, and
    what parallel steps ignore. The reference for the excess is the same model one by one in random order, estimated
    without bias from 32 evaluations of each sequence (a replay would take one per token). Sizes such as threshold:0.9
    decide the number of steps themselves.

    \b
    Examples:
      unmask evaluate --text held-out.txt --order random,spread,comb --size even --steps 8,16,32
      unmask evaluate --text held-out.txt --order random --size even,cosine,tc,minimax-min --steps 16
      unmask evaluate --text held-out.txt --order confidence --size threshold:0.9,threshold:0.5
      unmask evaluate --text held-out.txt --order comb --size even,optimal --steps 16 --calibration c.json
      unmask evaluate --model my-run --text held-out.txt --schedule schedule.json --json
      unmask evaluate --text held-out.txt --order random,comb --size even --steps 8,16,32 --texts 4096 \\
                      --engine ray --output rows.parquet

    JSON: model, length, texts, seed, reference (nats per sequence one by one in random order, with its standard_error;
    or null), rows of order, size, steps (null where predictions decide), nll (nats per token), bits_per_token,
    standard_error (of nll, over texts), excess (nats per sequence over the reference) and excess_error, difference
    (nats per token over the best row) and difference_error (both paired), evaluations (mean per sequence), predicted
    (nats per token, null where the calibration cannot tell) and predicted_error (its standard error, about).
    """
    if not files and not (orders and sizes):
        raise click.UsageError(f"Missing option '{'--size' if orders else '--order'}'.")
    if files and (bool(orders) != bool(sizes)):
        raise click.UsageError(f"Missing option '{'--size' if orders else '--order'}'.")
    check_rows(output, (".csv", ".jsonl", ".parquet"))
    check_place("figure", figure, (".png", ".svg", ".pdf"))
    if figure is not None:
        plot.require()
    saved = [schedules.described(shared.read_schedule(file)) for file in files]
    engine = engines.engine_named(engine_name, workers, address, source.place)
    calibration = None if measured is None else shared.read_calibration(measured)
    model = source.load_for(length, calibration)
    if calibration is not None and measured is not None:
        shared.check_calibration(calibration, measured, model)
    asked = saved + schedules.table(orders or [], sizes or [], steps or [], model.length, calibration)
    tokens = shared.read_windows(model, text, count)
    with engines.working(engine):
        nll, evaluations, reference = _measure(model, asked, tokens, seed, not no_reference, engine)
    rows = _rows(asked, nll, evaluations, reference, calibration, model.length)
    if output is not None:
        write_rows(rows, output)
    base = None if reference is None else {"nll": float(reference.mean()), "standard_error": _error(reference)}
    if figure is not None:
        level = None if base is None else base["nll"] / model.length / math.log(2)
        with replacing(figure) as path:
            plot.costs(rows, level, path)
    if as_json:
        about = {"model": source.name, "length": model.length, "texts": tokens.shape[0], "seed": seed}
        print_json({**about, "reference": base, "rows": rows})
        return
    _print(rows, base, model, tokens.shape[0], calibration is not None)
    for path in (output, figure):
        if path is not None:
            terminal().print(f"Written: {path}", soft_wrap=True, markup=False)


def _measure(
    model: models.Model, asked: list[schedules.Named], tokens: Tensor, seed: int, with_reference: bool, engine: Engine
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Nats of every text under every schedule, mean evaluations of each, and the reference."""
    count, length = tokens.shape
    reference = None
    with progress() as bar:
        if with_reference:
            first = bar.add_task("one by one", total=count * min(_POINTS, length))
            reference, _ = random_order(
                model.predictor,
                tokens,
                rng=seed,
                points=_POINTS,
                batch=SHARD,
                engine=engine,
                progress=lambda done: bar.advance(first, done),
            )
        # Where predictions decide the number of steps, the length is as many as it can be.
        names = [f"{row.order} {row.size}" + (f" {row.steps}" if row.steps else "") for row in asked]
        totals = [count * (row.steps or length) for row in asked]
        tasks = [bar.add_task(name, total=total) for name, total in zip(names, totals, strict=True)]
        results = replays(
            model.predictor,
            [row.schedule for row in asked],
            tokens,
            rng=torch.Generator().manual_seed(seed),
            batch=SHARD,
            engine=engine,
            progress=lambda number, done: bar.advance(tasks[number], done),
        )
    costs = np.array([result.nll.numpy() for result in results])
    evaluations = np.array([result.mean_evaluations for result in results])
    return costs, evaluations, None if reference is None else reference.numpy()


def _rows(
    asked: list[schedules.Named],
    nll: NDArray[np.float64],
    evaluations: NDArray[np.float64],
    reference: NDArray[np.float64] | None,
    calibration: Calibration | None,
    length: int,
) -> list[dict[str, Any]]:
    best = nll[np.argmin(nll.mean(axis=1))]
    rows = []
    for row, cost, spent in zip(asked, nll, evaluations, strict=True):
        mean = float(cost.mean()) / length
        expected = None if calibration is None else forecast(calibration, row.schedule)
        values = (
            row.order,
            row.size,
            row.steps,
            mean,
            mean / math.log(2),
            _error(cost) / length,
            None if reference is None else float((cost - reference).mean()),
            None if reference is None else _error(cost - reference),
            float((cost - best).mean()) / length,
            _error(cost - best) / length,
            float(spent),
            None if expected is None else expected[0] / length,
            None if expected is None else expected[1] / length,
        )
        rows.append(dict(zip(_COLUMNS, values, strict=True)))
    return rows


def _error(values: NDArray[np.float64]) -> float:
    return Estimate.of(values).standard_error


def _print(
    rows: list[dict[str, Any]], base: dict[str, float] | None, model: models.Model, texts: int, predicted: bool
) -> None:
    screen = terminal()
    title = f"Cost of {counted(len(rows), 'schedule')} on {counted(texts, 'sequence')} of {model.length} tokens"
    screen.print(title, style="bold")
    table = Table("order", "size", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    # One of the two, so that a row fits a narrow terminal; JSON and CSV have both.
    for heading in ("steps", "bits", "over best", "predicted" if predicted else "excess"):
        table.add_column(heading, justify="right")
    least = min(row["nll"] for row in rows)
    bit = math.log(2)
    for row in rows:
        steps = str(row["steps"]) if row["steps"] else f"≈ {row['evaluations']:.0f}"
        bits = f"{row['bits_per_token']:.3f}"
        over = "" if row["nll"] == least else f"{row['difference'] / bit:.3f} ± {row['difference_error'] / bit:.3f}"
        last = "" if row["excess"] is None else f"{row['excess']:.1f} ± {row['excess_error']:.1f}"
        if predicted:
            known = row["predicted"] is not None
            last = f"{row['predicted'] / bit:.3f} ± {row['predicted_error'] / bit:.3f}" if known else ""
        bits = f"[bold]{bits}[/bold]" if row["nll"] == least else bits
        table.add_row(row["order"], row["size"], steps, bits, over, last)
    screen.print(table)
    if base is not None:
        bits, error = base["nll"] / model.length / bit, base["standard_error"] / model.length / bit
        screen.print(f"One by one in random order: {bits:.3f} ± {error:.3f} bits per token.")
    last = (
        "predicted by the calibration" if predicted else "excess in nats per sequence over one by one in random order"
    )
    screen.print(f"[dim]bits per token; {last};[/dim]")
    screen.print("[dim]± one standard error over texts, differences paired[/dim]")
