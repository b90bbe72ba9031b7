"""`unmask evaluate`: the exact cost of schedules on texts, by replay."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unmask import _check as check
from unmask import plot
from unmask._atomic import replacing
from unmask.calibration import Calibration, forecast
from unmask.cli import options
from unmask.cli.output import progress
from unmask.cli.report import Column, Report, Row, grid, title, words
from unmask.engine import Engine
from unmask.names import RULES
from unmask.schedule import Schedule
from unmask.words.inputs import read_schedule
from unmask.words.models import Source
from unmask.words.outputs import check_place, check_rows, write_rows
from unmask.words.schedules import NamedSchedule, check_fits, described, table
from unmask.words.sentences import counted, scored
from unmask.words.slots import Slot, check_allowed, constrained, slots_said, to_json
from unmask.words.texts import Texts, about
from unmask.words.unfinished import Unfinished, unfinished
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.evaluate.comparison import Comparison, Cost
    from unmask.models import Model
    from unmask.sequences import Sequences

_BIT = math.log(2)
_ORDERS, _SIZES, _STEPS = ("random", "comb"), ("even",), (8, 16, 32)  # where nothing is said
_NAMES = 23  # letters of order and size beside which there is room for all columns


@options.command
@options.model
@options.texts()
@click.option(
    "--order", "orders", type=options.Listed(options.ORDER), metavar="NAMES",
    help=f"One or more of {options.ORDERS_HELP}",
)  # fmt: skip
@click.option(
    "--size", "sizes", type=options.Listed(options.SIZE), metavar="NAMES",
    help=f"One or more of {options.SIZES_HELP}; with --calibration, also optimal or square-root.",
)  # fmt: skip
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", help=options.STEPS_HELP)
@click.option(
    "--rule",
    "rules",
    type=options.Listed(options.RULE),
    metavar="NAMES",
    help=f"One or more published rules {options.RULES_HELP}",
)
@click.option(
    "--schedule",
    "files",
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="Evaluate the schedule in this file. You can repeat this option.",
)
@options.length
@options.allow
@click.option("--calibration", type=options.FILE, metavar="FILE", help="Also predict the costs from this calibration.")
@click.option(
    "--no-reference",
    is_flag=True,
    help="Do not measure the cost of revealing one token at a time in random order; excess is then null.",
)
@click.option("--verify", is_flag=True, help="Also forecast how many evaluations `unmask generate --verify` takes.")
@click.option(
    "--output", type=options.WRITTEN, metavar="FILE",
    help="Also write the rows to this file: .csv, .jsonl or .parquet.",
)  # fmt: skip
@click.option(
    "--figure", type=options.WRITTEN, metavar="FILE",
    help="Also draw bits per token against evaluations, as .png, .svg or .pdf.",
)  # fmt: skip
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
    allow: tuple[str, ...],
    calibration: Path | None,
    no_reference: bool,
    verify: bool,
    output: Path | None,
    figure: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
    """Measure what schedules cost on a text: the exact negative log-likelihood in a given number of steps.

    The command replays the text under every schedule that you choose: it reveals the text's own tokens instead of
    drawing new ones. Separate the items of a list with commas. If you choose no schedule, the command compares two
    orders, random and comb, each with even sizes in 8, 16 and 32 steps. All schedules use the same sequences and seeds,
    so the differences between their costs have small standard errors. The cost has two parts: what the text costs this
    model if it is revealed one token at a time in the order of the schedule, and what you lose by revealing tokens in
    parallel. The excess is how much more a schedule costs than the reference: revealing one token at a time in random
    order with the same model. The cost of the reference is an unbiased estimate from 32 evaluations of each sequence; a
    replay would need one evaluation per token. Sizes such as threshold:0.9 choose the number of steps themselves.

    A model that is causal in the schedule, such as 'causal', scores all steps of a text in one evaluation, unless the
    schedule looks at predictions. The result is the same as with one evaluation per step. For such a model, the
    reference uses one random order per sequence.

    With --verify, each schedule that does not look at predictions also gets a forecast: how many evaluations `unmask
    generate --verify` would take for texts like these, to sample from exactly the same distribution as a run that
    reveals one token at a time.

    With --allow, the command scores the sampler that draws only the tokens you allow (`unmask generate --allow`). The
    scored positions of the texts must then contain no other tokens.

    In rows of --data, only what the model has to fill in is scored: the answer to a prompt, or all of a text except
    what is given. Bits per token is the cost of all rows, divided by the number of tokens scored in them. If a schedule
    has more steps than a row has tokens to fill, that row takes one step per token. With --output, the rows of finished
    schedules are saved. If the command is interrupted, run it again, and it continues from there.

    \b
    Examples:
      unmask evaluate --text held-out.txt
      unmask evaluate --text held-out.txt --order random,spread,comb --size even --steps 8,16,32
      unmask evaluate --text held-out.txt --order random --size even,cosine,tc,minimax-min --steps 16
      unmask evaluate --text held-out.txt --order confidence --size threshold:0.9,threshold:0.5
      unmask evaluate --text held-out.txt --rule maskgit,mdlm,fast-dllm,eb-sampler --steps 16
      unmask evaluate --text held-out.txt --order comb --size even,optimal --steps 16 --calibration c.json
      unmask evaluate --model causal --text held-out.txt --order whole-comb --size even --steps 16 --verify
      unmask evaluate --model my-run --text held-out.txt --schedule schedule.json --json
      unmask evaluate --model my-run --data other.jsonl --schedule schedule.json
      unmask evaluate --text held-out.txt --order random,comb --size even --steps 8,16,32 --texts 4096 \\
                      --engine ray --output rows.parquet

    JSON: model, length (tokens to fill in the longest text), tokens (scored per text, on average), texts, too_long
    (rows skipped), seed, reference {bits_per_token, standard_error, passes (evaluations of each text)} (for one token
    at a time in random order) or null, and rows. With --allow, there is also the field allow (positions and what is
    allowed there).

    A row begins with order, size, steps (the number in --steps or in the saved schedule, which may differ from the
    number taken; null if predictions decide it) and file (of a saved schedule, or null). The following fields are in
    bits per token: bits_per_token and standard_error (over texts), excess (over the reference) and excess_error,
    difference (from the row that is best on these texts) and difference_error (excess and difference are paired text by
    text), predicted (null if the calibration cannot predict the cost) and predicted_error (approximate). The other
    fields are evaluations (the steps taken to write a sequence, on average), passes (to score a sequence: 1 if one pass
    scores all steps, otherwise the same number as evaluations) and tokens_per_evaluation (valid tokens divided by
    evaluations, each summed over all sequences; valid tokens are those before the end token, if there is one). With
    --verify, there are also verified (the number of evaluations forecast for a verified sequence; null if the schedule
    looks at predictions) and verified_error (its standard error over texts).
    """
    if orders or sizes or not (rules or files):
        orders, sizes = orders or list(_ORDERS), sizes or list(_SIZES)
    elif steps and not rules:
        remedy = "Leave out {steps}, or give {order} or {size} as well."
        raise check.InputError("", "{schedule} sets the order, the sizes and the steps", remedy=remedy)
    check_rows(output, (".csv", ".jsonl", ".parquet"))
    check_place("figure", figure, (".png", ".svg", ".pdf"))
    if figure is not None:
        plot.require()
    texts.required()
    slots = slots_said(allow)
    if slots and calibration is not None:
        raise check.InputError("", "{allow} cannot be used with {calibration}", remedy="Leave out one of them.")
    saved = [replace(described(read_schedule(file)), file=file) for file in files]

    engine = workers.on(source.place)
    model, known = source.measured(length, calibration, whole=texts.data is not None)
    taken = texts.collected(model, seed)
    if slots:
        model = constrained(model, slots, int(taken.sequences.lengths.max()))
        check_allowed(model, taken.sequences)
    most = int(taken.sequences.counts.max())
    steps = steps or [count for count in _STEPS if count <= most] or [most]
    schedules = [*saved, *table(orders or [], sizes or [], steps, most, known)]
    for name in rules or []:
        schedules += table([RULES[name].order], [RULES[name].size], steps, most, known)
    for named, file in zip(saved, files, strict=True):
        check_fits(named.schedule, file, taken.sequences.counts.tolist())
    with ExitStack() as stack:
        kept = None if output is None else stack.enter_context(
            unfinished(output, _task(model, schedules, taken.sequences, seed, not no_reference) | _said(slots))
        )  # fmt: skip
        with check.blamed("model", "be usable", source.name, parts=False), working(engine):
            found = _measure(model, schedules, taken.sequences, seed, not no_reference, engine, kept)
        tokens = float(found.tokens.mean())
        rows = [_row(named, cost, known) for named, cost in zip(schedules, found.costs, strict=True)]
        if verify:
            for named, row in zip(schedules, rows, strict=True):
                row |= _verified(model, named.schedule, taken.sequences, seed, engine)
        if output is not None and kept is not None:
            write_rows(rows, output, ("file",))
            kept.remove()
    one = found.one_by_one
    base = None
    if one is not None:
        from unmask.evaluate.comparison import reference_passes

        passes = reference_passes(model.predictor, taken.sequences)
        base = {"bits_per_token": one.mean / _BIT, "standard_error": one.standard_error / _BIT, "passes": passes}
    if figure is not None:
        with replacing(figure) as path:
            plot.costs(rows, None if base is None else base["bits_per_token"], path)
    record = {
        "model": source.name,
        "length": most,
        "tokens": tokens,
        "texts": len(taken),
        "too_long": taken.long,
        "seed": seed,
        "reference": base,
        "rows": rows,
        **_said(slots),
    }
    shown = _shown(record, known is not None, about(taken))
    return Report(record, shown, written=[output, figure], note=taken.note)


def _said(slots: Sequence[Slot]) -> dict[str, Any]:
    """What is allowed, if anything was said of it."""
    return {"allow": to_json(slots)} if slots else {}


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
    from unmask.calibration.shards import finite
    from unmask.evaluate.comparison import Comparison, compare, reference_passes
    from unmask.evaluate.likelihood import at_once

    count, length = len(tokens), int(tokens.counts.max())
    with progress() as bar:
        total = count * reference_passes(model.predictor, tokens)
        tasks = {-1: bar.add_task("one by one", total=total, visible=reference)}
        for number, row in enumerate(schedules):
            name = f"{row.order} {row.size}" + (f" {row.steps}" if row.steps else "")
            # Where predictions decide the number of steps, the length is as many as it can be.
            passes = 1 if at_once(model.predictor, row.schedule) else row.steps or length
            tasks[number] = bar.add_task(name, total=count * passes)

        def measured(some: list[NamedSchedule], first: int = 0) -> Comparison:
            found = compare(
                model.predictor,
                [row.schedule for row in some],
                tokens,
                rng=seed,
                reference=reference and first == 0,
                end=model.codec.end,
                engine=engine,
                progress=lambda number, done: bar.advance(tasks[number if number < 0 else number + first], done),
            )
            finite(found.nll)
            return found

        if kept is None:
            return measured(schedules)
        for number in range(kept.done, len(schedules)):
            kept.add([measured([schedules[number]], number).to_json()])
        return Comparison.joined([Comparison.from_json(row) for row in kept.rows()])


def _row(named: NamedSchedule, cost: "Cost", calibration: Calibration | None) -> dict[str, Any]:
    expected = None if calibration is None else forecast(calibration, named.schedule)
    unit = _BIT if calibration is None else _BIT * calibration.tokens
    return {
        "order": named.order,
        "size": named.size,
        "steps": named.steps,
        "bits_per_token": cost.nll.mean / _BIT,
        "standard_error": cost.nll.standard_error / _BIT,
        "excess": None if cost.excess is None else cost.excess.mean / _BIT,
        "excess_error": None if cost.excess is None else cost.excess.standard_error / _BIT,
        "difference": cost.difference.mean / _BIT,
        "difference_error": cost.difference.standard_error / _BIT,
        "evaluations": cost.evaluations,
        "passes": cost.passes,
        "tokens_per_evaluation": cost.counts.tokens_per_evaluation,
        "predicted": None if expected is None else expected[0] / unit,
        "predicted_error": None if expected is None else expected[1] / unit,
        "file": None if named.file is None else str(named.file),
    }


def _verified(
    model: "Model", schedule: Schedule, tokens: "Sequences", seed: int, engine: Engine
) -> dict[str, float | None]:
    """How many evaluations verified sampling takes; nothing of a schedule that looks at predictions."""
    if not schedule.blind:
        return {"verified": None, "verified_error": None}
    from unmask.evaluate.drafts import verified_evaluations

    with progress() as bar:
        task = bar.add_task("Forecasting verification", total=None)
        expected = verified_evaluations(
            model.predictor, schedule, tokens, rng=seed, engine=engine, progress=lambda done: bar.advance(task, done)
        ).expected
    return {"verified": expected.mean, "verified_error": expected.standard_error}


def _shown(record: Row, predicted: bool, texts: str) -> list[Any]:
    rows, base = record["rows"], record["reference"]
    least = min(row["bits_per_token"] for row in rows)

    def pair(row: Row, key: str, error: str) -> str:
        return "" if row[key] is None else f"{row[key]:.3f} ± {row[error]:.3f}"

    def cost(row: Row) -> str:
        shown = f"{row['bits_per_token']:.3f}"
        return f"[bold]{shown}[/bold]" if row["bits_per_token"] == least else shown

    def over(row: Row) -> str:
        return "" if row["bits_per_token"] == least else pair(row, "difference", "difference_error")

    # As much as fits a narrow terminal; JSON and CSV have everything.
    last = (
        Column("predicted", lambda row: pair(row, "predicted", "predicted_error"))
        if predicted
        else Column("excess", lambda row: pair(row, "excess", "excess_error"))
    )
    both = predicted or base is not None
    checked = any(row.get("verified") is not None for row in rows)
    # The sizes of saved schedules often have the same name, which says little: their files tell them apart.
    rows = [{**row, "size or file": row["file"] or row["size"]} for row in rows]
    names = ("order", "size or file" if any(row["file"] for row in rows) else "size")
    short = not checked and (not both or sum(max(len(row[key]) for row in rows) for key in names) <= _NAMES)
    other = any(row["steps"] not in (None, row["evaluations"]) for row in rows)
    columns = (
        *map(words, names),
        # A schedule may take another number of steps than its name says, as in texts with fewer tokens than steps.
        Column("steps", lambda row: f"{row['evaluations']:.6g}" if row["steps"] else f"≈ {row['evaluations']:.0f}"),
        *([Column("tokens", lambda row: f"{row['tokens_per_evaluation']:.2f}")] if short else []),
        *([Column("verified", lambda row: f"{row['verified']:.1f}" if row["verified"] else "")] if checked else []),
        Column("bits", cost),
        Column("over best", over),
        *([last] if both else []),
    )
    heading = f"Cost of {counted(len(rows), 'schedule')} on {texts}"
    meaning = "excess: cost above one token at a time in random order."
    if predicted:
        meaning = (
            "predicted: cost that the calibration predicts, ± over the calibration's texts. The error that `unmask "
            "advise` states is usually larger, because it also allows for few texts and for the choice of a schedule."
        )
    one_by_one = None
    if base is not None:
        shown = pair(base, "bits_per_token", "standard_error")
        one_by_one = f"One token at a time in random order: {shown} bits per token."
    legend = [
        scored(rows),
        "All costs are in bits per token.",
        "steps: as many as writing a text takes, on average." if other else "",
        "tokens: valid tokens per evaluation." if short else "",
        meaning if both else "",
        "verified: evaluations that `unmask generate --verify` would take." if checked else "",
        "±: one standard error over texts; differences are paired.",
        "over best: cost above the row that is best on these texts. Rows close to that one look worse than they are, "
        "by up to one standard error.",
    ]
    return [
        title(heading),
        grid(columns, rows, tight=True),
        one_by_one,
        *(f"[dim]{line}[/dim]" for line in legend if line),
    ]
