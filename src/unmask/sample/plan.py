"""The plan of a batch: which positions come at which step.

Two kinds. `BlindPlan` knows every set before the model runs: it is drawn on the host, moved to the device once, and
sliced. `ReactivePlan` predicts all candidates at each step and ranks them on the device.

The steps of a sequence are those at which it reveals something: sizes of zero are left out of the plan, so that they
cost nothing, whatever the other sequences do. A sequence that is done takes no part in later evaluations.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.order import BlindOrder, ReactiveOrder
from unmask.predict import Places, Prediction
from unmask.sample.ranking import Ranking, counted
from unmask.sample.seeds import sources_of
from unmask.schedule import Schedule
from unmask.size.base import Blind, Planned
from unmask.size.reactive import Reactive


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """The positions that one step needs predicted.

    Attributes:
        index: Number of the step.
        places: The positions, by sequence.
        wanted: How many of each sequence are to be revealed, where that is known and they are not all.
    """

    index: int
    places: Places
    wanted: Tensor | None = None


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The positions of one step and their predictions.

    Attributes:
        rows: Flat indices into `batch · length`, by sequence, and in each by its order.
        prediction: Predictions of those rows.
    """

    rows: Tensor
    prediction: Prediction


class Plan(ABC):
    """Which positions of a batch come at which step."""

    @abstractmethod
    def ask(self, step: int, masked: Tensor, *, whole: bool) -> Asked | None:
        """What the next non-empty step from `step` on needs predicted, or `None` when nothing is left.

        Arguments:
            step: Number of the step.
            masked: What is masked now, shape `(batch, length)`.
            whole: Whether all sequences of the batch must take part.
        """

    @abstractmethod
    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        """What the step reveals, given what it asked for."""

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
    """The blocks of each sequence one after the other, all that can be known before the model runs.

    Where nothing is drawn, sequences that have the same to fill share one list.
    """
    draws, known = _Draws(schedule.size), dict[bytes, list[Stretch]]()
    within = schedule.within
    settled = isinstance(schedule.size, Planned) and isinstance(within, BlindOrder) and within.fixed
    result: list[list[Stretch]] = []
    for row, source, length in zip(masked, sources, lengths, strict=True):
        own = row[:length]
        key = own.tobytes() if settled else b""
        if key not in known or not settled:
            known[key] = _agenda(schedule, draws, own, source)
        result.append(known[key])
    return result


def planned_steps(
    schedule: Schedule, masked: NDArray[np.bool_], seeds: Sequence[int], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The step at which a sampler with these seeds reveals each position under a blind schedule; −1 where it is given.

    Arguments:
        schedule: A schedule that does not look at predictions.
        masked: Positions to fill, shape `(batch, length)`.
        seeds: The seed of each sequence.
        lengths: Tokens of each sequence, its padding left out.
    """
    sources, _ = sources_of(seeds, lengths, int(masked.shape[1]))
    return steps_in(agenda_of(schedule, masked, sources, lengths), masked.shape)


def steps_in(agenda: "list[list[Stretch]]", shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The step of each position of a batch, −1 where there is none; all of it must be known beforehand."""
    step = np.full(shape, -1, dtype=np.int64)
    done: dict[int, NDArray[np.int64]] = {}
    for row, stretches in zip(step, agenda, strict=True):
        if id(stretches) in done:  # as another one
            row[:] = done[id(stretches)]
        elif stretches:
            done[id(stretches)] = row
            sizes = np.concatenate([stretch.sizes for stretch in stretches])
            row[np.concatenate([stretch.positions for stretch in stretches])] = np.repeat(np.arange(sizes.size), sizes)
    return step


def sets_in(stretches: "Sequence[Stretch]") -> list[NDArray[np.int64]]:
    """The positions of each step of a sequence, in their order; all of it must be known beforehand."""
    return [part for each in stretches for part in np.split(each.positions, np.cumsum(each.sizes)[:-1])]


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
        counts: How many positions of each of them the step reveals, on the host.
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
    counts: NDArray[np.int64]
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
        counts = np.diff(np.append(np.flatnonzero(first), row.size))
        return BlindPlan(row, step, shape, ends, sequences, counts, parts, rows, among, index)

    def without(self, closed: Tensor) -> "BlindPlan":
        gone: NDArray[np.bool_] = closed.flatten().cpu().numpy()[self.row]
        return BlindPlan._cut(self.row[~gone], self.step[~gone], self.shape, closed.device) if gone.any() else self

    def ask(self, step: int, masked: Tensor, *, whole: bool) -> Asked | None:
        # The first step from `step` on that reveals anything: an early stop may have emptied some.
        done = int(self.ends[min(step, self.ends.size - 1)])
        step = int(np.searchsorted(self.ends, done, side="right")) - 1
        if step >= self.ends.size - 1:
            return None
        part = slice(int(self.ends[step]), int(self.ends[step + 1]))
        some = slice(int(self.parts[step]), int(self.parts[step + 1]))
        return Asked(
            step, Places(self.rows[part], self.sequences[some], self.counts[some], self.index[some], self.local[part])
        )

    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        return Chosen(asked.places.rows, prediction)


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

    def ask(self, step: int, masked: Tensor, *, whole: bool) -> Asked | None:
        if masked.numel() == 0:
            return None
        candidates, wanted = self._candidates(step, masked)
        sequences = torch.nonzero(candidates.any(dim=1))[:, 0]
        # A host may have filled all that was due, or an early stop closed it: the next step may have something left.
        while sequences.numel() == 0:
            step += 1
            if self.turns is None or step >= self.turns.shape[1]:
                return None
            candidates, wanted = self._candidates(step, masked)
            sequences = torch.nonzero(candidates.any(dim=1))[:, 0]
        evaluated: NDArray[np.int64] = sequences.cpu().numpy()
        if whole:
            sequences = torch.arange(masked.shape[0], device=masked.device)
        candidates = candidates[sequences]
        local = torch.nonzero(candidates.flatten())[:, 0]
        length = masked.shape[1]
        rows = sequences[local // length] * length + local % length
        counts: NDArray[np.int64] = candidates.sum(dim=1).cpu().numpy()
        places = Places(rows, evaluated, counts[counts > 0], sequences, local)
        return Asked(step, places, wanted[sequences])

    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        local, sequences = asked.places.local, asked.places.index
        candidates = torch.zeros((len(sequences), self.block.shape[1]), dtype=torch.bool, device=local.device)
        candidates.view(-1)[local] = True
        ranking = Ranking.of(candidates, local, prediction, self._scores(sequences, local, prediction))
        size = self.schedule.size
        count = asked.wanted if isinstance(size, Blind) else counted(size, ranking)
        assert count is not None
        chosen = ranking.first(count)
        return Chosen(asked.places.rows[chosen], prediction.take(chosen))

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
