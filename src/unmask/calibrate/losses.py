"""What was measured of a model under one order, and what any sizes then cost.

For a blind order, let `ℓ(n, j)` be the mean loss of the token of rank `j` when the first `n` of the order are visible.
Sizes with cuts `0 = N_0 < … < N_K = L` cost

    Σ_k Σ_{j=N_{k−1}+1}^{N_k} ℓ(N_{k−1}, j)

and the best ones are a shortest path. There are two kinds. In the random order every masked token is as good as any
other, so that `ℓ(n, ·)` is one number, the loss curve: it is a line between the measured places, and cuts may fall
anywhere (`Curved`). In any other order nothing between measured rows is made up, and cuts fall where it was measured
(`Tabled`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from unmask import _check as check
from unmask import size
from unmask.information.curve import Curve
from unmask.order import BlindOrder, Random


@dataclass(frozen=True, eq=False)
class Losses(ABC):
    """What was measured of one order.

    Attributes:
        order: The order. visible: Numbers of visible tokens that were measured, ascending from 0. table: Shape
        `(len(visible), length)`: mean loss in nats of the token of rank `j+1` in column `j`; 0 where it is visible.
        error: Standard error over texts of the mean loss of a masked token, for each row.
    """

    order: BlindOrder
    visible: NDArray[np.int64]
    table: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def length(self) -> int:
        return self.table.shape[1]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean loss of a masked token, for each row."""
        return self.table.sum(axis=1) / (self.length - self.visible)

    @property
    @abstractmethod
    def nodes(self) -> NDArray[np.int64]:
        """Where cuts may fall, from 0 to the length."""

    @property
    @abstractmethod
    def profile(self) -> NDArray[np.float64]:
        """Mean loss of a masked token at every node but the last."""

    @property
    @abstractmethod
    def one_by_one(self) -> float | None:
        """Nats per sequence with one token per step; None where that was not measured."""

    @abstractmethod
    def paths(self, steps: int) -> size.Paths:
        """The best paths through the nodes for every number of steps up to `steps`."""

    @abstractmethod
    def forecast(self, sizes: size.Blind) -> tuple[float, float] | None:
        """Nats per sequence of a size schedule and its standard error, about; None if that was not measured."""

    def cost(self, sizes: NDArray[np.int64]) -> tuple[float, float]:
        """Nats per sequence of given sizes, all at least 1, and its standard error, about.

        The errors of the rows' means are added up. For the random order that is a bound; under other orders the tokens
        of a step may vary more or less than those of the whole row.

        Raises:
            ValueError: if a cut is at no node.
        """
        starts = np.cumsum(sizes) - sizes
        return self._nll(starts, sizes), float(np.interp(starts, self.visible, self.error) @ sizes)

    @abstractmethod
    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float: ...


def losses_of(
    order: BlindOrder, visible: NDArray[np.int64], table: NDArray[np.float64], error: NDArray[np.float64]
) -> Losses:
    """The losses of an order, of the kind that it has."""
    kind = Curved if isinstance(order, Random) else Tabled
    return kind(order, visible, table, error)


class Curved(Losses):
    """What was measured of the random order."""

    @cached_property
    def curve(self) -> Curve:
        """The loss curve: isotonic where measured, linear in between."""
        weight = 1 / np.maximum(self.error, 1e-12) ** 2
        fitted = isotonic_regression(self.mean, weights=weight / weight.max(), increasing=False).x
        return Curve(np.interp(np.arange(self.length), self.visible, fitted))

    @property
    def nodes(self) -> NDArray[np.int64]:
        return np.arange(self.length + 1)

    @property
    def profile(self) -> NDArray[np.float64]:
        return self.curve.loss

    @property
    def one_by_one(self) -> float:
        return self.curve.entropy

    def paths(self, steps: int) -> size.Paths:
        return size.best_paths(self.curve, steps)

    def forecast(self, sizes: size.Blind) -> tuple[float, float]:
        """`Σ_n v_n ℓ(n)` with the batch mass `v` of the sizes, random or not."""
        mass = sizes.batch_mass(self.length)
        error = np.interp(np.arange(self.length), self.visible, self.error)
        return float(mass @ self.curve.loss), float(mass @ error)

    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
        return float(self.curve.loss[starts] @ sizes)


class Tabled(Losses):
    """What was measured of any other order."""

    @property
    def nodes(self) -> NDArray[np.int64]:
        return np.append(self.visible, self.length)

    @property
    def profile(self) -> NDArray[np.float64]:
        return self.mean

    @property
    def one_by_one(self) -> float | None:
        return float(np.trace(self.table)) if self.visible.size == self.length else None

    def paths(self, steps: int) -> size.Paths:
        total = np.concatenate([np.zeros((self.visible.size, 1)), np.cumsum(self.table, axis=1)], axis=1)
        reach = total[:, self.nodes[1:]] - np.take_along_axis(total, self.visible[:, None], axis=1)
        return size.table_paths(reach, steps)

    def forecast(self, sizes: size.Blind) -> tuple[float, float] | None:
        """That of fixed sizes whose cuts are all at nodes."""
        if not isinstance(sizes, size.Planned):
            return None
        taken = sizes.sizes(self.length)
        taken = taken[taken > 0]
        return self.cost(taken) if np.isin(np.cumsum(taken), self.nodes).all() else None

    def _nll(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
        missing = np.setdiff1d(starts, self.visible)
        if missing.size:
            raise check.InputError(
                "",
                f"A cut at {int(missing[0])} visible tokens was not measured for this order",
                remedy=f"It was measured at {', '.join(map(str, self.visible[:12].tolist()))} …",
            )
        rows = self.table[np.searchsorted(self.visible, starts)]
        return float(sum(row[n : n + s].sum() for row, n, s in zip(rows, starts, sizes, strict=True)))
