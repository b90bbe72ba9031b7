"""The rules of the atlas: what is measured of every kind, at every number of evaluations.

Budgets are numbers of evaluations from a 32nd of the tokens to fill to half of them. Rules with a planned number of
steps are measured at each budget. Those whose predictions decide are measured at several settings, and take the
evaluations they take.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import final

from experiments.atlas.kind import Kind, Settings

from unmask import InputError, gauge, order, size
from unmask.schedule import Schedule

BLOCK = 32  # tokens of a block, in which DUEL recommends the margin rule
SIZES = {
    "even": size.Even,
    "cosine": size.Cosine,
    "tc": size.TC,
    "dtc": size.DTC,
    "minimax": lambda steps: size.Minimax(steps, gauge.both),
}
RANKED = {"confidence": order.Confidence(), "margin": order.Margin(), "entropy": order.Entropy()}


@final
@dataclass(frozen=True)
class Rule:
    """One rule at one setting.

    Attributes:
        order: The order in words.
        size: The size in words.
        schedule: Both.
    """

    order: str
    size: str
    schedule: Schedule

    @property
    def name(self) -> str:
        return f"{self.order}/{self.size}"

    @property
    def key(self) -> str:
        """Its name and its schedule, by which results are kept: a name may come to mean another schedule.

        Example:
            >>> one, other = (Rule("advised", "4", Schedule(size.Even(steps), order.Comb())) for steps in (3, 4))
            >>> one.name == other.name, one.key == other.key
            (True, False)
        """
        return f"{self.name}|{sha256(json.dumps(self.schedule.to_json()).encode()).hexdigest()[:16]}"


def rules(kind: Kind, count: int, *, equal: bool) -> Iterator[Rule]:
    """All rules of a kind.

    Arguments:
        kind: The kind.
        count: Tokens to fill in a text, in the one that has most.
        equal: Whether all have so many.
    """
    budgets = kind.settings.budgets(count)
    for steps in budgets:
        yield from _planned(kind, count, steps)
    yield from confident(kind.settings)
    # The published rounds are for one number of tokens; where texts differ, the order is cut evenly.
    if equal:
        yield Rule("dilated", "rounds", Schedule(size.Explicit(order.Dilated.rounds(count)), order.Dilated()))
    else:
        for steps in budgets:
            yield Rule("dilated", f"even:{steps}", Schedule(size.Even(steps), order.Dilated()))
    yield from one_by_one(count)


def confident(settings: Settings) -> Iterator[Rule]:
    """Rules that reveal whatever the predictions are sure of: thresholds and entropy bounds."""
    for threshold in settings.thresholds:
        sizes = size.Threshold(threshold)
        yield Rule("confidence", f"threshold:{threshold:g}", Schedule(sizes, RANKED["confidence"]))
    for bound in settings.bounds:
        yield Rule("entropy", f"entropy-bound:{bound:g}", Schedule(size.EntropyBound(bound), RANKED["entropy"]))


def one_by_one(count: int) -> Iterator[Rule]:
    """Rules that reveal one token at a time."""
    for name, which in {"random": order.Random(), "left-to-right": order.LeftToRight(), **RANKED}.items():
        yield Rule(name, f"even:{count}", Schedule(size.Even(count), which))


def spread(kind: Kind) -> order.BlindOrder:
    """The order of a kind that spreads every beginning of it evenly."""
    return order.Spread() if kind.layout is None else order.SpreadGrid(*kind.layout)


def comb(kind: Kind, shift: int | None = None) -> order.BlindOrder:
    """The comb of a kind: on a grid the one of grids."""
    return order.Comb(shift=shift) if kind.layout is None else order.CombGrid(*kind.layout, shift=shift)


def _planned(kind: Kind, count: int, steps: int) -> Iterator[Rule]:
    for name, family in SIZES.items():
        try:
            yield Rule("random", f"{name}:{steps}", Schedule(family(steps), order.Random()))
        except InputError:  # some sizes need several steps
            continue
    orders: dict[str, order.BlindOrder | order.ReactiveOrder] = {"spread": spread(kind), "comb": comb(kind), **RANKED}
    orders["halton"] = order.Halton(*(kind.layout or ()))
    if kind.layout is not None:
        orders["comb by rows"] = order.Comb()
    for name, which in orders.items():
        yield Rule(name, f"even:{steps}", Schedule(size.Even(steps), which))
    blocks = -(-count // BLOCK)
    if blocks > 1:
        inside = max(1, round(steps / blocks))
        which = order.Blocks(order.Margin(), BLOCK)
        yield Rule(f"blocks-{BLOCK}/margin", f"even:{inside}", Schedule(size.Even(inside), which))
