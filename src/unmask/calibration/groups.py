"""How texts differ, in a compact form that gives the standard error of any forecast.

What a schedule costs on a text is a sum of *columns*, numbers measured on that text. Of `N` texts, their mean is kept
elsewhere; here is how `G` groups of consecutive texts deviate from it. Let group `g` have `n_g` texts and deviate by
`x_g` in some sum of columns. If texts are independent with variance `σ²`, then `x_g` has about the variance `σ²/n_g`,
and

    σ̂² = 1/(G−1) · Σ_g n_g x_g²,            standard error² = σ̂² / N

is without bias. Up to 64 texts every text is its own group, and this is the usual standard error. Of more, groups keep
the size of a calibration within bounds, at the price of `G−1` degrees of freedom instead of `N−1`. Groups are
consecutive because neighbours in a file are alike: neighbouring groups have less in common than neighbouring texts.
"""

import base64
import binascii
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check

COUNTS = (64, 32, 16)  # each divides the one before it, so that a text's group lies within one of every coarser kind
_STORED = 1 << 22  # numbers kept of an order: 11 MB in a file
_HELD = 1 << 27  # numbers held while an order is measured: 512 MB
_LARGEST = 1e30  # nats: float32 has room for it


def how_many(texts: int, stored: int, held: int) -> int:
    """Number of groups for so many texts; 0 if even a few would take too much room.

    Arguments:
        texts: Number of texts.
        stored: Columns of each group that are kept.
        held: Numbers of each group that are held until those are known.

    Example:
        >>> how_many(32, 561, 8448), how_many(4096, 561, 8448), how_many(4096, 2**17, 2**18), how_many(32, 2**21, 2**22)
        (32, 64, 32, 0)
    """
    for most in COUNTS:
        count = min(texts, most)
        if count * stored <= _STORED and count * held <= _HELD:
            return count
    return 0


@final
@dataclass(frozen=True)
class Fold:
    """Consecutive texts, one of as many equal parts of all of them.

    Attributes:
        number: Which of the parts.
        count: How many parts there are.
    """

    number: int
    count: int

    def among(self, texts: int) -> NDArray[np.bool_]:
        """Which of so many texts it holds."""
        bounds = Groups.bounds(texts, self.count)
        place = np.arange(texts)
        return (place >= bounds[self.number]) & (place < bounds[self.number + 1])


@final
@dataclass(frozen=True, eq=False)
class Deviations:
    """By how much groups of consecutive texts deviate from the mean of all, in one number.

    Attributes:
        texts: Number of texts.
        values: One for each group.
    """

    texts: int
    values: NDArray[np.float64]

    @staticmethod
    def of(texts: int, nats: NDArray[Any], tokens: NDArray[Any]) -> "Deviations":
        """From what groups of texts cost.

        A text that is twice as long is no deviation for costing twice as much: what is subtracted is what as many
        tokens cost on average. The error, over the mean number of tokens, is then that of nats per token, a ratio of
        two means.

        Arguments:
            texts: Number of texts.
            nats: Nats per sequence of each group.
            tokens: Tokens to fill in a sequence of each group, on average.

        Example:
            >>> Deviations.of(3, np.array([2.0, 4.0, 6.0]), np.array([10, 20, 30])).error
            0.0
        """
        sizes = np.diff(Groups.bounds(texts, nats.size))
        each = float(sizes @ nats.astype(np.float64)) / float(sizes @ tokens.astype(np.float64))
        return Deviations(texts, nats.astype(np.float64) - each * tokens)

    @property
    def error(self) -> float:
        """The standard error of the mean.

        Example:
            >>> Deviations(4, np.array([-1.0, 1.0, 1.0, -1.0])).error ** 2
            0.3333333333333333
        """
        sizes = np.diff(Groups.bounds(self.texts, self.values.size))
        return float(np.sqrt(sizes @ self.values**2 / ((self.values.size - 1) * self.texts)))

    def minus(self, other: "Deviations") -> "Deviations | None":
        """The deviations of a difference, on the same texts; None if the two have different ones."""
        if self.texts != other.texts:
            return None
        count = min(self.values.size, other.values.size)
        return Deviations(self.texts, self.joined(count) - other.joined(count))

    def joined(self, count: int) -> NDArray[np.float64]:
        """Those of fewer groups, whose bounds are among the bounds of these."""
        groups = Groups(self.texts, np.zeros((self.values.size, 0), dtype=np.float32))
        return groups.joined_values(self.values, count)


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """By how much groups of consecutive texts deviate from the mean of all.

    Attributes:
        texts: Number of texts.
        deviations: Shape `(groups, columns)`, float32.
    """

    texts: int
    deviations: NDArray[np.float32]

    @staticmethod
    def bounds(texts: int, count: int) -> NDArray[np.int64]:
        """Where each of `count` groups begins among the texts, and where the last one ends."""
        return np.arange(count + 1) * texts // count

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of texts in each group."""
        return np.diff(self.bounds(self.texts, len(self.deviations)))

    def along(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """By how much each group deviates in a weighted sum of the columns."""
        return self.deviations @ weights

    def error(self, along: NDArray[np.float64]) -> float:
        """The standard error of a mean over the texts, from how much each group deviates from it.

        Example:
            >>> float(Groups(4, np.empty((4, 1), dtype=np.float32)).error(np.array([-1.0, 1.0, 1.0, -1.0])) ** 2)
            0.3333333333333333
        """
        return float(np.sqrt(self.sizes @ along**2 / ((along.size - 1) * self.texts)))

    def joined(self, count: int) -> "Groups":
        """The same in fewer groups, whose bounds are among those of these."""
        return Groups(self.texts, self.joined_values(self.deviations, count).astype(np.float32))

    def joined_values(self, values: NDArray[Any], count: int) -> NDArray[np.float64]:
        """What each of fewer groups has on average, of something that each of these has along the first axis."""
        starts = np.searchsorted(self.bounds(self.texts, self.sizes.size), self.bounds(self.texts, count)[:-1])
        weights = self.sizes.reshape(-1, *[1] * (values.ndim - 1))
        return np.add.reduceat(values * weights, starts, axis=0) / np.add.reduceat(weights, starts, axis=0)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values: numbers of 16 bits, whose three digits are more than an error needs."""
        scale = float(np.abs(self.deviations).max(initial=0.0)) or 1.0
        small = (self.deviations / scale).astype("<f2")
        return {
            "texts": self.texts,
            "count": len(small),
            "scale": float(f"{scale:.6g}"),
            "deviations": base64.b64encode(small.tobytes()).decode(),
        }

    @classmethod
    def from_json(cls, data: object, columns: int) -> "Groups":
        """What `to_json` described.

        Raises:
            InputError: if it cannot have been that, or is not of so many columns.
        """
        given = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        if not {"texts", "count", "scale", "deviations"} <= given.keys():
            raise check.InputError("groups", "be an object with texts, count, scale and deviations")
        texts = check.integer("texts", given["texts"], least=2, most=check.EXACT)
        count = check.integer("count", given["count"], least=2, most=texts)
        scale = check.real("scale", given["scale"], above=0.0)
        if count != texts and count not in COUNTS:
            raise check.InputError(
                "count", f"be one of {', '.join(map(str, COUNTS))}, or the number of texts", found=f"{count}"
            )
        try:
            raw = base64.b64decode(given["deviations"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise check.InputError("deviations", "hold numbers in base64") from None
        if len(raw) != 2 * count * columns:
            raise check.InputError("deviations", f"have {2 * count * columns} bytes", found=f"{len(raw)}")
        small = np.frombuffer(raw, dtype="<f2").reshape(count, columns)
        if not np.all(np.abs(small) <= 1.0):
            raise check.InputError("deviations", "lie between -1 and 1")
        if scale > _LARGEST:
            raise check.InputError("scale", f"be at most {_LARGEST:g}", found=f"{scale:g}")
        return cls(texts, small.astype(np.float32) * np.float32(scale))
