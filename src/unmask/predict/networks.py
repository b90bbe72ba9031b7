"""The networks that a predictor calls: in which mode they are, and where.

A network in training mode drops units at random and counts what it sees. What is sampled, replayed or measured with it
would not be its law, so that all of these run it in evaluation mode and then put it back as it was (`evaluating`).
And they work where its weights are (`device_of`).

Networks are found by looking: at what a predictor holds, at what that holds, and at the variables that a function
uses. One that is hidden better than that is used as it is.
"""

import functools
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from unmask import _check as check
from unmask._torch import torch
from unmask.predict.base import MaskPredictor
from unmask.predict.blocks import BlockNetwork

_DEEP = 8  # holders within holders: wrappers around a function around a network
_Module = torch.nn.Module

P = ParamSpec("P")
T = TypeVar("T")


class _Predicts(Protocol):
    """Anything that works with a predictor."""

    @property
    def predictor(self) -> MaskPredictor: ...


W = TypeVar("W", bound=_Predicts)


def networks_of(predictor: MaskPredictor) -> list[torch.nn.Module]:
    """The networks behind a predictor, each once.

    Example:
        >>> from unmask.predict import Counted, Logits
        >>> layer = torch.nn.Linear(2, 3)
        >>> networks_of(Counted(Logits(lambda tokens: layer(tokens), 3, 3)))
        [Linear(in_features=2, out_features=3, bias=True)]
    """
    found: dict[int, torch.nn.Module] = {}
    _look(predictor, found, _DEEP)
    return list(found.values())


def _look(thing: object, found: dict[int, torch.nn.Module], deep: int) -> None:
    if isinstance(thing, _Module):
        found.setdefault(id(thing), thing)
        return
    if deep == 0:
        return
    if isinstance(thing, list | tuple):
        some = cast("list[object] | tuple[object, ...]", thing)
        # Token ids can be many, and are no holders of anything.
        if some and not isinstance(some[0], int):
            for each in some:
                _look(each, found, deep - 1)
    elif isinstance(thing, MaskPredictor | BlockNetwork) or callable(thing):
        for each in _held(thing):
            _look(each, found, deep - 1)


def _held(thing: Any) -> Iterator[object]:
    """What a predictor or a function can reach."""
    if isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
        known = thing.__globals__
        # Of what is global a network counts, and nothing that would have to be searched for one.
        yield from (known[name] for name in thing.__code__.co_names if isinstance(known.get(name), _Module))
    elif isinstance(thing, types.MethodType):
        yield thing.__self__
    elif isinstance(thing, functools.partial):
        part = cast("functools.partial[object]", thing)
        yield part.func
        yield from part.args
        yield from part.keywords.values()
    elif not isinstance(thing, type):
        yield from vars(thing).values() if hasattr(thing, "__dict__") else ()


def device_of(thing: "MaskPredictor | torch.nn.Module") -> torch.device | None:
    """Where the weights of a network, or of a predictor's first network that has some, are; None if there are none.

    Example:
        >>> device_of(torch.nn.Linear(2, 3)), device_of(torch.nn.ReLU())
        (device(type='cpu'), None)
    """
    check.instance("thing", thing, MaskPredictor | torch.nn.Module, "be a mask predictor or a network")
    for network in networks_of(thing) if isinstance(thing, MaskPredictor) else [thing]:
        for values in (network.parameters(), network.buffers()):
            # What is "meta" is elsewhere, and fetched when it is needed.
            place = next((value.device for value in values if value.device.type != "meta"), None)
            if place is not None:
                return place
    return None


@contextmanager
def evaluating(predictor: MaskPredictor) -> Generator[None]:
    """Networks in training mode are in evaluation mode inside, and as they were afterwards, whatever happens.

    Parts of a network that is itself in evaluation mode stay as they are.
    """
    training = [network for network in networks_of(predictor) if network.training]
    if not training:
        yield
        return
    modes = [(part, part.training) for network in training for part in network.modules()]
    try:
        for network in training:
            network.eval()
        yield
    finally:
        # `train` first: it may do more than to set the modes, which its parts need not share.
        for network in training:
            network.train()
        for part, mode in modes:
            part.training = mode


def predicting(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
    """A method that predicts: without gradients, and with its predictor's networks in evaluation mode."""

    @functools.wraps(method)
    def predicted(self: W, *args: P.args, **kwargs: P.kwargs) -> T:
        with torch.no_grad(), evaluating(self.predictor):
            return method(self, *args, **kwargs)

    return predicted
