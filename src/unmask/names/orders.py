"""The names of orders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from unmask import order


@final
@dataclass(frozen=True)
class NamedOrder:
    """What the name of an order stands for.

    Attributes:
        kind: The class.
        sentence: What it is.
        alone: Whether the name says it all; otherwise the order is made in Python, or read from a file.
        numbered: Whether a number may follow the name after a hyphen, as in comb-16.
        settled: Arguments of the class that the name settles. Files save them, and the name without them.
    """

    kind: type[order.Order]
    sentence: str
    alone: bool = True
    numbered: bool = False
    settled: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def make(self, *given: Any) -> Any:
        """The order, from its number if one was given."""
        return self.kind(*given, **self.settled)


ORDERS: dict[str, NamedOrder] = {
    "random": NamedOrder(order.Random, "Positions in random order. The guarantees hold for this order."),
    "spread": NamedOrder(order.Spread, "At every step, the revealed positions are spread evenly over the text."),
    "spread-grid": NamedOrder(order.SpreadGrid, "Spread evenly over a grid, for images.", alone=False),
    "comb": NamedOrder(
        order.Comb, "One token in every segment, then its right neighbour in every segment.", numbered=True,
    ),
    "whole-comb": NamedOrder(
        order.Comb, "A comb that starts at the first position, so that every segment is whole.",
        True, True, {"shift": 0},
    ),
    "comb-grid": NamedOrder(
        order.CombGrid, "The comb on a grid: positions are far apart in both directions.", alone=False,
    ),
    "sets": NamedOrder(order.Sets, "The positions of each step, as you list them.", alone=False),
    "periodic": NamedOrder(
        order.Periodic, "All positions with one remainder modulo a period, then all with the next.", alone=False,
    ),
    "left-to-right": NamedOrder(order.LeftToRight, "From the first position to the last."),
    "dilated": NamedOrder(
        order.Dilated, "Strides that halve in every round, so that gaps are filled in the middle (DUS).",
    ),
    "confidence": NamedOrder(
        order.Confidence, "First the positions whose most likely token has the highest probability.",
    ),
    "margin": NamedOrder(order.Margin, "First the positions whose best token is furthest ahead of the second best."),
    "entropy": NamedOrder(order.Entropy, "First the positions whose prediction has the lowest entropy."),
    "halton": NamedOrder(order.Halton, "The Halton sequence, which spreads revealed positions evenly."),
    "calibrated": NamedOrder(
        order.Calibrated, "Confidence, weighted by position and by how common the token is (PC-Sampler).", alone=False,
    ),
    "end-later": NamedOrder(
        order.EndLater, "Confidence, with a penalty on the end token in early steps (EOSER).", alone=False,
    ),
    "nearby": NamedOrder(
        order.Nearby, "Next to known tokens, and far from the other positions of the step.", alone=False,
    ),
    "spaced": NamedOrder(
        order.Spaced, "Another order, with a minimum distance between positions of a step (DUS's filter).",
        alone=False,
    ),
    "blocks": NamedOrder(order.Blocks, "Block after block, with another order inside each block.", alone=False),
    "delimited": NamedOrder(
        order.Delimited, "Blocks that end where the model expects a delimiter (AdaBlock).", alone=False,
    ),
}  # fmt: skip
