"""Uniform distributions over linear codes: worst cases of the theory, at any length.

A linear code of length `L` and dimension `d` over the field GF(q) is a `d`-dimensional space of sequences;
the tokens `0 … q−1` stand for the field's elements in `galois`' integer representation. Draw a codeword
uniformly. Its tokens then have a law with no shades of grey. For a revealed set `A`, let `r(A)` be the rank
of the generator's columns in `A`:

    H(X_A) = r(A) log q          H(X_i | X_A) = log q or 0

so a masked token is either uniform or determined, and the loss drops where the rank stops growing. Two
extremes matter:

* **Reed–Solomon** codes (evaluations of polynomials of degree below `d`) are maximum distance separable: any
  `d` tokens are independent, and they determine all others. The loss curve is a single step at `n = d`. Every
  loss curve is a positive combination of such steps, so a guarantee that holds for these codes holds for all
  distributions. `TC = (L−d) log q`, `DTC = d log q`.
* **Parity** is the case `d = L−1`, over any field and at any length: `TC = log q`, `DTC = (L−1) log q`.

Every code answers one question, `_solve(revealed)`: which of the revealed tokens are free, which positions
they determine, and by which linear map. Marginals, probabilities and draws follow from that.

References:
    Reed and Solomon, "Polynomial codes over certain finite fields" (1960).
    Berrut and Trefethen, "Barycentric Lagrange interpolation" (2004).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

import unmask._check as check
from unmask.distribution.base import Distribution
from unmask.information.curve import Curve

_MOST_ALPHABET = 2**31


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """What a set of revealed tokens says about a codeword.

    Arguments:
        free: Revealed positions whose tokens are independent and determine all the other revealed ones.
        determined: The other positions whose tokens are functions of the free ones, revealed or not.
        matrix: The map: tokens at `determined` are the tokens at `free` times `matrix`, over the field.
    """

    free: NDArray[np.int64]
    determined: NDArray[np.int64]
    matrix: NDArray[np.int64]


class Code(Distribution):
    """The uniform distribution over a linear code of dimension `dimension` over GF(`vocab`)."""

    dimension: int

    @abstractmethod
    def _solve(self, revealed: NDArray[np.int64]) -> Solution:
        """What the tokens at the sorted positions `revealed` determine."""

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`−d log q` for each row of `tokens` that is a codeword, `-inf` for the others, shape `(batch,)`."""
        tokens = check.tokens("tokens", tokens, length=self.length, vocab=self.vocab)
        solution = self._solve(np.arange(self.length))
        implied = _times(tokens[:, solution.free], solution.matrix, self.vocab)
        inside = (tokens[:, solution.determined] == implied).all(axis=1)
        return np.where(inside, -self.dimension * math.log(self.vocab), -np.inf)

    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent codewords, shape `(count, length)`: uniform messages times a generator."""
        count, source = self._draws(count, rng)
        solution = self._solve(np.arange(self.length))
        tokens = np.empty((count, self.length), dtype=np.int64)
        message = source.integers(self.vocab, size=(count, solution.free.size))
        tokens[:, solution.free] = message
        tokens[:, solution.determined] = _times(message, solution.matrix, self.vocab)
        return tokens

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        result = np.full((*tokens.shape, self.vocab), 1.0 / self.vocab)
        # The linear algebra depends on the revealed positions only, so rows that share them share it.
        patterns, group = np.unique(masked, axis=0, return_inverse=True)
        group = group.reshape(-1)
        for number, hidden in enumerate(patterns):
            solution = self._solve(np.flatnonzero(~hidden))
            if not solution.determined.size:
                continue
            rows = np.flatnonzero(group == number)
            implied = _times(tokens[np.ix_(rows, solution.free)], solution.matrix, self.vocab)
            unknown = hidden[solution.determined]
            seen = tokens[np.ix_(rows, solution.determined[~unknown])]
            possible = (implied[:, ~unknown] == seen).all(axis=1)
            certain = solution.determined[unknown]
            row, column = rows[possible][:, None], certain[None, :]
            result[row, column] = 0.0
            result[row, column, implied[np.ix_(possible, unknown)]] = 1.0
        return result


class Separable(Code):
    """A maximum-distance-separable code: any `dimension` tokens are free and determine all the others."""

    def curve(self) -> Curve:
        """The exact loss curve: `log q` below `dimension` visible tokens, zero from there on."""
        return Curve(np.where(np.arange(self.length) < self.dimension, math.log(self.vocab), 0.0))

    def _solve(self, revealed: NDArray[np.int64]) -> Solution:
        if revealed.size < self.dimension:
            return _nothing_determined(revealed)
        free = revealed[: self.dimension]
        determined = np.setdiff1d(np.arange(self.length), free)
        return Solution(free, determined, self._rule(free, determined))

    @abstractmethod
    def _rule(self, free: NDArray[np.int64], determined: NDArray[np.int64]) -> NDArray[np.int64]:
        """The matrix over the field that gives the determined tokens from the free ones."""


@final
@dataclass(frozen=True)
class ReedSolomon(Separable):
    """The uniform law on a Reed–Solomon code: `x_j = f(α_j)` for a random polynomial `f` of degree below `d`.

        ℓ(n) = log q  for n < d,    0  for n ≥ d

    The evaluation points `α_j` are the first `length` field elements. Revealed tokens below `dimension` say
    nothing about the others; from there on they say everything, by Lagrange interpolation.

    Arguments:
        length: The number of tokens `L`, at most `alphabet`.
        dimension: The number of free tokens `d`, at most `length`.
        alphabet: The order `q` of the field, a prime power; the vocabulary.

    Raises:
        InputError: if `alphabet` is not a prime power, or `1 ≤ dimension ≤ length ≤ alphabet` does not hold.

    References:
        Reed and Solomon, "Polynomial codes over certain finite fields" (1960).
        Berrut and Trefethen, "Barycentric Lagrange interpolation" (2004).

    Example:
        Codimension 5 at length 2000: five tokens' worth of total correlation.

        >>> curve = ReedSolomon(2000, 1995, 2048).curve()
        >>> round(curve.total_correlation, 2), round(curve.dual_total_correlation / math.log(2048))
        (38.12, 1995)
        >>> code = ReedSolomon(4, 2, 5)
        >>> code.marginals([1, 2, 0, 0], [False, False, True, True]).argmax(axis=2).tolist()
        [[1, 2, 3, 4]]
    """

    length: int
    dimension: int
    alphabet: int
    vocab: int = field(init=False, repr=False)

    def __post_init__(self):
        order = prime_power("alphabet", self.alphabet)
        length = check.integer("length", self.length, least=1, most=check.LONGEST)
        if length > order:
            raise check.InputError(
                "length",
                f"be at most the alphabet size {order}",
                found=f"{length}",
                remedy="Each position needs its own field element.",
            )
        dimension = check.integer("dimension", self.dimension, least=1, most=check.LONGEST)
        if dimension > length:
            raise check.InputError("dimension", f"be at most the length {length}", found=f"{dimension}")
        for name, value in (
            ("length", length),
            ("dimension", dimension),
            ("alphabet", order),
            ("vocab", order),
        ):
            object.__setattr__(self, name, value)

    def _rule(self, free: NDArray[np.int64], determined: NDArray[np.int64]) -> NDArray[np.int64]:
        return _lagrange(free, determined, self.vocab)


@final
@dataclass(frozen=True)
class Parity(Separable):
    """The uniform law on sequences whose tokens sum to zero in GF(q): one check token.

        ℓ(n) = log q  for n < L−1,    ℓ(L−1) = 0

    The last token is minus the sum of the others, and so is every token.

    Arguments:
        length: The number of tokens `L`.
        alphabet: The order `q` of the field, a prime power; the vocabulary.

    Raises:
        InputError: if `length` is less than 1 or `alphabet` is not a prime power.

    References:
        Zhao and Cai, "Adaptation to Intrinsic Dependence in Diffusion Language Models" (2026), low-TC
        example.

    Example:
        >>> curve = Parity(1000).curve()
        >>> bit = math.log(2)
        >>> round(curve.total_correlation / bit, 9), round(curve.dual_total_correlation / bit, 9)
        (1.0, 999.0)
        >>> Parity(3).marginals([1, 0, 0], [False, False, True])[0, 2].tolist()
        [0.0, 1.0]
    """

    length: int
    alphabet: int = 2
    vocab: int = field(init=False, repr=False)
    dimension: int = field(init=False, repr=False)

    def __post_init__(self):
        length = check.integer("length", self.length, least=1, most=check.LONGEST)
        order = prime_power("alphabet", self.alphabet)
        for name, value in (
            ("length", length),
            ("dimension", length - 1),
            ("alphabet", order),
            ("vocab", order),
        ):
            object.__setattr__(self, name, value)

    def _rule(self, free: NDArray[np.int64], determined: NDArray[np.int64]) -> NDArray[np.int64]:
        minus_one = int(-galois_field(self.vocab)(1))
        return np.full((free.size, determined.size), minus_one)


def prime_power(name: str, value: object) -> int:
    """Return `value` as an int if a field of that order exists.

    Raises:
        InputError: if it is not a prime power, or exceeds `2^31`.

    Example:
        >>> prime_power("alphabet", 9)
        9
        >>> prime_power("alphabet", 12)
        Traceback (most recent call last):
        unmask.InputError: Argument 'alphabet' must be a prime power, not 12.
    """
    order = check.integer(name, value, least=2, most=_MOST_ALPHABET)
    # `galois` has this test too, but importing it takes a second, and constructors should be instant.
    prime = next((p for p in range(2, math.isqrt(order) + 1) if order % p == 0), order)
    rest = order
    while rest % prime == 0:
        rest //= prime
    if rest != 1:
        raise check.InputError(name, "be a prime power", found=f"{order}")
    return order


@cache
def galois_field(order: int) -> Any:
    """The field GF(`order`) of the `galois` package, imported on first use because that takes a second."""
    import galois

    return galois.GF(order)


def _nothing_determined(revealed: NDArray[np.int64]) -> Solution:
    nobody = np.arange(0)
    return Solution(revealed, nobody, np.zeros((revealed.size, 0), dtype=np.int64))


def _times(tokens: NDArray[np.int64], matrix: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """The product over GF(`order`), as integers."""
    if 0 in tokens.shape or 0 in matrix.shape:
        return np.zeros((tokens.shape[0], matrix.shape[1]), dtype=np.int64)
    elements = galois_field(order)
    return np.asarray(elements(tokens) @ elements(matrix)).astype(np.int64)


def _lagrange(nodes: NDArray[np.int64], targets: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """The matrix of values at `targets` of the Lagrange polynomials of `nodes`, all distinct.

    In barycentric form, with `w_j = Π_{k≠j} (α_j − α_k)^{−1}`, the entry for node `j` and target `t` is

        w_j (α_t − α_j)^{−1} Π_k (α_t − α_k)
    """
    if not targets.size:
        return np.zeros((nodes.size, 0), dtype=np.int64)
    elements = galois_field(order)
    inner, outer = elements(nodes), elements(targets)
    apart = np.subtract.outer(inner, inner)
    np.fill_diagonal(apart, 1)
    weights = np.reciprocal(np.multiply.reduce(apart, axis=1))
    across = np.subtract.outer(outer, inner)
    product = np.multiply.reduce(across, axis=1)
    matrix = np.reciprocal(across) * product[:, None] * weights[None, :]
    return np.asarray(matrix).T.astype(np.int64)
