"""What can be known of a plan before the model runs: the positions of each block in their order, and the sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.order import BlindOrder
from unmask.sample.seeds import sources_of
from unmask.schedule import Schedule
from unmask.size.base import Blind, Planned
from unmask.size.reactive import Reactive


def agenda_of(
    schedule: Schedule, masked: NDArray[np.bool_], sources: list[np.random.Generator], lengths: NDArray[np.int64]
) -> "list[list[Stretch]]":
    """The blocks of each sequence one after the other, all that can be known before the model runs.

    Where nothing is drawn, sequences that have the same to fill share one list.
    """
    draws, known = _Draws(schedule.size), dict[bytes, list[Stretch]]()
    within = schedule.within
    settled = isinstance(schedule.size, Planned) and isinstance(within, BlindOrder) and within.fixed
    result: list[list[Stretch]] = []
    for row, source, length in zip(masked, sources, lengths, strict=True):
        own = row[:length]
        key = own.tobytes() if settled else b""
        if key not in known or not settled:
            known[key] = _agenda(schedule, draws, own, source)
        result.append(known[key])
    return result


def planned_steps(
    schedule: Schedule, masked: NDArray[np.bool_], seeds: Sequence[int], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The step at which a sampler with these seeds reveals each position under a blind schedule; −1 where it is given.

    Arguments:
        schedule: A schedule that does not look at predictions.
        masked: Positions to fill, shape `(batch, length)`.
        seeds: The seed of each sequence.
        lengths: Tokens of each sequence, its padding left out.
    """
    sources, _ = sources_of(seeds, lengths, int(masked.shape[1]))
    return steps_in(agenda_of(schedule, masked, sources, lengths), masked.shape)


def steps_in(agenda: "list[list[Stretch]]", shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The step of each position of a batch, −1 where there is none; all of it must be known beforehand."""
    step = np.full(shape, -1, dtype=np.int64)
    done: dict[int, NDArray[np.int64]] = {}
    for row, stretches in zip(step, agenda, strict=True):
        if id(stretches) in done:  # as another one
            row[:] = done[id(stretches)]
        elif stretches:
            done[id(stretches)] = row
            sizes = np.concatenate([stretch.sizes for stretch in stretches])
            row[np.concatenate([stretch.positions for stretch in stretches])] = np.repeat(np.arange(sizes.size), sizes)
    return step


def sets_in(stretches: "Sequence[Stretch]") -> list[NDArray[np.int64]]:
    """The positions of each step of a sequence, in their order; all of it must be known beforehand."""
    return [part for each in stretches for part in np.split(each.positions, np.cumsum(each.sizes)[:-1])]


@final
@dataclass(frozen=True, eq=False)
class Stretch:
    """One block of one sequence.

    Attributes:
        positions: Its positions, in order if the order is blind.
        sizes: How many of them each step reveals, if the size is blind; empty otherwise.
    """

    positions: NDArray[np.int64]
    sizes: NDArray[np.int64]


@final
class _Draws:
    """Sizes for any number of positions; fixed ones are worked out once for the whole batch."""

    def __init__(self, size: Blind | Reactive):
        self.size = size
        self.fitted: dict[int, tuple[Blind, NDArray[np.int64] | None]] = {}

    def __call__(self, count: int, source: np.random.Generator) -> tuple[int | None, NDArray[np.int64]]:
        """The number of steps and the sizes above zero for `count` positions; neither if the size needs predictions."""
        if isinstance(self.size, Reactive):
            return None, np.zeros(0, dtype=np.int64)
        try:
            if count not in self.fitted:
                size = self.size.fitted(count)
                self.fitted[count] = size, size.sizes(count) if isinstance(size, Planned) else None
            size, sizes = self.fitted[count]
            sizes = size.draw(count, rng=source)[0] if sizes is None else sizes
        except check.InputError as error:  # a size made for one length, say
            more = f"The size had to split the {count} masked positions of a sequence or block."
            raise error.changed(remedy=f"{error.remedy} {more}".strip()) from None
        if sizes.sum() != count or sizes.min() < 0:
            raise check.InputError(
                "",
                f"The size must split the {count} masked positions into steps, "
                f"but {size!r} returned {sizes.tolist()[:16]}",
            )
        return size.steps, sizes[sizes > 0]


def _agenda(schedule: Schedule, draws: _Draws, masked: NDArray[np.bool_], source: np.random.Generator) -> list[Stretch]:
    result: list[Stretch] = []
    for block in schedule.order.blocks(np.nonzero(masked)[0]):
        if block.size == 0:
            continue
        steps, sizes = draws(block.size, source)
        if isinstance(schedule.within, BlindOrder):
            wanted = block
            block = schedule.within.arrange(wanted, length=masked.size, steps=steps, rng=source)
            # One of your own may leave out a position, which would then stay masked for ever.
            if not np.array_equal(np.sort(block), wanted):
                raise check.InputError(
                    "", f"The order must return every masked position once, but {schedule.within!r} did not"
                )
            if schedule.spaced is not None and sizes.size:  # otherwise what is near is seen only at each step
                block = schedule.spaced.apart(block, sizes)
        result.append(Stretch(block, sizes))
    return result
