"""What a network that is causal in the schedule keeps of a batch while it is written.

Keys and values of every content stand in a table by their place in the text, the start before all; which of them a
state may see is a matter of the step at which each became known. What is not known yet may hold anything: it is not
seen. So a draft that is taken back needs no cleaning up, and what is written does not depend on the order in which a
batch came.

Tables are written in place. A memory that is not the newest of its batch copies them before it goes on.

On a CPU rows of a batch have the bits that they would have alone: sequences of one length are a table of their own,
matrix products have at least `COMPANY` rows, since below that their rounding depends on how many there are, and tables
of queries a multiple of it. That holds for widths that are multiples of 16, as usual ones are: other rows begin in the
midst of a line of memory, and products round by where.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models._attention import attend
from unmask.models._cells import COMPANY, Cells, bias, joined, padded, rounded
from unmask.models._tables import Spare, Tables
from unmask.models.causal import GIVEN, Causal, Near
from unmask.models.shape import OfNetwork, Shape
from unmask.predict import Memory, Places, Prediction, Remembering
from unmask.sequences import own_lengths

_UNKNOWN = 1 << 40  # the step of what is not known: after all others
_ALIGNED = 16
_TOKENS = 1024  # tokens that a CPU takes through the layers at once: their activations stay in its cache


@final
@dataclass(frozen=True, eq=False)
class Recalling(OfNetwork, Remembering):  # pyright: ignore[reportIncompatibleVariableOverride] - as in OfNetwork
    """A network that is causal in the schedule, as a mask predictor that remembers."""

    model: Causal
    spare: Spare = field(default_factory=Spare, repr=False)

    @property
    def shape(self) -> Shape:
        return self.model.config

    def begin(self, tokens: Tensor, masked: Tensor) -> "Recall":
        batch, length = tokens.shape
        self._check_length(length)
        given = torch.nonzero((~masked & (tokens != self.pad)).flatten())[:, 0]
        lengths = np.full(batch, length) if tokens.is_cuda else own_lengths(tokens, self.pad)
        parts = tuple(
            _Part.of(self.model, lengths == each, int(each), length, self.spare) for each in np.unique(lengths)
        )
        return Recall(self, parts, length, (Places.of(given, length),))

    def stepped(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Prediction:
        self._check_length(tokens.shape[1])
        hidden = self._hidden if tokens.is_cuda else self._by_length
        return Prediction((hidden(tokens, step, rows),), self.head, self.vocab)

    def _hidden(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Tensor:
        padding = tokens == self.pad
        hidden = self.model.hidden(tokens.masked_fill(padding, 0), step.masked_fill(padding, _UNKNOWN))
        return hidden.flatten(0, 1)[rows]

    def _by_length(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Tensor:
        """The same on a CPU: sequences of one length at a time, without padding, and few of them."""
        wide = max(tokens.shape[1], 1)
        hidden = self.model.head.weight.new_zeros((tokens.numel(), self.model.config.width))
        wanted = torch.zeros(len(tokens), dtype=torch.bool).index_fill(0, rows // wide, True).numpy()
        lengths = own_lengths(tokens, self.pad)
        for length in np.unique(lengths[wanted]).tolist():
            some = torch.as_tensor(np.flatnonzero(wanted & (lengths == length)))
            for few in torch.split(some, max(1, _TOKENS // length)):
                company = few.repeat(-(-COMPANY // (len(few) * length)))  # as many as round like any more
                found = self.model.hidden(tokens[company, :length], step[company, :length])[: len(few)]
                hidden.view(*tokens.shape, -1)[few, :length] = found
        return hidden[rows]

    def head(self, hidden: Tensor) -> Tensor:
        """Logits of hidden states."""
        return self.model.head(padded(hidden))[: len(hidden)]

    def _check_length(self, length: int) -> None:
        if length > self.model.config.length:
            raise check.InputError("tokens", f"have at most {self.model.config.length} positions", found=f"{length}")


@final
@dataclass(frozen=True, eq=False)
class Recall(Memory):
    """What is kept of a batch.

    Attributes:
        predictor: Whose memory it is.
        parts: Sequences of one length each; all of them on a GPU.
        length: Length of the batch.
        pending: Places that became known and are not computed yet, by step.
    """

    predictor: Recalling
    parts: "tuple[_Part, ...]"
    length: int
    pending: tuple[Places, ...] = ()

    def revealed(self, places: Places) -> "Recall":
        return replace(self, pending=(*self.pending, places))

    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, "Recall"]:
        hidden, memory = self._advanced(tokens, (), places)
        return self._prediction(hidden), memory

    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, "Recall"]:
        hidden, memory = self._advanced(tokens, (drafted,), after)
        return self._prediction(hidden[: len(drafted)]), self._prediction(hidden[len(drafted) :]), memory

    def accepted(self, places: Places) -> "Recall":
        return replace(self, parts=tuple(part.known(places) for part in self.parts))

    def _prediction(self, hidden: Tensor) -> Prediction:
        return Prediction((hidden,), self.predictor.head, self.predictor.vocab)

    def _advanced(self, tokens: Tensor, drafted: tuple[Places, ...], places: Places) -> tuple[Tensor, "Recall"]:
        """Hidden states of drafted positions one by one, then of places after them; and the memory after that."""
        flat, parts = tokens.flatten(), list[_Part]()
        found: list[tuple[Tensor, Tensor]] = []
        for part in self.parts:
            moved, where, hidden = part.advanced(flat, self.pending, drafted, places)
            parts.append(moved)
            found.append((where, hidden))
        memory = replace(self, parts=tuple(parts), pending=())
        if not found:
            return self.predictor.model.head.weight.new_zeros((0, self.predictor.model.config.width)), memory
        if len(found) == 1:
            return found[0][1], memory
        hidden = torch.cat([each for _, each in found])
        return torch.empty_like(hidden).index_copy(0, torch.cat([where for where, _ in found]), hidden), memory


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """Sequences of one length.

    Attributes:
        model: The network.
        lines: The number of each sequence of the batch within this part, −1 where it belongs to another; None if it is
            the whole batch.
        count: How many they are.
        length: Their length.
        wide: The length of the batch, in which flat indices are counted.
        tables: What was computed.
        arrived: `GIVEN` where a place is known, and a step after all others where it is not; shape `(count, places)`.
        mark: That of the tables when this was made.
        begun: Whether the start was computed.
    """

    model: Causal
    lines: Tensor | None
    count: int
    length: int
    wide: int
    tables: Tables
    arrived: Tensor
    mark: object
    begun: bool = False

    @staticmethod
    def of(model: Causal, members: NDArray[np.bool_], length: int, wide: int, spare: Spare) -> "_Part":
        config, weight = model.config, model.head.weight
        count, places = int(members.sum()), length + 1
        if weight.is_cuda:  # attention with a mask wants rows that are aligned; what is beyond the text is never known
            places += -places % _ALIGNED
        shape = (config.layers + (config.readers > 0), 2, count, places, config.heads, config.width // config.heads)
        tables = Tables.of(model, shape, config.width, spare)
        arrived = torch.full((count, places), _UNKNOWN, device=weight.device)
        arrived[:, 0] = GIVEN
        lines = None if members.all() else torch.as_tensor(np.where(members, np.cumsum(members) - 1, -1))
        return _Part(model, lines, count, length, wide, tables, arrived, tables.newest)

    def known(self, places: Places) -> "_Part":
        """The same with drafts known."""
        if self.mark is not self.tables.newest:
            # Whoever went on from the same scan may have written other drafts over these.
            raise check.InputError("", "Drafts can be accepted only once, and only before their memory is used again")
        mark = self.tables.newest = object()
        rows, _ = self._own(places)
        line, slot = self._spots(rows)
        arrived = self.arrived.index_put((line, slot), torch.full_like(line, GIVEN))
        return replace(self, arrived=arrived, mark=mark)

    def advanced(
        self, tokens: Tensor, pending: Sequence[Places], drafted: Sequence[Places], wanted: Places
    ) -> "tuple[_Part, Tensor, Tensor]":
        """Compute what became known, then drafts one by one, and hidden states of drafted and wanted places.

        Returns:
            What comes of this part; where its hidden states belong among those of the batch; and these.
        """
        part = self if self.mark is self.tables.newest else replace(self, tables=self.tables.copied())
        sets = [*pending, *drafted, wanted]
        recordings = None if drafted else part.tables.recordings

        def compute(tokens: Tensor, arrived: Tensor, *rows: Tensor) -> tuple[Tensor, Tensor]:
            moved = [replace(places, rows=own) for places, own in zip(sets, rows, strict=True)]
            return part._advanced(tokens, arrived, moved[: len(pending)], moved[len(pending) : -1], moved[-1])

        inputs = tokens, part.arrived, *(places.rows for places in sets)
        if recordings is None:
            hidden, arrived = compute(*inputs)
        else:
            shapes = tuple((len(places), self._breadth(places)) for places in sets)
            hidden, arrived = recordings.run((self.begun, shapes), inputs, compute)
        mark = part.tables.newest = object()
        where = torch.cat([part._own(places)[1] + before for places, before in _offsets([*drafted, wanted])])
        return replace(part, arrived=arrived, mark=mark, begun=True), where, hidden

    def _advanced(
        self, tokens: Tensor, arrived: Tensor, pending: Sequence[Places], drafted: Sequence[Places], wanted: Places
    ) -> tuple[Tensor, Tensor]:
        """Hidden states of drafted and wanted places, and the steps at which places became known after that."""
        steps = len(pending)
        contents = [self._cells(tokens, places, number, one_by_one=False) for number, places in enumerate(pending)]
        drafts = [self._cells(tokens, places, steps, one_by_one=True) for places in drafted]
        if not self.begun:
            # The start and what is given are one step, before all others.
            first = [each._replace(step=torch.full_like(each.step, GIVEN)) for each in contents[:1]]
            contents = [self._start(), *first, *contents[1:]]
        asked = self._cells(tokens, wanted, _UNKNOWN - 1, one_by_one=False)
        settled = joined(contents)
        now, everything = arrived, joined([*contents, *drafts])
        for each in [*([] if settled is None else [settled]), *drafts]:
            now = now.index_put((each.line, each.slot), each.step)
        if everything is not None:
            self._extend(everything, now)
        queries = joined([*drafts, asked])
        # Sequences of another length may be done while these go on, and the other way round.
        hidden = self.tables.contents.new_zeros((0, self.model.config.width))
        if queries is not None:
            hidden = self._read(queries, now)
        if settled is not None:
            arrived = arrived.index_put((settled.line, settled.slot), torch.full_like(settled.line, GIVEN))
        return hidden, arrived

    def _extend(self, cells: Cells, arrived: Tensor) -> None:
        """Take contents through the layers, and keep what they leave."""
        model, tables, count = self.model, self.tables, self.count
        spot = cells.line * arrived.shape[1] + cells.slot
        size = len(spot)
        token, slot = padded(cells.token), padded(cells.slot)
        x = model.embed(token)
        seen = cells.table(bias(arrived[cells.line] <= cells.step[:, None], x), count)[:, None]
        cos, sin = model.turns(slot, x)

        def kept(number: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = tables.pairs[number, 0], tables.pairs[number, 1]
            keys.view(-1, *key.shape[1:]).index_copy_(0, spot, key[:size])
            values.view(-1, *value.shape[1:]).index_copy_(0, spot, value[:size])
            return keys, values

        for number, layer in enumerate(model.layers):

            def mix(query: Tensor, key: Tensor, value: Tensor, number: int = number) -> Tensor:
                mixed = attend(cells.table(query[:size], count), *kept(number, key, value), seen)
                return padded(cells.back(mixed))

            x = layer(x, cos, sin, mix)
        contents = model.kept(x)
        if model.config.readers:
            kept(len(model.layers), *model.memorised(contents, cos, sin))
        tables.contents.view(-1, contents.shape[-1]).index_copy_(0, spot, contents[:size])

    def _read(self, cells: Cells, arrived: Tensor) -> Tensor:
        """Hidden states of queries."""
        model, tables, count, size = self.model, self.tables, self.count, len(cells.slot)
        known = arrived[cells.line]
        near = model.neighbours(known, cells.slot, cells.step)
        contents = [padded(tables.contents[cells.line, each.spot]) for each in near]
        x = model.asked(contents, [Near(padded(each.spot), padded(each.distance)) for each in near])
        if model.config.readers:
            seen = cells.table(bias(known < cells.step[:, None], x), count)[:, None]
            keys, values = tables.pairs[-1, 0], tables.pairs[-1, 1]
            cos, sin = model.turns(padded(cells.slot), x)

            def mix(query: Tensor) -> Tensor:
                return padded(cells.back(attend(cells.table(query[:size], count), keys, values, seen)))

            for reader in model.readers:
                x = reader(x, cos, sin, mix)
        return model.norm(x)[:size]

    def _start(self) -> Cells:
        line = torch.arange(self.count, device=self.arrived.device)
        zero = torch.zeros_like(line)
        return Cells(zero + self.model.config.vocab, line, zero, zero + GIVEN, line, 1, True)

    def _cells(self, tokens: Tensor, places: Places, step: int, *, one_by_one: bool) -> Cells:
        rows, _ = self._own(places)
        line, slot = self._spots(rows)
        device = rows.device
        breadth, even = self._breadth(places)
        order = torch.arange(len(rows), device=device)
        if even and not one_by_one:
            number = order % breadth
        else:
            own = torch.zeros(self.count, dtype=torch.int64, device=device).index_add(0, line, torch.ones_like(line))
            number = order - (own.cumsum(0) - own)[line]
        when = step + number if one_by_one else torch.full_like(line, step)
        return Cells(tokens[rows], line, slot, when, line * breadth + number, breadth, even)

    def _breadth(self, places: Places) -> tuple[int, bool]:
        """The breadth of a table for these places, and whether they fill it."""
        counts = places.counts
        if self.lines is not None:  # on a CPU alone
            counts = counts[self.lines.numpy()[places.sequences] >= 0]
        breadth = rounded(int(counts.max(initial=0)), places.rows)
        return breadth, counts.size == self.count and bool((counts == breadth).all())

    def _own(self, places: Places) -> tuple[Tensor, Tensor]:
        """The places that are in this part, and their numbers among all."""
        order = torch.arange(len(places), device=places.rows.device)
        if self.lines is None:
            return places.rows, order
        own = torch.nonzero(self.lines[places.rows // self.wide] >= 0)[:, 0]
        return places.rows[own], own

    def _spots(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        sequence = rows // self.wide
        return sequence if self.lines is None else self.lines[sequence], rows % self.wide + 1


def _offsets(places: Sequence[Places]) -> list[tuple[Places, int]]:
    ends = np.cumsum([0, *(len(each) for each in places)]).tolist()
    return list(zip(places, ends, strict=False))
