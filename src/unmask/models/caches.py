"""Approximate caches for networks that look both ways: a step recomputes some positions and keeps the others.

In such a network every new token changes the keys and values of all positions, in all layers but the first. A cache
leaves most of them as they were: the positions of a step that are *fresh* go through the layers, and attend to the
keys and values of all, which for the others are those of an earlier step. What that changes in the predictions is an
error of the sampler like any other, and replay says in bits what it costs (`unmask.evaluate.replay`).

What is fresh is a rule's matter, reckoned by block: a stretch of positions after the other, counted from the first
masked one, as in `unmask.order.Blocks`.

    Prefix     the current block and all after it; everything in the first step of a block      Fast-dLLM
    Dual       the current block alone; everything in the first step of a block                 Fast-dLLM
    Delayed    what is masked, and what the last step revealed; everything in the first two
               steps of a block, and in every n-th                                              dKV-Cache

Readers and head run at the positions asked for, as ever.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models._attention import Digest, Rows, attend, rotate
from unmask.models.transformer import Reading, Transformer
from unmask.predict import Memory, Places, Prediction, Wrapper

_NONE = 1 << 40  # the number of a block after all others


@final
class Now(NamedTuple):
    """Where the sequences of a batch are.

    Attributes:
        block: Positions of the block that is being filled, as booleans `(batch, length)`.
        step: Steps taken in it, shape `(batch, 1)`.
        settled: What was known before the last step, as booleans `(batch, length)`.
    """

    block: Tensor
    step: Tensor
    settled: Tensor


class Renewal(ABC):
    """Which positions a step computes anew.

    Attributes:
        length: Length of the blocks; None if the whole text is one.
    """

    length: int | None

    @abstractmethod
    def fresh(self, now: Now) -> Tensor:
        """Booleans of shape `(batch, length)`; true wherever a prediction may be asked for."""


@dataclass(frozen=True)
class InBlocks(Renewal):
    """Renewals of Fast-dLLM: everything when a block begins, and less in its later steps.

    Arguments:
        length: Length of the blocks, the schedule's own.

    References:
        Wu et al., Fast-dLLM: training-free acceleration of diffusion LLM by enabling KV cache and parallel decoding,
        2025.
    """

    length: int  # pyright: ignore[reportIncompatibleVariableOverride] - fixed, as the class is frozen

    def __post_init__(self):
        check.integer("length", self.length, least=1, most=check.EXACT)


@final
@dataclass(frozen=True)
class Prefix(InBlocks):
    """Keeps what stands before the current block, from the block's first step on."""

    def fresh(self, now: Now) -> Tensor:
        return (now.step == 0) | (now.block.cumsum(dim=1) > 0)


@final
@dataclass(frozen=True)
class Dual(InBlocks):
    """Keeps all that stands outside the current block, before and after it, from the block's first step on."""

    def fresh(self, now: Now) -> Tensor:
        return (now.step == 0) | now.block


@final
@dataclass(frozen=True)
class Delayed(Renewal):
    """Keeps what is known, from one step after the one that revealed it: then it was computed from its own token.

    Arguments:
        refresh: Every so many steps of a block everything is computed anew; with 1 the cache is exact.
        length: Length of the blocks; by default the whole text is one.

    References:
        Ma et al., dKV-Cache: the cache for diffusion language models, 2025 (dKV-Cache-Decode).
    """

    refresh: int
    length: int | None = None

    def __post_init__(self):
        check.integer("refresh", self.refresh, least=1)
        if self.length is not None:
            check.integer("length", self.length, least=1, most=check.EXACT)

    def fresh(self, now: Now) -> Tensor:
        # What is given counts as revealed by the first step, as in the authors' code: so the second has no cache yet.
        return (now.step < 2) | (now.step % self.refresh == 0) | ~now.settled


@final
@dataclass(frozen=True, eq=False)
class Cached(Wrapper):
    """A network that looks both ways, with an approximate cache.

    What it says depends on the steps so far, so that a text is scored step by step. Called without a memory it is
    exact.

    Arguments:
        predictor: The predictor of the network, such as `unmask.load("builtin").predictor`.
        rule: Which positions a step computes anew.

    Example:
        >>> from unmask import order, size
        >>> from unmask.models.transformer import Config
        >>> from unmask.sample import Sampler
        >>> from unmask.schedule import Schedule
        >>> network = Config(5, 16, width=16, layers=2, readers=1, heads=2, hidden=16, reader_hidden=16).network()
        >>> schedule = Schedule(size.Even(4), order.Blocks(order.Comb(shift=0), 8))
        >>> Sampler(Cached(network.predictor(), Dual(8)), schedule).run((3, 16), rng=0).calls
        8
    """

    predictor: Reading  # pyright: ignore[reportIncompatibleVariableOverride] - fixed, as the class is frozen
    rule: Renewal

    remembers = True

    def __post_init__(self):
        if not isinstance(self.predictor, Reading):
            raise check.InputError(
                "predictor",
                "be the predictor of a network of unmask.models.transformer",
                found=check.type_of(self.predictor),
            )
        check.instance("rule", self.rule, Renewal, "be a rule of unmask.models.caches")

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        return self.predictor(tokens, masked, rows)

    def begin(self, tokens: Tensor, masked: Tensor) -> "Cache":
        present = tokens != self.predictor.pad
        step = torch.zeros((len(tokens), 1), dtype=torch.int64, device=tokens.device)
        number = torch.zeros_like(tokens)
        if self.rule.length is not None and tokens.shape[1]:
            place = torch.arange(tokens.shape[1], device=tokens.device)
            # Before the first masked position everything is given, and in no block.
            first = torch.where(masked, place, tokens.shape[1]).amin(dim=1, keepdim=True)
            number = torch.div(place - first, self.rule.length, rounding_mode="floor")
        return Cache(self, masked, torch.zeros_like(masked), step, number, present, (), step[:, 0])


@final
@dataclass(frozen=True, eq=False)
class Cache(Memory):
    """What is kept of a batch.

    Attributes:
        predictor: Whose memory it is.
        masked: What is not known, shape `(batch, length)`.
        settled: What was known before the last step.
        step: Steps taken in the current block, shape `(batch, 1)`.
        number: The block of each position.
        present: False at padding.
        pairs: Keys and values of all positions, layer by layer and then those of the readers; none before the first
            step.
        computed: Positions taken through the layers so far, of each sequence.
    """

    predictor: Cached
    masked: Tensor
    settled: Tensor
    step: Tensor
    number: Tensor
    present: Tensor
    pairs: tuple[tuple[Tensor, Tensor], ...]
    computed: Tensor

    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, "Cache"]:
        network, (batch, length) = self.predictor.predictor.model, tokens.shape
        fresh = self._fresh(places, length)
        # Looked at on a GPU too, where packing waits for it in any case: what is stale would be taken for computed.
        if not bool(fresh.flatten()[places.rows].all()):
            raise check.InputError(
                "", "The schedule asks for predictions outside the block that the cache computes",
                remedy="Give the cache the length of the schedule's own blocks.",
            )  # fmt: skip
        hidden = tokens.masked_fill(self.masked, self.predictor.mask).masked_fill(~self.present, 0)
        visible = self.present[:, None, None] if self.predictor.predictor.padded(tokens) else None
        states, pairs = _advanced(network, hidden, _packed(fresh), self.pairs, visible)
        digest = Digest(states.view(batch, length, -1), *pairs[-1])
        found = network.read(digest, _rows(places, length), None if visible is None else self.present)
        memory = replace(self, pairs=pairs, computed=self.computed + fresh.sum(dim=1))
        return Prediction((found,), network.head, self.predictor.vocab), memory

    def revealed(self, places: Places) -> "Cache":
        masked = self.masked.flatten().index_fill(0, places.rows, False).view_as(self.masked)
        now = self._active(places, masked.shape[1])
        over = ~(self._block() & masked).any(dim=1, keepdim=True)
        step = torch.where(now, torch.where(over, 0, self.step + 1), self.step)
        return replace(self, masked=masked, settled=torch.where(now, ~self.masked, self.settled), step=step)

    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, Memory]:
        raise _unverified()

    def accepted(self, places: Places) -> Memory:
        raise _unverified()

    def _block(self) -> Tensor:
        """Positions of the first block of each sequence that has something masked."""
        return self.number == self.number.masked_fill(~self.masked, _NONE).amin(dim=1, keepdim=True)

    def _active(self, places: Places, length: int) -> Tensor:
        """The sequences of these places, shape `(batch, 1)`."""
        return torch.zeros_like(self.step, dtype=torch.bool).index_fill(0, places.rows // length, True)

    def _fresh(self, places: Places, length: int) -> Tensor:
        fresh = self.predictor.rule.fresh(Now(self._block(), self.step, self.settled))
        return fresh & self._active(places, length) & self.present


@final
class _Packed(NamedTuple):
    """Positions of a batch to compute, and where each stands in a table `(batch, breadth)` for attention.

    Attributes:
        flat: Flat indices, ascending.
        place: Their cells of the table.
        batch: Sequences.
        breadth: Breadth of the table.
        whole: Whether they are all positions there are, so that nothing is to be moved.
    """

    flat: Tensor
    place: Tensor
    batch: int
    breadth: int
    whole: bool

    def table(self, values: Tensor) -> Tensor:
        if not self.whole:
            blank = values.new_zeros((self.batch * self.breadth, *values.shape[1:]))
            values = blank.index_copy(0, self.place, values)
        return values.view(self.batch, self.breadth, *values.shape[1:])

    def back(self, table: Tensor) -> Tensor:
        return table.flatten(0, 1) if self.whole else table.flatten(0, 1)[self.place]

    def put(self, into: Tensor | None, values: Tensor, shape: torch.Size) -> Tensor:
        """A copy of a table of all positions with these at their places; memories are never changed in place."""
        if self.whole:
            return values.view(*shape, *values.shape[1:])
        base = values.new_zeros((shape.numel(), *values.shape[1:])) if into is None else into.flatten(0, 1)
        return base.index_copy(0, self.flat, values).view(*shape, *values.shape[1:])


def _packed(fresh: Tensor) -> _Packed:
    """The positions that are true; a GPU is waited for, to count them."""
    batch, length = fresh.shape
    flat = torch.nonzero(fresh.flatten())[:, 0]
    if len(flat) == fresh.numel():
        return _Packed(flat, flat, batch, length, True)
    count = fresh.sum(dim=1, keepdim=True)
    breadth = int(count.max())
    place = torch.arange(batch, device=fresh.device)[:, None] * breadth + fresh.cumsum(dim=1) - 1
    return _Packed(flat, place.flatten()[flat], batch, breadth, False)


def _rows(places: Places, length: int) -> Rows:
    """Rows for the readers, in a table just broad enough; their number is known on the host."""
    counts = places.counts
    number = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    breadth = int(counts.max(initial=0))
    place = places.rows // length * breadth + torch.as_tensor(number).to(places.rows.device)
    return Rows(places.rows, place, breadth)


def _advanced(
    network: Transformer, tokens: Tensor, some: _Packed, pairs: tuple[tuple[Tensor, Tensor], ...], seen: Tensor | None
) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
    """Take some positions through the layers; the states of all (zeros elsewhere), and all keys and values."""
    shape, kept = tokens.shape, list[tuple[Tensor, Tensor]]()
    x = network.embed(tokens.flatten()[some.flat])
    cos, sin = network.turns(some.flat % shape[1], x)

    def keep(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        old = pairs[len(kept)] if pairs else (None, None)
        kept.append((some.put(old[0], key, shape), some.put(old[1], value, shape)))
        return kept[-1]

    def mix(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return some.back(attend(some.table(query), *keep(key, value), seen))

    for layer in network.layers:
        x = layer(x, cos, sin, mix)
    key, value = network.keys_values(network.kept(x)).unflatten(-1, (2, network.config.heads, -1)).unbind(-3)
    keep(rotate(key, cos, sin), value)
    return some.put(None, x, shape), tuple(kept)


def _unverified() -> check.InputError:
    return check.InputError(
        "predictor", "be exact to verify drafts", detail="but this one has an approximate cache",
        remedy="Use the predictor inside it.",
    )  # fmt: skip
