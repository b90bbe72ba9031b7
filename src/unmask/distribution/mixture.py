"""Mixtures of products, and a distribution that fools both total correlations.

A hidden component `m` is drawn with probability `w_m`; given it, the tokens are independent:

    p(x) = Σ_m w_m Π_i θ_m,i(x_i)

Revealed tokens act through the posterior of the component alone, `p(m | x_A) ∝ w_m Π_{i∈A} θ_m,i(x_i)`, and
the marginal of a masked token is the posterior mean of `θ_m,i`. All tokens together learn at most the
component, so `DTC ≤ H(w)`: a small dual total correlation is what a mixture of few products looks like.

When the positions are identically distributed the sequence is exchangeable, and the posterior depends on the
counts `c` of the visible tokens only. With `P(c)` the probability of these counts,

    ℓ(n) = Σ_{c : |c| = n} P(c) H(p(next token | c))

over `C(n+V−1, V−1)` count vectors: no cancellation, and polynomial in the length.

`LatentParity` adds a parity check to one shared bit. Its TC and DTC are both of the order of its length, yet
its two drops sit at the two ends of the curve, so a schedule that is careful at both ends pays little.

References:
    Austin, "Multi-variate correlation and mixtures of product measures" (2018): what a small DTC means.
    Dmitriev, Huang and Wei (2026): distributions that TC and DTC overrate.
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._scipy import entr, log_factorial, log_sum_exp
from unmask.distribution._draw import cumulative, invert
from unmask.distribution.base import Distribution
from unmask.distribution.table import Table
from unmask.information.curve import Curve

_MOST_TYPES = 2_000_000
_MOST_SEQUENCES = 2**20


@final
@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Distribution):
    """A mixture of product distributions.

    Arguments:
        weights: The probabilities `w_m`, shape `(components,)`.
        components: The token laws `θ_m,i`, shape `(components, length, vocab)`; or `(components, vocab)` for
            positions that are identically distributed, and then `length` must be given.
        length: The number of tokens, in the second case only.

    Raises:
        InputError: if the shapes do not fit, or anything is not a distribution.

    Example:
        A coin of unknown bias.

        >>> coin = Mixture([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], length=3)
        >>> np.round(coin.curve().loss, 4).tolist()
        [0.6931, 0.4714, 0.4085]
        >>> np.round(coin.marginals([0, 0, 0], [False, True, True])[0, 1], 12).tolist()
        [0.82, 0.18]
    """

    length: int
    vocab: int
    weights: NDArray[np.float64]
    components: NDArray[np.float64]

    def __init__(self, weights: ArrayLike, components: ArrayLike, length: int | None = None):
        chances = check.numbers("weights", weights).copy()
        laws = check.numbers("components", components).copy()
        if chances.ndim != 1:
            raise check.InputError("weights", "be a list of numbers", found=f"an array of shape {chances.shape}")
        if laws.ndim not in (2, 3) or laws.shape[0] != chances.size:
            raise check.InputError(
                "components",
                f"have the shape ({chances.size}, length, vocab) or ({chances.size}, vocab)",
                found=f"{laws.shape}",
            )
        check.probabilities("weights", chances)
        check.probabilities("components", laws)
        if laws.ndim == 2:
            if length is None:
                raise check.InputError(
                    "length",
                    "be a number of tokens",
                    found="None",
                    remedy="The components do not say how many positions there are.",
                )
            tokens = check.integer("length", length, least=1)
            # Draws and marginals write the laws out for every position.
            check.room("length", tokens, 2 * laws.size)
        elif length is not None and check.integer("length", length, least=1, most=check.LONGEST) != laws.shape[1]:
            raise check.InputError(
                "length",
                f"be {laws.shape[1]}, the number of positions in the components",
                found=f"{length}",
                remedy="Leave it out.",
            )
        else:
            tokens = laws.shape[1]
        chances.setflags(write=False)
        laws.setflags(write=False)
        object.__setattr__(self, "length", tokens)
        object.__setattr__(self, "vocab", laws.shape[-1])
        object.__setattr__(self, "weights", chances)
        object.__setattr__(self, "components", laws)

    def __repr__(self) -> str:
        return f"Mixture(components={self.weights.size}, length={self.length}, vocab={self.vocab})"

    def curve(self) -> Curve:
        """The exact loss curve: over token counts if positions are alike, else over all sequences.

        Returns:
            The curve.

        Raises:
            InputError: if there are more than two million count vectors, more than `2^20` sequences, or `2^31` partly
                masked ones.
        """
        if self.components.ndim == 3:
            # The length first: a power of a long one would itself be long.
            sequences = self.vocab**self.length if self.length <= 31 else _MOST_SEQUENCES + 1
            if sequences > _MOST_SEQUENCES or (self.vocab + 1) ** self.length > 2**31:
                found = f"{self.vocab}^{self.length} and {self.vocab + 1}^{self.length}"
                raise check.InputError(
                    "",
                    f"The exact curve is for at most 2^20 sequences and 2^31 partly masked ones, not for {found}",
                    remedy="Use {estimate_curve} to estimate it.",
                )
            return Table.of(self).curve()
        if not self._few_types():
            raise check.InputError(
                "",
                f"The exact curve is for at most {_MOST_TYPES:,} vectors of token counts, but {self.length} tokens of "
                f"{self.vocab} kinds have more",
                remedy="Use {estimate_curve} to estimate it.",
            )
        return Curve([self._loss(visible) for visible in range(self.length)])

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`log p(x)` of each row of `tokens`, shape `(batch,)`; `-inf` outside the support."""
        tokens = check.tokens("tokens", tokens, length=self.length, vocab=self.vocab)
        return log_sum_exp(self._log_joint(tokens, np.zeros(tokens.shape, dtype=np.bool_)))

    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent sequences, shape `(count, length)`."""
        count, source = self._draws(count, rng, each=self.vocab)
        component = invert(cumulative(self.weights), source.random(count))
        uniform = source.random((count, self.length))
        sums = cumulative(self._by_position())
        tokens = np.empty((count, self.length), dtype=np.int64)
        for position in range(self.length):
            tokens[:, position] = invert(sums[component, position], uniform[:, position])
        return tokens

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        joint = self._log_joint(tokens, masked)
        evidence = log_sum_exp(joint)
        possible = np.isfinite(evidence)
        posterior = np.exp(joint - np.where(possible, evidence, 0.0)[:, None])
        result = np.einsum("bm,mlv->blv", posterior, self._by_position())
        result[~possible] = 1.0
        return result / result.sum(axis=2, keepdims=True)

    def _few_types(self) -> bool:
        """Whether the vectors of token counts, `C(L+V−1, V)` of all sizes, are few enough to go through."""
        few, many = sorted((self.vocab, self.length - 1))
        # The coefficient is at least this power, and might itself have millions of digits.
        return few * math.log2(1 + many / max(few, 1)) <= 21 and math.comb(few + many, few) <= _MOST_TYPES

    def _by_position(self) -> NDArray[np.float64]:
        if self.components.ndim == 3:
            return self.components
        return np.broadcast_to(
            self.components[:, None], (self.components.shape[0], self.length, self.components.shape[1])
        )

    def _log_joint(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        """`log w_m + Σ log θ_m,i(x_i)` over the revealed positions, shape `(batch, components)`."""
        with np.errstate(divide="ignore"):
            weights, laws = np.log(self.weights), np.log(self._by_position())
        result = np.broadcast_to(weights, (tokens.shape[0], weights.size)).copy()
        for position in range(self.length):
            seen = laws[:, position, :].T[tokens[:, position]]
            result += np.where(masked[:, position, None], 0.0, seen)
        return result

    def _loss(self, visible: int) -> float:
        counts = _types(visible, self.vocab)
        possible = self.components > 0
        logs = np.log(self.components, out=np.zeros(self.components.shape), where=possible)
        joint = counts.astype(np.float64) @ logs.T
        # A component that forbids a token which was seen has no posterior; 0 · log 0 would not say so.
        joint[counts @ (~possible).T > 0] = -np.inf
        with np.errstate(divide="ignore"):
            joint += np.log(self.weights)
        evidence = log_sum_exp(joint)
        seen = np.isfinite(evidence)
        counts, joint, evidence = counts[seen], joint[seen], evidence[seen]
        ways = log_factorial(visible) - log_factorial(counts).sum(axis=1)
        # The sum of these is one; dividing by it removes the rounding error that large factorials bring.
        chance = np.exp(ways + evidence)
        predicted = np.exp(joint - evidence[:, None]) @ self.components
        return float(chance @ entr(predicted).sum(axis=1) / chance.sum())


@final
@dataclass(frozen=True)
class LatentParity(Distribution):
    """One bit shared by all tokens, and a parity check over a second bit of each: `x_i = 2 Z + B_i`.

        ℓ(0) = log 4        ℓ(n) = log 2  for 0 < n < L−1        ℓ(L−1) = 0

    `Z` is one fair bit and `B` is uniform over the words of even parity. The first token revealed gives `Z`
    away and the last is determined: for `L ≥ 3`, `TC = DTC = L log 2`, while `Σ_i d_i min(i, L−i) = 2 log 2`
    whatever `L`. A single token is the shared bit alone, and `ℓ(0) = log 2`.

    Arguments:
        length: The number of tokens `L`; the vocabulary is 4.

    Raises:
        InputError: if `length` is less than 1.

    References:
        Dmitriev, Huang and Wei (2026), whose separation of TC and DTC from the cost of sampling this follows.

    Example:
        >>> curve = LatentParity(100).curve()
        >>> bit = math.log(2)
        >>> round(curve.total_correlation / bit, 9), round(curve.dual_total_correlation / bit, 9)
        (100.0, 100.0)
        >>> LatentParity(3).marginals([3, 2, 0], [False, False, True])[0, 2].tolist()
        [0.0, 0.0, 0.0, 1.0]
    """

    length: int
    vocab: int = field(init=False, repr=False, default=4)

    def __post_init__(self):
        object.__setattr__(self, "length", check.integer("length", self.length, least=1, most=check.LONGEST))

    def curve(self) -> Curve:
        """The exact loss curve, in closed form."""
        shared = np.where(np.arange(self.length) == 0, math.log(2), 0.0)
        parity = np.where(np.arange(self.length) < self.length - 1, math.log(2), 0.0)
        return Curve(shared + parity)

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """`−L log 2` for each row of `tokens` in the support, `-inf` for the others, shape `(batch,)`."""
        tokens = check.tokens("tokens", tokens, length=self.length, vocab=self.vocab)
        shared, bits = tokens // 2, tokens % 2
        inside = (shared == shared[:, :1]).all(axis=1) & (bits.sum(axis=1) % 2 == 0)
        return np.where(inside, -self.length * math.log(2), -np.inf)

    def sample(self, count: int, *, rng: check.Rng) -> NDArray[np.int64]:
        """`count` independent sequences, shape `(count, length)`."""
        count, source = self._draws(count, rng)
        bits = source.integers(2, size=(count, self.length))
        bits[:, -1] = bits[:, :-1].sum(axis=1) % 2
        return 2 * source.integers(2, size=(count, 1)) + bits

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        revealed = ~masked
        seen_one = (revealed & (tokens >= 2)).any(axis=1)
        seen_zero = (revealed & (tokens < 2)).any(axis=1)
        shared = np.full((tokens.shape[0], 2), 0.5)
        shared[seen_one & ~seen_zero] = (0.0, 1.0)
        shared[seen_zero & ~seen_one] = (1.0, 0.0)
        bit = np.full((tokens.shape[0], 2), 0.5)
        last = masked.sum(axis=1) == 1
        odd = np.where(revealed, tokens % 2, 0).sum(axis=1) % 2
        bit[last] = np.eye(2)[odd[last]]
        law = (shared[:, :, None] * bit[:, None, :]).reshape(-1, 4)
        law[seen_zero & seen_one] = 0.25
        return np.repeat(law[:, None], self.length, axis=1)


def _types(total: int, parts: int) -> NDArray[np.int64]:
    """All vectors of `parts` non-negative integers that sum to `total`, one per row."""
    counts = np.zeros((1, 0), dtype=np.int64)
    left: NDArray[np.int64] = np.array([total])
    for _ in range(parts - 1):
        choices: NDArray[np.int64] = left + np.int64(1)
        start: NDArray[np.int64] = np.cumsum(choices) - choices
        taken: NDArray[np.int64] = np.arange(int(choices.sum())) - np.repeat(start, choices)
        counts = np.column_stack([np.repeat(counts, choices, axis=0), taken])
        left = np.repeat(left, choices) - taken
    return np.column_stack([counts, left])
