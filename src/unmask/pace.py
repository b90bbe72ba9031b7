"""The plan of a batch: which positions come at which step.

Two kinds. `PlannedPace` knows every set before the model runs: it is drawn on the host, moved to the device once, and
sliced. `ReactivePace` predicts all candidates at each step and ranks them on the device. Sequences that reveal
nothing at a step take no part in its evaluation, and a step at which none reveals anything costs none.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unmask.backend import Tensor, torch
from unmask.order import BlindOrder, Blocks, ReactiveOrder
from unmask.predict import MaskPredictor, Prediction
from unmask.schedule import Schedule
from unmask.size.base import Blind, Planned
from unmask.size.loglinear import LogLinear
from unmask.size.planned import Explicit
from unmask.size.reactive import Ranked, Reactive


@dataclass(frozen=True, eq=False)
class Choice:
    """The positions of one step and their predictions.

    Attributes:
        index: Number of the step.
        rows: Flat indices into `batch · length`, ascending within each sequence's order.
        prediction: Predictions of those rows.
        sequences: Indices of the sequences that were evaluated.
    """

    index: int
    rows: Tensor
    prediction: Prediction
    sequences: NDArray[np.int64]


class Pace(ABC):
    """Chooses what to reveal next."""

    @abstractmethod
    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Choice | None:
        """The next non-empty step from `step` on, or `None` when nothing is left."""

    @abstractmethod
    def without(self, closed: Tensor) -> "Pace":
        """The plan without positions that were closed early (true in `closed`, shape `(batch, length)`)."""


def pace_for(
    schedule: Schedule, masked: NDArray[np.bool_], sources: list[np.random.Generator], device: torch.device
) -> Pace:
    """The plan of a batch under a schedule.

    Arguments:
        schedule: The schedule.
        masked: Positions to fill, shape `(batch, length)`.
        sources: Randomness of each sequence.
        device: Where the plan will be used.
    """
    inner = schedule.order.order if isinstance(schedule.order, Blocks) else schedule.order
    draws = _Draws(schedule.size)
    agenda = [_agenda(schedule, inner, draws, row, source) for row, source in zip(masked, sources, strict=True)]
    if isinstance(schedule.size, Blind) and isinstance(inner, BlindOrder):
        return PlannedPace.of(agenda, masked.shape, device)
    return ReactivePace.of(schedule, inner, agenda, masked.shape, device)


@dataclass(frozen=True, eq=False)
class Stretch:
    """One block of one sequence: its positions (in order, if the order is blind) and their sizes (if the size is)."""

    positions: NDArray[np.int64]
    sizes: NDArray[np.int64]


class _Draws:
    """Sizes for any number of positions; fixed ones are worked out once for the whole batch."""

    def __init__(self, size: Blind | Reactive):
        self.size = size
        self.fitted: dict[int, tuple[Blind, NDArray[np.int64] | None]] = {}

    def __call__(self, count: int, source: np.random.Generator) -> tuple[int, NDArray[np.int64]]:
        """The number of steps and the sizes for `count` positions; none where the size has yet to see predictions."""
        if isinstance(self.size, Reactive):
            return count, np.zeros(0, dtype=np.int64)
        if count not in self.fitted:
            size = fitted(self.size, count)
            self.fitted[count] = size, size.sizes(count) if isinstance(size, Planned) else None
        size, sizes = self.fitted[count]
        return size.steps, size.draw(count, rng=source)[0] if sizes is None else sizes


def _agenda(
    schedule: Schedule, inner: object, draws: _Draws, masked: NDArray[np.bool_], source: np.random.Generator
) -> list[Stretch]:
    result = []
    for block in schedule.order.blocks(np.nonzero(masked)[0]):
        if block.size == 0:
            continue
        steps, sizes = draws(block.size, source)
        if isinstance(inner, BlindOrder):
            block = inner.arrange(block, length=masked.size, steps=steps, rng=source)
        result.append(Stretch(block, sizes))
    return result


def fitted(size: Blind, count: int) -> Blind:
    """`size`, with no more steps than there are tokens to reveal; log-linear sizes need no such limit."""
    if size.steps <= count or isinstance(size, Explicit | LogLinear):
        return size
    return replace(size, steps=count)


@dataclass(frozen=True, eq=False)
class _Slice:
    """One step of a plan: rows of the whole batch, the same rows among the evaluated sequences, and those sequences."""

    rows: Tensor
    local: Tensor
    sequences: NDArray[np.int64]
    index: Tensor | None  # the sequences on the device, when they are not the whole batch


@dataclass(frozen=True, eq=False)
class PlannedPace(Pace):
    """Every set is known.

    Attributes:
        row: All positions to reveal, on the host. step: The step of each. shape: Batch and length.
        slices: For each step its rows, or `None` if nobody reveals anything then.
    """

    row: NDArray[np.int64]
    step: NDArray[np.int64]
    shape: tuple[int, ...]
    slices: list[_Slice | None]

    @staticmethod
    def of(agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device) -> "PlannedPace":
        length = shape[1]
        rows, steps = [], []
        for sequence, stretches in enumerate(agenda):
            offset = 0
            for stretch in stretches:
                rows.append(sequence * length + stretch.positions)
                steps.append(offset + np.repeat(np.arange(stretch.sizes.size), stretch.sizes))
                offset += stretch.sizes.size
        row = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
        step = np.concatenate([np.zeros(0, dtype=np.int64), *steps])
        order = np.argsort(step, kind="stable")  # by step, then by sequence
        return PlannedPace._cut(row[order], step[order], shape, device)

    @staticmethod
    def _cut(
        row: NDArray[np.int64], step: NDArray[np.int64], shape: tuple[int, ...], device: torch.device
    ) -> "PlannedPace":
        batch, length = shape
        ends = np.cumsum(np.bincount(step, minlength=1))
        parts = [np.split(row, ends[:-1]), []]
        for part in parts[0]:
            sequences = np.unique(part // length)
            parts[1].append(np.searchsorted(sequences, part // length) * length + part % length)
        # One transfer for the whole plan; the steps are slices of it.
        on_device = torch.from_numpy(row).to(device)
        local = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *parts[1]])).to(device)
        slices: list[_Slice | None] = []
        start = 0
        for part, stop in zip(parts[0], ends, strict=True):
            sequences = np.unique(part // length)
            index = None if sequences.size == batch else torch.from_numpy(sequences).to(device)
            slices.append(_Slice(on_device[start:stop], local[start:stop], sequences, index) if part.size else None)
            start = int(stop)
        return PlannedPace(row, step, shape, slices)

    def without(self, closed: Tensor) -> "PlannedPace":
        gone = closed.flatten().cpu().numpy()[self.row]
        return PlannedPace._cut(self.row[~gone], self.step[~gone], self.shape, closed.device) if gone.any() else self

    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Choice | None:
        while step < len(self.slices) and self.slices[step] is None:
            step += 1
        if step >= len(self.slices):
            return None
        part = self.slices[step]
        assert part is not None
        if part.index is None or predictor.whole:
            prediction = predictor(tokens, masked, part.rows)
        else:
            prediction = predictor(tokens[part.index], masked[part.index], part.local)
        return Choice(step, part.rows, prediction, part.sequences)


@dataclass(frozen=True, eq=False)
class ReactivePace(Pace):
    """The choice depends on predictions.

    Attributes:
        schedule: Its size and order. order: The order within a block. block: The block of each position, shape
        `(batch, length)`. rank: The place of each position in a blind order, if it is one. turns: For a blind size:
        block and size of each step of each sequence, shape `(batch, steps, 2)`; empty otherwise.
    """

    schedule: Schedule
    order: object
    block: Tensor
    rank: Tensor
    turns: NDArray[np.int64] | None

    @staticmethod
    def of(
        schedule: Schedule, order: object, agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device
    ) -> "ReactivePace":
        block, rank = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        turns = []
        for sequence, stretches in enumerate(agenda):
            mine = []
            for number, stretch in enumerate(stretches):
                block[sequence, stretch.positions] = number
                rank[sequence, stretch.positions] = np.arange(stretch.positions.size)
                mine += [(number, size) for size in stretch.sizes.tolist() if size]
            turns.append(mine)
        table = None
        if isinstance(schedule.size, Blind):
            table = np.zeros((len(turns), max(map(len, turns), default=0), 2), dtype=np.int64)
            for sequence, mine in enumerate(turns):
                table[sequence, : len(mine)] = np.array(mine).reshape(-1, 2)
        return ReactivePace(
            schedule, order, torch.from_numpy(block).to(device), torch.from_numpy(rank).to(device), table
        )

    def choose(self, step: int, tokens: Tensor, masked: Tensor, predictor: MaskPredictor) -> Choice | None:
        if tokens.numel() == 0:
            return None
        candidates, wanted = self._candidates(step, masked)
        sequences = evaluated = torch.nonzero(candidates.any(dim=1))[:, 0]
        if sequences.numel() == 0:
            return None
        if predictor.whole:
            sequences = torch.arange(tokens.shape[0], device=tokens.device)
        candidates = candidates[sequences]
        rows = torch.nonzero(candidates.flatten())[:, 0]
        prediction = predictor(tokens[sequences], masked[sequences], rows)
        ranking = _Ranking.of(candidates, rows, prediction, self._scores(sequences, rows, prediction))
        size = self.schedule.size
        count = size.count(ranking) if isinstance(size, Reactive) else wanted[sequences]
        chosen = ranking.first(count)
        length = tokens.shape[1]
        local = rows[chosen]
        whole = sequences[local // length] * length + local % length
        return Choice(step, whole, prediction.take(chosen), evaluated.cpu().numpy())

    def without(self, closed: Tensor) -> "ReactivePace":
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
        turn = torch.from_numpy(self.turns[:, step]).to(masked.device)
        allowed = masked & (self.block == turn[:, :1]) & (turn[:, 1:] > 0)
        return allowed, turn[:, 1]

    def _scores(self, sequences: Tensor, rows: Tensor, prediction: Prediction) -> Tensor:
        if isinstance(self.order, ReactiveOrder):
            return self.order.score(prediction)
        return -self.rank[sequences].flatten()[rows].double()


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
    def confidence(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._ranked(self.prediction.confidence)

    @cached_property
    def entropy(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._ranked(self.prediction.entropy)

    def _ranked(self, values: Tensor) -> Tensor:
        return values[self.order].masked_fill(~self.valid, 0.0)

    def first(self, count: Tensor) -> Tensor:
        """Indices into the prediction's rows of the first `count` of each sequence."""
        rank = torch.arange(self.valid.shape[1], device=self.valid.device)
        return self.order[self.valid & (rank < count[:, None])]
