"""The layers that our networks are made of: attention and a gated feed-forward part, each added to what comes in.

What a state attends to is a network's own matter, so a layer is given a function that does it: `mix(query, key, value)`
for a layer, `mix(query)` for a reader, whose keys and values are those of a memory. Everything else treats a state by
itself, whatever the shape before its last axis.

What a part adds may be dropped out in training, which decides how much (`drop_out`); nothing is by default.
"""

from collections.abc import Callable
from typing import final

from unmask._torch import Tensor, torch
from unmask.models import _fused as fused
from unmask.models._attention import rotate

Mix = Callable[[Tensor, Tensor, Tensor], Tensor]
Read = Callable[[Tensor], Tensor]


@final
class Feed(torch.nn.Module):
    """A gated feed-forward layer on a normalised input, added to it."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.gate_up = torch.nn.Linear(width, 2 * hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.down(gated(self.gate_up(self.norm(x)))))


def gated(x: Tensor) -> Tensor:
    """One half of the states let through by the other."""
    if fused.usable(x):
        return fused.gated(x)
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


@final
class Layer(torch.nn.Module):
    """Attention of states to one another, then a feed-forward layer."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.drop = torch.nn.Dropout(0.0)
        self.feed = Feed(width, hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mix: Mix) -> Tensor:
        joint = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        # Queries and keys at once: a small step of a large model is as long as its number of launches.
        query, key = rotate(joint[..., :2, :, :], cos.unsqueeze(-3), sin.unsqueeze(-3)).unbind(-3)
        return self.feed(x + self.drop(self.out(mix(query, key, joint[..., 2, :, :]))))


@final
class Reader(torch.nn.Module):
    """Attention of some states to a memory, then a feed-forward layer."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.RMSNorm(width)
        self.query = torch.nn.Linear(width, width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.drop = torch.nn.Dropout(0.0)
        self.feed = Feed(width, hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mix: Read) -> Tensor:
        query = rotate(self.query(self.norm(x)).unflatten(-1, (self.heads, -1)), cos, sin)
        return self.feed(x + self.drop(self.out(mix(query))))


def start_small(network: torch.nn.Module, width: int, depth: int) -> None:
    """Draw the matrices of a fresh network; branches that add to the stream smaller, so that depth keeps its scale."""
    for name, parameter in network.named_parameters():
        if parameter.ndim == 2:
            small = (2 * depth) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
            torch.nn.init.normal_(parameter, std=small * width**-0.5)


def drop_out(network: torch.nn.Module, share: float) -> None:
    """Have a share of what every part adds left out in training, at random."""
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share
