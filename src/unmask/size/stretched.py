"""The best sizes for any number of tokens, from losses that were measured with a certain number.

Losses depend on the share of the tokens that is revealed much more than on their number. So what was measured with `L`
tokens to fill says what to expect with `m` of them: the losses at the same shares. The best sizes are then a shortest
path, as ever (`unmask.size.optimal`), found anew for each number of tokens; with `L` of them they are the optimum of
what was measured, exactly.

    Stretched         random order: a loss curve, and cuts anywhere
    StretchedTable    any order: losses between places where they were measured, and cuts at those places

Where losses depend on the number of tokens too, they may be given for several numbers; between two of these they change
in proportion to the logarithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.information.curve import Curve
from unmask.size.base import Planned
from unmask.size.optimal import Paths, best_paths, table_paths


@final
@dataclass(frozen=True)
class Stretched(Planned):
    """The sizes with the smallest expected error on a loss curve that is stretched to the number of tokens.

    Arguments:
        steps: The number of steps.
        curve: The loss curve, for sequences of any length.

    Example:
        >>> curve = Curve([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        >>> Stretched(2, curve).sizes(6), Stretched(2, curve).sizes(12)
        (array([3, 3]), array([6, 6]))
    """

    curve: Curve

    def __post_init__(self) -> None:
        super().__post_init__()
        check.instance("curve", self.curve, Curve, "be an unmask.Curve")

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        return np.diff(best_paths(stretched(self.curve, length), steps).cuts(steps))


def stretched(curve: Curve, length: int) -> Curve:
    """The curve of sequences of another length that lose as much at each share revealed.

    Example:
        >>> stretched(Curve([1.0, 0.5]), 4).loss.tolist()
        [1.0, 0.75, 0.5, 0.5]
    """
    length = check.integer("length", length, least=1, most=check.LONGEST)
    if length == curve.length:
        return curve
    share = np.arange(length) / length * curve.length
    return Curve(np.interp(share, np.arange(curve.length), curve.loss))


@final
@dataclass(frozen=True, eq=False)
class StretchedTable(Planned):
    """The sizes with the smallest cost for losses under some blind order, at the shares where they were measured.

    Arguments:
        steps: The number of steps.
        length: What the places are counted in: a place `v` is the share `v / length`.
        visible: Places where losses were measured, ascending from 0.
        tokens: Numbers of tokens to fill that losses are given for, ascending.
        rates: Shape `(len(tokens), places, places)`: mean loss in nats of a token between place `l` and the next one,
            with the tokens before place `i` visible, in entry `[…, i, l]`. Entries with `l < i` are ignored.
        segments: For a comb, its number of segments: shares are then those of its teeth, and no cut divides a tooth.
        absolute: True if places are numbers of tokens, whatever there are to fill: for an order whose even prefixes
            have the same numbers of tokens in every sequence, as those of `Spread` do.

    Example:
        >>> rates = [[[1.0, 1.0, 1.0], [0, 0.5, 0.9], [0, 0, 0.2]]]
        >>> StretchedTable(2, 6, [0, 2, 4], [6], rates).sizes(6), StretchedTable(2, 6, [0, 2, 4], [6], rates).sizes(12)
        (array([4, 2]), array([8, 4]))
    """

    length: int
    visible: tuple[int, ...]
    tokens: tuple[int, ...]
    rates: NDArray[np.float64]
    segments: int | None
    absolute: bool

    def __init__(
        self,
        steps: int,
        length: int,
        visible: Sequence[int],
        tokens: Sequence[int],
        rates: ArrayLike,
        segments: int | None = None,
        absolute: bool = False,
    ) -> None:
        length = check.integer("length", length, least=1, most=check.LONGEST)
        places = _ascending("visible", visible, least=0, most=length - 1)
        if places[0] != 0:
            raise check.InputError("visible", "begin with 0", found=f"{places[0]}")
        numbers = _ascending("tokens", tokens, least=1, most=check.LONGEST)
        values = check.numbers("rates", rates)
        if values.shape != (len(numbers), len(places), len(places)):
            wanted = (len(numbers), len(places), len(places))
            raise check.InputError("rates", f"have the shape {wanted}", found=f"{values.shape}")
        kept = np.triu(values) + 0.0  # no −0, which is equal to 0 and has another hash
        if not np.all(np.isfinite(kept)):
            raise check.InputError("rates", "hold finite numbers")
        kept.setflags(write=False)
        if segments is not None:
            check.integer("segments", segments, least=1)
        check.instance("absolute", absolute, bool, "be True or False")
        parts = {"length": length, "visible": places, "tokens": numbers, "rates": kept}
        for name, value in {**parts, "segments": segments, "absolute": absolute}.items():
            object.__setattr__(self, name, value)
        super().__init__(steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StretchedTable):
            return NotImplemented
        mine, theirs = self._key, other._key
        return mine == theirs and np.array_equal(self.rates, other.rates)

    def __hash__(self) -> int:
        return hash((self._key, self.rates.tobytes()))

    @property
    def _key(self) -> tuple[object, ...]:
        return self.steps, self.length, self.visible, self.tokens, self.segments, self.absolute

    def fitted(self, count: int) -> "StretchedTable":
        count = check.integer("count", count, least=1)
        most = _different(self._nodes(count)).size - 1
        return self if self.steps <= most else replace(self, steps=most)

    def _nodes(self, count: int) -> NDArray[np.int64]:
        return nodes_at(self.visible, self.length, count, self.segments, absolute=self.absolute)

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        nodes = self._nodes(length)
        different = _different(nodes)
        if steps > different.size - 1:
            raise check.InputError("steps", f"be at most {different.size - 1} for {length} tokens", found=f"{steps}")
        return np.diff(nodes[different[self._paths(length, steps).cuts(steps)]])

    def places(self, length: int) -> list[NDArray[np.int64]]:
        """Which places the best sizes for so many tokens cut at, with 1, 2, … steps: all that there are, at once.

        Example:
            >>> rates = [[[1.0, 1.0, 1.0], [0, 0.5, 0.9], [0, 0, 0.2]]]
            >>> [cuts.tolist() for cuts in StretchedTable(1, 6, [0, 2, 4], [6], rates).places(6)]
            [[0, 3], [0, 2, 3], [0, 1, 2, 3]]
        """
        length = check.integer("length", length, least=1, most=check.LONGEST)
        different = _different(self._nodes(length))
        paths = self._paths(length, different.size - 1)
        return [different[paths.cuts(steps)] for steps in range(1, different.size)]

    def _paths(self, length: int, steps: int) -> Paths:
        nodes = self._nodes(length)
        different = _different(nodes)
        reach = table_reach(nodes, self._at(length))[different[:-1]][:, different[1:] - 1]
        return table_paths(reach, steps)

    def _at(self, length: int) -> NDArray[np.float64]:
        """The rates for so many tokens."""
        marks: NDArray[np.float64] = np.log(np.array([*self.tokens, length], dtype=np.float64))
        where = float(np.interp(marks[-1:], marks[:-1], np.arange(len(self.tokens)))[0])
        low = min(int(where), max(len(self.tokens) - 2, 0))
        if where == low:
            return self.rates[low]
        return self.rates[low] + (where - low) * (self.rates[low + 1] - self.rates[low])


def nodes_at(
    visible: ArrayLike, length: int, count: int, segments: int | None = None, *, absolute: bool = False
) -> NDArray[np.int64]:
    """Where cuts may fall with `count` tokens: at the same shares as places of `length`, rounded up, and at the end.

    Arguments:
        visible: Places.
        length: What they are counted in.
        count: Number of tokens.
        segments: Of a comb, if it is one: shares are those of its teeth.
        absolute: Whether places are numbers of tokens, and no shares.

    Example:
        >>> nodes_at([0, 2, 4], 6, 4).tolist(), nodes_at([0, 2, 4], 6, 2).tolist()
        ([0, 2, 3, 4], [0, 1, 2, 2])
        >>> nodes_at([0, 1, 2, 3], 4, 10, segments=3).tolist()  # four teeth, of 3, 3, 2 and 2 tokens
        [0, 3, 6, 8, 10]
    """
    if absolute:
        return np.append(np.minimum(np.asarray(visible, dtype=np.int64), count), count)
    teeth = count if segments is None else -(-count // min(segments, count))
    tooth = -(-np.asarray(visible, dtype=np.int64) * teeth // length)
    return np.append(tooth * (count // teeth) + np.minimum(tooth, count % teeth), count)


def _different(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which places are different ones; of those that fall together, the last."""
    return np.append(np.flatnonzero(np.diff(nodes)), nodes.size - 1)


def table_reach(nodes: NDArray[np.int64], rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cost of going from each place to each later one, shape `(places, places)`; column `l` ends at place `l + 1`."""
    return np.cumsum(np.triu(rates) * np.diff(nodes), axis=1)


def _ascending(name: str, values: object, *, least: int, most: int) -> tuple[int, ...]:
    given = tuple(check.integer(name, each, least=least, most=most) for each in check.listed(name, values, "be a list"))
    if not given or any(after <= before for before, after in pairwise(given)):
        raise check.InputError(name, "be a list of ascending integers", found=check.shown(list(given)))
    return given
