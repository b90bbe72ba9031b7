"""How much positions tell you about each other, given the revealed tokens.

The *dependence* of position `i` on position `j` when `n` others are visible is by how much revealing `j` lowers the
loss at `i`,

    D_n(i, j) = E[ ℓ_i(A) − ℓ_i(A ∪ {j}) ],        A a random set of n positions without i and j.

For a perfect predictor it is the conditional mutual information `I(X_i; X_j | X_A)` on average over `A`, and symmetric.
Two positions revealed in one step after `n` others are drawn as if it were zero, and to second order what a step
ignores is the sum over its pairs; an order that keeps dependent positions out of the same step is
`unmask.calibration.learning`.

What pairs cannot show: in a parity check any two bits are independent until all but two are known. So `D` is kept at
several shares of revealed positions, the largest of which leaves just two. Dependence of three or more positions of
which no two depend on each other at any measured share stays unseen, and what an order costs must be measured
(`unmask.calibration.refinement`).
"""

import json
import os
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import _files
from unmask._atomic import replacing
from unmask.calibration.numbers import numbers_of, text_of

SCHEMA = 1
_LONGEST = 4096  # positions of a matrix: each share of it then has 16 million pairs

Numbers = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Dependence:
    """Dependence of every position on every other: for fixed layouts, such as images and boards.

    Attributes:
        shares: Shares of the positions that were revealed, of those that can be: 0 is none, 1 all but two.
        values: Nats by which revealing the second position lowers the loss at the first, shape `(shares, length,
            length)`; 0 where nothing was measured.
        errors: Their standard errors over texts.
        counts: Texts in which each pair was measured.
        texts: Texts in all.
        model: A fingerprint of the model.
    """

    shares: tuple[float, ...]
    values: Numbers
    errors: Numbers
    counts: Numbers
    texts: int
    model: str = ""

    def __post_init__(self):
        _check(self, 3)

    @property
    def length(self) -> int:
        """Positions."""
        return self.values.shape[1]

    @property
    def matrix(self) -> Numbers:
        """The mean over the shares, shape `(length, length)`: row `i` says what tells of position `i`."""
        return _mean(self.values, self.counts)

    def table(self) -> tuple[Numbers, Numbers, Numbers]:
        """Values, errors and counts of all pairs."""
        return self.values, self.errors, self.counts

    @property
    def by_distance(self) -> "ByDistance":
        """The same pooled over pairs that are as far apart, as if positions had a line and no other layout.

        Its errors are upper bounds: pairs of one text differ together, and how much so is not kept, but the error of
        a mean is at most the mean of the errors. `measure_distances` has the standard error itself.
        """
        apart = np.abs(np.subtract.outer(np.arange(self.length), np.arange(self.length))).ravel()

        def pooled(each: Numbers) -> Numbers:
            rows = each.reshape(len(self.shares), -1)
            return np.stack([np.bincount(apart, weights=row, minlength=self.length).astype(np.float64) for row in rows])

        counts = pooled(self.counts)
        some = np.maximum(counts, 1)
        values, errors = pooled(self.values * self.counts) / some, pooled(self.errors * self.counts) / some
        return ByDistance(self.shares, values, errors, counts, self.texts, self.model)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        _save(self, path)


@final
@dataclass(frozen=True, eq=False)
class ByDistance:
    """Dependence of positions that are so far apart: for text, where no position is special.

    Attributes:
        shares: Shares of the positions that were revealed, of those that can be: 0 is none, 1 all but two.
        values: Nats by which revealing a position lowers the loss of another one at a distance of 0, 1, 2, …, shape
            `(shares, length)`; 0 where nothing was measured, such as at the distance 0.
        errors: Their standard errors over texts; if made from single pairs (`Dependence.by_distance`), upper bounds.
        counts: Pairs measured at each distance.
        texts: Texts in all.
        model: A fingerprint of the model.
    """

    shares: tuple[float, ...]
    values: Numbers
    errors: Numbers
    counts: Numbers
    texts: int
    model: str = ""

    def __post_init__(self):
        _check(self, 2)

    @property
    def length(self) -> int:
        """Positions of the longest text."""
        return self.values.shape[1]

    @property
    def mean(self) -> Numbers:
        """The mean over the shares at each distance."""
        return _mean(self.values, self.counts)

    @property
    def by_distance(self) -> "ByDistance":
        """Itself."""
        return self

    def table(self) -> tuple[Numbers, Numbers, Numbers]:
        """Values, errors and counts of all pairs, equal for those that are as far apart."""
        check.room("length", self.length**2, 3 * len(self.shares))
        apart = np.abs(np.subtract.outer(np.arange(self.length), np.arange(self.length)))
        return self.values[:, apart], self.errors[:, apart], self.counts[:, apart]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        _save(self, path)


def load_dependence(path: str | os.PathLike[str]) -> Dependence | ByDistance:
    """Read what `save` of either wrote.

    Raises:
        InputError: if the file cannot be read, or holds anything else.
    """
    text = _files.read_text(path, "path", most=_files.CALIBRATION)
    try:
        found = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        raise check.InputError("path", "be a dependence file in valid JSON", detail=f"but '{path}' is not") from None
    data = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if data.get("schema") != SCHEMA or data.get("kind") not in ("pairs", "distances"):
        must = "be a file written by `unmask calibrate --dependence`"
        raise check.InputError("path", must, detail=f"but '{path}' is not")
    kind = Dependence if data["kind"] == "pairs" else ByDistance
    shares = tuple(check.real("shares", each) for each in check.listed("shares", data.get("shares"), "be a list"))
    length = check.integer("length", data.get("length"), least=2, most=_LONGEST if kind is Dependence else 2**24)
    shape = (len(shares), length, length) if kind is Dependence else (len(shares), length)
    cells = int(np.prod(shape))
    values, errors, counts = (
        numbers_of(key, data.get(key), cells, signed=key == "values").astype(np.float64).reshape(shape)
        for key in ("values", "errors", "counts")
    )
    texts = check.integer("texts", data.get("texts"), least=1, most=check.EXACT)
    model = check.instance("model", data.get("model", ""), str, "be text")
    return kind(shares, values, errors, counts, texts, model)


def _save(found: Dependence | ByDistance, path: str | os.PathLike[str]) -> None:
    data = {
        "schema": SCHEMA,
        "kind": "pairs" if isinstance(found, Dependence) else "distances",
        "length": found.length,
        "texts": found.texts,
        "model": found.model,
        "shares": list(found.shares),
        **{key: text_of(getattr(found, key)) for key in ("values", "errors", "counts")},
    }
    with replacing(check.path("path", path)) as file:
        file.write_text(json.dumps(data) + "\n")


def check_shares(shares: object) -> tuple[float, ...]:
    """Return the shares if they are numbers from 0 to 1, ascending, at least one."""
    given = tuple(check.real("shares", each) for each in check.listed("shares", shares, "be a list of numbers"))
    if not given or list(given) != sorted(set(given)) or given[0] < 0 or given[-1] > 1:
        raise check.InputError("shares", "be different numbers from 0 to 1 in ascending order", found=f"{list(given)}")
    return given


def _check(found: Dependence | ByDistance, axes: int) -> None:
    object.__setattr__(found, "shares", check_shares(found.shares))
    check.integer("texts", found.texts, least=1)
    for name in ("values", "errors", "counts"):
        given = check.numbers(name, getattr(found, name))
        length = given.shape[-1] if given.ndim else 0
        if given.ndim != axes or given.shape != (len(found.shares), *[length] * (axes - 1)) or length < 2:
            shape = f"({len(found.shares)}, length, length)" if axes == 3 else f"({len(found.shares)}, length)"
            raise check.InputError(name, f"have the shape {shape} with a length of at least 2", found=f"{given.shape}")
        if given.shape != np.shape(found.values) or not np.all(np.isfinite(given)):
            raise check.InputError(name, "hold a finite number for each of the values")
        given = given.copy()
        given.setflags(write=False)
        object.__setattr__(found, name, given)
    if axes == 3 and found.length > _LONGEST:
        raise check.InputError("values", f"have at most {_LONGEST} positions", found=f"{found.length}")


def _mean(values: Numbers, counts: Numbers) -> Numbers:
    """The mean over those shares at which there is a value."""
    there = counts > 0
    return (values * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
