"""What every distribution over token sequences can compute.

A distribution knows its length and vocabulary, its exact loss curve, its exact conditional marginals for any
set of revealed tokens (so it is a perfect mask predictor), its log-probability, and how to draw from itself.

A parallel sampler can leave the support: the tokens it revealed together may have probability zero.
Conditional marginals are then undefined, and every distribution here answers with **uniform** marginals on
the masked positions of such a context.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.information.curve import Curve


class Distribution(ABC):
    """A probability law on sequences of `length` tokens `0 … vocab−1`.

    Attributes:
        length: The number of tokens of a sequence.
        vocab: The number of different tokens.
    """

    length: int
    vocab: int

    @abstractmethod
    def curve(self) -> Curve:
        """The exact loss curve under uniformly random positions."""

    @abstractmethod
    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`log p(x)` of each row of `tokens`, shape `(batch,)`; `-inf` outside the support."""

    @abstractmethod
    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent sequences, shape `(count, length)`.

        Arguments:
            count: How many.
            rng: The source of randomness: a numpy generator, or a seed that makes one.
        """

    def marginals(self, tokens: ArrayLike, masked: ArrayLike) -> NDArray[np.float64]:
        """Conditional marginals `p_i(v | revealed tokens)` of every position.

        Arguments:
            tokens: Token ids, shape `(batch, length)`; what stands at masked positions is ignored.
            masked: Booleans of the same shape, true where the token is unknown.

        Returns:
            Shape `(batch, length, vocab)`. A revealed position has all its mass on its own token. In a
            context of probability zero the masked positions are uniform.
        """
        tokens, masked = self._context(tokens, masked)
        each = self.length * self.vocab
        if tokens.shape[0] * each > check.ROOM:
            raise check.InputError(
                "tokens",
                f"hold at most {check.ROOM // each} sequences",
                found=f"{tokens.shape[0]}",
                remedy=f"The marginals of each sequence take {each} numbers, and more would fill the memory.",
            )
        result = self._marginals(tokens, masked)
        row, position = np.nonzero(~masked)
        result[row, position] = 0.0
        result[row, position, tokens[row, position]] = 1.0
        return result

    @abstractmethod
    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        """As `marginals`, for checked arguments; what is returned at revealed positions is overwritten."""

    def _draws(self, count: object, rng: object, each: int = 0) -> tuple[int, np.random.Generator]:
        """How many sequences to draw, and from what, if both will do; a draw takes `each` numbers, or its tokens."""
        number = check.integer("count", count, least=0)
        check.room("count", number, max(self.length, each))
        return number, check.generator("rng", rng)

    def _context(self, tokens: ArrayLike, masked: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        hidden = np.atleast_2d(check.array("masked", masked))
        if hidden.dtype != np.bool_:
            raise check.InputError("masked", "hold booleans", found=check.held(hidden))
        # Masked positions may hold anything (a mask id beyond the vocabulary, for one), so blank them first.
        given = np.atleast_2d(check.array("tokens", tokens))
        if given.shape != hidden.shape:
            raise check.InputError("masked", f"have the shape of {{tokens}}, {given.shape}", found=f"{hidden.shape}")
        given = check.tokens("tokens", np.where(hidden, 0, given), length=self.length, vocab=self.vocab)
        return given, hidden
