"""Blocks whose lengths follow the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from unmask import _check as check
from unmask.order.base import BlindOrder, Order, ReactiveOrder
from unmask.order.spacing import Spaced


@final
@dataclass(frozen=True)
class Delimited(Order):
    """One stretch after the other, each up to where the model expects a delimiter, such as the end of a line.

    When a stretch is filled, the model is asked about a window ahead: the next one ends at the position whose most
    likely token is a delimiter, the surest of these, if it is at least as sure as `threshold`; otherwise after `length`
    positions. Such a step is an ordinary one, and reveals something of the new stretch.

    As nobody knows how long a stretch will be, this goes with sizes that look at predictions.

    Arguments:
        order: The order within a stretch.
        length: Positions of a stretch that no delimiter ends.
        delimiters: Token ids.
        threshold: How sure of a delimiter the model must be.
        window: How far ahead a delimiter is looked for, as a share of all positions to fill.

    References:
        Lu et al., AdaBlock-dLLM: semantic-aware diffusion LLM inference via adaptive block size, 2025 (arXiv
            2509.26432).
    """

    order: BlindOrder | ReactiveOrder | Spaced
    length: int
    delimiters: tuple[int, ...]
    threshold: float = 0.3
    window: float = 0.25

    def __init__(
        self,
        order: BlindOrder | ReactiveOrder | Spaced,
        length: int,
        delimiters: Sequence[int],
        threshold: float = 0.3,
        window: float = 0.25,
    ):
        check.instance("order", order, BlindOrder | ReactiveOrder | Spaced, "be an order without blocks")
        given = check.listed("delimiters", delimiters, "be a list of token ids", most=check.LONGEST)
        ids = tuple(check.integer("delimiters", token, least=0, most=check.EXACT) for token in given)
        if not ids:
            raise check.InputError("delimiters", "hold at least one token id")
        for name, share in (("threshold", threshold), ("window", window)):
            if check.real(name, share, least=0.0) > 1:
                raise check.InputError(name, "be at most 1", found=f"{share:g}")
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "length", check.integer("length", length, least=1, most=check.LONGEST))
        object.__setattr__(self, "delimiters", ids)
        object.__setattr__(self, "threshold", float(threshold))
        object.__setattr__(self, "window", float(window))
