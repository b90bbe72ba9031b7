"""Any linear code, given by a generator matrix, and the low-dimensional latent model of the paper.

The codewords are `x = u G` for messages `u` of `d` field elements, and `H(X_A) = r(A) log q` with `r(A)` the
rank of the columns of `G` in `A`. The information curve is therefore the mean rank of `n` random columns.

**Exactly**, for short codes. Let `N(A)` be the number of codewords that vanish on `A`. These form a subspace
of dimension `d − r(A)`, so

    r(A) = d − log_q N(A)

and `N` for all `2^L` sets at once is a sum over supersets of the histogram of zero sets of all `q^d`
codewords. If the dual code (dimension `L−d`, rank function `r*`) has fewer codewords, it serves as well:

    r(A) = |A| − (L−d) + r*(complement of A)

**By simulation**, for long ones. Put the columns in random order and row-reduce once: the pivots are the
places where the rank grows, which is a whole curve per order. A pivot of the code is a non-pivot of its dual
read backwards, so here too the smaller of the two matrices is reduced.

References:
    Oxley, "Matroid Theory" (2011), section 2.1: the rank of the dual.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

import unmask._check as check
from unmask.distribution.code import Code, Solution, galois_field, prime_power
from unmask.distribution.estimate import CurveEstimate, average
from unmask.information.curve import Curve

_MOST_LENGTH = 22
_MOST_CODEWORDS = 2**22


@final
@dataclass(frozen=True, eq=False, repr=False)
class LinearCode(Code):
    """The uniform law on the row space of a generator matrix over GF(q).

    Arguments:
        generator: Integers `0 … q−1`, shape `(dimension, length)`, of full row rank.
        alphabet: The order `q` of the field, a prime power; the vocabulary.

    Raises:
        InputError: if `generator` is not a matrix of field elements of full row rank, or `alphabet` is not a
            prime power.

    Example:
        The Hamming code: 16 codewords of seven bits, three of them checks.

        >>> checks = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
        >>> hamming = LinearCode(np.hstack([np.eye(4, dtype=int), checks]), 2)
        >>> np.round(hamming.curve().loss / np.log(2), 12).tolist()
        [1.0, 1.0, 1.0, 0.8, 0.2, 0.0, 0.0]
    """

    length: int
    dimension: int
    vocab: int
    generator: NDArray[np.int64]

    def __init__(self, generator: ArrayLike, alphabet: int):
        order = prime_power("alphabet", alphabet)
        matrix = check.array("generator", generator)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise check.InputError("generator", "be a non-empty matrix", found=f"an array of shape {matrix.shape}")
        if matrix.dtype.kind not in "iu":
            raise check.InputError("generator", "hold integers", found=check.held(matrix))
        if matrix.min() < 0 or matrix.max() >= order:
            raise check.InputError("generator", f"hold field elements from 0 to {order - 1}")
        matrix = matrix.astype(np.int64)
        rank = int(np.linalg.matrix_rank(galois_field(order)(matrix)))
        if rank < matrix.shape[0]:
            raise check.InputError(
                "generator",
                f"have full row rank {matrix.shape[0]}",
                found=f"rank {rank}",
                remedy="Leave out the rows that depend on others.",
            )
        matrix.setflags(write=False)
        object.__setattr__(self, "length", matrix.shape[1])
        object.__setattr__(self, "dimension", matrix.shape[0])
        object.__setattr__(self, "vocab", order)
        object.__setattr__(self, "generator", matrix)

    def __repr__(self) -> str:
        return f"LinearCode(length={self.length}, dimension={self.dimension}, alphabet={self.vocab})"

    def curve(self) -> Curve:
        """The exact loss curve, from the ranks of all sets of columns.

        Returns:
            The curve.

        Raises:
            InputError: if the length exceeds 22, or both the code and its dual have over `2^22` codewords.
        """
        smaller = min(self.dimension, self.length - self.dimension)
        if self.length > _MOST_LENGTH or self.vocab**smaller > _MOST_CODEWORDS:
            raise check.InputError(
                "",
                f"The exact curve needs a length of at most {_MOST_LENGTH} and at most 2^22 codewords in the code or "
                f"in its dual, not a length of {self.length} and {self.vocab}^{smaller} codewords",
                remedy="Use {estimate_curve} to estimate it.",
            )
        size = _sizes(self.length)
        if self.dimension <= self.length - self.dimension:
            rank = _ranks(self.generator, self.vocab)
        else:
            # Complementing every bit of an index reverses the array.
            rank = size - (self.length - self.dimension) + _ranks(self._dual, self.vocab)[::-1]
        total = np.bincount(size, weights=rank, minlength=self.length + 1)
        mean = total / np.array([math.comb(self.length, n) for n in range(self.length + 1)])
        return Curve(math.log(self.vocab) * np.diff(mean))

    def estimate_curve(self, draws: int, *, rng: check.Rng) -> CurveEstimate:
        """Estimate the loss curve from random column orders, one row reduction each.

        Arguments:
            draws: The number of independent orders, at least 2.
            rng: The source of randomness: a numpy generator, or a seed that makes one.

        Returns:
            The estimate with its standard errors.

        Raises:
            InputError: if `draws` is less than 2, which leaves no standard error.

        Example:
            Three copies of one bit look the same in every order.

            >>> estimate = LinearCode([[1, 1, 1]], 2).estimate_curve(10, rng=np.random.default_rng(0))
            >>> np.round(estimate.loss, 4).tolist()
            [0.6931, 0.0, 0.0]
        """
        draws = check.integer("draws", draws, least=2)
        check.room("draws", draws, self.length)
        source = check.generator("rng", rng)
        backwards = self.length - self.dimension < self.dimension
        elements = galois_field(self.vocab)
        matrix = elements(self._dual if backwards else self.generator)
        grows = np.zeros((draws, self.length), dtype=np.bool_)
        for draw in range(draws):
            order = source.permutation(self.length)
            grows[draw, _pivots(matrix[:, order].row_reduce())] = True
        if backwards:
            grows = ~grows[:, ::-1]
        return average(np.where(grows, math.log(self.vocab), 0.0))

    def _solve(self, revealed: NDArray[np.int64]) -> Solution:
        hidden = np.setdiff1d(np.arange(self.length), revealed)
        order = np.concatenate([revealed, hidden])
        reduced = galois_field(self.vocab)(self.generator[:, order]).row_reduce(ncols=revealed.size)
        pivots = _pivots(reduced[:, : revealed.size])
        # A column is a function of the pivots exactly when the rows below the rank do not touch it.
        untouched = np.all(np.asarray(reduced)[pivots.size :] == 0, axis=0)
        determined = np.setdiff1d(np.flatnonzero(untouched), pivots)
        matrix = np.asarray(reduced)[: pivots.size, determined].astype(np.int64)
        return Solution(order[pivots], order[determined], matrix)

    # An estimate is made of many small ones, each of which asks for it.
    @cached_property
    def _dual(self) -> NDArray[np.int64]:
        if self.dimension == self.length:
            return np.zeros((0, self.length), dtype=np.int64)
        elements = galois_field(self.vocab)
        return np.asarray(elements(self.generator).null_space()).astype(np.int64)


def latent_code(length: int, dimension: int, alphabet: int = 2, *, rng: check.Rng) -> LinearCode:
    """A random low-dimensional latent model: `x = u G` with `u` uniform and every token nontrivial.

        H(X) = d log q        TC = (L−d) log q        DTC ≤ d log q

    The generator is uniform over the matrices of full rank without a zero column. For `dimension` much below
    `length` this is the paper's example of strong global constraints with a small dual total correlation.

    Arguments:
        length: The number of tokens `L`.
        dimension: The number of latent symbols `d`, at most `length`.
        alphabet: The order `q` of the field, a prime power; the vocabulary.
        rng: The source of randomness: a numpy generator, or a seed that makes one.

    Returns:
        The code.

    Raises:
        InputError: if `alphabet` is not a prime power, or `1 ≤ dimension ≤ length` does not hold.

    References:
        Zhao and Cai, "Adaptation to Intrinsic Dependence in Diffusion Language Models" (2026), low-DTC
        example.

    Example:
        >>> curve = latent_code(12, 3, rng=np.random.default_rng(0)).curve()
        >>> bit = math.log(2)
        >>> round(curve.total_correlation / bit, 9), curve.dual_total_correlation <= 3.000001 * bit
        (9.0, True)
    """
    order = prime_power("alphabet", alphabet)
    length = check.integer("length", length, least=1)
    dimension = check.integer("dimension", dimension, least=1)
    check.room("length", length, dimension)
    if dimension > length:
        raise check.InputError("dimension", f"be at most the length {length}", found=f"{dimension}")
    elements, source = galois_field(order), check.generator("rng", rng)
    while True:
        generator = source.integers(order, size=(dimension, length))
        while (trivial := ~generator.any(axis=0)).any():
            generator[:, trivial] = source.integers(order, size=(dimension, int(trivial.sum())))
        # A square binary matrix is invertible with probability 0.29 at worst, so this ends soon.
        if np.linalg.matrix_rank(elements(generator)) == dimension:
            return LinearCode(generator, order)


def _pivots(reduced: Any) -> NDArray[np.int64]:
    """The pivot columns of a matrix in row echelon form."""
    nonzero = np.asarray(reduced) != 0
    return nonzero[nonzero.any(axis=1)].argmax(axis=1) if nonzero.any() else np.arange(0)


def _sizes(length: int) -> NDArray[np.int64]:
    """The number of ones in each of the bit masks `0 … 2^length − 1`."""
    size = np.zeros(1, dtype=np.int64)
    for _ in range(length):
        size = np.concatenate([size, size + 1])
    return size


def _ranks(generator: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """The rank of every set of columns, at the index whose bits are the set."""
    dimension, length = generator.shape
    elements = galois_field(order)
    scalars = elements(np.arange(order))
    zeros = np.zeros(order**dimension, dtype=np.int64)
    for column in range(length):
        values = elements([0])
        for entry in generator[:, column]:
            values = np.add.outer(values, scalars * elements(int(entry))).ravel()
        zeros |= (np.asarray(values) == 0).astype(np.int64) << column
    vanishing = np.bincount(zeros, minlength=2**length)
    for bit in range(length):
        halves = vanishing.reshape(-1, 2, 2**bit)
        halves[:, 0] += halves[:, 1]
    return dimension - np.rint(np.log(vanishing) / math.log(order)).astype(np.int64)
