"""What an order is."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check

Positions = NDArray[np.int64]


class Order(ABC):  # noqa: B024 - what is abstract differs between its two kinds
    """Ranks the masked positions of a sequence: a `BlindOrder`, a `ReactiveOrder`, or `Blocks` of one of these."""

    def blocks(self, positions: Positions) -> list[Positions]:
        """The stretches that are filled one after the other; a single one unless the order says otherwise."""
        return [ascending(positions)]


class BlindOrder(Order):
    """An order that is drawn without looking at predictions."""

    @property
    def fixed(self) -> bool:
        """Whether the same positions always come in the same order, whatever the source of randomness."""
        return False

    @abstractmethod
    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        """The masked `positions` (ascending) of a sequence of `length` tokens in the order of their revelation.

        Arguments:
            positions: Positions to be filled, ascending.
            length: Length of the whole sequence.
            steps: Number of steps in which they will be filled; `None` if that depends on predictions.
            rng: Source of randomness: a numpy generator, or a seed that makes one.
        """


class Predictions(Protocol):
    """What an order may read of predictions, one number for each position, as in `unmask.predict.Prediction`."""

    @property
    def confidence(self) -> Any: ...
    @property
    def margin(self) -> Any: ...
    @property
    def entropy(self) -> Any: ...


class ReactiveOrder(Order):
    """An order that looks at the predictions of all masked positions."""

    @abstractmethod
    def score(self, prediction: Predictions) -> Any:
        """One number for each predicted position; the largest is revealed first."""


def ascending(positions: object) -> Positions:
    given = check.array("positions", positions)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise check.InputError("positions", "be a list of integers", found=f"{given.dtype} of shape {given.shape}")
    given = given.astype(np.int64, copy=False)
    if (given[1:] <= given[:-1]).any():
        raise check.InputError("positions", "be in ascending order, each once")
    return given
