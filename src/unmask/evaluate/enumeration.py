"""The exact distribution of the sampler, by enumeration of everything it can do.

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

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.distribution.base import Distribution
from unmask.distribution.table import Table
from unmask.evaluate.exact import Estimate, require_blind
from unmask.information.measures import kl
from unmask.size.base import Blind, Randomness

# A predictor maps `(tokens, masked)`, both `(batch, length)`, to probabilities `(batch, length, vocab)`.
Predictor = Callable[[NDArray[np.int64], NDArray[np.bool_]], NDArray[np.float64]]

# Numbers to be computed in all. However few sequences there are, going through one split of the positions takes as long
# as some hundred numbers.
_WORK, _SPLIT = 1 << 28, 1 << 8


@final
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
        InputError: if there is too much to enumerate, which is found out before anything is enumerated.

    Example:
        >>> from unmask import size
        >>> from unmask.distribution import Parity, Table
        >>> law = output_law(Parity(2).marginals, size.Even(1), Table.of(Parity(2)).probabilities)
        >>> law.output.tolist(), round(law.expected_kl, 4)  # two equal bits, drawn as if they were independent
        ([[0.25, 0.25], [0.25, 0.25]], 0.6931)
    """
    require_blind(size)
    joint = joint_of(target)
    length, vocab = joint.ndim, joint.shape[0]
    _check_small("target", length, vocab)
    each = max(joint.size, _SPLIT)
    if each * _how_many(length, size) > _WORK:
        raise _too_much("size", f"{size.steps} steps")
    plans = [
        (sizes, size.log_probability(sizes))
        for sizes in compositions(length, size.steps, least=0 if size.may_skip else 1)
    ]
    plans = [(sizes, chance) for sizes, chance in plans if chance > -np.inf]
    if each * sum(math.exp(_log_orderings(sizes)) for sizes, _ in plans) > _WORK:
        raise _too_much("target", f"{vocab}^{length} sequences")
    tokens = np.indices(joint.shape).reshape(length, -1).T
    chances = revealed_chances(predictor, tokens, vocab)
    p = joint.ravel()
    output, expected = np.zeros(p.size), 0.0
    for sizes, chance in plans:
        weight = math.exp(chance - _log_orderings(sizes))
        for sets in partitions(range(length), tuple(count for count in sizes if count)):
            law, revealed = np.ones(p.size), 0
            for batch in sets:
                for position in batch:
                    law = law * chances[revealed][:, position]
                revealed |= sum(1 << position for position in batch)
            output += weight * law
            expected += weight * kl(p, law)
    return Law(output.reshape(joint.shape), expected, kl(p, output))


def objective(predictor: Predictor, size: Blind, distribution: Distribution) -> float:
    """`J(p̂)` by enumeration of all sequences and all revealed sets, in nats (never positive).

    Arguments:
        predictor: Conditional marginals.
        size: Any size schedule that does not look at predictions.
        distribution: What the predictor is trained on.

    Raises:
        InputError: if there is too much to enumerate.
    """
    require_blind(size)
    _require_distribution(distribution)
    length = distribution.length
    _check_small("distribution", length, distribution.vocab)
    joint = Table.of(distribution).probabilities
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


def prediction_error(predictor: Predictor, size: Blind, distribution: Distribution) -> float:
    """`ε_pred(π) = J(p*) − J(p̂)`, exact, in nats; infinite if `p̂` excludes something possible.

    Arguments as for `objective`.
    """
    real = objective(predictor, size, distribution)
    return objective(distribution.marginals, size, distribution) - real


def sampled_prediction_error(
    predictor: Predictor, size: Blind, distribution: Distribution, draws: int, *, rng: Randomness
) -> Estimate:
    """`ε_pred(π)` estimated from `draws` independent `(X, S, τ)`, the true marginals on the same draws.

    Arguments:
        predictor: Conditional marginals.
        size: Any size schedule that does not look at predictions.
        distribution: What the predictor is trained on, of any size.
        draws: How many, at least 2.
        rng: A numpy generator, or a seed.
    """
    _require_predictor(predictor)
    require_blind(size)
    _require_distribution(distribution)
    generator = check.generator("rng", rng)
    draws = check.integer("draws", draws, least=2)
    with check.renamed("count", "draws"):
        tokens = distribution.sample(draws, rng=generator)
    masked = _visited_masks(distribution.length, size, draws, generator)
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
    _require_predictor(predictor)
    length = tokens.shape[1]
    result: dict[int, NDArray[np.float64]] = {}
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
    length = check.integer("length", length, least=0, most=check.LONGEST)
    steps = check.integer("steps", steps, least=1, most=check.LONGEST)
    least = check.integer("least", least, least=0)
    free = length - least * steps  # what is left to hand out, cut at steps−1 places that may coincide
    if free >= 0:
        for cuts in combinations_with_replacement(range(free + 1), steps - 1):
            yield tuple(least + high - low for low, high in pairwise((0, *cuts, free)))


def partitions(positions: range | tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Every split of `positions` into disjoint sets of the given sizes, in order."""
    places = tuple(check.listed("positions", positions, "be a list of positions"))
    given = check.listed("sizes", sizes, "be a list of integers")
    yield from _partitions(places, tuple(check.integer("sizes", each, least=0, most=check.LONGEST) for each in given))


def _partitions(positions: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    if not sizes:
        yield []
        return
    for first in combinations(positions, sizes[0]):
        left = tuple(position for position in positions if position not in first)
        for rest in _partitions(left, sizes[1:]):
            yield [first, *rest]


def _log_orderings(sizes: tuple[int, ...]) -> float:
    """Log of the number of splits with these sizes, the multinomial coefficient."""
    return math.lgamma(sum(sizes) + 1) - sum(math.lgamma(size + 1) for size in sizes)


def _how_many(length: int, size: Blind) -> int:
    """The number of sizes to go through."""
    if size.may_skip:
        steps = size.steps if size.may_exceed else check.steps_and_length(size.steps, length)[0]
        return math.comb(length + steps - 1, length)
    steps, length = check.steps_and_length(size.steps, length)
    return math.comb(length - 1, steps - 1)


def joint_of(target: ArrayLike) -> NDArray[np.float64]:
    """The probabilities of all sequences, one axis for each token.

    Raises:
        InputError: if they are no such table, or do not sum to 1.
    """
    joint = check.numbers("target", target)
    if joint.ndim == 0 or len(set(joint.shape)) > 1:
        shape = f"but its shape is {joint.shape}"
        raise check.InputError("target", "have one axis per token, all of equal size", detail=shape)
    check.probabilities("target", joint.ravel())
    return joint


def _check_small(name: str, length: int, vocab: int) -> None:
    """Refuse what has too many sequences to go through with every set of them revealed."""
    if length * math.log2(2 * vocab) + math.log2(length) > math.log2(_WORK):
        raise _too_much(name, f"{vocab}^{length} sequences")


def _too_much(name: str, found: str) -> check.InputError:
    remedy = "For larger distributions, unmask.evaluate.expected_kl computes the exact expected KL."
    return check.InputError(name, "be small enough to enumerate", found=found, remedy=remedy)


def _require_predictor(predictor: object) -> None:
    check.function("predictor", predictor, "be a function of tokens and masks, such as distribution.marginals")


def _require_distribution(distribution: object) -> None:
    if not isinstance(distribution, Distribution):
        raise check.InputError("distribution", "be a distribution", found=check.type_of(distribution))
