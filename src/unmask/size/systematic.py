"""Systematic sampling of the cuts: one uniform phase decides them all.

Given cut probabilities `b_1 … b_{L−1}` with `Σ b = K−1`, let `c_j = b_1 + … + b_j` and draw one phase `U` on `[0, 1)`.
There is a cut at `j` when some `U + integer` lies in `[c_{j−1}, c_j)`. Every draw has exactly `K−1` cuts, each `j`
has its probability `b_j`, and two cuts never fall within a stretch whose probabilities sum to less than one, so

    P(no cut in [i, i+m]) = (1 − b_i − … − b_{i+m})_+        r_i = Σ_m P(no cut in [i, i+m])
    E[s_k] = Σ_{j=0}^{L−1} (1 − |c_j − (k−1)|)_+
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.size._windows import window_sums
from unmask.size.base import Blind, Randomness, as_sizes, at_least_one, counted


class Systematic(Blind):
    """A schedule that draws its cuts systematically from its cut probabilities."""

    @abstractmethod
    def cut_probabilities(self, length: int) -> NDArray[np.float64]: ...

    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        generator = check.generator("rng", rng)
        return self.sizes_at(length, generator.random(counted(count, self.steps)))

    def draw_stratified(self, length: int, *, rng: Randomness, count: int) -> NDArray[np.int64]:
        """As `draw`, with the phases of the rows spread evenly: `U_b = U + b/count` modulo 1.

        Each row has exactly the law of a single draw, because `U` is uniform on the whole circle. (With
        `U_b = (b + U)/count` instead, row `b` would see only its own stretch of phases.) Averages over rows usually
        vary less than with independent phases. They can vary more, where the error repeats itself `count` times as the
        phase goes round: the rows then agree.
        """
        generator = check.generator("rng", rng)
        count = counted(count, self.steps, least=1)
        return self.sizes_at(length, (generator.random() + np.arange(count) / count) % 1.0)

    def sizes_at(self, length: int, phases: ArrayLike) -> NDArray[np.int64]:
        """The sizes for given phases in `[0, 1)`, shape `(len(phases), steps)`."""
        given = check.numbers("phases", phases)
        if given.ndim != 1 or not np.all((given >= 0) & (given < 1)):
            raise check.InputError("phases", "be a list of numbers that are at least 0 and less than 1")
        running = self._running(length)
        marks = given[:, None] + np.arange(self.steps - 1)
        ends = np.empty((given.size, self.steps + 1), dtype=np.int64)
        ends[:, 0], ends[:, -1] = 0, length
        ends[:, 1:-1] = np.searchsorted(running, marks.ravel(), side="right").reshape(marks.shape)
        # A mark that rounding moves into the next stretch would leave a step with nothing to reveal.
        return np.diff(at_least_one(ends, length), axis=1)

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        # The hat functions of neighbouring k overlap in pairs, so each c_j is shared between two steps.
        running = self._running(length)
        lower = np.minimum(running.astype(np.int64), self.steps - 1)
        share = running - lower
        result = np.zeros(self.steps + 1)
        result += np.bincount(lower, 1 - share, minlength=self.steps + 1)
        result += np.bincount(lower + 1, share, minlength=self.steps + 1)
        return result[: self.steps]

    def overhang(self, length: int) -> NDArray[np.float64]:
        return window_sums(np.asarray(self.cut_probabilities(length), dtype=np.float64))

    def log_probability(self, sizes: ArrayLike) -> float:
        given = as_sizes(sizes)
        if given.size != self.steps or given.min() < 1:
            return -np.inf
        running = self._running(int(given.sum()))
        cuts = np.cumsum(given)[:-1]
        mark = np.arange(self.steps - 1)
        low = np.max(running[cuts - 1] - mark, initial=0.0)
        high = np.min(running[cuts] - mark, initial=1.0)
        return float(np.log(high - low)) if high > low else -np.inf

    def _running(self, length: int) -> NDArray[np.float64]:
        """`c_0 … c_{L−1}`, ending exactly at `K−1` so that rounding cannot lose the last cut."""
        running = np.concatenate([[0.0], np.cumsum(self.cut_probabilities(length))])
        if self.steps > 1:
            # The error of a long sum is spread over all of it: the last stretches may be narrower than it is.
            running *= (self.steps - 1) / running[-1]
        running[-1] = self.steps - 1
        return np.minimum(running, self.steps - 1)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a continuous function changes sign between `low` and `high`, to the last digits."""
    # Here, because it is the slowest import of the core, and most schedules never need it.
    from scipy.optimize import brentq  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType] - no types

    find = cast(Callable[..., float], brentq)
    # Where the function is nearly flat the method falls back on bisections; a hundred steps, the default, can be few.
    return float(find(function, low, high, xtol=1e-15, maxiter=1000))


@final
@dataclass(frozen=True)
class Offset(Systematic):
    """Equal spacing at a random phase: every cut position is equally likely.

    It shows what fixed equal sizes cost on average if their alignment with the length is left to chance.

    Example:
        >>> Offset(3).cut_probabilities(5)
        array([0.5, 0.5, 0.5, 0.5])
    """

    monotone: ClassVar[bool] = True

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        return np.full(length - 1, (steps - 1) / max(length - 1, 1))
