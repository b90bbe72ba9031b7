"""Networks that attend within a block and to the blocks before it: what is finished is computed once.

A block-causal network cuts a text into blocks of `B` positions, the first at the beginning of the text. A position sees
all positions of its own block, masked ones too, and all of the blocks before it, but nothing after. So what the layers
make of a block depends on its own tokens and on earlier ones alone, and once nothing of these is masked any more it
stays as it is: keys and values are kept, and a step computes the block that it reveals something of.

    −log p(x) = Σ_b Σ_k Σ_{i∈S_k of block b} −log p̂_i(x_i | blocks before b, what is revealed of block b)

What such a network says is a function of the visible tokens, whatever the steps in which they came: with or without
what is kept it says the same, to rounding. Under any schedule, too. One that reveals something of a later block before
an earlier one is finished is told what the network makes of that, and pays for all blocks from the first unfinished one
on. `unmask.order.Blocks` with a `start` of 0 fills the blocks of the network one after the other.

A finished block is computed once more, with its last tokens, when the next one is first read: in the same pass, so that
an evaluation stays one, of two blocks.

Sequences whose finished blocks differ in number are run apart, each as if it were alone. Nothing is filled up for the
network, which therefore needs no padding token: any id that is no token serves.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.predict.base import MaskPredictor, Prediction, called, without
from unmask.predict.memory import Memory, Places
from unmask.predict.prefixes import Prefixes
from unmask.sequences import own_lengths

Join = Callable[..., tuple[Tensor, ...]]
_NOWHERE = np.iinfo(np.int64).max


class BlockNetwork(ABC):
    """A network that attends within a block and to the blocks before it.

    Attributes:
        block: Positions of a block.
        several: Whether it can run several blocks at once, each seeing those before it. Otherwise they are run one
            after the other.
        shifted: Whether the state at position `i` predicts `i+1`; that of the first position predicts itself too.
    """

    block: int
    several: bool = True
    shifted: bool = False

    @abstractmethod
    def run(self, tokens: Tensor, start: int, join: Join) -> Tensor:
        """States of a stretch of positions that begins with a block, given the blocks before it.

        Arguments:
            tokens: Token ids of the stretch, shape `(sequences, positions)`: whole blocks, of which the last may be
                cut short by the end of the text.
            start: The position of the first of them.
            join: To be called once for each layer, as `join(number, key, value)` with keys and values of the stretch,
                shape `(sequences, heads, positions, width)`: gives those of all positions from the beginning of the
                text to the end of the stretch. The numbers count the layers from 0; any tensors of such a shape may
                stand for keys and values.

        Returns:
            States of shape `(sequences, positions, width)`.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Logits of states, shape `(rows, vocab)` from `(rows, width)`."""


def itself(number: int, *parts: Tensor) -> tuple[Tensor, ...]:
    """What joins a stretch to nothing: it is the beginning of the text, and nobody will ask for it again."""
    return parts


def visible(start: int, stop: int, block: int, device: torch.device) -> Tensor | None:
    """Which positions before `stop` those from `start` on see, shape `(stop − start, stop)`; None if they see all."""
    if stop - start <= block:
        return None
    number = torch.arange(stop, device=device) // block
    return number[start:, None] >= number


@final
@dataclass(frozen=True, eq=False)
class Blockwise(MaskPredictor):
    """A block-causal network as a mask predictor: finished blocks are computed once.

    Arguments:
        network: The network.
        vocab: Number of logits of a position.
        mask: Token id that stands at masked positions; if it is below `vocab`, it is never drawn.
        pad: A token id that fills up sequences at their end. The network is never given it; by default the first id
            that is neither a token nor the mask.
        length: Longest sequence that the network takes; any by default.
    """

    network: BlockNetwork
    vocab: int
    mask: int
    pad: int | None = None
    length: int | None = None

    def __post_init__(self):
        check.instance("network", self.network, BlockNetwork, "be a BlockNetwork")
        check.integer("block", self.network.block, least=1)
        check.integer("vocab", self.vocab, least=1, most=check.EXACT)
        check.integer("mask", self.mask, least=0, most=check.EXACT)
        if self.pad is None:
            object.__setattr__(self, "pad", max(self.vocab, self.mask + 1))
        elif check.integer("pad", self.pad, least=0, most=check.EXACT) == self.mask:
            raise check.InputError("pad", "be a different token from {mask}", found=f"{self.pad}")
        if self.length is not None:
            check.integer("length", self.length, least=1)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        memory = self._memory(tokens, masked, None)
        return memory.everywhere(tokens) if rows is None else memory.told(tokens, rows)[0]

    def begin(self, tokens: Tensor, masked: Tensor) -> Memory:
        return self._memory(tokens, masked, _Tables(len(tokens), tokens.shape[1]))

    def _memory(self, tokens: Tensor, masked: Tensor, tables: "_Tables | None") -> "_Finished":
        if self.length is not None and tokens.shape[1] > self.length:
            raise check.InputError("tokens", f"have at most {self.length} positions", found=f"{tokens.shape[1]}")
        lengths = own_lengths(tokens.masked_fill(masked, self.mask), self.pad)
        hidden: NDArray[np.bool_] = masked.cpu().numpy().copy()
        mark = None if tables is None else tables.newest
        return _Finished(self, lengths, hidden, np.zeros(len(lengths), dtype=np.int64), tables, mark)

    def predicted(self, states: Tensor) -> Prediction:
        """The prediction of states."""
        prediction = Prediction((states,), self.network.logits, self.vocab)
        return without(prediction, [self.mask]) if self.mask < self.vocab else prediction


@final
@dataclass(eq=False)
class _Tables:
    """What layers made of positions, by layer, sequence and position; written in place.

    Attributes:
        batch: Number of sequences.
        length: Positions of each.
        layers: For each layer its tensors, of shape `(batch, heads, length, width)`; made when they are first needed.
        newest: The mark of the memory that wrote last.
    """

    batch: int
    length: int
    layers: dict[int, tuple[Tensor, ...]] = field(default_factory=dict[int, tuple[Tensor, ...]])
    newest: object = field(default_factory=object)

    def copied(self) -> "_Tables":
        layers = {number: tuple(each.clone() for each in parts) for number, parts in self.layers.items()}
        return _Tables(self.batch, self.length, layers)

    def joined(self, members: Tensor | None, start: int, stop: int) -> Join:
        """What writes a stretch of some sequences, and gives all that is before its end; of all of them for None."""

        def join(number: int, *parts: Tensor) -> tuple[Tensor, ...]:
            if number not in self.layers:
                self.layers[number] = tuple(
                    each.new_empty((self.batch, each.shape[1], self.length, each.shape[3])) for each in parts
                )
            tables = self.layers[number]
            for table, part in zip(tables, parts, strict=True):
                if members is None:
                    table[:, :, start:stop] = part
                else:
                    table[members, :, start:stop] = part
            if members is None:
                return tuple(table[:, :, :stop] for table in tables)
            return tuple(table[:, :, :stop][members] for table in tables)

        return join


@final
@dataclass(frozen=True, eq=False)
class _Finished(Memory):
    """What is kept of a batch: the finished blocks.

    Attributes:
        predictor: Whose memory it is.
        lengths: Positions of each sequence.
        masked: What is not known, shape `(batch, length)`; on the host, where it is decided what to run.
        done: Positions of each sequence that are computed for good.
        tables: Where they are kept; None if they are not.
        mark: That of the tables when this was made.
        edge: States of the last finished position of each sequence, where the network is shifted.
    """

    predictor: Blockwise
    lengths: NDArray[np.int64]
    masked: NDArray[np.bool_]
    done: NDArray[np.int64]
    tables: _Tables | None
    mark: object
    edge: Tensor | None = None

    copies = True

    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, Memory]:
        return self.told(tokens, places.rows)

    def revealed(self, places: Places) -> Memory:
        masked = self.masked.copy()
        masked.reshape(-1)[plain(places.rows)] = False
        return replace(self, masked=masked)

    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, Memory]:
        # A drafted token changes what its whole block is told, so each needs a copy of its own.
        copies = Prefixes(self.predictor, torch.as_tensor(self.masked).to(tokens.device))
        first, then, _ = copies.scan(tokens, drafted, after)
        return first, then, self

    def accepted(self, places: Places) -> Memory:
        return self.revealed(places)

    def told(self, tokens: Tensor, rows: Tensor) -> "tuple[Prediction, _Finished]":
        """Predictions of positions by their flat indices, in any order, and the memory with what is now finished."""
        states, memory = self._states(tokens, np.array(plain(rows), dtype=np.int64))
        return self.predictor.predicted(states), memory

    def everywhere(self, tokens: Tensor) -> Prediction:
        """Predictions of all positions.

        Of padding nothing can be told: it is told what the first position is, and where there is none, zeros.
        """
        batch, length = tokens.shape
        inside = np.arange(length) < self.lengths[:, None]
        rows = (np.where(inside, np.arange(length), 0) + np.arange(batch)[:, None] * length).flatten()
        some = np.repeat(self.lengths > 0, length)
        states, _ = self._states(tokens, rows[some])
        if some.all():
            return self.predictor.predicted(states)
        if not some.any():
            zeros = torch.zeros(1, device=tokens.device).expand(rows.size, self.predictor.vocab)
            return Prediction((zeros,), torch.clone, self.predictor.vocab)
        filled = states.new_zeros((rows.size, states.shape[1]))
        filled[torch.as_tensor(some).to(tokens.device)] = states
        return self.predictor.predicted(filled)

    def _states(self, tokens: Tensor, rows: NDArray[np.int64]) -> "tuple[Tensor, _Finished]":
        network = self.predictor.network
        sequence, place = np.divmod(rows, max(tokens.shape[1], 1))
        place = np.maximum(place - 1, 0) if network.shifted else place
        # Of a shifted network the last state of what is finished predicts the first token after it.
        at_edge = (place == self.done[sequence] - 1) & (self.edge is not None)
        first, last = np.full(len(tokens), _NOWHERE), np.full(len(tokens), -1)
        np.minimum.at(first, sequence[~at_edge], place[~at_edge])
        np.maximum.at(last, sequence[~at_edge], place[~at_edge])
        if (first < self.done).any():
            # Somebody asks for what is finished, which is not kept: it is computed once more, and nothing is gained.
            again = replace(self, done=np.minimum(self.done, first // network.block * network.block), mark=None)
            return again._run(tokens, sequence, place, at_edge, last)[0], self
        return self._run(tokens, sequence, place, at_edge, last)

    def _run(
        self,
        tokens: Tensor,
        sequence: NDArray[np.int64],
        place: NDArray[np.int64],
        at_edge: NDArray[np.bool_],
        last: NDArray[np.int64],
    ) -> "tuple[Tensor, _Finished]":
        block, device = self.predictor.network.block, tokens.device
        tables, edge = self.tables, self.edge
        if tables is not None and self.mark is not tables.newest:
            tables = tables.copied()
        hidden = tokens.masked_fill(torch.as_tensor(self.masked).to(device), self.predictor.mask)
        stop = np.minimum((last // block + 1) * block, self.lengths)
        finished = np.where(self.masked.any(axis=1), self.masked.argmax(axis=1), self.lengths) // block * block
        done = np.where(last >= 0, np.maximum(self.done, np.minimum(finished, stop)), self.done)
        where: list[NDArray[np.int64]] = []
        found: list[Tensor] = []
        if edge is not None and at_edge.any():
            where.append(np.flatnonzero(at_edge))
            found.append(edge[torch.as_tensor(sequence[at_edge]).to(device)])
        for members in _alike(np.stack([self.done, stop], axis=1), last >= 0):
            begin, end = int(self.done[members[0]]), int(stop[members[0]])
            index = torch.as_tensor(members).to(device)
            own = hidden if len(members) == len(tokens) else hidden[index]
            states = self._stretch(own, None if len(members) == len(tokens) else index, begin, end, tables)
            number = np.full(len(tokens), -1)
            number[members] = np.arange(len(members))
            mine = np.flatnonzero((number[sequence] >= 0) & ~at_edge)
            where.append(mine)
            flat = number[sequence[mine]] * (end - begin) + place[mine] - begin
            found.append(states.flatten(0, 1)[torch.as_tensor(flat).to(device)])
            if self.predictor.network.shifted and tables is not None:
                edge = _edges(edge, states, len(tokens), index, done[members] - 1 - begin)
        mark = None
        if tables is not None:
            mark = tables.newest = object()
        memory = replace(self, done=done, tables=tables, mark=mark, edge=edge)
        if not found:
            return torch.zeros((0, 1), device=device), memory
        order = torch.as_tensor(np.argsort(np.concatenate(where), kind="stable")).to(device)
        return torch.cat(found)[order], memory

    def _stretch(self, tokens: Tensor, members: Tensor | None, start: int, stop: int, tables: _Tables | None) -> Tensor:
        """States of a stretch of some sequences, in as many runs as the network needs."""
        network = self.predictor.network
        if network.several or stop - start <= network.block:
            if tables is None and start == 0:
                return _checked(network.run(tokens[:, :stop], 0, itself), tokens[:, :stop])
            tables = tables or _Tables(len(tokens), tokens.shape[1])
            join = tables.joined(members, start, stop)
            return _checked(network.run(tokens[:, start:stop], start, join), tokens[:, start:stop])
        if tables is None:
            members, tables = None, _Tables(len(tokens), tokens.shape[1])
        ends = [*range(start + network.block, stop, network.block), stop]
        parts = [
            self._stretch(tokens, members, begin, end, tables)
            for begin, end in zip([start, *ends[:-1]], ends, strict=True)
        ]
        return torch.cat(parts, dim=1)


def _alike(keys: NDArray[np.int64], wanted: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """The sequences wanted, those with the same keys together."""
    some = np.flatnonzero(wanted)
    if some.size:
        _, kind = np.unique(keys[some], axis=0, return_inverse=True)
        for each in range(int(kind.max()) + 1):
            yield some[kind.reshape(-1) == each]


def _edges(edge: Tensor | None, states: Tensor, batch: int, index: Tensor, at: NDArray[np.int64]) -> Tensor:
    """States of the last finished positions of a batch, those of some sequences anew if they finished something."""
    if edge is None:
        edge = states.new_zeros((batch, states.shape[2]))
    new = torch.as_tensor(np.flatnonzero(at >= 0)).to(states.device)
    return edge.index_put((index[new],), states[new, torch.as_tensor(at[at >= 0]).to(states.device)])


def _checked(states: object, tokens: Tensor) -> Tensor:
    if not isinstance(states, Tensor) or states.ndim != 3 or states.shape[:2] != tokens.shape:
        found = f"{tuple(states.shape)}" if isinstance(states, Tensor) else check.type_of(states)
        raise check.InputError(
            "network", f"return states of shape ({tokens.shape[0]}, {tokens.shape[1]}, width)", found=found
        )
    return states
