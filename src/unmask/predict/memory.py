"""Predictors that remember.

Most predictors are functions of the tokens that are visible, and are run anew at every step. One that remembers keeps
what it made of a token once it is known, and never computes it again. Its memory of a batch goes along with the
sampler:

    memory = predictor.begin(tokens, masked)          what is given is known, nothing is computed yet
    prediction, memory = memory.read(tokens, places)  predictions of some positions, given all that is known
    memory = memory.revealed(places)                  these positions are known from now on, all at once: one step

What such a predictor says may depend on the steps in which tokens became known, not on their set alone. Nothing of a
step ever changes what an earlier one was told, so that all steps of a text can be predicted at once (`stepped`), and
that a few tokens can be taken for granted one after the other and taken back (`scan`).

A memory is a value: it can be kept, and read again, whatever was done with it since. Whoever goes on from the newest
one pays for nothing but what is new.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.predict.base import MaskPredictor, Prediction


@final
@dataclass(frozen=True, eq=False)
class Places:
    """Positions of a batch, by sequence: on the device, and as much on the host as spares waiting for it.

    Attributes:
        rows: Flat indices into `batch · length`, those of a sequence side by side.
        sequences: The sequences that take part, ascending; on the host.
        counts: How many positions of each; on the host.
        index: `sequences` on the device; all sequences, where a predictor must be given them all.
        local: `rows` as indices into these sequences alone.
    """

    rows: Tensor
    sequences: NDArray[np.int64]
    counts: NDArray[np.int64]
    index: Tensor
    local: Tensor

    def __post_init__(self) -> None:
        for name in ("rows", "index", "local"):
            value: object = getattr(self, name)
            if not isinstance(value, Tensor) or value.is_floating_point():
                raise check.InputError(name, "be a tensor of indices", found=check.shown(value))

    @staticmethod
    def of(rows: Tensor, length: int) -> "Places":
        """The places of flat indices, those of a sequence side by side; the device is waited for."""
        sequence = np.array(plain(rows), dtype=np.int64) // max(length, 1)
        first = np.ones(sequence.size, dtype=bool)
        first[1:] = np.diff(sequence) != 0
        sequences = sequence[first]
        counts = np.diff(np.append(np.flatnonzero(first), sequence.size))
        number = torch.as_tensor(np.cumsum(first) - 1).to(rows.device)
        index = torch.as_tensor(sequences).to(rows.device)
        return Places(rows, sequences, counts, index, number * length + rows % max(length, 1))

    def __len__(self) -> int:
        return self.rows.shape[0]


class Memory(ABC):
    """What a predictor keeps of a batch.

    Attributes:
        copies: Whether a scan evaluates a copy of a sequence for each of its drafts, and not the sequence once.
    """

    copies: bool = False

    @abstractmethod
    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, "Memory"]:
        """Predictions of positions given all that is known.

        Arguments:
            tokens: Token ids, shape `(batch, length)`; looked at where something became known.
            places: The positions.

        Returns:
            A prediction with one row for each place, and the memory with all that was computed for it.
        """

    @abstractmethod
    def revealed(self, places: Places) -> "Memory":
        """The memory of the same batch with the tokens at these places known too, as one step."""

    @abstractmethod
    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, "Memory"]:
        """Predictions of drafted tokens one by one, and of other positions after all of them.

        Arguments:
            tokens: Token ids, those drafted among them.
            drafted: Their positions; in each sequence in the order in which they would become known.
            after: Further positions, of any sequences, those without a draft among them.

        Returns:
            Predictions of the drafted positions, each given what is known and the drafts of its sequence before it;
            predictions of the others, given all of their sequence's drafts; and the memory, in which none is known yet.
        """

    @abstractmethod
    def accepted(self, places: Places) -> "Memory":
        """The memory with drafts of the last scan known, one after the other: the first ones of their sequences.

        To be called on what `scan` gave, once, and before anything else is done with it.
        """


class Remembering(MaskPredictor):
    """A predictor that remembers. Called without a memory, it takes all that is visible for given."""

    remembers = True
    in_one_pass = True

    @abstractmethod
    def begin(self, tokens: Tensor, masked: Tensor) -> Memory:
        """A memory in which what is not masked is known, as given.

        Arguments:
            tokens: Token ids, shape `(batch, length)`.
            masked: Booleans of the same shape.
        """

    @abstractmethod
    def stepped(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Prediction:
        """Predictions of positions given all earlier steps of their sequence, in one pass.

        Arguments:
            tokens: Token ids, shape `(batch, length)`, filled up at the end as for a call.
            step: The step of each, −1 where it is given; of the same shape.
            rows: Flat indices of the positions wanted.
        """

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        if rows is None:
            rows = torch.arange(tokens.numel(), device=tokens.device)
        by_sequence = torch.argsort(rows // max(tokens.shape[1], 1), stable=True)
        prediction, _ = self.begin(tokens, masked).read(tokens, Places.of(rows[by_sequence], tokens.shape[1]))
        back = torch.empty_like(by_sequence)
        back[by_sequence] = torch.arange(len(rows), device=rows.device)
        return prediction.take(back)


def told(
    predictor: MaskPredictor, memory: Memory | None, tokens: Tensor, masked: Tensor, places: Places
) -> tuple[Prediction, Memory | None]:
    """Predictions of some places of a batch: from its memory, or by a predictor that has none.

    One that has none is given the sequences that take part, and no others; all of them if it needs them all.
    """
    if memory is not None:
        return memory.read(tokens, places)
    if places.sequences.size == tokens.shape[0] or predictor.whole:
        return predictor(tokens, masked, places.rows), None
    return predictor(tokens[places.index], masked[places.index], places.local), None
