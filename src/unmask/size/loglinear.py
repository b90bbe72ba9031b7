"""Log-linear (ancestral) sizes: every token picks its step uniformly and independently.

SEDD and MDLM reveal each masked token with probability `(t−s)/t` when time goes from `t` to `s` on a uniform grid,
so that the sizes are multinomial, `(s_1 … s_K) ~ Multinomial(L; 1/K … 1/K)`, and some of them may be zero. With
`N_k ~ Binomial(L, k/K)` the law is elementary:

    P(cut at j) = Σ_{k<K} [ P(N_k = j) − P(N_k = N_{k+1} = j) ]
    v_n = Σ_k P(N_{k−1} = n) (L−n)/(K−k+1)

are the cut probabilities and the expected size of the batch that starts with `n` tokens revealed, and the overhang is
the running sum of `v_n − 1` (`Blind.batch_mass`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from unmask import _check as check
from unmask.size.base import Blind, as_sizes


@dataclass(frozen=True)
class LogLinear(Blind):
    """Multinomial sizes: ancestral sampling on a uniform time grid.

    It may use more steps than tokens; steps of size zero cost nothing.

    References:
        Lou, Meng & Ermon, Discrete diffusion modeling by estimating the ratios of the data distribution, 2024;
        Sahoo et al., Simple and effective masked diffusion language models, 2024.

    Example:
        >>> LogLinear(4).mean_sizes(10)
        array([2.5, 2.5, 2.5, 2.5])
    """

    may_skip: ClassVar[bool] = True

    def fitted(self, count: int) -> "LogLinear":
        return self

    def draw(self, length: int, *, rng: np.random.Generator, count: int = 1) -> NDArray[np.int64]:
        length = check.integer("length", length, least=1)
        count = check.integer("count", count, least=0)
        return rng.multinomial(length, np.full(self.steps, 1 / self.steps), size=count)

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        return np.full(self.steps, check.integer("length", length, least=1) / self.steps)

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1)
        result = np.zeros(length + 1)
        for k, window, chance in self._visits(length):
            # N_k = N_{k+1} = j: j tokens picked a step up to k, none picked step k+1, the rest later ones.
            result[window] += chance * (1 - (1 - 1 / (self.steps - k)) ** (length - window))
        return result[1:length]

    def overhang(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1)
        mass = np.zeros(length + 1)
        mass[0] = length / self.steps
        for k, window, chance in self._visits(length):
            mass[window] += chance * (length - window) / (self.steps - k)
        return np.cumsum(mass[: length - 1] - 1.0)

    def log_probability(self, sizes: ArrayLike) -> float:
        given = as_sizes(sizes)
        if given.size != self.steps:
            return -np.inf
        length = int(given.sum())
        return float(gammaln(length + 1) - gammaln(given + 1).sum() - xlogy(length, self.steps))

    def _visits(self, length: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
        """For `k = 1 … steps−1`: the values that `N_k` takes with more than negligible probability, and those."""
        for k in range(1, self.steps):
            p = k / self.steps
            reach = int(9 * np.sqrt(length * p * (1 - p))) + 40  # beyond it under 1e-17 in all
            mode = int((length + 1) * p)
            up = np.arange(mode + 1, min(length, mode + reach) + 1)
            down = np.arange(mode, max(0, mode - reach), -1)
            # Ratios of neighbours, outwards from the mode: log-factorials would lose digits at great length.
            above = np.cumprod((length - up + 1) / up * (k / (self.steps - k)))
            below = np.cumprod(down / (length - down + 1) * ((self.steps - k) / k))
            chance = np.concatenate([below[::-1], [1.0], above])
            yield k, np.arange(mode - below.size, mode + above.size + 1), chance / chance.sum()
