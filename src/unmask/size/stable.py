"""A size that waits until predictions have settled."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.size.reactive import Ranked, Reactive, leading

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass(frozen=True)
class Stable(Reactive):
    """All positions whose prediction is confident and has settled; the first of the ranking if there is none.

    A position is revealed when its confidence is above `threshold`, and its prediction `p_t` has changed by

        KL(p_t ‖ p_{t−1}) < divergence

    at each of the last `history` steps. Such positions come before all others, wherever the order has them. Steps are
    those of a block: in the next one nothing has been seen yet.

    What was predicted is kept until the next step: one number for each token of the vocabulary and each position that
    is still masked, in the block.

    Arguments:
        threshold: A probability.
        divergence: In nats.
        history: How many steps a prediction must have stood still.

    References:
        Kim, Hong, Jung, Park & Yun, KLASS: KL-guided fast inference in masked diffusion models, 2025 (arXiv
            2511.05664).
    """

    threshold: float = 0.9
    divergence: float = 0.01
    history: int = 2

    def __post_init__(self) -> None:
        if check.real("threshold", self.threshold, least=0.0) > 1:
            raise check.InputError("threshold", "be a probability between 0 and 1", found=f"{self.threshold:g}")
        check.real("divergence", self.divergence, above=0.0)
        check.integer("history", self.history, least=1, most=64)

    @property
    def looks_back(self) -> int:
        return self.history

    def preferred(self, ranked: Ranked) -> "Tensor":
        return (ranked.confidence > self.threshold) & (ranked.movement < self.divergence) & ranked.valid

    def count(self, ranked: Ranked) -> "Tensor":
        return leading(self.preferred(ranked), ranked.valid)
