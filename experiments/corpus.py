"""The text of the built-in model: text8 or its beginning, as plain text or `.xz`.

Characters 0 to 70,000,000 are for training, the million after them for validation (calibration, choices), the next for
test: nothing is chosen on it.
"""

import argparse
import lzma
from pathlib import Path
from typing import NamedTuple

import common
import torch

from unmask import models
from unmask.models.text import Alphabet, Store

ALPHABET = Alphabet("abcdefghijklmnopqrstuvwxyz ")
LENGTH = 256
TRAIN, VALID, TEST = 70_000_000, 71_000_000, 72_000_000


def read(path: Path) -> str:
    return lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text()


def splits(path: Path) -> tuple[Store, Store, Store]:
    """Training, validation and test text."""
    text = read(path)
    parts = text[:TRAIN], text[TRAIN:VALID], text[VALID:TEST]
    train, valid, test = (Store.of(part, ALPHABET) for part in parts)
    return train, valid, test


def test_windows(path: Path, count: int) -> torch.Tensor:
    """So many windows of the test split, the same as `task` gives; without the time that the other splits take."""
    store = Store.of(read(path)[VALID:TEST], ALPHABET)
    return torch.from_numpy(store.even_windows(LENGTH, count))


class Task(NamedTuple):
    """What a measurement on this text starts from: a model, windows of both splits beside it, where results go."""

    model: models.Model
    valid: torch.Tensor
    test: torch.Tensor
    output: Path


def task(about: str | None, valid: int, test: int) -> Task:
    """What the command line asks for.

    Arguments:
        about: Text of the help.
        valid, test: Windows of each split, unless the command line says otherwise.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("text", type=Path)
    parser.add_argument("--model", default=models.BUILTIN)
    parser.add_argument("--valid", type=int, default=valid)
    parser.add_argument("--test", type=int, default=test)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    _, *stores = splits(options.text)
    counts = (options.valid, options.test)
    windows = [store.even_windows(LENGTH, count) for store, count in zip(stores, counts, strict=True)]
    tensors = (torch.from_numpy(part).to(device) for part in windows)
    return Task(models.load(options.model, device=device), *tensors, options.output)
