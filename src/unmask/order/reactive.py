"""Orders that look at predictions, and blocks of any order."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask.order.base import BlindOrder, Order, Positions, Predictions, ReactiveOrder, ascending


@final
@dataclass(frozen=True)
class Confidence(ReactiveOrder):
    """Largest probability first (low-confidence remasking at temperature 0, MaskGIT)."""

    def score(self, prediction: Predictions) -> Any:
        return _read(prediction, "confidence")


@final
@dataclass(frozen=True)
class Margin(ReactiveOrder):
    """Largest gap between the two largest probabilities first."""

    def score(self, prediction: Predictions) -> Any:
        return _read(prediction, "margin")


@final
@dataclass(frozen=True)
class Entropy(ReactiveOrder):
    """Smallest entropy first."""

    def score(self, prediction: Predictions) -> Any:
        return -_read(prediction, "entropy")


@final
@dataclass(frozen=True)
class Blocks(Order):
    """One stretch of `length` positions after the other, each filled by `order`, with the schedule's size anew.

    Blocks are counted from the first masked position, so a prompt does not shift them.
    """

    order: BlindOrder | ReactiveOrder
    length: int

    def __post_init__(self):
        check.integer("length", self.length, least=1, most=check.EXACT)
        check.instance("order", self.order, BlindOrder | ReactiveOrder, "be an order other than Blocks")

    def blocks(self, positions: Positions) -> list[Positions]:
        positions = ascending(positions)
        if positions.size == 0:
            return []
        block = (positions - positions[0]) // self.length
        return np.split(positions, np.nonzero(np.diff(block))[0] + 1)


def _read(prediction: object, what: str) -> Any:
    if isinstance(prediction, type) or not hasattr(prediction, what):
        raise check.InputError("prediction", f"have a {what} of each position", found=check.shown(prediction))
    return getattr(prediction, what)
