"""The order of a Halton sequence, in one dimension and in two."""

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from unmask import _check as check
from unmask.order.base import BlindOrder, Positions, among, arguments, check_cells, check_sides

_ROOM = 1 << 20  # points of the sequence looked at together


@final
@dataclass(frozen=True)
class Halton(BlindOrder):
    """A walk through a sequence of low discrepancy: every beginning is spread evenly.

    The points `(h_2(n), h_3(n))`, `n = 1, 2, …`, where `h_b(n)` has the digits of `n` in base `b` in reverse order
    after the point, fall on a grid of `height × width` tokens row by row; each token comes when it is first met. In one
    dimension that is `h_2(n)` alone, over the stretch to fill. The order is published for images, without a shift.

    Arguments:
        height: Rows of the grid; one dimension by default.
        width: Its columns.
        rolled: Begin the walk at a random place and go round, for each sequence anew.

    References:
        Besnier et al., Halton scheduler for masked generative image transformer, 2025 (arXiv 2503.17076).

    Example:
        >>> Halton().arrange(np.arange(8), length=8, steps=4, rng=0)
        array([4, 2, 6, 1, 5, 3, 7, 0])
        >>> Halton(2, 3).arrange(np.arange(6), length=6, steps=3, rng=0)
        array([4, 2, 3, 1, 5, 0])
    """

    height: int | None = None
    width: int | None = None
    rolled: bool = False

    def __post_init__(self):
        if (self.height is None) != (self.width is None):
            raise check.InputError("", "A grid needs a height and a width", remedy="Give both, or neither.")
        if self.height is not None:
            check_sides(self.height, self.width)
        check.instance("rolled", self.rolled, bool, "be True or False")

    @property
    def fixed(self) -> bool:
        return not self.rolled

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        if self.height is None or self.width is None:
            walk = positions[0] + _walk(int(positions[-1] - positions[0]) + 1, 1)
        else:
            check_cells(length, self.height, self.width)
            walk = _walk(self.height, self.width)
        if self.rolled:
            walk = np.roll(walk, source.integers(walk.size))
        return among(positions, walk, length)


@lru_cache(maxsize=32)
def _walk(height: int, width: int) -> Positions:
    """The cells of a grid in the order in which the sequence first meets them; read-only."""
    place = np.full(height * width, -1)  # where each cell comes in the sequence
    start = 1
    while (place < 0).any():
        # One point of every 2^a 3^b falls into each box of sides 2^-a and 3^-b: this ends.
        number = np.arange(start, start + min(_ROOM, 4 * height * width))
        cell = _reversed(number, 2, height) * width + _reversed(number, 3, width)
        met, first = np.unique(cell, return_index=True)
        new = place[met] < 0
        place[met[new]] = number[first[new]]
        start += number.size
    walk = np.argsort(place)
    walk.setflags(write=False)
    return walk


def _reversed(number: Positions, base: int, side: int) -> Positions:
    """`⌊side · h_base(number)⌋`, in whole numbers."""
    digits, whole, left = np.zeros_like(number), 1, number
    while left.any():
        digits, left, whole = digits * base + left % base, left // base, whole * base
    return digits * side // whole
