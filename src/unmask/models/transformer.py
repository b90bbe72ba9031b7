"""A small bidirectional transformer: enough of a model to have something real to schedule.

Rotary positions, RMSNorm, SwiGLU, torch's scaled-dot-product attention; no dropout, no biases. Token ids are `0 …
vocab−1`, the mask is `vocab`, and `vocab+1` fills up sequences that are shorter than others of their batch.

A sampler's step needs predictions at few positions, so the depth is split. The first layers mix all positions with one
another and end in a memory: keys and values of every position. The readers after them let each position read that
memory and nothing else, so they run at the positions asked for and no others: with 16 steps, at a sixteenth of them.
"""

from dataclasses import dataclass
from functools import partial
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.models._attention import Digest, Rows, angles, attend, rotate
from unmask.models._layers import Layer, Reader, start_small
from unmask.models.shape import Network, OfNetwork, Shape, TransformerShape
from unmask.predict.base import Prediction

_TOKENS = 1024  # tokens that a CPU takes through the layers at once: their activations stay in its cache


@final
@dataclass(frozen=True)
class Config(TransformerShape):
    """Shape of a transformer that looks both ways.

    Arguments as for `unmask.models.shape.Shape`.

    Example:
        >>> Config(vocab=27, length=256).parameters
        6146304
    """

    def network(self) -> "Transformer":
        return Transformer(self)


@final
class Transformer(Network):
    """Maps token ids `(batch, length)` to logits `(batch, length, vocab)`, in three stages: memory, readers, head."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embed = torch.nn.Embedding(config.vocab + 1, config.width)
        width, heads = config.width, config.heads
        self.layers = torch.nn.ModuleList(Layer(width, heads, config.hidden) for _ in range(config.layers))
        self.kept = torch.nn.RMSNorm(config.width)
        self.keys_values = torch.nn.Linear(config.width, 2 * config.width, bias=False)
        self.readers = torch.nn.ModuleList(Reader(width, heads, config.reader_hidden) for _ in range(config.readers))
        self.norm = torch.nn.RMSNorm(config.width)
        self.head = torch.nn.Linear(config.width, config.vocab, bias=False)
        cos, sin = angles(config.length, config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        start_small(self, config.width, config.depth)

    def forward(self, tokens: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits of all positions, or of the flat indices into `batch · length` asked for, shape `(rows, vocab)`."""
        if rows is None:
            return self(tokens, torch.arange(tokens.numel(), device=tokens.device)).unflatten(0, tokens.shape)
        return self.head(self.read(self.memory(tokens), Rows.at_home(rows, tokens.shape[1])))

    def memory(self, tokens: Tensor, present: Tensor | None = None) -> Digest:
        """What all positions together make of the tokens.

        Arguments:
            tokens: Token ids, shape `(batch, length)`.
            present: Booleans of the same shape, false at padding, which no position sees; by default there is none.
        """
        length = tokens.shape[1]
        if length > self.config.length:
            raise check.InputError("tokens", f"have at most {self.config.length} positions", found=f"{length}")
        # Padding has no row of its own: any serves, as nothing sees it.
        x = self.embed(tokens if present is None else tokens.where(present, 0))
        cos, sin = self.turns(torch.arange(length, device=tokens.device), x)
        mix = partial(attend, seen=_visible(present))
        for layer in self.layers:
            x = layer(x, cos, sin, mix)
        key, value = self.keys_values(self.kept(x)).unflatten(-1, (2, self.config.heads, -1)).unbind(-3)
        return Digest(x, rotate(key, cos, sin), value)

    def read(self, memory: Digest, rows: Rows, present: Tensor | None = None) -> Tensor:
        """Hidden states of the rows, shape `(rows, width)`; `present` as for the memory."""
        x = memory.states.flatten(0, 1)[rows.flat]
        cos, sin = self.turns(rows.flat % memory.states.shape[1], x)
        seen = _visible(present)

        def mix(query: Tensor) -> Tensor:
            batch = memory.keys.shape[0]
            table = query.new_zeros((batch * rows.breadth, *query.shape[1:])).index_copy(0, rows.place, query)
            mixed = attend(table.view(batch, rows.breadth, *query.shape[1:]), memory.keys, memory.values, seen)
            return mixed.flatten(0, 1)[rows.place]

        for reader in self.readers:
            x = reader(x, cos, sin, mix)
        return self.norm(x)

    def predictor(self) -> "Reading":
        """This model as a mask predictor."""
        return Reading(self)

    def turns(self, positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions, with room for an axis of heads."""
        cos, sin = self.get_buffer("cos")[positions, None], self.get_buffer("sin")[positions, None]
        return cos.to(x.dtype), sin.to(x.dtype)


@final
@dataclass(frozen=True, eq=False)
class Reading(OfNetwork):
    """A transformer as a mask predictor: memory everywhere, readers and head where a prediction is wanted.

    Where sequences are filled up with `pad`, a GPU runs them as one batch with a mask in its attention. A masked sum is
    rounded otherwise than a shorter one, so a CPU runs the sequences of one length at a time, as if they were alone: to
    the last bit they are told what a batch of them without padding is told.
    """

    model: Transformer

    @property
    def shape(self) -> Shape:
        return self.model.config

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        index = torch.arange(tokens.numel(), device=tokens.device) if rows is None else rows
        if tokens.is_cuda:
            present = tokens != self.pad if self.padded(tokens) else None
            # To count the rows of a sequence would be to wait for the GPU.
            places = Rows.at_home(index, tokens.shape[1])
            hidden = self.model.read(self.model.memory(tokens, present), places, present)
        else:
            hidden = (self._by_length if self.padded(tokens) else self._hidden)(tokens, index)
        return Prediction((hidden,), self.model.head, self.vocab)

    def padded(self, tokens: Tensor) -> bool:
        """Whether there is padding: it stands at the end of a sequence, so one token of each says it.

        A GPU is waited for, once in a call: without padding attention is faster than with a mask that hides nothing.
        While its work is recorded nothing can be seen, and the recording must serve either way.
        """
        if tokens.is_cuda and torch.cuda.is_current_stream_capturing():
            return True
        return bool((tokens[:, -1:] == self.pad).any())

    def _by_length(self, tokens: Tensor, index: Tensor) -> Tensor:
        """Hidden states of the rows, by sequences of one length at a time; zeros for rows of padding."""
        present = tokens != self.pad
        lengths = present.sum(dim=1)
        if not torch.equal(present, torch.arange(tokens.shape[1]) < lengths[:, None]):
            raise check.InputError("tokens", "have padding only after the end of a sequence")
        sequence, place = index // tokens.shape[1], index % tokens.shape[1]
        wanted = torch.where(place < lengths[sequence], lengths[sequence], 0)
        where: list[Tensor] = []
        parts: list[Tensor] = []
        for length in sorted(set(plain(wanted)) - {0}):
            some, members = torch.nonzero(wanted == length)[:, 0], lengths == length
            number = members.cumsum(0) - 1  # of each sequence among those of its length
            where.append(some)
            parts.append(self._hidden(tokens[members, :length], number[sequence[some]] * length + place[some]))
        hidden = self.model.head.weight.new_zeros((len(index), self.model.config.width))
        return hidden.index_copy(0, torch.cat(where), torch.cat(parts)) if parts else hidden

    def _hidden(self, tokens: Tensor, index: Tensor) -> Tensor:
        return self.model.read(self._memory(tokens), Rows.packed(index, *tokens.shape))

    def _memory(self, tokens: Tensor) -> Digest:
        """The memory of a batch, a few sequences at a time; of one, if all are equal, as they are at the first step."""
        if len(tokens) > 1 and bool((tokens == tokens[:1]).all()):
            return self.model.memory(tokens[:1]).expand(len(tokens))
        few = torch.split(tokens, max(1, _TOKENS // tokens.shape[1]))
        return Digest(*map(torch.cat, zip(*map(self.model.memory, few), strict=True)))


def _visible(present: Tensor | None) -> Tensor | None:
    """What attention is told of padding: its keys are seen by no query."""
    return None if present is None else present[:, None, None]
