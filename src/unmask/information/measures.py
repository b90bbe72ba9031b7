"""Entropies and dependence measures of an explicit joint distribution, in nats.

A joint law of `L` tokens is an array with one axis per token: `joint[x_1, …, x_L] = p(x)`. Each measure is
one pure function of that array. With `H` the entropy, `S` a set of positions and `T` the positions given,

    H(X_S | X_T)   = H(X_{S∪T}) − H(X_T)
    TC(X_S | X_T)  = Σ_{i∈S} H(X_i | X_T) − H(X_S | X_T)
    DTC(X_S | X_T) = H(X_S | X_T) − Σ_{i∈S} H(X_i | X_{(S∖i)∪T})

Total correlation is the price of drawing all of `X_S` at once from its marginals: it is the divergence of the
joint law from their product. Dual total correlation is the information that the tokens share. The two are
tied by `TC + DTC = Σ_i I(X_i; X_−i)` and each is at most `L−1` times the other.

Averaging entropies over all sets of one size gives the **information curve** `h(n)`, its differences are the
**loss curve** `ℓ(n)`, and their differences are the **drops** `d_i` (see `unmask.information.curve`):

    h(n) = mean of H(X_A) over |A| = n        ℓ(n) = h(n+1) − h(n)        d_i = ℓ(i−1) − ℓ(i)

References:
    Watanabe, "Information theoretical analysis of multivariate correlation" (1960): total correlation.
    Han, "Nonnegative entropy measures of multivariate symmetric correlations" (1978): the dual; `d_i ≥ 0`.
    Zhao and Cai, "Adaptation to Intrinsic Dependence in Diffusion Language Models" (2026): the conditional
    forms.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._scipy import entr, rel_entr

# The curve of a joint with more than this many cells, counted with their margins, takes over a minute.
_MOST_MARGINAL_CELLS = 2**31
# Margins are laid out at once up to this many cells (32 MB of doubles), then one slice at a time.
_CELLS_AT_ONCE = 2**22


def entropy(joint: ArrayLike, positions: Iterable[int] | None = None, given: Iterable[int] = ()) -> float:
    """Entropy `H(X_S)`, or `H(X_S | X_T)`.

    Arguments:
        joint: The joint probabilities, one axis per token.
        positions: The set `S`; all positions that are not given if `None`.
        given: The set `T` of positions conditioned on.

    Returns:
        The entropy in nats.

    Raises:
        InputError: if `joint` is not a distribution, or a position is repeated or does not exist.

    Example:
        Two equal fair bits.

        >>> joint = np.array([[0.5, 0.0], [0.0, 0.5]])
        >>> round(entropy(joint), 4), round(entropy(joint, [0], given=[1]), 4)
        (0.6931, 0.0)
    """
    joint, chosen, known = _sets(joint, positions, given)
    return _entropy(joint, chosen | known) - _entropy(joint, known)


def total_correlation(joint: ArrayLike, positions: Iterable[int] | None = None, given: Iterable[int] = ()) -> float:
    """Total correlation `TC(X_S | X_T) = Σ_{i∈S} H(X_i | X_T) − H(X_S | X_T)`.

    Arguments:
        joint: The joint probabilities, one axis per token.
        positions: The set `S`; all positions that are not given if `None`.
        given: The set `T` of positions conditioned on.

    Returns:
        The total correlation in nats; zero exactly when the tokens of `S` are independent given those of `T`.

    Raises:
        InputError: if `joint` is not a distribution, or a position is repeated or does not exist.

    Example:
        Three bits of even parity: pairwise independent, yet one of them is determined.

        >>> joint = np.zeros((2, 2, 2))
        >>> joint[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25
        >>> round(total_correlation(joint) / math.log(2), 12)
        1.0
        >>> round(total_correlation(joint, [0, 1]), 12), round(total_correlation(joint, [0, 1], given=[2]), 4)
        (0.0, 0.6931)
    """
    joint, chosen, known = _sets(joint, positions, given)
    base = _entropy(joint, known)
    alone = sum(_entropy(joint, {i} | known) - base for i in sorted(chosen))
    return alone - (_entropy(joint, chosen | known) - base)


def dual_total_correlation(
    joint: ArrayLike, positions: Iterable[int] | None = None, given: Iterable[int] = ()
) -> float:
    """Dual total correlation `DTC(X_S | X_T) = H(X_S | X_T) − Σ_{i∈S} H(X_i | X_{(S∖i)∪T})`.

    Arguments:
        joint: The joint probabilities, one axis per token.
        positions: The set `S`; all positions that are not given if `None`.
        given: The set `T` of positions conditioned on.

    Returns:
        The dual total correlation in nats; it equals the entropy when every token is determined by the
        others.

    Raises:
        InputError: if `joint` is not a distribution, or a position is repeated or does not exist.

    Example:
        >>> joint = np.zeros((2, 2, 2))
        >>> joint[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25
        >>> round(dual_total_correlation(joint) / math.log(2), 12)
        2.0
    """
    joint, chosen, known = _sets(joint, positions, given)
    everything = chosen | known
    whole = _entropy(joint, everything)
    # A token that is also given is determined, and contributes nothing.
    alone = sum(whole - _entropy(joint, everything - {i}) for i in sorted(chosen - known))
    return whole - _entropy(joint, known) - alone


def information_sum(joint: ArrayLike) -> float:
    """`Σ_i I(X_i; X_−i)`, which is the total correlation plus the dual one.

    Arguments:
        joint: The joint probabilities, one axis per token.

    Returns:
        The sum of the mutual informations in nats.

    Raises:
        InputError: if `joint` is not a distribution.

    Example:
        >>> joint = np.array([[0.5, 0.0], [0.0, 0.5]])
        >>> round(information_sum(joint) / math.log(2), 12)
        2.0
    """
    joint, chosen, _ = _sets(joint, None, ())
    whole = _entropy(joint, chosen)
    return sum(_entropy(joint, {i}) + _entropy(joint, chosen - {i}) - whole for i in sorted(chosen))


def information_curve(joint: ArrayLike) -> NDArray[np.float64]:
    """The information curve `h(n)`, the mean of `H(X_A)` over all sets `A` of `n` positions.

    Every margin of the joint is needed. Give each axis one more entry that holds the sum along it: the cells
    of the extended array, sorted by how many of their coordinates are not sums, are the cells of all margins
    of each size. The work is proportional to the number of these cells, `(V+1)^L`.

    Arguments:
        joint: The joint probabilities, one axis per token.

    Returns:
        The `L+1` numbers `h(0) … h(L)` in nats.

    Raises:
        InputError: if `joint` is not a distribution, or has more than `2^31` cells, including its margins.

    References:
        Han, "Nonnegative entropy measures of multivariate symmetric correlations" (1978).

    Example:
        Three bits of even parity.

        >>> joint = np.zeros((2, 2, 2))
        >>> joint[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25
        >>> np.round(information_curve(joint) / np.log(2), 12).tolist()
        [0.0, 1.0, 2.0, 2.0]
    """
    joint = _joint(joint)
    cells = math.prod(size + 1 for size in joint.shape)
    if cells > _MOST_MARGINAL_CELLS:
        raise check.InputError(
            "joint",
            "have at most 2^31 cells, including its margins",
            found=f"{cells}",
            remedy="To estimate the curve instead, use unmask.distribution.estimate_curve.",
        )
    length = joint.ndim
    sums = _entropy_by_size(joint)
    # The empty margin is the total, whose entropy is zero up to the rounding of its sum.
    sums[0] = 0.0
    return sums / np.array([math.comb(length, n) for n in range(length + 1)], dtype=np.float64)


def loss_curve(information: ArrayLike) -> NDArray[np.float64]:
    """The loss curve `ℓ(n) = h(n+1) − h(n)` of an information curve.

    Arguments:
        information: The numbers `h(0) … h(L)`.

    Returns:
        The numbers `ℓ(0) … ℓ(L−1)`.

    Raises:
        InputError: if there are fewer than two numbers.

    Example:
        >>> loss_curve([0.0, 1.0, 2.0, 2.0]).tolist()
        [1.0, 1.0, 0.0]
    """
    return np.diff(_series("information", information, least=2))


def drops(loss: ArrayLike) -> NDArray[np.float64]:
    """The drops `d_i = ℓ(i−1) − ℓ(i)` of a loss curve.

    Arguments:
        loss: The numbers `ℓ(0) … ℓ(L−1)`.

    Returns:
        The numbers `d_1 … d_{L−1}`, at index `i−1`.

    Raises:
        InputError: if there is no number.

    Example:
        >>> drops([1.0, 1.0, 0.0]).tolist()
        [0.0, 1.0]
    """
    loss = _series("loss", loss, least=1)
    return loss[:-1] - loss[1:]


def kl(p: ArrayLike, q: ArrayLike) -> float:
    """Divergence `KL(p ‖ q) = Σ p log(p/q)`.

    Arguments:
        p: Probabilities, any shape.
        q: Probabilities of the same shape.

    Returns:
        The divergence in nats; `inf` if `q` is zero somewhere `p` is not.

    Raises:
        InputError: if either is not a distribution, or the shapes differ.

    Example:
        >>> round(kl([0.5, 0.5], [0.25, 0.75]), 12), kl([0.5, 0.5], [1.0, 0.0])
        (0.143841036226, inf)
    """
    first, second = check.numbers("p", p), check.numbers("q", q)
    if first.shape != second.shape:
        raise check.InputError("q", f"have the shape of {{p}}, {first.shape}", found=f"{second.shape}")
    first = check.probabilities("p", first.ravel())
    second = check.probabilities("q", second.ravel())
    # Rounding can leave a sum of signed terms just below zero, which no divergence is.
    return max(float(rel_entr(first, second).sum()), 0.0)


def _joint(joint: ArrayLike) -> NDArray[np.float64]:
    array = check.numbers("joint", joint)
    if array.ndim == 0:
        raise check.InputError("joint", "have at least one axis, one per token")
    return check.probabilities("joint", array.ravel()).reshape(array.shape)


def _sets(
    joint: ArrayLike, positions: Iterable[int] | None, given: Iterable[int]
) -> tuple[NDArray[np.float64], set[int], set[int]]:
    array = _joint(joint)
    known = _set("given", given, array.ndim)
    chosen = set(range(array.ndim)) - known if positions is None else _set("positions", positions, array.ndim)
    return array, chosen, known


def _set(name: str, positions: object, length: int) -> set[int]:
    chosen = check.positions(name, positions, length)
    if len(set(chosen)) < len(chosen):
        raise check.InputError(name, "hold different positions", found=f"{chosen}")
    return set(chosen)


def _entropy(joint: NDArray[np.float64], positions: set[int]) -> float:
    if not positions:
        return 0.0
    others = tuple(i for i in range(joint.ndim) if i not in positions)
    return float(entr(joint.sum(axis=others)).sum())


def _entropy_by_size(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of `H(X_A)` over the sets of each size, for a joint that need not sum to one."""
    length = joint.ndim
    if length > 1 and math.prod(size + 1 for size in joint.shape) > _CELLS_AT_ONCE:
        total = np.zeros(length + 1)
        total[:-1] = _entropy_by_size(joint.sum(axis=0))
        for part in joint:
            total[1:] += _entropy_by_size(part)
        return total
    extended = joint
    size = np.zeros((1,) * length, dtype=np.int64)
    for axis in range(length):
        extended = np.concatenate([extended, extended.sum(axis=axis, keepdims=True)], axis=axis)
        kept = np.ones(joint.shape[axis] + 1, dtype=np.int64)
        kept[-1] = 0
        size = size + kept.reshape([-1 if other == axis else 1 for other in range(length)])
    by_size = np.bincount(size.ravel(), weights=entr(extended).ravel(), minlength=length + 1)
    return by_size.astype(np.float64)


def _series(name: str, values: ArrayLike, *, least: int) -> NDArray[np.float64]:
    array = check.numbers(name, values)
    if array.ndim != 1 or array.size < least:
        raise check.InputError(
            name,
            f"be a list of at least {least} number{'s' if least > 1 else ''}",
            detail=f"but its shape is {array.shape}",
        )
    if not np.all(np.isfinite(array)):
        raise check.InputError(name, "hold finite numbers")
    return array
