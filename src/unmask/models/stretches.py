"""Block-causal models from Hugging Face, which keep their finished blocks.

Four families attend within a block and to the blocks before it, each called in its own way:

    LLaDA 2.x        a mask to be added to the scores; a cache is extended by all that is run
    SDAR             a mask of booleans, and `store_kv` for what is to be kept
    Fast-dLLM v2     a mask of its own making, from `block_size`; `update_past_key_values` for what is to be kept; the
                     output at position `i` predicts `i+1`
    BD3-LM           a cache inside its layers, of queries, keys and values before they are turned; one block at a time

The first three are given a cache of transformers' kind that hands keys and values on to whoever keeps them
(`unmask.predict.blocks`), and is otherwise empty.

Whether a model does what its family does is found out when it is loaded: a few blocks are run at once and one after
the other, and if it says different things it is refused.
"""

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models.split import same, split
from unmask.predict import BlockNetwork, Blockwise
from unmask.predict.blocks import Join, itself, visible

_BLOCK_NAMES = ("block_size", "block_length", "bd_size")
_ROUNDINGS = 64  # of the largest logit, in units of its last digit in float32: a deep network adds up many
_ROUNDED = 0.25  # what rounding in fewer digits may make of the difference that it makes to see all blocks


class Foreign(BlockNetwork):
    """A block-causal model of Hugging Face.

    Arguments:
        network: The model.
        block: Positions of a block.
        apart: A copy of it that gives hidden states, and its output layer; by default the model gives logits.
    """

    def __init__(self, network: Any, block: int, apart: tuple[Any, torch.nn.Linear] | None = None):
        self.network, self.block = network, block
        self.body, self.head = apart if apart is not None else (network, None)

    def logits(self, states: Tensor) -> Tensor:
        return states if self.head is None else self.head(states.to(self.head.weight.dtype))


class Caching(Foreign):
    """One that is given a cache."""

    def run(self, tokens: Tensor, start: int, join: Join) -> Tensor:
        stop = start + tokens.shape[1]
        seen = visible(start, stop, self.block, tokens.device)
        if seen is None:
            seen = torch.ones((stop - start, stop), dtype=torch.bool, device=tokens.device)
        place = torch.arange(start, stop, device=tokens.device)[None]
        past = _past()(join, start)
        options = self._options(seen)
        found = self.body(input_ids=tokens, position_ids=place, past_key_values=past, use_cache=True, **options)
        return found.logits

    @abstractmethod
    def _options(self, seen: Tensor) -> dict[str, Any]:
        """What the model is told besides, given who sees whom, shape `(positions, all positions)`."""


@final
class Added(Caching):
    """LLaDA 2.x: what is not seen is minus infinity, or nearly, in a mask that is added."""

    def _options(self, seen: Tensor) -> dict[str, Any]:
        dtype = next(each.dtype for each in self.network.parameters() if each.is_floating_point())
        hidden = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)
        return {"attention_mask": hidden[None, None]}


@final
class Stored(Caching):
    """SDAR."""

    def _options(self, seen: Tensor) -> dict[str, Any]:
        return {"attention_mask": seen[None], "store_kv": True}


@final
class Updated(Caching):
    """Fast-dLLM v2: it makes the mask itself."""

    shifted = True

    def _options(self, seen: Tensor) -> dict[str, Any]:
        return {"update_past_key_values": True, "block_size": self.block}


@final
class Windowed(Foreign):
    """BD3-LM: what its layers take for their cache is a window on what is kept."""

    several = False

    def __init__(self, network: Any, block: int, apart: tuple[Any, torch.nn.Linear] | None = None):
        super().__init__(network, block)  # its output layer is turned by the noise level, and stays where it is
        config = network.config
        if config.time_conditioning or config.causal or not config.cross_attn:
            raise check.InputError("model", "be a BD3-LM with blocks and without time conditioning")

    def run(self, tokens: Tensor, start: int, join: Join) -> Tensor:
        backbone = self.network.backbone
        layers: list[Any] = list(backbone.blocks)
        before = [(layer.kv_cache, layer.cache_idx, layer.block_size) for layer in layers]
        length = backbone.block_size
        try:
            backbone.block_size = tokens.shape[1]  # the last block of a text may be cut short
            for number, layer in enumerate(layers):
                layer.kv_cache, layer.cache_idx, layer.block_size = _Window(number, join), start, tokens.shape[1]
            noise = torch.zeros(len(tokens), device=tokens.device)
            found = self.network(input_ids=tokens, timesteps=noise, sample_mode=True, store_kv=False, return_dict=True)
        finally:
            backbone.block_size = length
            for layer, kept in zip(layers, before, strict=True):
                layer.kv_cache, layer.cache_idx, layer.block_size = kept
        return found.logits


@final
class _Window:
    """What a layer of BD3-LM writes new positions into, and reads all of them from."""

    def __init__(self, number: int, join: Join):
        self.number, self.join = number, join
        self.found: Tensor | None = None

    def __setitem__(self, places: object, values: Tensor) -> None:
        (joined,) = self.join(self.number, values[:, None])
        self.found = joined[:, 0]

    def __getitem__(self, places: object) -> Tensor:
        assert self.found is not None
        return self.found


@cache
def _past() -> Any:
    """A cache of transformers that keeps nothing itself."""
    import transformers

    base: Any = transformers.DynamicCache

    class Past(base):
        def __init__(self, join: Join, start: int):
            super().__init__()
            self.join, self.start = join, start

        def update(self, key: Tensor, value: Tensor, number: int, *others: object, **more: object) -> Any:
            return self.join(number, key, value)

        def get_seq_length(self, *others: object, **more: object) -> int:
            return self.start

    return Past


def default_of(network: Any, names: Sequence[str]) -> int | None:
    """A number that a configuration says under one of some names, or that the model's own way to write takes for it."""
    said: list[object] = [getattr(network.config, name, None) for name in names]
    try:
        written = inspect.signature(network.generate).parameters
        said += [written[name].default for name in names if name in written]
    except (AttributeError, TypeError, ValueError):
        pass  # it has none, or none that can be looked at
    return next((found for found in said if isinstance(found, int) and found > 0), None)


def block_of(network: Any, name: str) -> int:
    """The block length of a model.

    Raises:
        InputError: if nobody says it.
    """
    found = default_of(network, _BLOCK_NAMES)
    if found is None:
        remedy = 'Add the number to its config.json, for example "block_size": 32.'
        raise check.InputError(
            "model", "say how many positions its blocks have", detail=f"but '{name}' does not", remedy=remedy
        )
    return found


@torch.no_grad()
def predictor(kind: type[Foreign], network: Any, name: str, mask: int, length: int) -> Blockwise:
    """A block-causal model as a mask predictor, with its output layer apart where that gives the same.

    Arguments:
        kind: How models of its family are called.
        network: The model.
        name: What it is called.
        mask: Token id that stands at masked positions.
        length: Longest sequence.

    Raises:
        InputError: if nobody says its block length, or it says different things of blocks at once and one by one.
    """
    whole = kind(network, block_of(network, name))
    device = next(network.parameters()).device
    tokens = _probe(whole.block, mask, length, device)
    logits = whole.logits(_by_blocks(whole, tokens))
    found = Blockwise(whole, logits.shape[-1], mask, length=length)
    if whole.several and not _causal(whole, tokens, logits):
        raise check.InputError(
            "model",
            "be block-causal",
            detail=f"but '{name}' makes different predictions for several blocks at once than for one block at a time",
        )
    parts = split(network)
    if parts is not None and not isinstance(whole, Windowed):
        apart = kind(network, whole.block, parts)
        try:
            agree = same(apart.logits(_by_blocks(apart, tokens)), logits)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            agree = False  # the layer is not simply called
        if agree:
            return Blockwise(apart, logits.shape[-1], mask, length=length)
    return found


def _probe(block: int, mask: int, length: int, device: torch.device) -> Tensor:
    """Two blocks and a token, in part masked, as far as they fit."""
    tokens = torch.arange(min(2 * block + 1, length), device=device)[None] % max(1, min(mask, 97))
    return tokens.masked_fill(torch.arange(tokens.shape[1], device=device) % 3 == 2, mask)


def _by_blocks(network: Foreign, tokens: Tensor) -> Tensor:
    """States one block after the other."""
    kept: dict[int, tuple[Tensor, ...]] = {}

    def join(number: int, *parts: Tensor) -> tuple[Tensor, ...]:
        before = kept.get(number)
        joined = parts if before is None else tuple(torch.cat(pair, dim=2) for pair in zip(before, parts, strict=True))
        kept[number] = joined
        return joined

    starts = range(0, tokens.shape[1], network.block)
    return torch.cat([network.run(tokens[:, at : at + network.block], at, join) for at in starts], dim=1)


def _causal(network: Foreign, tokens: Tensor, logits: Tensor) -> bool:
    """Whether blocks at once are told what they are told one by one."""
    at_once = network.logits(network.run(tokens, 0, itself))
    if at_once.shape != logits.shape:
        return False
    error = (at_once.float() - logits.float()).abs()
    if bool(error.max() <= _ROUNDINGS * torch.finfo(torch.float32).eps * logits.float().abs().max()):
        return True
    # In bfloat16 rounding alone comes near the logits of a deep network. It is still far from what the same positions
    # say when they see all blocks, which is what a network says that does not look at its mask.
    if next(each.dtype for each in network.network.parameters() if each.is_floating_point()).itemsize >= 4:
        return False
    as_one = type(network)(network.network, tokens.shape[1])
    seen = (as_one.logits(as_one.run(tokens, 0, itself)).float() - logits.float()).abs()
    return bool(error.mean() <= _ROUNDED * seen.mean())
