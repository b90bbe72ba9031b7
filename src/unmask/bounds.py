"""The theorems as numbers: what is promised before anything is computed.

    Theorem 1    π_tc     E KL ≤ (H_{L−K+1} − 1) / (K + H_{L−K+1} − 2) · TC  + ε_pred        2 ≤ K ≤ L
    Theorem 2    π_dtc    E KL ≤ H_{L−1} / (K − H_{L−1}) · DTC  + ε_pred                     H_{L−1} < K ≤ L
    Li & Cai     fixed    E KL ≤ (2^⌈log₂ s_max⌉ − 1) / L · Σ I(X_i; X_−i)  + ε_pred

`H_n = 1 + 1/2 + … + 1/n`. The factors of the two theorems bound the exact coefficients `f_tc(K, L)` and `f_dtc(K, L)`
of `unmask.size.TC` and `unmask.size.DTC`; where an exact number is wanted, use those. Arguments outside a theorem's
domain are refused: a bound that does not hold is not a large bound.

References:
    Zhao & Cai, Adaptation to intrinsic dependence in diffusion language models, 2026.
    Li & Cai, Breaking AR's sampling bottleneck: provable acceleration via diffusion language models, 2025.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from unmask import _check as check
from unmask.size.dependence import DTC, TC


def harmonic(n: int) -> float:
    """`H_n = Σ_{i≤n} 1/i`, with `H_0 = 0`.

    Example:
        >>> harmonic(3)
        1.8333333333333333
    """
    n = check.integer("n", n, least=0)
    if n < 128:
        return float(np.sum(1.0 / np.arange(1, n + 1)))
    return float(digamma(float(n) + 1.0) + np.euler_gamma)


def tc_factor(length: int, steps: int) -> float:
    """Lemma 4: `f_tc(K, L) ≤ (H_{L−K+1} − 1) / (K + H_{L−K+1} − 2)` for `2 ≤ K ≤ L`.

    Example:
        >>> round(tc_factor(2000, 500), 6)
        0.013622
    """
    steps, length = check.steps_and_length(steps, length)
    if steps < 2:
        raise check.InputError(
            "", "Theorem 1 holds from 2 steps on", remedy="With 1 step the expected KL is TC itself."
        )
    h = harmonic(length - steps + 1)
    return (h - 1) / (steps + h - 2)


def dtc_factor(length: int, steps: int) -> float:
    """The factor of Theorem 2: `f_dtc(K, L) ≤ H_{L−1} / (K − H_{L−1})` for `H_{L−1} < K ≤ L`."""
    steps, length = check.steps_and_length(steps, length)
    h = harmonic(length - 1)
    if steps <= h:
        raise check.InputError(
            "",
            f"Theorem 2 holds for more than H_(L-1) = {h:.4g} steps at length {length}, not for {steps}",
            remedy="Take more steps, or the exact coefficient unmask.size.DTC(steps).coefficient(length).",
        )
    return h / (steps - h)


def dtc_coefficient_bound(length: int, steps: int, masked: int | None = None) -> float:
    """Lemma 6: `f_dtc(K, L') ≤ m / (L − m)`, `m = min{L'−K, (L/K)(H_{L−1} − H_{L−L'})}`, `2 ≤ K ≤ L' ≤ L`.

    Arguments:
        length: `L`, the whole length.
        steps: `K`.
        masked: `L'`, the number of masked tokens; all of them by default.
    """
    length = check.integer("length", length, least=1)
    masked = length if masked is None else check.integer("masked", masked, least=1, most=length)
    steps = check.integer("steps", steps, least=2, most=masked)
    m = min(masked - steps, length / steps * (harmonic(length - 1) - harmonic(length - masked)))
    return m / (length - m)


def theorem_1(length: int, steps: int, tc: float, prediction_error: float = 0.0) -> float:
    """Bound on the expected KL of `π_tc`, in nats."""
    tc = check.real("tc", tc, least=0.0)
    return tc_factor(length, steps) * tc + check.real("prediction_error", prediction_error, least=0.0)


def theorem_2(length: int, steps: int, dtc: float, prediction_error: float = 0.0) -> float:
    """Bound on the expected KL of `π_dtc`, in nats."""
    dtc = check.real("dtc", dtc, least=0.0)
    return dtc_factor(length, steps) * dtc + check.real("prediction_error", prediction_error, least=0.0)


def li_cai(length: int, largest: int, information_sum: float, prediction_error: float = 0.0) -> float:
    """Li & Cai's bound for any fixed sizes of at most `largest`, in terms of `Σ I(X_i; X_−i)`.

    No rank has more than `largest − 1` tokens after it in its batch, so the factor `(largest − 1)/L` holds too; theirs
    rounds the size up to a power of two.
    """
    length = check.integer("length", length, least=1)
    largest = check.integer("largest", largest, least=1, most=length)
    information_sum = check.real("information_sum", information_sum, least=0.0)
    factor = (2 ** (largest - 1).bit_length() - 1) / length
    return factor * information_sum + check.real("prediction_error", prediction_error, least=0.0)


def steps_for_tc(length: int, tc: float, target: float) -> int:
    """The fewest steps for which Theorem 1 promises `target` nats; at most `length`, where the error is zero.

    One step costs TC itself, so it is enough where that is within the target.
    """
    if check.real("tc", tc, least=0.0) <= check.real("target", target, least=0.0):
        return 1
    return _fewest(length, 2, lambda steps: theorem_1(length, steps, tc), target)


def steps_for_dtc(length: int, dtc: float, target: float) -> int:
    """The fewest steps for which Theorem 2 promises `target` nats; at most `length`, where the error is zero.

    One step costs TC, which is at most `(L−1) DTC`, so it is enough where that is within the target.
    """
    length = check.integer("length", length, least=1)
    if (length - 1) * check.real("dtc", dtc, least=0.0) <= check.real("target", target, least=0.0):
        return 1
    first = int(np.floor(harmonic(length - 1))) + 1
    return _fewest(length, first, lambda steps: theorem_2(length, steps, dtc), target)


def complexity_tc(length: int, tc: float, target: float) -> float:
    """The paper's simplified iteration complexity of `π_tc`: `(TC/ε) log L`."""
    tc, target = check.real("tc", tc, least=0.0), check.real("target", target, above=0.0)
    return tc / target * math.log(check.integer("length", length, least=1))


def complexity_dtc(length: int, dtc: float, target: float) -> float:
    """The paper's simplified iteration complexity of `π_dtc`: `(DTC/ε + 1)(log(L−1) + 1)`."""
    dtc, target = check.real("dtc", dtc, least=0.0), check.real("target", target, above=0.0)
    return (dtc / target + 1) * (math.log(check.integer("length", length, least=2) - 1) + 1)


@dataclass(frozen=True)
class Choice:
    """Which of the paper's schemes promises the smaller error, and what each promises (exact coefficients)."""

    size: TC | DTC
    tc_error: float
    dtc_error: float


def choose(length: int, steps: int, tc: float, dtc: float) -> Choice:
    """The paper's guideline with exact coefficients: `π_tc` if `f_tc · TC ≤ f_dtc · DTC`, else `π_dtc`."""
    steps, length = check.steps_and_length(steps, length)
    tc_error = TC(steps).coefficient(length) * check.real("tc", tc, least=0.0)
    dtc_error = DTC(steps).coefficient(length) * check.real("dtc", dtc, least=0.0)
    return Choice(TC(steps) if tc_error <= dtc_error else DTC(steps), tc_error, dtc_error)


def _fewest(length, first, bound, target) -> int:
    target = check.real("target", target, least=0.0)
    low, high = first - 1, check.integer("length", length, least=1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= target else (middle, high)
    return high
