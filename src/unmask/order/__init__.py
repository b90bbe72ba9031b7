"""Which masked position comes first.

An order ranks the positions to be filled; a size then cuts the ranking. *Blind* orders are drawn before any model
runs:

    Random         every order equally likely: what the theory of `unmask.size` assumes
    Spread         bit reversal: tokens revealed together lie far apart
    SpreadGrid     the same on a two-dimensional grid (images)
    CombGrid       the comb on a grid: a lattice of cells, then the cells beside them
    Comb           segments in step: the j-th token of every segment together, each beside a revealed run
    Periodic       residues in any order, all positions of a residue together: what a search can improve
    LeftToRight    autoregressive
    Dilated        halving strides, as in dilated unmasking
    Halton         a walk of low discrepancy, in one dimension or on a grid
    Nearby         near to what is known, far from each other
    Sets           the positions of each step, written down: what a search found

*Reactive* orders look at the predictions of all masked positions, never at the tokens that will be drawn from them:

    Confidence     largest probability first
    Margin         largest gap between the two best tokens first
    Entropy        smallest entropy first
    EndLater       confidence, with the end of the answer put off
    Calibrated     confidence weighed by its place and by how common its token is

`Spaced` keeps the positions that any of them chooses for one step apart. `Blocks` applies any of them to one stretch
of the sequence after the other (semi-autoregressive decoding), and `Delimited` to stretches that end where the model
expects a delimiter.
"""

from unmask.order.base import BlindOrder, Order, Positions, Predictions, ReactiveOrder
from unmask.order.blind import Comb, Dilated, LeftToRight, Periodic, Random, Spread, bit_reversal
from unmask.order.calibrated import Calibrated
from unmask.order.delimited import Delimited
from unmask.order.ending import EndLater
from unmask.order.grid import CombGrid, SpreadGrid
from unmask.order.halton import Halton
from unmask.order.reactive import Blocks, Confidence, Entropy, Margin
from unmask.order.sets import Sets
from unmask.order.spacing import Nearby, Spaced

__all__ = [
    "BlindOrder",
    "Blocks",
    "Calibrated",
    "Comb",
    "CombGrid",
    "Confidence",
    "Delimited",
    "Dilated",
    "EndLater",
    "Entropy",
    "Halton",
    "LeftToRight",
    "Margin",
    "Nearby",
    "Order",
    "Periodic",
    "Positions",
    "Predictions",
    "Random",
    "ReactiveOrder",
    "Sets",
    "Spaced",
    "Spread",
    "SpreadGrid",
    "bit_reversal",
]
