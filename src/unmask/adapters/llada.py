# pyright: basic
"""The LLaDA family: how many tokens each step transfers.

Everything that descends from LLaDA's `generate` asks one function, `get_num_transfer_tokens(mask_index, steps)`, how
many tokens to reveal at each step of a block. `transfer_counts` answers the same question for any size that does not
look at predictions. Even sizes give the original's numbers.

That loop runs as many steps as it is told, and reads a column for each: so the table always has that many, and those
that reveal nothing are last. They still cost an evaluation each. A loop of one's own can stop before them (`steps_of`).

The engine keeps its own order and draw. The guarantees of `unmask.bounds` are about `remasking='random'` at
temperature 1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.sample import seeds_of
from unmask.size.base import Blind, Planned
from unmask.size.reactive import Reactive


def transfer_counts(
    mask_index: Tensor,
    steps: int,
    size: Callable[[int], Blind] | Blind,
    generator: torch.Generator | Sequence[int] | None = None,
) -> Tensor:
    """How many tokens to reveal at each step, for each sequence: a drop-in for `get_num_transfer_tokens`.

    Steps of size zero come last, and a sequence with fewer masks than steps takes one step per mask, so that steps at
    which no sequence reveals anything are the last ones: a loop may stop before them (`steps_of`).

    Arguments:
        mask_index: Booleans, shape `(batch, length)`: the masked positions.
        steps: Number of steps.
        size: Makes sizes from a number of steps: a class such as `size.Even`, or any function; or finished sizes that
            have no more steps.
        generator: Source of one seed for each row, or the seeds; fixed sizes need none.

    Returns:
        Integers, shape `(batch, steps)`, on the device of `mask_index`; each row sums to its number of masked tokens.

    Example:
        >>> from unmask import size
        >>> transfer_counts(torch.ones((1, 10), dtype=torch.bool), 4, size.Even).tolist()
        [[3, 3, 2, 2]]
    """
    if mask_index.ndim != 2 or mask_index.dtype != torch.bool:
        raise check.InputError(
            "mask_index",
            "hold booleans of shape (batch, length)",
            found=f"{mask_index.dtype} of shape {tuple(mask_index.shape)}",
        )
    steps = check.integer("steps", steps, least=1)
    # A rule that looks at predictions takes other numbers than steps, and would complain about that.
    design: Any = size
    if callable(size) and not isinstance(size, Blind) and not (isinstance(size, type) and issubclass(size, Reactive)):
        design = size(steps)
    if not isinstance(design, Blind):
        raise check.InputError(
            "size",
            "be a blind size, or a function that makes one from a number of steps",
            found=check.type_of(design) if design is size else "",
            detail="" if design is size else f"but this function made {check.type_of(design)}",
            remedy=check.BLIND_SIZE,
        )
    if design.steps > steps:
        raise check.InputError("size", f"take at most {steps} steps", found=f"{design.steps}")
    counts = mask_index.sum(dim=1).tolist()
    if generator is None and not isinstance(design, Planned):
        raise check.InputError(
            "generator", "be a torch.Generator", found=f"None, because {type(design).__name__} draws its sizes"
        )
    seeds = [0] * len(counts) if generator is None else seeds_of(generator, len(counts))
    table = np.zeros((len(counts), steps), dtype=np.int64)
    for row, (count, seed) in enumerate(zip(counts, seeds, strict=True)):
        if count:
            drawn = design.fitted(count).draw(count, rng=np.random.default_rng(seed))[0]
            kept = drawn[drawn > 0]
            table[row, : kept.size] = kept
    return torch.from_numpy(table).to(mask_index.device)


def steps_of(counts: Tensor) -> int:
    """How many steps reveal anything in some sequence: `for i in range(steps_of(counts))` loses nothing.

    Example:
        >>> steps_of(torch.tensor([[2, 1, 0], [3, 0, 0]]))
        2
    """
    return int((counts > 0).any(dim=0).sum())
