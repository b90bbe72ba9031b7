"""The words for an alphabet and for masks, and the process that a run has to itself."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unmask import _check as check
from unmask import models, order, size
from unmask._atomic import locked, replacing
from unmask._files import read_text
from unmask._torch import torch
from unmask.data import rows
from unmask.models.shape import Shape
from unmask.models.text import Alphabet, Bytes, Codec, Store, Tokenizer
from unmask.schedule import Schedule
from unmask.train import Masks, MixedMasks, ScheduleMasks, UniformMasks
from unmask.train.memory import fitting
from unmask.words.mistakes import MISTAKES

MASKS = ("uniform", "comb")
_ABOUT = "about.json"


def alphabet_named(word: str, text: str) -> Codec:
    """The alphabet: chars (those of the text), bytes, or a tokenizer file."""
    if word == "bytes":
        return Bytes()
    if word == "chars":
        if not text:
            raise check.InputError("text", "not be empty")
        return Alphabet("".join(sorted(set(text))))
    if not Path(word).is_file():
        detail = f"and {check.shown(word)} is none of them"
        raise check.InputError("alphabet", "be chars, bytes or a tokenizer file", detail=detail)
    with check.renamed("path", "alphabet"):
        return Tokenizer.load(word)


def rows_to_learn(path: Path, column: str | None, alphabet: str, length: int) -> tuple[Codec, Store, int, str]:
    """The alphabet and the rows of a file; how many are too short for a window of `length` tokens, and a note on it.

    A prompt and its answer are one sequence, and all of it is learned, whatever is given.

    Raises:
        InputError: if a row is no row, or all are too short.
    """
    parts, where = list[list[str]](), list[str]()
    for row in rows(path, column=column):
        parts.append([part for part in (row.prompt, row.answer, row.text) if part])
        where.append(row.where)
    letters = {letter for texts in parts for text in texts for letter in text}
    codec = alphabet_named(alphabet, "".join(letters))
    found = [np.concatenate([codec.encode(text) for text in texts]) for texts in parts]
    short = [number for number, row in enumerate(found) if row.size < length]
    kept = [row for row in found if row.size >= length]
    if not kept:
        longest = max(range(len(found)), key=lambda number: found[number].size)
        raise check.InputError(
            "data", f"have a row of at least {length} tokens",
            detail=f"and the longest, {where[longest]}, has {found[longest].size}",
            remedy="Give a smaller {length}.",
        )  # fmt: skip
    note = ""
    if short:
        many = "1 row is" if len(short) == 1 else f"{len(short):,} rows are"
        note = f"{many} shorter than {length} tokens, and left out: the first is {where[short[0]]}."
    return codec, Store.of_rows(kept, codec.vocab), len(short), note


def masks_named(word: str, length: int) -> Masks:
    """The masks: uniform, or half of each batch as combs of several numbers of steps see it."""
    if check.known("masks", word, MASKS) == "uniform":
        return UniformMasks()
    counts = dict.fromkeys(max(1, length // part) for part in (16, 8, 4))
    combs = tuple(ScheduleMasks(Schedule(size.Even(count), order.Comb())) for count in counts)
    return MixedMasks((UniformMasks(), MixedMasks(combs)))


@contextmanager
def processes(device: torch.device) -> Iterator[tuple[torch.device, int]]:
    """The device and rank of this process; under torchrun as one of a group."""
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
def interrupted() -> Iterator[Callable[[], bool]]:
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


@contextmanager
def in_memory(config: Shape, batch: int, device: torch.device) -> Iterator[None]:
    """Refuse a model or batch for which there is no memory: before anything is made, if that can be known."""
    try:
        with fitting(config, batch, device=device, processes=int(os.environ.get("WORLD_SIZE", "1"))):
            yield
    except check.InputError as error:
        asked = {"readers": "layers", "hidden": "width", "reader_hidden": "width", "vocab": "alphabet"}
        raise error.about(asked.get(error.argument, error.argument)) from None


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Take a folder away again that did not exist before, if what follows fails before its first checkpoint."""
    fresh = not folder.exists()
    try:
        yield
    except (check.InputError, *MISTAKES):
        if fresh and folder.is_dir() and not (folder / models.CHECKPOINT).exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def claim(folder: Path, about: dict[str, Any], rank: int) -> None:
    """Note what the run is about, or make sure that the folder holds a run on the same text.

    Raises:
        InputError: if the folder holds another run, or a model without the run it came from.
    """
    if rank:
        return
    path = folder / _ABOUT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder, path, about)
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError("output", "be a folder to write to", found=f"'{folder}': {reason}") from None


def _claim(folder: Path, path: Path, about: dict[str, Any]) -> None:
    with locked(path, "output", "claimed", wait=True):
        if path.exists():
            _compare(path, about)
        elif (folder / models.FILE).exists() or (folder / models.CHECKPOINT).exists():
            raise check.InputError("output", "not hold a model of another origin", detail=f"which '{folder}' does")
        else:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(about), encoding="utf-8")


def _compare(path: Path, about: dict[str, Any]) -> None:
    """Make sure that what a folder says of its run is what is said of this one."""
    try:
        kept = json.loads(read_text(path, "output"))
    except (json.JSONDecodeError, RecursionError):
        remedy = "Remove the folder, or choose another."
        raise check.InputError("", f"The file '{path}' is damaged", remedy=remedy) from None
    if kept != about:
        raise check.InputError(
            "output",
            "be empty or hold the same run",
            detail=f"but '{path.parent}' holds one on another text or alphabet",
            remedy="Choose another folder.",
        )
