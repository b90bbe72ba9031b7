"""Sizes that look at the predictions: how many tokens to accept from the top of the ranking.

A reactive size sees, for each sequence, the confidences or entropies of its masked positions in the order of their
ranking, and answers how many to reveal: the longest prefix that satisfies its rule, never fewer than one.

    Threshold       every confidence at least a threshold                       Fast-dLLM
    Factor          the r-th confidence at least 1 − factor/(r+1)               Fast-dLLM
    EntropyBound    Σ H − max H over the prefix at most a bound                 EB-Sampler
    Stable          sure, and no longer moving                                  KLASS
    AtLeast, AtMost bounds on another reactive size

They are made for greedy decoding. At temperature 1 they commit the predictable tokens together and distort the law;
the exact cost of that is what `unmask.evaluate.replay` measures.

What they look at are tensors of torch; to make one, to save it or to read its name needs no torch.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.size.base import Size

if TYPE_CHECKING:
    from torch import Tensor


class Ranked(ABC):
    """The masked positions of every sequence in ranked order, shape `(batch, longest)`; rows are padded at the end.

    Attributes:
        valid: Booleans, false on the padding.
    """

    valid: "Tensor"

    @property
    @abstractmethod
    def confidence(self) -> "Tensor":
        """Largest probability at each ranked position, 0 on the padding."""

    @property
    @abstractmethod
    def entropy(self) -> "Tensor":
        """Entropy at each ranked position in nats, 0 on the padding."""

    @property
    def movement(self) -> "Tensor":
        """How far each prediction has moved: its largest KL divergence from the one a step before, over as many steps
        as the size looks back; infinite where it was not seen so often.
        """
        return self.confidence.new_full(self.valid.shape, float("inf"))


class Reactive(Size):
    """A size that depends on the predictions of the ranked positions."""

    @property
    def looks_back(self) -> int:
        """Over how many steps it asks how far predictions have moved; 0 if it looks at this step alone."""
        return 0

    def preferred(self, ranked: Ranked) -> "Tensor | None":
        """Positions that come before all others whatever the order, as booleans of the shape of `ranked.valid`.

        `None`, the default, leaves the ranking as it is.
        """
        return None

    @abstractmethod
    def count(self, ranked: Ranked) -> "Tensor":
        """How many positions to reveal in each sequence, shape `(batch,)`; at least 1 where any is masked."""


@final
@dataclass(frozen=True)
class Threshold(Reactive):
    """All leading positions with confidence at least `threshold`, at least one.

    References:
        Wu et al., Fast-dLLM, 2025.
    """

    threshold: float = 0.9

    def __post_init__(self) -> None:
        if check.real("threshold", self.threshold, least=0.0) > 1:
            raise check.InputError("threshold", "be a probability between 0 and 1", found=f"{self.threshold:g}")

    def count(self, ranked: Ranked) -> "Tensor":
        return leading(ranked.confidence >= self.threshold, ranked.valid)


@final
@dataclass(frozen=True)
class Factor(Reactive):
    """Leading positions whose `r`-th confidence is at least `1 − factor/(r+1)`; the first always.

    References:
        Wu et al., Fast-dLLM, 2025.
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        check.real("factor", self.factor, least=0.0)

    def count(self, ranked: Ranked) -> "Tensor":
        rank = ranked.valid.cumsum(-1)  # 1, 2, … on the valid positions
        return leading(ranked.confidence >= 1 - self.factor / (rank + 1), ranked.valid)


@final
@dataclass(frozen=True)
class EntropyBound(Reactive):
    """The longest prefix with `Σ H − max H ≤ bound`: what its tokens can know of each other is at most that.

    References:
        Ben-Hamu et al., Accelerated sampling from masked diffusion models via entropy bounded unmasking, 2025.
    """

    bound: float

    def __post_init__(self) -> None:
        check.real("bound", self.bound, least=0.0)

    def count(self, ranked: Ranked) -> "Tensor":
        entropy = ranked.entropy
        largest = entropy.cummax(-1).values
        return leading(entropy.cumsum(-1) - largest <= self.bound, ranked.valid)


@dataclass(frozen=True)
class _Bounded(Reactive):
    """Another reactive size, of which it changes only how many: what that one looks at stays."""

    size: Reactive

    def __post_init__(self) -> None:
        check.instance("size", self.size, Reactive, "be a size that looks at predictions")

    @property
    def looks_back(self) -> int:
        return self.size.looks_back

    def preferred(self, ranked: Ranked) -> "Tensor | None":
        return self.size.preferred(ranked)


@final
@dataclass(frozen=True)
class AtLeast(_Bounded):
    """Another reactive size, but no fewer than `least` positions (while that many are masked)."""

    least: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("least", self.least, least=1)

    def count(self, ranked: Ranked) -> "Tensor":
        return self.size.count(ranked).clamp(min=self.least).minimum(ranked.valid.sum(-1))


@final
@dataclass(frozen=True)
class AtMost(_Bounded):
    """Another reactive size, but no more than `most` positions."""

    most: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("most", self.most, least=1)

    def count(self, ranked: Ranked) -> "Tensor":
        return self.size.count(ranked).clamp(max=self.most)


def leading(accepted: "Tensor", valid: "Tensor") -> "Tensor":
    """Length of the leading run of accepted positions, at least one where any position is valid."""
    run = (accepted & valid).cumprod(-1).sum(-1)
    return run.maximum(valid.any(-1).to(run.dtype))
