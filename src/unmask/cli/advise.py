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
from unmask.cli.learned import EVALUATIONS, learned
from unmask.cli.output import terminal
from unmask.cli.report import Column, Report, grid, plain, title, words
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
@options.texts(
    "Measure the model on this text now, which takes minutes. With --dependence: search for a better order on it."
)
@click.option(
    "--target",
    type=options.NUMBER,
    metavar="BITS",
    help="Bits per token you allow above the cost of revealing one token at a time.",
)
@click.option("--steps", type=options.INTEGER, metavar="K", help="Number of steps, if you have already chosen it.")
@click.option(
    "--save",
    type=options.WRITTEN,
    metavar="FILE",
    help="Save the schedule in this file, for `unmask generate --schedule`.",
)
@click.option(
    "--dependence", type=options.FILE, metavar="FILE",
    help="Learn an order from a file written by `unmask calibrate --dependence`. This needs --steps.",
)  # fmt: skip
@click.option("--layout", metavar="HxW", help="With --dependence: also try orders for a grid, such as 28x28.")
@click.option(
    "--evaluations", type=options.INTEGER, metavar="N",
    help="With --dependence and texts (--text or --data): number of evaluations that the search may spend on each "
    f"text. [default: {EVALUATIONS}]",
)  # fmt: skip
@options.length
@options.seed
def advise(
    source: Source,
    calibration: Path | None,
    texts: Texts,
    target: float | None,
    steps: int | None,
    save: Path | None,
    dependence: Path | None,
    layout: str | None,
    evaluations: int | None,
    length: int | None,
    seed: int,
) -> Report:
    """Recommend a schedule: how many steps, which order and which sizes.

    The target is how many bits per token you are willing to lose by revealing tokens in parallel. It is relative to the
    lowest cost of revealing one token at a time among the orders that were measured. The advice is the schedule with
    the fewest steps that meets the target on the texts that were measured, or, with --steps, the best schedule with
    that many steps. `advise` also considers rules that look at predictions, if you measured them with `unmask calibrate
    --rules`. The comparison is fair: such a rule is considered only if, on average, its evaluations do not exceed the
    number of steps by more than one percent. The predicted cost is that of new texts at temperature 1, not of the texts
    used to choose the schedule. If it misses the target, the command says by how much. If you decode greedily or count
    correct answers, also try rules that look at predictions, and use your own score to compare them with the advice.
    Such a rule can be better than its cost suggests.

    The built-in models come with a calibration on English text. For any other model, give --calibration, or texts to
    measure it on (--text or --data). A schedule written by --save computes its sizes from the number of tokens to fill,
    so it works for any prompt and any length. If it takes fewer steps on a short text, `unmask generate` says so.

    With --dependence, the advice is an order learned from measured dependence: even sizes in --steps steps, with
    dependent positions in different steps. Such an order works for only one number of tokens. Pairs of positions do not
    tell you everything, and on English text a comb beats an order learned from pairs alone. So give texts as well, with
    --text or --data. The order is then improved on half of them and compared with comb, spread and random order on the
    other half. The improved order becomes the advice only if, on that other half, it is cheaper than the best of these
    three by more than the noise; otherwise the best of the three is the advice. The search evaluates each of its texts
    up to --evaluations times. With 32 texts and 'builtin', that takes about three minutes on one core. Without texts,
    the command cannot make this comparison: run `unmask evaluate --schedule` before you use the order.

    \b
    Examples:
      unmask advise --target 0.05
      unmask advise --calibration calibration.json --target 0.05
      unmask advise --calibration calibration.json --steps 16 --save schedule.json
      unmask advise --model my-run --text held-out.txt --target 0.1 --json
      unmask advise --model my-run --data rows.jsonl --steps 8 --save schedule.json
      unmask advise --dependence d.json --steps 16 --text held-out.txt --save schedule.json
      unmask advise --dependence d.json --steps 16 --save schedule.json
    Then, with the model that was measured:
      unmask generate --model my-run --schedule schedule.json

    JSON: model (null without --model, unless the calibration is of 'builtin'), length (tokens to fill in the
    longest text), tokens (the same, on average), target, reference {order, bits_per_token}, steps, order, size, how
    ("forecast" or "measured"), evaluations, sizes (null if predictions decide them), bits_per_token (expected on other
    texts), error (its standard error), exact_error (true if error is the spread over texts, false if it is
    approximate), above (bits per token over the reference), above_error (its standard error, paired, or null), texts,
    optimism (bits per token by which the cost on these texts is too low because the schedule was chosen on them, or
    null), runner_up {order, difference_error, bits_per_token, steps_for_target} (the best other schedule that does not
    look at predictions, or null), even_random {bits_per_token, steps_for_target} or null, candidates (rows of {order,
    size, evaluations, bits_per_token (on the texts used to choose), error, how}), schedule, saved, advice. If
    steps_for_target is null, no number of steps meets the target.

    JSON with --dependence: model, length, texts, steps, sizes, sets (the positions of each step; null for random
    order), ignored (rows of {order, nats}: the measured dependence between positions of the same step), kept (the
    standard order that is advised because no learned order was clearly better, or null), compared (rows of {order,
    bits_per_token, error}, on the held-out texts), gain (bits per token that the learned order saves there compared
    with the best standard order), gain_error, searched and held_out (numbers of texts), evaluations (of each text, in
    the search), seconds, schedule, saved, advice. Without texts, the fields from 'compared' to 'seconds' are null.
    """
    if dependence is not None:
        useless = (("calibration", calibration), ("target", target))
        if other := next((name for name, given in useless if given is not None), None):
            raise check.InputError(
                "", f"{{{other}}} cannot be used with {{dependence}}", remedy=f"Leave out {{{other}}}."
            )
        _check_texts(texts)
        if texts.none and evaluations is not None:
            raise check.lacking("evaluations", "{text} or {data}")
        return learned(
            source, dependence, steps, layout, save, length, seed, texts=texts, evaluations=evaluations, named=_named()
        )
    for option, given in (("layout", layout), ("evaluations", evaluations)):
        if given is not None:
            raise check.lacking(option, "{dependence}")
    if calibration is not None and not texts.none:
        other = "{text}" if texts.data is None else "{data}"
        raise check.InputError("", f"Give either {{calibration}} or {other}, not both")
    if target is None and steps is None:
        raise check.InputError("", "Either {target} or {steps} must be given")
    _check_texts(texts)
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
    measured = calibration is not None or not texts.none  # else these are English texts, where such rules do not help
    if measured and all(rule.schedule.blind for rule in found.rules.values()):
        said.append(sentences.NO_RULES)
    about = {"model": source.name if known else None, "length": found.length, "tokens": found.tokens, "target": target}
    saved = {"saved": None if save is None else str(save), "advice": " ".join(said)}
    record = {**about, **sentences.advice_record(advice, found.tokens), **saved}
    of = source.words if _named() else f"--model {BUILTIN}" if known else "--model MODEL"
    following = f"add --save schedule.json to this command, and then run: unmask generate {of} --schedule schedule.json"
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
        "[dim]Costs are on the texts used for the choice. On other texts, the advised schedule costs about what is "
        "said above.[/dim]\n",
    ]


def _check_texts(texts: Texts) -> None:
    """Refuse a number of texts where there are none."""
    if texts.none and texts.count is not None:
        raise check.InputError("", "{texts} needs {text} or {data}", remedy="Give one of them, or leave out {texts}.")


def _named() -> bool:
    """Whether --model was given at all."""
    return click.get_current_context().get_parameter_source("model") is not ParameterSource.DEFAULT


def _is_of(found: Calibration, file: Path, source: Source, length: int | None) -> bool:
    """Whether the calibration is one of the model. Advice needs no model, so only one that was named must be right."""
    if length is not None and length != found.length:
        raise check.InputError("length", f"be {found.length}, as in the calibration", found=f"{length}")
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
            raise check.InputError(
                "",
                "This model comes without a calibration",
                remedy="Give one with {calibration}, or measure the model now with {text} or {data}.",
            )
        if length is not None and length != found.length:
            raise check.InputError("length", f"be {found.length}, as in the calibration", found=f"{length}")
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
