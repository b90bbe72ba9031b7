"""The paper's training objective, and the prediction error it leaves.

A mask predictor `p̂` is trained by revealing a random set and predicting the rest,

    J(p̂) = E_{X, S, τ} [ L/|M| Σ_{i∈M} log p̂_i(X_i | X_{not M}) ],       P(τ = k | S) = |S_k| / L,    M = S_τ ∪ … ∪ S_K,

where `S` is drawn from the schedule. Its maximiser is the product of the true conditional marginals `p*`, and

    ε_pred(π) = J(p*) − J(p̂) = E_S KL(p ‖ p_{Y^S}) − E_S KL(p ‖ p_{Ȳ^S})

is exactly what the imperfect predictor adds to the expected KL of the ideal sampler `Ȳ` (the paper's decoupling
identity).

Level `n = L − |M|` is visited with probability `v_n / L`, with `v` the schedule's batch mass, and the set is uniform
given its size; so both quantities are finite sums for a distribution small enough to enumerate.
"""

import numpy as np
from numpy.typing import NDArray

from unmask import check
from unmask.distribution.base import Distribution
from unmask.distribution.table import Table
from unmask.evaluate import Estimate
from unmask.law import Predictor, revealed_chances
from unmask.sets import reveal_steps
from unmask.size.base import Blind


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
    sizes = size.draw(length, rng=rng, count=draws)
    # The step of a uniformly random rank is a step drawn in proportion to its size.
    rank = rng.integers(0, length, size=(draws, 1))
    step = np.argmax(np.cumsum(sizes, axis=1) > rank, axis=1)
    reveal = reveal_steps(sizes, np.ones((draws, length), dtype=np.bool_), rng=rng)
    return reveal >= step[:, None]


def _scores(predictor: Predictor, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
    prediction = predictor(np.where(masked, 0, tokens), masked)
    chance = np.take_along_axis(prediction, tokens[..., None], axis=2)[..., 0]
    with np.errstate(divide="ignore"):
        logs = np.where(masked, np.log(np.where(masked, chance, 1.0)), 0.0)
    return tokens.shape[1] / masked.sum(axis=1) * logs.sum(axis=1)
