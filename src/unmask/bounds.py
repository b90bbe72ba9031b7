"""The theorems as numbers: what a schedule guarantees before it runs.

    Theorem 1    π_tc     E KL ≤ (H_{L−K+1} − 1) / (K + H_{L−K+1} − 2) · TC  + ε_pred        2 ≤ K ≤ L
    its rate     π_tc     E KL ≤ log L / K · TC  + ε_pred                                    K ≤ L − 7
    Theorem 2    π_dtc    E KL ≤ H_{L−1} / (K − H_{L−1}) · DTC  + ε_pred                     H_{L−1} < K ≤ L
    its rate     π_dtc    E KL ≤ (log(L−1) + 1) / (K − log(L−1) − 1) · DTC  + ε_pred         log(L−1) + 1 < K ≤ L
    Lemma 5      π_dtc    the same for a part of the positions, given the rest, by TC and DTC of that part
    Li & Cai     fixed    E KL ≤ (2^⌈log₂ s_max⌉ − 1) / L · Σ I(X_i; X_−i)  + ε_pred
    below        any      E KL ≥ c · TC on some distribution, c of the order log(L/K) / K

`H_n = 1 + 1/2 + … + 1/n`. The factors of the two theorems bound the exact coefficients `f_tc(K, L)` and `f_dtc(K, L)`
of `unmask.size.TC` and `unmask.size.DTC`; where an exact number is wanted, use those. Arguments outside a theorem's
domain are refused: a bound that does not hold is not a large bound.

References:
    Zhao & Cai, Adaptation to intrinsic dependence in diffusion language models, 2026.
    Li & Cai, Breaking AR's sampling bottleneck: provable acceleration via diffusion language models, 2025.
    Chen, Cong & Li, Optimal inference schedules for masked diffusion models, 2025 (the lower bound).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask.information.curve import Curve
from unmask.size.dependence import DTC, TC
from unmask.size.recursion import dtc_scheme


def harmonic(n: int) -> float:
    """`H_n = Σ_{i≤n} 1/i`, with `H_0 = 0`.

    Example:
        >>> harmonic(3)
        1.8333333333333333
    """
    n = check.integer("n", n, least=0)
    if n < 128:
        return float(np.sum(1.0 / np.arange(1, n + 1)))
    # Euler and Maclaurin; what is left out, below 1/(252 n^6), is less than rounding from here on.
    return math.log(n) + np.euler_gamma + 1 / (2 * n) - 1 / (12 * n**2) + 1 / (120 * n**4)


def tc_factor(length: int, steps: int) -> float:
    """Lemma 4: `f_tc(K, L) ≤ (H_{L−K+1} − 1) / (K + H_{L−K+1} − 2)` for `2 ≤ K ≤ L`.

    Example:
        >>> round(tc_factor(2000, 500), 6)
        0.013622
    """
    steps, length = check.steps_and_length(steps, length)
    if steps < 2:
        raise check.InputError(
            "", "Theorem 1 needs at least 2 steps", remedy="With 1 step the expected KL is TC itself."
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
            remedy="Use more steps, or the exact coefficient unmask.size.DTC(steps).coefficient(length).",
        )
    return h / (steps - h)


def tc_rate(length: int, steps: int) -> float:
    """`log L / K`, the paper's simplified factor of TC, which bounds that of Theorem 1 for `K ≤ L − 7`.

    Example:
        >>> round(tc_rate(2000, 500), 6)
        0.015202
    """
    steps, length = check.steps_and_length(steps, length)
    if steps > length - 7:
        raise check.InputError(
            "",
            f"The rate log L / K holds for at most L - 7 = {length - 7} steps at length {length}, not for {steps}",
            remedy="Use the factor of Theorem 1, unmask.bounds.tc_factor.",
        )
    return math.log(length) / steps


def dtc_rate(length: int, steps: int) -> float:
    """`(log(L−1) + 1) / (K − log(L−1) − 1)`, which bounds the factor of Theorem 2 for `log(L−1) + 1 < K ≤ L`.

    Example:
        >>> round(dtc_rate(2000, 500), 6)
        0.017502
    """
    length = check.integer("length", length, least=2, most=check.EXACT)
    steps, length = check.steps_and_length(steps, length)
    h = math.log(length - 1) + 1
    if steps <= h:
        raise check.InputError(
            "",
            f"The rate holds for more than log(L-1) + 1 = {h:.4g} steps at length {length}, not for {steps}",
            remedy="Use more steps, or the exact coefficient unmask.size.DTC(steps).coefficient(length).",
        )
    return h / (steps - h)


def dtc_coefficient_bound(length: int, steps: int, masked: int | None = None) -> float:
    """Lemma 6: `f_dtc(K, L') ≤ m / (L − m)`, `m = min{L'−K, (L/K)(H_{L−1} − H_{L−L'})}`, `2 ≤ K ≤ L' ≤ L`.

    Arguments:
        length: `L`, the whole length.
        steps: `K`.
        masked: `L'`, the number of masked tokens; all of them by default.
    """
    length = check.integer("length", length, least=1, most=check.EXACT)
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


def lemma_5(length: int, steps: int, masked: int, tc: float, dtc: float) -> float:
    """Bound on the expected KL of `π_dtc(K, I)` on a part `I` of the positions, given the tokens at the others.

        E KL ≤ f_dtc(K, L') · [ (L−L')/L' · TC + L/L' · DTC ],        L' = |I|

    with TC and DTC those of the tokens in `I` given the rest, and the exact coefficient. In terms of the drops of that
    conditional law the bracket is `Σ_i d_i (L − L' + i)`: each rank counts from the beginning of the whole sequence.

    Arguments:
        length: `L`, the whole length.
        steps: `K`.
        masked: `L'`, the number of masked tokens.
        tc: Their total correlation given the revealed ones, in nats.
        dtc: Their dual total correlation given the revealed ones.

    Returns:
        The bound in nats.

    Example:
        >>> lemma_5(10, 2, 10, 1.0, 1.0) == DTC(2).coefficient(10)  # all of the positions: Theorem 2 without TC
        True
    """
    length = check.integer("length", length, least=1, most=check.LONGEST)
    masked = check.integer("masked", masked, least=1, most=length)
    steps, masked = check.steps_and_length(steps, masked)
    tc, dtc = check.real("tc", tc, least=0.0), check.real("dtc", dtc, least=0.0)
    coefficient = DTC(steps).coefficient(length) if masked == length else dtc_scheme(masked, length).coefficient(steps)
    return coefficient * ((length - masked) / masked * tc + length / masked * dtc)


def hard_curve(length: int, rest: int) -> Curve:
    """A loss curve on which no schedule can be good, `ℓ = 1/M − 1/R` while `R > M` tokens are masked, then 0.

    Its drops `1/(R(R−1))` are rational, so that a tuple of independent MDS codes has them, up to a common factor. Its
    measures are `TC = H_L − H_M` and `DTC = L/M − 1 − TC`, and every schedule of `K ≥ 2` steps errs by at least

        E KL ≥ TC − (K−1) (1 − (M/L)^{1/(K−1)}).

    (With `R_k` tokens masked before step `k`, its `K−1` steps down to `M` cost `(L−M)/M − Σ_k (1 − R_{k+1}/R_k)`; the
    entropy is `(L−M)/M − TC`, and the rest is the inequality of the means. `docs/theory.md` has the proof.)

    Arguments:
        length: `L`.
        rest: `M`, from 1 to `L − 1`: how many tokens are determined by the others.
    """
    length = check.integer("length", length, least=2, most=check.EXACT)
    rest = check.integer("rest", rest, least=1, most=length - 1)
    left = length - np.arange(length)
    return Curve(np.maximum(1 / rest - 1 / left, 0.0))


def lower_factor(length: int, steps: int) -> float:
    """What no schedule can promise: for some distribution `E KL ≥ c · TC`, and there `TC ≤ DTC`, whatever the sizes.

    The best that the bound of `hard_curve` gives over its parameter `M`. It is at least `log(L/3K) / (6K)` for
    `log L ≤ K ≤ L/12`, so that an error `ε` takes of the order `(min(TC, DTC)/ε) log L` steps: the lower bound of Chen,
    Cong & Li for fixed sizes that the paper quotes, with a number in place of an Ω. It holds for random sizes too. The
    best factor that any schedule can promise is `unmask.size.Minimax(steps, gauge.tc).factor(length)`.

    Example:
        >>> from unmask import gauge, size
        >>> round(lower_factor(2000, 50), 4), round(size.Minimax(50, gauge.tc).factor(2000), 4)
        (0.0438, 0.0536)
    """
    steps, length = check.steps_and_length(steps, length)
    if steps in (1, length):
        return float(steps < length)  # one step costs TC itself
    rest = np.arange(1, length)
    harmonics = np.cumsum(1 / np.arange(1.0, length + 1))
    tc = harmonics[-1] - harmonics[:-1]
    spared = -(steps - 1) * np.expm1(np.log(rest / length) / (steps - 1))
    counts = length / rest - 1 >= 2 * tc  # DTC ≥ TC
    return float(np.max(1 - spared[counts] / tc[counts], initial=0.0))


def li_cai(length: int, largest: int, information_sum: float, prediction_error: float = 0.0) -> float:
    """Li & Cai's bound for any fixed sizes of at most `largest`, in terms of `Σ I(X_i; X_−i)`.

    No rank has more than `largest − 1` tokens after it in its batch, so the factor `(largest − 1)/L` holds too; theirs
    rounds the size up to a power of two.
    """
    length = check.integer("length", length, least=1, most=check.EXACT)
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
    length = check.integer("length", length, least=1, most=check.EXACT)
    if (length - 1) * check.real("dtc", dtc, least=0.0) <= check.real("target", target, least=0.0):
        return 1
    first = int(np.floor(harmonic(length - 1))) + 1
    return _fewest(length, first, lambda steps: theorem_2(length, steps, dtc), target)


def complexity_tc(length: int, tc: float, target: float) -> float:
    """The paper's simplified iteration complexity of `π_tc`: `(TC/ε) log L` steps suffice for an error of `ε`.

    It comes from the rate `TC log L / K`, which holds for `K ≤ L − 7`. Where the formula gives more than that, the
    answer is `L`: as many steps as tokens make no error.

    Example:
        >>> round(complexity_tc(2000, 5.0, 0.1), 1), complexity_tc(128, 80.0, 0.1)
        (380.0, 128.0)
    """
    length = check.integer("length", length, least=1, most=check.EXACT)
    tc, target = check.real("tc", tc, least=0.0), check.real("target", target, above=0.0)
    steps = tc / target * math.log(length)
    return steps if steps <= length - 7 else float(length)


def complexity_dtc(length: int, dtc: float, target: float) -> float:
    """The paper's simplified iteration complexity of `π_dtc`: `(DTC/ε + 1)(log(L−1) + 1)`, and never more than `L`.

    Example:
        >>> round(complexity_dtc(2000, 1.0, 0.1), 1), complexity_dtc(128, 80.0, 0.1)
        (94.6, 128.0)
    """
    length = check.integer("length", length, least=2, most=check.EXACT)
    dtc, target = check.real("dtc", dtc, least=0.0), check.real("target", target, above=0.0)
    return min((dtc / target + 1) * (math.log(length - 1) + 1), float(length))


@final
@dataclass(frozen=True)
class Recommendation:
    """Which of the paper's schemes promises the smaller error, and what each promises (exact coefficients).

    Attributes:
        size: The scheme.
        tc_error: `f_tc · TC`.
        dtc_error: `f_dtc · DTC`.
    """

    size: TC | DTC
    tc_error: float
    dtc_error: float


def choose(length: int, steps: int, tc: float, dtc: float) -> Recommendation:
    """The paper's guideline with exact coefficients: `π_tc` if `f_tc · TC ≤ f_dtc · DTC`, else `π_dtc`."""
    steps, length = check.steps_and_length(steps, length)
    tc_error = TC(steps).coefficient(length) * check.real("tc", tc, least=0.0)
    dtc_error = DTC(steps).coefficient(length) * check.real("dtc", dtc, least=0.0)
    return Recommendation(TC(steps) if tc_error <= dtc_error else DTC(steps), tc_error, dtc_error)


def _fewest(length: int, first: int, bound: Callable[[int], float], target: float) -> int:
    target = check.real("target", target, least=0.0)
    low, high = first - 1, check.integer("length", length, least=1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= target else (middle, high)
    return high
