"""Remasking diffusion (ReMDM): revealed tokens are masked again at random.

With a share `α` revealed before a step and `α'` after it, a revealed token is taken back with probability

    σ ≤ σ_max = min(1, (1 − α') / α),

and masked ones are revealed at the rate that makes up for it, `(α' − (1 − σ) α) / (1 − α)` of them on average. With
`unmask.size.LogLinear`, whose tokens choose by themselves, this is the published sampler in law; with any other size
exactly as many are revealed as were taken back and the size adds, which is the same on average, with less noise.

References:
    Wang, Schiff, Sahoo & Kuleshov, Remasking discrete diffusion models with inference-time scaling, 2025 (arXiv
        2503.00307).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.revision.base import Situation, TakeBack

if TYPE_CHECKING:
    from torch import Tensor


class _Remasking(TakeBack):
    """A rule whose probabilities follow from the shares before and after a step."""

    @property
    def needs_sizes(self) -> bool:
        return True

    @property
    def by_rate(self) -> bool:
        return True


@final
@dataclass(frozen=True)
class Cap(_Remasking):
    """Takes every revealed token back with the same probability, `min(chance, σ_max)`.

    Arguments:
        chance: The probability, from 0 to 1.
    """

    chance: float = 0.02

    def __post_init__(self):
        _check_share("chance", self.chance)

    def chances(self, view: Situation) -> "Tensor":
        return self.rate(view) * view.held

    def rate(self, view: Situation) -> "Tensor":
        return _largest(view).clamp(max=self.chance)


@final
@dataclass(frozen=True)
class Rescale(_Remasking):
    """Takes every revealed token back with the same probability, `share · σ_max`.

    Arguments:
        share: From 0 to 1.
    """

    share: float = 0.05

    def __post_init__(self):
        _check_share("share", self.share)

    def chances(self, view: Situation) -> "Tensor":
        return self.rate(view) * view.held

    def rate(self, view: Situation) -> "Tensor":
        return self.share * _largest(view)


@final
@dataclass(frozen=True)
class LeastSure(_Remasking):
    """Takes back tokens that were unlikely when they were drawn: `σ_max` is split by a softmax of `−probability`."""

    @property
    def recalls(self) -> bool:
        return True

    def chances(self, view: Situation) -> "Tensor":
        weight = (-view.drawn.exp()).exp() * view.held
        total = weight.sum(dim=1, keepdim=True)
        return _largest(view) * weight / total.clamp(min=1e-300)

    # Its rate is 0: as published, what is taken back is not made up for.


@final
@dataclass(frozen=True)
class Loop(_Remasking):
    """Fills a share of the text, then for some steps takes tokens back and reveals as many, then fills the rest.

    Arguments:
        steps: How many steps take tokens back: evaluations in addition to those of the size.
        chance: The probability of each token to be taken back at one of them, where that many can be replaced.
        share: Share of the text that is filled before.
    """

    steps: int
    chance: float = 0.02
    share: float = 0.9

    def __post_init__(self):
        check.integer("steps", self.steps, least=1, most=check.LONGEST)
        _check_share("chance", self.chance)
        _check_share("share", self.share)

    def paced(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        stand: NDArray[np.int64] = np.cumsum(sizes)
        place = int(np.searchsorted(stand, self.share * int(sizes.sum()) - 1e-9)) + 1
        # After the last step nothing is masked, and nothing could be revealed for what is taken back.
        place = min(place, sizes.size - 1)
        active = np.zeros(sizes.size + self.steps, dtype=np.bool_)
        active[place : place + self.steps] = True
        return np.insert(sizes, place, np.zeros(self.steps, dtype=np.int64)), active

    def chances(self, view: Situation) -> "Tensor":
        return self.rate(view) * view.held

    def rate(self, view: Situation) -> "Tensor":
        return _largest(view).clamp(max=self.chance)


def _largest(view: Situation) -> "Tensor":
    """`σ_max`, shape `(batch, 1)`."""
    assert view.after is not None
    # Before the first step nothing is revealed, and any number will do.
    return ((1 - view.after) / view.before.clamp(min=1e-12)).clamp(0.0, 1.0)


def _check_share(name: str, value: float) -> None:
    if check.real(name, value, least=0.0) > 1:
        raise check.InputError(name, "be at most 1", found=f"{value:g}")
