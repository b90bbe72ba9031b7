"""An order that delays the end of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from unmask import _check as check
from unmask.order.base import Predictions, ReactiveOrder, required


@final
@dataclass(frozen=True)
class EndLater(ReactiveOrder):
    """Confidence, lowered if the most likely token ends the answer: most in early steps, and less in later ones.

    At a share `t` of the way through its block a position whose most likely token ends the answer counts with

        (weight + (1 − weight) · t) · confidence.

    A model that fills up answers with end tokens is surest of those, and an order that asks for confidence alone
    reveals them first, from the last position backwards: the answer is short before it has begun. Where sizes are
    fixed beforehand, `t` is the number of the step over that of the last; otherwise the share that is revealed.
    Nothing is forbidden, and no probability changed.

    Arguments:
        tokens: Ids of the tokens that end an answer.
        weight: What remains of their confidence at first; 0 puts them last.

    References:
        Yang et al., Taming masked diffusion language models via consistency trajectory reinforcement learning with
            fewer decoding steps, 2025 (arXiv 2509.23924): end-of-sequence early rejection.
    """

    tokens: tuple[int, ...]
    weight: float = 0.4

    def __init__(self, tokens: Sequence[int], weight: float = 0.4):
        given = check.listed("tokens", tokens, "be a list of token ids", most=check.LONGEST)
        ids = tuple(check.integer("tokens", token, least=0, most=check.EXACT) for token in given)
        if not ids:
            raise check.InputError("tokens", "hold at least one token id")
        if check.real("weight", weight, least=0.0) > 1:
            raise check.InputError("weight", "be at most 1", found=f"{weight:g}")
        object.__setattr__(self, "tokens", ids)
        object.__setattr__(self, "weight", float(weight))

    def score(self, prediction: Predictions) -> Any:
        required(prediction, "confidence", "best", "progress")
        best, confidence = prediction.best, prediction.confidence.double()
        ends = (best[:, None] == best.new_tensor(self.tokens)).any(-1)
        return confidence.where(~ends, confidence * (self.weight + (1 - self.weight) * prediction.progress))
