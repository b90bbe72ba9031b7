"""The exact minimax schedule for any gauge.

A guarantee `E KL ≤ c Σ_i d_i g_i` for every distribution is `r_i ≤ c g_i` for every rank (`unmask.gauge`). Whatever
the schedule, its overhang is bounded below by its cut probabilities `b`, by a union bound on "no cut in [i, i+m]":

    r_i  ≥  ρ_i(b) = Σ_{m≥0, i+m<L} (1 − b_i − … − b_{i+m})_+

and systematic sampling attains every one of these at once (`unmask.size.systematic`). So the minimax schedule is the
systematic one whose `b` solves `ρ_i(b) ≤ c g_i` with `Σ b = K−1` and the smallest `c`. With `B_i = b_i + … +
b_{L−1}`,

    ρ_i = Σ_{j=i+1}^{L} (1 − B_i + B_j)_+.

For a given `c`, go down from `i = L−1` and take the smallest `B_i ≥ B_{i+1}` that satisfies rank `i`. By induction
this makes every suffix sum as small as any feasible `b` can, so `c` is attainable iff `B_1 ≤ K−1`. The terms that
count form a window `(i, e]` whose far end only moves down, so one pass is `O(L)`; `B_1` is continuous and, while it
is positive, strictly decreasing in `c`, and a root finder does the rest. The overhang that results is
`r_i = min(c g_i, 1 + r_{i+1})`. The proof is in `docs/theory.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask import gauge
from unmask.size._windows import descend
from unmask.size.systematic import Systematic, root

Gauge = Callable[[int], NDArray[np.float64]]


@final
@dataclass(frozen=True)
class Minimax(Systematic):
    """The schedule whose worst ratio of overhang to gauge is the smallest possible.

    Arguments:
        steps: The number of steps.
        gauge: Gives the gauge for a length: `unmask.gauge.tc`, `dtc`, `both`, `total`, or `gauge.Vector` for your own.

    Raises:
        InputError: if `gauge` is not a function of the length.

    Example:
        >>> round(Minimax(100, gauge.tc).factor(2000), 5)  # the paper's f_tc is 0.04302
        0.0229
    """

    gauge: Gauge

    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.gauge):
            raise check.InputError(
                "gauge",
                "be a function of the length, such as unmask.gauge.tc",
                found=check.type_of(self.gauge),
                remedy="For your own numbers, use unmask.gauge.Vector.",
            )

    def __repr__(self) -> str:
        return f"Minimax(steps={self.steps}, gauge={getattr(self.gauge, '__name__', self.gauge)})"

    def factor(self, length: int) -> float:
        """The smallest `c` with `r_i ≤ c g_i` that any schedule with these steps can reach."""
        steps, length = check.steps_and_length(self.steps, length)
        return _solve(steps, self.gauge, length)[0]

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _solve(steps, self.gauge, length)[1]


@final
@dataclass(frozen=True)
class Universal(Systematic):
    """One schedule for TC, DTC and `Σ I` at once: minimax for the smallest of their three minimax overhangs.

    Its overhang is at most `factor(length)` times that of each of the three minimax schedules at every rank, so each
    of their guarantees holds with that factor.

    Example:
        >>> round(Universal(32).factor(256), 2)
        2.17
    """

    def factor(self, length: int) -> float:
        """By how much each of the three guarantees is weakened."""
        steps, length = check.steps_and_length(self.steps, length)
        return _solve_universal(steps, length)[0]

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        return _solve_universal(steps, length)[1]


@lru_cache(maxsize=8)
def _solve(steps: int, measure: Gauge, length: int) -> tuple[float, NDArray[np.float64]]:
    values = gauge.positive(measure(length))
    if values.size != length - 1:
        raise check.InputError("gauge", f"return {length - 1} numbers for a length of {length}", found=f"{values.size}")
    return _kept(*solve(values, steps))


def _kept(factor: float, cut: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The solution, safe from being written to: it is handed out again."""
    cut.setflags(write=False)
    return factor, cut


@lru_cache(maxsize=8)
def _solve_universal(steps: int, length: int) -> tuple[float, NDArray[np.float64]]:
    if steps in (1, length):
        return _kept(1.0, np.full(length - 1, float(steps > 1)))
    overhangs = [Minimax(steps, measure).overhang(length) for measure in (gauge.tc, gauge.dtc, gauge.total)]
    return _kept(*solve(np.min(overhangs, axis=0), steps))


def solve(values: ArrayLike, steps: int) -> tuple[float, NDArray[np.float64]]:
    """The smallest factor `c` and the cut probabilities `b` of the minimax schedule for the gauge `values`.

    Arguments:
        values: The gauge `g_1 … g_{L−1}`, all positive.
        steps: The number of steps `K`.
    """
    values = gauge.positive(values)
    steps, length = check.steps_and_length(steps, values.size + 1)
    with np.errstate(over="ignore"):
        worst = float(((length - np.arange(1, length)) / values).max(initial=0.0))  # one step: r_i = L − i
    if not np.isfinite(worst):
        raise check.InputError(
            "values",
            f"not hold numbers as small as {values.min():g}",
            remedy="Multiply all of them by the same large number. The schedule stays the same.",
        )
    if steps in (1, length):
        return (worst if steps == 1 else 0.0), np.full(length - 1, float(steps > 1))
    cut = np.empty(length - 1)
    # The scale of c is unknown over many orders of magnitude, so its logarithm is searched, from where rounding cannot
    # hide the sign: every rank has 1 − b_i ≤ c g_i, so that c is at least (L−K) / Σ g.
    largest = values.max()
    low = np.log((length - steps) / (values / largest).sum()) - np.log(largest) - 1.0
    factor = float(np.exp(root(lambda c: descend(values, np.exp(c), steps, cut), low, np.log(worst))))
    descend(values, factor, steps, cut)
    return factor, cut
