"""Conditional Poisson sampling: independent events, conditioned on how many happen.

Items `1 … n` have odds `o_j > 0`. The design of size `c` takes each set `B` of `c` items with probability

    P(B) = Π_{j∈B} o_j / e_c(o),        e_c = the elementary symmetric polynomial of degree c.

Multiplying all odds by one `θ` changes nothing, so choose the **tilt** `θ` for which independent items with
probabilities `p_j = θ o_j / (1 + θ o_j)` expect exactly `c` of them. Their number `S` then has its mode at `c`, and
everything follows from its characteristic function. With `n` equidistant angles on the circle,

    P(S = c) = (1/n) Σ_t φ(t) e^{−ict}          P(S_{−j} = c) = (1/n) Σ_t φ(t) e^{−ict} / (1 − p_j + p_j e^{it})

are exact up to the tail probabilities `P(S = c ± n)`. As `|φ(t)| ≤ exp(−Var(S) (1 − cos t))`, only some twenty
angles count however long the sequence is: inclusion probabilities of a million items take about a second, with
neither a table nor a difference of nearly equal numbers.

Draws take half of the items independently, accept the number they took with the probability (up to a constant) that
the other half supplies the rest, and go on with that half: a few `n` coin tosses in all.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.size.base import Randomness

_NEGLIGIBLE = 50.0  # exp(−50) is far below rounding
_TOSSES_AT_ONCE = 1 << 24
_FEW = 100  # items left for the sequential end of a draw


@final
@dataclass(frozen=True, eq=False)
class ConditionalPoisson:
    """The conditional Poisson design of `size` items with the given log-odds, `0 ≤ size ≤ len(log_odds)`.

    Example:
        >>> design = ConditionalPoisson(np.log([1.0, 1.0, 2.0]), 1)
        >>> design.inclusion().round(12)
        array([0.25, 0.25, 0.5 ])
    """

    log_odds: NDArray[np.float64]
    size: int

    @property
    def certain(self) -> bool:
        """True when the design has a single outcome: nothing or everything."""
        return self.size in (0, self.log_odds.size)

    @cached_property
    def log_tilt(self) -> float:
        """`log θ`, by Newton's method on the monotone `Σ p_j(θ) = size`, safeguarded by bisection."""
        low, high = -self.log_odds.max() - 40.0, -self.log_odds.min() + 40.0
        guess = np.log(self.size / (self.log_odds.size - self.size)) - float(np.mean(self.log_odds))
        for _ in range(200):
            guess = guess if low < guess < high else 0.5 * (low + high)
            p = expit(self.log_odds + guess)
            excess = float(p.sum()) - self.size
            low, high = (low, guess) if excess > 0 else (guess, high)
            # 1 − p would vanish where p is close to one; where even this slope does, bisection goes on.
            slope = float((p * expit(-self.log_odds - guess)).sum())
            step = excess / slope if slope > 0 else np.inf
            guess -= step
            if abs(step) < 1e-12:
                break
        return guess

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """`p_j`, the inclusion probabilities of the independent design with the same tilt."""
        return expit(self.log_odds + self.log_tilt)

    @cached_property
    def complements(self) -> NDArray[np.float64]:
        """`1 − p_j`, accurate also where `p_j` is close to one."""
        return expit(-self.log_odds - self.log_tilt)

    @property
    def variance(self) -> float:
        """`Var(S)` of the independent design."""
        return float(self.probabilities @ self.complements)

    @cached_property
    def _nodes(self) -> "_Nodes":
        return _Nodes.of(self.probabilities, self.size)

    def pmf(self, shift: NDArray[np.int64]) -> NDArray[np.float64]:
        """`P(S = size + shift)` of the independent design."""
        return self._nodes.pmf(shift)

    def log_normaliser(self) -> float:
        """`log e_size(o)`."""
        if self.certain:
            return float(self.log_odds.sum()) if self.size else 0.0
        total = np.logaddexp(0.0, self.log_odds + self.log_tilt).sum()
        return float(total - self.size * self.log_tilt + np.log(self.pmf(np.array([0]))[0]))

    def inclusion(self) -> NDArray[np.float64]:
        """`P(j ∈ B)` of every item."""
        if self.certain:
            return np.full(self.log_odds.size, float(self.size > 0))
        return self.probabilities * self._leave_one_out(taken=1)

    def exclusion(self) -> NDArray[np.float64]:
        """`P(j ∉ B)` of every item, accurate also where it is tiny."""
        if self.certain:
            return np.full(self.log_odds.size, float(self.size == 0))
        return self.complements * self._leave_one_out(taken=0)

    def _leave_one_out(self, *, taken: int) -> NDArray[np.float64]:
        """`P(S_{−j} = size − taken) / P(S = size)` of every item."""
        nodes, p, q = self._nodes, self.probabilities, self.complements
        total = np.zeros(p.size)
        for angle, value in zip(nodes.angles, nodes.weighted, strict=True):
            turn = np.exp(1j * angle)
            total += (value * turn**taken / (q + p * turn)).real
        return total / nodes.weighted.real.sum()

    def prefix_exclusion(self) -> NDArray[np.float64]:
        """`P(B ⊂ {1 … l−1})`, the probability that no item from `l` on is taken, for `l = 1 … n+1`."""
        n = self.log_odds.size
        result = np.zeros(n + 1)
        result[n] = 1.0
        if self.certain:
            result[:n] = float(self.size == 0)
            return result
        nodes, p = self._nodes, self.probabilities
        total = np.zeros(n)
        for angle, value in zip(nodes.angles, nodes.weighted, strict=True):
            # Take the factors of items l … n out of φ: sums run down from n, where the large terms are.
            log_modulus, phase = _log_factor(p, angle)
            phase += angle * p  # undo the centring of the items removed
            log_modulus, phase = _suffix_sum(log_modulus), _suffix_sum(phase)
            total += np.exp(-log_modulus) * (value.real * np.cos(phase) + value.imag * np.sin(phase))
        none = np.exp(_suffix_sum(np.log(self.complements)))
        result[:n] = np.maximum(none * total / nodes.weighted.real.sum(), 0.0)
        result[: self.size] = 0.0  # fewer than `size` items to take from
        return result

    def draw(self, rng: Randomness, count: int) -> NDArray[np.bool_]:
        """`count` independent draws as rows of booleans, shape `(count, n)`."""
        generator = check.generator("rng", rng)
        n = self.log_odds.size
        if self.certain:
            return np.full((count, n), self.size > 0)
        result = np.zeros((count, n), dtype=np.bool_)
        rows = max(1, _TOSSES_AT_ONCE // n)
        halves = _halves(self.probabilities)
        for start in range(0, count, rows):
            part = result[start : start + rows]
            need = np.full(part.shape[0], self.size)
            for half in halves:
                need = half.toss(part, need, generator)
        return result


@final
@dataclass(frozen=True, eq=False)
class _Nodes:
    """The angles that count, and `φ(t) e^{−ict}` at them with their quadrature weights."""

    angles: NDArray[np.float64]
    weighted: NDArray[np.complex128]

    @staticmethod
    def of(p: NDArray[np.float64], centre: int) -> "_Nodes":
        variance = float((p * (1 - p)).sum())
        # An odd number of points; no aliasing at all when they cover the support, e^{−45} of it otherwise.
        points = min(p.size + 1, int(12 * np.sqrt(variance) + 45)) | 1
        angles = 2 * np.pi * np.arange(points // 2 + 1) / points
        if variance > _NEGLIGIBLE:
            angles = angles[variance * (1 - np.cos(angles)) <= _NEGLIGIBLE]
        # What is left of e^{−ict} after every factor was centred: a small difference of large numbers.
        drift = float(p.sum(dtype=np.longdouble) - centre)
        weighted = np.empty(angles.size, dtype=np.complex128)
        for index, angle in enumerate(angles):
            log_modulus, phase = _log_factor(p, angle)
            weight = (1.0 if index == 0 else 2.0) / points
            weighted[index] = weight * np.exp(log_modulus.sum() + 1j * (phase.sum() + angle * drift))
        return _Nodes(angles, weighted)

    def pmf(self, shift: NDArray[np.int64]) -> NDArray[np.float64]:
        turned = np.exp(-1j * np.multiply.outer(shift, self.angles)) @ self.weighted
        return np.maximum(turned.real, 0.0)


def expit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`1 / (1 + e^{−x})`."""
    # Here, because scipy takes longer to import than most schedules to compute.
    from scipy.special import expit as sigmoid  # pyright: ignore[reportMissingTypeStubs] - scipy has none

    return np.asarray(sigmoid(values))


def _log_factor(p: NDArray[np.float64], angle: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Real and imaginary part of `log(1 − p + p e^{it}) − i t p`; centring keeps the imaginary sum small."""
    away = 2 * np.sin(angle / 2) ** 2  # 1 − cos t without cancellation
    log_modulus = 0.5 * np.log1p(-2 * p * (1 - p) * away)
    return log_modulus, np.arctan2(p * np.sin(angle), 1 - p * away) - angle * p


def _suffix_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.cumsum(values[::-1])[::-1]


@final
@dataclass(frozen=True, eq=False)
class _Half:
    """Items tossed independently, and how likely the items still to come supply each number."""

    items: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    lowest: int
    acceptance: NDArray[np.float64]

    def toss(self, taken: NDArray[np.bool_], need: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Fill this half's columns of `taken`; return how many each row still needs."""
        left = need.copy()
        waiting = np.arange(need.size)
        while waiting.size:
            toss = rng.random((waiting.size, self.items.size)) < self.probabilities
            rest = need[waiting] - toss.sum(axis=1)
            index = rest - self.lowest
            possible = (index >= 0) & (index < self.acceptance.size)
            chance = np.where(possible, self.acceptance[np.clip(index, 0, self.acceptance.size - 1)], 0.0)
            accepted = rng.random(waiting.size) < chance
            taken[np.ix_(waiting[accepted], self.items)] = toss[accepted]
            left[waiting[accepted]] = rest[accepted]
            waiting = waiting[~accepted]
        return left


@final
@dataclass(frozen=True, eq=False)
class _Rest:
    """The last few items, taken one after the other from the exact law of how many are still to come."""

    items: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def toss(self, taken: NDArray[np.bool_], need: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Fill the remaining columns of `taken` so that every row meets its need."""
        n = self.items.size
        later = np.zeros((n + 1, n + 2))  # later[i, r] = P(items i … n−1 supply r); one column of padding for r = −1
        later[n, 0] = 1.0
        for i in range(n - 1, -1, -1):
            p = self.probabilities[i]
            later[i] = (1 - p) * later[i + 1]
            later[i, 1:] += p * later[i + 1, :-1]
        left = need.copy()
        for i in range(n):
            chance = self.probabilities[i] * later[i + 1, left - 1] / later[i, left]
            take = rng.random(left.size) < chance
            taken[:, self.items[i]] = take
            left = left - take
        return left


def _halves(p: NDArray[np.float64]) -> list[_Half | _Rest]:
    """Split the items again and again, every other one, so that both halves of a split are alike."""
    halves: list[_Half | _Rest] = []
    items = np.arange(p.size)
    while items.size > _FEW:
        now, items = items[::2], items[1::2]
        later = p[items]
        centre = round(float(later.sum()))
        reach = int(6 * np.sqrt(float((later * (1 - later)).sum())) + 22)
        shift = np.arange(max(-centre, -reach), min(items.size - centre, reach) + 1)
        pmf = _Nodes.of(later, centre).pmf(shift)
        halves.append(_Half(now, p[now], centre + int(shift[0]), pmf / pmf.max()))
    return [*halves, _Rest(items, p[items])]
