"""What was measured of a model under one order, and what any sizes then cost.

For a blind order, let `ℓ(n, j)` be the loss of the token of rank `j` when the first `n` of the order are visible. Sizes
with cuts `0 = N_0 < … < N_K = L` cost

    Σ_k Σ_{j=N_{k−1}+1}^{N_k} ℓ(N_{k−1}, j)

and the best ones are a shortest path. Texts that all have as many tokens to fill are `unmask.calibration.onelength`;
those that differ are `unmask.calibration.mixed`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from unmask import size
from unmask.calibration.groups import Deviations, Fold
from unmask.order import BlindOrder
from unmask.schedule import Schedule

# What to do about a calibration that lacks something.
AGAIN = "Measure the model again with `unmask calibrate`."


@final
class Predicted(NamedTuple):
    """What sizes are predicted to cost.

    Attributes:
        nll: Negative log-likelihood in nats per sequence.
        error: Its standard error over texts that have as many tokens to fill on average: that of nats per token, times
            this average. If all texts are equally long, that is the usual one.
        exact: True if that is the spread of this very cost over texts. False if it was put together from the errors of
            single rows, for want of anything better: about so much.
    """

    nll: float
    error: float
    exact: bool


@dataclass(frozen=True, eq=False)
class Losses(ABC):
    """What was measured of one order.

    Attributes:
        order: The order.
        visible: Numbers of visible tokens that were measured, ascending from 0; of the longest text.
    """

    order: BlindOrder
    visible: NDArray[np.int64]

    @property
    @abstractmethod
    def length(self) -> int:
        """Tokens to fill, of the text that has most."""

    @property
    @abstractmethod
    def profile(self) -> NDArray[np.float64]:
        """Mean loss of a masked token at every node but the last."""

    @property
    @abstractmethod
    def nodes(self) -> NDArray[np.int64]:
        """Where cuts may fall, from 0 to the length."""

    @property
    @abstractmethod
    def one_by_one(self) -> float | None:
        """Nats per sequence with one token per step; None where that was not measured."""

    @property
    def most(self) -> int:
        """The largest number of steps."""
        return self.nodes.size - 1

    @property
    @abstractmethod
    def costs(self) -> NDArray[np.float64]:
        """Nats per sequence of the best sizes with 1, 2, … steps."""

    @abstractmethod
    def best(self, steps: int) -> size.Planned:
        """The best sizes with so many steps, for texts with any number of tokens to fill."""

    def schedule(self, steps: int) -> Schedule:
        """The best sizes with so many steps, and the order, as a schedule for texts with any number of tokens."""
        return Schedule(self.best(steps), self.order)

    @abstractmethod
    def forecast(self, sizes: size.Blind) -> Predicted | None:
        """What a size schedule costs; None if that was not measured."""

    @abstractmethod
    def differences(self, sizes: size.Planned) -> Deviations | None:
        """By how much texts deviate from what a size schedule costs on average; None if that was not kept."""

    @abstractmethod
    def grouped(self, sizes: size.Planned) -> NDArray[np.float64]:
        """What a size schedule costs on each group of texts, nothing fitted; it must be known how texts differ."""

    @abstractmethod
    def evaluations(self, sizes: size.Planned) -> float:
        """Evaluations of a text, on average: some have fewer tokens to fill than there are steps."""

    @abstractmethod
    def without(self, fold: Fold) -> Self:
        """The same without some texts; it must be known how texts differ."""
