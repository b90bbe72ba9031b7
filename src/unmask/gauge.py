"""Gauges: what a guarantee for all distributions requires of an overhang.

The expected KL of a schedule with overhang `r` on a distribution with drops `d` is `Σ d_i r_i`. Hence

    E KL ≤ c · Σ_i d_i g_i   for every distribution      ⇔      r_i ≤ c · g_i   for every i,

since each single drop is realised by an MDS code of dimension `i`. The vector `g` is the **gauge** of the dependence
measure `Σ d_i g_i`:

    TC             g_i = L − i            DTC                  g_i = i
    min(TC, DTC)   g_i = min(i, L − i)    Σ I(X_i; X_−i)       g_i = L

(the third bounds a quantity below both TC and DTC). The best factor `c` is the largest ratio `r_i / g_i`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check

# Gives the gauge of a length; a `Vector` is one too.
Gauge = Callable[[int], NDArray[np.float64]]


def tc(length: int) -> NDArray[np.float64]:
    """`g_i = L − i`, `i = 1 … L−1`."""
    return dtc(length)[::-1]


def dtc(length: int) -> NDArray[np.float64]:
    """`g_i = i`, `i = 1 … L−1`."""
    return np.arange(1.0, check.integer("length", length, least=1, most=check.LONGEST))


def both(length: int) -> NDArray[np.float64]:
    """`g_i = min(i, L − i)`, `i = 1 … L−1`."""
    return np.minimum(tc(length), dtc(length))


def total(length: int) -> NDArray[np.float64]:
    """`g_i = L`, `i = 1 … L−1`."""
    return np.full(dtc(length).size, float(length))


@final
@dataclass(frozen=True, eq=False)
class Vector:
    """A gauge of your own: positive numbers `g_1 … g_{L−1}` for one length.

    Arguments:
        values: The numbers.

    Example:
        >>> Vector([1, 2, 2])(4)
        array([1., 2., 2.])
    """

    values: NDArray[np.float64]

    def __init__(self, values: ArrayLike):
        kept = positive(values).copy()
        kept.setflags(write=False)
        object.__setattr__(self, "values", kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def __call__(self, length: int) -> NDArray[np.float64]:
        if check.integer("length", length, least=1, most=check.LONGEST) != self.values.size + 1:
            raise check.InputError(
                "length", f"be {self.values.size + 1} for a gauge of {self.values.size} numbers", found=f"{length}"
            )
        return self.values


def positive(values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as an array if they are positive finite numbers in one dimension."""
    array = check.numbers("values", values)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(array <= 0):
        raise check.InputError("values", "be a list of positive finite numbers, one for each rank from 1 to L-1")
    return array


def guarantee(overhang: ArrayLike, gauge: ArrayLike) -> float:
    """The smallest `c` with `r_i ≤ c g_i` for all `i`; zero when there is nothing to reveal in parallel.

    Example:
        >>> guarantee([1.0, 0.0, 0.0], tc(4))  # one batch of two tokens, then one at a time
        0.3333333333333333
    """
    counts, allowed = check.numbers("overhang", overhang), check.numbers("gauge", gauge)
    if counts.shape != allowed.shape:
        raise check.InputError("gauge", f"have the shape of 'overhang', {counts.shape}", found=f"{allowed.shape}")
    ratios = counts / allowed
    return float(ratios.max(initial=0.0))
