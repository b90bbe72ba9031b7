"""`unmask advise`: in plain words, how many steps, which order and which sizes."""

import shlex
import textwrap
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from unmask import _check as check
from unmask.calibration import Calibration
from unmask.calibration import advise as find
from unmask.cli import calibrate as measuring
from unmask.cli import options
from unmask.cli.output import terminal
from unmask.cli.report import Column, Report, dim, grid, plain, title, words
from unmask.words import sentences
from unmask.words.calibrating import usual, wanted_orders
from unmask.words.inputs import BUILTIN, check_calibration, of_one_length, read_calibration, shipped_calibration
from unmask.words.models import Source
from unmask.words.outputs import check_place
from unmask.words.rules import rules_named
from unmask.words.schedules import USUAL_ORDERS
from unmask.words.texts import Texts


@options.command
@options.model
@options.calibration
@options.texts("Or a text, to measure now; this takes minutes.")
@click.option("--target", type=options.NUMBER, metavar="BITS", help="Bits per token allowed above one by one.")
@click.option("--steps", type=options.INTEGER, metavar="K", help="The number of steps, if that is settled.")
@click.option("--save", type=options.FILE, metavar="FILE", help="Write the schedule, for `unmask generate --schedule`.")
@options.length
@options.seed
def advise(
    source: Source,
    calibration: Path | None,
    texts: Texts,
    target: float | None,
    steps: int | None,
    save: Path | None,
    length: int | None,
    seed: int,
) -> Report:
    """Say how many steps to take, in which order and with which sizes.

    The target is what you are ready to lose, in bits per token, against the best one-by-one likelihood among the
    measured orders: the best this model does when nothing is revealed in parallel. The advice is the schedule with the
    fewest steps that is predicted to stay within it, or with --steps the best schedule of so many. Rules that look at
    predictions take part if `unmask calibrate --rules` has measured them, compared at equal evaluations: on average
    they may spend as many as there are steps, and one percent more. What is said of the cost is for other texts than
    those that the schedule was chosen on.

    The built-in model comes with its calibration, on English text; other models need one. What --save writes makes its
    sizes for each number of tokens to fill, and so fits any prompt and any length.

    \b
    Examples:
      unmask advise --target 0.05
      unmask advise --calibration calibration.json --target 0.05
      unmask advise --calibration calibration.json --steps 16 --save schedule.json
      unmask advise --model my-run --text held-out.txt --target 0.1 --json
      unmask advise --model my-run --data rows.jsonl --steps 8 --save schedule.json
    Then:
      unmask generate --schedule schedule.json

    JSON: model (null where a calibration is of an unnamed one), length (tokens to fill in a text, in the one that has
    most), tokens (the mean of them), target, reference {order, bits_per_token}, steps, order, size, how ("forecast" or
    "measured"), evaluations, sizes (null where predictions decide them), bits_per_token (to be expected on other
    texts), error (its standard error), exact_error (whether that is the spread over texts, or only about so much),
    above (bits per token over the reference), above_error (its standard error, paired, or null), texts, optimism (bits
    per token by which a cost on these texts is too low since the schedule was chosen on them, or null), runner_up
    {order, difference_error, bits_per_token, steps_for_target} or null, the best other blind schedule, even_random
    {bits_per_token, steps_for_target} or null, candidates of order, size, evaluations, bits_per_token (on the texts
    they were chosen on), error and how, schedule, saved, advice. A steps_for_target of null means never.
    """
    if calibration is not None and not texts.none:
        ways = f"either {{calibration}} or {'{text}' if texts.data is None else '{data}'}, not both"
        raise check.InputError("", f"Say where the model was measured: {ways}")
    if target is None and steps is None:
        raise check.InputError("", "Say what is wanted: either {target} or {steps}")
    if texts.none and texts.count is not None:
        raise check.InputError("", "Without {text} or {data} there is no use for {texts}", remedy="Leave it out.")
    check_place("save", save)
    if calibration is not None:
        found, note = read_calibration(calibration), ""
        known = _is_of(found, calibration, source, length)
    else:
        found, note, known = *_of(source, texts, length, seed), True
    advice = find(found, target=target, steps=steps)
    if save is not None:
        advice.plan.schedule.save(save)
    said = sentences.advice(advice, found, target)
    about = {"model": source.name if known else None, "length": found.length, "tokens": found.tokens, "target": target}
    saved = {"saved": None if save is None else str(save), "advice": " ".join(said)}
    record = {**about, **sentences.advice_record(advice, found.tokens), **saved}
    of = source.words if _named() else f"--model {BUILTIN}" if known else "--model MODEL"
    following = f"the same with --save schedule.json, for `unmask generate {of} --schedule schedule.json`"
    if save is not None:
        what = f"--length {found.length}" if of_one_length(found) else "--data prompts.jsonl --output answers.jsonl"
        following = f"unmask generate {of} {what} --schedule {shlex.quote(str(save))}"
    width = min(terminal().width, 80) - 1
    lines = [f"{textwrap.fill(sentence, width)}\n" for sentence in said]
    shown = [title(lines[0]), *map(plain, lines[1:]), *(_table(record) if found.rules else [])]
    return Report(record, shown, written=[save], next=following, note=note)


def _table(record: dict[str, Any]) -> list[Any]:
    """All that were compared."""
    columns = (
        words("order"),
        words("size"),
        Column("evaluations", lambda row: f"{row['evaluations']:.1f}"),
        Column("bits/token", lambda row: f"{row['bits_per_token']:.3f}"),
        Column("± error", lambda row: f"{row['error']:.3f}"),
        words("how"),
    )
    most = max(row["evaluations"] for row in record["candidates"])
    return [
        title(f"Compared at {most:.4g} evaluations or fewer"),
        grid(columns, record["candidates"]),
        dim("  on the texts they were chosen on; on others the chosen one costs about what is said above\n"),
    ]


def _named() -> bool:
    """Whether --model was given at all."""
    return click.get_current_context().get_parameter_source("model") is not ParameterSource.DEFAULT


def _is_of(found: Calibration, file: Path, source: Source, length: int | None) -> bool:
    """Whether the calibration is one of the model. Advice needs no model, so only one that was named must be right."""
    if length is not None and length != found.length:
        raise check.InputError("length", f"be that of the calibration, {found.length}", found=f"{length}")
    if not _named():
        shipped = shipped_calibration(source.name)
        return shipped is not None and shipped.model == found.model
    model = source.load_for(None, found)
    check_calibration(found, file, model.length, model.fingerprint)
    return True


def _of(source: Source, texts: Texts, length: int | None, seed: int) -> tuple[Calibration, str]:
    """The calibration of a model, measured now if there are texts, else the one it comes with; and a note on them."""
    if texts.none:
        found = shipped_calibration(source.name)
        if found is None:
            raise check.InputError("", "Say where the model was measured: {calibration}, {text} or {data}")
        if length is not None and length != found.length:
            raise check.InputError("length", f"be that of the calibration, {found.length}", found=f"{length}")
        return found, ""

    model = source.load_for(length, whole=texts.data is not None)
    taken = texts.collected(model, seed)
    tokens = taken.sequences
    orders, rules = usual(model, list(USUAL_ORDERS), [], said=False)
    most = int(tokens.counts.max())
    from unmask.calibration.series import blank

    with check.blamed("model", "be usable", source.name, parts=False):
        kept = blank(model.fingerprint, tokens, seed)
        found = measuring.measured(model, wanted_orders(orders, most), tokens, kept, seed=seed)
        found = measuring.measured_rules(model, rules_named(rules, most), tokens, found, seed=seed)
    return found, taken.note
