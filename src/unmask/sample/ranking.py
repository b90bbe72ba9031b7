"""The candidates of a step, ranked, and how many of them a size that looks at predictions takes."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import Prediction
from unmask.size.reactive import Ranked, Reactive


def counted(size: Reactive, ranking: "Ranking") -> Tensor:
    """How many positions of each sequence a size reveals, if it says so for each, and at least one."""
    count: object = size.count(ranking)
    if not isinstance(count, Tensor) or count.shape != ranking.valid.shape[:1]:
        raise check.InputError(
            "", f"The size must give one number for each of {len(ranking.valid)} sequences, which {size!r} did not"
        )
    if bool((ranking.valid.any(dim=1) & (count < 1)).any()):
        raise check.InputError("", f"The size must reveal at least one of the masked positions, which {size!r} did not")
    return count


@final
@dataclass(frozen=True, eq=False)
class Ranking(Ranked):
    """Candidates of each sequence by descending score; ties keep the order of positions.

    Attributes:
        valid: Shape `(batch, longest)`.
        order: For each sequence, indices into the prediction's rows in ranked order, padded with any index.
        prediction: Predictions of all candidates.
    """

    valid: Tensor
    order: Tensor
    prediction: Prediction

    @staticmethod
    def of(candidates: Tensor, rows: Tensor, prediction: Prediction, score: Tensor) -> "Ranking":
        length = candidates.shape[1]
        dense = torch.full(candidates.shape, -torch.inf, dtype=score.dtype, device=score.device)
        dense.view(-1)[rows] = score
        # Padding must come after candidates even where a score is −∞: sort by score, then stably by being a candidate.
        by_score = dense.argsort(dim=1, descending=True, stable=True)
        last = (~candidates).gather(1, by_score).to(torch.int8).argsort(dim=1, stable=True)
        position = by_score.gather(1, last)
        number = torch.zeros(candidates.numel(), dtype=torch.int64, device=rows.device)
        number[rows] = torch.arange(rows.numel(), device=rows.device)
        counts = candidates.sum(dim=1, keepdim=True)
        longest = int(counts.max())
        position = position[:, :longest]
        valid = torch.arange(longest, device=rows.device) < counts
        base = torch.arange(candidates.shape[0], device=rows.device)[:, None] * length
        return Ranking(valid, number[base + position], prediction)

    @cached_property
    def confidence(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - a property that keeps its value
        return self._ranked(self.prediction.confidence)

    @cached_property
    def entropy(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - a property that keeps its value
        return self._ranked(self.prediction.entropy)

    def _ranked(self, values: Tensor) -> Tensor:
        return values[self.order].masked_fill(~self.valid, 0.0)

    def first(self, count: Tensor) -> Tensor:
        """Indices into the prediction's rows of the first `count` of each sequence."""
        rank = torch.arange(self.valid.shape[1], device=self.valid.device)
        return self.order[self.valid & (rank < count[:, None])]
