"""Positions of one step kept apart: a filter around any order, and an order that stays near known tokens.

Tokens revealed in one step are drawn as if independent given the rest, and neighbours are seldom that. A planned order
can keep them apart from the beginning (`Comb`, `Spread`); one that looks at predictions ranks neighbours of a known
token together, as that token makes all of them predictable. `Spaced` takes from any ranking only positions that are far
from each other.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.order.base import BlindOrder, Order, Positions, ReactiveOrder, arguments

_FAR = 2**62  # from nothing everything is as far as can be


@final
@dataclass(frozen=True)
class Spaced(Order):
    """Another order, with the positions of a step at least `distance` apart; the better ranked one comes first.

    What a size that looks at predictions accepts is thinned out: a position nearer than `distance` to a better one of
    the same step waits for the next step, which sees that one's token. There is always one left, the best; only the
    number of steps grows.

    A size that was fixed beforehand is kept instead, and with it the number of steps: what is skipped is made up for
    by positions further down the ranking, and where too few of these are left at the distance, the distance is halved
    until there are enough. A sampler of `K` steps that took more than `K` would be no sampler of `K` steps.

    Arguments:
        order: The order that ranks.
        distance: The least distance between two positions of a step; 1 keeps nothing apart.
        fading: Let the distance shrink with the share of the block that is still masked, down to 2.

    References:
        Luxembourg, Permuter & Nachmani, Plan for speed: dilated scheduling for masked diffusion language models, 2026
            (arXiv 2506.19037, version 4): the filter behind adaptive samplers, with a distance that fades.

    Example:
        >>> Spaced(Nearby(), 3).apart(np.arange(6), [2, 2, 2]).tolist()
        [0, 3, 1, 4, 2, 5]
    """

    order: BlindOrder | ReactiveOrder
    distance: int
    fading: bool = False

    def __post_init__(self):
        check.instance("order", self.order, BlindOrder | ReactiveOrder, "be an order without blocks or spacing")
        check.integer("distance", self.distance, least=1, most=check.LONGEST)
        check.instance("fading", self.fading, bool, "be True or False")

    def apart(self, ranked: Positions, sizes: object) -> Positions:
        """Ranked positions rearranged so that steps of these sizes keep them apart.

        Arguments:
            ranked: Positions of a block, the best first.
            sizes: How many of them each step reveals.
        """
        ranked, counts = check.array("ranked", ranked), check.array("sizes", sizes)
        whole = counts.ndim == 1 and counts.dtype.kind in "iu" and (counts >= 1).all()
        if ranked.ndim != 1 or ranked.size == 0 or not whole or counts.sum() != ranked.size:
            raise check.InputError(
                "sizes", f"split the {ranked.size} positions into steps of at least one position each"
            )
        left, result = ranked, [ranked[:0]]
        for count in counts:
            taken = _picked(left, int(count), self._distance(left.size, ranked.size))
            result.append(left[taken])
            left = np.delete(left, taken)
        return np.concatenate(result)

    def _distance(self, left: int, whole: int) -> int:
        return min(self.distance, max(2, left * self.distance // whole)) if self.fading else self.distance


@final
@dataclass(frozen=True)
class Nearby(BlindOrder):
    """Positions next to revealed tokens, and at least a distance apart within a step.

    A position is predicted best next to a known token, and tokens of one step harm each other least far apart. Each
    step takes, one after the other, the position nearest to what was known before the step among those at least
    `distance` from its own, and the first of several. Where none is left at the distance, that is halved. A whole text
    is filled as by a comb whose segments are whole; around given tokens, wherever they are, it grows from them.

    Steps are taken to be even, as their sizes are not an order's to know.

    Arguments:
        distance: The least distance between two positions of a step; by default the number of steps, at which as many
            fit in as an even step has.

    References:
        Zhang et al., Locality-aware parallel decoding for efficient autoregressive image generation, 2026 (arXiv
            2507.01957): proximity to what is generated, and repulsion within a step.

    Example:
        >>> Nearby().arrange(np.arange(2, 8), length=8, steps=3, rng=0)  # after a prompt of two tokens
        array([2, 5, 3, 6, 4, 7])
    """

    distance: int | None = None

    def __post_init__(self):
        if self.distance is not None:
            check.integer("distance", self.distance, least=1, most=check.LONGEST)

    @property
    def fixed(self) -> bool:
        return True

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, _ = arguments(positions, length, steps, rng)
        count = positions.size
        steps = min(int(np.ceil(np.sqrt(count))) if steps is None else steps, count)
        known = np.ones(length, dtype=bool)
        known[positions] = False
        left, result = positions, [positions[:0]]
        for number in range(steps):
            size = count // steps + (number < count % steps)
            taken = _nearest(left, _away(known)[left], size, self.distance or steps)
            result.append(left[taken])
            known[left[taken]] = True
            left = np.delete(left, taken)
        return np.concatenate(result)


def _picked(ranked: Positions, count: int, distance: int) -> NDArray[np.int64]:
    """Which `count` of the ranked positions a step takes, best first, while the distance gives way."""
    gap, taken = np.full(ranked.size, _FAR), np.zeros(count, dtype=np.int64)
    for number in range(count):
        while not (free := gap >= distance).any():
            distance = max(1, distance // 2)
        taken[number] = pick = int(free.argmax())
        np.minimum(gap, np.abs(ranked - ranked[pick]), out=gap)
    return taken


def _away(known: NDArray[np.bool_]) -> Positions:
    """How far each position is from the nearest known one; all alike if none is known."""
    place = np.arange(known.size)
    if not known.any():
        return np.full(known.size, _FAR)
    before = np.maximum.accumulate(np.where(known, place, -_FAR))
    after = np.minimum.accumulate(np.where(known, place, _FAR)[::-1])[::-1]
    return np.minimum(place - before, after - place)


def _nearest(left: Positions, near: Positions, count: int, distance: int) -> NDArray[np.int64]:
    """Which `count` of the positions a step takes: near to what is known, and far from each other."""
    gap, taken = np.full(left.size, _FAR), np.zeros(count, dtype=np.int64)
    for number in range(count):
        while not (free := gap >= distance).any():
            distance = max(1, distance // 2)
        taken[number] = pick = int(np.where(free, near, 2 * _FAR - 1).argmin())
        np.minimum(gap, np.abs(left - left[pick]), out=gap)
    return taken
