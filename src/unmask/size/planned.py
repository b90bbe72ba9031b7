"""Fixed sizes: the baselines of the field, each a deterministic set of cuts.

    Even        ⌊L/K⌋ per step, one more in the first L mod K steps           LLaDA and what was copied from it
    Ceil        ⌈L/K⌉ per step until done; may finish early                   the paper's baseline
    Cosine      revealed fraction 1 − cos(π/2 · k/K) after step k             MaskGIT
    Explicit    any sizes
    ChenTC      geometric: each step reveals a fraction 1/ζ of what is left    Chen, Cong & Li 2025
    ChenDTC     its mirror image

Each has exactly `steps` entries; `Ceil` ends with zeros when it finishes early.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.size.base import Planned, as_sizes, at_least_one


@final
@dataclass(frozen=True)
class Even(Planned):
    """`⌊L/K⌋` tokens per step, one more in the first `L mod K` steps.

    Example:
        >>> Even(3).sizes(8)
        array([3, 3, 2])
    """

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        sizes = np.full(steps, length // steps)
        sizes[: length % steps] += 1
        return sizes


@final
@dataclass(frozen=True)
class Ceil(Planned):
    """`⌈L/K⌉` tokens per step until none is left: the paper's fixed-size baseline.

    It may finish early; the steps it does not need have size zero. Its error therefore depends on how `K` divides
    `L`, which is why the figures also show equal spacing at a random phase (`unmask.size.Offset`).

    Example:
        >>> Ceil(4).sizes(9)
        array([3, 3, 3, 0])
    """

    may_skip: ClassVar[bool] = True

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        ends = np.minimum(-(-length // steps) * np.arange(steps + 1), length)
        return np.diff(ends)


@final
@dataclass(frozen=True)
class Cosine(Planned):
    """`L − ⌊L cos(π/2 · k/K)⌋` tokens revealed after step `k`, at least one per step.

    References:
        Chang et al., MaskGIT: Masked Generative Image Transformer, 2022.

    Example:
        >>> Cosine(4).sizes(16)
        array([2, 3, 5, 6])
    """

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        step = np.arange(steps + 1)
        # The cosine is rational at 1, 1/2 and 0 alone; there a last digit too low must not cost a whole token.
        left = length * np.cos(np.pi / 2 * step / steps) * (1 + 1e-15)
        ends = length - np.floor(left).astype(np.int64)
        return np.diff(at_least_one(ends, length))


@final
@dataclass(frozen=True)
class Explicit(Planned):
    """The given sizes, for sequences of exactly `sum(sizes)` tokens.

    Example:
        >>> Explicit([1, 2, 5]).sizes(8)
        array([1, 2, 5])
    """

    values: tuple[int, ...]

    def __init__(self, values: ArrayLike):
        given = as_sizes(values)
        if given.min() < 1:
            raise check.InputError("values", "hold sizes of at least 1", remedy="Leave out the steps of size zero.")
        object.__setattr__(self, "values", tuple(int(value) for value in given))
        super().__init__(len(self.values))

    def fitted(self, count: int) -> "Explicit":
        return self

    def sizes(self, length: int) -> NDArray[np.int64]:
        if check.integer("length", length, least=1, most=check.LONGEST) != sum(self.values):
            raise check.InputError("length", f"be the sum of the sizes, {sum(self.values)}", found=f"{length}")
        return np.array(self.values, dtype=np.int64)


@final
@dataclass(frozen=True)
class ChenTC(Planned):
    """Chen, Cong & Li's schedule for a known total correlation, fitted to `steps` steps.

    With `R` tokens left a step reveals `⌊R/ζ⌋` of them, and once that is zero, one at a time. For a target error
    `ε` they take `ζ = 1 + ⌈TC/ε⌉` (`chen_zeta`). For a given number of steps the real `ζ` is chosen so that the
    schedule takes that many; where every `ζ` jumps over it, the largest that does not exceed it is taken and its
    largest batches are halved until the steps are used.

    References:
        Chen, Cong & Li, Optimal inference schedules for masked diffusion models, 2025.

    Example:
        >>> ChenTC(6).sizes(20)
        array([10,  5,  2,  1,  1,  1])
    """

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _fit_chen(length, steps)


@final
@dataclass(frozen=True)
class ChenDTC(Planned):
    """Chen, Cong & Li's schedule for a known dual total correlation: `ChenTC` read backwards."""

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _fit_chen(length, steps)[::-1].copy()


def chen_zeta(dependence: float, target: float) -> int:
    """`ζ = 1 + ⌈dependence/target⌉`, for TC (then `chen_sizes`) or DTC (then `chen_sizes` reversed)."""
    dependence = check.real("dependence", dependence, least=0.0)
    target = check.real("target", target, above=0.0)
    ratio = dependence / target
    if not np.isfinite(ratio):
        raise check.InputError("target", f"be larger than {target:g} for this much dependence")
    return 1 + int(np.ceil(ratio))


def chen_sizes(length: int, zeta: float) -> NDArray[np.int64]:
    """Sizes `⌊R/ζ⌋` while `R ≥ ζ` tokens are left, then ones.

    Example:
        >>> chen_sizes(12, 3)
        array([4, 2, 2, 1, 1, 1, 1])
    """
    left = check.integer("length", length, least=1, most=check.LONGEST)
    zeta = check.real("zeta", zeta, least=1.0)
    sizes: list[int] = []
    while left >= zeta and left > 0:
        sizes.append(int(left // zeta))
        left -= sizes[-1]
    return np.array(sizes + [1] * left, dtype=np.int64)


def _fit_chen(length: int, steps: int) -> NDArray[np.int64]:
    low, high = 1.0, float(length + 1)  # one step at ζ = 1, `length` steps above ζ = length
    best = chen_sizes(length, low)
    for _ in range(80):
        middle = 0.5 * (low + high)
        candidate = chen_sizes(length, middle)
        if len(candidate) <= steps:
            low, best = middle, candidate
        else:
            high = middle
        if len(best) == steps:
            return best
    sizes: list[int] = best.tolist()
    while len(sizes) < steps:
        where = int(np.argmax(sizes))
        sizes[where : where + 1] = [-(-sizes[where] // 2), sizes[where] // 2]
    return np.array(sizes, dtype=np.int64)
