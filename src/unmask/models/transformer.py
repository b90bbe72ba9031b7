"""A small bidirectional transformer: enough of a model to have something real to schedule.

Rotary positions, RMSNorm, SwiGLU, torch's scaled-dot-product attention; no dropout, no biases. Token ids are `0 …
vocab−1`, the mask is `vocab`, and `vocab+1` fills up sequences that are shorter than others of their batch.

A sampler's step needs predictions at few positions, so the depth is split. The first layers mix all positions with one
another and end in a memory: keys and values of every position. The readers after them let each position read that
memory and nothing else, so they run at the positions asked for and no others: with 16 steps, at a sixteenth of them.

Weights are saved as safetensors with the configuration, and whatever else is worth knowing, inside the file, so that
one file is a model.
"""

import json
import os
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, final

from unmask import _check as check
from unmask._atomic import replacing
from unmask._files import check_file
from unmask._memory import check_memory
from unmask._torch import Tensor, plain, torch
from unmask.models._attention import Memory, Rows, angles, attend, rotate
from unmask.predict import MaskPredictor
from unmask.predict.base import Prediction

_FORMAT = "unmask-transformer-2"
_FLOATS = ("F16", "BF16", "F32", "F64")  # as safetensors has them
LARGEST = 65504.0  # of a weight: half precision, in which they are kept, has no more
DEEPEST = 4096  # layers: more are no model, and take minutes to make before anything can be refused
_TOKENS = 1024  # tokens that a CPU takes through the layers at once: their activations stay in its cache


@final
@dataclass(frozen=True)
class Config:
    """Shape of a transformer.

    Arguments:
        vocab: Number of tokens, without the mask.
        length: Longest sequence.
        width: Width of a state, a multiple of `2 · heads`.
        layers: Layers that mix all positions.
        readers: Layers after them, which run only where a prediction is wanted.
        heads: Attention heads.
        hidden: Width of the feed-forward part of a layer.
        reader_hidden: The same of a reader, where width costs a sampler little.
    """

    vocab: int
    length: int
    width: int = 256
    layers: int = 4
    readers: int = 4
    heads: int = 4
    hidden: int = 512
    reader_hidden: int = 928

    def __post_init__(self):
        for name, value in asdict(self).items():
            check.integer(name, value, least=1, most=DEEPEST if name in ("layers", "readers") else None)
        if self.width % (2 * self.heads):
            raise check.InputError("width", f"be a multiple of 2 x {self.heads} heads", found=f"{self.width}")

    @property
    def parameters(self) -> int:
        """How many numbers the weights of such a model are.

        Example:
            >>> Config(vocab=27, length=256).parameters
            6146304
        """
        width = self.width
        layer = width * (4 * width + 3 * self.hidden + 2)
        reader = width * (2 * width + 3 * self.reader_hidden + 2)
        outside = width * (2 * self.vocab + 1 + 2 * width + 2)
        return self.layers * layer + self.readers * reader + outside


@final
class Feed(torch.nn.Module):
    """A gated feed-forward layer on a normalised input, added to it."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.gate_up = torch.nn.Linear(width, 2 * hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(torch.nn.functional.silu(gate) * up)


@final
class Layer(torch.nn.Module):
    """Attention of all positions to all, then a feed-forward layer."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.norm = torch.nn.RMSNorm(config.width)
        self.qkv = torch.nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = torch.nn.Linear(config.width, config.width, bias=False)
        self.feed = Feed(config.width, config.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, present: Tensor | None) -> Tensor:
        query, key, value = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        return self.feed(x + self.out(attend(query, key, value, present)))


@final
class Reader(torch.nn.Module):
    """Attention of some rows to a memory, then a feed-forward layer."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.norm = torch.nn.RMSNorm(config.width)
        self.query = torch.nn.Linear(config.width, config.width, bias=False)
        self.out = torch.nn.Linear(config.width, config.width, bias=False)
        self.feed = Feed(config.width, config.reader_hidden)

    def forward(
        self, x: Tensor, memory: Memory, rows: Rows, cos: Tensor, sin: Tensor, present: Tensor | None
    ) -> Tensor:
        query = rotate(self.query(self.norm(x)).unflatten(-1, (self.heads, -1)), cos, sin)
        batch = memory.keys.shape[0]
        table = query.new_zeros((batch * rows.breadth, *query.shape[1:])).index_copy(0, rows.place, query)
        mixed = attend(table.view(batch, rows.breadth, *query.shape[1:]), memory.keys, memory.values, present)
        return self.feed(x + self.out(mixed.flatten(0, 1)[rows.place]))


@final
class Transformer(torch.nn.Module):
    """Maps token ids `(batch, length)` to logits `(batch, length, vocab)`, in three stages: memory, readers, head."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embed = torch.nn.Embedding(config.vocab + 1, config.width)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.kept = torch.nn.RMSNorm(config.width)
        self.keys_values = torch.nn.Linear(config.width, 2 * config.width, bias=False)
        self.readers = torch.nn.ModuleList(Reader(config) for _ in range(config.readers))
        self.norm = torch.nn.RMSNorm(config.width)
        self.head = torch.nn.Linear(config.width, config.vocab, bias=False)
        cos, sin = angles(config.length, config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        depth = config.layers + config.readers
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                # Branches that add to the stream start smaller, so that depth does not change its scale.
                small = (2 * depth) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                torch.nn.init.normal_(parameter, std=small * config.width**-0.5)

    def forward(self, tokens: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits of all positions, or of the flat indices into `batch · length` asked for, shape `(rows, vocab)`."""
        if rows is None:
            return self(tokens, torch.arange(tokens.numel(), device=tokens.device)).unflatten(0, tokens.shape)
        return self.head(self.read(self.memory(tokens), Rows.at_home(rows, tokens.shape[1])))

    def memory(self, tokens: Tensor, present: Tensor | None = None) -> Memory:
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
        cos, sin = self._turns(torch.arange(length, device=tokens.device), x)
        for layer in self.layers:
            x = layer(x, cos, sin, present)
        key, value = self.keys_values(self.kept(x)).unflatten(-1, (2, self.config.heads, -1)).unbind(-3)
        return Memory(x, rotate(key, cos, sin), value)

    def read(self, memory: Memory, rows: Rows, present: Tensor | None = None) -> Tensor:
        """Hidden states of the rows, shape `(rows, width)`; `present` as for the memory."""
        x = memory.states.flatten(0, 1)[rows.flat]
        cos, sin = self._turns(rows.flat % memory.states.shape[1], x)
        for reader in self.readers:
            x = reader(x, memory, rows, cos, sin, present)
        return self.norm(x)

    def predictor(self) -> "Reading":
        """This model as a mask predictor."""
        return Reading(self)

    def _turns(self, positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the positions, with room for an axis of heads."""
        cos, sin = self.get_buffer("cos")[positions, None], self.get_buffer("sin")[positions, None]
        return cos.to(x.dtype), sin.to(x.dtype)


@final
@dataclass(frozen=True, eq=False)
class Reading(MaskPredictor):
    """A transformer as a mask predictor: memory everywhere, readers and head where a prediction is wanted.

    Where sequences are filled up with `pad`, a GPU runs them as one batch with a mask in its attention. A masked sum is
    rounded otherwise than a shorter one, so a CPU runs the sequences of one length at a time, as if they were alone: to
    the last bit they are told what a batch of them without padding is told.
    """

    model: Transformer

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.config.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.config.vocab

    @property
    def pad(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.config.vocab + 1

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        index = torch.arange(tokens.numel(), device=tokens.device) if rows is None else rows
        if tokens.is_cuda:
            present = tokens != self.pad if self._padded(tokens) else None
            # To count the rows of a sequence would be to wait for the GPU.
            places = Rows.at_home(index, tokens.shape[1])
            hidden = self.model.read(self.model.memory(tokens, present), places, present)
        else:
            hidden = (self._by_length if self._padded(tokens) else self._hidden)(tokens, index)
        return Prediction((hidden,), self.model.head, self.vocab)

    def _padded(self, tokens: Tensor) -> bool:
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
            raise check.InputError("tokens", "have padding after the end of a sequence alone")
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

    def _memory(self, tokens: Tensor) -> Memory:
        """The memory of a batch, a few sequences at a time; of one, if all are equal, as they are at the first step."""
        if len(tokens) > 1 and bool((tokens == tokens[:1]).all()):
            return self.model.memory(tokens[:1]).expand(len(tokens))
        few = torch.split(tokens, max(1, _TOKENS // tokens.shape[1]))
        return Memory(*map(torch.cat, zip(*map(self.model.memory, few), strict=True)))


def save(model: Transformer, path: str | os.PathLike[str], *, about: dict[str, Any], half: bool = True) -> None:
    """Write the weights and the configuration as one safetensors file; it appears complete or not at all.

    Arguments:
        model: The model.
        path: Where to.
        about: Plain values to keep with it, such as the alphabet and how it was trained.
        half: Store in half precision.
    """
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

    dtype = torch.float16 if half else torch.float32
    weights = {name: value.detach().cpu().to(dtype).contiguous() for name, value in model.state_dict().items()}
    if not all(bool(torch.isfinite(value).all()) for value in weights.values()):
        raise check.InputError("model", f"have weights that are numbers and fit into {dtype}")
    text = {"format": _FORMAT, "config": json.dumps(asdict(model.config)), "about": json.dumps(about)}
    with replacing(path) as file:
        save_file(weights, file, metadata=text)


def load(path: str | os.PathLike[str]) -> tuple[Transformer, dict[str, Any]]:
    """Read what `save` wrote: the model in float32, in evaluation mode, and what is known about it.

    What the file says of its shape is compared with the weights that it has before any memory is taken for them.
    Whether the weights are numbers is not looked at, which would take as long as reading them: losses tell.

    Raises:
        InputError: if the file cannot be read, is not such a model, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    check_file(path, "path")
    opened: Any = safe_open  # it is not Python, and says nothing of its types
    try:
        with opened(path, framework="pt") as file:
            config, about = _described(file.metadata() or {}, path)
            slices: dict[str, Any] = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no dictionary
            shapes: dict[str, tuple[int, ...]] = {name: tuple(each.get_shape()) for name, each in slices.items()}
            _check_shapes(config, shapes, path)
            if not all(each.get_dtype() in _FLOATS for each in slices.values()):
                raise _incomplete(path, "some of its weights are no floating-point numbers")
            weights: dict[str, Tensor] = {name: file.get_tensor(name).float() for name in slices}
    except (SafetensorError, OSError) as error:
        raise check.InputError(
            "path", "name an intact safetensors file", detail=f"which {path} is not: {error}"
        ) from None
    with torch.random.fork_rng(devices=[]):  # the weights drawn are replaced, and nobody asked for them
        model = Transformer(config)
    if {name: tuple(value.shape) for name, value in model.state_dict().items()} != shapes:
        raise _incomplete(path, "its weights do not fit its shape")
    model.load_state_dict(weights)
    return model.eval(), about


def _described(metadata: dict[str, str], path: str | os.PathLike[str]) -> tuple[Config, dict[str, Any]]:
    """The shape of a model and what is known about it, from the texts in its file."""
    if metadata.get("format") != _FORMAT:
        raise check.InputError("path", "name a model saved by unmask", detail=f"which {path} is not")
    found: dict[str, dict[str, Any]] = {}
    for key in ("config", "about"):
        try:
            value: Any = json.loads(metadata[key])
        except (KeyError, ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _incomplete(path, f"its '{key}' is missing, or no JSON object")
        found[key] = value
    try:
        return Config(**found["config"]), found["about"]
    except TypeError:
        raise _incomplete(path, "its 'config' has other fields") from None
    except check.InputError as error:
        raise _incomplete(path, f"its '{error.argument}' cannot be {error.found}") from None


def _check_shapes(config: Config, shapes: dict[str, tuple[int, ...]], path: str | os.PathLike[str]) -> None:
    """Refuse a shape that the weights of a file cannot have, before a model of that shape is made."""
    count = 6 * (config.layers + config.readers) + 5
    if len(shapes) != count or sum(map(prod, shapes.values())) != config.parameters:
        raise _incomplete(path, "its weights do not fit its shape")
    turns = 2 * 4 * config.length * (config.width // config.heads // 2)
    check_memory(turns + 4 * config.parameters, "path")


def _incomplete(path: str | os.PathLike[str], reason: str) -> check.InputError:
    return check.InputError("path", "name a complete model", detail=f"which {path} is not: {reason}")
