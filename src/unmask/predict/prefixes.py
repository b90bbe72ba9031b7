"""Drafts scored one by one by predictors that remember nothing: all prefixes of the drafts as one batch.

A drafted token is to be predicted from what is known and from the drafts before it. A predictor that remembers tells
all of them in one pass; one that does not is given a copy of the sequence for each draft, with the drafts before it
visible, in one evaluation of as many sequences.
"""

from dataclasses import dataclass, replace
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict.base import MaskPredictor, Prediction
from unmask.predict.memory import Memory, Places, told

_NEVER = 1 << 40
_COPIES = 256  # evaluated at once


@final
@dataclass(frozen=True, eq=False)
class Prefixes(Memory):
    """What stands in for the memory of a predictor that has none.

    Attributes:
        predictor: The predictor.
        masked: What is not known yet, shape `(batch, length)`.
    """

    predictor: MaskPredictor
    masked: Tensor

    copies = True

    def __post_init__(self):
        if self.predictor.whole:
            raise check.InputError(
                "predictor", "accept any sequences, because drafts are verified on copies of them",
                remedy="This predictor needs all sequences of a batch at every call.",
            )  # fmt: skip

    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, Memory]:
        hidden = tokens.masked_fill(self.masked, self.predictor.mask)
        return told(self.predictor, None, hidden, self.masked, places)[0], self

    def revealed(self, places: Places) -> Memory:
        masked = self.masked.clone()
        masked.view(-1)[places.rows] = False
        return replace(self, masked=masked)

    def accepted(self, places: Places) -> Memory:
        return self.revealed(places)

    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, Memory]:
        length = tokens.shape[1]
        counts = torch.as_tensor(drafted.counts).to(tokens.device)
        # The number of each draft among those of its sequence; nothing else is drafted.
        turn = torch.arange(len(drafted), device=tokens.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        drafts = torch.full_like(tokens, _NEVER)
        drafts.view(-1)[drafted.rows] = turn
        sequence = torch.cat([drafted.rows // length, after.index])
        seen = torch.cat([turn, torch.full_like(after.index, _NEVER)])  # drafts before this number are visible
        masked = self.masked[sequence] & (drafts[sequence] >= seen[:, None])
        number = torch.zeros(tokens.shape[0], dtype=torch.int64, device=tokens.device)
        number[after.index] = torch.arange(len(after.index), device=tokens.device) + len(drafted)
        copies = torch.cat([torch.arange(len(drafted), device=tokens.device), number[after.rows // length]])
        rows = copies * length + torch.cat([drafted.rows, after.rows]) % length
        copied = tokens[sequence].masked_fill(masked, self.predictor.mask)
        prediction = self._told(copied, masked, rows, copies)
        every = torch.arange(len(rows), device=tokens.device)
        return prediction.take(every[: len(drafted)]), prediction.take(every[len(drafted) :]), self

    def _told(self, tokens: Tensor, masked: Tensor, rows: Tensor, copies: Tensor) -> Prediction:
        """Predictions of rows of the copies, some copies at a time: there is one for every draft of a batch."""
        if len(tokens) <= _COPIES:
            return self.predictor(tokens, masked, rows)
        length = tokens.shape[1]
        logits: list[Tensor] = []
        where: list[Tensor] = []
        for begin in range(0, len(tokens), _COPIES):
            part = slice(begin, begin + _COPIES)
            inside = torch.nonzero((copies >= begin) & (copies < begin + _COPIES))[:, 0]
            logits.append(self.predictor(tokens[part], masked[part], rows[inside] - begin * length).logits())
            where.append(inside)
        found = torch.cat(logits)
        return Prediction((torch.empty_like(found).index_copy(0, torch.cat(where), found),), _same, found.shape[1])


def _same(logits: Tensor) -> Tensor:
    return logits
