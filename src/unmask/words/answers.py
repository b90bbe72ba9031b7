"""Rows of prompts, and what a model writes for each: of a file of any length, some rows at a time.

The file is read twice. First every row is turned into tokens and thrown away, so that whatever is wrong with one is
said before anything is written; then rows are filled, a chunk at a time. What cannot be read twice, such as standard
input, is copied to a temporary file on the way.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, cast, final

from unmask import _check as check
from unmask.data import Encoded, Row, chunks, encode, rows
from unmask.engine import SHARD, Engine

if TYPE_CHECKING:
    from unmask.models import Model
    from unmask.sample import Sampler, Trace

_ANSWER = 128  # tokens of an answer, where nobody says how many
_CHUNK = 4 * SHARD  # rows at a time: enough to put those of about one length together, few to lose
TEXTS = ("prompt", "text", "answer")  # columns of what is written that hold text


@final
@dataclass(frozen=True, eq=False)
class Prompts:
    """Rows of a file that are known to be good.

    Attributes:
        model: The model that takes them.
        answer: Tokens to fill after a prompt that does not say what is to be filled.
        chat: Whether prompts are messages; None where that is up to the model.
        count: How many rows.
        masked: The different numbers of tokens to fill.
        digest: A fingerprint of all rows as the model takes them.
        open: Gives the rows, from the first on.
    """

    model: "Model"
    answer: int
    chat: bool | None
    count: int
    masked: tuple[int, ...]
    digest: str
    open: Callable[[], Iterator[Row]]

    def encoded(self, row: Row) -> Encoded:
        """A row as the model takes it."""
        return encode(self.model, row, answer=self.answer, chat=self.chat)

    def filled(
        self, sampler: "Sampler", *, seed: int, first: int, engine: Engine, progress: Callable[[float], object]
    ) -> Iterator[list[dict[str, Any]]]:
        """What is written for each row, some rows at a time.

        Arguments:
            sampler: Fills them.
            seed: The seed of the first row of all, from which the others count on.
            first: The row to begin with.
            engine: Who does it.
            progress: Called after every step with the number of rows filled since the last call, a part of one counted
                as that part.
        """
        from unmask.sequences import Sequences

        number = first
        for some in chunks(islice(self.open(), first, None), _CHUNK):
            found = [self.encoded(row) for row in some]
            sequences = Sequences.of([each.tokens for each in found], [each.masked for each in found])  # pyright: ignore[reportArgumentType] - arrays are sequences
            seeds = [seed + number + place for place in range(len(some))]
            share = len(some) / int(sequences.counts.sum())
            trace = sampler.fill(
                sequences, rng=seeds, engine=engine, progress=lambda tokens, share=share: progress(tokens * share)
            ).until(self.model.codec.end)
            written = _records(self.model, trace, list(zip(some, found, strict=True)))
            yield [
                {"row": number + place, "line": row.line, "seed": seeds[place], **record}
                for place, (row, record) in enumerate(zip(some, written, strict=True))
            ]
            number += len(some)


@contextmanager
def prompts(
    model: "Model", path: Path, column: str | None, *, answer: int | None, chat: bool | None
) -> Generator[Prompts]:
    """The rows of a file, all of which the model takes.

    Arguments:
        model: The model.
        path: The file; "-" for standard input.
        column: The column or key that holds the prompts.
        answer: Tokens to fill after a prompt that does not say what is to be filled; 128 by default, or half of what
            the model takes if that is less.
        chat: Whether prompts are messages; None where that is up to the model.

    Raises:
        InputError: if a row is no row, cannot be encoded, or is too long for the model.
    """
    if answer is not None:
        check.integer("length", answer, least=1, most=model.length)
    wanted = min(_ANSWER, max(model.length // 2, 1)) if answer is None else answer
    digest, masked, count = hashlib.sha256(), set[int](), 0
    with ExitStack() as stack:
        copy: IO[str] | None = None
        if not _lasting(path):
            copy = stack.enter_context(TemporaryFile("w+", prefix="unmask-", encoding="utf-8"))
        for row in rows(path, column=column, write=True):
            found = encode(model, row, answer=wanted, chat=chat)
            _check_length(model, row, found, wanted)
            digest.update(f"{found.first} {found.tokens.size} ".encode())
            digest.update(found.tokens.tobytes() + found.masked.tobytes())
            masked.add(int(found.masked.sum()))
            count += 1
            if copy is not None:
                copy.write(json.dumps(asdict(row)) + "\n")

        def again() -> Iterator[Row]:
            return rows(path, column=column, write=True) if copy is None else _copied(copy)

        yield Prompts(model, wanted, chat, count, tuple(sorted(masked)), digest.hexdigest()[:16], again)


def _lasting(path: Path) -> bool:
    """Whether that can be read twice."""
    try:
        return str(path) != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return True  # and refused by whoever reads it first


def _copied(copy: IO[str]) -> Iterator[Row]:
    copy.seek(0)
    for line in copy:
        found: dict[str, Any] = json.loads(line)
        given: Any = found.pop("given")
        yield Row(**found, given=tuple(cast("list[int]", given)) if isinstance(given, list) else given)


def _check_length(model: "Model", row: Row, found: Encoded, answer: int) -> None:
    if found.tokens.size <= model.length:
        return
    tail = int(found.masked[-answer:].sum()) if row.answer is None and row.text is None else 0
    fitting = answer - (found.tokens.size - model.length)
    remedy = f"Use {{length}} {fitting} or less for the answers." if tail == answer and fitting > 0 else ""
    must = f"have rows of at most {model.length} tokens, the model's maximum"
    raise check.InputError("data", must, detail=f"but {row.where} has {found.tokens.size}", remedy=remedy)


def _records(model: "Model", trace: "Trace", some: list[tuple[Row, Encoded]]) -> Iterator[dict[str, Any]]:
    """What was written for each row of a run."""
    whole: tuple[Any, ...] = (trace.tokens, trace.revealed, trace.sizes, trace.valid_tokens, trace.evaluations)
    lists: list[list[Any]] = [part.tolist() for part in whole]
    # A text whose tokens may be taken back has no likelihood, but a history.
    key = "bits_per_token" if trace.versions is None else "versions"
    history: Any = trace.bits_per_token if trace.versions is None else trace.versions
    last: list[Any] = history.tolist() if trace.versions is None else history.to_json(len(some))
    for (row, found), more, *values in zip(some, last, *lists, strict=True):
        length, filled, end = found.tokens.size, int(found.masked.argmax()), model.codec.end
        tokens, revealed, sizes = values[0][:length], values[1][:length], values[2]
        ends = (at for at in range(length) if revealed[at] >= 0 and tokens[at] == end)
        kept = tokens[: next(ends, length)]
        answer = bool(found.masked[filled:].all())
        yield {
            "prompt": row.prompt,
            "text": model.codec.decode([token for token in kept[found.first :] if token != end]),
            "answer": model.codec.decode([token for token in kept[filled:] if token != end]) if answer else None,
            "sizes": [size for size in sizes if size],  # a sequence's steps are counted by what they reveal
            "revealed": revealed,
            key: more,
            "valid_tokens": values[3],
            "evaluations": values[4],
        }
