"""Orders on grids: images, boards, music with several voices. Positions are numbered row by row."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.order.base import BlindOrder, Positions, among, arguments, check_cells, check_sides, first_met

_TEETH = 1024  # with more of them every shift will do: a step that takes part of two teeth takes little of them


@final
@dataclass(frozen=True)
class SpreadGrid(BlindOrder):
    """`Spread` in two dimensions, for images of `height × width` tokens row by row, shifted at random both ways.

    Positions are taken in the order of the recursive (Bayer) pattern that fills a square by quarters.

    References:
        Besnier et al., Halton scheduler for masked generative image transformer, 2025 (arXiv 2503.17076).
    """

    height: int
    width: int

    def __post_init__(self):
        check_sides(self.height, self.width)

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        check_cells(length, self.height, self.width)
        row, column = np.divmod(_quarters(self.height, self.width), self.width)
        row = (row + source.integers(self.height)) % self.height
        column = (column + source.integers(self.width)) % self.width
        return among(positions, row * self.width + column, length)


@final
@dataclass(frozen=True)
class CombGrid(BlindOrder):
    """`Comb` in two dimensions, for `height × width` tokens row by row: the cells of one lattice, then those beside.

    With `K` teeth the cell in row `r` and column `c` belongs to tooth

        (c + s·r − shift) mod K.

    A tooth is a lattice: its cells in a row are `K` apart, and in the next row `s` further to the left. The skew `s`,
    at most `2√K`, is the one that keeps the cells of a tooth farthest from each other, about `√K` in every direction:
    two teeth are a chessboard, and five go by knight's moves. Each cell is predicted with the whole run of earlier
    teeth known at its left, and after `s` teeth with the row above known too. A grid of one row is a `Comb`.

    Arguments:
        height: Rows.
        width: Columns.
        teeth: Number of teeth; by default one per step, and with a size that looks at predictions the root of the
            positions to fill.
        shift: Which tooth comes first. By default at random among those shifts after which even sizes take whole teeth
            most nearly; all of them where teeth are equal.

    References:
        Wang et al., Parallelized autoregressive visual generation, 2025 (arXiv 2412.15119): regions in step.
        Zhang et al., Locality-aware parallel decoding for efficient autoregressive image generation, 2026 (arXiv
            2507.01957): near what is known, far from each other.

    Example:
        >>> CombGrid(2, 4, shift=0).arrange(np.arange(8), length=8, steps=2, rng=np.random.default_rng(0))
        array([0, 2, 7, 5, 6, 4, 1, 3])
    """

    height: int
    width: int
    teeth: int | None = None
    shift: int | None = None

    def __post_init__(self):
        check_sides(self.height, self.width)
        if self.teeth is not None:
            check.integer("teeth", self.teeth, least=1, most=check.LONGEST)
        if self.shift is not None:
            check.integer("shift", self.shift, least=0, most=check.LONGEST)

    @property
    def fixed(self) -> bool:
        return self.shift is not None

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        check_cells(length, self.height, self.width)
        teeth = self.teeth or (math.isqrt(positions.size - 1) + 1 if steps is None else steps)
        teeth = min(teeth, positions.size)
        skew, shifts = _lattice(self.height, self.width, teeth)
        shift = shifts[source.integers(shifts.size)] if self.shift is None else self.shift
        walk = _quarters(self.height, self.width)  # a step that takes part of a tooth then takes cells far apart
        tooth = (_classes(self.height, self.width, teeth, skew) - shift) % teeth
        return among(positions, walk[np.argsort(tooth[walk], kind="stable")], length)


@lru_cache(maxsize=32)
def _quarters(height: int, width: int) -> Positions:
    """The cells of a grid in the order of the recursive pattern that fills a square by quarters; read-only."""
    side = 1 << max(height - 1, width - 1, 1).bit_length()
    low = np.arange(side * side)
    row, column = np.zeros_like(low), np.zeros_like(low)
    for _ in range(side.bit_length() - 1):
        # Two bits of the code pick a quarter; diagonal quarters come first, as in a Bayer matrix.
        quarter = low & 3
        row = 2 * row + np.array([0, 1, 0, 1])[quarter]
        column = 2 * column + np.array([0, 1, 1, 0])[quarter]
        low = low >> 2
    return first_met(row * height // side * width + column * width // side)


def _classes(height: int, width: int, teeth: int, skew: int) -> Positions:
    """The tooth of each cell before any shift."""
    row, column = np.divmod(np.arange(height * width), width)
    return (column + skew * row) % teeth


@lru_cache(maxsize=32)
def _lattice(height: int, width: int, teeth: int) -> tuple[int, Positions]:
    """The skew that keeps the cells of a tooth farthest apart, and the shifts that go best with even sizes."""
    # A larger skew would hardly take them farther apart, and the row above be known later.
    skews = np.arange(min(2 * math.isqrt(teeth) + 1, teeth))
    nearest = np.full(skews.size, np.inf)
    for rows in range(1, min(height, math.isqrt(2 * teeth) + 2)):
        around = skews * rows % teeth
        columns = np.minimum(around, teeth - around)
        # Where two cells of a tooth can be so far apart nowhere on the grid, there are none.
        nearest = np.where(columns < width, np.minimum(nearest, rows**2 + columns**2), nearest)
    ties = np.flatnonzero(nearest == nearest.max())[:8]
    found = [(int(skew), *_shifts(_classes(height, width, teeth, int(skew)), teeth)) for skew in ties]
    skew, _, shifts = min(found, key=lambda each: each[1])
    shifts.setflags(write=False)
    return skew, shifts


def _shifts(classes: Positions, teeth: int) -> tuple[int, Positions]:
    """By how much even sizes miss the ends of teeth after the best shifts, and which these are."""
    counts: NDArray[np.int64] = np.bincount(classes, minlength=teeth)
    if teeth > _TEETH or np.ptp(counts) == 0:
        return 0, np.arange(teeth)
    turned = counts[(np.arange(teeth)[:, None] + np.arange(teeth)) % teeth]
    even = classes.size // teeth + (np.arange(teeth) < classes.size % teeth)
    missed = np.abs(np.cumsum(turned, axis=1) - np.cumsum(even)).sum(axis=1)
    return int(missed.min()), np.flatnonzero(missed == missed.min())
