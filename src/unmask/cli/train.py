"""`unmask train`: a model of one's own from a text."""

import hashlib
import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress as Bars

from unmask import _check as check
from unmask import models, order, size
from unmask._atomic import locked, replacing
from unmask._files import read_text
from unmask._torch import torch
from unmask.cli import model as shared
from unmask.cli import options
from unmask.cli.completion import Words
from unmask.cli.output import print_json, progress, terminal
from unmask.models import transformer as nn
from unmask.models.text import Alphabet, Bytes, Codec, Store, Tokenizer
from unmask.schedule import Schedule
from unmask.train import Progress, Recipe
from unmask.train import train as fit
from unmask.train.home import CHECKPOINT
from unmask.train.masks import Masks, MixedMasks, ScheduleMasks, UniformMasks
from unmask.train.memory import check_fit

_ABOUT = "about.json"
_SURE = 10.0  # seconds of updates after which their speed is known well enough
_MASKS = ("uniform", "comb")


@click.command()
@click.option("--text", type=options.FILE, required=True, metavar="FILE", help="Text to learn, in UTF-8.")
@click.option("--output", type=options.FILE, required=True, metavar="FOLDER", help="Where to keep the run.")
@click.option(
    "--alphabet", type=Words(["chars", "bytes"], files=True), default="chars", show_default=True, metavar="NAME",
    help="chars (those of the text), bytes, or a file of the tokenizers library.",
)  # fmt: skip
@click.option("--length", type=options.INTEGER, default=256, show_default=True, help="Tokens per sequence.")
@click.option("--width", type=options.INTEGER, default=256, show_default=True, help="Width of the model.")
@click.option("--layers", type=options.INTEGER, default=8, show_default=True, help="Layers of the model.")
@click.option("--heads", type=options.INTEGER, default=4, show_default=True, help="Heads of the model.")
@click.option("--steps", type=options.INTEGER, default=20_000, show_default=True, help="Updates in all.")
@click.option("--batch", type=options.INTEGER, default=64, show_default=True, help="Sequences per update.")
@click.option("--rate", type=options.NUMBER, default=2e-3, show_default=True, help="Peak learning rate.")
@click.option(
    "--masks", "masking", type=Words(_MASKS), default="uniform", show_default=True, metavar="NAME",
    help="uniform, or comb: half of each batch as combs of length/16, /8 and /4 steps see it.",
)  # fmt: skip
@click.option("--minutes", type=options.NUMBER, help="Stop after so long; run again to continue.")
@click.option("--compile", "compiled", is_flag=True, help="Compile the model; on a GPU, record updates.")
@shared.device
@options.seed
@options.as_json
def train(
    text: Path,
    output: Path,
    alphabet: str,
    length: int,
    width: int,
    layers: int,
    heads: int,
    steps: int,
    batch: int,
    rate: float,
    masking: str,
    minutes: float | None,
    compiled: bool,
    device_name: str,
    seed: int,
    as_json: bool,
) -> None:
    """Train a small masked diffusion model on a text.

    The folder keeps a checkpoint, a log, and at the end model.safetensors, which the other commands take as --model.
    A run that was stopped or killed continues when the same command is given again. Under torchrun the batch is shared
    between the processes.

    \b
    Examples:
      unmask train --text book.txt --output my-run
      unmask train --text book.txt --output my-run --minutes 30 --batch 256 --device cuda --compile
      unmask train --text book.txt --output small --length 64 --width 64 --layers 2 --steps 2000
      torchrun --nproc-per-node 2 -m unmask.cli train --text book.txt --output my-run
    Then:
      unmask generate --model my-run --watch

    JSON: output, model (the file), parameters, tokens (of the text), steps (done so far), finished, loss (nats per
    token, the mean since the last line of the log; null if nothing was left to do), bits_per_token, seconds.
    """
    check.known("masks", masking, _MASKS)
    if minutes is not None:
        check.real("minutes", minutes, least=0.0)
    recipe = Recipe(steps, batch, rate, warmup=max(1, min(500, steps // 10)), seed=seed)
    if output.exists() and not output.is_dir():
        raise check.InputError("output", "be a folder", found=f"the file '{output}'")
    words = shared.read_text(text)
    codec = _codec(alphabet, words)
    check.integer("layers", layers, least=2)  # one that mixes positions, one that reads
    # Two thirds of four times the width, as is usual for gated layers.
    hidden = max(32, width * 8 // 3 // 32 * 32)
    config = nn.Config(codec.vocab, length, width, -(-layers // 2), layers // 2, heads, hidden, hidden)
    store = Store.of(words, codec)
    if len(store) < length:
        raise check.InputError("text", f"have at least one sequence of {length} tokens", found=f"{len(store)}")
    with _processes(device_name) as (device, rank):
        _check_memory(config, batch, device)
        about = models.described(codec) | {"text": hashlib.sha256(store.tokens.tobytes()).hexdigest()[:16]}
        _claim(output, about, rank)
        with _interrupted() as stop, check.renamed("folder", "output"):
            model, end = _fit(
                config, store, recipe, _masks(masking, length), output, device, minutes, compiled, rank, stop
            )
        if rank:
            return
        about |= {"recipe": asdict(recipe), "masks": masking, "steps": end.step, "tokens": len(store)}
        nn.save(model, output / models.FILE, about=about)
    _report(model, end, steps, len(store), output, as_json)
    if stop():
        raise click.exceptions.Exit(130)


def _check_memory(config: nn.Config, batch: int, device: torch.device) -> None:
    """Refuse, before the folder is made, a model or batch for which there is no memory."""
    try:
        check_fit(config, batch, device=device, processes=int(os.environ.get("WORLD_SIZE", "1")))
    except check.InputError as error:
        asked = {"readers": "layers", "hidden": "width", "reader_hidden": "width", "vocab": "alphabet"}
        raise error.about(asked.get(error.argument, error.argument)) from None


def _report(model: nn.Transformer, end: Progress, steps: int, tokens: int, output: Path, as_json: bool) -> None:
    finished = end.step == steps
    loss = end.loss if math.isfinite(end.loss) else None
    parameters = sum(each.numel() for each in model.parameters())
    if as_json:
        print_json(
            {
                "output": str(output),
                "model": str(output / models.FILE),
                "parameters": parameters,
                "tokens": tokens,
                "steps": end.step,
                "finished": finished,
                "loss": loss,
                "bits_per_token": None if loss is None else loss / math.log(2),
                "seconds": round(end.seconds, 1),
            }
        )
        return
    screen = terminal()
    screen.print(f"{parameters:,} parameters, {end.step:,} of {steps:,} updates, {end.seconds:.0f} s.")
    if loss is not None:
        screen.print(f"Loss at the end: {loss / math.log(2):.3f} bits per token of the training text.")
    screen.print(f"Written: {output / models.FILE}", soft_wrap=True, markup=False)
    if finished:
        screen.print(f"Next: unmask generate --model {output} --watch", soft_wrap=True, markup=False)
    else:
        screen.print("Stopped before the end. The same command continues the run.")


def _codec(word: str, text: str) -> Codec:
    if word == "bytes":
        return Bytes()
    if word == "chars":
        if not text:
            raise check.InputError("text", "not be empty")
        return Alphabet("".join(sorted(set(text))))
    if not Path(word).is_file():
        raise check.InputError(
            "alphabet", "be chars, bytes or a tokenizer file", detail=f"and '{word}' is none of them"
        )
    with check.renamed("path", "alphabet"):
        return Tokenizer.load(word)


def _masks(word: str, length: int) -> Masks:
    if word == "uniform":
        return UniformMasks()
    counts = dict.fromkeys(max(1, length // part) for part in (16, 8, 4))
    combs = tuple(ScheduleMasks(Schedule(size.Even(count), order.Comb())) for count in counts)
    return MixedMasks((UniformMasks(), MixedMasks(combs)))


@contextmanager
def _processes(device_name: str) -> Iterator[tuple[torch.device, int]]:
    """The device and rank of this process; under torchrun as one of a group."""
    device = shared.device_named(device_name)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield device, 0
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device, torch.distributed.get_rank()
    finally:
        torch.distributed.destroy_process_group()


@contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl+C was pressed: the run ends after its update, with a checkpoint. A second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():  # where nobody can press it
        yield lambda: False
        return
    pressed = threading.Event()

    def press(number: int, frame: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, usual)

    usual = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, usual)


def _claim(folder: Path, about: dict[str, Any], rank: int) -> None:
    """Note what the run is about, or make sure that the folder holds a run on the same text.

    Raises:
        ValueError: if the folder holds another run, or a model without the run it came from.
    """
    if rank:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _ABOUT
    with locked(path, "output", "claimed", wait=True):
        if path.exists():
            _compare(path, about)
        elif (folder / models.FILE).exists() or (folder / CHECKPOINT).exists():
            raise check.InputError("output", "not hold a model of another origin", detail=f"which '{folder}' does")
        else:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(about), encoding="utf-8")


def _compare(path: Path, about: dict[str, Any]) -> None:
    """Make sure that what a folder says of its run is what is said of this one."""
    try:
        kept = json.loads(read_text(path, "output"))
    except (json.JSONDecodeError, RecursionError):
        raise check.InputError(
            "", f"The file '{path}' is damaged", remedy="Remove the folder, or choose another."
        ) from None
    if kept != about:
        raise check.InputError(
            "output",
            "be empty or hold the same run",
            detail=f"but '{path.parent}' holds one on another text or alphabet",
            remedy="Choose another folder.",
        )


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

    def __call__(self, now: Progress) -> None:
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
                f"About {hours:.0f} hours to go. --minutes stops sooner; a smaller --length, --width, --layers or "
                "--steps makes it shorter."
            )


def _fit(
    config: nn.Config,
    store: Store,
    recipe: Recipe,
    masks: Masks,
    folder: Path,
    device: torch.device,
    minutes: float | None,
    compiled: bool,
    rank: int,
    stop: Callable[[], bool],
) -> tuple[nn.Transformer, Progress]:
    every = max(1, min(100, recipe.steps // 200))
    with progress() as bar:
        bar.disable = bar.disable or rank > 0
        watch = _Watch(bar, recipe.steps, warned=rank > 0 or minutes is not None)
        return fit(
            config,
            store,
            recipe,
            masks=masks,
            folder=folder,
            device=device,
            every=every,
            minutes=minutes,
            stop=stop,
            compile_model=compiled,
            watch=watch,
        )
