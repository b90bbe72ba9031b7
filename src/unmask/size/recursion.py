"""The paper's general framework `π(K, I)`, with a stable table.

A scheme is given by coefficients `f(k, m)`: what the error guarantee is worth with `k` steps and `m` masked tokens to
go. From `m` masked tokens the next batch has size `s` with probability proportional to

    w_s(k, m) = Π_{i=1}^{s−1} ρ_k(m − i),      ρ_k(m) = a(m) f(k−1, m) / (1 + a(m−2) f(k−1, m−1)),

where `a(m) = m` for TC and `a(m) = L − m` for DTC: the two schemes differ in `a` and in the first level `f(1, ·)`
alone. Which of the masked tokens are in the batch is uniformly random.

The paper updates `f` by subtracting nearly equal numbers. Its own telescoping identity says that `f` is a martingale
of the process, `f(k, m) = E_s f(k−1, m−s)`, and so (with `Ψ = Σ_s w_s`)

    Ψ(k, m) = 1 + ρ_k(m−1) Ψ(k, m−1)        A(k, m) = f(k−1, m−1) + ρ_k(m−1) A(k, m−1)        f = A / Ψ

where nothing is subtracted. Only `k ≤ m ≤ L − (K−k)` is ever visited, so the table is indexed by the slack `m − k`.

Costs: `O(K (L−K+1))` time for the coefficient or the table, one level of memory for the coefficient; `O(1+s)` time for
a size, by walking the weights until they pass a uniform threshold; `O(K + L)` for a whole schedule.
The same laws without a table are in `unmask.size.dependence`.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask.size.base import Randomness, counted

_TOGETHER = 256


@final
@dataclass(frozen=True, eq=False)
class Scheme:
    """One choice of weights in the framework: `a(m) = offset + slope·m`, `slope = ±1`, and the first level.

    Arguments:
        offset: `a(0)`.
        slope: By how much `a` grows with each masked token.
        first: `f(1, m)` for `m = 1 … L`.

    Example:
        >>> tc_scheme(4) == tc_scheme(4), tc_scheme(4) == dtc_scheme(4)
        (True, False)
    """

    offset: float
    slope: int
    first: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scheme):
            return NotImplemented
        return (self.offset, self.slope) == (other.offset, other.slope) and np.array_equal(self.first, other.first)

    def __hash__(self) -> int:
        return hash((self.offset, self.slope, self.first.tobytes()))

    @property
    def length(self) -> int:
        """The largest number of masked tokens the scheme is defined for."""
        return self.first.size

    def coefficient(self, steps: int) -> float:
        """`f(steps, length)`, keeping one level at a time."""
        steps, length = check.steps_and_length(steps, self.length)
        level = self.first[: length - steps + 1].copy()
        _climb(level, steps, self.offset, self.slope)
        return float(level[-1])

    def table(self, steps: int) -> "CoefficientTable":
        """Every coefficient that a schedule of `steps` steps can meet."""
        steps, length = check.steps_and_length(steps, self.length)
        coefficients = np.empty((steps, length - steps + 1))
        coefficients[0] = self.first[: length - steps + 1]
        _fill(coefficients, self.offset, self.slope)
        return CoefficientTable(self, coefficients)


def tc_scheme(length: int) -> Scheme:
    """`π_tc(·, I)` for `|I| = length`: `a(m) = m`, `f(1, 1) = 0` and `f(1, m) = 1`.

    Example:
        >>> round(tc_scheme(10).coefficient(2), 4)
        0.6465
    """
    first = np.ones(check.integer("length", length, least=1, most=check.LONGEST))
    first[0] = 0.0
    return Scheme(0.0, 1, _fixed(first))


def dtc_scheme(length: int, whole: int | None = None) -> Scheme:
    """`π_dtc(·, I)` for `|I| = length`: `a(m) = whole − m`, `f(1, m) = (m−1)/(whole−m+1)`.

    The paper's weights know the length of the whole sequence as well as the number of masked tokens. By default
    `whole = length`: a prompt is conditioned on, and the rest is a fresh problem whose guarantee is in terms of its
    own conditional DTC. With `whole > length` the scheme continues one that has already revealed the difference.

    Example:
        >>> round(dtc_scheme(10).coefficient(2), 4)
        2.1814
    """
    length = check.integer("length", length, least=1, most=check.LONGEST)
    whole = length if whole is None else check.integer("whole", whole, least=length, most=check.EXACT)
    m = np.arange(1, length + 1)
    return Scheme(float(whole), -1, _fixed((m - 1) / (whole - m + 1)))


def _fixed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values.setflags(write=False)  # what is compared and hashed by its numbers keeps them
    return values


@final
@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """The coefficients `f(k, k + slack)` of one scheme, shape `(steps, length − steps + 1)`.

    It draws sizes in `O(1+s)` each and knows the exact law of what it draws.
    """

    scheme: Scheme
    coefficients: NDArray[np.float64]

    @property
    def steps(self) -> int:
        return self.coefficients.shape[0]

    @property
    def length(self) -> int:
        return sum(self.coefficients.shape) - 1

    def draw(self, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        """`count` independent draws of the sizes, shape `(count, steps)`."""
        generator = check.generator("rng", rng)
        sizes = np.empty((counted(count, self.steps), self.steps), dtype=np.int64)
        # A few hundred schedules at a time, level by level: the level and the sizes then stay in cache.
        for start in range(0, sizes.shape[0], _TOGETHER):
            part = sizes[start : start + _TOGETHER]
            uniform = generator.random((part.shape[0], self.steps - 1))
            _walk(self.coefficients, self.scheme.offset, self.scheme.slope, uniform, part)
        return sizes

    def law(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Cut probabilities `(L−1,)`, mean sizes `(K,)` and overhang `(L−1,)`, all in `O(K (L−K+1))` time."""
        visits, means, mass = _law(self.coefficients, self.scheme.offset, self.scheme.slope)
        # v_n = 1 + r_{n+1} − r_n (see `Blind.batch_mass`), so the overhang is a running sum of small numbers.
        return visits[1:], means, np.cumsum(mass - 1.0)[:-1]


@compiled
def _climb(level: NDArray[np.float64], steps: int, offset: float, slope: int) -> None:
    """Turn the first level into level `steps`, in place."""
    for k in range(2, steps + 1):
        below = level[0]  # f(k−1, ·) at the previous slack, about to be overwritten
        level[0] = 0.0
        total, mean = 1.0, 0.0
        for j in range(1, level.size):
            m = k + j - 1
            here = level[j]
            ratio = (offset + slope * m) * here / (1.0 + (offset + slope * (m - 2)) * below)
            total = 1.0 + ratio * total
            mean = here + ratio * mean
            level[j] = mean / total
            below = here


@compiled
def _fill(table: NDArray[np.float64], offset: float, slope: int) -> None:
    for k in range(2, table.shape[0] + 1):
        previous, level = table[k - 2], table[k - 1]
        level[0] = 0.0
        total, mean = 1.0, 0.0
        for j in range(1, level.size):
            m = k + j - 1
            ratio = (offset + slope * m) * previous[j] / (1.0 + (offset + slope * (m - 2)) * previous[j - 1])
            total = 1.0 + ratio * total
            mean = previous[j] + ratio * mean
            level[j] = mean / total


@compiled
def _walk(
    table: NDArray[np.float64],
    offset: float,
    slope: int,
    uniform: NDArray[np.float64],
    sizes: NDArray[np.int64],
) -> None:
    """Draw by inverse transform: walk the weights until they pass a uniform share of their sum."""
    steps, width = table.shape
    slack = np.full(sizes.shape[0], width - 1)
    for k in range(steps, 1, -1):
        previous, level = table[k - 2], table[k - 1]
        for row in range(sizes.shape[0]):
            j = slack[row]
            # Ψ(k, m) from the paper's own formula for f: no sum is needed.
            total = (1.0 + (offset + slope * (k + j - 2)) * previous[j]) / (1.0 - slope * level[j])
            threshold = uniform[row, steps - k] * total
            weight, passed = 1.0, 1.0
            while passed < threshold and j > 0:
                a = offset + slope * (k + j - 1)
                weight *= a * previous[j] / (1.0 + (a - 2 * slope) * previous[j - 1])
                passed += weight
                j -= 1
            sizes[row, steps - k] = slack[row] - j + 1
            slack[row] = j
    sizes[:, steps - 1] = slack + 1


@compiled
def _law(
    table: NDArray[np.float64], offset: float, slope: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Push the law of the number of masked tokens through the steps.

    A size `s` from `m` has weight `ρ(m−1) … ρ(m−s+1)`, so the mass on its way down from all `m` at once is one
    running number: at each `m` it is multiplied by `ρ(m)` and joined by what starts there.
    """
    steps, width = table.shape
    length = steps + width - 1
    visits, means, mass = np.zeros(length), np.zeros(steps), np.zeros(length)
    state, following, total, extra = np.zeros(width), np.zeros(width), np.ones(width), np.zeros(width)
    state[width - 1] = 1.0
    for k in range(steps, 0, -1):
        for j in range(width):
            visits[length - k - j] += state[j]
        if k == 1:
            for j in range(width):
                mass[length - 1 - j] += state[j] * (1 + j)
                means[steps - 1] += state[j] * (1 + j)
            break
        previous = table[k - 2]
        for j in range(1, width):
            m = k + j - 1
            ratio = (offset + slope * m) * previous[j] / (1.0 + (offset + slope * (m - 2)) * previous[j - 1])
            total[j] = 1.0 + ratio * total[j - 1]
            extra[j] = ratio * (extra[j - 1] + total[j - 1])  # Σ_s w_s (s − 1)
        falling = 0.0
        for j in range(width - 1, -1, -1):
            size = state[j] * (1.0 + extra[j] / total[j])
            means[steps - k] += size
            mass[length - k - j] += size
            following[j] = state[j] / total[j] + falling
            m = k + j - 1
            if j > 0:
                ratio = (offset + slope * m) * previous[j] / (1.0 + (offset + slope * (m - 2)) * previous[j - 1])
                falling = ratio * following[j]
        state, following = following, state
    return visits, means, mass
