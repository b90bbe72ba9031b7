"""Confidence with a prior over positions and over tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask.order.base import Predictions, ReactiveOrder, required

_TINY = 1e-9  # what a token has that was never seen, as published


@final
@dataclass(frozen=True)
class Calibrated(ReactiveOrder):
    """Confidence weighted by position and by how rare the token is: early positions and rare tokens first.

    The position at place `i` of its block, whose most likely token `v` has probability `c` here and frequency `f_v`
    everywhere, has the score

        exp(−decay · i) · min(most, −c · log(f_v + 1e-9)).

    Confidence alone begins with what is always likely, such as commas and ends of lines, and at both ends of a text.

    Arguments:
        frequencies: The share of each token in some text, in the order of token ids; `counted` makes them.
        decay: How fast later places lose; 0 for no prior over places.
        most: A bound on how much a rare token counts.

    References:
        Huang et al., PC-Sampler: position-aware calibration of decoding bias in masked diffusion models, 2025 (arXiv
            2508.13021); `decay` is their λ, `most` their α.
    """

    frequencies: tuple[float, ...]
    decay: float = 0.25
    most: float = 10.0

    def __init__(self, frequencies: Sequence[float], decay: float = 0.25, most: float = 10.0):
        given = check.listed("frequencies", frequencies, "be a list of shares, one for each token")
        shares = tuple(check.real("frequencies", share, least=0.0) for share in given)
        if not shares or max(shares) > 1:
            raise check.InputError("frequencies", "hold the share of each token, from 0 to 1")
        object.__setattr__(self, "frequencies", shares)
        object.__setattr__(self, "decay", check.real("decay", decay, least=0.0))
        object.__setattr__(self, "most", check.real("most", most, above=0.0))

    @staticmethod
    def counted(tokens: Iterable[int], vocab: int) -> tuple[float, ...]:
        """The frequencies of tokens in a text, given as token ids; one that it does not have counts as one of it.

        Arguments:
            tokens: Token ids.
            vocab: Number of tokens.

        Example:
            >>> Calibrated.counted([0, 1, 1, 1], vocab=3)
            (0.25, 0.75, 0.25)
        """
        vocab = check.integer("vocab", vocab, least=1, most=check.LONGEST)
        found = check.array("tokens", tokens if isinstance(tokens, Sequence) else list(tokens)).ravel()
        if found.size == 0 or found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= vocab:
            raise check.InputError("tokens", f"hold one or more token ids from 0 to {vocab - 1}")
        shares = np.maximum(np.bincount(found, minlength=vocab), 1) / found.size
        return tuple(float(share) for share in shares)

    def score(self, prediction: Predictions) -> Any:
        required(prediction, "confidence", "best", "places")
        vocab = getattr(prediction, "vocab", len(self.frequencies))
        if vocab != len(self.frequencies):
            raise check.InputError(
                "frequencies", f"hold one share for each of the {vocab} tokens", found=f"{len(self.frequencies)}"
            )
        confidence = prediction.confidence.double()
        share = confidence.new_tensor(self.frequencies)[prediction.best]
        told = (-confidence * (share + _TINY).log()).clamp(max=self.most)
        return told * (-self.decay * prediction.places.double()).exp()
