"""Explicit joint distributions: the ground truth that every other distribution is tested against.

A table holds `p(x)` for each of the `V^L` sequences as an array with one axis per position. Everything is
then a sum over cells:

    p(x_S)        = Σ over the axes outside S
    p(x_M | x_R)  = the slice at x_R, divided by its sum           (uniform if that sum is zero)
    ℓ(n)          = h(n+1) − h(n),  h(n) = mean of H(X_A) over the sets A of n positions

The size is exponential in the length, so a table has at most `2^24` cells. Its worth is that nothing in it
can be wrong in an interesting way: `Table.of(distribution)` enumerates any small distribution through its
log-probabilities alone, and the answers of the table check the closed forms of that distribution.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.distribution._draw import cumulative
from unmask.distribution.base import Distribution
from unmask.information import information_curve, loss_curve
from unmask.information.curve import Curve

_MOST_CELLS = 2**24
_ROWS_AT_ONCE = 2**16


@final
@dataclass(frozen=True, eq=False, repr=False)
class Table(Distribution):
    """An explicit joint distribution.

    Arguments:
        probabilities: Shape `(vocab,) * length`, summing to one.

    Raises:
        InputError: if the axes differ in size, there is none, the cells number more than `2^24`, or they do
            not hold a distribution.

    Example:
        Two bits that agree nine times in ten.

        >>> table = Table([[0.45, 0.05], [0.05, 0.45]])
        >>> np.round(table.curve().loss, 4).tolist()
        [0.6931, 0.3251]
        >>> np.round(table.marginals([1, 0], [False, True]), 12).tolist()
        [[[0.0, 1.0], [0.1, 0.9]]]
    """

    length: int
    vocab: int
    probabilities: NDArray[np.float64]

    def __init__(self, probabilities: ArrayLike):
        cells = check.numbers("probabilities", probabilities).copy()
        if cells.ndim == 0:
            raise check.InputError("probabilities", "have at least one axis, one per position")
        if len(set(cells.shape)) > 1:
            raise check.InputError("probabilities", "have axes of equal size", detail=f"but its shape is {cells.shape}")
        if cells.size > _MOST_CELLS:
            raise check.InputError("probabilities", "have at most 2^24 cells", found=f"{cells.size}")
        check.probabilities("probabilities", cells.ravel())
        cells.setflags(write=False)
        object.__setattr__(self, "length", cells.ndim)
        object.__setattr__(self, "vocab", cells.shape[0])
        object.__setattr__(self, "probabilities", cells)

    def __repr__(self) -> str:
        return f"Table(length={self.length}, vocab={self.vocab})"

    @classmethod
    def of(cls, distribution: Distribution) -> "Table":
        """Enumerate a small distribution through its log-probabilities.

        Arguments:
            distribution: Any distribution with `vocab ** length` at most `2^24`.

        Returns:
            Its table.

        Raises:
            InputError: if the distribution is too large, or its probabilities do not sum to one.

        Example:
            >>> from unmask.distribution import Parity
            >>> Table.of(Parity(2)).probabilities.tolist()
            [[0.5, 0.0], [0.0, 0.5]]
        """
        check.instance("distribution", distribution, Distribution, "be a distribution")
        length, vocab = distribution.length, distribution.vocab
        # The logarithm first: a power of a long length would itself be long.
        cells = vocab**length if length * np.log2(vocab) <= 25 else _MOST_CELLS + 1
        if cells > _MOST_CELLS:
            raise check.InputError(
                "distribution",
                "have at most 2^24 sequences",
                found=f"{vocab}^{length}",
                remedy="Shorten it, or use its own methods.",
            )
        shape = (vocab,) * length
        values = np.empty(cells)
        for start in range(0, cells, _ROWS_AT_ONCE):
            index = np.arange(start, min(start + _ROWS_AT_ONCE, cells))
            tokens = np.stack(np.unravel_index(index, shape), axis=1)
            values[index] = np.exp(distribution.log_probability(tokens))
        return cls(values.reshape(shape))

    def curve(self) -> Curve:
        """The exact loss curve, from the entropies of all margins.

        Returns:
            The curve; its values are differences of entropies, exact to about `1e-13`.

        Raises:
            InputError: if `(vocab + 1) ** length` exceeds `2^31`, more than a minute of work.
        """
        return Curve(np.maximum(loss_curve(information_curve(self.probabilities)), 0.0))

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`log p(x)` of each row of `tokens`, shape `(batch,)`; `-inf` outside the support."""
        tokens = check.tokens("tokens", tokens, length=self.length, vocab=self.vocab)
        p = self.probabilities[tuple(tokens.T)]
        return np.log(p, out=np.full(p.shape, -np.inf), where=p > 0)

    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent sequences, shape `(count, length)`."""
        count, source = self._draws(count, rng)
        cells = np.searchsorted(cumulative(self.probabilities.ravel()), source.random(count), side="right")
        return np.stack(np.unravel_index(cells, self.probabilities.shape), axis=1).astype(np.int64)

    def marginal(self, positions: Iterable[int]) -> "Table":
        """The joint law of some positions.

        Arguments:
            positions: Distinct positions, at least one; the axes of the result come in this order.

        Returns:
            Their table.

        Raises:
            InputError: if there is no position, or one is repeated or does not exist.

        Example:
            >>> Table([[0.5, 0.25], [0.0, 0.25]]).marginal([1]).probabilities.tolist()
            [0.5, 0.5]
        """
        chosen = check.positions("positions", positions, self.length)
        if not chosen or len(set(chosen)) < len(chosen):
            raise check.InputError("positions", "hold one or more different positions", found=f"{chosen}")
        others = tuple(i for i in range(self.length) if i not in chosen)
        return Table(self.probabilities.sum(axis=others).transpose(np.argsort(np.argsort(chosen)).tolist()))

    def condition(self, tokens: ArrayLike, masked: ArrayLike) -> "Table":
        """The joint law of the masked positions given the revealed ones.

        Arguments:
            tokens: One sequence of `length` tokens; what stands at masked positions is ignored.
            masked: As many booleans, at least one of them true.

        Returns:
            The table of the masked positions in their order; uniform if the revealed tokens have probability
            zero.

        Raises:
            InputError: if there is more than one sequence, or nothing is masked.

        Example:
            >>> table = Table([[0.375, 0.125], [0.5, 0.0]])
            >>> table.condition([0, 0], [False, True]).probabilities.tolist()
            [0.75, 0.25]
        """
        given, hidden = self._context(tokens, masked)
        if given.shape[0] != 1:
            raise check.InputError("tokens", "be one sequence", found=f"{given.shape[0]}")
        if not hidden.any():
            raise check.InputError("masked", "be true for at least one position")
        part = self._slices(given, hidden[0])[0]
        return Table(part)

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        result = np.zeros((*tokens.shape, self.vocab))
        # Equal contexts are answered once, so that even all V^L of them need no more memory than the table.
        contexts, back = np.unique(np.where(masked, -1, tokens), axis=0, return_inverse=True)
        back = back.reshape(-1)
        answers = np.zeros((*contexts.shape, self.vocab))
        patterns, group = np.unique(contexts < 0, axis=0, return_inverse=True)
        group = group.reshape(-1)
        for number, hidden in enumerate(patterns):
            rows = np.flatnonzero(group == number)
            parts = self._slices(contexts[rows], hidden)
            for axis, position in enumerate(np.flatnonzero(hidden)):
                others = tuple(1 + other for other in range(parts.ndim - 1) if other != axis)
                answers[rows, position] = parts.sum(axis=others)
        result[:] = answers[back]
        return result

    def _slices(self, tokens: NDArray[np.int64], hidden: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The conditional law of the hidden positions for each row, shape `(batch, vocab, …, vocab)`."""
        revealed, unknown = np.flatnonzero(~hidden), np.flatnonzero(hidden)
        moved = self.probabilities.transpose([*revealed, *unknown])
        if revealed.size:
            parts = moved[tuple(tokens[:, revealed].T)]
        else:
            parts = np.broadcast_to(moved, (len(tokens), *moved.shape))
        axes = tuple(range(1, parts.ndim))
        total = parts.sum(axis=axes, keepdims=True)
        uniform = np.full(parts.shape, 1.0 / self.vocab**unknown.size)
        return np.divide(parts, total, out=uniform, where=total > 0)
