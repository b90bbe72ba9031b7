"""What a model is to the rest of the library: a mask predictor with its alphabet."""

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final
from weakref import WeakKeyDictionary

from unmask import _check as check
from unmask._torch import torch
from unmask.models.text import Codec
from unmask.predict import MaskPredictor, device_of
from unmask.sample import Stop, Trace
from unmask.schedule import Schedule

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
        """Where its weights are; the CPU if it has none."""
        return device_of(self.module) or torch.device("cpu")

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules that it was trained for, that with the largest share first; none where nobody said so.

        Raises:
            InputError: if what was saved with it is none.
        """
        saved = self.about.get("schedules", {})
        try:
            found = [(Schedule.from_json(each), check.real("schedules", share)) for each, share in saved.values()]
        except (AttributeError, TypeError, ValueError):
            raise check.InputError("model", "be saved with schedules that can be read") from None
        return tuple(each for each, _ in sorted(found, key=lambda pair: -pair[1]))

    @property
    def stop(self) -> Stop | None:
        """Where a sampler may stop: at the end of an answer, which is filled up with more ends; `None` without one."""
        return None if self.codec.end is None else Stop(self.codec.end, self.codec.end)

    def texts(self, trace: Trace, first: int | Sequence[int] = 0) -> list[str]:
        """What a run wrote, up to the end of each answer.

        Arguments:
            trace: The record of the run.
            first: The first token to show; one number for all, or one for each sequence.
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
        """The same model for sequences of `length` tokens; of its window by default. Cut again, it keeps its length."""
        wanted = length if length is not None else self.window or self.length
        return replace(self, length=check.integer("length", wanted, least=1, most=self.length), window=None)


def fingerprint(model: torch.nn.Module) -> str:
    """A short name for the weights of a model; for its code and what it holds if it has no weights."""
    digest = hashlib.sha256()
    weights = model.state_dict()
    for name, value in sorted((weights or _unregistered(model)).items()):
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):  # a module may keep anything else with its weights
            digest.update(value.detach().cpu().to(torch.float16).numpy().tobytes())
    if not weights:
        for part in model.modules():
            digest.update(_code(type(part)).encode())
    return digest.hexdigest()[:16]


def _unregistered(model: torch.nn.Module) -> dict[str, Any]:
    """Tensors and plain values that the parts of a model hold as attributes."""
    whole: Any = model  # torch leaves open what its parts are
    parts: dict[str, torch.nn.Module] = dict(whole.named_modules())
    return {
        f"{path}.{name}={'' if isinstance(value, torch.Tensor) else value}": value
        for path, part in parts.items()
        for name, value in vars(part).items()
        if name != "training" and isinstance(value, torch.Tensor | bool | int | float | str)
    }


def _code(kind: type) -> str:
    """What a class does, as far as that can be read; else what it is called."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return kind.__qualname__
