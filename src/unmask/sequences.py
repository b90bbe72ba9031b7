"""Sequences of any lengths and the positions to fill in each, for everything that fills or measures texts.

Sequences of one length and nothing given are a tensor of token ids; everything that takes `Sequences` takes that too.
Where lengths differ, sequences are kept side by side in one table, filled up at the end. They are worked on from the
shortest to the longest, so that a batch has little to fill up; where the model has no token for it
(`unmask.predict.MaskPredictor.pad`), sequences of another length are another batch. A sequence gives the same result
alone and among others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, integral, torch
from unmask.engine import parts


@final
@dataclass(frozen=True, eq=False)
class Sequences:
    """Token ids of sequences, and which of them are to be filled.

    Attributes:
        tokens: Token ids, shape `(count, longest)`; 0 after the end of a sequence.
        masked: Booleans of the same shape, true where a token is to be filled, or scored; false after the end.
        lengths: Tokens of each sequence, shape `(count,)`, on the CPU.

    Example:
        >>> rows = Sequences.of([[5, 6, 7], [8]], [[False, True, True], [True]])
        >>> rows.tokens.tolist(), rows.counts.tolist(), len(rows)
        ([[5, 6, 7], [8, 0, 0]], [2, 1], 2)
    """

    tokens: Tensor
    masked: Tensor
    lengths: Tensor

    @staticmethod
    def of(
        rows: "Sequences | Tensor | Sequence[Sequence[int]]",
        masked: "Tensor | Sequence[Sequence[bool]] | None" = None,
        *,
        device: torch.device | str | None = None,
    ) -> "Sequences":
        """Sequences from a table of token ids, or from a list of them for each.

        Arguments:
            rows: Token ids: a tensor of shape `(count, length)`, or a list for each sequence.
            masked: Likewise, whether each is to be filled; all of them by default.
            device: Where to put them; by default where they are.

        Raises:
            InputError: if they are no token ids, or the two do not go together.
        """
        if isinstance(rows, Sequences):
            if masked is not None:
                raise check.InputError("masked", "be left out", remedy="The sequences already say what is masked.")
            return rows.to(device)
        if isinstance(rows, Tensor):
            return _table(rows, masked).to(device)
        return _listed(rows, masked).to(device)

    def to(self, device: torch.device | str | None) -> "Sequences":
        """The same on another device; as it is for `None`."""
        if device is None:
            return self
        return Sequences(self.tokens.to(device=device), self.masked.to(device=device), self.lengths)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: slice | Tensor | Sequence[int]) -> "Sequences":
        """Some of them, as many positions wide as the longest of those."""
        where = torch.arange(len(self))[index] if isinstance(index, slice) else torch.as_tensor(index)
        lengths = self.lengths[where]
        width = int(lengths.max()) if len(lengths) else 0
        there = where.to(self.tokens.device)
        return Sequences(self.tokens[there, :width], self.masked[there, :width], lengths)

    @property
    def counts(self) -> Tensor:
        """How many tokens of each are to be filled, on the CPU."""
        return self.masked.sum(dim=1).cpu()

    @property
    def equal(self) -> bool:
        """Whether all have one length."""
        return len(self) == 0 or int(self.lengths.min()) == self.tokens.shape[1]

    def filled_up(self, pad: int | None) -> Tensor:
        """The token ids with a model's own token after the end of each."""
        if pad is None or self.equal:
            return self.tokens
        place = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.tokens.masked_fill(place >= self.lengths.to(self.tokens.device)[:, None], pad)

    def by_length(self) -> "tuple[Sequences, Tensor]":
        """The same from the shortest to the longest, and the number of each among these."""
        order = torch.argsort(self.lengths, stable=True)
        return (self, order) if self.equal else (self[order], order)

    def cuts(self, batch: int, *, pad: int | None, whole: bool) -> list[slice]:
        """Batches of sequences that are sorted by length.

        Arguments:
            batch: Sequences at once.
            pad: The model's token for positions after the end; without one the sequences of a batch have one length.
            whole: True puts all of them into one batch, whatever `batch` says.

        Raises:
            InputError: if all must be in one batch, and cannot.
        """
        batch = check.integer("batch", batch, least=1)
        if pad is not None or self.equal:
            return parts(len(self), max(len(self), 1) if whole else batch)
        if whole:
            raise check.InputError(
                "",
                "A model that needs all sequences at every call and has no padding needs sequences of equal length",
            )
        edges = np.flatnonzero(np.diff(self.lengths.numpy())) + 1
        starts, stops = [0, *edges.tolist()], [*edges.tolist(), len(self)]
        return [
            slice(start + part.start, start + part.stop)
            for start, stop in zip(starts, stops, strict=True)
            for part in parts(stop - start, batch)
        ]


def trimmed(tokens: Tensor, masked: Tensor, lengths: Tensor, pad: int | None) -> tuple[Tensor, Tensor]:
    """A batch as wide as its longest sequence, filled up with the model's own token."""
    width = int(lengths.max()) if len(lengths) else 0
    cut = Sequences(tokens[:, :width], masked[:, :width], lengths)
    return cut.filled_up(pad), cut.masked


def put_back(values: Sequence[Tensor], order: Tensor) -> Tensor:
    """What batches of sorted sequences gave, one entry for each, in the order in which the sequences were given."""
    found = torch.cat(list(values)) if values else torch.zeros(0)
    result = torch.empty_like(found)
    result[order.to(found.device)] = found
    return result


def own_lengths(tokens: Tensor, pad: int | None) -> NDArray[np.int64]:
    """Tokens of each sequence of a batch: those before the padding at its end."""
    if pad is None:
        return np.full(tokens.shape[0], tokens.shape[1], dtype=np.int64)
    padding = (tokens == pad).flip(1).to(torch.int64).cumprod(dim=1).sum(dim=1)
    return (tokens.shape[1] - padding).cpu().numpy()


def _table(tokens: Tensor, masked: object) -> Sequences:
    if tokens.ndim != 2 or not integral(tokens):
        found = f"{tokens.dtype} of shape {tuple(tokens.shape)}"
        raise check.InputError("tokens", "hold token ids of shape (count, length)", found=found)
    hidden = torch.ones_like(tokens, dtype=torch.bool) if masked is None else masked
    if not isinstance(hidden, Tensor):
        raise check.InputError("masked", "be a tensor of booleans", found=check.type_of(hidden))
    if hidden.dtype != torch.bool or hidden.shape != tokens.shape:
        raise check.InputError(
            "masked",
            f"hold booleans of shape {tuple(tokens.shape)}",
            found=f"{hidden.dtype} of shape {tuple(hidden.shape)}",
        )
    lengths = torch.full((len(tokens),), tokens.shape[1], dtype=torch.int64)
    return Sequences(tokens.to(torch.int64), hidden.to(device=tokens.device), lengths)


def _listed(rows: object, masked: object) -> Sequences:
    given = check.listed("rows", rows, "be a list with a list of token ids for each sequence")
    ids = [_numbers(row) for row in given]
    hidden = [np.ones(row.size, dtype=bool) for row in ids]
    if masked is not None:
        flags = check.listed("masked", masked, "be a list with a list of booleans for each sequence")
        if len(flags) != len(ids):
            raise check.InputError("masked", f"hold a list for each of the {len(ids)} sequences", found=f"{len(flags)}")
        hidden = [_booleans(row, each.size) for row, each in zip(flags, ids, strict=True)]
    lengths = np.array([row.size for row in ids], dtype=np.int64)
    width = int(lengths.max(initial=0))
    check.room("rows", len(ids), max(width, 1))
    tokens, flags = np.zeros((len(ids), width), dtype=np.int64), np.zeros((len(ids), width), dtype=bool)
    for number, (row, flag) in enumerate(zip(ids, hidden, strict=True)):
        tokens[number, : row.size], flags[number, : row.size] = row, flag
    return Sequences(torch.from_numpy(tokens), torch.from_numpy(flags), torch.from_numpy(lengths))


def _numbers(row: object) -> NDArray[np.int64]:
    array = check.array("rows", cast(Any, row))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise check.InputError("rows", "be a list with a list of token ids for each sequence", found=check.shown(row))
    return array.astype(np.int64)


def _booleans(row: object, length: int) -> NDArray[np.bool_]:
    array = check.array("masked", cast(Any, row))
    if array.ndim != 1 or (array.size and array.dtype != np.bool_) or array.size != length:
        raise check.InputError(
            "masked", f"hold {length} booleans, one for each token of the sequence", found=check.shown(row)
        )
    return array.astype(bool)
