"""What was measured under one order on texts that all have the same number of tokens to fill.

There are two kinds. In the random order every masked token is as good as any other, so that `ℓ(n, ·)` is one number,
the loss curve: it is a line between the measured places, and cuts may fall anywhere (`Curved`). In any other order
nothing between measured rows is made up, and cuts fall where it was measured (`Tabled`).

Either cost is a sum of *columns*, numbers that each text has: the mean losses at the measured places, or the losses
between two neighbouring nodes with `n` visible. `Groups` of texts keep how they vary together, so that a cost has the
standard error of a mean over texts. A calibration of an earlier version has only the error of each row's mean; an error
is then put together from those, and is not that of the cost but about as large (`Predicted.exact`).
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask import size
from unmask.calibration.groups import Deviations, Fold, Groups
from unmask.calibration.losses import AGAIN, Losses, Predicted
from unmask.information.curve import Curve
from unmask.order import BlindOrder, Comb, Random
from unmask.schedule import Schedule
from unmask.size.stretched import nodes_at


@dataclass(frozen=True, eq=False)
class OneLength(Losses):
    """What was measured of one order, on texts of one length.

    Attributes:
        table: Shape `(len(visible), length)`: mean loss in nats of the token of rank `j+1` in column `j`; 0 where it is
            visible.
        error: Standard error over texts of the mean loss of a masked token, for each row.
        groups: How groups of texts deviate in each column; None if that was not kept.
    """

    table: NDArray[np.float64]
    error: NDArray[np.float64]
    groups: Groups | None = None

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return self.table.shape[1]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean loss of a masked token, for each row."""
        return self.table.sum(axis=1) / (self.length - self.visible)

    @property
    @abstractmethod
    def columns(self) -> NDArray[np.float64]:
        """The mean of each column."""

    @abstractmethod
    def paths(self, steps: int) -> size.Paths:
        """The best paths through the nodes for every number of steps up to `steps`."""

    @property
    def costs(self) -> NDArray[np.float64]:
        return self.paths(self.most).costs

    def differences(self, sizes: size.Planned) -> Deviations | None:
        if self.groups is None:
            return None
        return Deviations(self.groups.texts, self.spread(self._fixed(sizes)))

    def grouped(self, sizes: size.Planned) -> NDArray[np.float64]:
        if self.groups is None:
            raise _unrecorded()
        weights = self._weights(*self._cuts(self._fixed(sizes)))
        return float(weights @ self.columns) + self.groups.along(weights)

    def evaluations(self, sizes: size.Planned) -> float:
        return float(np.count_nonzero(self._fixed(sizes)))

    def without(self, fold: Fold) -> Self:
        # The others deviate to the other side: all deviations together are zero.
        inside, share = self._folded(fold)
        return self.shifted(inside * (-share / (1 - share)))

    def _fixed(self, sizes: size.Planned) -> NDArray[np.int64]:
        return check.instance("sizes", sizes, size.Planned, "be a size schedule without randomness").sizes(self.length)

    def _folded(self, fold: Fold) -> tuple[NDArray[np.float64], float]:
        """How texts of a fold deviate in each column, and which share of all they are."""
        check.instance("fold", fold, Fold, "be a Fold")
        if self.groups is None:
            raise _unrecorded()
        folds = self.groups.joined(fold.count)
        return folds.deviations[fold.number], float(folds.sizes[fold.number] / self.groups.texts)

    def cost(self, sizes: ArrayLike) -> Predicted:
        """What given sizes cost, all at least 1.

        Without groups the errors of the rows' means are added up. For the random order that is a bound; under other
        orders the tokens of a step may vary more or less than those of the whole row.

        Raises:
            InputError: if the sizes do not add up to the length, or a cut is at no node.
        """
        starts, taken = self._cuts(sizes)
        nll = self._nll(starts, taken)
        if self.groups is not None:
            return Predicted(nll, self.groups.error(self.spread(taken)), True)
        return Predicted(nll, float(np.interp(starts, self.visible, self.error) @ taken), False)

    def spread(self, sizes: ArrayLike) -> NDArray[np.float64]:
        """By how much each group of texts deviates in the cost of given sizes.

        Raises:
            InputError: if the groups were not kept, or as for `cost`.
        """
        if self.groups is None:
            raise _unrecorded()
        return self.groups.along(self._fitted(self._weights(*self._cuts(sizes))))

    def shifted(self, deviation: NDArray[np.float64]) -> Self:
        """What texts would have given that deviate by so much from these, in each column."""
        return replace(self, table=self._moved(deviation), groups=None)

    def cost_at(self, sizes: ArrayLike, deviation: NDArray[np.float64]) -> float:
        """What given sizes cost on texts that deviate by so much from these, in each column; nothing is fitted."""
        return float(self._weights(*self._cuts(sizes)) @ (self.columns + deviation))

    def _cuts(self, sizes: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each step starts, and its size."""
        taken = check.array("sizes", sizes)
        if taken.dtype.kind not in "iu" or taken.ndim != 1 or taken.size == 0 or taken.min() < 1:
            raise check.InputError("sizes", "be integers of at least 1", found=check.shown(sizes))
        taken = taken.astype(np.int64, copy=False)
        if int(taken.sum()) != self.length:
            raise check.InputError("sizes", f"sum to the length {self.length}", found=f"to {int(taken.sum())}")
        return np.cumsum(taken) - taken, taken

    @abstractmethod
    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float: ...

    @abstractmethod
    def _weights(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """How often each column counts in the cost."""

    def _fitted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same, where the columns that the cost is made of are fitted to the measured ones."""
        return weights

    @abstractmethod
    def _moved(self, deviation: NDArray[np.float64]) -> NDArray[np.float64]:
        """A table whose columns are so much larger."""


def _unrecorded() -> check.InputError:
    return check.InputError("", "This calibration does not record how texts differ", remedy=AGAIN)


def _blind(sizes: size.Blind) -> size.Blind:
    return check.instance("sizes", sizes, size.Blind, "be a blind size", check.BLIND_SIZE)


def losses_of(
    order: BlindOrder,
    visible: NDArray[np.int64],
    table: NDArray[np.float64],
    error: NDArray[np.float64],
    groups: Groups | None = None,
) -> OneLength:
    """The losses of an order, of the kind that it has."""
    return kind_of(order)(order, visible, table, error, groups)


def kind_of(order: BlindOrder) -> "type[Curved | Tabled]":
    """The kind of losses that an order has."""
    return Curved if isinstance(order, Random) else Tabled


@final
class Curved(OneLength):
    """What was measured of the random order. Its columns are the mean losses of a masked token, place by place."""

    @staticmethod
    def width(places: int) -> int:
        """Number of columns for so many measured places."""
        return places

    @cached_property
    def curve(self) -> Curve:
        """The loss curve: isotonic where measured, linear in between."""
        return Curve(np.interp(np.arange(self.length), self.visible, self._fit[0]))

    @cached_property
    def _fit(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The fitted means, and where the stretches begin and end over which they are the same."""
        optimize: Any = import_module("scipy.optimize")  # it has no types, and takes long to load
        weight = self._precision
        fit = optimize.isotonic_regression(
            self.mean, weights=np.maximum(weight / weight.max(), 1e-300), increasing=False
        )
        return fit.x, fit.blocks

    @property
    def _precision(self) -> NDArray[np.float64]:
        """The inverse of each mean's variance."""
        with np.errstate(over="ignore"):  # an error beyond all bounds has no weight
            return np.maximum(1 / np.maximum(self.error, 1e-12) ** 2, 1e-300)

    @property
    def nodes(self) -> NDArray[np.int64]:
        return np.arange(self.length + 1)

    @property
    def profile(self) -> NDArray[np.float64]:
        return self.curve.loss

    @property
    def one_by_one(self) -> float:
        return self.curve.entropy

    @property
    def columns(self) -> NDArray[np.float64]:
        return self.mean

    def paths(self, steps: int) -> size.Paths:
        return size.best_paths(self.curve, steps)

    def best(self, steps: int) -> size.Stretched:
        return size.Stretched(steps, self.curve)

    def forecast(self, sizes: size.Blind) -> Predicted:
        """`Σ_n v_n ℓ(n)` with the batch mass `v` of the sizes, random or not."""
        mass = _blind(sizes).batch_mass(self.length)
        nll = float(mass @ self.curve.loss)
        if self.groups is not None:
            return Predicted(nll, self.groups.error(self.groups.along(self._fitted(self._at_places(mass)))), True)
        error = np.interp(np.arange(self.length), self.visible, self.error)
        return Predicted(nll, float(mass @ error), False)

    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
        return float(self.curve.loss[starts] @ sizes)

    def _weights(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        mass = np.zeros(self.length)
        mass[starts] = sizes
        return self._at_places(mass)

    def _at_places(self, mass: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mass at all numbers of visible tokens, moved to the measured ones as interpolation does."""
        where = np.interp(np.arange(self.length), self.visible, np.arange(self.visible.size))
        low = np.minimum(where.astype(np.int64), max(self.visible.size - 2, 0))
        right = mass * (where - low)
        result = np.zeros(self.visible.size)
        np.add.at(result, low, mass - right)
        np.add.at(result, np.minimum(low + 1, self.visible.size - 1), right)
        return result

    def _fitted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # Places that the fit has pooled share what they weigh, each in proportion to its own weight in the fit.
        precision, result = self._precision, np.empty_like(weights)
        for start, stop in pairwise(self._fit[1].tolist()):
            share = precision[start:stop] / precision[start:stop].sum()
            result[start:stop] = weights[start:stop].sum() * share
        return result

    def _moved(self, deviation: NDArray[np.float64]) -> NDArray[np.float64]:
        # Deviations have a few digits only, and a mean of nothing but zeros must not come out below them.
        mean = np.maximum(self.mean + deviation, 0.0)
        return np.where(np.arange(self.length) >= self.visible[:, None], mean[:, None], 0.0)


@final
class Tabled(OneLength):
    """What was measured of any other order.

    Its columns are the losses between two neighbouring nodes, row by row and only what is masked there: with `n`
    visible, those of the tokens from there to the next node, from that one to the next, and so on.
    """

    @staticmethod
    def width(places: int) -> int:
        """Number of columns for so many measured places."""
        return places * (places + 1) // 2

    @staticmethod
    def sums(row: int, visible: NDArray[np.int64], losses: NDArray[Any]) -> NDArray[Any]:
        """The columns of one row, from losses by rank along the last axis."""
        return np.add.reduceat(losses, visible[row:], axis=-1)

    @property
    def nodes(self) -> NDArray[np.int64]:
        return np.append(self.visible, self.length)

    @property
    def profile(self) -> NDArray[np.float64]:
        return self.mean

    @property
    def one_by_one(self) -> float | None:
        return float(np.trace(self.table)) if self.visible.size == self.length else None

    @property
    def columns(self) -> NDArray[np.float64]:
        return np.concatenate([self.sums(row, self.visible, losses) for row, losses in enumerate(self.table)])

    def paths(self, steps: int) -> size.Paths:
        total = np.concatenate([np.zeros((self.visible.size, 1)), np.cumsum(self.table, axis=1)], axis=1)
        reach = total[:, self.nodes[1:]] - np.take_along_axis(total, self.visible[:, None], axis=1)
        return size.table_paths(reach, steps)

    def best(self, steps: int) -> size.StretchedTable:
        widths = np.diff(self.nodes)
        rates = np.add.reduceat(self.table, self.visible, axis=1) / widths
        if self._whole_teeth:
            places, segments = self.visible.size, self._segments
            return size.StretchedTable(steps, places, range(places), [self.length], rates[None], segments)
        return size.StretchedTable(steps, self.length, self.visible.tolist(), [self.length], rates[None])

    def schedule(self, steps: int) -> Schedule:
        """The best sizes with so many steps, and the order.

        With a tooth of a comb per step, texts of other lengths are given as many teeth and fewer or more segments, so
        that the tokens of a step are as far apart as in what was measured. With as many segments, a short text would
        have a single tooth.
        """
        if isinstance(self.order, Comb) and self._whole_teeth and steps == self.most:
            return Schedule(size.Even(steps), Comb(shift=self.order.shift))
        return super().schedule(steps)

    @property
    def _segments(self) -> int | None:
        return self.order.segments if isinstance(self.order, Comb) else None

    @property
    def _whole_teeth(self) -> bool:
        """Whether the places measured are where the teeth of a comb begin; of another order, every place."""
        places = self.visible.size
        return np.array_equal(nodes_at(range(places), places, self.length, self._segments), self.nodes)

    def forecast(self, sizes: size.Blind) -> Predicted | None:
        """That of fixed sizes whose cuts are all at nodes."""
        sizes = _blind(sizes)
        if not isinstance(sizes, size.Planned):
            return None
        taken = sizes.sizes(self.length)
        taken = taken[taken > 0]
        return self.cost(taken) if np.isin(np.cumsum(taken), self.nodes).all() else None

    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
        rows = self.table[self._rows(starts)]
        return float(sum(row[n : n + s].sum() for row, n, s in zip(rows, starts, sizes, strict=True)))

    def _rows(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        missing = np.setdiff1d(starts, self.visible)
        if missing.size:
            cuts = ", ".join(map(str, self.visible[:12].tolist())) + (" …" if self.visible.size > 12 else "")
            raise check.InputError(
                "",
                f"A cut at {int(missing[0])} visible tokens was not measured for this order",
                remedy=f"The measured cuts are at {cuts} visible tokens.",
            )
        return np.searchsorted(self.visible, starts)

    def _weights(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        places = self.visible.size
        rows = self._rows(starts)
        first = rows * places - rows * (rows - 1) // 2  # the rows before have one column less each
        result = np.zeros(self.width(places))
        for start, count in zip(first, np.diff(np.append(rows, places)), strict=True):
            result[start : start + count] = 1.0
        return result

    def _moved(self, deviation: NDArray[np.float64]) -> NDArray[np.float64]:
        result = self.table.copy()
        widths, done = np.diff(self.nodes), 0
        for row, start in enumerate(self.visible):
            count = self.visible.size - row
            result[row, start:] += np.repeat(deviation[done : done + count] / widths[row:], widths[row:])
            done += count
        return result
