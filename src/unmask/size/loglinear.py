"""Log-linear (ancestral) sizes: every token picks its step uniformly and independently.

SEDD and MDLM reveal each masked token with probability `(t−s)/t` when time goes from `t` to `s` on a uniform grid,
so that the sizes are multinomial, `(s_1 … s_K) ~ Multinomial(L; 1/K … 1/K)`, and some of them may be zero. With
`N_k ~ Binomial(L, k/K)` the law is elementary:

    P(cut at j) = Σ_{k<K} [ P(N_k = j) − P(N_k = N_{k+1} = j) ]
    E[N_{k(i)}] = Σ_k { E[N_k; N_k ≥ i] − E[N_k; N_{k−1} ≥ i] }

where the second expectation is linear in `N_{k−1}` because the rest is again binomial.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import binom

from unmask import check
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

    def draw(self, length: int, *, rng: np.random.Generator, count: int = 1) -> NDArray[np.int64]:
        length = check.integer("length", length, least=1)
        count = check.integer("count", count, least=0)
        return rng.multinomial(length, np.full(self.steps, 1 / self.steps), size=count)

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        return np.full(self.steps, check.integer("length", length, least=1) / self.steps)

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1)
        result = np.zeros(length + 1)
        for k in range(1, self.steps):
            window = self._window(length, k, k)
            # N_k = N_{k+1} = j: j tokens picked a step up to k, none picked step k+1, the rest later ones.
            stay = binom.pmf(window, length, k / self.steps) * (1 - 1 / (self.steps - k)) ** (length - window)
            result[window] += binom.pmf(window, length, k / self.steps) - stay
        return result[1:length]

    def overhang(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1)
        rank = np.arange(1, length)
        end = np.zeros(length - 1)
        for k in range(1, self.steps + 1):
            window = self._window(length, k - 1, k)
            window = window[(window >= 1) & (window < length)]
            now, before, hazard = k / self.steps, (k - 1) / self.steps, 1 / (self.steps - k + 1)
            # E[N; N ≥ i] = L p P(N' ≥ i−1) with N' ~ Binomial(L−1, p).
            mean_now = length * now * binom.sf(window - 2, length - 1, now)
            mean_before = length * before * binom.sf(window - 2, length - 1, before)
            stays = (1 - hazard) * mean_before + hazard * length * binom.sf(window - 1, length, before)
            end[window - 1] += mean_now - stays
        return end - rank

    def log_probability(self, sizes: ArrayLike) -> float:
        given = as_sizes(sizes)
        if given.size != self.steps:
            return -np.inf
        length = int(given.sum())
        return float(gammaln(length + 1) - gammaln(given + 1).sum() - xlogy(length, self.steps))

    def _window(self, length: int, first: int, last: int) -> NDArray[np.int64]:
        """The values that `N_first … N_last` take with more than negligible probability (under 1e-30 outside)."""
        low, high = length * first / self.steps, length * last / self.steps
        spread = 12 * np.sqrt(length) / 2 + 40  # twelve standard deviations at their largest
        return np.arange(max(0, int(low - spread)), min(length, int(high + spread)) + 1)
