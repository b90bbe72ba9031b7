"""The error a size schedule makes on a known curve: exact, estimated, and how many steps a target needs.

With positions uniformly random, the sampler that reveals batches `s_1 … s_K` has, exactly,

    E[−log p_{Y^S}(X)]  = Σ_k s_k ℓ(N_{k−1})                                    negative log-likelihood
    E KL(p ‖ p_{Y^S})   = Σ_k s_k ℓ(N_{k−1}) − H(X) = Σ_i d_i r_i               expected KL

where `ℓ` is the loss curve, `d` its drops and `r` the schedule's overhang. The expectation is over the sets `S`,
*outside* the divergence: this is what the paper bounds. The divergence of the mixture law, `KL(p ‖ E_S p_{Y^S})`, is
another quantity, no larger; for small distributions `unmask.evaluate.enumeration` computes both by enumeration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask.gauge import guarantee, positive
from unmask.information.curve import Curve
from unmask.size.base import Blind, Randomness

if TYPE_CHECKING:
    from unmask.distribution.base import Distribution

_SIZES_AT_ONCE = 1 << 23
# Where a schedule that may have more steps than tokens is given up: by then log-linear sizes lose in all less than a
# hundredth of what one token can know of the others.
_MOST_PER_TOKEN, _MOST_STEPS = 64, 1 << 17


@final
@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo mean with its standard error.

    Attributes:
        mean: The mean of the draws.
        standard_error: Their standard deviation (about their own mean) over the root of their number; NaN for one draw.
        draws: How many there are.

    Example:
        >>> Estimate.of([1.0, 2.0, 4.0, 5.0])  # squares about the mean: 10 in all
        Estimate(mean=3.0, standard_error=0.9128709291752769, draws=4)
    """

    mean: float
    standard_error: float
    draws: int

    @classmethod
    def of(cls, given: ArrayLike) -> "Estimate":
        """The mean of independent values, and its error."""
        values = check.numbers("given", given).ravel()
        if values.size < 2:  # one value has no spread, none has no mean
            return cls(float(values[0]) if values.size else np.nan, np.nan, values.size)
        if np.any(np.isinf(values)):  # something possible was excluded: no average helps
            return cls(float(values.mean()), np.inf, values.size)
        if np.ptp(values) == 0.0:  # fixed sizes: no spread, where rounding would report some
            return cls(float(values[0]), 0.0, values.size)
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), values.size)

    @classmethod
    def ratio(cls, given: ArrayLike, amounts: ArrayLike) -> "Estimate":
        """What one unit costs: a ratio of two means over the same independent draws, and its error.

        Arguments:
            given: What each draw costs.
            amounts: How many units it has.

        Example:
            >>> Estimate.ratio([2.0, 4.0, 9.0], [1, 2, 4]).mean, Estimate.ratio([2.0, 4.0], [1, 2]).standard_error
            (2.142857142857143, 0.0)
        """
        values, units = check.numbers("given", given).ravel(), check.numbers("amounts", amounts).ravel()
        if values.size != units.size or not np.all(units >= 0) or not units.sum() > 0:
            raise check.InputError(
                "amounts", "hold one number for each value of {given}, none negative and not all zero"
            )
        if values.size < 2:
            raise check.InputError("given", "have at least two draws", found=f"{values.size}")
        each = float(values.sum() / units.sum())
        spread = Estimate.of(values - each * units if np.isfinite(each) else values).standard_error
        return cls(each, spread / float(units.mean()), values.size)


Known: TypeAlias = "Curve | Distribution"  # a distribution stands for its curve


def expected_kl(size: Blind, data: Known) -> float:
    """Exact `E_S KL(p ‖ p_{Y^S}) = Σ_i d_i r_i`, in nats.

    Arguments:
        size: Sizes that do not look at predictions.
        data: The loss curve, or a distribution, which has one.

    Example:
        >>> from unmask import size
        >>> from unmask.distribution import ReedSolomon
        >>> round(expected_kl(size.TC(50), ReedSolomon(2000, 1995, 2048).curve()), 3)
        3.677
    """
    require_blind(size)
    curve = curve_of(data)
    return float(curve.drops @ size.overhang(curve.length))


def require_blind(size: object) -> None:
    """Refuse what is not a size that is drawn beforehand."""
    if not isinstance(size, Blind):
        raise check.InputError("size", "be a blind size", found=check.type_of(size), remedy=check.BLIND_SIZE)


def _require_family(family: object) -> None:
    check.function("family", family, "be a function from a number of steps to a size, such as size.TC")


def curve_of(data: object) -> Curve:
    """The loss curve of what is known of the data, a `Curve` or a `Distribution`."""
    if isinstance(data, Curve):
        return data
    # Here, because the distributions take long to import, and whoever has one has done it.
    from unmask.distribution.base import Distribution

    if isinstance(data, Distribution):
        return data.curve()
    raise check.InputError("data", "be a Curve or a distribution", found=check.type_of(data))


def expected_nll(size: Blind, data: Known) -> float:
    """Exact negative log-likelihood `H(X) + E KL` of the sampler, in nats per sequence."""
    curve = curve_of(data)
    return curve.entropy + expected_kl(size, curve)


def sampled_kl(
    size: Blind,
    curves: Sequence[Curve],
    draws: int,
    *,
    rng: Randomness,
    progress: Callable[[int], object] = lambda done: None,
) -> list[Estimate]:
    """Monte-Carlo estimates of the expected KL on several curves of one length, from the same draws of the sizes.

    Arguments:
        size: The schedule.
        curves: Curves of the same length.
        draws: Number of independent size sequences, at least 2.
        rng: A numpy generator, or a seed.
        progress: Called with the number of draws finished since the last call.
    """
    require_blind(size)
    generator = check.generator("rng", rng)
    draws = check.integer("draws", draws, least=2)
    check.function("progress", progress)
    if not check.listed("curves", curves, "be a list of curves"):
        raise check.InputError("curves", "hold at least one curve")
    for curve in curves:
        check.instance("curves", curve, Curve, "hold curves")
    check.room("draws", draws, len(curves))
    length = curves[0].length
    if any(curve.length != length for curve in curves):
        raise check.InputError("curves", "hold curves of the same length")
    values = np.empty((len(curves), draws))
    rows = max(1, _SIZES_AT_ONCE // size.steps)
    for start in range(0, draws, rows):
        sizes = size.draw(length, rng=generator, count=min(rows, draws - start))
        stop = start + sizes.shape[0]
        for index, curve in enumerate(curves):
            values[index, start:stop] = conditional_kl(sizes, curve)
        progress(stop - start)
    return [Estimate.of(row) for row in values]


def conditional_kl(sizes: ArrayLike, curve: Curve) -> NDArray[np.float64]:
    """The divergence given the sizes, `Σ_i d_i (N_{k(i)} − i)`, for each row of `sizes`, shape `(count, steps)`.

    Example:
        >>> conditional_kl([[2, 2], [3, 1]], Curve([1.0, 1.0, 1.0, 0.0]))  # a code of three free tokens
        array([1., 0.])
    """
    check.instance("curve", curve, Curve, "be a Curve")
    given = check.array("sizes", sizes)
    if given.dtype.kind not in "iu" or given.ndim > 2:
        found = f"an array of {given.dtype} with shape {given.shape}"
        raise check.InputError("sizes", "be rows of integers", found=found)
    rows = np.atleast_2d(given.astype(np.int64, copy=False))
    if rows.min(initial=0) < 0:
        raise check.InputError("sizes", "hold no negative numbers")
    if np.any(rows.sum(axis=1) != curve.length):
        raise check.InputError("sizes", f"sum to the length {curve.length} of the curve in every row")
    ranks = np.nonzero(curve.drops)[0]
    return _conditional_kl(rows, ranks + 1, curve.drops[ranks])


@compiled
def _conditional_kl(
    sizes: NDArray[np.int64], ranks: NDArray[np.int64], drops: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Only positive terms are added, so that a schedule which makes no error gets exactly zero."""
    result = np.zeros(sizes.shape[0])
    for row in range(sizes.shape[0]):
        end, index = 0, 0
        for step in range(sizes.shape[1]):
            end += sizes[row, step]
            while index < ranks.size and ranks[index] <= end:
                result[row] += drops[index] * (end - ranks[index])
                index += 1
    return result


def tradeoff(family: Callable[[int], Blind], data: Known, steps: ArrayLike) -> NDArray[np.float64]:
    """Exact expected KL of a family at each number of steps: the curve "error against steps".

    Example:
        >>> from unmask import size
        >>> tradeoff(size.Even, Curve([1.0, 0.5, 0.25, 0.125]), [1, 2, 4])
        array([2.125, 0.625, 0.   ])
    """
    _require_family(family)
    counts = [check.integer("steps", count) for count in np.atleast_1d(check.array("steps", steps))]
    curve = curve_of(data)
    return np.array([expected_kl(family(count), curve) for count in counts])


def fewest_steps(family: Callable[[int], Blind], data: Known, target: float) -> int:
    """The smallest number of steps whose exact expected KL is at most `target`.

    Fixed sizes may meet a target early by luck: a code is sampled without error when a cut falls on its dimension.
    `size.LogLinear` still errs with as many steps as tokens, and may need more of them (steps that reveal nothing cost
    nothing); beyond that number, where its error falls with every step, the smallest is found by bisection.

    Arguments:
        family: Makes the schedule with a given number of steps, such as `size.TC`.
        data: The loss curve of the data, or their distribution.
        target: Error in nats, at least 0. One token at a time always reaches 0, log-linear sizes never do.

    Raises:
        InputError: if no number of steps meets the target.

    Example:
        >>> from unmask import size
        >>> from unmask.distribution import ReedSolomon
        >>> fewest_steps(size.TC, ReedSolomon(2000, 1995, 2048).curve(), 0.1)
        698
    """
    _require_family(family)
    curve = curve_of(data)
    monotone = family(1).monotone_on(curve)
    return _first(family, curve.length, lambda size: expected_kl(size, curve), target, monotone=monotone)


def fewest_steps_guaranteed(family: Callable[[int], Blind], gauge: ArrayLike, dependence: float, target: float) -> int:
    """The smallest number of steps that guarantees `target` for every distribution with that dependence.

    Arguments:
        family: Makes the schedule with a given number of steps.
        gauge: The gauge of the dependence measure (`unmask.gauge`), one number per rank `1 … L−1`.
        dependence: Value of that measure in nats.
        target: Error in nats, at least 0.

    Raises:
        InputError: if no number of steps meets the target.

    Example:
        >>> from unmask import gauge, size
        >>> fewest_steps_guaranteed(size.TC, gauge.tc(2000), 38.12, 0.1)
        698
    """
    _require_family(family)
    allowed = positive(gauge)
    dependence = check.real("dependence", dependence, least=0.0)
    length = allowed.size + 1

    def error(size: Blind) -> float:
        return dependence * guarantee(size.overhang(length), allowed)

    return _first(family, length, error, target, monotone=family(1).monotone)


def _first(
    family: Callable[[int], Blind], length: int, error: Callable[[Blind], float], target: float, *, monotone: bool
) -> int:
    target = check.real("target", target, least=0.0)

    def met(steps: int) -> bool:
        return error(family(steps)) <= target

    if monotone:
        return _bisected(met, 0, length) if met(length) else _beyond(family, length, error, target)
    # Fixed sizes can lose by an extra step, so that only a scan finds the first that meets the target.
    first = next((steps for steps in range(1, length + 1) if met(steps)), None)
    return first or _beyond(family, length, error, target)


def _beyond(family: Callable[[int], Blind], length: int, error: Callable[[Blind], float], target: float) -> int:
    """The first number of steps above `length` that meets the target, where a family has such."""
    last = family(length)
    low, most = length, max(_MOST_PER_TOKEN * length, _MOST_STEPS) if last.may_exceed else length
    while low < most:
        high = min(2 * low, most)
        if error(family(high)) <= target:
            return _bisected(lambda steps: error(family(steps)) <= target, low, high)
        low = high
    raise check.InputError(
        "target",
        f"be a value that {type(last).__name__} can reach",
        found=f"{target:g}",
        detail=f"because even {low} steps still leave {error(family(low)):.3g} nats",
    )


def _bisected(met: Callable[[int], bool], low: int, high: int) -> int:
    """The first number above `low` that meets the target, where `high` does and none loses what a smaller one has."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high
