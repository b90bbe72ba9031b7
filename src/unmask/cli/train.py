"""`unmask train`: a model of one's own from a text."""

import hashlib
import math
import shlex
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import Progress as Bars

from unmask import _check as check
from unmask.cli import options
from unmask.cli.completion import Words
from unmask.cli.output import progress, said
from unmask.cli.report import Report
from unmask.words.inputs import read_text
from unmask.words.texts import Texts

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models.shape import Network
    from unmask.train import Progress

_EXAMPLES = ("comb:16,32,64", "whole-comb:16,32,64", "left-to-right:256", "random:16")
_RUN = options.Folder("log.csv", "checkpoint.pt")  # written from the first update on (`unmask.train.home`)
_SURE = 10.0  # seconds of updates after which their speed is known well enough


@options.command
@click.option("--text", type=options.FILE, metavar="FILE", help="Text to learn from, in UTF-8.")
@click.option(
    "--data", type=options.FILE, metavar="FILE", help=f"Rows to learn from, one sequence each: {options.DATA}"
)
@options.column
@click.option("--output", type=_RUN, required=True, metavar="FOLDER", help="Folder for the run.")
@click.option(
    "--alphabet", type=Words(["chars", "bytes"], files=True), default="chars", show_default=True, metavar="NAME",
    help="chars (the characters of the text), bytes, or a file saved by the tokenizers library.",
)  # fmt: skip
@click.option("--length", type=options.INTEGER, default=256, show_default=True, help="Tokens per sequence.")
@click.option("--width", type=options.INTEGER, default=256, show_default=True, help="Width of the model.")
@click.option("--layers", type=options.INTEGER, default=8, show_default=True, help="Number of layers.")
@click.option("--heads", type=options.INTEGER, default=4, show_default=True, help="Number of attention heads.")
@click.option("--steps", type=options.INTEGER, default=20_000, show_default=True, help="Total number of updates.")
@click.option("--batch", type=options.INTEGER, default=64, show_default=True, help="Sequences per update.")
@click.option("--rate", type=options.NUMBER, default=2e-3, show_default=True, help="Peak learning rate.")
@click.option(
    "--muon", type=options.NUMBER, metavar="RATE",
    help="Train the matrices inside the layers with Muon at this peak learning rate. [default: AdamW only]",
)  # fmt: skip
@click.option(
    "--dropout", type=options.NUMBER, default=0.0, show_default=True, metavar="SHARE",
    help="Drop this share of every layer's output at random, so that the model does not overfit a short text.",
)  # fmt: skip
@click.option(
    "--causal", is_flag=True, help="Train a network that is causal in the schedule and computes each token once."
)
@click.option(
    "--schedule", "schedules", multiple=True, type=Words(_EXAMPLES), metavar="ORDER:STEPS,...",
    help="Schedules to learn; each gets an equal share of every batch. You can repeat this option. [default with "
    "--causal: whole-comb with length/16, length/8 and length/4 steps]",
)  # fmt: skip
@click.option(
    "--masks", type=options.one_of("masks", ("uniform", "comb")), metavar="NAME",
    help="Which tokens are masked in training if neither --causal nor --schedule is given: uniform, or comb, which "
    "trains half of each batch on the masks of combs with length/16, length/8 and length/4 steps. [default: uniform]",
)  # fmt: skip
@click.option("--minutes", type=options.NUMBER, help="Stop after this many minutes. Run the command again to continue.")
@click.option(
    "--compile", "compiled", is_flag=True, help="Compile the model. On a GPU, also record updates as CUDA graphs."
)
@options.device
@options.seed
def train(
    text: Path | None,
    data: Path | None,
    column: str | None,
    output: Path,
    alphabet: str,
    length: int,
    width: int,
    layers: int,
    heads: int,
    steps: int,
    batch: int,
    rate: float,
    muon: float | None,
    dropout: float,
    causal: bool,
    schedules: tuple[str, ...],
    masks: str | None,
    minutes: float | None,
    compiled: bool,
    device: str,
    seed: int,
) -> Report | None:
    """Train a small masked diffusion model on a text.

    The output folder holds a checkpoint, a log and, at the end, model.safetensors. To use the model in other commands,
    pass this folder as --model. If a run is stopped or killed, run the same command again, and it continues. Under
    torchrun, the processes share the batch.

    With --data, the command takes windows of --length tokens from the rows; every possible window is equally likely. A
    prompt and its answer are one sequence. The command skips rows shorter than a window, and says how many.

    A bidirectional model learns to fill random sets of positions (--masks), or the sets that certain schedules visit
    (--schedule). You can use it with any schedule, and it runs again at every step. A model that is causal in the
    schedule (--causal) learns every step of a text at once, under the schedules you name. When it writes, it computes
    each token only once, but it works well only with these schedules. Of every eight of its layers (--layers), five
    process the known tokens, and the other three read the result. In its training, one text in eight begins with
    given tokens, so the model learns to continue a prompt.

    Here, a schedule is an order that does not look at predictions, with even sizes in a given number of steps.
    With as many steps as tokens, left-to-right gives an ordinary language model.

    \b
    Examples:
      unmask train --text book.txt --output my-run
      unmask train --text book.txt --output my-run --minutes 30 --batch 256 --device cuda --compile
      unmask train --text book.txt --output small --length 64 --width 64 --layers 2 --steps 2000
      unmask train --data proteins.fasta --output my-run --length 64
      unmask train --text book.txt --output my-run --causal
      unmask train --text book.txt --output my-run --causal --schedule whole-comb:16,32 --schedule left-to-right:256
      unmask train --text book.txt --output my-run --schedule comb:16 --muon 4e-3
      torchrun --nproc-per-node 2 -m unmask.cli train --text book.txt --output my-run
    Then:
      unmask generate --model my-run --watch

    JSON: output, model (the file), parameters, tokens (in the text), too_short (rows skipped), steps (done so far),
    finished, bits_per_token (the mean loss since the last line of the log; null if there was nothing left to do),
    seconds.
    """
    if minutes is not None:
        check.real("minutes", minutes, least=0.0)
    if output.exists() and not output.is_dir():
        raise check.InputError("output", "be a folder", found=f"the file '{output}'")
    Texts(text, data, column).required()
    check.integer("length", length, least=1)
    words = "" if text is None else read_text(text)

    from unmask import models
    from unmask.models import weights
    from unmask.models.text import Store
    from unmask.train import Recipe
    from unmask.train import train as fit
    from unmask.words.models import device_named
    from unmask.words.training import (
        Learning,
        alphabet_named,
        claim,
        in_memory,
        interrupted,
        new_folder,
        processes,
        rows_to_learn,
    )

    learning = Learning(causal, masks, schedules)
    lessons = learning.lessons(length)
    recipe = Recipe(steps, batch, rate, muon, warmup=max(1, min(500, steps // 10)), dropout=dropout, seed=seed)
    if data is None:
        codec = alphabet_named(alphabet, words)
        store, short, note = Store.of(words, codec), 0, ""
    else:
        codec, store, short, note = rows_to_learn(data, column, alphabet, length)
        if note:  # before hours of work, not after them
            said(note)
    config = learning.config(codec.vocab, length, width, layers, heads)
    if len(store) < length:
        raise check.InputError(
            "text",
            f"have at least {length} tokens",
            found=f"{len(store)}",
            remedy="Give a longer text, or a smaller {length}.",
        )
    with ExitStack() as stack:
        stack.enter_context(new_folder(output))
        place, rank = stack.enter_context(processes(device_named(device)))
        stack.enter_context(in_memory(config, recipe, place))
        ends = b"" if store.ends is None else store.ends.tobytes()
        about = models.described(codec) | {"text": hashlib.sha256(store.tokens.tobytes() + ends).hexdigest()[:16]}
        claim(output, about, rank)
        with interrupted() as stop, check.renamed("folder", "output"), progress() as bar:
            bar.disable = bar.disable or rank > 0
            model, end = fit(
                config,
                store,
                recipe,
                lessons=lessons,
                folder=output,
                device=place,
                every=max(1, min(100, steps // 200)),
                minutes=minutes,
                stop=stop,
                compile_model=compiled,
                watch=_Watch(bar, steps, warned=rank > 0 or minutes is not None),
            )
        if rank:
            return None
        about |= {"recipe": asdict(recipe), "steps": end.step, "tokens": len(store)} | learning.about(length)
        weights.save(model, output / models.FILE, about=about)
    return _report(model, end, steps, len(store), short, output, 130 if stop() else 0)


def _report(
    model: "Network", end: "Progress", steps: int, tokens: int, short: int, output: Path, code: int
) -> Report | None:
    from unmask.models import FILE

    file = output / FILE
    finished = end.step == steps
    bits = end.loss / math.log(2) if math.isfinite(end.loss) else None
    parameters = sum(each.numel() for each in model.parameters())
    record = {
        "output": str(output),
        "model": str(file),
        "parameters": parameters,
        "tokens": tokens,
        "too_short": short,
        "steps": end.step,
        "finished": finished,
        "bits_per_token": bits,
        "seconds": round(end.seconds, 1),
    }
    nothing = finished and bits is None  # was left to do
    time = ". This run was already complete" if nothing else f", {end.seconds:.0f} s"
    shown = [
        f"{parameters:,} parameters, {end.step:,} of {steps:,} updates{time}.",
        None if bits is None else f"Loss at the end: {bits:.3f} bits per token of the training text.",
        None if finished else "Stopped before the end. The same command continues the run.",
    ]
    following = f"unmask generate --model {shlex.quote(str(output))} --watch" if finished else ""
    return Report(record, shown, written=[file], next=following, code=code)


class _Watch:
    """Shows how far a run is, and says once if it will take hours.

    Arguments:
        bar: Where it is shown.
        steps: Updates in all.
        warned: Whether that was said, or need not be.
    """

    def __init__(self, bar: Bars, steps: int, *, warned: bool):
        self.bar, self.steps, self.warned = bar, steps, warned
        self.task = bar.add_task("Training", total=steps)
        self.first: Progress | None = None

    def __call__(self, now: "Progress") -> None:
        title = f"Training, {now.loss / math.log(2):.3f} bits per token"
        self.bar.update(self.task, completed=now.step, description=title)
        # What comes first is slower: it is compiled, or waited for.
        self.first = first = self.first or now
        if self.warned or now.seconds - first.seconds < _SURE:
            return
        self.warned = True
        hours = (self.steps - now.step) * (now.seconds - first.seconds) / (now.step - first.step) / 3600
        if hours > 1:
            self.bar.console.print(
                f"About {hours:.0f} hours to go. --minutes stops the run sooner; a smaller --length, --width, --layers "
                "or --steps makes it shorter."
            )
