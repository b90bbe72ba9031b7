"""What was measured of a model under one order, on texts with different numbers of tokens to fill.

A text with `m` tokens to fill was measured at the same *shares* revealed as every other: with `n_i = ⌈p_i m⌉` visible
for places `p_0 = 0 < p_1 < …`, or after `⌈p_i t⌉` of the `t` teeth of a comb. (`Spread` is even after 2, 4, 8 … tokens
in sequences of any length, so that its places are numbers of tokens.) Kept are, for each text, its *cells*: the loss of
its tokens between two neighbouring places `l` and `l + 1` with the first `n_i` visible, for all `l ≥ i`. From them
follow

* what any sizes cost on these texts: for each text the sum over its own steps, interpolated where a step begins between
  two places; nothing is assumed about how losses depend on the number of tokens;
* the best sizes for any number of tokens, from mean losses per token at each share (`rates`). Where the losses of these
  texts do depend on their number of tokens, the rates do too: near a number of tokens, texts with about so many count
  most. How near is settled by trying: whichever predicts texts left out best, and no dependence unless it is clear.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask.calibration.groups import Deviations, Fold
from unmask.calibration.losses import Losses, Predicted
from unmask.order import Comb, Random, Spread
from unmask.size.stretched import nodes_at

_WIDTHS = (1.0, 0.5, 0.25)  # of the neighbourhood of a number of tokens, in its logarithm
_REFERENCES = 5  # numbers of tokens for which rates are kept, where they depend on it
_FOLDS = 8
_EVERYTHING = np.inf


@final
@dataclass(frozen=True, eq=False)
class Mixed(Losses):
    """What was measured of one order on texts that differ in their number of tokens to fill.

    Attributes:
        unit: What places are counted in: place `v` is the share `v / unit`, of teeth if the order is a comb.
        longest: The largest number of tokens to fill.
        tokens: Number of tokens to fill of each text.
        cells: Shape `(texts, places, places)`: the loss of the tokens of a text between place `l` and the next with the
            tokens before place `i` visible, in entry `[:, i, l]`; 0 for `l < i`.
    """

    unit: int
    longest: int
    tokens: NDArray[np.int64]
    cells: NDArray[np.float32] = field(repr=False)

    def __post_init__(self):
        if check.array("tokens", self.tokens).dtype.kind not in "iu":
            raise check.InputError("tokens", "hold whole numbers")

    @property
    def texts(self) -> int:
        """How many texts."""
        return self.tokens.size

    @property
    def length(self) -> int:
        return self.longest

    @property
    def nodes(self) -> NDArray[np.int64]:
        return self._nodes(self.length)

    @property
    def most(self) -> int:
        return np.unique(self.nodes).size - 1

    @property
    def segments(self) -> int | None:
        """Of the comb, if the order is one with a number of them."""
        return self.order.segments if isinstance(self.order, Comb) else None

    @property
    def absolute(self) -> bool:
        """Whether places are numbers of tokens, and no shares."""
        return isinstance(self.order, Spread)

    def _nodes(self, count: int) -> NDArray[np.int64]:
        return nodes_at(self.visible, self.unit, count, self.segments, absolute=self.absolute)

    @property
    def profile(self) -> NDArray[np.float64]:
        left = np.cumsum(self.widths.sum(axis=0)[::-1])[::-1]
        return self.cells.sum(axis=(0, 2), dtype=np.float64) / np.maximum(left, 1)

    @property
    def whole(self) -> bool:
        """Whether every text was measured with every number of its tokens visible."""
        return self.visible.size == self.unit >= self.length and self.segments is None

    @property
    def one_by_one(self) -> float | None:
        """Nats of a text with one token per step; without a bias where all was measured, or the order is random."""
        if not (self.whole or isinstance(self.order, Random)):
            return None
        return float(self._each_at(_ones).mean())

    @cached_property
    def _kinds(self) -> list[tuple[int, NDArray[np.int64]]]:
        """Each number of tokens, and the texts that have it."""
        return [(int(count), np.flatnonzero(self.tokens == count)) for count in np.unique(self.tokens)]

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Tokens of each text between two places, shape `(texts, places)`."""
        return np.diff([self._nodes(count) for count in self.tokens.tolist()], axis=1)

    def rates(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean loss of a token, by where it is and what is visible, over texts that count so much."""
        total = np.tensordot(weights, self.cells, axes=1)
        tokens = weights @ self.widths
        if isinstance(self.order, Random):
            left = np.cumsum(tokens[::-1])[::-1]
            mean = np.divide(total.sum(axis=1), left, out=np.zeros(left.size), where=left > 0)
            optimize: Any = import_module("scipy.optimize")  # it has no types, and takes long to load
            fit = optimize.isotonic_regression(mean, weights=np.maximum(left, 1e-9), increasing=False)
            return np.tile(fit.x[:, None], (1, left.size))
        return np.divide(total, tokens, out=np.zeros_like(total), where=tokens > 0)

    def _near(self, count: float, width: float) -> NDArray[np.float64]:
        """How much each text counts near a number of tokens."""
        if width == _EVERYTHING:
            return np.ones(self.texts)
        # A little of everything: where there is no text near by, those far away say what there is to say.
        return np.exp(-0.5 * (np.log(self.tokens / count) / width) ** 2) + 1e-6

    @cached_property
    def _width(self) -> float:
        """How near texts must be to count: what predicts the losses of texts left out best, if clearly."""
        counts = np.unique(self.tokens)
        if counts.size < 3 or self.texts < 2 * _FOLDS:
            return _EVERYTHING
        errors = {width: self._left_out(width) for width in (_EVERYTHING, *_WIDTHS)}
        plain = errors.pop(_EVERYTHING)
        best = min(errors, key=lambda width: errors[width].mean())
        gain = plain - errors[best]
        clear = gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(gain.size)
        return best if clear else _EVERYTHING

    def _left_out(self, width: float) -> NDArray[np.float64]:
        """Squared error of the losses of each text, per token, predicted from the other folds."""
        result = np.empty(self.texts)
        for fold in range(_FOLDS):
            out = np.arange(self.texts) % _FOLDS == fold
            for count in np.unique(self.tokens[out]):
                mine = out & (self.tokens == count)
                guess = np.triu(self.rates(self._near(float(count), width) * ~out)) * self.widths[mine][0]
                result[mine] = ((self.cells[mine] - guess) ** 2).sum(axis=(1, 2)) / count
        return result

    def best(self, steps: int) -> size.StretchedTable:
        tokens = [self.length]
        if self._width != _EVERYTHING:
            marks = np.quantile(self.tokens, np.linspace(0, 1, _REFERENCES), method="nearest")
            tokens = np.unique(marks).tolist()
        rates = [self.rates(self._near(float(count), self._width)) for count in tokens]
        return size.StretchedTable(
            steps, self.unit, self.visible.tolist(), tokens, np.stack(rates), self.segments, self.absolute
        )

    @property
    def costs(self) -> NDArray[np.float64]:
        # What `each` gives of `best`, for all numbers of steps in one run through each number of tokens.
        sizes, total = self.best(1), np.zeros(self.most)
        for count, which in self._kinds:
            reach = np.cumsum(self.cells[which].sum(axis=0, dtype=np.float64), axis=1)
            found = [float(reach[cuts[:-1], cuts[1:] - 1].sum()) for cuts in sizes.places(count)[: self.most]]
            total += found + found[-1:] * (self.most - len(found))  # with fewer tokens than steps, one step for each
        return total / self.texts

    def each(self, sizes: size.Blind) -> NDArray[np.float64]:
        """What a size schedule costs on each text."""
        if isinstance(sizes, size.Planned):
            return self._each_at(partial(_taken, sizes))
        result = np.empty(self.texts)
        for count, which in self._kinds:
            mass = sizes.fitted(count).batch_mass(count)
            result[which] = self._spent(count, which, np.arange(count), mass)
        return result

    def _each_at(self, sizes: Callable[[int], NDArray[np.int64]]) -> NDArray[np.float64]:
        result = np.empty(self.texts)
        for count, which in self._kinds:
            taken = sizes(count)
            result[which] = self._spent(count, which, np.cumsum(taken) - taken, taken)
        return result

    def _spent(
        self, count: int, which: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[Any]
    ) -> NDArray[np.float64]:
        """What steps that begin at `starts` cost on texts of so many tokens."""
        nodes = self._nodes(count)
        if isinstance(self.order, Random):
            left = np.maximum(count - nodes[:-1], 1)
            means = self.cells[which].sum(axis=2, dtype=np.float64) / left
            used = np.flatnonzero(np.diff(nodes))  # of places that fall together, the last
            return means[:, used] @ _shared_out(starts, sizes, nodes[used])
        weights = _weights(nodes, starts, sizes)
        return np.tensordot(self.cells[which], weights, axes=2)

    def forecast(self, sizes: size.Blind) -> Predicted | None:
        """That of any sizes in random order, and of fixed sizes in others; under a comb, of those that divide no tooth.

        Part of a tooth was never revealed alone: what lies between two teeth costs less than a line between them.
        """
        if not isinstance(self.order, Random) and not isinstance(sizes, size.Planned):
            return None
        if isinstance(self.order, Comb) and isinstance(sizes, size.Planned) and not self._at_places(sizes):
            return None
        values = self.each(check.instance("sizes", sizes, size.Blind, "be a blind size", check.BLIND_SIZE))
        # Of one text nobody knows how others would differ from it.
        error = Deviations.of(self.texts, values, self.tokens).error if values.size > 1 else math.nan
        return Predicted(float(values.mean()), error, True)

    def _at_places(self, sizes: size.Planned) -> bool:
        """Whether every step begins and ends where it was measured, in all texts."""
        return all(bool(np.isin(np.cumsum(_taken(sizes, count)), self._nodes(count)).all()) for count, _ in self._kinds)

    def differences(self, sizes: size.Planned) -> Deviations:
        return Deviations.of(self.texts, self.each(sizes), self.tokens)

    def grouped(self, sizes: size.Planned) -> NDArray[np.float64]:
        return self.each(sizes)

    def evaluations(self, sizes: size.Planned) -> float:
        check.instance("sizes", sizes, size.Planned, "be a size schedule without randomness")
        steps = {count: _taken(sizes, count).size for count, _ in self._kinds}
        return float(np.mean([steps[count] for count in self.tokens.tolist()]))

    def without(self, fold: Fold) -> "Mixed":
        check.instance("fold", fold, Fold, "be a Fold")
        keep = ~fold.among(self.texts)
        return replace(self, tokens=self.tokens[keep], cells=self.cells[keep])


def _shared_out(starts: NDArray[np.int64], mass: NDArray[Any], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mass at some numbers of visible tokens, moved to the nodes on either side as interpolation does."""
    where = np.interp(starts, nodes, np.arange(nodes.size))
    low = np.minimum(where.astype(np.int64), max(nodes.size - 2, 0))
    right = mass * (where - low)
    result = np.zeros(nodes.size)
    np.add.at(result, low, mass - right)
    np.add.at(result, np.minimum(low + 1, nodes.size - 1), right)
    return result


def _taken(sizes: size.Planned, count: int) -> NDArray[np.int64]:
    fitted = sizes.fitted(count)
    assert isinstance(fitted, size.Planned)  # with fewer steps, and otherwise the same
    found = fitted.sizes(count)
    return found[found > 0]


def _ones(count: int) -> NDArray[np.int64]:
    return np.ones(count, dtype=np.int64)


def _weights(nodes: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """How much of each cell steps cost that begin at `starts`, shape `(places, places)`.

    A step that begins between two places costs what lies between their rows. Of the tokens before the second of them,
    only the first row says anything.
    """
    places = nodes.size - 1
    widths: NDArray[np.int64] = np.maximum(np.diff(nodes), 1)
    result = np.zeros((places, places))
    for start, taken in zip(starts, sizes, strict=True):
        low = int((nodes[:-1] <= start).sum()) - 1
        part = np.minimum(nodes[1:], start + taken) - np.maximum(nodes[:-1], start)
        share = np.maximum(part, 0) / widths
        beyond = (start - nodes[low]) / widths[low]
        result[low] += share * (1 - beyond)
        if beyond > 0:
            result[low, low] += share[low] * beyond
            if low + 1 < places:
                result[low + 1, low + 1 :] += share[low + 1 :] * beyond
    return result
