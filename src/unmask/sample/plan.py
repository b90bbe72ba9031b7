"""The plan of a batch: which positions come at which step.

Two kinds. `BlindPlan` knows every set before the model runs: it is drawn on the host, moved to the device once, and
sliced. `ReactivePlan` predicts all candidates at each step and ranks them on the device.

The steps of a sequence are those at which it reveals something: sizes of zero are left out of the plan, so that they
cost nothing, whatever the other sequences do. A sequence that is done takes no part in later evaluations.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.order import BlindOrder, ReactiveOrder
from unmask.predict import MaskPredictor
from unmask.predict.base import Prediction
from unmask.schedule import Schedule
from unmask.size.base import Blind, Planned
from unmask.size.reactive import Ranked, Reactive


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The positions of one step and their predictions.

    Attributes:
        index: Number of the step.
        rows: Flat indices into `batch · length`, by sequence, and in each by its order.
        prediction: Predictions of those rows.
        sequences: Indices of the sequences they belong to.
    """

    index: int
    rows: Tensor
    prediction: Prediction
    sequences: NDArray[np.int64]


class Plan(ABC):
    """Which positions of a batch come at which step."""

    @abstractmethod
    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Chosen | None:
        """The next non-empty step from `step` on, or `None` when nothing is left."""

    @abstractmethod
    def without(self, closed: Tensor) -> "Plan":
        """The plan without positions that were closed early (true in `closed`, shape `(batch, length)`)."""


def plan_for(
    schedule: Schedule,
    masked: NDArray[np.bool_],
    sources: list[np.random.Generator],
    device: torch.device,
    lengths: NDArray[np.int64],
) -> Plan:
    """The plan of a batch under a schedule.

    Arguments:
        schedule: The schedule.
        masked: Positions to fill, shape `(batch, length)`.
        sources: Randomness of each sequence.
        device: Where the plan will be used.
        lengths: Tokens of each sequence, its padding left out.
    """
    agenda = agenda_of(schedule, masked, sources, lengths)
    if schedule.blind:
        return BlindPlan.of(agenda, masked.shape, device)
    return ReactivePlan.of(schedule, agenda, masked.shape, device)


def agenda_of(
    schedule: Schedule, masked: NDArray[np.bool_], sources: list[np.random.Generator], lengths: NDArray[np.int64]
) -> "list[list[Stretch]]":
    """The blocks of each sequence one after the other, all that can be known before the model runs."""
    draws = _Draws(schedule.size)
    return [
        _agenda(schedule, draws, row[:length], source)
        for row, source, length in zip(masked, sources, lengths, strict=True)
    ]


@final
@dataclass(frozen=True, eq=False)
class Stretch:
    """One block of one sequence.

    Attributes:
        positions: Its positions, in order if the order is blind.
        sizes: How many of them each step reveals, if the size is blind; empty otherwise.
    """

    positions: NDArray[np.int64]
    sizes: NDArray[np.int64]


@final
class _Draws:
    """Sizes for any number of positions; fixed ones are worked out once for the whole batch."""

    def __init__(self, size: Blind | Reactive):
        self.size = size
        self.fitted: dict[int, tuple[Blind, NDArray[np.int64] | None]] = {}

    def __call__(self, count: int, source: np.random.Generator) -> tuple[int | None, NDArray[np.int64]]:
        """The number of steps and the sizes above zero for `count` positions; neither if the size needs predictions."""
        if isinstance(self.size, Reactive):
            return None, np.zeros(0, dtype=np.int64)
        try:
            if count not in self.fitted:
                size = self.size.fitted(count)
                self.fitted[count] = size, size.sizes(count) if isinstance(size, Planned) else None
            size, sizes = self.fitted[count]
            sizes = size.draw(count, rng=source)[0] if sizes is None else sizes
        except check.InputError as error:  # a size made for one length, say
            more = f"It was to split the {count} masked positions of a sequence or block."
            raise error.changed(remedy=f"{error.remedy} {more}".strip()) from None
        if sizes.sum() != count or sizes.min() < 0:
            raise check.InputError(
                "", f"The size must split {count} masked positions, but {size!r} gave {sizes.tolist()[:16]}"
            )
        return size.steps, sizes[sizes > 0]


def _agenda(schedule: Schedule, draws: _Draws, masked: NDArray[np.bool_], source: np.random.Generator) -> list[Stretch]:
    result: list[Stretch] = []
    for block in schedule.order.blocks(np.nonzero(masked)[0]):
        if block.size == 0:
            continue
        steps, sizes = draws(block.size, source)
        if isinstance(schedule.within, BlindOrder):
            wanted = block
            block = schedule.within.arrange(wanted, length=masked.size, steps=steps, rng=source)
            # One of your own may leave out a position, which would then stay masked for ever.
            if not np.array_equal(np.sort(block), wanted):
                raise check.InputError(
                    "", f"The order must hold every masked position once, which {schedule.within!r} did not"
                )
        result.append(Stretch(block, sizes))
    return result


@final
@dataclass(frozen=True, eq=False)
class BlindPlan(Plan):
    """Every set is known.

    Attributes:
        row: All positions to reveal, by step and then by sequence, on the host.
        step: The step of each of them.
        shape: Batch and length.
        ends: Where each step ends in `row`; the first entry is 0.
        sequences: The sequences of each step, one step after the other, on the host.
        parts: Where each step ends in `sequences`; the first entry is 0.
        rows: `row` on the device.
        local: The same positions among the sequences of their step alone, on the device.
        index: `sequences` on the device.
    """

    row: NDArray[np.int64]
    step: NDArray[np.int64]
    shape: tuple[int, ...]
    ends: NDArray[np.int64]
    sequences: NDArray[np.int64]
    parts: NDArray[np.int64]
    rows: Tensor
    local: Tensor
    index: Tensor

    @staticmethod
    def of(agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device) -> "BlindPlan":
        rows, steps = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for sequence, stretches in enumerate(agenda):
            if stretches:
                sizes = np.concatenate([stretch.sizes for stretch in stretches])
                rows += [sequence * shape[1] + stretch.positions for stretch in stretches]
                steps.append(np.repeat(np.arange(sizes.size), sizes))
        row, step = np.concatenate(rows), np.concatenate(steps)
        order = np.argsort(step, kind="stable")  # by step, then by sequence
        return BlindPlan._cut(row[order], step[order], shape, device)

    @staticmethod
    def _cut(
        row: NDArray[np.int64], step: NDArray[np.int64], shape: tuple[int, ...], device: torch.device
    ) -> "BlindPlan":
        length = max(shape[1], 1)
        sequence = row // length
        first = np.ones(row.size, dtype=bool)  # where a sequence begins within a step
        first[1:] = (np.diff(step) != 0) | (np.diff(sequence) != 0)
        ends = np.concatenate([[0], np.cumsum(np.bincount(step))])
        sequences, parts = sequence[first], np.concatenate([[0], np.cumsum(np.bincount(step[first]))])
        local = (np.cumsum(first) - 1 - parts[step]) * length + row % length
        # One transfer for the whole plan; the steps are slices of it.
        moved = torch.as_tensor(np.concatenate([row, local, sequences])).to(device)
        rows, among, index = moved[: row.size], moved[row.size : 2 * row.size], moved[2 * row.size :]
        return BlindPlan(row, step, shape, ends, sequences, parts, rows, among, index)

    def without(self, closed: Tensor) -> "BlindPlan":
        gone: NDArray[np.bool_] = closed.flatten().cpu().numpy()[self.row]
        return BlindPlan._cut(self.row[~gone], self.step[~gone], self.shape, closed.device) if gone.any() else self

    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Chosen | None:
        # The first step from `step` on that reveals anything: an early stop may have emptied some.
        done = int(self.ends[min(step, self.ends.size - 1)])
        step = int(np.searchsorted(self.ends, done, side="right")) - 1
        if step >= self.ends.size - 1:
            return None
        part = slice(int(self.ends[step]), int(self.ends[step + 1]))
        some = slice(int(self.parts[step]), int(self.parts[step + 1]))
        sequences, rows = self.sequences[some], self.rows[part]
        if sequences.size == self.shape[0] or predictor.whole:
            prediction = predictor(tokens, masked, rows)
        else:
            index = self.index[some]
            prediction = predictor(tokens[index], masked[index], self.local[part])
        return Chosen(step, rows, prediction, sequences)


@final
@dataclass(frozen=True, eq=False)
class ReactivePlan(Plan):
    """The choice depends on predictions.

    Attributes:
        schedule: Its size and order.
        block: The block of each position, shape `(batch, length)`.
        rank: The place of each position in a blind order, if it is one.
        turns: For a blind size, block and size of each step of each sequence, shape `(batch, steps, 2)`, zero after
            its last.
    """

    schedule: Schedule
    block: Tensor
    rank: Tensor
    turns: Tensor | None

    @staticmethod
    def of(
        schedule: Schedule, agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device
    ) -> "ReactivePlan":
        block, rank = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        steps = [sum(stretch.sizes.size for stretch in stretches) for stretches in agenda]
        turns = np.zeros((len(agenda), max(steps, default=0), 2), dtype=np.int64)
        for sequence, stretches in enumerate(agenda):
            start = 0
            for number, stretch in enumerate(stretches):
                block[sequence, stretch.positions] = number
                rank[sequence, stretch.positions] = np.arange(stretch.positions.size)
                stop = start + stretch.sizes.size
                turns[sequence, start:stop, 0], turns[sequence, start:stop, 1] = number, stretch.sizes
                start = stop
        table = torch.as_tensor(turns).to(device) if isinstance(schedule.size, Blind) else None
        return ReactivePlan(schedule, torch.as_tensor(block).to(device), torch.as_tensor(rank).to(device), table)

    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Chosen | None:
        if tokens.numel() == 0:
            return None
        candidates, wanted = self._candidates(step, masked)
        sequences = evaluated = torch.nonzero(candidates.any(dim=1))[:, 0]
        # A host may have filled all that was due, or an early stop closed it: the next step may have something left.
        while sequences.numel() == 0:
            step += 1
            if self.turns is None or step >= self.turns.shape[1]:
                return None
            candidates, wanted = self._candidates(step, masked)
            sequences = evaluated = torch.nonzero(candidates.any(dim=1))[:, 0]
        if predictor.whole:
            sequences = torch.arange(tokens.shape[0], device=tokens.device)
        candidates = candidates[sequences]
        rows = torch.nonzero(candidates.flatten())[:, 0]
        prediction = predictor(tokens[sequences], masked[sequences], rows)
        ranking = _Ranking.of(candidates, rows, prediction, self._scores(sequences, rows, prediction))
        size = self.schedule.size
        count = wanted[sequences] if isinstance(size, Blind) else _counted(size, ranking)
        chosen = ranking.first(count)
        length = tokens.shape[1]
        local = rows[chosen]
        whole = sequences[local // length] * length + local % length
        return Chosen(step, whole, prediction.take(chosen), evaluated.cpu().numpy())

    def without(self, closed: Tensor) -> "ReactivePlan":
        return self  # it looks at what is masked at each step

    def _candidates(self, step: int, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Positions that may be revealed now, and how many of them (all, where the size has yet to see them)."""
        if self.turns is None:
            # The first block of each sequence that still has masked positions.
            number = self.block.masked_fill(~masked, torch.iinfo(torch.int64).max).amin(dim=1, keepdim=True)
            now = masked & (self.block == number)
            return now, now.sum(dim=1)
        if step >= self.turns.shape[1]:
            return torch.zeros_like(masked), torch.zeros_like(masked[:, 0], dtype=torch.int64)
        turn = self.turns[:, step]
        allowed = masked & (self.block == turn[:, :1]) & (turn[:, 1:] > 0)
        return allowed, turn[:, 1]

    def _scores(self, sequences: Tensor, rows: Tensor, prediction: Prediction) -> Tensor:
        within = self.schedule.within
        if not isinstance(within, ReactiveOrder):
            return -self.rank[sequences].flatten()[rows].double()
        score: object = within.score(prediction)
        if not isinstance(score, Tensor) or score.shape != rows.shape:
            raise check.InputError(
                "", f"The order must give one number for each of {rows.numel()} positions, which {within!r} did not"
            )
        return score if score.is_floating_point() else score.double()


def _counted(size: Reactive, ranking: "_Ranking") -> Tensor:
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
class _Ranking(Ranked):
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
    def of(candidates: Tensor, rows: Tensor, prediction: Prediction, score: Tensor) -> "_Ranking":
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
        return _Ranking(valid, number[base + position], prediction)

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
