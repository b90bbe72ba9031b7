"""Every public order and every public size, ready for sequences of four tokens, and a random table of such."""

import numpy as np

from families import FAMILIES
from unmask import order, size
from unmask.distribution import Table
from unmask.information.curve import Curve

ORDERS = [
    order.Random(), order.Spread(), order.SpreadGrid(2, 2), order.Comb(), order.Comb(2), order.Periodic([0, 2, 1]),
    order.LeftToRight(),
    order.Dilated(), order.Confidence(), order.Margin(), order.Entropy(),
]  # fmt: skip
# Those that came later, each with one size of every kind: all of them with all sizes take many minutes.
LATER = [
    order.CombGrid(2, 2), order.Sets([[2], [0, 3, 1]]), order.Nearby(), order.Halton(), order.Halton(rolled=True),
    order.Calibrated([0.7, 0.3], 0.5), order.Calibrated([0.7, 0.3], 0.0, 0.3), order.EndLater([1], 0.2),
    order.Spaced(order.Confidence(), 2), order.Spaced(order.Random(), 3),
    order.Spaced(order.Entropy(), 3, fading=True),
]  # fmt: skip
BLOCKED = [
    order.Blocks(order.Random(), 2), order.Blocks(order.Comb(), 3), order.Blocks(order.Entropy(), 2),
    order.Blocks(order.Spaced(order.Margin(), 2), 3),
]  # fmt: skip
# Their blocks are as long as predictions say, which fixed sizes cannot know.
DELIMITED = [order.Delimited(order.Confidence(), 2, [1], 0.4, 0.75), order.Delimited(order.Comb(), 3, [0], 0.5, 1.0)]
CURVE = Curve([1.0, 0.8, 0.3, 0.1])
ONE_LENGTH = [
    size.Explicit([1, 3]), size.Optimal(2, CURVE), size.SquareRoot(2, CURVE),
    size.OptimalTable(2, np.tile([[0.9], [0.5], [0.3], [0.1]], (1, 4))),
]  # fmt: skip
REACTIVE = [
    size.Threshold(0.7), size.Factor(0.9), size.EntropyBound(0.5), size.AtLeast(size.Threshold(0.95), 2),
    size.AtMost(size.EntropyBound(2.0), 3), size.Stable(0.55, 0.05, 1), size.AtMost(size.Stable(0.5, 0.2, 1), 2),
]  # fmt: skip
SIZES = [family(3 if family is size.LogLinear else 2) for family in FAMILIES] + ONE_LENGTH + REACTIVE
# Sizes for one length only do not go with blocks of another.
PAIRS = [(o, s) for o in ORDERS for s in SIZES] + [(o, s) for o in BLOCKED for s in SIZES if s not in ONE_LENGTH]
PAIRS += [(o, s) for o in DELIMITED for s in REACTIVE]
FEW = [size.Even(2), size.LogLinear(3), size.Explicit([1, 3]), size.Threshold(0.7), size.Stable(0.55, 0.05, 1)]
PAIRS += [(o, s) for o in LATER for s in FEW]


def label(thing):
    """A short name for a parametrised test."""
    inner = [label(part) for part in (getattr(thing, "order", None), getattr(thing, "size", None)) if part is not None]
    gauge = getattr(getattr(thing, "gauge", None), "__name__", "")
    return "-".join([type(thing).__name__, gauge, *inner]).replace("--", "-").rstrip("-")


def random_table(seed, length=4, vocab=2, concentration=0.5):
    """Every sequence possible, none negligible."""
    weights = np.random.default_rng(seed).dirichlet(np.full(vocab**length, concentration)) + 0.004
    return Table((weights / weights.sum()).reshape((vocab,) * length))
