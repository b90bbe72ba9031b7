"""Where the randomness of a batch comes from: one seed for each of its sequences.

Whatever is given becomes one integer for each row, from which come its numbers, sizes and order:

    an integer          the same as `torch.Generator().manual_seed(it)`
    a generator         of torch or of numpy: it draws a seed below 2^62 for each row, one after the other
    a list              one entry for each row: its seed, or a generator that draws it

So one number seeds a whole batch; the seeds of the first rows do not depend on how many follow; and each row can be
repeated alone with the seed that its record holds.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch

Source = np.random.Generator | torch.Generator
Seeds = int | Source | Sequence[int | Source]

_BOUND = 2**62
_MUST = "be a seed, a torch generator, a numpy generator, or a list of these"


def seeds_of(rng: Seeds, batch: int) -> tuple[int, ...]:
    """A seed for each of `batch` sequences.

    Arguments:
        rng: A seed, a generator, or a list with one of these for each sequence.
        batch: Number of sequences.

    Raises:
        InputError: if it is none of these, a seed is no integer from 0 to 2^64 − 1, or the list has another length.

    Example:
        >>> seeds_of([3, 5], 2)
        (3, 5)
        >>> seeds_of(7, 2) == seeds_of(torch.Generator().manual_seed(7), 2) == seeds_of(7, 9)[:2]
        True
    """
    batch = check.integer("batch", batch, least=0)
    check.room("batch", batch)
    listed = _listed(rng, batch)
    if listed is None:
        return _drawn(source_of(rng, _MUST), batch)
    return tuple(_drawn(each, 1)[0] if isinstance(each, Source) else check.seed("rng", each) for each in listed)


def check_seeds(rng: object) -> None:
    """Refuse what is no source of seeds, for however many sequences; nothing is drawn from it.

    Raises:
        InputError: as for `seeds_of`, but for the length of a list.
    """
    listed = _sequence(rng)
    if listed is None:
        source_of(rng, _MUST)
    for each in listed or ():
        if not isinstance(each, Source):
            check.seed("rng", each)


def sources_of(
    seeds: Sequence[int], lengths: NDArray[np.int64], width: int
) -> tuple[list[np.random.Generator], NDArray[np.float64]]:
    """The randomness of each sequence, and one uniform number for each of its positions.

    The numbers come first, so that they are the same under every schedule; sizes and orders come from what is left.

    Arguments:
        seeds: The seed of each sequence.
        lengths: Its tokens, padding left out.
        width: Positions of the batch; those after the end of a sequence have 0.
    """
    sources = [np.random.default_rng(seed) for seed in seeds]
    uniform = np.zeros((len(seeds), width))
    for row, (source, length) in enumerate(zip(sources, lengths, strict=True)):
        uniform[row, :length] = source.random(length)
    return sources, uniform


def source_of(rng: object, must: str = "be a seed, a torch generator or a numpy generator") -> Source:
    """The generator that an integer stands for, or the given one; `must` says what else is not refused."""
    if isinstance(rng, Source):
        return rng
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        return torch.Generator().manual_seed(check.seed("rng", cast(int, rng)))
    raise check.InputError("rng", must, found=check.shown(rng))


def _listed(rng: object, batch: int) -> Sequence[object] | None:
    values = _sequence(rng)
    if values is not None and len(values) != batch:
        raise check.InputError("rng", f"hold one seed for each of the {batch} sequences", found=f"{len(values)}")
    return values


def _sequence(rng: object) -> Sequence[object] | None:
    given: Any = rng
    if isinstance(rng, Tensor | np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        return None
    return check.listed("rng", cast(object, given), "be a list of seeds")


def _drawn(source: Source, count: int) -> tuple[int, ...]:
    if isinstance(source, np.random.Generator):
        return tuple(source.integers(_BOUND, size=count).tolist())
    drawn = torch.randint(_BOUND, (count,), generator=source, device=source.device)
    return tuple(plain(drawn))
