"""`unmask generate`: text from a model, under any schedule."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.live import Live

from unmask import _check as check
from unmask import models
from unmask._torch import Tensor, torch
from unmask.cli import engines, options, schedules
from unmask.cli import model as shared
from unmask.cli.names import CURVE_SIZES
from unmask.cli.output import print_json, progress, terminal
from unmask.cli.rows import check_rows, write_rows
from unmask.cli.watch import frames
from unmask.engine import SHARD
from unmask.sample import Sampler, State, Step
from unmask.sample.draw import Categorical, Draw, Greedy, TopP
from unmask.sample.trace import Trace
from unmask.schedule import Schedule
from unmask.size import Explicit

_STEPS = 16
_ANSWER = 128  # tokens of an answer, where nobody says how many
_COLUMNS = ("seed", "text", "sizes", "revealed", "nll", "evaluations")


@click.command()
@shared.source
@click.option("--steps", type=options.INTEGER, metavar="K", help=f"Number of steps; {_STEPS} by default.")
@click.option("--count", type=options.INTEGER, default=4, show_default=True, metavar="N", help="How many sequences.")
@click.option("--order", "order_name", type=schedules.ORDER, metavar="NAME", help=f"{schedules.ORDER_HELP} [comb]")
@click.option("--size", "size_name", type=schedules.SIZE, metavar="NAME", help=f"{schedules.SIZE_HELP}. [even]")
@click.option("--schedule", "file", type=options.FILE, metavar="FILE", help="A schedule from a file instead.")
@click.option(
    "--temperature", type=options.NUMBER, default=1.0, show_default=True,
    help="1 samples the model's own law; 0 takes the most likely token.",
)  # fmt: skip
@click.option("--top-p", type=options.NUMBER, metavar="P", help="Keep only the likeliest tokens of this total mass.")
@shared.length
@click.option("--prompt", help="Text to be completed: _, or the model's own mask token, stands for a masked token.")
@click.option(
    "--chat", is_flag=True,
    help="The prompt is a message: write an answer of --length tokens, 128 by default, with the model's chat template.",
)  # fmt: skip
@click.option("--watch", is_flag=True, help="Show the text as it appears, on a terminal.")
@click.option(
    "--output", type=options.FILE, metavar="FILE",
    help="Write the sequences to this file, as JSON lines (.jsonl) or Parquet (.parquet), and not to the screen.",
)  # fmt: skip
@engines.engine
@options.seed
@options.as_json
def generate(
    source: shared.Source,
    steps: int | None,
    count: int,
    order_name: str | None,
    size_name: str | None,
    file: Path | None,
    temperature: float,
    top_p: float | None,
    length: int | None,
    prompt: str | None,
    chat: bool,
    watch: bool,
    output: Path | None,
    engine_name: str,
    workers: int | None,
    address: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Generate text.

    A prompt is filled where it has '_', one token each, and keeps the rest; it is used as long as it is, or with
    --length continued by masked tokens up to that length. Sequence i has the seed SEED + i, and the same seed gives
    the same sequence. Sampling at temperature 1 follows the model's law; anything else is another one. With a model of
    Hugging Face a prompt may also hold its mask token, such as [MASK]; then '_' is an ordinary character.

    \b
    Examples:
      unmask generate --steps 16 --watch
      unmask generate --count 2 --seed 7 --order random --size cosine
      unmask generate --prompt "the ______ of the ______ was a"
      unmask generate --prompt "in the beginning " --length 128 --steps 32
      unmask generate --model my-run --schedule schedule.json --json
      unmask generate --order confidence --size threshold:0.9
      unmask generate --model hf:bert-base-uncased --prompt "the [MASK] sat on the [MASK]."
      unmask generate --count 100000 --engine ray --output texts.parquet

    JSON: model, length, schedule, seconds, texts, seeds, sizes (tokens revealed by each step), revealed (the step of
    each token, from 0; -1 where it was given), nll (nats of what was drawn, under the model), evaluations (of each
    sequence), tokens_per_evaluation. A row of --output: seed, text, sizes, revealed, nll, evaluations of one sequence.
    """
    check.integer("count", count, least=1)
    draw = _draw(temperature, top_p)
    if file is not None and (order_name or size_name or steps is not None):
        raise check.InputError(
            "", "A schedule file says order, sizes and steps", remedy="Leave out --order, --size and --steps."
        )
    if steps is not None and size_name is not None and ":" in size_name:
        raise check.InputError(
            "", f"Size '{size_name}' decides the number of steps itself", remedy="Leave out --steps."
        )
    if size_name in CURVE_SIZES:
        raise check.InputError(
            "",
            f"Size '{size_name}' is made for a measured model",
            remedy="Run `unmask advise --calibration FILE --steps K --save schedule.json`, and give --schedule schedule.json.",
        )
    check_rows(output, (".jsonl", ".parquet"))
    if watch and engine_name == "ray":
        raise check.InputError("", "With --engine ray there is nothing to watch", remedy="Leave out --watch.")
    engine = engines.engine_named(engine_name, workers, address, source.place)
    schedule = None if file is None else shared.read_schedule(file)
    model = source.load()
    start, shown = start_of(model, prompt, length, chat)
    if schedule is None:
        if prompt is None:  # else there may be less to fill than a comb has segments, which is no mistake
            schedules.check_combs([order_name or "comb"], start.shape[1])
        masked = int((start == model.predictor.mask).sum())
        wanted = _STEPS if steps is None else steps
        wanted = min(wanted, masked) if steps is None or prompt is not None else wanted
        schedule = schedules.build(order_name or "comb", size_name or "even", wanted, masked).schedule
    elif file is not None:
        _check_sum(schedule, file, start, model)
    seeds = [seed + row for row in range(count)]
    begin = time.perf_counter()
    screen = terminal()
    sampler = Sampler(model.predictor, schedule, draw)
    traces = []
    with ExitStack() as stack:
        look: Callable[[State, Step], None] | None = None
        if watch and not as_json and screen.is_terminal:
            # The frames vanish, and the finished texts are printed in their place.
            view = stack.enter_context(Live(console=screen, auto_refresh=False, transient=True))
            look = frames(screen, view, model.codec, schedule, count)
        bar = progress()
        bar.disable = bar.disable or look is not None
        task = stack.enter_context(bar).add_task("Generating", total=count)
        # What is watched is the first shard.
        seen = 0 if look is None else min(SHARD, count)
        if look is not None:
            traces.append(sampler.run(start.expand(seen, -1), rng=seeds[:seen], watch=look))
        stack.enter_context(engines.working(engine))
        traces += sampler.batches(
            start.expand(count - seen, -1),
            rng=seeds[seen:],
            engine=engine,
            progress=lambda done: bar.advance(task, done),
        )
    seconds = time.perf_counter() - begin
    texts = [model.codec.decode(row[shown:]) for trace in traces for row in trace.tokens.tolist()]
    drawn = sum(int((trace.revealed >= 0).sum()) for trace in traces)
    evaluations = np.concatenate([trace.evaluations for trace in traces])
    speed = drawn / max(int(evaluations.sum()), 1)
    sizes, revealed, nll = (_rows(traces, part) for part in ("sizes", "revealed", "nll"))
    if output is not None:
        columns = zip(seeds, texts, sizes, revealed, nll, evaluations.tolist(), strict=True)
        write_rows([dict(zip(_COLUMNS, values, strict=True)) for values in columns], output)
    if as_json:
        print_json(
            {
                "model": source.name,
                "length": start.shape[1],
                "schedule": schedule.to_json(),
                "seconds": round(seconds, 3),
                "texts": texts,
                "seeds": seeds,
                "sizes": sizes,
                "revealed": revealed,
                "nll": nll,
                "evaluations": evaluations.tolist(),
                "tokens_per_evaluation": speed,
            }
        )
        return
    for number, text in enumerate(texts if output is None else []):
        if number:
            click.echo()
        click.echo(text)
    if output is not None:
        screen.print(f"Written: {output}", soft_wrap=True, markup=False)
    noun = "evaluation" if evaluations.mean() == 1 else "evaluations"
    note = f"{count} × {start.shape[1]} tokens, {evaluations.mean():.4g} {noun} each, {seconds:.1f} s"
    terminal(stderr=True).print(f"[dim]{note}[/dim]", soft_wrap=True)


def _check_sum(schedule: Schedule, file: Path, start: Tensor, model: models.Model) -> None:
    """Refuse sizes that were made for another number of tokens, before anything is run."""
    masked = int((start == model.predictor.mask).sum())
    if isinstance(schedule.size, Explicit) and (made := sum(schedule.size.values)) != masked:
        raise check.InputError(
            "schedule",
            f"be for the {masked} tokens to fill",
            detail=f"and '{file}' is for {made}",
            remedy=f"Give the --model it was made for, or --length {made}.",
        )


def _draw(temperature: float, top_p: float | None) -> Draw:
    if check.real("temperature", temperature, least=0.0) == 0.0:
        if top_p is not None:
            raise check.InputError("", "At temperature 0 there is no use for --top-p", remedy="Leave it out.")
        return Greedy()
    if top_p is None:
        return Categorical(temperature)
    if not 0 < top_p <= 1:
        raise check.InputError("top-p", "be greater than 0 and at most 1", found=f"{top_p:g}")
    return TopP(top_p, temperature)


def start_of(model: models.Model, prompt: str | None, length: int | None, chat: bool) -> tuple[Tensor, int]:
    """One sequence to start from, and the first token to show.

    The sequence has the shape `(1, length)`, with the predictor's mask where something is to be filled.
    """
    if length is not None:
        check.integer("length", length, least=1, most=model.length)
    mask = model.predictor.mask
    if chat:
        if prompt is None:
            raise click.UsageError("Missing option '--prompt'.")
        tokens = model.codec.chat(prompt)
        answer = length or _ANSWER
        if len(tokens) + answer > model.length:
            raise check.InputError(
                "length",
                f"be at most {model.length - len(tokens)}",
                found=f"{answer}: so many tokens are left of the model's {model.length} after a prompt of {len(tokens)}",
            )
        return torch.tensor([tokens + [mask] * answer], device=model.device), len(tokens)
    tokens = model.codec.prompt(prompt or "", mask)
    if len(tokens) > model.length:
        raise check.InputError("prompt", f"have at most {model.length} tokens", found=f"{len(tokens)}")
    if prompt is not None and length is not None and len(tokens) > length:
        raise check.InputError("length", f"be at least that of the prompt, {len(tokens)}", found=f"{length}")
    wanted = length or (model.cut().length if prompt is None else len(tokens))
    tokens += [mask] * (wanted - len(tokens))
    if mask not in tokens:
        raise check.InputError(
            "prompt",
            "have something to fill, written as '_' or as the model's own mask token",
            remedy="Or give a --length beyond it.",
        )
    return torch.tensor([tokens], device=model.device), 0


def _rows(traces: list[Trace], part: str) -> list[Any]:
    return [row for trace in traces for row in getattr(trace, part).tolist()]
