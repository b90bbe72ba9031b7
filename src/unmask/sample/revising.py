"""The plan of a batch whose tokens may be revised: what may be revealed at a step, and what may be taken back."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask._torch import Tensor, torch
from unmask.order import BlindOrder, Random
from unmask.revision import Revision, TakeBack
from unmask.sample.agenda import Stretch
from unmask.schedule import Schedule
from unmask.size import LogLinear
from unmask.size.base import Blind


@final
@dataclass(frozen=True, eq=False)
class Turn:
    """What one step may do; tensors of shape `(batch, length)` and `(batch,)`.

    Attributes:
        index: Number of the step.
        candidates: Booleans: positions that may be revealed.
        held: Booleans: positions that may be revised.
        wanted: How many more tokens are to stand after it; all candidates, where predictions decide.
        block: Positions of the block.
        shares: Shares of the text that stand before and after it where tokens choose by themselves, and whether it
            revises; `None` elsewhere.
        afterwards: Booleans, shape `(batch,)`: sequences for which it is a step after the last; `None` if for none.
    """

    index: int
    candidates: Tensor
    held: Tensor
    wanted: Tensor
    block: Tensor
    shares: tuple[float, float, bool] | None = None
    afterwards: Tensor | None = None


@final
@dataclass(frozen=True, eq=False)
class RevisedPlan:
    """The plan of a batch under a schedule with a revision. Each step gives a new one.

    Attributes:
        schedule: The schedule.
        revision: Its revision.
        block: The block of each position, shape `(batch, length)`; −1 where it is not to be filled.
        key: Where a blind order has each position, smaller first; from `b` to `b + 1` in block `b`.
        passed: The largest key revealed so far, shape `(batch, 1)`.
        again: Booleans: positions that were taken back before, which need new random numbers.
        turns: For sizes known beforehand: block, size, and whether it revises, of each step of each sequence, shape
            `(batch, steps, 3)`; the block is −1 after its last.
        shares: Where tokens choose by themselves: share revealed before and after each step, and whether it revises.
        seeds: The seed of each sequence.
        lengths: Tokens of each sequence, padding left out.
        extra: Steps each sequence may still take once nothing is masked, shape `(batch,)`.
    """

    schedule: Schedule
    revision: Revision
    block: Tensor
    key: Tensor
    passed: Tensor
    again: Tensor
    turns: Tensor | None
    shares: tuple[tuple[float, float, bool], ...]
    seeds: tuple[int, ...]
    lengths: NDArray[np.int64]
    extra: Tensor

    @staticmethod
    def of(
        schedule: Schedule,
        agenda: list[list[Stretch]],
        shape: tuple[int, ...],
        device: torch.device,
        seeds: tuple[int, ...],
        lengths: NDArray[np.int64],
    ) -> "RevisedPlan":
        revision = schedule.revision
        assert revision is not None
        block, key = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
        paces = [[revision.paced(stretch.sizes) for stretch in stretches] for stretches in agenda]
        steps = max((sum(sizes.size for sizes, _ in pace) for pace in paces), default=0)
        turns = np.full((len(agenda), steps, 3), -1, dtype=np.int64)
        for row, (stretches, pace, seed) in enumerate(zip(agenda, paces, seeds, strict=True)):
            start = 0
            for number, (stretch, (sizes, active)) in enumerate(zip(stretches, pace, strict=True)):
                block[row, stretch.positions] = number
                key[row, stretch.positions] = number + _keys(schedule, stretch.positions.size, seed, number)
                turns[row, start : start + sizes.size] = np.stack([np.full(sizes.size, number), sizes, active], axis=1)
                start += sizes.size
        shares: tuple[tuple[float, float, bool], ...] = ()
        if isinstance(schedule.size, LogLinear) and isinstance(revision, TakeBack) and revision.by_rate:
            count = schedule.size.steps
            units, active = revision.paced(np.ones(count, dtype=np.int64))
            ends = np.cumsum(units) / count
            shares = tuple(zip((ends - units / count).tolist(), ends.tolist(), active.tolist(), strict=True))
        known = isinstance(schedule.size, Blind)
        return RevisedPlan(
            schedule,
            revision,
            torch.as_tensor(block).to(device),
            torch.as_tensor(key).to(device),
            torch.zeros((shape[0], 1), dtype=torch.float64, device=device),
            torch.zeros(shape, dtype=torch.bool, device=device),
            torch.as_tensor(turns).to(device) if known else None,
            shares,
            seeds,
            lengths,
            torch.full((len(agenda),), revision.extra, device=device),
        )

    @property
    def steps(self) -> int | None:
        """Steps of the longest sequence, where they are known and those afterwards left out."""
        return None if self.turns is None else len(self.shares) or self.turns.shape[1]

    def turn(self, step: int, masked: Tensor) -> Turn | None:
        """What step number `step` may do; `None` if nothing is left, nor anything to do afterwards."""
        open_ = masked & (self.block >= 0)
        shares, over = None, ~open_.any(dim=1)
        if self.shares and step < len(self.shares):
            shares, wanted = self.shares[step], open_.sum(dim=1)
            now, revises = self.block.new_zeros(len(masked)), torch.full_like(self.extra, shares[2]).bool()
            over = torch.zeros_like(over)
        elif self.turns is not None and not self.shares and step < self.turns.shape[1]:
            now, wanted, revises = self.turns[:, step, 0], self.turns[:, step, 1], self.turns[:, step, 2] > 0
            over &= now < 0
        elif self.turns is None and bool(open_.any()):
            now = self.block.masked_fill(~open_, torch.iinfo(torch.int64).max).amin(dim=1)
            wanted, revises = open_.sum(dim=1), torch.ones_like(self.extra).bool()
        else:
            # Nothing is masked any more, unless a host or a rule of one's own left something behind.
            now, wanted, revises = (torch.full_like(self.extra, value) for value in (-1, 0, 0))
            if not bool((over & (self.extra > 0)).any()):
                return None
        # What a sequence does once nothing of it is masked does not wait for its neighbours.
        over &= self.extra > 0
        here = ((self.block == now[:, None]) | over[:, None]) & (self.block >= 0)
        candidates = open_ & here
        wanted = wanted.clamp(min=0).minimum(candidates.sum(dim=1))
        held = here & ~masked & (revises.bool() | over)[:, None]
        return Turn(step, candidates, held, wanted, here.sum(dim=1), shares, over if bool(over.any()) else None)

    def numbers(self, step: int, kind: int) -> Tensor:
        """New random numbers for a step, one in `[0, 1)` for each position; those of a sequence depend on it alone."""
        # The last word of a seed is not 0: numpy fills up with zeros, and the stream would be that of a shorter one.
        found = np.zeros(tuple(self.block.shape))
        for row, (seed, length) in enumerate(zip(self.seeds, self.lengths, strict=True)):
            found[row, :length] = np.random.default_rng([seed, 1 + step, 1 + kind]).random(length)
        return torch.as_tensor(found).to(self.block.device)

    def revised(self, shown: Tensor, taken: Tensor, numbers: Tensor) -> "RevisedPlan":
        """The plan after a step that revealed some positions and took others back."""
        key, passed = self.key, self.passed
        if isinstance(self.schedule.within, Random):
            # Keys of a random order are independent and uniform, and those left are so beyond the last one revealed:
            # with new ones from there on, what is left is a random order again.
            passed = passed.maximum(key.masked_fill(~shown, 0.0).amax(dim=1, keepdim=True))
            key = torch.where(taken, passed + (self.block + 1 - passed) * numbers, key)
        return replace(self, key=key, passed=passed, again=self.again | taken)

    def without(self, closed: Tensor) -> "RevisedPlan":
        """The plan without sequences of which something was closed early: they are over, and not revised any more."""
        over = closed.any(dim=1, keepdim=True)
        return replace(self, block=self.block.masked_fill(over, -1), extra=self.extra.masked_fill(over[:, 0], 0))


def _keys(schedule: Schedule, count: int, seed: int, number: int) -> NDArray[np.float64]:
    """Numbers that ascend along a stretch; for a random order, those of independent uniform ones."""
    if isinstance(schedule.within, Random):
        return np.sort(np.random.default_rng([seed, 0, number, 1]).random(count))
    return np.arange(count) / max(count, 1) if isinstance(schedule.within, BlindOrder) else np.zeros(count)
