"""The exact law of the sampler, by enumeration of everything it can do.

For fixed sets `S` the sampler with predictor `p̂` produces a sequence `x` with probability

    p_{Y^S}(x) = Π_k Π_{i∈S_k} p̂_i(x_i | x_{S_1 ∪ … ∪ S_{k−1}}).

Enumerating all sizes, all sets and all sequences gives the law of what is really generated, the mixture
`E_S p_{Y^S}`, and both divergences from a target `p`: the expected one, `E_S KL(p ‖ p_{Y^S})`, and that of the mixture.
This is brute force for small vocabularies and up to about seven tokens: the ground truth that the fast formulas are
tested against.

**The paper's training objective** is a sum of the same kind. A mask predictor `p̂` is trained by revealing a random set
and predicting the rest,

    J(p̂) = E_{X, S, τ} [ L/|M| Σ_{i∈M} log p̂_i(X_i | X_{not M}) ],       P(τ = k | S) = |S_k| / L,    M = S_τ ∪ … ∪ S_K,

where `S` is drawn from the schedule. Its maximiser is the product of the true conditional marginals `p*`, and

    ε_pred(π) = J(p*) − J(p̂) = E_S KL(p ‖ p_{Y^S}) − E_S KL(p ‖ p_{Ȳ^S})

is exactly what the imperfect predictor adds to the expected KL of the ideal sampler `Ȳ` (the paper's decoupling
identity).

Level `n = L − |M|` is visited with probability `v_n / L`, with `v` the schedule's batch mass, and the set is uniform
given its size; so both quantities are finite sums for a distribution small enough to enumerate.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import lgamma

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.distribution.base import Distribution
from unmask.distribution.table import Table
from unmask.evaluate.exact import Estimate
from unmask.information.measures import kl
from unmask.size.base import Blind

# A predictor maps `(tokens, masked)`, both `(batch, length)`, to probabilities `(batch, length, vocab)`.
Predictor = Callable[[NDArray[np.int64], NDArray[np.bool_]], NDArray[np.float64]]

_WORK = 1 << 28


@dataclass(frozen=True, eq=False)
class Law:
    """What a sampler generates, and how far that is from a target.

    Attributes:
        output: The mixture law `E_S p_{Y^S}`, an array of shape `(vocab,) * length`.
        expected_kl: `E_S KL(p ‖ p_{Y^S})`.
        mixture_kl: `KL(p ‖ E_S p_{Y^S})`, never larger.
    """

    output: NDArray[np.float64]
    expected_kl: float
    mixture_kl: float


def output_law(predictor: Predictor, size: Blind, target: ArrayLike) -> Law:
    """Enumerate the sampler that reveals `size` batches at random positions and draws from `predictor`.

    Arguments:
        predictor: Conditional marginals; `distribution.marginals` is the perfect one.
        size: Any size schedule that does not look at predictions.
        target: The joint distribution to compare with, an array of shape `(vocab,) * length`.

    Raises:
        ValueError: if there is too much to enumerate.
    """
    joint = check.numbers("target", target)
    if joint.ndim == 0 or len(set(joint.shape)) > 1:
        raise check.InputError("target", "have one axis of equal size per token", found=f"the shape {joint.shape}")
    check.probabilities("target", joint.ravel())
    length, vocab = joint.ndim, joint.shape[0]
    plans = [
        (sizes, size.log_probability(sizes))
        for sizes in compositions(length, size.steps, least=0 if size.may_skip else 1)
    ]
    plans = [(sizes, chance) for sizes, chance in plans if chance > -np.inf]
    work = joint.size * sum(np.exp(_log_orderings(sizes)) for sizes, _ in plans)
    if work > _WORK or joint.size * 2**length * length > _WORK:
        raise check.InputError(
            "target",
            "be small enough to enumerate",
            found=f"{vocab}^{length} sequences",
            remedy="Use unmask.evaluate for exact errors of larger distributions.",
        )
    tokens = np.indices(joint.shape).reshape(length, -1).T
    chances = revealed_chances(predictor, tokens, vocab)
    p = joint.ravel()
    output, expected = np.zeros(p.size), 0.0
    for sizes, chance in plans:
        weight = np.exp(chance - _log_orderings(sizes))
        for sets in partitions(range(length), sizes):
            law, revealed = np.ones(p.size), 0
            for batch in sets:
                for position in batch:
                    law = law * chances[revealed][:, position]
                revealed |= sum(1 << position for position in batch)
            output += weight * law
            expected += weight * kl(p, law)
    return Law(output.reshape(joint.shape), expected, kl(p, output))


def objective(predictor: Predictor, distribution: Distribution, size: Blind) -> float:
    """`J(p̂)` by enumeration of all sequences and all revealed sets, in nats (never positive)."""
    joint = Table.of(distribution).probabilities
    length = distribution.length
    tokens = np.indices(joint.shape).reshape(length, -1).T
    weight = joint.ravel()
    possible = weight > 0
    chances = revealed_chances(predictor, tokens[possible], distribution.vocab)
    mass = size.batch_mass(length)
    total, sets = np.zeros(length), np.zeros(length)
    for revealed, chance in chances.items():
        n = revealed.bit_count()
        if n == length or mass[n] == 0:
            continue
        masked = [i for i in range(length) if not revealed >> i & 1]
        with np.errstate(divide="ignore"):
            total[n] += weight[possible] @ np.log(chance[:, masked]).sum(axis=1)
        sets[n] += 1
    visited = sets > 0
    level = np.arange(length)[visited]
    return float(np.sum(mass[visited] / (length - level) * total[visited] / sets[visited]))


def prediction_error(predictor: Predictor, distribution: Distribution, size: Blind) -> float:
    """`ε_pred(π) = J(p*) − J(p̂)`, exact, in nats; infinite if `p̂` excludes something possible."""
    return objective(distribution.marginals, distribution, size) - objective(predictor, distribution, size)


def sampled_prediction_error(
    predictor: Predictor, distribution: Distribution, size: Blind, draws: int, *, rng: np.random.Generator
) -> Estimate:
    """`ε_pred(π)` estimated from `draws` independent `(X, S, τ)`, the true marginals on the same draws."""
    draws = check.integer("draws", draws, least=2)
    tokens = distribution.sample(draws, rng=rng)
    masked = _visited_masks(distribution.length, size, draws, rng)
    values = _scores(distribution.marginals, tokens, masked) - _scores(predictor, tokens, masked)
    return Estimate.of(values)


def _visited_masks(length: int, size: Blind, draws: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Masks `M` of the objective: draw the sizes, a step in proportion to its size, and the sets."""
    ends = np.cumsum(size.draw(length, rng=rng, count=draws), axis=1)
    # The step of a uniformly random rank is a step drawn in proportion to its size.
    chosen = rng.integers(0, length, size=(draws, 1))
    begins = np.max(np.where(ends <= chosen, ends, 0), axis=1, keepdims=True)
    rank = rng.permuted(np.tile(np.arange(length), (draws, 1)), axis=1)
    return rank >= begins


def _scores(predictor: Predictor, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
    prediction = predictor(np.where(masked, 0, tokens), masked)
    chance = np.take_along_axis(prediction, tokens[..., None], axis=2)[..., 0]
    with np.errstate(divide="ignore"):
        logs = np.where(masked, np.log(np.where(masked, chance, 1.0)), 0.0)
    return tokens.shape[1] / masked.sum(axis=1) * logs.sum(axis=1)


def revealed_chances(predictor: Predictor, tokens: NDArray[np.int64], vocab: int) -> dict[int, NDArray[np.float64]]:
    """`p̂_i(x_i | x_A)` for every set `A` (as a bit mask) and every row `x` of `tokens`: shape `(rows, length)`."""
    length = tokens.shape[1]
    result = {}
    for revealed in range(2**length):
        masked = np.array([not revealed >> i & 1 for i in range(length)])
        hidden = np.broadcast_to(masked, tokens.shape)
        prediction = predictor(np.where(hidden, 0, tokens), hidden.copy())
        if prediction.shape != (*tokens.shape, vocab):
            raise check.InputError(
                "predictor", f"return the shape {(*tokens.shape, vocab)}", found=f"{prediction.shape}"
            )
        result[revealed] = np.take_along_axis(prediction, tokens[..., None], axis=2)[..., 0]
    return result


def compositions(length: int, steps: int, *, least: int = 1) -> Iterator[tuple[int, ...]]:
    """Every way to write `length` as `steps` ordered sizes of at least `least`.

    Example:
        >>> list(compositions(4, 2))
        [(1, 3), (2, 2), (3, 1)]
    """
    steps = check.integer("steps", steps, least=1)
    if steps == 1:
        if length >= least:
            yield (length,)
        return
    for first in range(least, length - least * (steps - 1) + 1):
        for rest in compositions(length - first, steps - 1, least=least):
            yield (first, *rest)


def partitions(positions: range | tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Every split of `positions` into disjoint sets of the given sizes, in order."""
    if not sizes:
        yield []
        return
    for first in combinations(positions, sizes[0]):
        left = tuple(position for position in positions if position not in first)
        for rest in partitions(left, sizes[1:]):
            yield [first, *rest]


def _log_orderings(sizes: tuple[int, ...]) -> float:
    """Log of the number of splits with these sizes, the multinomial coefficient."""
    return lgamma(sum(sizes) + 1) - sum(lgamma(size + 1) for size in sizes)
