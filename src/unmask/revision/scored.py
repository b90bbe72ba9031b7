"""Revisions that score tokens: old and new ranked together, drafts that stay, drafts that are verified."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.revision.base import Asking, Situation, TakeBack

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass(frozen=True)
class Likeliest(TakeBack):
    """Draws a token for every candidate first, and keeps the likeliest; the others are drawn again later.

    Low-confidence remasking of LLaDA and MaskGIT at temperatures above 0. What decides is the token just drawn, so that
    likely tokens are favoured and even the law of one token a step is distorted (`unmask.sample`).

    References:
        Nie et al., Large language diffusion models, 2025; Chang et al., MaskGIT, 2022.
    """

    @property
    def drafts(self) -> bool:
        return True

    def chances(self, view: Situation) -> "Tensor":
        return view.rank.new_zeros(view.rank.shape)


@final
@dataclass(frozen=True)
class Planner(TakeBack):
    """Draws a token for every candidate first, ranks old and new tokens together, and keeps the likeliest.

    New tokens count with the log-probability they were drawn with, and revealed ones with `weight` times that of the
    same evaluation, which sees them: a weight above 1 takes more of them back, one of 0 none.

    Arguments:
        weight: What the log-probability of revealed tokens is multiplied by.

    References:
        Peng et al., Path planning for masked diffusion model sampling, 2025 (arXiv 2502.03540): P2, self-planned.
    """

    weight: float = 1.0

    def __post_init__(self):
        check.real("weight", self.weight, least=0.0)

    @property
    def asks(self) -> Asking:
        return Asking.VISIBLE

    @property
    def needs_sizes(self) -> bool:
        return True

    @property
    def drafts(self) -> bool:
        return True

    def chances(self, view: Situation) -> "Tensor":
        assert view.seen is not None
        # 0 · −∞ would be no number: with no weight nothing is taken back, however unlikely.
        old = (self.weight * view.seen if self.weight else view.seen.new_zeros(view.seen.shape)).masked_fill(
            ~view.held, -float("inf")
        )
        both = old.maximum(view.rank)  # a position is held or a candidate, never both
        ranked = both.argsort(dim=1, descending=True, stable=True)
        place = ranked.argsort(dim=1)
        stand = view.held.sum(dim=1, keepdim=True) + view.wanted[:, None]
        return (view.held & (place >= stand)).to(both.dtype)


@final
@dataclass(frozen=True)
class Verify(TakeBack):
    """Takes back revealed tokens that are unlikely given the others: below a probability, with the token masked.

    Drafts are the size's business, `unmask.size.Threshold(0.6)` in the paper. With such a size no token is taken back
    where a step reveals one, and otherwise fewer than the step before revealed, the least likely ones: so it ends.

    Arguments:
        threshold: Tokens with a smaller probability are taken back.
        hidden: Whether each token is masked while it is scored, one evaluation for each. The published network does
            it in one pass, with a second copy of the block; without, the prediction is one that sees the token.

    References:
        Hong et al., Wide-in, narrow-out: revokable decoding for efficient and effective DLLMs, 2025 (arXiv
            2507.18578): WINO.
    """

    threshold: float = 0.9
    hidden: bool = True

    def __post_init__(self):
        if check.real("threshold", self.threshold, least=0.0) > 1:
            raise check.InputError("threshold", "be a probability between 0 and 1", found=f"{self.threshold:g}")
        check.instance("hidden", self.hidden, bool, "be True or False")

    @property
    def asks(self) -> Asking:
        return Asking.HIDDEN if self.hidden else Asking.VISIBLE

    def chances(self, view: Situation) -> "Tensor":
        assert view.seen is not None
        chance = view.seen.exp().masked_fill(~view.held, 2.0)
        place = chance.argsort(dim=1, stable=True).argsort(dim=1)
        return ((chance < self.threshold) & (place < view.most[:, None])).to(chance.dtype)
