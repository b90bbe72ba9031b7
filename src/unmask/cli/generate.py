"""`unmask generate`: text from a model, under any schedule."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import Progress, TaskID

from unmask import _check as check
from unmask._memory import check_memory
from unmask.cli import options
from unmask.cli.group import wants_json
from unmask.cli.output import noted, progress, terminal
from unmask.cli.report import Report, Verbatim
from unmask.engine import SHARD
from unmask.schedule import Schedule
from unmask.size.reactive import Reactive
from unmask.words.inputs import CAUSAL, read_schedule
from unmask.words.models import Source
from unmask.words.outputs import check_rows, write_rows
from unmask.words.own import own_order, own_steps, shortened, unfamiliar
from unmask.words.revisions import order_for, revised
from unmask.words.schedules import build, check_combs, check_fits, words_for
from unmask.words.sentences import per_evaluation
from unmask.words.slots import constrained, slots_said, to_json
from unmask.words.texts import check_column
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from torch import Tensor

    from unmask.sample import Trace, Verified

_BYTES = 64  # of a token in the record of a run, at the least
_NEARLY = 0.99  # of a bar: there may be steps after the last token
_PARTS = (
    "sizes",
    "revealed",
    "bits_per_token",
    "valid_tokens",
    "evaluations",
)  # of the record of a run, for each sequence


@options.command
@options.model_by_default(CAUSAL)
@click.option(
    "--steps", type=options.INTEGER, metavar="K",
    help="Number of steps. [default: the number the model was trained for, otherwise 16]",
)  # fmt: skip
@click.option("--count", type=options.INTEGER, metavar="N", help="Number of sequences. [default: 4]")
@click.option(
    "--order",
    type=options.ORDER,
    metavar="NAME",
    help=f"One of {options.ORDERS_HELP} [default: the order the model was trained for, otherwise comb]",
)
@click.option("--size", type=options.SIZE, metavar="NAME", help=f"One of {options.SIZES_HELP}. [default: even]")
@click.option("--rule", type=options.RULE, metavar="NAME", help=f"A published rule {options.RULES_HELP}")
@click.option(
    "--schedule",
    type=options.FILE,
    metavar="FILE",
    help="Use the schedule in this file instead of --order, --size and --steps.",
)
@click.option("--revise", "revision", type=options.REVISION, metavar="NAME", help=options.REVISION_HELP)
@click.option(
    "--temperature", type=options.NUMBER, default=1.0, show_default=True,
    help="1 samples from the model's own distribution; 0 takes the most likely token.",
)  # fmt: skip
@click.option(
    "--top-p",
    type=options.NUMBER,
    metavar="P",
    help="Draw only from the likeliest tokens, up to this total probability.",
)
@click.option(
    "--length", type=options.INTEGER, metavar="L",
    help="Tokens per sequence. [default: the model's maximum, but at most 256 for Hugging Face models] With --data: "
    "tokens to fill after a prompt without gaps. [default: 128, or half the model's maximum if that is less]",
)  # fmt: skip
@click.option("--prompt", help="Text to complete. Each _, or the model's own mask token, is a gap of one token.")
@click.option(
    "--chat", is_flag=True,
    help="Treat the prompt as a message and write an answer, with the model's chat template. --length is then "
    "the number of tokens in the answer, 128 by default.",
)  # fmt: skip
@click.option("--data", type=options.FILE, metavar="FILE", help=f"File of prompts, one per row: {options.DATA}")
@options.column
@options.allow
@click.option("--watch", is_flag=True, help="Show the text in the terminal as it appears.")
@click.option(
    "--verify", is_flag=True,
    help="Check the tokens of every step, so that texts have exactly the same distribution as if they were written one "
    "token at a time.",
)  # fmt: skip
@click.option(
    "--output", type=options.WRITTEN, metavar="FILE",
    help="Write the sequences to this file instead of the screen: JSON lines (.jsonl) or Parquet (.parquet).",
)  # fmt: skip
@options.workers
@options.seed
def generate(
    source: Source,
    steps: int | None,
    count: int | None,
    order: str | None,
    size: str | None,
    rule: str | None,
    schedule: Path | None,
    revision: str | None,
    temperature: float,
    top_p: float | None,
    length: int | None,
    prompt: str | None,
    chat: bool,
    data: Path | None,
    column: str | None,
    allow: tuple[str, ...],
    watch: bool,
    verify: bool,
    output: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
    """Generate text with a model, or fill the gaps in a prompt.

    Each '_' in a prompt is a gap of one token; the rest of the prompt stays as it is. The text is as long as the
    prompt, unless you set --length: then masked tokens continue the prompt up to that length. Sequence i, counted from
    0, has the seed SEED + i, and the same seed always gives the same sequence. Temperature 1 samples from the model's
    own distribution; any other temperature changes that distribution. For a Hugging Face model, a prompt may instead
    mark gaps with the model's mask token, such as [MASK]; '_' is then an ordinary character.

    The default model is 'causal' here, but 'builtin' in `unmask calibrate`, `advise` and `evaluate`. To use a schedule
    that was chosen for 'builtin', add --model builtin.

    A model that is causal in the schedule, such as 'causal', was trained for certain schedules. By default, it uses the
    order and the number of steps that most of its training was for. You can use another order, or sizes that look at
    predictions; the texts are then worse, and the command prints a note. If you change only the number of steps, it
    prints no note.

    With --verify, the tokens of a step are drafts. One evaluation checks all of them, in order, and drafts the next
    step. Rejection sampling takes some drafts back and draws them again; each draft taken back costs one more
    evaluation. The texts then have exactly the same distribution as texts written one token at a time in the same
    order. With 'causal' and 16 steps, this takes about 23 evaluations instead of 256. To check its drafts, a
    bidirectional model has to run on copies of the text, one for each draft. Verified sampling does not stop early at
    the end of an answer, but what follows the end is not counted.

    With --revise, tokens can be taken back or changed after they have been revealed. 'cap', 'rescale', 'least-sure' and
    'loop' are ReMDM's rules, 'planner' is P2, 'likeliest' is LLaDA's remasking at temperatures above 0, 'verify' is
    WINO, and 'edit' is the rule of LLaDA 2.1. 'gibbs:4' redraws four random tokens after every step, one at a time.
    Revision may need evaluations beyond the steps of the schedule, and these are counted. 'verify' needs one evaluation
    for each token it checks, so a long text takes hundreds. 'planner' and 'likeliest' prefer likely tokens, so they
    write dull texts at temperature 1.

    With --allow, the model draws each token only from those that you allow at its position, with their probabilities
    scaled up to sum to 1. Tokens of the prompt stay as they are. Positions are counted in the text or, with --chat, in
    the answer.

    Some models (LLaDA, Dream) end their answers themselves: they draw an end token like any other. What follows the end
    is neither shown nor counted. A sequence whose answer is complete takes no more evaluations, and this does not
    change the answer. Valid tokens are the tokens drawn before the end. Tokens per evaluation, elsewhere called tokens
    per forward pass (TPF), is the number of valid tokens divided by the number of evaluations, each summed over all
    sequences.

    With --data, every row of the file is a prompt, and the command writes one row for each, in the same order. Row i,
    counted from 0, has the seed SEED + i. If a prompt has gaps ('_'), the model fills them; it extends any other prompt
    by --length tokens. If a row already has an answer, the model writes a new one of the same length. If the model has
    a chat template, the command treats prompts as messages. The command checks all rows before it fills the first, and
    names the line of a row that is invalid or too long for the model. With --output, finished rows are saved in batches
    to a hidden file next to the output file. If the command is interrupted, run it again, and it continues from there.

    \b
    Examples:
      unmask generate --steps 16 --watch
      unmask generate --model builtin --count 2 --seed 7 --order random --size cosine
      unmask generate --steps 16 --verify
      unmask generate --prompt "the ______ of the ______ was a"
      unmask generate --prompt "in the beginning " --length 128 --steps 32
      unmask generate --prompt "in ____ the war" --allow 4-7:aeiou
      unmask generate --model my-run --schedule schedule.json --json
      unmask generate --model builtin --order confidence --size threshold:0.9
      unmask generate --model builtin --rule fast-dllm --temperature 0
      unmask generate --model builtin --steps 32 --revise cap:0.1 --watch
      unmask generate --model hf:bert-base-uncased --prompt "the [MASK] sat on the [MASK]."
      unmask generate --count 100000 --engine ray --output texts.parquet
      unmask generate --schedule schedule.json --data prompts.jsonl --output answers.jsonl
      echo "in the beginning " | unmask generate --data - --length 32

    JSON: model, length, schedule, seconds, texts, seeds, sizes (tokens revealed in each step), revealed (the step of
    each token, counted from 0; -1 if the token was given, -2 if it comes after the end and was not needed),
    bits_per_token (the cost, under the model, of the tokens drawn up to the end), valid_tokens and evaluations (one
    number per sequence), tokens_per_evaluation. With --verify, there is also the field rejected (drafts taken back, per
    sequence). With --revise, versions (for each sequence, the step, position and token of every change; the token is
    null if it was taken back) takes the place of bits_per_token. With --allow, there is also the field allow (positions
    and what is allowed there).

    Each row of --output describes one sequence. Its fields are seed, text, sizes, revealed, bits_per_token,
    valid_tokens and evaluations and, with --verify, also rejected. With --revise, versions takes the place of
    bits_per_token.

    JSON with --data: model, schedule, seconds, count (of rows), continued (rows that an earlier run finished),
    valid_tokens, evaluations, tokens_per_evaluation, output and, without --output, rows. The fields of a row are row
    (its number, counted from 0), line, seed, prompt, text (the whole text, or the answer to a message), answer (what
    the model wrote after the prompt, or null), and the fields of a row of --output above.
    """
    if data is not None:
        _check_alone({"prompt": prompt, "count": count, "watch": watch or None, "allow": allow or None})
        if verify:
            raise check.InputError("", "{verify} cannot be used with {data}", remedy="Leave out one of them.")
    check_column(data, column)
    count = check.integer("count", 4 if count is None else count, least=1)
    _check_draw(temperature, top_p)
    if verify and revision is not None:
        raise check.InputError("", "{verify} cannot be used with {revise}", remedy="Leave out one of them.")
    slots = slots_said(allow)
    word, size = words_for(rule, schedule, order, size, steps)
    word = word or (order_for(revision) if schedule is None else None)
    check_rows(output, (".jsonl", ".parquet"))
    if watch and (wants_json() or workers.engine == "ray"):
        other = "{json}" if wants_json() else "{engine} ray"
        raise check.InputError("", f"{{watch}} cannot be used with {other}", remedy="Leave out {watch}.")
    if verify and (watch or workers.engine == "ray"):
        other = "{watch}" if watch else "{engine} ray"
        raise check.InputError("", f"{{verify}} cannot be used with {other}", remedy="Leave out one of them.")
    chosen = None if schedule is None else read_schedule(schedule)

    from unmask.models.start import start_of
    from unmask.models.text import printable
    from unmask.sample import Counts, Sampler, Verified, draw_for

    engine = workers.on(source.place)
    model = source.load()
    which = word or own_order(model)
    if data is not None:
        from unmask.cli.answers import Filling, answered

        draw = draw_for(temperature, top_p=top_p)
        how = Filling(source.name, steps, which, size, schedule, chosen, revision, draw, seed)
        return answered(model, data, column, length, chat or None, how, output, engine)
    start, first = start_of(model, prompt, length, chat=chat)
    if slots:
        model = constrained(model, slots, start.shape[1], first)
    check_memory(count * start.shape[1] * _BYTES, "count", "Ask for fewer.")
    masked = int((start == model.predictor.mask).sum())
    if chosen is None:
        if prompt is None:  # else there may be less to fill than a comb has segments, which is no mistake
            check_combs([word] if word else [], start.shape[1])
        wanted = own_steps(model) if steps is None else steps
        wanted = min(wanted, masked) if steps is None or prompt is not None else wanted
        chosen = build(which, size, wanted, masked).schedule
    elif schedule is not None:
        check_fits(chosen, schedule, [masked])
    chosen = revised(chosen, revision)
    draw = draw_for(temperature, top_p=top_p)
    with check.renamed("schedule", _blamed(schedule, rule, chosen)):
        verified = Verified(model.predictor, chosen, draw) if verify else None
    noted(unfamiliar(model, chosen))
    noted(shortened(chosen, masked))
    seeds = [seed + row for row in range(count)]
    begin = time.perf_counter()
    sampler = Sampler(model.predictor, chosen, draw, model.stop)
    traces: list[Trace] = []
    with check.blamed("model", "be usable", source.name, parts=False), ExitStack() as stack:
        screen = terminal()
        look = None
        if watch and not wants_json() and screen.is_terminal:
            from unmask.cli.watch import live

            # The frames vanish, and the finished texts are printed in their place.
            look = stack.enter_context(live(screen, model.codec, chosen, count))
        bar = progress()
        bar.disable = bar.disable or look is not None
        task = stack.enter_context(bar).add_task("Generating", total=masked * count)
        seen = 0 if look is None else min(SHARD, count)  # what is watched is the first shard
        if verified is not None:
            seen = count
            traces += _verified(verified, start, seeds, model.codec.end, bar, task)
        if look is not None:
            traces.append(sampler.run(start.expand(seen, -1), rng=seeds[:seen], watch=look))
        stack.enter_context(working(engine))
        traces += sampler.batches(
            start.expand(count - seen, -1),
            rng=seeds[seen:],
            engine=engine,
            progress=_advancing(bar, task, masked * count, revises=chosen.revision is not None),
        )
    seconds = time.perf_counter() - begin
    texts = [text for trace in traces for text in model.texts(trace, first)]
    costs = chosen.revision is None  # else a text has no likelihood
    parts = {part: _joined(traces, part) for part in _PARTS if costs or part != "bits_per_token"}
    versions = [trace.versions for trace in traces if trace.versions is not None]
    if versions:
        parts["versions"] = [each for found, trace in zip(versions, traces, strict=True)
                             for each in found.to_json(len(trace.tokens))]  # fmt: skip
    checks = [trace.verification for trace in traces if trace.verification is not None]
    if checks:
        parts["rejected"] = [int(each) for found in checks for each in found.rejected]
    if output is not None:
        columns = ("seed", "text", *parts)
        rows = zip(seeds, texts, *parts.values(), strict=True)
        write_rows([dict(zip(columns, values, strict=True)) for values in rows], output)
    counts = Counts.total([trace.counts for trace in traces])
    record = {
        "model": source.name,
        "length": start.shape[1],
        "schedule": chosen.to_json(),
        "seconds": round(seconds, 3),
        "texts": texts,
        "seeds": seeds,
        **parts,
        "tokens_per_evaluation": counts.tokens_per_evaluation,
        **({"allow": to_json(slots)} if slots else {}),
    }
    mean = counts.evaluations / count
    spent = f"{mean:.4g} {'evaluation' if mean == 1 else 'evaluations'} each"
    ratio = per_evaluation(counts.tokens_per_evaluation)
    stayed = [f"{1 - sum(parts['rejected']) / max(1, masked * count):.1%} of drafts accepted"] if checks else []
    changed = (sum(each.taken for each in versions), sum(each.rewritten for each in versions))
    stayed += [f"{changed[0]:,} taken back, {changed[1]:,} written again"] if versions else []
    note = ", ".join([f"{count} × {start.shape[1]} tokens", spent, *stayed, ratio, f"{seconds:.1f} s"])
    safe = printable if terminal().is_terminal else str  # a file or a pipe gets every character as it is
    between = [line for text in texts if output is None for line in ("", safe(text))][1:]
    return Report(record, [Verbatim(line) for line in between], written=[output], note=note)


def _blamed(schedule: Path | None, rule: str | None, chosen: Schedule) -> str:
    """The option that made a schedule look at predictions."""
    if schedule is not None:
        return "schedule"
    return "rule" if rule is not None else "size" if isinstance(chosen.size, Reactive) else "order"


def _advancing(bar: Progress, task: TaskID, total: int, *, revises: bool) -> Callable[[int], object]:
    """Tells the bar how many tokens stand. Where all of them may be looked at again, that is not yet the end."""
    stand = 0

    def advance(done: int) -> None:
        nonlocal stand
        stand += done
        if not revises:
            bar.advance(task, done)
        else:
            again = "Looking at tokens again" if stand >= total else "Generating"
            bar.update(task, completed=min(stand, _NEARLY * total), description=again)

    return advance


def _verified(
    verified: "Verified", start: "Tensor", seeds: list[int], end: int | None, bar: Progress, task: TaskID
) -> "list[Trace]":
    """Texts that are verified, some at a time."""
    traces = list["Trace"]()
    for begin in range(0, len(seeds), SHARD):
        part = seeds[begin : begin + SHARD]
        traces.append(verified.run(start.expand(len(part), -1), rng=part).until(end))
        bar.advance(task, int((traces[-1].revealed >= 0).sum()))
    return traces


def _check_alone(others: dict[str, object]) -> None:
    """Refuse what has no use where there are rows."""
    for name, value in others.items():
        if value is not None:
            raise check.InputError("", f"{{{name}}} cannot be used with {{data}}", remedy=f"Leave out {{{name}}}.")


def _check_draw(temperature: float, top_p: float | None) -> None:
    if check.real("temperature", temperature, least=0.0) == 0.0 and top_p is not None:
        raise check.InputError("", "{top-p} has no effect at temperature 0", remedy="Leave it out.")
    if top_p is not None and not 0 < top_p <= 1:
        raise check.InputError("top-p", "be greater than 0 and at most 1", found=f"{top_p:g}")


def _joined(traces: "list[Trace]", part: str) -> list[Any]:
    return [row for trace in traces for row in getattr(trace, part).tolist()]
