"""Gauges: what an error guarantee over all distributions asks of an overhang.

The expected KL of a schedule with overhang `r` on a distribution with drops `d` is `Σ d_i r_i`. Hence

    E KL ≤ c · Σ_i d_i g_i   for every distribution      ⇔      r_i ≤ c · g_i   for every i,

since each single drop is realised by an MDS code of dimension `i`. The vector `g` is the **gauge** of the dependence
measure `Σ d_i g_i`:

    TC             g_i = L − i            DTC                  g_i = i
    min(TC, DTC)   g_i = min(i, L − i)    Σ I(X_i; X_−i)       g_i = L

(the third bounds a quantity below both TC and DTC). The best factor `c` is the largest ratio `r_i / g_i`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import check


def tc(length: int) -> NDArray[np.float64]:
    """`g_i = L − i`, `i = 1 … L−1`."""
    return dtc(length)[::-1]


def dtc(length: int) -> NDArray[np.float64]:
    """`g_i = i`, `i = 1 … L−1`."""
    return np.arange(1.0, check.integer("length", length, least=1))


def both(length: int) -> NDArray[np.float64]:
    """`g_i = min(i, L − i)`, `i = 1 … L−1`."""
    return np.minimum(tc(length), dtc(length))


def total(length: int) -> NDArray[np.float64]:
    """`g_i = L`, `i = 1 … L−1`."""
    return np.full(dtc(length).size, float(length))


def guarantee(overhang: ArrayLike, gauge: ArrayLike) -> float:
    """The smallest `c` with `r_i ≤ c g_i` for all `i`; zero when there is nothing to reveal in parallel.

    Example:
        >>> guarantee([1.0, 0.0, 0.0], tc(4))  # one batch of two tokens, then one at a time
        0.3333333333333333
    """
    ratios = np.asarray(overhang, dtype=np.float64) / np.asarray(gauge, dtype=np.float64)
    return float(ratios.max(initial=0.0))
