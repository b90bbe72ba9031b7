"""Stationary Markov chains: dependence between neighbours that fades with distance.

Let `P` be the transition matrix, `π` its stationary law and `I(a)` the mutual information of two tokens `a`
apart. The entropy of a set of positions depends on its consecutive gaps only,

    H(X_A) = |A| H(π) − Σ_{gaps a of A} I(a)

so the information curve needs the expected number `w(n, a)` of gaps `a` in a random set of `n` positions,

    h(n) = n H(π) − Σ_a w(n, a) I(a)          w(n, a) = (L−a) C(L−a−1, n−2) / C(L, n)

and the loss needs its difference in `n`. With `u(n, a) = w(n, a)/(n−1)` that is free of cancellation,

    w(n+1, a) − w(n, a) = u(n, a) · [2(L−n) − (a−1)(n+1)] / (L−n)
    u(n, 1) = n/L          u(n, a+1) = u(n, a) · (L−a−n+1) / (L−a)

The informations decay to far below rounding error, and differences of entropies would drown them. From
`P^a − 1πᵀ = (P − 1πᵀ)^a` and `δ = P^a / 1πᵀ − 1`, with no subtraction of nearly equal numbers,

    I(a) = Σ_ij π_i π_j φ(δ_ij)          φ(δ) = (1+δ) log(1+δ) − δ ≥ 0

Conditional marginals come from one forward and one backward pass along the sequence.

References:
    Grassmann, Taksar and Heyman, "Regenerative analysis and steady state distributions for Markov chains"
        (1985): the stationary law by elimination without subtraction.
    Cover and Thomas, "Elements of Information Theory" (2006), chapter 4.
    "Is your diffusion sampler actually correct?" (2026, arXiv 2602.19619): samplers judged with the exact conditional
        marginals of a Markov chain in place of a model.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask._scipy import connected, entr, xlog1py
from unmask.distribution._draw import cumulative, invert
from unmask.distribution.base import Distribution
from unmask.information.curve import Curve

# The stationary law of more tokens, and the powers of their matrix, would take minutes.
_MOST_TOKENS = 2**12
# Informations decrease with distance; below this fraction of the first one, all the rest is rounding error.
_NEGLIGIBLE = 1e-20


@final
@dataclass(frozen=True, eq=False, repr=False)
class Markov(Distribution):
    """A stationary Markov chain.

    Arguments:
        transition: The matrix `P[v, w] = p(next = w | token = v)`, shape `(vocab, vocab)`.
        length: The number of tokens `L`.

    Attributes:
        stationary: The stationary law `π`, shape `(vocab,)`: that of every single token.

    Raises:
        InputError: if `transition` is not a square matrix of distributions, or has several stationary laws.

    Example:
        A fair bit that is kept nine times in ten.

        >>> chain = Markov([[0.9, 0.1], [0.1, 0.9]], 3)
        >>> np.round(chain.curve().loss, 4).tolist()
        [0.6931, 0.3739, 0.2763]
        >>> np.round(chain.marginals([0, 0, 0], [False, True, False])[0, 1], 4).tolist()
        [0.9878, 0.0122]
    """

    length: int
    vocab: int
    transition: NDArray[np.float64]
    stationary: NDArray[np.float64]

    def __init__(self, transition: ArrayLike, length: int):
        matrix = check.numbers("transition", transition).copy()
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise check.InputError("transition", "be a square matrix", found=f"an array of shape {matrix.shape}")
        if matrix.shape[0] > _MOST_TOKENS:
            raise check.InputError("transition", f"have at most {_MOST_TOKENS} tokens", found=f"{matrix.shape[0]}")
        check.probabilities("transition", matrix)
        length = check.integer("length", length, least=1, most=check.LONGEST)
        stationary = _stationary(matrix)
        matrix.setflags(write=False)
        stationary.setflags(write=False)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "vocab", matrix.shape[0])
        object.__setattr__(self, "transition", matrix)
        object.__setattr__(self, "stationary", stationary)

    def __repr__(self) -> str:
        return f"Markov(length={self.length}, vocab={self.vocab})"

    @classmethod
    def sticky(cls, vocab: int, stay: float, length: int) -> "Markov":
        """The chain in which a token repeats the one before with probability `stay`; all others are equally likely.

        Arguments:
            vocab: The number of tokens, at least 2.
            stay: The probability of staying, in `[0, 1)`.
            length: The number of tokens in a sequence.

        Returns:
            The chain; its stationary law is uniform.

        Raises:
            InputError: if an argument is out of range.

        Example:
            >>> Markov.sticky(3, 0.5, 8).transition.tolist()
            [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
        """
        vocab = check.integer("vocab", vocab, least=2, most=_MOST_TOKENS)
        stay = check.real("stay", stay, least=0.0)
        if stay >= 1:
            raise check.InputError("stay", "be less than 1", found=f"{stay:g}")
        matrix = np.full((vocab, vocab), (1.0 - stay) / (vocab - 1))
        np.fill_diagonal(matrix, stay)
        return cls(matrix, length)

    def curve(self) -> Curve:
        """The exact loss curve, from the mutual informations at all distances."""
        visible = np.arange(self.length)
        left = self.length - visible
        weight = visible / self.length
        gain = np.zeros(self.length)
        for index, information in enumerate(self.informations()):
            gap = index + 1
            gain += information * weight * (2.0 * left - (gap - 1.0) * (visible + 1.0)) / left
            # Sets too large to have such a gap stay at zero once they reach it.
            weight = weight * np.maximum(left - gap + 1, 0) / (self.length - gap)
        return Curve(np.maximum(float(entr(self.stationary).sum()) - gain, 0.0))

    def informations(self) -> NDArray[np.float64]:
        """The mutual informations `I(1), I(2), …` of two tokens at each distance, in nats.

        Returns:
            At most `length − 1` numbers, accurate in relative terms. They end early where all further ones
            are below `1e-20` of the first.

        Example:
            >>> informations = Markov.sticky(2, 0.75, 40).informations()
            >>> [float(f"{value:.6g}") for value in informations[[0, 1, 9]]]
            [0.130812, 0.0315839, 4.76837e-07]
        """
        support = self.stationary > 0
        law = self.stationary[support]
        away = self.transition[np.ix_(support, support)] - law
        power = away
        values: list[float] = []
        for _ in range(self.length - 1):
            values.append(float(law @ _excess(power / law) @ law))
            if values[-1] <= _NEGLIGIBLE * values[0]:
                break
            power = power @ away
        return np.array(values)

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`log p(x)` of each row of `tokens`, shape `(batch,)`; `-inf` outside the support."""
        tokens = check.tokens("tokens", tokens, length=self.length, vocab=self.vocab)
        with np.errstate(divide="ignore"):
            first, step = np.log(self.stationary), np.log(self.transition)
        return first[tokens[:, 0]] + step[tokens[:, :-1], tokens[:, 1:]].sum(axis=1)

    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent sequences, shape `(count, length)`."""
        count, source = self._draws(count, rng, each=self.vocab)
        uniform = source.random((count, self.length))
        tokens = np.empty((count, self.length), dtype=np.int64)
        tokens[:, 0] = invert(cumulative(self.stationary), uniform[:, 0])
        step = cumulative(self.transition)
        for position in range(1, self.length):
            tokens[:, position] = invert(step[tokens[:, position - 1]], uniform[:, position])
        return tokens

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        batch = tokens.shape[0]
        certain = np.eye(self.vocab)
        result = np.empty((batch, self.length, self.vocab))
        # Forward: the law of each token given the revealed tokens to its left, before looking at its own.
        law = np.broadcast_to(self.stationary, (batch, self.vocab))
        possible = np.ones(batch, dtype=np.bool_)
        anything = np.zeros(batch, dtype=np.bool_)
        for position in range(self.length):
            revealed, token = ~masked[:, position], tokens[:, position]
            result[:, position] = law
            possible &= ~revealed | (law[np.arange(batch), token] > 0)
            anything |= revealed
            law = _through(np.where(revealed[:, None], certain[token], law), self.transition)
            # Before anything is seen the law is stationary; restating it keeps rounding from adding up.
            law = np.where(anything[:, None], law / law.sum(axis=1, keepdims=True), self.stationary)
        # Backward: how likely each token makes the nearest revealed token to its right.
        message, back = np.ones((batch, self.vocab)), np.ascontiguousarray(self.transition.T)
        anything[:] = False
        for position in range(self.length - 1, -1, -1):
            result[:, position] *= message
            revealed, token = ~masked[:, position], tokens[:, position]
            anything |= revealed
            message = _through(np.where(revealed[:, None], certain[token], message), back)
            scale = message.max(axis=1, keepdims=True)
            # A token that nothing leads to leaves no message; its row is impossible and reset below.
            # Before anything is seen it says nothing, exactly: rounding would rank positions that are alike.
            message = np.divide(message, scale, out=np.ones_like(message), where=anything[:, None] & (scale > 0))
        result[~possible] = 1.0
        total = result.sum(axis=2, keepdims=True)
        # Revealed positions may come out empty here; they are overwritten by the caller.
        return np.divide(result, total, out=np.full(result.shape, 1.0 / self.vocab), where=total > 0)


@compiled
def _through(laws: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """`laws @ matrix`, each row summed in one fixed order: a matrix library's order depends on the number of rows."""
    result = np.zeros(laws.shape)
    for row in range(laws.shape[0]):
        for source in range(laws.shape[1]):
            if laws[row, source] != 0.0:
                result[row] += laws[row, source] * matrix[source]
    return result


def _excess(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """`φ(δ) = (1+δ) log(1+δ) − δ`, accurate for tiny `δ`, and 1 at `δ = −1`."""
    small = np.abs(ratio) < 1e-2
    near = np.where(small, -ratio, 0.0)
    series = np.zeros_like(near)
    # The terms (−δ)^k / (k(k−1)), k = 2 … 9; the next is below 1e-17 of the first.
    for power in range(9, 1, -1):
        series = series * near + 1.0 / (power * (power - 1))
    far = np.where(small, 0.0, np.maximum(ratio, -1.0))
    return np.where(small, series * near**2, xlog1py(1.0 + far, far) - far)


def _stationary(transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """The unique stationary law, with exact zeros on the tokens that the chain leaves for good."""
    classes, label = connected(transition > 0)
    leaves = (transition > 0) & (label[:, None] != label[None, :])
    closed = np.setdiff1d(np.arange(classes), label[leaves.any(axis=1)])
    if closed.size > 1:
        raise check.InputError(
            "transition",
            "have one stationary distribution",
            found=f"{closed.size} separate ones",
            remedy="Connect the tokens, or mix the parts explicitly.",
        )
    recurrent = np.flatnonzero(label == closed[0])
    # Grassmann–Taksar–Heyman elimination: sums, products and quotients of non-negative numbers only.
    work = transition[np.ix_(recurrent, recurrent)].copy()
    for last in range(recurrent.size - 1, 0, -1):
        work[:last, last] /= work[last, :last].sum()
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    law = np.ones(recurrent.size)
    for state in range(1, recurrent.size):
        law[state] = law[:state] @ work[:state, state]
    stationary = np.zeros(transition.shape[0])
    stationary[recurrent] = law / law.sum()
    return stationary
