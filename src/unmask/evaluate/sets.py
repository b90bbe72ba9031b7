"""The best possible order, for distributions small enough to enumerate every set of revealed positions.

Sets `S_1, …, S_K` revealed one after the other cost

    Σ_k Σ_{i∈S_k} ℓ_i(S_1 ∪ … ∪ S_{k−1}),        ℓ_i(A) = H(X_i | X_A) for a perfect predictor,

which is the entropy of the law plus the total correlation inside every step, given the steps before it. With `ℓ` known
for all `2^L` sets, the best sets of given sizes are a shortest path through them: an exhaustive search, in
`Σ_k C(L, N_{k−1}) C(L − N_{k−1}, s_k)` steps instead of one for each of the `L! / Π_k s_k!` ways to cut the positions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.distribution.base import Distribution
from unmask.distribution.table import Table
from unmask.order import Sets

_LONGEST = 16
_WORK = 1 << 26  # sequences times sets, of which each is named, or sets to go through: about a minute


@final
@dataclass(frozen=True, eq=False, repr=False)
class SetLosses:
    """What each position costs after every set of others.

    Attributes:
        length: Positions.
        losses: Nats of position `i` when the positions of a set are visible, shape `(2^length, length)`; the set is the
            row's number, whose bit `j` is that of position `j`. Zero where the position is visible itself.

    Example:
        >>> from unmask.distribution import Parity
        >>> table = SetLosses.of(Parity(3))
        >>> float(table.excess([[0, 1], [2]])), round(table.excess([[0], [1, 2]]), 4)  # only the last bit is decided
        (0.0, 0.6931)
        >>> table.best([2, 1]).sizes
        (2, 1)
    """

    length: int
    losses: NDArray[np.float64]

    def __post_init__(self) -> None:
        _check_all("losses", self.losses, self.length, 1)

    @staticmethod
    def of(distribution: Distribution) -> "SetLosses":
        """The losses of a perfect predictor.

        Arguments:
            distribution: A law with at most `2^24` sequences of at most 16 tokens.

        Raises:
            InputError: if it is too large.
        """
        check.instance("distribution", distribution, Distribution, "be a distribution")
        check_short("distribution", distribution.length)
        table = distribution if isinstance(distribution, Table) else Table.of(distribution)
        cells = np.flatnonzero(table.probabilities.ravel())
        tokens = np.stack(np.unravel_index(cells, table.probabilities.shape), axis=1)
        return SetLosses.listed(tokens, table.probabilities.ravel()[cells])

    @staticmethod
    def listed(tokens: ArrayLike, probabilities: ArrayLike | None = None) -> "SetLosses":
        """The losses of a perfect predictor of a law whose sequences can be listed.

        Arguments:
            tokens: All sequences that are possible, each once, shape `(count, length)`.
            probabilities: The probability of each; equal by default.

        Raises:
            InputError: if there are more than 16 positions, or too many sequences.
        """
        rows = check.array("tokens", tokens)
        if rows.ndim != 2 or rows.dtype.kind not in "iu" or rows.size == 0 or rows.min() < 0:
            raise check.InputError("tokens", "hold token ids of shape (count, length), with at least one text")
        count, length = rows.shape
        check_short("tokens", length)
        if count << length > _WORK:
            raise check.InputError("tokens", f"hold at most {_WORK >> length} sequences", found=f"{count}")
        given = np.full(count, 1 / count) if probabilities is None else probabilities
        weights = check.probabilities("probabilities", given)
        if weights.shape != (count,):
            raise check.InputError("probabilities", f"hold {count} numbers", detail=f"but its shape is {weights.shape}")
        entropy = _entropies(rows.astype(np.int64), weights)
        sets = np.arange(entropy.size)
        # Rounding may leave a difference of entropies below zero.
        losses = np.stack([np.maximum(entropy[sets | 1 << i] - entropy, 0.0) for i in range(length)], axis=1)
        return SetLosses(length, losses)

    @property
    def entropy(self) -> float:
        """What one by one costs from left to right; for a perfect predictor the entropy, in any order."""
        return self.cost([[i] for i in range(self.length)])

    def cost(self, sets: Sets | Sequence[Sequence[int]]) -> float:
        """Nats of a sequence whose positions are revealed in these sets."""
        order = _checked(sets, self.length)
        seen, total = 0, 0.0
        for step in order.sets:
            total += float(self.losses[seen, list(step)].sum())
            seen |= sum(1 << i for i in step)
        return total

    def excess(self, sets: Sets | Sequence[Sequence[int]]) -> float:
        """How much more that is than one by one: the divergence from the law, for a perfect predictor."""
        return max(self.cost(sets) - self.entropy, 0.0)

    def best(self, sizes: Sequence[int]) -> Sets:
        """The sets of these sizes that cost least.

        Arguments:
            sizes: Positions of each step, all at least 1 and together all positions.

        Raises:
            InputError: if that is not what they are, or there is too much to search.
        """
        return _shortest(self.length, sizes, lambda seen, steps: self.losses[seen][steps].sum(axis=1))


@final
@dataclass(frozen=True, eq=False, repr=False)
class SetDependence:
    """How much every two positions tell of each other after every set of others.

    What a step `S` after the set `A` loses is its total correlation, by the chain rule a sum over pairs,

        TC(X_S | X_A) = Σ_{a<b} I(X_{i_a}; X_{i_b} | X_A, X_{i_1}, …, X_{i_{a−1}}),        S = {i_1, …, i_s},

    in whatever order its positions are named. So these numbers say what any order costs above one by one. Measured on
    texts they say it far better than losses do: the difference of two orders is small among losses, but what a good
    order costs above one by one is a sum of small numbers here, and each has an error in proportion to itself.

    Attributes:
        length: Positions.
        values: Nats that two positions tell of each other when those of a set are visible, shape `(2^length, length,
            length)`, symmetric; sets are numbered as in `SetLosses`. Zero where either position is visible itself.

    Example:
        >>> from unmask.distribution import Parity
        >>> table = SetDependence.of(SetLosses.of(Parity(3)))
        >>> table.excess([[0, 1], [2]]), round(table.excess([[0], [1, 2]]), 4)  # only the last bit is decided
        (0.0, 0.6931)
    """

    length: int
    values: NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        _check_all("values", self.values, self.length, 2)

    @staticmethod
    def of(losses: SetLosses) -> "SetDependence":
        """That of known losses: `ℓ_i(A) − ℓ_i(A ∪ {j})`, and the mean of both where they differ."""
        sets, length = np.arange(1 << losses.length), losses.length
        values = np.zeros((sets.size, length, length))
        for j in range(length):
            values[:, :, j] = losses.losses - losses.losses[sets | 1 << j]
            seen = (sets >> j & 1).astype(bool)
            values[seen, j, :] = values[seen, :, j] = 0.0
            values[:, j, j] = 0.0
        return SetDependence(length, (values + values.transpose(0, 2, 1)) / 2)

    def excess(self, sets: Sets | Sequence[Sequence[int]]) -> float:
        """Nats of a sequence revealed in these sets above one by one: what their steps take to be independent."""
        order = _checked(sets, self.length)
        seen, total = 0, 0.0
        for step in order.sets:
            total += float(self._ignored(seen, np.array([step]))[0])
            seen |= sum(1 << i for i in step)
        return total

    def best(self, sizes: Sequence[int]) -> Sets:
        """The sets of these sizes that cost least; arguments and errors as for `SetLosses.best`."""
        return _shortest(self.length, sizes, self._ignored)

    def _ignored(self, seen: int, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The total correlation of each row of positions; the mean of naming them from either end."""
        total = np.zeros(len(steps))
        for places in (steps, steps[:, ::-1]):
            known = np.full(len(steps), seen)
            for a in range(places.shape[1] - 1):
                for b in range(a + 1, places.shape[1]):
                    total += self.values[known, places[:, a], places[:, b]] / 2
                known |= 1 << places[:, a]
        return total


def _checked(sets: Sets | Sequence[Sequence[int]], length: int) -> Sets:
    order = sets if isinstance(sets, Sets) else Sets(sets)
    if order.length != length:
        raise check.InputError("sets", f"have {length} positions", found=f"{order.length}")
    return order


def _shortest(length: int, sizes: Sequence[int], step: Callable[[int, NDArray[np.int64]], NDArray[np.float64]]) -> Sets:
    """The sets of these sizes that cost least, if each row of positions costs `step` after a set."""
    sizes = check_sizes(sizes, length)
    before = np.cumsum(sizes) - sizes
    work = sum(math.comb(length, n) * math.comb(length - n, s) for n, s in zip(before, sizes, strict=True))
    if work > _WORK:
        raise check.InputError("sizes", f"leave at most {_WORK:,} sets to search", found=f"{work:,}")
    cost = np.full(1 << length, np.inf)
    came = np.zeros(1 << length, dtype=np.int64)
    cost[0], starts = 0.0, [0]
    for size in sizes:
        ends: set[int] = set()
        for seen in starts:
            hidden = np.array([i for i in range(length) if not seen >> i & 1])
            steps = hidden[_choices(hidden.size, size)]
            total = cost[seen] + step(seen, steps)
            end = seen | (1 << steps).sum(axis=1)
            better = total < cost[end]
            cost[end[better]], came[end[better]] = total[better], seen
            ends.update(end.tolist())
        starts = sorted(ends)
    groups: list[list[int]] = []
    end = (1 << length) - 1
    while end:
        groups.append([i for i in range(length) if (end ^ came[end]) >> i & 1])
        end = int(came[end])
    return Sets(groups[::-1])


def check_sizes(sizes: object, length: int) -> list[int]:
    """Return the sizes of steps if they are at least 1 and sum to the length."""
    plain = sizes.tolist() if isinstance(sizes, np.ndarray) else sizes
    given = [check.integer("sizes", each, least=1) for each in check.listed("sizes", plain, "be a list of integers")]
    if sum(given) != length:
        raise check.InputError("sizes", f"sum to {length}, the number of positions", found=f"{sum(given)}")
    return given


def check_short(name: str, length: int) -> None:
    """Refuse more positions than all sets of can be gone through."""
    if length > _LONGEST:
        raise check.InputError(name, f"have at most {_LONGEST} positions", found=f"{length}")


def _check_all(name: str, values: object, length: object, axes: int) -> None:
    """Refuse what is not a finite number for every set of positions, and each position on so many further axes."""
    count = check.integer("length", length, least=1, most=_LONGEST)
    given, wanted = check.numbers(name, values), (1 << count, *(count,) * axes)
    if given.shape != wanted:
        raise check.InputError(name, f"have the shape {wanted}", found=f"{given.shape}")
    if not np.isfinite(given).all():
        raise check.InputError(name, "hold finite numbers")


def _entropies(rows: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """`H(X_A)` for every set `A`, in nats."""
    length = rows.shape[1]
    names = np.zeros((1 << length, len(rows)), dtype=np.int32)  # of what is seen: equal where the tokens are
    entropy = np.zeros(1 << length)
    for seen in range(1, 1 << length):
        last = seen.bit_length() - 1
        fewer = names[seen ^ 1 << last].astype(np.int64)
        names[seen] = np.unique(fewer * (rows.max() + 1) + rows[:, last], return_inverse=True)[1].reshape(-1)
        chance = np.bincount(names[seen], weights=weights)
        entropy[seen] = -np.sum(chance * np.log(chance))
    return entropy


@lru_cache(maxsize=32)
def _choices(count: int, size: int) -> NDArray[np.int64]:
    """All ways to take `size` of `count` things, shape `(ways, size)`."""
    return np.array(list(combinations(range(count), size)), dtype=np.int64).reshape(-1, size)
