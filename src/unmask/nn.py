"""A small bidirectional transformer: enough of a model to have something real to schedule.

Rotary positions, RMSNorm, SwiGLU, torch's scaled-dot-product attention; no dropout, no biases. Token ids are `0 …
vocab−1` and the mask is `vocab`. Weights are saved as safetensors with the configuration, and whatever else is worth
knowing, inside the file, so that one file is a model.
"""

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from unmask import check
from unmask.atomic import replacing
from unmask.backend import Tensor, torch
from unmask.predict import Headed

_FORMAT = "unmask-transformer-1"


@dataclass(frozen=True)
class Config:
    """Shape of a transformer.

    Arguments:
        vocab: Number of tokens, without the mask.
        length: Longest sequence.
        width, layers, heads: Size of the model; `width` is a multiple of `2 · heads`.
        hidden: Width of the feed-forward layers.
    """

    vocab: int
    length: int
    width: int = 256
    layers: int = 8
    heads: int = 4
    hidden: int = 672

    def __post_init__(self):
        for name, value in asdict(self).items():
            check.integer(name, value, least=1)
        if self.width % (2 * self.heads):
            raise ValueError(f"Argument 'width' must be a multiple of 2 x {self.heads} heads, not {self.width}.")


class Layer(torch.nn.Module):
    """Attention and a gated feed-forward layer, each on a normalised input and added to it."""

    def __init__(self, config: Config):
        super().__init__()
        width, hidden = config.width, config.hidden
        self.heads = config.heads
        self.attend, self.feed = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate_up = torch.nn.Linear(width, 2 * hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.attend(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.feed(x)).chunk(2, dim=-1)
        return x + self.down(torch.nn.functional.silu(gate) * up)


class Transformer(torch.nn.Module):
    """Maps token ids `(batch, length)` to logits `(batch, length, vocab)`; `body` and `head` are its two halves."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embed = torch.nn.Embedding(config.vocab + 1, config.width)
        self.layers = torch.nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = torch.nn.RMSNorm(config.width)
        self.head = torch.nn.Linear(config.width, config.vocab, bias=False)
        cos, sin = _angles(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                # Branches that add to the stream start smaller, so that depth does not change its scale.
                small = (2 * config.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                torch.nn.init.normal_(parameter, std=small * config.width**-0.5)

    def body(self, tokens: Tensor) -> Tensor:
        """Hidden states, shape `(batch, length, width)`."""
        length = tokens.shape[1]
        if length > self.config.length:
            raise ValueError(f"Argument 'tokens' must have at most {self.config.length} positions, not {length}.")
        x = self.embed(tokens)
        cos, sin = self.get_buffer("cos")[:length].to(x.dtype), self.get_buffer("sin")[:length].to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.body(tokens))

    def predictor(self) -> Headed:
        """This model as a mask predictor: hidden states everywhere, the head where it is asked for."""
        return Headed(self.body, self.head, self.config.vocab, self.config.vocab)


def _angles(config: Config) -> tuple[Tensor, Tensor]:
    half = config.width // config.heads // 2
    rate = 10_000.0 ** (-torch.arange(half) / half)
    angle = torch.outer(torch.arange(config.length), rate)
    return torch.cos(angle), torch.sin(angle)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def save(model: Transformer, path: str | os.PathLike[str], *, about: dict[str, Any], half: bool = True) -> None:
    """Write the weights and the configuration as one safetensors file; it appears complete or not at all.

    Arguments:
        model: The model.
        path: Where to.
        about: Plain values to keep with it, such as the alphabet and how it was trained.
        half: Store in half precision.
    """
    from safetensors.torch import save_file

    dtype = torch.float16 if half else torch.float32
    weights = {name: value.detach().cpu().to(dtype).contiguous() for name, value in model.state_dict().items()}
    text = {"format": _FORMAT, "config": json.dumps(asdict(model.config)), "about": json.dumps(about)}
    with replacing(path) as file:
        save_file(weights, file, metadata=text)


def load(path: str | os.PathLike[str]) -> tuple[Transformer, dict[str, Any]]:
    """Read what `save` wrote: the model in float32, in evaluation mode, and what is known about it.

    Raises:
        ValueError: if the file is not such a model, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except SafetensorError as error:
        raise ValueError(
            f"Argument 'path' must name an intact safetensors file, which {path} is not: {error}."
        ) from None
    if metadata.get("format") != _FORMAT:
        raise ValueError(f"Argument 'path' must name a model saved by unmask, which {path} is not.")
    model = Transformer(Config(**json.loads(metadata["config"])))
    wrong = {name for name, value in model.state_dict().items() if weights.get(name, value[:0]).shape != value.shape}
    if wrong or len(weights) != len(model.state_dict()):
        raise ValueError(f"Argument 'path' must name a complete model, but the weights in {path} do not fit its shape.")
    model.load_state_dict(weights)
    return model.eval(), json.loads(metadata["about"])
