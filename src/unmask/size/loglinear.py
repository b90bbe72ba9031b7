"""Log-linear (ancestral) sizes: every token picks its step uniformly and independently.

SEDD and MDLM reveal each masked token with probability `(t−s)/t` when time goes from `t` to `s` on a uniform grid,
so that the sizes are multinomial, `(s_1 … s_K) ~ Multinomial(L; 1/K … 1/K)`, and some of them may be zero. With
`N_k ~ Binomial(L, k/K)` the law is elementary:

    P(cut at j) = Σ_{k<K} [ P(N_k = j) − P(N_k = N_{k+1} = j) ]
    v_n = Σ_k P(N_{k−1} = n) (L−n)/(K−k+1)

are the cut probabilities and the expected size of the batch that starts with `n` tokens revealed, and the overhang is
the running sum of `v_n − 1` (`Blind.batch_mass`).

No number of steps makes the error zero, as two tokens may always pick the same one; but more steps than tokens are
allowed. `Σ_n v_n ℓ(n) = (L/K) Σ_{k<K} B(k/K)` with the Bernstein polynomial `B` of `ℓ`, which does not increase: a
left Riemann sum that exceeds its integral `H(X)` by at most

    E KL ≤ (L/K) (ℓ(0) − ℓ(L−1)) = Σ_i I(X_i; X_−i) / K.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask.size.base import Blind, Randomness, as_sizes, counted


@final
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
    may_exceed: ClassVar[bool] = True

    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        generator = check.generator("rng", rng)
        length = check.integer("length", length, least=1, most=check.LONGEST)
        count = counted(count, self.steps)
        return generator.multinomial(length, np.full(self.steps, 1 / self.steps), size=count)

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        return np.full(self.steps, check.integer("length", length, least=1, most=check.LONGEST) / self.steps)

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1, most=check.LONGEST)
        return _cuts(length, self.steps)[1:length]

    def overhang(self, length: int) -> NDArray[np.float64]:
        length = check.integer("length", length, least=1, most=check.LONGEST)
        return np.cumsum(_mass(length, self.steps)[: length - 1] - 1.0)

    def log_probability(self, sizes: ArrayLike) -> float:
        # Here, because scipy takes longer to import than most schedules to compute.
        from scipy.special import gammaln, xlogy  # pyright: ignore[reportMissingTypeStubs] - scipy has none

        given = as_sizes(sizes)
        if given.size != self.steps:
            return -np.inf
        length = int(given.sum())
        return float(gammaln(length + 1) - gammaln(given + 1).sum() - xlogy(length, self.steps))


@compiled
def _binomial(length: int, steps: int, k: int, chance: NDArray[np.float64]) -> tuple[int, int]:
    """Write `P(N_k = n)` into `chance` for the `n` from `low` to `high` that are more than negligible; return both."""
    p = k / steps
    reach = int(9 * np.sqrt(length * p * (1 - p))) + 40  # beyond it under 1e-17 in all
    mode = int((length + 1) * p)
    low, high = max(0, mode - reach), min(length, mode + reach)
    # Ratios of neighbours, outwards from the mode: log-factorials would lose digits at great length.
    chance[mode] = 1.0
    for n in range(mode + 1, high + 1):
        chance[n] = chance[n - 1] * ((length - n + 1) / n * (k / (steps - k)))
    for n in range(mode, low, -1):
        chance[n - 1] = chance[n] * (n / (length - n + 1) * ((steps - k) / k))
    below, above = 0.0, 0.0
    for n in range(low, mode):  # the small ones first, from both ends
        below += chance[n]
    for n in range(high, mode - 1, -1):
        above += chance[n]
    chance[low : high + 1] /= below + above
    return low, high


@compiled
def _cuts(length: int, steps: int) -> NDArray[np.float64]:
    """`P(cut at n)` for `n = 0 … length`."""
    result, chance = np.zeros(length + 1), np.zeros(length + 1)
    for k in range(1, steps):
        low, high = _binomial(length, steps, k, chance)
        # N_k = N_{k+1} = n: n tokens picked a step up to k, none picked step k+1, the rest later ones.
        stay = 1.0 - 1.0 / (steps - k)
        for n in range(low, high + 1):
            result[n] += chance[n] * (1.0 - stay ** float(length - n))
    return result


@compiled
def _mass(length: int, steps: int) -> NDArray[np.float64]:
    """`v_n` for `n = 0 … length`."""
    result, chance = np.zeros(length + 1), np.zeros(length + 1)
    result[0] = length / steps
    for k in range(1, steps):
        low, high = _binomial(length, steps, k, chance)
        for n in range(low, high + 1):
            result[n] += chance[n] * (length - n) / (steps - k)
    return result
