"""Attention of the small transformer: rotary positions, what a batch keeps for its readers, and what attends to what.

Where sequences of a batch differ in length, `present` is false at the padding after their ends, and no query sees a
key there. Without padding there is no mask, and attention is as fast as it can be.
"""

from typing import NamedTuple, final

from unmask._torch import Tensor, torch
from unmask.models import _fused as fused


@final
class Digest(NamedTuple):
    """What the layers make of a batch: states `(batch, length, width)`, keys and values `(batch, length, heads, …)`."""

    states: Tensor
    keys: Tensor
    values: Tensor

    def expand(self, batch: int) -> "Digest":
        return Digest(*(part.expand(batch, *part.shape[1:]) for part in self))


@final
class Rows(NamedTuple):
    """Positions at which a batch is read: flat indices, and where each stands in a table `(batch, breadth)`.

    Everything but attention treats a row by itself. Attention needs the rows of a sequence side by side, in a table
    with a line for each sequence.
    """

    flat: Tensor
    place: Tensor
    breadth: int

    @staticmethod
    def at_home(flat: Tensor, length: int) -> "Rows":
        """Rows that keep their positions in the table, which then has room for all: nothing is counted."""
        return Rows(flat, flat, length)

    @staticmethod
    def packed(flat: Tensor, batch: int, length: int) -> "Rows":
        """Rows moved to the left, in a table just broad enough for the sequence that has most."""
        sequence = flat // length
        count = torch.bincount(sequence, minlength=batch)
        breadth = int(count.max()) if batch else 0
        grouped = torch.argsort(sequence, stable=True)
        place = torch.empty_like(flat)
        place[grouped] = torch.arange(len(flat)) - (count.cumsum(0) - count)[sequence[grouped]]
        return Rows(flat, sequence * breadth + place, breadth)


def angles(length: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position, for heads of a width."""
    half = width // 2
    rate = 10_000.0 ** (-torch.arange(half) / half)
    angle = torch.outer(torch.arange(length), rate)
    return torch.cos(angle), torch.sin(angle)


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None = None) -> Tensor:
    """Attention over `(batch, length, heads, …)`, heads joined again.

    Arguments:
        query: What asks.
        key: What is compared with it.
        value: What is read.
        seen: Which keys a query sees, as booleans or as numbers to add, of a shape that fits `(batch, heads, queries,
            keys)`. All are by default.
    """
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return mixed.transpose(1, 2).flatten(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """States turned by the angles of their positions."""
    if fused.usable(x):
        return fused.rotate(x, cos, sin)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
