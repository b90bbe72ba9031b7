"""`unmask evaluate`: the exact cost of schedules on texts, by replay."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unmask import _check as check
from unmask import plot
from unmask._atomic import replacing
from unmask.calibrate import Calibration, forecast
from unmask.cli import options
from unmask.cli.output import progress
from unmask.cli.report import Column, Report, Row, dim, grid, title, words
from unmask.engine import Engine
from unmask.evaluate import Estimate
from unmask.names import RULES
from unmask.words.inputs import read_schedule
from unmask.words.models import Source, windows
from unmask.words.outputs import check_place, check_rows, write_rows
from unmask.words.schedules import NamedSchedule, described, table
from unmask.words.sentences import bits, counted
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask._torch import Tensor
    from unmask.evaluate.comparison import Comparison, Cost
    from unmask.models import Model

_BIT = math.log(2)
_NAMES = 23  # letters of order and size beside which there is room for all columns


@options.command
@options.model
@options.text
@click.option("--order", "orders", type=options.Listed(options.ORDER), metavar="NAMES", help=options.ORDER_HELP)
@click.option(
    "--size", "sizes", type=options.Listed(options.SIZE), metavar="NAMES",
    help=f"{options.SIZE_HELP}; with --calibration also optimal and square-root.",
)  # fmt: skip
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", help="Numbers of steps.")
@click.option("--rule", "rules", type=options.Listed(options.RULE), metavar="NAMES", help=options.RULE_HELP)
@click.option(
    "--schedule", "files", type=options.FILE, multiple=True, metavar="FILE", help="A schedule from a file; repeatable."
)
@options.texts
@options.length
@click.option("--calibration", type=options.FILE, metavar="FILE", help="Also predict the cost from it.")
@click.option("--no-reference", is_flag=True, help="Do not measure one by one in random order; excess is then null.")
@click.option(
    "--output", type=options.FILE, metavar="FILE",
    help="Also write the rows to this file: .csv, .jsonl or .parquet.",
)  # fmt: skip
@click.option("--figure", type=options.FILE, metavar="PNG", help="Also draw bits per token against evaluations.")
@options.workers
@options.seed
def evaluate(
    source: Source,
    text: Path,
    orders: list[str] | None,
    sizes: list[str] | None,
    steps: list[int] | None,
    rules: list[str] | None,
    files: tuple[Path, ...],
    count: int | None,
    length: int | None,
    calibration: Path | None,
    no_reference: bool,
    output: Path | None,
    figure: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
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
      unmask evaluate --text held-out.txt --rule maskgit,mdlm,fast-dllm,eb-sampler --steps 16
      unmask evaluate --text held-out.txt --order comb --size even,optimal --steps 16 --calibration c.json
      unmask evaluate --model my-run --text held-out.txt --schedule schedule.json --json
      unmask evaluate --text held-out.txt --order random,comb --size even --steps 8,16,32 --texts 4096 \\
                      --engine ray --output rows.parquet

    JSON: model, length, texts, seed, reference (nats per sequence one by one in random order, with its standard_error;
    or null), rows of order, size, steps (null where predictions decide), nll (nats per token), bits_per_token,
    standard_error (of nll, over texts), excess (nats per sequence over the reference) and excess_error, difference
    (nats per token over the row that is best on these texts) and difference_error (both paired), evaluations (mean per
    sequence), tokens_per_evaluation (valid tokens, those scored before the end of their text where it has one, over
    evaluations, both summed over all sequences), predicted (nats per token, null where the calibration cannot tell) and
    predicted_error (its standard error, about).
    """
    if bool(orders) != bool(sizes) or not (orders or rules or files):
        raise check.InputError("size" if orders else "order", "be given", remedy="Or give {rule} or {schedule}.")
    check_rows(output, (".csv", ".jsonl", ".parquet"))
    check_place("figure", figure, (".png", ".svg", ".pdf"))
    if figure is not None:
        plot.require()
    saved = [described(read_schedule(file)) for file in files]

    engine = workers.on(source.place)
    model, known = source.measured(length, calibration)
    schedules = [*saved, *table(orders or [], sizes or [], steps or [], model.length, known)]
    for name in rules or []:
        schedules += table([RULES[name].order], [RULES[name].size], steps or [], model.length, known)
    tokens = windows(model, text, count)
    with check.blamed("model", "be usable", source.name, parts=False), working(engine):
        found = _measure(model, schedules, tokens, seed, not no_reference, engine)
    rows = [_row(named, cost, known, model.length) for named, cost in zip(schedules, found.costs, strict=True)]
    if output is not None:
        write_rows(rows, output)
    one = None if found.reference is None else Estimate.of(found.reference)
    base = None if one is None else {"nll": one.mean, "standard_error": one.standard_error}
    if figure is not None:
        with replacing(figure) as path:
            plot.costs(rows, None if base is None else bits(base["nll"], model.length), path)
    about = {"model": source.name, "length": model.length, "texts": tokens.shape[0], "seed": seed}
    record = {**about, "reference": base, "rows": rows}
    return Report(record, _shown(record, known is not None), written=[output, figure])


def _measure(
    model: "Model", schedules: list[NamedSchedule], tokens: "Tensor", seed: int, reference: bool, engine: Engine
) -> "Comparison":
    """What the schedules cost, with a bar for each."""
    from unmask.evaluate.comparison import POINTS, compare

    count, length = tokens.shape
    with progress() as bar:
        tasks = {-1: bar.add_task("one by one", total=count * min(POINTS, length), visible=reference)}
        for number, row in enumerate(schedules):
            name = f"{row.order} {row.size}" + (f" {row.steps}" if row.steps else "")
            # Where predictions decide the number of steps, the length is as many as it can be.
            tasks[number] = bar.add_task(name, total=count * (row.steps or length))
        return compare(
            model.predictor,
            [row.schedule for row in schedules],
            tokens,
            rng=seed,
            reference=reference,
            end=model.codec.end,
            engine=engine,
            progress=lambda number, done: bar.advance(tasks[number], done),
        )


def _row(named: NamedSchedule, cost: "Cost", calibration: Calibration | None, length: int) -> dict[str, Any]:
    expected = None if calibration is None else forecast(calibration, named.schedule)
    return {
        "order": named.order,
        "size": named.size,
        "steps": named.steps,
        "nll": cost.nll.mean / length,
        "bits_per_token": bits(cost.nll.mean, length),
        "standard_error": cost.nll.standard_error / length,
        "excess": None if cost.excess is None else cost.excess.mean,
        "excess_error": None if cost.excess is None else cost.excess.standard_error,
        "difference": cost.difference.mean / length,
        "difference_error": cost.difference.standard_error / length,
        "evaluations": cost.evaluations,
        "tokens_per_evaluation": cost.counts.tokens_per_evaluation,
        "predicted": None if expected is None else expected[0] / length,
        "predicted_error": None if expected is None else expected[1] / length,
    }


def _shown(record: Row, predicted: bool) -> list[Any]:
    rows, base, length = record["rows"], record["reference"], record["length"]
    least = min(row["nll"] for row in rows)

    def pair(row: Row, key: str, error: str, unit: float, digits: int) -> str:
        return "" if row[key] is None else f"{row[key] / unit:.{digits}f} ± {row[error] / unit:.{digits}f}"

    def cost(row: Row) -> str:
        shown = f"{row['bits_per_token']:.3f}"
        return f"[bold]{shown}[/bold]" if row["nll"] == least else shown

    def over(row: Row) -> str:
        return "" if row["nll"] == least else pair(row, "difference", "difference_error", _BIT, 3)

    # As much as fits a narrow terminal; JSON and CSV have everything.
    last = (
        Column("predicted", lambda row: pair(row, "predicted", "predicted_error", _BIT, 3))
        if predicted
        else Column("excess", lambda row: pair(row, "excess", "excess_error", 1.0, 1))
    )
    both = predicted or base is not None
    short = not both or sum(max(len(row[key]) for row in rows) for key in ("order", "size")) <= _NAMES
    columns = (
        words("order"),
        words("size"),
        Column("steps", lambda row: str(row["steps"]) if row["steps"] else f"≈ {row['evaluations']:.0f}"),
        *([Column("tokens", lambda row: f"{row['tokens_per_evaluation']:.2f}")] if short else []),
        Column("bits", cost),
        Column("over best", over),
        *([last] if both else []),
    )
    heading = f"Cost of {counted(len(rows), 'schedule')} on {counted(record['texts'], 'sequence')} of {length} tokens"
    meaning = (
        "predicted by the calibration" if predicted else "excess in nats per sequence over one by one in random order"
    )
    one_by_one = None
    if base is not None:
        shown = f"{bits(base['nll'], length):.3f} ± {bits(base['standard_error'], length):.3f}"
        one_by_one = f"One by one in random order: {shown} bits per token."
    return [
        title(heading),
        grid(columns, rows, tight=True),
        one_by_one,
        dim(f"{'tokens: valid tokens per evaluation; ' if short else ''}bits: bits per token;"),
        dim(f"{meaning};") if both else None,
        dim("± one standard error over texts, differences paired; best is the row that is"),
        dim("best on these texts, so that near ties look worse by up to one such error"),
    ]
