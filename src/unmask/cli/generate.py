"""`unmask generate`: text from a model, under any schedule."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import Progress, TaskID

from unmask import _check as check
from unmask._memory import check_memory
from unmask.cli import options
from unmask.cli.group import wants_json
from unmask.cli.output import progress, said, terminal
from unmask.cli.report import Report, Verbatim
from unmask.engine import SHARD
from unmask.schedule import Schedule
from unmask.size.reactive import Reactive
from unmask.words.inputs import CAUSAL, read_schedule
from unmask.words.models import Source
from unmask.words.outputs import check_rows, write_rows
from unmask.words.own import own_order, own_steps, unfamiliar
from unmask.words.schedules import build, check_combs, check_fits, words_for
from unmask.words.sentences import per_evaluation
from unmask.words.texts import check_column
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from torch import Tensor

    from unmask.sample import Trace, Verified

_BYTES = 64  # of a token in the record of a run, at the least
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
    help="Number of steps; the model's own by default, and 16 if it has none.",
)  # fmt: skip
@click.option("--count", type=options.INTEGER, metavar="N", help="How many sequences; 4 by default.")
@click.option(
    "--order",
    type=options.ORDER,
    metavar="NAME",
    help=f"{options.ORDER_HELP} The model's own by default, and comb if it has none.",
)
@click.option("--size", type=options.SIZE, metavar="NAME", help=f"{options.SIZE_HELP}. [even]")
@click.option("--rule", type=options.RULE, metavar="NAME", help=options.RULE_HELP)
@click.option("--schedule", type=options.FILE, metavar="FILE", help="A schedule from a file instead.")
@click.option(
    "--temperature", type=options.NUMBER, default=1.0, show_default=True,
    help="1 samples the model's own law; 0 takes the most likely token.",
)  # fmt: skip
@click.option("--top-p", type=options.NUMBER, metavar="P", help="Keep only the likeliest tokens of this total mass.")
@click.option(
    "--length", type=options.INTEGER, metavar="L",
    help="Tokens per sequence; all the model has by default, and 256 if it is of Hugging Face and has more. With "
    "--data: tokens to fill after a prompt that does not say what is to be filled; 128, or half of what the model "
    "takes if that is less.",
)  # fmt: skip
@click.option("--prompt", help="Text to be completed: _, or the model's own mask token, stands for a masked token.")
@click.option(
    "--chat", is_flag=True,
    help="The prompt is a message: write an answer of --length tokens, 128 by default, with the model's chat template.",
)  # fmt: skip
@click.option("--data", type=options.FILE, metavar="FILE", help=f"Or prompts, one in each row: {options.DATA}")
@options.column
@click.option("--watch", is_flag=True, help="Show the text as it appears, on a terminal.")
@click.option(
    "--verify", is_flag=True,
    help="Take the tokens of a step for drafts and verify them one by one: the law of one token at a time.",
)  # fmt: skip
@click.option(
    "--output", type=options.FILE, metavar="FILE",
    help="Write the sequences to this file, as JSON lines (.jsonl) or Parquet (.parquet), and not to the screen.",
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
    temperature: float,
    top_p: float | None,
    length: int | None,
    prompt: str | None,
    chat: bool,
    data: Path | None,
    column: str | None,
    watch: bool,
    verify: bool,
    output: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
    """Generate text.

    A prompt is filled where it has '_', one token each, and keeps the rest; it is used as long as it is, or with
    --length continued by masked tokens up to that length. Sequence i has the seed SEED + i, and the same seed gives
    the same sequence. Sampling at temperature 1 follows the model's law; anything else is another one. With a model of
    Hugging Face a prompt may also hold its mask token, such as [MASK]; then '_' is an ordinary character.

    A model that is causal in the schedule, such as 'causal', was trained for some schedules: their order, and the
    number of steps of most of its training, are its own. Under others it works and is worse, and a sentence says so.

    With --verify the tokens of a step are drafts. One evaluation scores them one by one and drafts the next step; what
    rejection sampling takes back is drawn again, which takes one more. The texts then have exactly the law of one token
    at a time in the same order: with 'causal' and 16 steps for about 23 evaluations instead of 256. A model that looks
    both ways does the same on copies of a text, one for each draft. Nothing stops at the end of an answer then, though
    what follows it does not count.

    A model that ends its answers (LLaDA, Dream) draws the end like any token. What comes after it is neither shown nor
    counted, and a sequence takes no more evaluations once its answer is complete, which changes nothing in it.
    Valid tokens are those drawn before the end. Tokens per evaluation are valid tokens over evaluations, both summed
    over all sequences; elsewhere they are called tokens per forward pass (TPF).

    With --data every row is a prompt, and one row is written for each, in their order. Row i, counted from 0, has the
    seed SEED + i. A prompt with '_' is filled there, any other is continued by --length tokens; an answer that is there
    is written anew, as long as it is. With a model that has a chat template prompts are messages. All rows are looked
    at before the first is filled: one that is none, or is too long for the model, is named by its line. With --output
    rows are kept in a file beside it as they are finished, in memory for some of them; after whatever end, the same
    command goes on where it was.

    \b
    Examples:
      unmask generate --steps 16 --watch
      unmask generate --model builtin --count 2 --seed 7 --order random --size cosine
      unmask generate --steps 16 --verify
      unmask generate --prompt "the ______ of the ______ was a"
      unmask generate --prompt "in the beginning " --length 128 --steps 32
      unmask generate --model my-run --schedule schedule.json --json
      unmask generate --model builtin --order confidence --size threshold:0.9
      unmask generate --model builtin --rule fast-dllm --temperature 0
      unmask generate --model hf:bert-base-uncased --prompt "the [MASK] sat on the [MASK]."
      unmask generate --count 100000 --engine ray --output texts.parquet
      unmask generate --schedule schedule.json --data prompts.jsonl --output answers.jsonl
      echo "in the beginning " | unmask generate --data - --length 32

    JSON: model, length, schedule, seconds, texts, seeds, sizes (tokens revealed by each step), revealed (the step of
    each token, from 0; -1 where it was given, -2 where it was not needed after the end), bits_per_token (what was
    drawn, up to the end, under the model), valid_tokens and evaluations (of each sequence), tokens_per_evaluation, with
    --verify rejected (drafts taken back, of each sequence). A row of --output: seed, text, sizes, revealed,
    bits_per_token, valid_tokens, evaluations of one sequence, and rejected. With --data: model, schedule, seconds,
    count (of rows), continued (rows that were there when it began), valid_tokens, evaluations, tokens_per_evaluation,
    output; and without --output the rows. A row has row (from 0), line, seed, prompt, text (the whole, or the answer to
    a message), answer (what was filled after the prompt, or null), and the rest of the above.
    """
    if data is not None:
        _check_alone({"prompt": prompt, "count": count, "watch": watch or None})
        if verify:
            raise check.InputError("", "{verify} does not go with {data}", remedy="Leave out one of them.")
    check_column(data, column)
    count = check.integer("count", 4 if count is None else count, least=1)
    _check_draw(temperature, top_p)
    word, size = words_for(rule, schedule, order, size, steps)
    check_rows(output, (".jsonl", ".parquet"))
    if watch and workers.engine == "ray":
        remedy = "Leave out {watch}."
        raise check.InputError("", "With the {engine} ray there is nothing to watch", remedy=remedy)
    if verify and (watch or workers.engine == "ray"):
        other = "{watch}" if watch else "the {engine} ray"
        raise check.InputError("", f"{{verify}} does not go with {other}", remedy="Leave out one of them.")
    chosen = None if schedule is None else read_schedule(schedule)

    from unmask.models.start import start_of
    from unmask.models.text import printable
    from unmask.sample import Counts, Sampler, Verified, draw_for

    engine = workers.on(source.place)
    model = source.load()
    which = word or own_order(model)
    if data is not None:
        from unmask.cli.answers import Filling, answered

        how = Filling(source.name, steps, which, size, schedule, chosen, draw_for(temperature, top_p=top_p), seed)
        return answered(model, data, column, length, chat or None, how, output, engine)
    start, first = start_of(model, prompt, length, chat=chat)
    check_memory(count * start.shape[1] * _BYTES, "count", "Take fewer.")
    masked = int((start == model.predictor.mask).sum())
    if chosen is None:
        if prompt is None:  # else there may be less to fill than a comb has segments, which is no mistake
            check_combs([word] if word else [], start.shape[1])
        wanted = own_steps(model) if steps is None else steps
        wanted = min(wanted, masked) if steps is None or prompt is not None else wanted
        chosen = build(which, size, wanted, masked).schedule
    elif schedule is not None:
        check_fits(chosen, schedule, [masked])
    draw = draw_for(temperature, top_p=top_p)
    with check.renamed("schedule", _blamed(schedule, rule, chosen)):
        verified = Verified(model.predictor, chosen, draw) if verify else None
    said(unfamiliar(model, chosen))
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
            progress=lambda done: bar.advance(task, done),
        )
    seconds = time.perf_counter() - begin
    texts = [text for trace in traces for text in model.texts(trace, first)]
    parts = {part: _joined(traces, part) for part in _PARTS}
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
    }
    mean = counts.evaluations / count
    spent = f"{mean:.4g} {'evaluation' if mean == 1 else 'evaluations'} each"
    ratio = per_evaluation(counts.tokens_per_evaluation)
    stayed = [f"{1 - sum(parts['rejected']) / max(1, masked * count):.1%} of drafts accepted"] if checks else []
    note = ", ".join([f"{count} × {start.shape[1]} tokens", spent, *stayed, ratio, f"{seconds:.1f} s"])
    safe = printable if terminal().is_terminal else str  # a file or a pipe gets every character as it is
    between = [line for text in texts if output is None for line in ("", safe(text))][1:]
    return Report(record, [Verbatim(line) for line in between], written=[output], note=note)


def _blamed(schedule: Path | None, rule: str | None, chosen: Schedule) -> str:
    """The option that made a schedule look at predictions."""
    if schedule is not None:
        return "schedule"
    return "rule" if rule is not None else "size" if isinstance(chosen.size, Reactive) else "order"


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
            raise check.InputError("", f"With {{data}} there is no use for {{{name}}}", remedy="Leave it out.")


def _check_draw(temperature: float, top_p: float | None) -> None:
    if check.real("temperature", temperature, least=0.0) == 0.0 and top_p is not None:
        raise check.InputError("", "At temperature 0 there is no use for {top-p}", remedy="Leave it out.")
    if top_p is not None and not 0 < top_p <= 1:
        raise check.InputError("top-p", "be greater than 0 and at most 1", found=f"{top_p:g}")


def _joined(traces: "list[Trace]", part: str) -> list[Any]:
    return [row for trace in traces for row in getattr(trace, part).tolist()]
