"""Where the masked sets of training come from.

`UniformMasks` draws the number of masked tokens uniformly, stratified over the batch: the mean loss is then the
one-by-one likelihood in random order. `ScheduleMasks` draws the sets that a schedule visits, step by step in proportion
to its size: the objective under `S ~ π`. `MixedMasks` shares a batch among several.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import torch
from unmask.sample.plan import BlindPlan, plan_for
from unmask.schedule import Schedule


class Masks(ABC):
    """Where the masked sets of training come from."""

    @abstractmethod
    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Masked positions, shape `(batch, length)`, at least one in each sequence."""


@final
@dataclass(frozen=True)
class UniformMasks(Masks):
    """The number of masked tokens uniform on `1 … length` and stratified over the batch, the set uniform given it."""

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        phase = (rng.random() + np.arange(batch) / batch) % 1.0
        masked = 1 + np.floor(phase * length).astype(np.int64)
        # The masked tokens are those of the smallest random keys.
        keys = rng.random((batch, length))
        threshold = np.take_along_axis(np.sort(keys, axis=1), masked[:, None] - 1, axis=1)
        return keys <= threshold


@final
@dataclass(frozen=True)
class ScheduleMasks(Masks):
    """What a blind schedule leaves masked before a step, the step drawn in proportion to its size."""

    schedule: Schedule

    def __post_init__(self):
        if not self.schedule.blind:
            raise check.InputError("schedule", "not look at predictions: its masks are drawn before the model runs")

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        everything = np.ones((batch, length), dtype=np.bool_)
        # The plan a sampler would follow, so that every order means the same here and there.
        lengths = np.full(batch, length)
        plan = plan_for(self.schedule, everything, [rng] * batch, torch.device("cpu"), lengths)
        assert isinstance(plan, BlindPlan)
        step = np.empty(batch * length, dtype=np.int64)
        step[plan.row] = plan.step
        step = step.reshape(batch, length)
        # The step that holds a uniformly random position is drawn in proportion to its size.
        now = np.take_along_axis(step, rng.integers(length, size=(batch, 1)), axis=1)
        return step >= now


@final
@dataclass(frozen=True)
class MixedMasks(Masks):
    """An equal share of every batch from each of several kinds; what cannot be shared goes to any of them."""

    parts: tuple[Masks, ...]

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        share, rest = divmod(batch, len(self.parts))
        counts = np.full(len(self.parts), share)
        counts[rng.permutation(len(self.parts))[:rest]] += 1
        pairs = zip(self.parts, counts.tolist(), strict=True)
        return np.concatenate([part.draw(count, length, rng=rng) for part, count in pairs if count])
