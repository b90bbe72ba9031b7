"""What an update learns from: texts, and which of their tokens are predicted from which.

A network that looks both ways learns one step of a text at a time (`Masks`); one that is causal in the schedule all of
its steps at once (`Steps`).

`UniformMasks` draws the number of masked tokens uniformly, stratified over the batch: the mean loss is then the
one-by-one likelihood in random order. `ScheduleMasks` draws the sets that a schedule visits, step by step in proportion
to its size: the objective under `S ~ π`. `MixedMasks` shares a batch among several.

`EveryStep` is the same objective with the mean over the steps of a text taken exactly: a step is drawn in proportion to
its size, and its mean loss counted, so that every token counts once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.sample.agenda import agenda_of, steps_in
from unmask.schedule import Schedule
from unmask.train.update import Batch


class Lessons(ABC):
    """What an update learns from."""

    @abstractmethod
    def batch(self, tokens: NDArray[np.int64], vocab: int, *, rng: np.random.Generator) -> Batch:
        """A batch of these texts, token ids below `vocab` of shape `(batch, length)`."""


class Masks(Lessons):
    """Where the masked sets of training come from."""

    def batch(self, tokens: NDArray[np.int64], vocab: int, *, rng: np.random.Generator) -> Batch:
        return Batch.masked(tokens, self.draw(*tokens.shape, rng=rng), vocab)

    @abstractmethod
    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Masked positions, shape `(batch, length)`, at least one in each sequence."""


class Steps(Lessons):
    """Where the steps of training come from."""

    def batch(self, tokens: NDArray[np.int64], vocab: int, *, rng: np.random.Generator) -> Batch:
        return Batch.stepped(tokens, self.draw(*tokens.shape, rng=rng))

    @abstractmethod
    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """The step of each position, −1 where it is given, shape `(batch, length)`; at least one of a text is not."""


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
        _check_blind(self.schedule)

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        step = steps_of(self.schedule, np.ones((batch, length), dtype=np.bool_), rng)
        # The step that holds a uniformly random position is drawn in proportion to its size.
        now = np.take_along_axis(step, rng.integers(length, size=(batch, 1)), axis=1)
        return step >= now


@final
@dataclass(frozen=True)
class MixedMasks(Masks):
    """An equal share of every batch from each of several kinds; what cannot be shared goes to any of them."""

    parts: tuple[Masks, ...]

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        pairs = zip(self.parts, _shares(batch, [1] * len(self.parts), rng), strict=True)
        return np.concatenate([part.draw(count, length, rng=rng) for part, count in pairs if count])


@final
@dataclass(frozen=True)
class EveryStep(Steps):
    """Every step of a text, under one of several blind schedules.

    Arguments:
        schedules: The schedules.
        weights: Which share of the texts each has; equal ones by default.
        given: Which share of the texts begins with something given, its first tokens: any number of them is as likely
            as any other.
    """

    schedules: tuple[Schedule, ...]
    weights: tuple[float, ...] = ()
    given: float = 0.0

    def __post_init__(self):
        if not self.schedules:
            raise check.InputError("schedules", "hold at least one schedule")
        for schedule in self.schedules:
            _check_blind(schedule)
        if self.weights and len(self.weights) != len(self.schedules):
            raise check.InputError("weights", f"hold {len(self.schedules)} numbers", found=f"{len(self.weights)}")
        for weight in self.weights:
            check.real("weights", weight, above=0.0)
        if check.real("given", self.given, least=0.0) > 1:
            raise check.InputError("given", "be at most 1", found=f"{self.given:g}")

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        first = rng.integers(length, size=batch) * (rng.random(batch) < self.given)
        hidden = np.arange(length) >= first[:, None]
        counts = _shares(batch, self.weights or [1.0] * len(self.schedules), rng)
        ends = np.cumsum(counts)
        parts = [
            steps_of(schedule, hidden[end - count : end], rng)
            for schedule, count, end in zip(self.schedules, counts, ends.tolist(), strict=True)
            if count
        ]
        return np.concatenate(parts)


def steps_of(schedule: Schedule, hidden: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """The step of each position under a blind schedule, −1 where it is given; shape `(batch, length)`.

    The plan is the one that a sampler would follow, so that every order means the same here and there.
    """
    batch, length = len(hidden), int(hidden.shape[1])
    agenda = agenda_of(schedule, hidden, [rng] * batch, np.full(batch, length, dtype=np.int64))
    return steps_in(agenda, hidden.shape)


def _shares(batch: int, weights: Sequence[float], rng: np.random.Generator) -> list[int]:
    """How many texts of a batch each of several has; what cannot be shared goes to any of them."""
    exact = batch * np.array(weights) / np.sum(weights)
    # Counts round up or down at one common random phase: each has its share on average, whatever the others have.
    edges = np.floor(np.concatenate([[0.0], np.cumsum(exact)]) + rng.random() + 1e-9).astype(np.int64)
    edges[-1] = edges[0] + batch
    return np.diff(edges).tolist()


def _check_blind(schedule: Schedule) -> None:
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    if not schedule.blind:
        raise check.InputError("schedule", "not look at predictions, because its masks are drawn before the model runs")
