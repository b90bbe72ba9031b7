"""Texts that a model is measured on: windows of equal length, or the rows of a file as they are.

Windows are what is done with models of one length: the rows of the file, an end of text after each, in one line of
tokens, cut into pieces of equal length, of which some are taken, evenly spread over the file. Rows are scored each by
itself, those that are longer than the model takes in pieces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import InputError, models
from unmask.data import encode, rows
from unmask.sequences import Sequences


@final
@dataclass(frozen=True, eq=False)
class Texts:
    """Texts as a model takes them.

    Attributes:
        name: What they are called.
        sequences: Their tokens, all of which are to be scored.
        words: How many words each has: what stands between blanks.
    """

    name: str
    sequences: Sequences
    words: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.words)


def taken(model: models.Model, name: str, file: Path, length: int, count: int, *, whole: bool, option: str) -> Texts:
    """Some texts of a file.

    Arguments:
        model: The model.
        name: What the texts are called.
        file: Rows: JSON lines with a "text", one text in each line, or a Parquet file or table with a column "text".
        length: Tokens of a window, and the most that a row has in one piece.
        count: How many to take, at most.
        whole: Whether rows are scored each by itself.
        option: The option that named the file.

    Raises:
        InputError: if a row is no text in tokens of the model, or there are fewer than two texts.
    """
    column = "text" if file.suffix.lower() in (".csv", ".tsv", ".parquet") else None
    try:
        encoded = _encoded(model, rows(file, column=column))
        pieces = _rows(encoded, length) if whole else _windows(encoded, length, end_of(model))
    except InputError as error:
        raise (error.about(option) if error.argument == "data" else error) from None
    if len(pieces) < 2:
        what = "two texts" if whole else f"two windows of {length} tokens"
        raise InputError(option, f"hold at least {what}", detail=f"but '{file}' holds {len(pieces)}")
    places = np.unique(np.linspace(0, len(pieces) - 1, min(count, len(pieces))).round().astype(int))
    chosen = [pieces[place] for place in places]
    counts = tuple(len(model.codec.decode(piece.tolist()).split()) for piece in chosen)
    return Texts(name, Sequences.of([piece.tolist() for piece in chosen]), counts)


def end_of(model: models.Model) -> int | None:
    """The token that ends a text, if the model has one."""
    if model.codec.end is not None:
        return model.codec.end
    return getattr(getattr(model.codec, "inner", None), "eos_token_id", None)


def _encoded(model: models.Model, found: Iterable) -> Iterator[NDArray[np.int64]]:
    for row in found:
        if row.text is None:
            raise InputError("data", "have a text in each row", detail=f"but {row.where} has none")
        yield encode(model, row).tokens


def _windows(encoded: Iterable[NDArray[np.int64]], length: int, end: int | None) -> list[NDArray[np.int64]]:
    between = np.array([] if end is None else [end], dtype=np.int64)
    line = np.concatenate([part for tokens in encoded for part in (tokens, between)])
    return list(line[: line.size // length * length].reshape(-1, length))


def _rows(encoded: Iterable[NDArray[np.int64]], length: int) -> list[NDArray[np.int64]]:
    return [tokens[first : first + length] for tokens in encoded for first in range(0, tokens.size, length)]
