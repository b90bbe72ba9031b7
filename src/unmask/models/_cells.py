"""Contents and queries of a step as flat lists, and the tables that attention needs of them.

Everything but attention treats a state by itself, so that those of all sequences stand in one list, whatever their
number in each. Attention needs those of a sequence side by side: a table with a line for each.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from unmask._torch import Tensor, torch

COMPANY = 16  # rows that a matrix product on a CPU has at the least: below that its rounding depends on how many


@final
class Cells(NamedTuple):
    """Contents or queries of a part, and where each stands in a table `(sequences, breadth)` for attention.

    Attributes:
        token: Token ids of contents; unused for queries.
        line: The sequence of each within its part.
        slot: Its place in the text, the start at 0.
        step: Its step.
        cell: Its cell of the table.
        breadth: The breadth of the table.
        whole: True if the cells are all of the table, in order.
    """

    token: Tensor
    line: Tensor
    slot: Tensor
    step: Tensor
    cell: Tensor
    breadth: int
    whole: bool

    def table(self, values: Tensor, lines: int) -> Tensor:
        """Values of the cells in the table, shape `(lines, breadth, …)`, and zeros elsewhere."""
        if self.whole:
            return values.view(lines, self.breadth, *values.shape[1:])
        blank = values.new_zeros((lines * self.breadth, *values.shape[1:]))
        return blank.index_copy(0, self.cell, values).view(lines, self.breadth, *values.shape[1:])

    def back(self, table: Tensor) -> Tensor:
        """The cells of a table."""
        flat = table.flatten(0, 1)
        return flat if self.whole else flat[self.cell]


def joined(parts: Sequence[Cells]) -> Cells | None:
    """Cells of several kinds in one table, side by side; None if there are none at all."""
    parts = [part for part in parts if part.slot.numel()]
    if len(parts) <= 1:
        return parts[0] if parts else None
    breadth = rounded(sum(part.breadth for part in parts), parts[0].line)
    before, cells = 0, list[Tensor]()
    for part in parts:
        cells.append(part.line * breadth + before + part.cell - part.line * part.breadth)
        before += part.breadth
    token, line, slot, step = (torch.cat(each) for each in list(zip(*parts, strict=True))[:4])
    return Cells(token, line, slot, step, torch.cat(cells), breadth, False)


def padded(values: Tensor) -> Tensor:
    """At least so many rows that matrix products round as they do with any more; on a GPU nobody promises that."""
    missing = 0 if values.is_cuda else COMPANY - len(values)
    return torch.cat([values, values.new_zeros((missing, *values.shape[1:]))]) if missing > 0 else values


def bias(seen: Tensor, x: Tensor) -> Tensor:
    """What attention adds where something is not seen: made once, since torch would make it anew in every layer."""
    return torch.zeros_like(seen, dtype=x.dtype).masked_fill_(~seen, -torch.inf)


def rounded(breadth: int, near: Tensor) -> int:
    """The breadth of a table: attention rounds alike in all those that hold whole companies of rows."""
    return breadth if near.is_cuda else -(-breadth // COMPANY) * COMPANY
