"""The candidates of a step, ranked, and how many of them a size that looks at predictions takes."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import Prediction
from unmask.size.reactive import Ranked, Reactive


def counted(size: Reactive, ranking: "Ranking") -> "tuple[Ranking, Tensor]":
    """The ranking as a size wants it, and how many positions of each sequence it reveals, at least one."""
    first: object = size.preferred(ranking)
    if first is not None:
        if not isinstance(first, Tensor) or first.dtype != torch.bool or first.shape != ranking.valid.shape:
            shape = tuple(ranking.valid.shape)
            raise check.InputError(
                "", f"The size must return its preferences as booleans of shape {shape}, but {size!r} did not"
            )
        ranking = ranking.preferring(first)
    count: object = size.count(ranking)
    if not isinstance(count, Tensor) or count.shape != ranking.valid.shape[:1]:
        raise check.InputError("", f"The size must return one number for each sequence, but {size!r} did not")
    if bool((ranking.valid.any(dim=1) & (count < 1)).any()):
        raise check.InputError("", f"The size must reveal at least one of the masked positions, but {size!r} did not")
    return ranking, count


@final
@dataclass(frozen=True, eq=False)
class Ranking(Ranked):
    """Candidates of each sequence by descending score; ties keep the order of positions.

    Attributes:
        valid: Shape `(batch, longest)`.
        order: For each sequence, indices into the prediction's rows in ranked order, padded with any index.
        position: For each sequence, the ranked positions in it, padded with any position.
        prediction: Predictions of all candidates.
        moved: How far the prediction of each candidate has moved; `None` if nobody looks back.
    """

    valid: Tensor
    order: Tensor
    position: Tensor
    prediction: Prediction
    moved: Tensor | None = None

    @staticmethod
    def of(
        candidates: Tensor, rows: Tensor, prediction: Prediction, score: Tensor, moved: Tensor | None = None
    ) -> "Ranking":
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
        return Ranking(valid, number[base + position], position, prediction, moved)

    @cached_property
    def confidence(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - a property that keeps its value
        return self._ranked(self.prediction.confidence)

    @cached_property
    def entropy(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - a property that keeps its value
        return self._ranked(self.prediction.entropy)

    @cached_property
    def movement(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - a property that keeps its value
        return super().movement if self.moved is None else self._ranked(self.moved)

    def preferring(self, first: Tensor) -> "Ranking":
        """The ranking with some of its positions before all others, in their order."""
        turn = torch.where(self.valid, (~first).to(torch.int8), 2).argsort(dim=1, stable=True)
        order, position = self.order.gather(1, turn), self.position.gather(1, turn)
        return Ranking(self.valid, order, position, self.prediction, self.moved)

    def _ranked(self, values: Tensor) -> Tensor:
        return values[self.order].masked_fill(~self.valid, 0.0)

    def first(self, count: Tensor) -> Tensor:
        """Indices into the prediction's rows of the first `count` of each sequence."""
        return self.order[self._leading(count)]

    def thinned(self, count: Tensor, distance: Tensor) -> Tensor:
        """Of the first `count` of each sequence those that are far from every better one that is taken.

        Arguments:
            count: One number for each sequence.
            distance: The least distance of two positions, one number for each sequence.
        """
        return self.order[self._apart(self._leading(count), None, distance)]

    def spaced(self, count: Tensor, distance: Tensor) -> Tensor:
        """The best `count` of each sequence that are far from each other; the distance is halved if there are fewer.

        Arguments:
            count: One number for each sequence.
            distance: The least distance of two positions, one number for each sequence.
        """
        return self.order[self._apart(self.valid, count.minimum(self.valid.sum(dim=1)), distance)]

    def _leading(self, count: Tensor) -> Tensor:
        rank = torch.arange(self.valid.shape[1], device=self.valid.device)
        return self.valid & (rank < count[:, None])

    def _apart(self, among: Tensor, count: Tensor | None, distance: Tensor) -> Tensor:
        """Which are taken, from the best on, each far from those before; so many of each sequence if that is said."""
        taken, gap = torch.zeros_like(among), torch.full_like(self.position, torch.iinfo(torch.int64).max)
        while True:
            free = among & ~taken & (gap >= distance[:, None])
            if count is not None:
                short = taken.sum(dim=1) < count
                # Nothing is left at the distance: it gives way, and the number of steps stays.
                distance = torch.where(short & ~free.any(dim=1), (distance // 2).clamp(min=1), distance)
                if not bool(short.any()):
                    return taken
                free = among & ~taken & (gap >= distance[:, None]) & short[:, None]
            elif not bool(free.any()):
                return taken
            best = free.to(torch.int8).argmax(dim=1, keepdim=True)  # the first of those that are free
            found = free.gather(1, best)
            taken = taken | torch.zeros_like(taken).scatter(1, best, found)
            away = (self.position - self.position.gather(1, best)).abs()
            gap = torch.where(found, gap.minimum(away), gap)
