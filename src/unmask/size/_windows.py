"""The two passes of systematic sampling over all ranks: from cut probabilities to the overhang, and back.

Both carry a window of terms along in `O(L)`. At a length of ten million, rounding errors that travel with it would add
up to some thousandths, so every running sum is a pair of numbers: the sum, and what was lost when it was rounded.
"""

import numpy as np
from numpy.typing import NDArray

from unmask._compiled import compiled


@compiled
def _plus(total: float, lost: float, term: float) -> tuple[float, float]:
    """Add a term to a sum in two parts; no rounding error of the addition is lost (Knuth's two-sum)."""
    result = total + term
    taken = result - total
    return result, lost + ((total - (result - taken)) + (term - taken))


@compiled
def _minus(total: float, lost: float, part: float) -> tuple[float, float]:
    """Take away what is no larger than the sum, so that two operations tell what is lost (Dekker's fast two-sum)."""
    result = total - part
    return result, lost + ((total - result) - part)


@compiled
def window_sums(cut: NDArray[np.float64]) -> NDArray[np.float64]:
    """`Σ_m (1 − b_i − … − b_{i+m})_+` for every `i`.

    The terms that count form a window `[i, end)` whose far end only moves up. It is carried along as `mass`, the sum of
    its cut probabilities, and `lag = Σ_m (b_i + … + b_{i+m})`, by which the sum falls short of the number of terms.
    Going to the next `i` drops the first term of `lag`, `b_i`, and lowers each of the others by `b_i`. Once the window
    has moved past its old self, both are taken afresh, so that rounding errors do not travel further than a window.
    """
    result = np.zeros(cut.size)
    end, renew = 0, 0
    mass, mass_lost, lag, lag_lost = 0.0, 0.0, 0.0, 0.0
    for i in range(cut.size):
        if i >= renew:
            end, mass, mass_lost, lag, lag_lost = i, 0.0, 0.0, 0.0, 0.0
        while end < cut.size and mass + (mass_lost + cut[end]) < 1.0:
            mass, mass_lost = _plus(mass, mass_lost, cut[end])
            lag, lag_lost = _plus(lag, lag_lost, mass + mass_lost)
            end += 1
        if i >= renew:
            renew = end
        result[i] = max(((end - i) - lag) - lag_lost, 0.0)
        lag, lag_lost = _minus(lag, lag_lost, (end - i) * cut[i])
        mass, mass_lost = _minus(mass, mass_lost, cut[i])
    return result


@compiled
def descend(values: NDArray[np.float64], factor: float, steps: int, cut: NDArray[np.float64]) -> float:
    """Fill `cut` with the smallest feasible cut probabilities for this factor; return `B_1 − (K−1)`.

    The window `(i, end]` is carried along as two numbers, how many terms it has and the last of them,
    `1 − (B_{i+1} − B_end)`. With `b_i = 0` its terms would add up to `1 + r_{i+1}`; what this exceeds `c g_i` by is
    divided among them. And `r_{i+1} = min(c g_{i+1}, 1 + r_{i+2})` takes no running sum.

    A window of a single term has `b_i = 1 − c g_i`, close to 1 if there are almost as many steps as tokens. There
    `c g_i` is known to more digits than `b_i`, so the ones are counted apart.
    """
    length = values.size + 1
    end, terms, after = length, 0, 0.0
    last, last_lost = 1.0, 0.0
    ones, rest, rest_lost = 1 - steps, 0.0, 0.0  # B_1 − (K−1) in three parts
    for i in range(length - 1, 0, -1):
        terms += 1  # j = i+1 joins with B_{i+1} − B_j = 0
        allowed = factor * values[i - 1]
        excess, excess_lost = 1.0 + (after - allowed), 0.0
        # The share of each, b_i, would leave nothing of the last term: drop it.
        while terms > 1 and excess + excess_lost >= terms * (last + last_lost):
            excess, excess_lost = _minus(excess, excess_lost, last + last_lost)
            last, last_lost = _plus(last, last_lost, cut[end - 2])  # B_{end−1} = B_end + b_{end−1}
            end -= 1
            terms -= 1
        after = min(allowed, 1.0 + after)
        if terms == 1:
            short = min(allowed, 1.0)
            step = 1.0 - short
            ones += 1
            rest, rest_lost = _plus(rest, rest_lost, -short)
            last, last_lost = short, 0.0  # exact again
        else:
            step = max(0.0, (excess + excess_lost) / terms)
            rest, rest_lost = _plus(rest, rest_lost, step)
            last, last_lost = _minus(last, last_lost, step)
        cut[i - 1] = step
    return (ones + rest) + rest_lost
