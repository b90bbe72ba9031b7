"""The plan of a batch whose schedule looks at predictions, and the choice between the two kinds of plan."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.order import Delimited, ReactiveOrder, Spaced
from unmask.predict import Places, Prediction
from unmask.sample.agenda import Stretch, agenda_of
from unmask.sample.delimiting import Bounds
from unmask.sample.past import Past
from unmask.sample.plan import Asked, BlindPlan, Chosen, Plan
from unmask.sample.ranking import Ranking, counted
from unmask.sample.revising import RevisedPlan
from unmask.schedule import Schedule
from unmask.size.base import Blind
from unmask.size.reactive import Reactive


def plan_for(
    schedule: Schedule,
    masked: NDArray[np.bool_],
    sources: list[np.random.Generator],
    device: torch.device,
    lengths: NDArray[np.int64],
    seeds: tuple[int, ...],
) -> Plan | RevisedPlan:
    """The plan of a batch under a schedule.

    Arguments:
        schedule: The schedule.
        masked: Positions to fill, shape `(batch, length)`.
        sources: Randomness of each sequence.
        device: Where the plan will be used.
        lengths: Tokens of each sequence, its padding left out.
        seeds: The seed of each sequence.
    """
    agenda = agenda_of(schedule, masked, sources, lengths)
    if schedule.revision is not None:
        return RevisedPlan.of(schedule, agenda, masked.shape, device, seeds, lengths)
    if schedule.blind:
        return BlindPlan.of(agenda, masked.shape, device)
    return ReactivePlan.of(schedule, agenda, masked.shape, device)


def places_of(wanted: Tensor, *, whole: bool, sequences: Tensor | None = None) -> Places:
    """The positions that are true in `wanted`, shape `(batch, length)`, by sequence; the device is waited for.

    Arguments:
        wanted: Booleans; some are true.
        whole: Whether all sequences of the batch must take part.
        sequences: Those that have a position that is true, if they are known: finding them waits for the device too.
    """
    if sequences is None:
        sequences = torch.nonzero(wanted.any(dim=1))[:, 0]
    evaluated: NDArray[np.int64] = sequences.cpu().numpy()
    if whole:
        sequences = torch.arange(wanted.shape[0], device=wanted.device)
    wanted = wanted[sequences]
    local = torch.nonzero(wanted.flatten())[:, 0]
    length = wanted.shape[1]
    rows = sequences[local // length] * length + local % length
    counts: NDArray[np.int64] = wanted.sum(dim=1).cpu().numpy()
    return Places(rows, evaluated, counts[counts > 0], sequences, local)


@final
@dataclass(frozen=True, eq=False)
class ReactivePlan(Plan):
    """The choice depends on predictions.

    Attributes:
        schedule: Its size and order.
        block: The block of each position, shape `(batch, length)`.
        rank: The place of each position in a blind order, if it is one.
        first: The first position that the block of each position has to fill.
        extent: How many it has to fill.
        turns: For a blind size, block and size of each step of each sequence, shape `(batch, steps, 2)`, zero after
            its last.
        past: What was predicted before, if the size looks back.
        bounds: The block of each sequence, if the model says where it ends.
    """

    schedule: Schedule
    block: Tensor
    rank: Tensor
    first: Tensor
    extent: Tensor
    turns: Tensor | None
    past: Past | None = None
    bounds: Bounds | None = None

    @staticmethod
    def of(
        schedule: Schedule, agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device
    ) -> "ReactivePlan":
        block, rank, first, extent = (np.zeros(shape, dtype=np.int64) for _ in range(4))
        steps = [sum(stretch.sizes.size for stretch in stretches) for stretches in agenda]
        turns = np.zeros((len(agenda), max(steps, default=0), 2), dtype=np.int64)
        for sequence, stretches in enumerate(agenda):
            start = 0
            for number, stretch in enumerate(stretches):
                block[sequence, stretch.positions] = number
                rank[sequence, stretch.positions] = np.arange(stretch.positions.size)
                first[sequence, stretch.positions] = stretch.positions.min()
                extent[sequence, stretch.positions] = stretch.positions.size
                stop = start + stretch.sizes.size
                turns[sequence, start:stop, 0], turns[sequence, start:stop, 1] = number, stretch.sizes
                start = stop
        table = torch.as_tensor(turns).to(device) if isinstance(schedule.size, Blind) else None
        maps = torch.as_tensor(np.stack([block, rank, first, extent])).to(device)
        back = schedule.size.looks_back if isinstance(schedule.size, Reactive) else 0
        past = Past.none(block.size, back, device) if back else None
        delimited = schedule.order if isinstance(schedule.order, Delimited) else None
        bounds = None if delimited is None else Bounds.none(delimited, maps[3] > 0)
        return ReactivePlan(schedule, maps[0], maps[1], maps[2], maps[3], table, past, bounds)

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
        places = places_of(candidates, whole=whole, sequences=sequences)
        return Asked(step, places, wanted[places.index])

    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        rows, local, sequences = asked.places.rows, asked.places.local, asked.places.index
        bounds, length = self.bounds, self.block.shape[1]
        candidates = self._dense(sequences, local)
        if isinstance(self.schedule.order, Delimited) and bounds is not None:
            # Where a new block begins, more was predicted than it turns out to have.
            bounds = bounds.after(self.schedule.order, sequences, candidates, prediction)
            inside = bounds.inside(sequences, local, length)
            rows, local, prediction = rows[inside], local[inside], prediction.take(inside)
            candidates = self._dense(sequences, local)
        past = None if self.past is None else self.past.then(rows, prediction)

        def places() -> Tensor:
            start = (
                self.first[sequences].flatten()[local] if bounds is None else bounds.start[sequences][local // length]
            )
            return local % length - start

        def progress() -> Tensor:
            return self._progress(asked.index, sequences, candidates, bounds)[local // length]

        prediction = prediction.at(places, progress)
        moved = None if past is None else past.movement(rows)
        ranking = Ranking.of(candidates, local, prediction, self._scores(sequences, local, prediction), moved)
        size = self.schedule.size
        ranking, count = (ranking, asked.wanted) if isinstance(size, Blind) else counted(size, ranking)
        assert count is not None
        if self.schedule.spaced is None:
            chosen = ranking.first(count)
        else:
            distance = self._distances(self.schedule.spaced, self._whole(sequences, candidates, bounds), ranking)
            chosen = (ranking.spaced if isinstance(size, Blind) else ranking.thinned)(count, distance)
        plan = None if past is None and bounds is None else replace(self, past=past, bounds=bounds)
        return Chosen(rows[chosen], prediction.take(chosen), plan)

    def _dense(self, sequences: Tensor, local: Tensor) -> Tensor:
        """Which positions of the sequences are among those given."""
        found = torch.zeros((len(sequences), self.block.shape[1]), dtype=torch.bool, device=local.device)
        found.view(-1)[local] = True
        return found

    def _progress(self, step: int, sequences: Tensor, candidates: Tensor, bounds: Bounds | None) -> Tensor:
        """How far each sequence is through its block, from 0 to 1: by steps if these are known, or by positions."""
        if self.turns is not None:
            turns = self.turns[sequences]
            own = (turns[:, :, 0] == turns[:, step, :1]) & (turns[:, :, 1] > 0)
            return own[:, :step].sum(dim=1) / (own.sum(dim=1) - 1).clamp(min=1)
        return 1 - candidates.sum(dim=1) / self._whole(sequences, candidates, bounds)

    def _whole(self, sequences: Tensor, candidates: Tensor, bounds: Bounds | None) -> Tensor:
        """How many positions the block of each sequence has to fill, from the first to the last step."""
        own = (self.extent[sequences] * candidates).amax(dim=1)
        return (own if bounds is None else (bounds.end - bounds.start)[sequences]).clamp(min=1)

    def without(self, closed: Tensor) -> "ReactivePlan":
        return self  # it looks at what is masked at each step

    def _candidates(self, step: int, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Positions that may be revealed now, and how many of them (all, where the size has yet to see them)."""
        if isinstance(self.schedule.order, Delimited) and self.bounds is not None:
            now = self.bounds.candidates(self.schedule.order, masked)
            return now, now.sum(dim=1)
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

    def _distances(self, spaced: Spaced, whole: Tensor, ranking: Ranking) -> Tensor:
        """The least distance of two positions in each sequence."""
        distance = torch.full_like(whole, spaced.distance)
        if not spaced.fading:
            return distance
        return distance.minimum((ranking.valid.sum(dim=1) * distance // whole).clamp(min=2))

    def _scores(self, sequences: Tensor, rows: Tensor, prediction: Prediction) -> Tensor:
        within = self.schedule.within
        if not isinstance(within, ReactiveOrder):
            return -self.rank[sequences].flatten()[rows].double()
        return scored(within, prediction, rows)


def scored(within: ReactiveOrder, prediction: Prediction, rows: Tensor) -> Tensor:
    """The numbers that an order gives to positions, if it gives one to each."""
    score: object = within.score(prediction)
    if not isinstance(score, Tensor) or score.shape != rows.shape:
        raise check.InputError(
            "", f"The order must return one number for each of the {rows.numel()} positions, but {within!r} did not"
        )
    return score if score.is_floating_point() else score.double()
