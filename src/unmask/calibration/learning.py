"""An order that keeps dependent positions out of the same step.

What a perfect predictor loses by revealing sets `S_1, …, S_K` is the total correlation inside each set given those
before it, and to second order that is a sum over pairs,

    Σ_k TC(X_{S_k} | X_{S_1 ∪ … ∪ S_{k−1}})  ≈  Σ_k Σ_{i<j∈S_k} D_{N_{k−1}}(i, j),

with `D_n` the dependence when `n` positions are visible (`unmask.calibration.dependence`), interpolated between the
shares at which it was measured. Minimising it is a graph partition problem. It is searched from the orders that are
known (comb, spread, on a grid those of grids), from greedy assignments and from random ones, by exchanging two
positions as long as that helps. Where all `2^L` sets can be measured (`unmask.calibration.subsets`), pairs are not an
approximation, and the best order is found exactly instead.

A value within its error of zero is noise, and a search would collect it. So values are shrunk, `v − e²/v`, and an order
is only preferred to the best known one if its sum is smaller by two standard errors. That is a guard against noise,
no proof: what won a search looks better than it is, the errors of different pairs are added up as if these were
independent, and pairs do not tell all. `refine_order` compares orders on texts,
the known ones among them, and its answer is not worse than the best of these on them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import order
from unmask.calibration.dependence import ByDistance, Dependence, Numbers
from unmask.evaluate.sets import SetDependence, SetLosses, check_sizes

_CELLS = 1 << 25  # pairs times steps, each a number: 256 MiB
_EXCHANGES = 1 << 18  # pairs to look at for each exchange, over all starts
_LEAST = 1e-12  # what an exchange must gain, so that rounding does not go round in circles
_SURE = 2.0


def learned_order(
    dependence: Dependence | ByDistance | SetDependence | SetLosses,
    sizes: Sequence[int],
    *,
    layout: tuple[int, int] | None = None,
    starts: int = 16,
    rng: check.Rng = 0,
) -> order.Sets:
    """The order of steps of given sizes that keeps dependent positions apart.

    Arguments:
        dependence: What was measured; if that was done after every set of positions, the best order is found exactly.
        sizes: Positions of each step, all at least 1 and together all positions.
        layout: Rows and columns, if positions have such: the orders of grids are then tried too.
        starts: Greedy and random orders to begin with, beside the known ones; fewer for long sequences.
        rng: Draws these.

    Returns:
        The order; `size.Explicit(order.sizes)` goes with it.

    Raises:
        InputError: if an argument is not what it should be, or there are too many positions and steps.

    Example:
        >>> pairs = np.zeros((1, 4, 4))
        >>> pairs[0, 0, 2] = pairs[0, 2, 0] = pairs[0, 1, 3] = pairs[0, 3, 1] = 1.0  # what spread reveals together
        >>> known = Dependence((0.0,), pairs, np.zeros((1, 4, 4)), np.ones((1, 4, 4)), texts=2)
        >>> [sorted(step) in ([0, 1], [0, 3], [1, 2], [2, 3]) for step in learned_order(known, [2, 2]).sets]
        [True, True]
    """
    if isinstance(dependence, SetDependence | SetLosses):
        return dependence.best(sizes)
    return learned_orders(dependence, sizes, layout=layout, starts=starts, rng=rng)[0]


def learned_orders(
    dependence: Dependence | ByDistance,
    sizes: Sequence[int],
    *,
    layout: tuple[int, int] | None = None,
    starts: int = 16,
    rng: check.Rng = 0,
) -> list[order.Sets]:
    """The orders that a search from several starts ends at, the best first, each once; `learned_order` is the first.

    Arguments as for `learned_order`. To be measured on texts, since pairs do not tell all
    (`unmask.calibration.refinement`).
    """
    check.instance("dependence", dependence, Dependence | ByDistance, "be a measured dependence")
    sizes, source = check_sizes(sizes, dependence.length), check.generator("rng", rng)
    starts = check.integer("starts", starts, least=0, most=1 << 16)
    if dependence.length**2 * len(sizes) > _CELLS:
        most = _CELLS // dependence.length**2
        raise check.InputError("sizes", f"have at most {most} steps for this many positions", found=f"{len(sizes)}")
    problem = _Problem.of(dependence, sizes)
    known = [problem.steps(walk) for walk in _known(dependence.length, len(sizes), layout)]
    starts = min(starts, max(2, _EXCHANGES // dependence.length**2))
    begins = [*known, *(problem.greedy(source) for _ in range(starts - starts // 2))]
    begins += [problem.steps(source.permutation(dependence.length)) for _ in range(starts // 2)]
    ends = {tuple(found.tolist()): found for found in map(problem.improved, begins)}
    ranked = sorted(ends.values(), key=problem.shrunken)
    safe = min(known, key=problem.raw)
    if not problem.surely_better(ranked[0], safe):
        ranked = [safe, *(each for each in ranked if not np.array_equal(each, safe))]
    return [order.Sets([np.flatnonzero(step == k).tolist() for k in range(len(sizes))]) for step in ranked]


def ignored(dependence: Dependence | ByDistance, sets: order.Sets) -> float:
    """The sum over pairs that is minimised, in nats: what the steps of an order take to be independent, as measured.

    Arguments:
        dependence: What was measured.
        sets: An order of as many positions.
    """
    check.instance("dependence", dependence, Dependence | ByDistance, "be a measured dependence")
    check.instance("sets", sets, order.Sets, "be an order given as a list of sets")
    problem = _Problem.of(dependence, check_sizes(sets.sizes, dependence.length))
    return problem.raw(problem.steps(np.array([place for each in sets.sets for place in each])))


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """Which position to put into which step.

    Attributes:
        sizes: Positions of each step.
        values: Dependence of pairs at each share, symmetric, shape `(shares, length, length)`.
        errors: Their standard errors.
        weights: How much each share counts for each step, shape `(steps, shares)`.
        each: Shrunken dependence of pairs in each step, shape `(steps, length, length)`.
    """

    sizes: list[int]
    values: Numbers
    errors: Numbers
    weights: Numbers
    each: Numbers
    pooled: bool

    @classmethod
    def of(cls, dependence: Dependence | ByDistance, sizes: list[int]) -> "_Problem":
        values, errors = _symmetric(*dependence.table())
        length = dependence.length
        before = (np.cumsum(sizes) - sizes) / max(length - 2, 1)
        shares = np.array(dependence.shares)
        weights = np.stack([np.interp(before, shares, row) for row in np.eye(shares.size)], axis=1)
        shrunken = np.maximum(
            values - np.divide(errors**2, values, out=np.full_like(values, np.inf), where=values > 0), 0
        )
        each = np.einsum("ks,sij->kij", weights, shrunken)
        return cls(sizes, values, errors, weights, each, isinstance(dependence, ByDistance))

    def steps(self, walk: NDArray[np.int64]) -> NDArray[np.int64]:
        """The step of each position, if they come in that order."""
        step = np.empty(walk.size, dtype=np.int64)
        step[walk] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return step

    def greedy(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """One position after the other into the step in which it has least to do with what is there."""
        length, left = sum(self.sizes), np.array(self.sizes)
        step, cost = np.full(length, -1), np.zeros((length, len(self.sizes)))
        for place in rng.permutation(length):
            choice = np.where(left > 0, cost[place], np.inf)
            # Ties are broken at random: at the beginning all steps are empty.
            step[place] = k = rng.choice(np.flatnonzero(choice == choice.min()))
            left[k] -= 1
            cost[:, k] += self.each[k, :, place]
        return step

    def improved(self, step: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exchange two positions of different steps, always those that gain most, until none do."""
        step, every = step.copy(), np.arange(step.size)
        cost = np.stack([self.each[k][:, step == k].sum(axis=1) for k in range(len(self.sizes))], axis=1)
        while True:
            # What each position would cost in the step of each other one that leaves it.
            moved = cost[:, step] - self.each[step[None, :], every[:, None], every[None, :]]
            own = cost[every, step]
            gain = own[:, None] + own - moved - moved.T
            gain[step[:, None] == step] = 0.0
            best = int(gain.argmax())
            i, j = divmod(best, step.size)
            if gain[i, j] <= _LEAST:
                return step
            a, b = int(step[i]), int(step[j])
            cost[:, a] += self.each[a, :, j] - self.each[a, :, i]
            cost[:, b] += self.each[b, :, i] - self.each[b, :, j]
            step[i], step[j] = b, a

    def shrunken(self, step: NDArray[np.int64]) -> float:
        """The sum over pairs in one step that is minimised."""
        return sum(float(self.each[k][np.ix_(step == k, step == k)].sum()) / 2 for k in range(len(self.sizes)))

    def raw(self, step: NDArray[np.int64]) -> float:
        """The same of what was measured, as it is."""
        return float((self._together(step) * self.values).sum()) / 2

    def surely_better(self, step: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
        """Whether its sum is smaller by more than the noise."""
        differ = self._together(other) - self._together(step)
        gain = float((differ * self.values).sum()) / 2
        if self.pooled:  # one number for all pairs of a distance, measured once: their errors are the same
            length = differ.shape[1]
            apart = _apart(length)
            # At each share it is another number, whose error must not cancel that of the others.
            parts = [
                float(np.abs((differ[:, apart == d] * self.errors[:, apart == d]).sum(axis=1)).sum())
                for d in range(1, length)
            ]
            error = math.sqrt(sum((part / 2) ** 2 for part in parts))
        else:
            error = float(np.sqrt((differ**2 * self.errors**2).sum() / 2))
        return gain > max(_SURE * error, _LEAST)

    def _together(self, step: NDArray[np.int64]) -> Numbers:
        """How much each pair counts at each share: the weights of its step, or nothing."""
        same = (step[:, None] == step) & ~np.eye(step.size, dtype=bool)
        return self.weights[step].T[:, :, None] * same


def _apart(length: int) -> NDArray[np.int64]:
    """The distance of every two positions."""
    return np.abs(np.subtract.outer(np.arange(length), np.arange(length)))


def _symmetric(values: Numbers, errors: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """What either of two positions tells of the other; pairs that nobody measured are like all others of the share.

    Both directions of a pair are the same number in a text for a perfect predictor, and how much they have in common
    for another one is not kept. So the error is the mean of the errors of both, which that of their mean cannot exceed.
    """
    both = counts + counts.transpose(0, 2, 1)
    there = both > 0
    values, errors = values * counts, errors * counts
    mean = (values + values.transpose(0, 2, 1)) / np.maximum(both, 1)
    error = (errors + errors.transpose(0, 2, 1)) / np.maximum(both, 1)
    for share in range(len(mean)):
        if there[share].any():
            usual = mean[share][there[share]]
            mean[share][~there[share]], error[share][~there[share]] = usual.mean(), usual.std()
    same = np.eye(mean.shape[1], dtype=bool)
    mean[:, same] = error[:, same] = 0.0
    return mean, error


def _known(length: int, steps: int, layout: tuple[int, int] | None) -> list[NDArray[np.int64]]:
    """The orders that one would take without measuring anything."""
    kinds: list[order.BlindOrder] = [order.Comb(shift=0), order.Spread()]
    if layout is not None:
        given = check.listed("layout", layout, "be a number of rows and a number of columns")
        if len(given) != 2:
            raise check.InputError("layout", "be a number of rows and a number of columns", found=check.shown(layout))
        height, width = given
        kinds += [order.CombGrid(height, width, shift=0), order.SpreadGrid(height, width)]
    return [kind.arrange(np.arange(length), length=length, steps=steps, rng=0) for kind in kinds]
