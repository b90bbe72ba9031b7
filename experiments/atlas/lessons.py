"""What the networks of a kind learn from: as in `unmask.train.masks`, with something given of every text.

A kind says what is given (`Kind.visible`): clues of a board, the prompt of an answer, nothing. What remains is masked
for a network that looks both ways, and split into steps for one that is causal in the schedule. Everything is computed
for a whole batch at once: boards differ in their clues, and going through a plan for each of them would take longer
than the update.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from experiments.atlas.kind import Kind
from experiments.atlas.rules import comb
from numpy.typing import NDArray

from unmask.order import BlindOrder, Random
from unmask.train import Masks, Steps


@final
@dataclass(frozen=True)
class UniformAnswers(Masks):
    """Of what is not given, a number of masked tokens that is uniform and stratified over the batch."""

    kind: Kind

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        hidden = ~self.kind.visible(batch, rng=rng)
        count = hidden.sum(axis=1)
        phase = (rng.random() + np.arange(batch) / batch) % 1.0
        masked = 1 + np.floor(phase * count).astype(np.int64)
        return ranked(hidden, rng.random((batch, length))) < masked[:, None]


@final
@dataclass(frozen=True)
class CombMasks(Masks):
    """Half of every batch uniform, and half as a comb leaves it before a step, drawn in proportion to its size.

    Arguments:
        kind: Says what is given.
        steps: Numbers of steps of the combs, equally often.
    """

    kind: Kind
    steps: tuple[int, ...]

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        half = batch // 2
        parts = tuple((comb(self.kind, shift=0), steps, 1.0) for steps in self.steps)
        step = Combination(self.kind, parts).draw(half, length, rng=rng)
        hidden = step >= 0
        # The step that holds a random position that is not given is drawn in proportion to its size.
        place = np.argmax(np.where(hidden, rng.random(step.shape), -1.0), axis=1)
        now = np.take_along_axis(step, place[:, None], axis=1)
        rest = UniformAnswers(self.kind).draw(batch - half, length, rng=rng)
        return np.concatenate([hidden & (step >= now), rest])


@final
@dataclass(frozen=True)
class Combination(Steps):
    """Every step of texts under even sizes, in several orders.

    Arguments:
        kind: Says what is given.
        parts: Orders, numbers of steps and shares of the batch. A random order is drawn anew for each text; any other
            must be fixed. Where texts differ in what is given, it is the order of the whole text with that left out,
            as orders of grids are.
    """

    kind: Kind
    parts: tuple[tuple[BlindOrder, int, float], ...]

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        hidden = ~self.kind.visible(batch, rng=rng)
        shares = np.array([share for _, _, share in self.parts])
        which = rng.choice(len(self.parts), size=batch, p=shares / shares.sum())
        step = np.full((batch, length), -1)
        for number, (order, steps, _) in enumerate(self.parts):
            rows = np.flatnonzero(which == number)
            if rows.size == 0:
                continue
            if isinstance(order, Random):
                keys = rng.random((rows.size, length))
            else:
                same = bool((hidden == hidden[0]).all())
                keys = np.broadcast_to(ranking(order, hidden[0] if same else None, length, steps), (rows.size, length))
            rank = ranked(hidden[rows], keys)
            found = even_step(rank, hidden[rows].sum(axis=1)[:, None], steps)
            step[rows] = np.where(hidden[rows], found, -1)
        return step


def ranking(order: BlindOrder, hidden: NDArray[np.bool_] | None, length: int, steps: int) -> NDArray[np.int64]:
    """The place of each position in a fixed order of those that are hidden; of all of them by default."""
    positions = np.arange(length) if hidden is None else np.flatnonzero(hidden)
    walk = order.arrange(positions, length=length, steps=min(steps, positions.size), rng=np.random.default_rng(0))
    place = np.full(length, length)
    place[walk] = np.arange(walk.size)
    return place


def ranked(hidden: NDArray[np.bool_], keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """The rank of each hidden position among those of its text, the smallest key first; `length` where it is given."""
    batch, length = hidden.shape
    walk = np.argsort(np.where(hidden, keys, np.inf), axis=1, kind="stable")
    rank = np.empty((batch, length), dtype=np.int64)
    np.put_along_axis(rank, walk, np.broadcast_to(np.arange(length), (batch, length)), axis=1)
    return np.where(hidden, rank, length)


def even_step(rank: NDArray[np.int64], count: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """The step of `size.Even(steps)` that reveals the token of each rank among `count`: larger steps come first."""
    taken = np.minimum(steps, count)
    size, more = count // taken, count % taken
    early = rank // (size + 1)
    late = more + (rank - more * (size + 1)) // size
    return np.where(rank < more * (size + 1), early, late)
