"""What a model is to the rest of the library: a mask predictor with its alphabet."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, final
from weakref import WeakKeyDictionary

from unmask import _check as check
from unmask._torch import torch
from unmask.models.text import Codec
from unmask.predict import MaskPredictor
from unmask.sample import Stop, Trace

# By the network, so that a model cut to another length need not be read again.
_KNOWN: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A mask predictor with its alphabet.

    Attributes:
        name: What it was loaded as.
        module: The network.
        predictor: The same as a mask predictor.
        codec: Maps text to token ids and back.
        length: Longest sequence.
        about: What was saved with it: the alphabet, how it was trained.
        window: Tokens of a sequence where nobody says how many; `None` for the longest.
    """

    name: str
    module: torch.nn.Module
    predictor: MaskPredictor
    codec: Codec
    length: int
    about: dict[str, Any]
    window: int | None = None

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.module.parameters()).device

    @property
    def stop(self) -> Stop | None:
        """Where a sampler may stop: at the end of an answer, which is filled up with more ends; `None` without one."""
        return None if self.codec.end is None else Stop(self.codec.end, self.codec.end)

    def texts(self, trace: Trace, first: int = 0) -> list[str]:
        """What a run wrote, up to the end of each answer.

        Arguments:
            trace: The record of the run.
            first: The first token to show.
        """
        return [self.codec.decode(row) for row in trace.until(self.codec.end).written(first)]

    @property
    def fingerprint(self) -> str:
        """A short name for the weights, by which a calibration knows its model.

        It is found when it is first asked for, which takes a minute for some billions of weights, and then known for
        as long as the network lives: weights that are changed in place keep the name that they had.
        """
        if self.module not in _KNOWN:
            _KNOWN[self.module] = fingerprint(self.module)
        return _KNOWN[self.module]

    def cut(self, length: int | None = None) -> "Model":
        """The same model for sequences of `length` tokens; of its window by default."""
        wanted = length if length is not None else self.window or self.length
        return replace(self, length=check.integer("length", wanted, least=1, most=self.length))


def fingerprint(model: torch.nn.Module) -> str:
    """A short name for the weights of a model."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().to(torch.float16).numpy().tobytes())
    return digest.hexdigest()[:16]
