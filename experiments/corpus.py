"""The text of the built-in model: text8 or its beginning, as plain text or `.xz`.

Characters 0 to 70,000,000 are for training, the million after them for validation (calibration, choices), the next for
test: nothing is chosen on it.
"""

import lzma
from pathlib import Path

from unmask.text import Alphabet, Store

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
