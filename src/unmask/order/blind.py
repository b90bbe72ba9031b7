"""Orders that are known before any model runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from unmask import _check as check
from unmask.order.base import BlindOrder, Positions, among, arguments, first_met


@final
@dataclass(frozen=True)
class Random(BlindOrder):
    """Every order of the positions is equally likely."""

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        return source.permutation(positions)


@final
@dataclass(frozen=True)
class LeftToRight(BlindOrder):
    """Ascending positions."""

    @property
    def fixed(self) -> bool:
        return True

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, _ = arguments(positions, length, steps, rng)
        return positions


@final
@dataclass(frozen=True)
class Spread(BlindOrder):
    """Bit reversal with a random cyclic shift: every prefix of the order is spread evenly over what is to be filled.

    The walk covers the stretch from the first to the last of the positions. For a stretch that is not a power of two
    the van der Corput sequence is walked and each position taken when it is first met.

    References:
        Besnier et al., Halton scheduler for masked generative image transformer, 2025: such an order for images.
        arXiv 2606.22976, 2026: bisection, exact for Markov data.

    Example:
        >>> bit_reversal(8)
        array([0, 4, 2, 6, 1, 5, 3, 7])
    """

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        first, span = int(positions[0]), int(positions[-1] - positions[0]) + 1
        return among(positions, first + (bit_reversal(span) + source.integers(span)) % span, length)


@final
@dataclass(frozen=True)
class Comb(BlindOrder):
    """First one token of every segment, then its right neighbour in every segment, and so on.

    Tokens revealed together are a segment apart, and each is predicted next to a *contiguous* run of revealed ones,
    where trained models are at their best. The teeth start at a common shift, one that keeps the longer teeth first:
    even sizes reveal the remainder first, and a step then never takes part of two teeth.

    Arguments:
        segments: Number of segments. By default as many as make one tooth per step, `positions / steps`; with a size
            that looks at predictions, whose steps nobody knows, as many as each has tokens, the root of the positions.
        shift: Where the first tooth starts, at random by default. Only with 0 is every segment whole.

    References:
        Karami & Ghodsi, Auto-regressive masked diffusion models, 2026 (arXiv 2601.16971): strided streams of text.
        Wang et al., Parallelized autoregressive visual generation, 2025 (arXiv 2412.15119): the same for images.
        Zhang et al., Locality-aware parallel decoding for efficient autoregressive image generation, 2026 (arXiv
            2507.01957): near what is known, far from each other.

    Example:
        >>> Comb(2).arrange(np.arange(6), length=6, steps=3, rng=np.random.default_rng(1))
        array([1, 4, 2, 5, 0, 3])
    """

    segments: int | None = None
    shift: int | None = None

    def __post_init__(self):
        if self.segments is not None:
            check.integer("segments", self.segments, least=1)
        if self.shift is not None:
            check.integer("shift", self.shift, least=0, most=check.LONGEST)

    @property
    def fixed(self) -> bool:
        return self.shift is not None

    def teeth(self, count: int, steps: int | None) -> int:
        """Teeth among so many positions, which is tokens per segment; by default one for each step."""
        count = check.integer("count", count, least=1)
        if steps is not None:
            check.integer("steps", steps, least=1)
        if self.segments is not None:
            return -(-count // min(self.segments, count))
        return math.isqrt(count - 1) + 1 if steps is None else min(steps, count)

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        count = positions.size
        teeth = self.teeth(count, steps)
        shift = _shift(count, teeth, source) if self.shift is None or count % teeth else self.shift
        tooth = (np.arange(count) - shift) % teeth
        return positions[np.lexsort([_places(count), tooth])]


@final
@dataclass(frozen=True)
class Periodic(BlindOrder):
    """All positions of one residue, then all of the next, in the order given, after a common random shift.

    `Comb` with one tooth per step is `Periodic(range(steps))`; a permutation found by measuring a model may be better.

    Arguments:
        residues: The residues `0 … period−1`, each once.

    Example:
        >>> Periodic([0, 2, 1]).arrange(np.arange(6), length=6, steps=3, rng=np.random.default_rng(1))
        array([1, 4, 0, 3, 2, 5])
    """

    residues: tuple[int, ...]

    def __init__(self, residues: Sequence[int]):
        given = check.listed("residues", residues, "be a list of integers", most=check.LONGEST)
        values = tuple(check.integer("residues", value, least=0) for value in given)
        if not values:
            raise check.InputError("residues", "hold at least one number")
        if sorted(values) != list(range(len(values))):
            must = f"hold each number from 0 to {len(values) - 1} exactly once"
            raise check.InputError("residues", must, found=f"{list(values)}")
        object.__setattr__(self, "residues", values)

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, source = arguments(positions, length, steps, rng)
        turn = np.argsort(self.residues)
        shift = _shift(positions.size, len(self.residues), source)
        residue = (np.arange(positions.size) - shift) % len(self.residues)
        return positions[np.lexsort([_places(positions.size), turn[residue]])]


@final
@dataclass(frozen=True)
class Dilated(BlindOrder):
    """Halving strides: round `t` reveals every `⌊B/2^t⌋`-th of the `B` positions that is not yet revealed.

    `rounds` gives the sizes that reproduce dilated unmasking exactly, `⌈log2 B⌉` steps for `B` positions.

    References:
        Luxembourg, Permuter & Nachmani, Plan for speed: dilated scheduling for masked diffusion language models,
        2025.

    Example:
        >>> Dilated().arrange(np.arange(8), length=8, steps=3, rng=np.random.default_rng(0))
        array([0, 4, 2, 6, 1, 3, 5, 7])
        >>> Dilated.rounds(8)
        [2, 2, 4]
    """

    @property
    def fixed(self) -> bool:
        return True

    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        positions, _ = arguments(positions, length, steps, rng)
        return positions[np.argsort(_dilated_rounds(positions.size), kind="stable")]

    @staticmethod
    def rounds(count: int) -> list[int]:
        """How many of `count` positions each round reveals."""
        sizes = np.bincount(_dilated_rounds(check.integer("count", count, least=1, most=check.LONGEST)))
        return [int(size) for size in sizes if size]


def bit_reversal(length: int) -> Positions:
    """The positions `0 … length−1` in the order in which the van der Corput sequence first meets them; read-only."""
    return _bit_reversal(check.integer("length", length, least=1, most=check.LONGEST))


@lru_cache(maxsize=32)
def _bit_reversal(length: int) -> Positions:
    bits = max(length - 1, 1).bit_length()
    code, reverse = np.arange(1 << bits), np.zeros(1 << bits, dtype=np.int64)
    for _ in range(bits):
        reverse = 2 * reverse + (code & 1)
        code >>= 1
    return first_met(reverse * length >> bits)


def _places(count: int) -> Positions:
    """Where each of `count` tokens comes if they are to be spread.

    A step that takes part of a tooth then takes tokens far apart.
    """
    places = np.empty(count, dtype=np.int64)
    places[bit_reversal(count)] = np.arange(count)
    return places


def _shift(count: int, period: int, rng: np.random.Generator) -> int:
    """A random shift of the residues that keeps the classes with one more of the `count` tokens first."""
    # Unless the period divides the count, that is none: else an even step would take part of two teeth, neighbours.
    return 0 if count % period else int(rng.integers(period))


def _dilated_rounds(count: int) -> Positions:
    """The round in which each of `count` positions is revealed; the last round reveals whatever is left."""
    rounds = max(1, (count - 1).bit_length())
    result = np.full(count, rounds - 1)
    for t in range(rounds, 0, -1):
        stride = max(1, count // 2**t)
        result[::stride] = t - 1
    return result
