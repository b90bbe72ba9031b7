"""An order given as a list of sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask.order.base import BlindOrder, Positions, among, arguments


@final
@dataclass(frozen=True)
class Sets(BlindOrder):
    """The positions of each step, one list after the other: an order found by a search, or written by hand.

    It ranks positions and leaves the cuts to the size; `sizes` are those that reveal each list in one step. Where some
    positions are given, the others keep their order.

    Arguments:
        sets: A list of positions for each step, all together `0 … length−1`, each once; or just these positions in
            their order, which is one for each step.

    Example:
        >>> chessboard = Sets([[0, 3], [1, 2]])
        >>> chessboard.arrange(np.arange(4), length=4, steps=2, rng=0), chessboard.sizes
        (array([0, 3, 1, 2]), (2, 2))
        >>> Sets([2, 0, 1]).sets
        ((2,), (0,), (1,))
    """

    sets: tuple[tuple[int, ...], ...]

    def __init__(self, sets: Sequence[Sequence[int]] | Sequence[int]):
        given = [_listed(each) for each in _listed(sets, steps=True)]
        kept = tuple(
            tuple(check.integer("sets", place, least=0, most=check.LONGEST - 1) for place in each) for each in given
        )
        if not kept or not all(kept):
            raise check.InputError("sets", "hold at least one position in each step")
        places = np.array([place for each in kept for place in each], dtype=np.int64)
        length = places.size
        if not np.array_equal(np.sort(places), np.arange(length)):
            raise check.InputError("sets", f"hold each position from 0 to {length - 1} exactly once")
        object.__setattr__(self, "sets", kept)

    @property
    def fixed(self) -> bool:
        return True

    @property
    def length(self) -> int:
        """Positions in all."""
        return sum(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many positions each list has: `size.Explicit(order.sizes)` reveals each in one step."""
        return tuple(len(each) for each in self.sets)

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, _ = arguments(positions, length, steps, rng)
        if length != self.length:
            raise check.InputError(
                "length", f"be {self.length}, the number of positions in the order", found=f"{length}"
            )
        walk = np.array([place for each in self.sets for place in each], dtype=np.int64)
        return among(positions, walk, length)


def _listed(values: Any, *, steps: bool = False) -> list[Any]:
    """A list of steps, or of the positions of one; a position that stands for a step is a list of itself."""
    must = "hold a list of positions for each step, or be one list of all positions"
    plain: Any = values.tolist() if isinstance(values, np.ndarray) else values
    given = check.listed("sets", plain, must, most=check.LONGEST)
    if not steps:
        return list(given)
    return [each if isinstance(each, Sequence | np.ndarray) else [each] for each in given]
