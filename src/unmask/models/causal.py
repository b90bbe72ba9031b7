"""A network whose attention follows the schedule.

Give every token of a text the step at which it is revealed. A token has a *content*, which attends to the contents of
its own and of earlier steps; a position has a *query*, which stands for a token that is not known yet and attends to
the contents of strictly earlier steps. So

    −log p(x) = Σ_k Σ_{i∈S_k} −log p̂_i(x_i | x_{S_1}, …, x_{S_{k−1}})

needs one pass over contents and queries, whatever the number of steps: nothing that is revealed later changes a
content, and nothing of a step changes its predictions. What was computed of a content is kept when a text is written,
and never computed again (`unmask.models.recall`).

Contents go through the layers; queries through the readers after them, which read keys and values of the contents as
they leave the layers. A query starts from a blank, from the contents of its nearest neighbours on either side that it
may see, and from their distances. Left to right with one token at a time the neighbour is the token before, and without
readers that is the ordinary autoregressive network.

A start token, of step −1 as tokens that are given, is seen by all: the first step has something to attend to.

References:
    Pannatier, Courdier & Fleuret, σ-GPTs: a new approach to autoregressive models, 2024 (arXiv 2404.09562).
    Xue et al., Any-order GPT as masked diffusion model, 2025 (arXiv 2506.19935).
    Sahoo et al., Esoteric language models, 2025 (arXiv 2506.01928).
    Karami & Ghodsi, Auto-regressive masked diffusion models, 2026 (arXiv 2601.16971): whole steps at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

from unmask._torch import Tensor, torch
from unmask.models._attention import angles, attend, rotate
from unmask.models._cells import bias
from unmask.models._layers import Layer, Reader, start_small
from unmask.models.shape import Network, Shape

if TYPE_CHECKING:
    from unmask.models.recall import Recalling

GIVEN = -1  # the step of what is given, and of the start
DISTANCES = 64  # what a query is told of the distance of a neighbour: one of so many


@final
@dataclass(frozen=True)
class CausalConfig(Shape):
    """Shape of a network that is causal in the schedule.

    Arguments as for `unmask.models.shape.Shape`; there may be no readers.

    Example:
        >>> CausalConfig(vocab=27, length=256).parameters
        6310400
    """

    fewest_readers: ClassVar[int] = 0

    @property
    def parameters(self) -> int:
        matrices = 4 if self.readers else 2  # without readers nobody reads keys and values
        return self._stack() + self.width * (2 * self.vocab + 1 + matrices * self.width + 2 * DISTANCES + 3)

    @property
    def tensors(self) -> int:
        return 6 * self.depth + (9 if self.readers else 8)

    def network(self) -> "Causal":
        return Causal(self)


@final
class Near(NamedTuple):
    """A neighbour of each of some queries: its place, and what kind of distance that is."""

    spot: Tensor
    distance: Tensor


@final
class Causal(Network):
    """Maps token ids and their steps, both `(batch, length)`, to logits `(batch · length, vocab)`."""

    def __init__(self, config: CausalConfig):
        super().__init__()
        self.config = config
        width, heads = config.width, config.heads
        self.embed = torch.nn.Embedding(config.vocab + 1, width)  # the last is the start
        self.layers = torch.nn.ModuleList(Layer(width, heads, config.hidden) for _ in range(config.layers))
        self.kept = torch.nn.RMSNorm(width)
        if config.readers:
            self.keys_values = torch.nn.Linear(width, 2 * width, bias=False)
        self.sides = torch.nn.ModuleList(torch.nn.Linear(width, width, bias=False) for _ in range(2))
        self.embed_distance = torch.nn.Embedding(2 * DISTANCES, width)
        self.blank = torch.nn.Parameter(torch.zeros(width))
        self.readers = torch.nn.ModuleList(Reader(width, heads, config.reader_hidden) for _ in range(config.readers))
        self.norm = torch.nn.RMSNorm(width)
        self.head = torch.nn.Linear(width, config.vocab, bias=False)
        cos, sin = angles(config.length + 1, width // heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("far", _kinds_of_distance(config.length + 1), persistent=False)
        start_small(self, width, config.depth)

    def forward(self, tokens: Tensor, step: Tensor) -> Tensor:
        """Logits of every position given all earlier steps.

        Arguments:
            tokens: Token ids, shape `(batch, length)`.
            step: The step of each, `GIVEN` where it is given; of the same shape. Positions of the last step are seen by
                nobody: what stands there is not looked at.
        """
        return self.head(self.hidden(tokens, step)).flatten(0, 1)

    def hidden(self, tokens: Tensor, step: Tensor) -> Tensor:
        """Hidden states of every position given all earlier steps, shape `(batch, length, width)`."""
        batch, length = tokens.shape
        # By step; the last content is in the last step and seen by nobody, and the start takes its place.
        order = step.argsort(dim=1, stable=True)[:, :-1]
        first = torch.zeros_like(tokens[:, :1])
        slot = torch.cat([first, order + 1], dim=1)  # where a content stands in the text, the start before all
        when = torch.cat([first + GIVEN, step.gather(1, order)], dim=1)
        x = self.embed(torch.cat([first + self.config.vocab, tokens.gather(1, order)], dim=1))
        cos, sin = self.turns(slot, x)
        mix = partial(attend, seen=bias(when[:, None] <= when[:, :, None], x)[:, None])
        for layer in self.layers:
            x = layer(x, cos, sin, mix)
        contents = self.kept(x)
        turned = cos, sin
        # Which content stands at a place of the text; the one that was left out is never asked for.
        number = tokens.new_zeros((batch, length + 1)).scatter(1, slot, _numbers(slot))
        arrived = torch.cat([first + GIVEN, step], dim=1)
        step = step.clamp(min=GIVEN + 1)  # nobody asks for what is given, but a query that sees nothing is no number
        place = torch.arange(1, length + 1, device=tokens.device)
        near = self.neighbours(arrived[:, None], place.expand(batch, -1), step)
        found = (number.gather(1, each.spot)[..., None].expand(-1, -1, contents.shape[-1]) for each in near)
        x = self.asked([contents.gather(1, each) for each in found], near)
        if self.config.readers:
            key, value = self.memorised(contents, *turned)
            read = partial(attend, key=key, value=value, seen=bias(when[:, None] < step[:, :, None], x)[:, None])
            cos, sin = self.turns(place, x)
            for reader in self.readers:
                x = reader(x, cos, sin, read)
        return self.norm(x)

    def memorised(self, contents: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of contents for the readers."""
        key, value = self.keys_values(contents).unflatten(-1, (2, self.config.heads, -1)).unbind(-3)
        return rotate(key, cos, sin), value

    def neighbours(self, arrived: Tensor, place: Tensor, step: Tensor) -> tuple["Near", "Near"]:
        """The nearest places to the left and to the right of queries that became known before them.

        Arguments:
            arrived: The step at which each place became known, shape `(…, places)`; the start, at place 0, is known.
            place: Where the queries stand, shape `(…)`.
            step: Their steps, of the same shape.
        """
        spots = torch.arange(arrived.shape[-1], device=arrived.device)
        known, here = arrived < step[..., None], place[..., None]
        left = torch.where(known & (spots < here), spots, 0).amax(dim=-1)
        right = torch.where(known & (spots > here), spots, len(spots)).amin(dim=-1)
        none = right == len(spots)
        far = self.get_buffer("far")
        # Where there is nobody to the right, the start stands in, at no distance.
        return Near(left, far[place - left]), Near(
            right.masked_fill(none, 0), far[(right - place).masked_fill(none, 0)] + DISTANCES
        )

    def asked(self, contents: Sequence[Tensor], near: "Sequence[Near]") -> Tensor:
        """What queries start from: a blank, the contents of their neighbours, and their distances."""
        x = self.blank
        for side, content, each in zip(self.sides, contents, near, strict=True):
            x = x + side(content) + self.embed_distance(each.distance)
        return x

    def predictor(self) -> "Recalling":
        from unmask.models.recall import Recalling

        return Recalling(self)

    def turns(self, place: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of places, with room for an axis of heads."""
        cos, sin = self.get_buffer("cos")[place].unsqueeze(-2), self.get_buffer("sin")[place].unsqueeze(-2)
        return cos.to(x.dtype), sin.to(x.dtype)


def _kinds_of_distance(length: int) -> Tensor:
    """One of `DISTANCES` for each distance: single ones first, then wider and wider ranges; 0 is for no neighbour."""
    distance = torch.arange(length)
    single = DISTANCES // 2
    wide = single + 4 * torch.log2(distance.clamp(min=single).double() / single)
    return torch.where(distance < single, distance, wide.long()).clamp(max=DISTANCES - 1)


def _numbers(slot: Tensor) -> Tensor:
    return torch.arange(slot.shape[1], device=slot.device).expand(slot.shape[0], -1)
