"""The paper's two schemes, `π_tc` and `π_dtc`, as conditional Poisson designs over cuts.

    π_tc:   P(cuts = B) ∝ Π_{j∈B} 1/(L−j)          π_dtc:   P(cuts = B) ∝ Π_{j∈B} 1/j          |B| = K−1

So the batches of `π_tc` are the cycles of a uniformly random permutation of `L` items conditioned on having exactly
`K` cycles, and `π_dtc` is its mirror image. (`docs/theory.md` proves that these are the laws of the paper's recursion,
and all that follows.) With `e_c = e_c(1, 1/2 … 1/(L−1))` (Stirling numbers of the first kind) and `G(l) = P(no π_dtc
cut at l or beyond)`, all the expectations of `π_dtc` are sums of positive terms:

    E[s_k] = Σ_{t≥0} C(k−1+t, t) e_{K−1+t} / e_{K−1}                                   mean sizes
    r_i    = i Σ_{l=i}^{L−1} L / (l (l+1)) · G(l)                                      overhang
    f_tc   = P(no π_dtc cut at 1)         f_dtc = r_1                                  the paper's coefficients

and `π_tc` is an equaliser, `r_i = f_tc (L−i)`. Nothing here needs a table, so a million tokens are no trouble.

For a subset of the positions (a prompt, infilling) `length` is the number of masked tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask.size._poisson import ConditionalPoisson
from unmask.size.base import Blind, Randomness, as_sizes, counted
from unmask.size.recursion import CoefficientTable, dtc_scheme

# Below this many cells the recursion's table is quick to fill and draws faster than the design does.
_CELLS = 1 << 25
_SMALL = 256  # numbers of cuts whose law is added up term by term


@final
@dataclass(frozen=True)
class DTC(Blind):
    """The paper's DTC-adaptive scheme: expected KL at most `f_dtc(K, L) · DTC` for every distribution.

    References:
        Zhao & Cai, Adaptation to intrinsic dependence in diffusion language models, 2026, Theorem 2.

    Example:
        >>> DTC(2).mean_sizes(4).round(6)  # one cut, at 1, 2, 3 with odds 6 : 3 : 2
        array([1.636364, 2.363636])
    """

    monotone: ClassVar[bool] = True

    def coefficient(self, length: int) -> float:
        """`f_dtc(steps, length)`, the guarantee's factor."""
        steps, length = check.steps_and_length(self.steps, length)
        return float(self.overhang(length)[0]) if steps < length else 0.0

    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        count = counted(count, steps)
        if steps * (length - steps + 1) <= _CELLS:
            return _table(steps, length).draw(rng=rng, count=count)
        _, cuts = np.nonzero(_design(steps, length).draw(rng, count))
        return np.diff(cuts.reshape(count, steps - 1) + 1, axis=1, prepend=0, append=length)

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _design(steps, length).inclusion()

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _mean_sizes(steps, length)

    def overhang(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        position = np.arange(1.0, length)
        tail = length / (position * (position + 1)) * _design(steps, length).prefix_exclusion()[:-1]
        return position * np.cumsum(tail[::-1])[::-1]

    def log_probability(self, sizes: ArrayLike) -> float:
        given = as_sizes(sizes)
        if given.size != self.steps or given.min() < 1:
            return -np.inf
        cuts = np.cumsum(given)[:-1]
        return float(-np.log(cuts).sum() - _design(self.steps, int(given.sum())).log_normaliser())


@final
@dataclass(frozen=True)
class TC(Blind):
    """The paper's TC-adaptive scheme: expected KL exactly `f_tc(K, L) · TC` for every distribution.

    References:
        Zhao & Cai, Adaptation to intrinsic dependence in diffusion language models, 2026, Theorem 1.

    Example:
        >>> TC(2).mean_sizes(4).round(6)
        array([2.363636, 1.636364])
        >>> round(TC(100).coefficient(2000), 5)
        0.04302
    """

    monotone: ClassVar[bool] = True

    def coefficient(self, length: int) -> float:
        """`f_tc(steps, length)`, the ratio of the expected KL to TC."""
        steps, length = check.steps_and_length(self.steps, length)
        return float(_design(steps, length).exclusion()[0]) if steps < length else 0.0

    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        return DTC(self.steps).draw(length, rng=rng, count=count)[:, ::-1]

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        return DTC(self.steps).cut_probabilities(length)[::-1]

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        return DTC(self.steps).mean_sizes(length)[::-1]

    def overhang(self, length: int) -> NDArray[np.float64]:
        return self.coefficient(length) * (length - np.arange(1.0, length))

    def log_probability(self, sizes: ArrayLike) -> float:
        return DTC(self.steps).log_probability(as_sizes(sizes)[::-1])


@lru_cache(maxsize=4)
def _design(steps: int, length: int) -> ConditionalPoisson:
    return ConditionalPoisson(-np.log(np.arange(1.0, length)), steps - 1)


@lru_cache(maxsize=2)
def _table(steps: int, length: int) -> CoefficientTable:
    return dtc_scheme(length).table(steps)


def _mean_sizes(steps: int, length: int) -> NDArray[np.float64]:
    if steps in (1, length):
        return np.full(steps, length / steps)
    step = np.arange(1.0, steps + 1)
    result, choose = np.ones(steps), np.ones(steps)
    term = 1.0  # e_{K−1+t} / e_{K−1}
    for t, ratio in enumerate(_stirling_ratios(steps - 1, length), start=1):
        term *= ratio
        choose *= (step - 1 + t) / t
        result += choose * term
        # Terms are log-concave in t and largest at the last step: once that one is negligible, all are.
        if choose[-1] * term < 1e-17 * result[-1] and (steps + t) / (t + 1) * ratio < 1:
            break
    return result


def _stirling_ratios(first: int, length: int) -> Iterator[float]:
    """Yield `e_{c+1} / e_c` of the numbers `1, 1/2 … 1/(length−1)` for `c = first, first+1 …`.

    Each tilt serves the counts within two standard deviations of its mode, where no digits are lost. Small counts have
    a small deviation and would need many tilts; their law is added up term by term instead, all terms being positive.
    """
    count = first
    while count < length - 1:
        design = _design(count + 1, length)
        if count < _SMALL:
            law = _count_law(design.probabilities, min(count + _SMALL, length))[count:]
            law = law[law > 1e-290]  # what is smaller is left to the next tilt
        else:
            reach = max(1, int(2 * np.sqrt(design.variance)))
            law = design.pmf(np.arange(min(reach, length - 1 - count) + 1))
        yield from law[1:] / law[:-1] * np.exp(-design.log_tilt)
        count += law.size - 1


@compiled
def _count_law(p: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """`P(S = c)` for `c < most`, `S` the number of independent events with probabilities `p`."""
    law = np.zeros(most)
    law[0] = 1.0
    for j in range(p.size):
        for c in range(min(j + 1, most - 1), 0, -1):
            law[c] = (1.0 - p[j]) * law[c] + p[j] * law[c - 1]
        law[0] *= 1.0 - p[j]
    return law
