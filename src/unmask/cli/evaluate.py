"""`unmask evaluate`: the exact cost of schedules on texts, by replay."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unmask import _check as check
from unmask import plot
from unmask._atomic import replacing
from unmask.calibration import Calibration, forecast
from unmask.cli import options
from unmask.cli.output import progress
from unmask.cli.report import Column, Report, Row, dim, grid, title, words
from unmask.engine import Engine
from unmask.evaluate import Estimate
from unmask.names import RULES
from unmask.words.inputs import read_schedule
from unmask.words.models import Source
from unmask.words.outputs import check_place, check_rows, write_rows
from unmask.words.schedules import NamedSchedule, check_fits, described, table
from unmask.words.sentences import bits, counted
from unmask.words.texts import Texts, about
from unmask.words.unfinished import Unfinished, unfinished
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.evaluate.comparison import Comparison, Cost
    from unmask.models import Model
    from unmask.sequences import Sequences

_BIT = math.log(2)
_NAMES = 23  # letters of order and size beside which there is room for all columns


@options.command
@options.model
@options.texts()
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
    texts: Texts,
    orders: list[str] | None,
    sizes: list[str] | None,
    steps: list[int] | None,
    rules: list[str] | None,
    files: tuple[Path, ...],
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

    Of rows of --data only what is to be filled is scored: the answer to a prompt, or a text but for what is given of
    it. Bits per token are those of all rows over the tokens scored in them. A schedule with more steps than a row has
    tokens to fill takes one step for each. With --output a command that was killed goes on where it was when it is
    given again: schedules that were measured are kept.

    \b
    Examples:
      unmask evaluate --text held-out.txt --order random,spread,comb --size even --steps 8,16,32
      unmask evaluate --text held-out.txt --order random --size even,cosine,tc,minimax-min --steps 16
      unmask evaluate --text held-out.txt --order confidence --size threshold:0.9,threshold:0.5
      unmask evaluate --text held-out.txt --rule maskgit,mdlm,fast-dllm,eb-sampler --steps 16
      unmask evaluate --text held-out.txt --order comb --size even,optimal --steps 16 --calibration c.json
      unmask evaluate --model my-run --text held-out.txt --schedule schedule.json --json
      unmask evaluate --model my-run --data other.jsonl --schedule schedule.json
      unmask evaluate --text held-out.txt --order random,comb --size even --steps 8,16,32 --texts 4096 \\
                      --engine ray --output rows.parquet

    JSON: model, length (tokens to fill in a text, in the one that has most), tokens (the mean of those scored), texts,
    too_long (rows left out), seed, reference (nats per sequence one by one in random order, with its standard_error;
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
    texts.required()
    saved = [described(read_schedule(file)) for file in files]

    engine = workers.on(source.place)
    model, known = source.measured(length, calibration, whole=texts.data is not None)
    taken = texts.collected(model, seed)
    most = int(taken.sequences.counts.max())
    schedules = [*saved, *table(orders or [], sizes or [], steps or [], most, known)]
    for name in rules or []:
        schedules += table([RULES[name].order], [RULES[name].size], steps or [], most, known)
    for named, file in zip(saved, files, strict=False):
        check_fits(named.schedule, file, taken.sequences.counts.tolist())
    with ExitStack() as stack:
        kept = None if output is None else stack.enter_context(
            unfinished(output, _task(model, schedules, taken.sequences, seed, not no_reference))
        )  # fmt: skip
        with check.blamed("model", "be usable", source.name, parts=False), working(engine):
            found = _measure(model, schedules, taken.sequences, seed, not no_reference, engine, kept)
        tokens = float(found.tokens.mean())
        rows = [_row(named, cost, known, tokens) for named, cost in zip(schedules, found.costs, strict=True)]
        if output is not None and kept is not None:
            write_rows(rows, output)
            kept.remove()
    one = None if found.reference is None else Estimate.of(found.reference)
    base = None if one is None else {"nll": one.mean, "standard_error": one.standard_error}
    if figure is not None:
        with replacing(figure) as path:
            plot.costs(rows, None if base is None else bits(base["nll"], tokens), path)
    record = {
        "model": source.name,
        "length": most,
        "tokens": tokens,
        "texts": len(taken),
        "too_long": taken.long,
        "seed": seed,
        "reference": base,
        "rows": rows,
    }
    shown = _shown(record, known is not None, about(taken))
    return Report(record, shown, written=[output, figure], note=taken.note)


def _task(
    model: "Model", schedules: list[NamedSchedule], tokens: "Sequences", seed: int, reference: bool
) -> dict[str, Any]:
    """What is being done, so that nothing else is taken for it."""
    from unmask.calibration import blank

    known = blank(model.fingerprint, tokens, seed)
    return {
        "command": "evaluate",
        "model": known.model,
        "text, data or seed": known.source,
        "schedule": [row.schedule.to_json() for row in schedules],
        "reference": reference,
    }


def _measure(
    model: "Model",
    schedules: list[NamedSchedule],
    tokens: "Sequences",
    seed: int,
    reference: bool,
    engine: Engine,
    kept: Unfinished | None,
) -> "Comparison":
    """What the schedules cost, with a bar for each; where rows are kept, one schedule after the other."""
    from unmask.evaluate.comparison import POINTS, Comparison, compare

    count, length = len(tokens), int(tokens.counts.max())
    with progress() as bar:
        tasks = {-1: bar.add_task("one by one", total=count * min(POINTS, length), visible=reference)}
        for number, row in enumerate(schedules):
            name = f"{row.order} {row.size}" + (f" {row.steps}" if row.steps else "")
            # Where predictions decide the number of steps, the length is as many as it can be.
            tasks[number] = bar.add_task(name, total=count * (row.steps or length))

        def measured(some: list[NamedSchedule], first: int = 0) -> Comparison:
            return compare(
                model.predictor,
                [row.schedule for row in some],
                tokens,
                rng=seed,
                reference=reference and first == 0,
                end=model.codec.end,
                engine=engine,
                progress=lambda number, done: bar.advance(tasks[number if number < 0 else number + first], done),
            )

        if kept is None:
            return measured(schedules)
        for number in range(kept.done, len(schedules)):
            kept.add([measured([schedules[number]], number).to_json()])
        return Comparison.joined([Comparison.from_json(row) for row in kept.rows()])


def _row(named: NamedSchedule, cost: "Cost", calibration: Calibration | None, length: float) -> dict[str, Any]:
    expected = None if calibration is None else forecast(calibration, named.schedule)
    theirs = length if calibration is None else calibration.tokens
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
        "predicted": None if expected is None else expected[0] / theirs,
        "predicted_error": None if expected is None else expected[1] / theirs,
    }


def _shown(record: Row, predicted: bool, texts: str) -> list[Any]:
    rows, base, length = record["rows"], record["reference"], record["tokens"]
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
    heading = f"Cost of {counted(len(rows), 'schedule')} on {texts}"
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
