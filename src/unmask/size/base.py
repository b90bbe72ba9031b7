"""How many tokens to reveal at each step.

A size schedule splits `length` tokens over `steps` steps. With positions drawn uniformly at random, nothing but
the sizes `s_1 … s_K` matters. Write `N_k = s_1 + … + s_k`; the values `N_1 … N_{K−1}` are the **cuts**, and a
schedule that does not look at predictions is a *sampling design over cut positions* `1 … L−1`:

    fixed cuts            even, ceil, cosine, explicit, Chen–Cong–Li       `unmask.size.planned`
                          the optimum for a known curve                    `unmask.size.optimal`
    multinomial           log-linear (ancestral sampling)                  `unmask.size.loglinear`
    conditional Poisson   the paper's π_tc and π_dtc                       `unmask.size.dependence`
    systematic            equal spacing at a random phase, logit, minimax  `unmask.size.systematic`, `.minimax`

Its law enters every expected error only through the **overhang**

    r_i = E[N_{k(i)}] − i,     i = 1 … L−1,

the expected number of tokens that come after the `i`-th one in its own step: the expected KL divergence is
`Σ_i d_i r_i` with the drops `d_i` of the data (see `unmask.information.curve`).

A step may have size zero (the last steps of `Ceil`, the draws of `LogLinear`): it reveals nothing, and a sampler
must not pay a model evaluation for it.

A schedule that looks at predictions (`unmask.size.reactive`) has no law of its own. `Size` is what both kinds are.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.information.curve import Curve

# What `draw` takes for randomness: a generator of numpy, or the seed of one.
Randomness = np.random.Generator | int


class Size(ABC):  # noqa: B024 - what is abstract differs between its two kinds
    """How many tokens to reveal at each step: a `Blind` size, drawn beforehand, or a `Reactive` one."""


@dataclass(frozen=True)
class Blind(Size):
    """A size schedule that is drawn without looking at any prediction, with an exactly known law.

    Arguments:
        steps: The number of steps `K`.
    """

    steps: int

    # True if no curve gives one more step a larger expected error; fixed sizes do not have this property.
    monotone: ClassVar[bool] = False
    # True if some steps may have size zero.
    may_skip: ClassVar[bool] = False
    # True if there may be more steps than tokens. As many steps as tokens then still err.
    may_exceed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check.integer("steps", self.steps, least=1)

    @abstractmethod
    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        """`count` independent draws of the sizes, shape `(count, steps)`; each row sums to `length`.

        Arguments:
            length: The number of tokens.
            rng: A numpy generator, or a seed.
            count: The number of draws.
        """

    @abstractmethod
    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        """`P(some N_k = j)` for `j = 1 … length−1`."""

    @abstractmethod
    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        """`E[s_k]` for `k = 1 … steps`; they sum to `length`."""

    @abstractmethod
    def overhang(self, length: int) -> NDArray[np.float64]:
        """`r_i` for `i = 1 … length−1`."""

    @abstractmethod
    def log_probability(self, sizes: ArrayLike) -> float:
        """Log-probability that a draw for `sum(sizes)` tokens equals `sizes`; `-inf` if it cannot."""

    def sizes(self, length: int) -> NDArray[np.int64]:
        """The sizes, if they are fixed (`Planned`).

        Raises:
            InputError: if they are drawn at random.
        """
        raise check.InputError(
            "", f"{type(self).__name__} draws its sizes at random, so it has no fixed sizes",
            remedy="Call draw(length, rng=…) instead.",
        )  # fmt: skip

    def monotone_on(self, curve: Curve) -> bool:
        """Whether one more step never has a larger expected error on this curve."""
        return self.monotone

    def fitted(self, count: int) -> "Blind":
        """This schedule with no more steps than there are tokens to reveal; override it if it needs no such limit."""
        count = check.integer("count", count, least=0 if self.may_exceed else 1)
        return self if self.may_exceed or self.steps <= count else replace(self, steps=count)

    def batch_mass(self, length: int) -> NDArray[np.float64]:
        """Expected size of the batch that starts when exactly `n` tokens are revealed, `n = 0 … length−1`.

            v_n = E[ Σ_k s_k 1{N_{k−1} = n} ] = 1 + r_{n+1} − r_n,       r_0 = r_L = 0

        The expected negative log-likelihood of the sampler is `Σ_n v_n ℓ(n)`, and `v_n / length` is the
        probability that the paper's training objective is evaluated at level `n`. It is exactly zero where the cut
        probability `b_n` is, as a batch that starts there holds between 1 and `L − n` tokens: `b_n ≤ v_n ≤ (L−n) b_n`.
        """
        mass = 1.0 + np.diff(np.concatenate([[0.0], self.overhang(length), [0.0]]))[:length]
        cut = self.cut_probabilities(length)
        # The difference of two rounded numbers is not quite zero where it should be, and may be negative.
        mass[1:] = np.clip(mass[1:], cut, cut * np.arange(length - 1, 0, -1))
        return mass


class Planned(Blind):
    """A schedule with fixed sizes: a design with one outcome."""

    @abstractmethod
    def sizes(self, length: int) -> NDArray[np.int64]:
        """The sizes, shape `(steps,)`, summing to `length`."""

    def draw(self, length: int, *, rng: Randomness, count: int = 1) -> NDArray[np.int64]:
        check.generator("rng", rng)
        count = counted(count, self.steps)
        return np.tile(self.sizes(length), (count, 1))

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        ends = np.cumsum(self.sizes(length))
        result = np.zeros(length + 1)
        result[ends] = 1.0
        return result[1:length]

    def mean_sizes(self, length: int) -> NDArray[np.float64]:
        return self.sizes(length).astype(np.float64)

    def batch_mass(self, length: int) -> NDArray[np.float64]:
        sizes = self.sizes(length)
        used = sizes[sizes > 0]
        result = np.zeros(length)
        result[np.cumsum(used) - used] = used
        return result

    def overhang(self, length: int) -> NDArray[np.float64]:
        sizes = self.sizes(length)
        ends = np.repeat(np.cumsum(sizes), sizes)
        return (ends - np.arange(1, length + 1))[: length - 1].astype(np.float64)

    def log_probability(self, sizes: ArrayLike) -> float:
        given = as_sizes(sizes)
        mine = self.sizes(int(given.sum()))
        return 0.0 if np.array_equal(given, mine) else -np.inf


def counted(count: object, steps: int, *, least: int = 0) -> int:
    """Return `count` as a number of draws of so many steps each that fit in memory."""
    number = check.integer("count", count, least=least)
    check.room("count", number, steps)
    return number


def at_least_one(ends: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The nearest increasing ends `0 = N_0 < … < N_K = length` to the wanted ones, along the last axis."""
    last = ends.shape[-1] - 1
    step = np.arange(last + 1, dtype=np.int64)
    # N_k − k may not decrease, nor exceed what leaves one token for each later step.
    rising: NDArray[np.int64] = np.maximum.accumulate(ends - step, axis=-1) + step
    return np.minimum(rising, length - (last - step))


def as_sizes(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return `sizes` as a one-dimensional integer array with a positive sum.

    Raises:
        InputError: if they are not integers, one is negative, or there is nothing to reveal.
    """
    array = check.array("sizes", sizes)
    if array.ndim != 1 or array.size == 0:
        raise check.InputError("sizes", "be a non-empty list", detail=f"but its shape is {array.shape}")
    if array.dtype.kind not in "iu":
        raise check.InputError("sizes", "hold integers", found=check.held(array))
    array = array.astype(np.int64)
    if array.min() < 0 or array.sum() < 1:
        raise check.InputError("sizes", "hold non-negative numbers with a positive sum")
    return array
