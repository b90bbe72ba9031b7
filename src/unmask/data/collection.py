"""Collections of rows: a sample of a file, or the whole file in chunks.

What a model is measured on is a few rows of a file, which may have millions. `collect` draws them while it reads: each
row has a random number, and the rows with the smallest numbers are kept. So every set of rows that fit is as likely as
any other of that size, fewer rows are among the more of the same seed, and the file is read once, in memory for as many
rows as are asked for. Only rows that come to be among the smallest, `most · ln(rows/most)` of them, are encoded.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING, TypeVar, final

from unmask import _check as check
from unmask.data.encoding import Encoded, encode
from unmask.data.formats import Row

if TYPE_CHECKING:
    from unmask.models.base import Model
    from unmask.sequences import Sequences

T = TypeVar("T")
_DRAWN = 4096  # random numbers at a time


@final
@dataclass(frozen=True, eq=False)
class Collected:
    """Rows that a model takes, in the order of the file.

    Attributes:
        sequences: Their tokens, and which are to be filled.
        numbers: Which of the rows they are, counted from 0.
        first: The first token of each to show.
        read: Rows that were read.
        long: Rows that were left out because they are too long for the model; where some rows were drawn, only those
            that would have been among them.
        long_row: The first of these; `None` if there is none.
        long_tokens: The tokens of that one.
        limit: How many the model takes.
    """

    sequences: "Sequences"
    numbers: tuple[int, ...]
    first: tuple[int, ...]
    read: int
    long: int
    long_row: Row | None
    long_tokens: int
    limit: int

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def note(self) -> str:
        """A sentence on what was left out; empty if nothing was."""
        if self.long_row is None:
            return ""
        drawn = " of those drawn" if self.read > len(self.numbers) + self.long else ""
        rows = f"1 row{drawn} is" if self.long == 1 else f"{self.long:,} rows{drawn} are"
        skipped = "was skipped" if self.long == 1 else "were skipped"
        where = (
            f"{'it is' if self.long == 1 else 'the first is'} {self.long_row.where}, with {self.long_tokens:,} tokens"
        )
        return f"{rows} longer than the model's maximum of {self.limit:,} tokens and {skipped}: {where}."

    def required(self) -> "Collected":
        """The same, unless nothing is left.

        Raises:
            InputError: if there is no row, or all are too long.
        """
        if self.numbers:
            return self
        if self.long_row is None:
            raise check.InputError("data", "hold at least one row")
        detail = f"but {self.long_row.where} has {self.long_tokens}, and the others have too many as well"
        if self.long == 1:
            detail = f"but the only row, {self.long_row.where}, has {self.long_tokens}"
        must = f"have a row of at most {self.limit} tokens, the model's maximum"
        raise check.InputError("data", must, detail=detail)


def collect(
    model: "Model",
    rows: Iterable[Row],
    *,
    most: int | None = None,
    answer: int | None = None,
    chat: bool | None = None,
    rng: check.Rng = 0,
) -> Collected:
    """Encode rows, and leave out those that are too long for the model; none is cut.

    Arguments:
        model: The model.
        rows: The rows (`unmask.data.rows`), read once.
        most: How many to keep at most, drawn from all that fit, each with the same chance; all by default.
        answer: As in `encode`: tokens to fill after a prompt that has no answer.
        chat: As in `encode`: whether prompts are messages.
        rng: A generator or a seed, for drawing. Which rows are kept depends on it, on the rows, and on the model's
            length alone.

    Raises:
        InputError: if a row cannot be encoded, or all rows together would fill the memory.

    Example:
        >>> import unmask
        >>> found = collect(unmask.load("builtin"), [Row("a.txt", 1, text="abc"), Row("a.txt", 2, text="x" * 999)])
        >>> found.sequences.tokens.tolist(), found.numbers, found.long, found.long_row.where
        ([[0, 1, 2]], (0,), 1, "line 2 of 'a.txt'")
    """
    from unmask.sequences import Sequences

    if most is not None:
        most = check.integer("most", most, least=1)
    kept: list[tuple[float, int, Encoded]] = []  # a heap whose first has the largest number, by its opposite
    read, long, long_row, long_tokens, width = 0, 0, None, 0, 0
    ranks = _ranks(rng) if most is not None else repeat(0.0)
    for rank, row in zip(ranks, _iterated("rows", rows), strict=False):
        read += 1
        if most is not None and len(kept) == most and rank >= -kept[0][0]:
            continue
        found = encode(model, row, answer=answer, chat=chat)
        if found.tokens.size > model.length:
            if long_row is None:
                long_row, long_tokens = row, found.tokens.size
            long += 1
            continue
        width = max(width, found.tokens.size)
        item = (-rank, read - 1, found)
        if most is not None and len(kept) == most:
            heapq.heapreplace(kept, item)
        else:
            heapq.heappush(kept, item)
            _check_room(len(kept), width)
    kept.sort(key=lambda each: each[1])
    chosen = [each for _, _, each in kept]
    sequences = Sequences.of([each.tokens for each in chosen], [each.masked for each in chosen])  # pyright: ignore[reportArgumentType] - arrays are sequences
    numbers, first = tuple(number for _, number, _ in kept), tuple(each.first for each in chosen)
    return Collected(sequences, numbers, first, read, long, long_row, long_tokens, model.length)


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Some values at a time, in memory for so many: the way to fill or score a file of any length.

    Arguments:
        values: The values.
        size: How many in each list; the last may have fewer.

    Example:
        >>> list(chunks(range(5), 2))
        [[0, 1], [2, 3], [4]]
    """
    size, rest = check.integer("size", size, least=1, most=check.EXACT), _iterated("values", values)

    def cut() -> Iterator[list[T]]:
        while chunk := list(islice(rest, size)):
            yield chunk

    return cut()


def _ranks(rng: check.Rng) -> Iterator[float]:
    source = check.generator("rng", rng)
    while True:
        yield from source.random(_DRAWN).tolist()


def _iterated(name: str, values: Iterable[T]) -> Iterator[T]:
    try:
        return iter(values)
    except TypeError:
        raise check.InputError(name, "be iterable", found=check.shown(values)) from None


def _check_room(count: int, width: int) -> None:
    if count * width > check.ROOM:
        remedy = "Draw a sample of the rows with {most}, or read them in chunks."
        raise check.InputError("data", f"have at most {check.ROOM:,} tokens in all rows together", remedy=remedy)
