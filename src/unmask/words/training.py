"""The words for an alphabet and for masks, and the process that a run has to itself."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unmask import _check as check
from unmask import order, size
from unmask._torch import torch
from unmask.models.text import Alphabet, Bytes, Codec, Tokenizer
from unmask.schedule import Schedule
from unmask.train import Masks, MixedMasks, ScheduleMasks, UniformMasks

MASKS = ("uniform", "comb")


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
    return Tokenizer.load(word)


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
