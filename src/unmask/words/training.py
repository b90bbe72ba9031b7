"""The words for an alphabet, for masks and for schedules to learn, and the process that a run has to itself."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask import models, order, size
from unmask._atomic import locked, replacing
from unmask._files import read_text
from unmask._torch import torch
from unmask.data import rows
from unmask.models.causal import CausalConfig
from unmask.models.shape import DEEPEST, Shape
from unmask.models.text import Alphabet, Bytes, Codec, Store, Tokenizer
from unmask.models.transformer import Config
from unmask.schedule import Schedule
from unmask.train import EveryStep, Lessons, Masks, MixedMasks, Recipe, ScheduleMasks, UniformMasks
from unmask.train.memory import fitting
from unmask.words.mistakes import MISTAKES
from unmask.words.outputs import unwritable
from unmask.words.schedules import check_combs, order_named

MASKS = ("uniform", "comb")
_GIVEN = 1 / 8  # the share of texts that begin with something given, so that prompts can be continued
_PARTS = (16, 8, 4)  # of the length: the numbers of steps of combs where nobody says which
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
        detail = f"but {check.shown(word)} is none of these"
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
            detail=f"but the longest, {where[longest]}, has {found[longest].size}",
            remedy="Give a smaller {length}.",
        )  # fmt: skip
    note = ""
    if short:
        many, skipped = ("1 row is", "was") if len(short) == 1 else (f"{len(short):,} rows are", "were")
        first = "" if len(short) == 1 else "the first is "
        note = f"{many} shorter than {length} tokens and {skipped} skipped: {first}{where[short[0]]}."
    return codec, Store.of_rows(kept, codec.vocab), len(short), note


@final
@dataclass(frozen=True)
class Learning:
    """What a run learns, as a user said it.

    Attributes:
        causal: Whether the network is causal in the schedule.
        masks: The word for masks; None where nobody said.
        schedules: Schedules as `schedules_named` understands them; none where nobody said.
    """

    causal: bool = False
    masks: str | None = None
    schedules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.masks is not None and self.causal:
            raise check.InputError("", "{masks} cannot be used with {causal}", remedy="Use {schedule} instead.")
        if self.masks is not None and self.schedules:
            raise check.InputError("", "Give either {masks} or {schedule}, not both")

    def lessons(self, length: int) -> Lessons:
        """The lessons for sequences of `length` tokens."""
        found = tuple(self._schedules(length).values())
        if self.causal:
            return EveryStep(found, given=_GIVEN)
        if not found:
            return masks_named(self.masks or "uniform", length)
        return MixedMasks(tuple(ScheduleMasks(each) for each in found)) if found[1:] else ScheduleMasks(found[0])

    def about(self, length: int) -> dict[str, Any]:
        """What is to be saved with the model: which schedules it was trained for, or by which masks."""
        found = self._schedules(length)
        saved = {"schedules": {name: [each.to_json(), 1.0] for name, each in found.items()}}
        if self.causal:
            return saved | {"given": _GIVEN}
        return saved if found else {"masks": self.masks or "uniform"}

    def config(self, vocab: int, length: int, width: int, layers: int, heads: int) -> Shape:
        """The shape of the network."""
        check.integer("layers", layers, least=1 if self.causal else 2, most=DEEPEST)
        # Two thirds of four times the width, as is usual for gated layers.
        hidden = max(32, width * 8 // 3 // 32 * 32)
        # A reader of the one kind runs at masked positions alone; of the other at all, beside all contents.
        readers = (3 * layers + 4) // 8 if self.causal else layers // 2
        kind = CausalConfig if self.causal else Config
        return kind(vocab, length, width, layers - readers, readers, heads, hidden, hidden)

    def _schedules(self, length: int) -> dict[str, Schedule]:
        if self.causal and not self.schedules:
            return schedules_named([f"whole-comb:{','.join(map(str, _counts(length)))}"], length)
        return schedules_named(self.schedules, length)


def schedules_named(words: Sequence[str], length: int) -> dict[str, Schedule]:
    """Blind schedules of even sizes by their names: an order and its numbers of steps in each word.

    Example:
        >>> list(schedules_named(["comb:4,8", "left-to-right:16"], 16))
        ['comb 4', 'comb 8', 'left-to-right 16']
    """
    found: dict[str, Schedule] = {}
    for word in words:
        name, colon, numbers = word.partition(":")
        if not colon:
            must = "be an order and its numbers of steps, such as comb:16,32"
            raise check.InputError("schedule", must, found=check.shown(word))
        with check.within("schedule", word):
            which = order_named(name)
            if not isinstance(which, order.BlindOrder):
                raise check.InputError("order", "be a blind order", found=check.shown(name), remedy=check.BLIND_ORDER)
            check_combs([name], length)
            for number in numbers.split(","):
                steps = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else number
                steps, _ = check.steps_and_length(steps, length)
                found[f"{name} {steps}"] = Schedule(size.Even(steps), which)
    return found


def masks_named(word: str, length: int) -> Masks:
    """The masks: uniform, or half of each batch as combs of several numbers of steps see it."""
    if check.known("masks", word, MASKS) == "uniform":
        return UniformMasks()
    combs = tuple(ScheduleMasks(Schedule(size.Even(count), order.Comb())) for count in _counts(length))
    return MixedMasks((UniformMasks(), MixedMasks(combs)))


def _counts(length: int) -> list[int]:
    """Numbers of steps that are a fair share of a length."""
    return list(dict.fromkeys(max(1, length // part) for part in _PARTS))


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
def in_memory(config: Shape, recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Refuse a model or batch for which there is no memory: before anything is made, if that can be known."""
    try:
        count, muon = int(os.environ.get("WORLD_SIZE", "1")), recipe.muon is not None
        with fitting(config, recipe.batch, muon=muon, device=device, processes=count):
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
        raise unwritable(folder, error) from None


def _claim(folder: Path, path: Path, about: dict[str, Any]) -> None:
    with locked(path, "output", "claimed", wait=True):
        if path.exists():
            _compare(path, about)
        elif (folder / models.FILE).exists() or (folder / models.CHECKPOINT).exists():
            raise check.InputError(
                "output",
                "be empty or hold the same run",
                detail=f"but '{folder}' holds a model without a record of its run",
                remedy="Choose another folder.",
            )
        else:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(about), encoding="utf-8")


def _compare(path: Path, about: dict[str, Any]) -> None:
    """Make sure that what a folder says of its run is what is said of this one."""
    try:
        kept = json.loads(read_text(path, "output"))
    except (json.JSONDecodeError, RecursionError):
        remedy = "Delete the folder, or choose another."
        raise check.InputError("", f"The file '{path}' is damaged", remedy=remedy) from None
    if kept != about:
        raise check.InputError(
            "output",
            "be empty or hold the same run",
            detail=f"but '{path.parent}' holds a run on another text or alphabet",
            remedy="Choose another folder.",
        )
