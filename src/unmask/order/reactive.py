"""Orders that look at predictions, and blocks of any order."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask.order.base import BlindOrder, Order, Positions, Predictions, ReactiveOrder, ascending, required
from unmask.order.spacing import Spaced


@final
@dataclass(frozen=True)
class Confidence(ReactiveOrder):
    """Largest probability first (low-confidence remasking at temperature 0, MaskGIT)."""

    def score(self, prediction: Predictions) -> Any:
        required(prediction, "confidence")
        return prediction.confidence


@final
@dataclass(frozen=True)
class Margin(ReactiveOrder):
    """Largest gap between the two largest probabilities first."""

    def score(self, prediction: Predictions) -> Any:
        required(prediction, "margin")
        return prediction.margin


@final
@dataclass(frozen=True)
class Entropy(ReactiveOrder):
    """Smallest entropy first."""

    def score(self, prediction: Predictions) -> Any:
        required(prediction, "entropy")
        return -prediction.entropy


@final
@dataclass(frozen=True)
class Blocks(Order):
    """One stretch of `length` positions after another, each filled by `order`; the size starts again in each.

    Blocks are counted from the first masked position, so a prompt does not shift them. Those of a block-causal network
    (`unmask.predict.blocks`) are counted from the beginning of the text, wherever the prompt ends: a `start` of 0.

    Arguments:
        order: The order within a block.
        length: Positions of a block.
        start: The position from which blocks are counted; by default the first masked one.

    Example:
        >>> [block.tolist() for block in Blocks(Confidence(), 4).blocks(np.arange(3, 9))]
        [[3, 4, 5, 6], [7, 8]]
        >>> [block.tolist() for block in Blocks(Confidence(), 4, start=0).blocks(np.arange(3, 9))]
        [[3], [4, 5, 6, 7], [8]]
    """

    order: BlindOrder | ReactiveOrder | Spaced
    length: int
    start: int | None = None

    def __post_init__(self):
        check.integer("length", self.length, least=1, most=check.EXACT)
        if self.start is not None:
            check.integer("start", self.start, least=0, most=check.LONGEST)
        check.instance("order", self.order, BlindOrder | ReactiveOrder | Spaced, "be an order without blocks")

    def blocks(self, positions: Positions) -> list[Positions]:
        positions = ascending(positions)
        if positions.size == 0:
            return []
        block = (positions - (positions[0] if self.start is None else self.start)) // self.length
        return np.split(positions, np.nonzero(np.diff(block))[0] + 1)
