"""Which masked position comes first.

An order ranks the positions to be filled; a size then cuts the ranking. *Blind* orders are drawn before any model
runs:

    Random         every order equally likely: what the theory of `unmask.size` assumes
    Spread         bit reversal: tokens revealed together lie far apart
    SpreadGrid     the same on a two-dimensional grid (images)
    Comb           segments in step: the j-th token of every segment together, each beside a revealed run
    Periodic       residues in any order, all positions of a residue together: what a search can improve
    LeftToRight    autoregressive
    Dilated        halving strides, as in dilated unmasking

*Reactive* orders look at the predictions of all masked positions, never at the tokens that will be drawn from them:

    Confidence     largest probability first
    Margin         largest gap between the two best tokens first
    Entropy        smallest entropy first

`Blocks` applies any of them to one stretch of the sequence after the other (semi-autoregressive decoding).
"""

from unmask.order.base import BlindOrder, Order, Positions, Predictions, ReactiveOrder
from unmask.order.blind import Comb, Dilated, LeftToRight, Periodic, Random, Spread, SpreadGrid, bit_reversal
from unmask.order.reactive import Blocks, Confidence, Entropy, Margin

__all__ = [
    "BlindOrder",
    "Blocks",
    "Comb",
    "Confidence",
    "Dilated",
    "Entropy",
    "LeftToRight",
    "Margin",
    "Order",
    "Periodic",
    "Positions",
    "Predictions",
    "Random",
    "ReactiveOrder",
    "Spread",
    "SpreadGrid",
    "bit_reversal",
]
