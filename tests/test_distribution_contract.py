"""Every public distribution keeps the contract of `Distribution`, checked against its own enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

import unmask.distribution
from unmask.distribution import (
    Distribution,
    LatentParity,
    LinearCode,
    Markov,
    Mixture,
    Parity,
    ReedSolomon,
    Table,
    estimate_curve,
    latent_code,
)
from unmask.information.curve import Curve


def _instances() -> list[Distribution]:
    rng = np.random.default_rng(20260101)
    return [
        Table(rng.dirichlet([0.3] * 27).reshape(3, 3, 3)),
        Table(rng.dirichlet([0.3] * 5)),
        Table([[1.0]]),
        Table([[0.5, 0.0], [0.0, 0.5]]),
        Table([[[0.5, 0.25], [0.0, 0.0]], [[0.0, 0.25], [0.0, 0.0]]]),
        ReedSolomon(1, 1, 2),
        ReedSolomon(3, 1, 3),
        ReedSolomon(4, 2, 4),
        ReedSolomon(5, 3, 5),
        ReedSolomon(4, 3, 7),
        ReedSolomon(4, 2, 8),
        ReedSolomon(4, 2, 9),
        ReedSolomon(3, 3, 8),
        Parity(1),
        Parity(2),
        Parity(6),
        Parity(4, 3),
        Parity(4, 4),
        Parity(3, 8),
        Parity(3, 9),
        LinearCode([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], 2),
        LinearCode([[1, 0, 2, 0], [0, 0, 1, 0]], 4),
        LinearCode([[3, 0, 2, 1], [1, 4, 0, 1], [0, 0, 1, 2]], 5),
        LinearCode([[0, 1, 6, 3]], 8),
        LinearCode([[2, 7, 1, 0], [0, 0, 5, 8]], 9),
        LinearCode(np.eye(3, dtype=int), 3),
        latent_code(7, 3, rng=rng),
        latent_code(7, 5, rng=rng),
        Markov([[1.0]], 3),
        Markov([[0.9, 0.1], [0.4, 0.6]], 7),
        Markov(rng.dirichlet([0.5] * 3, 3), 5),
        Markov([[0.0, 1.0], [1.0, 0.0]], 4),
        Markov([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.0, 1.0, 0.0]], 5),
        Markov([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.7, 0.0, 0.3]], 1),
        Markov.sticky(4, 0.7, 4),
        Mixture([0.2, 0.8], rng.dirichlet([0.5] * 3, 2), length=5),
        Mixture([0.2, 0.3, 0.5], rng.dirichlet([0.5] * 2, (3, 6))),
        Mixture([0.5, 0.5], [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], length=4),
        Mixture([0.0, 1.0], [[1.0, 0.0], [0.25, 0.75]], length=3),
        LatentParity(1),
        LatentParity(2),
        LatentParity(3),
        LatentParity(5),
    ]


INSTANCES = _instances()
each = pytest.mark.parametrize("distribution", INSTANCES, ids=lambda d: repr(d))


def _sequences(distribution: Distribution) -> np.ndarray:
    return np.array(list(itertools.product(range(distribution.vocab), repeat=distribution.length)))


def test_every_public_class_is_in_the_list():
    public = {getattr(unmask.distribution, name) for name in unmask.distribution.__all__}
    final = {c for c in public if isinstance(c, type) and issubclass(c, Distribution)} - {
        Distribution,
        unmask.distribution.Code,
    }
    assert final == {type(distribution) for distribution in INSTANCES}


@each
def test_probabilities_sum_to_one(distribution):
    total = np.exp(distribution.log_probability(_sequences(distribution))).sum()
    assert total == pytest.approx(1.0, abs=1e-12)


@each
def test_curve_is_that_of_the_enumerated_table(distribution):
    curve = distribution.curve()
    assert isinstance(curve, Curve)
    assert curve.length == distribution.length
    np.testing.assert_allclose(curve.loss, Table.of(distribution).curve().loss, atol=1e-12)


@each
def test_marginals_are_those_of_the_enumerated_table_for_every_context(distribution):
    """All `2^L` revealed sets, and all tokens on them, the impossible ones too."""
    table = Table.of(distribution)
    tokens = _sequences(distribution)
    if len(tokens) > 1100:
        tokens = np.random.default_rng(0).choice(tokens, 300, replace=False)
    for hidden in itertools.product([False, True], repeat=distribution.length):
        masked = np.broadcast_to(hidden, tokens.shape)
        actual = distribution.marginals(tokens, masked)
        np.testing.assert_allclose(actual, table.marginals(tokens, masked), atol=1e-14)


@each
def test_marginals_are_distributions_with_revealed_tokens_certain(distribution):
    rng = np.random.default_rng(1)
    tokens = distribution.sample(50, rng=rng)
    masked = rng.random(tokens.shape) < 0.5
    marginals = distribution.marginals(tokens, masked)
    assert marginals.shape == (50, distribution.length, distribution.vocab)
    np.testing.assert_allclose(marginals.sum(axis=2), 1.0, atol=1e-12)
    assert (marginals >= 0).all()
    chosen = np.take_along_axis(marginals, tokens[:, :, None], axis=2)[:, :, 0]
    assert (chosen[~masked] == 1.0).all()
    assert (chosen > 0).all()


def test_contexts_of_probability_zero_give_uniform_marginals():
    """Each kind of distribution has such contexts among the instances, with one token masked."""
    kinds = set()
    for distribution in INSTANCES:
        table = Table.of(distribution)
        tokens = _sequences(distribution)
        outside = tokens[np.isneginf(distribution.log_probability(tokens))]
        for row in outside[:: max(1, len(outside) // 10)]:
            for hidden in range(distribution.length):
                context = np.delete(np.arange(distribution.length), hidden).tolist()
                if not context or np.isfinite(table.marginal(context).log_probability(row[context])[0]):
                    continue
                masked = np.arange(distribution.length) == hidden
                marginals = distribution.marginals(row, masked)[0, hidden]
                np.testing.assert_array_equal(marginals, 1 / distribution.vocab)
                kinds.add(type(distribution))
    # A parity code with a masked token allows every context, so it alone has none.
    assert kinds == {type(distribution) for distribution in INSTANCES} - {Parity}


@each
def test_rows_of_a_batch_are_independent(distribution):
    rng = np.random.default_rng(2)
    tokens = rng.integers(distribution.vocab, size=(20, distribution.length))
    masked = rng.random(tokens.shape) < 0.5
    together = distribution.marginals(tokens, masked)
    alone = np.concatenate([distribution.marginals(t, m) for t, m in zip(tokens, masked, strict=True)])
    np.testing.assert_allclose(together, alone, atol=1e-15)


@each
def test_masked_positions_may_hold_anything(distribution):
    rng = np.random.default_rng(3)
    tokens = distribution.sample(5, rng=rng)
    masked = rng.random(tokens.shape) < 0.5
    blanked = np.where(masked, distribution.vocab + 7, tokens)
    np.testing.assert_array_equal(distribution.marginals(tokens, masked), distribution.marginals(blanked, masked))


@each
def test_draws_follow_the_law(distribution):
    """Pearson's chi-square at level 1e-6 per distribution, fixed seed."""
    count = 20_000
    law = Table.of(distribution).probabilities.ravel()
    draws = distribution.sample(count, rng=np.random.default_rng(4))
    assert draws.shape == (count, distribution.length)
    assert draws.dtype == np.int64
    cell = np.ravel_multi_index(tuple(draws.T), (distribution.vocab,) * distribution.length)
    seen = np.bincount(cell, minlength=law.size)
    assert (seen[law == 0] == 0).all()
    # Cells too rare for the chi-square law are counted together.
    common = law * count >= 10
    expected = np.append(law[common], max(law[~common].sum(), 0.0)) * count
    observed = np.append(seen[common], seen[~common].sum())
    expected, observed = expected[expected > 1e-6], observed[expected > 1e-6]
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic <= chi2.isf(1e-6, max(expected.size - 1, 1))


@each
def test_draws_depend_on_the_seed_alone(distribution):
    first = distribution.sample(10, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(first, distribution.sample(10, rng=np.random.default_rng(5)))


@each
def test_no_draws_and_empty_batches_are_allowed(distribution):
    none = distribution.sample(0, rng=np.random.default_rng(0))
    assert none.shape == (0, distribution.length)
    assert distribution.log_probability(none).shape == (0,)
    marginals = distribution.marginals(none, np.zeros(none.shape, dtype=bool))
    assert marginals.shape == (0, distribution.length, distribution.vocab)


@each
def test_estimated_curve_agrees_within_five_standard_errors(distribution):
    """Each of at most seven values fails with probability below 1e-6, up to the normal approximation."""
    estimate = estimate_curve(distribution, 50, rng=np.random.default_rng(6))
    gap = np.abs(estimate.loss - distribution.curve().loss)
    assert (gap <= 5 * estimate.standard_error + 1e-12).all()
    assert estimate.draws == 50


@each
def test_bad_contexts_are_refused_in_one_sentence(distribution):
    length = distribution.length
    tokens = np.zeros((1, length), dtype=np.int64)
    masked = np.zeros((1, length), dtype=bool)
    with pytest.raises(ValueError, match=r"^Argument 'masked' must hold booleans, not int64\.$"):
        distribution.marginals(tokens, masked.astype(np.int64))
    with pytest.raises(ValueError, match=r"^Argument 'masked' must have the shape of 'tokens'"):
        distribution.marginals(tokens, masked[:, :0])
    with pytest.raises(ValueError, match=rf"^Argument 'tokens' must have {length} positions"):
        distribution.log_probability(np.zeros((1, length + 1), dtype=np.int64))
    with pytest.raises(ValueError, match=r"^Argument 'tokens' must hold token ids from 0 to"):
        distribution.log_probability(tokens + distribution.vocab)
    with pytest.raises(ValueError, match=r"^Argument 'count' must be at least 0, not -1\.$"):
        distribution.sample(-1, rng=np.random.default_rng(0))


@each
def test_entropy_is_the_sum_of_the_curve(distribution):
    law = Table.of(distribution).probabilities
    entropy = -math.fsum(float(p) * math.log(float(p)) for p in law.ravel() if p > 0)
    assert distribution.curve().entropy == pytest.approx(entropy, abs=1e-12)


@each
def test_conditional_marginals_of_a_row_do_not_depend_on_its_neighbours(distribution):
    """To the last bit: an order by confidence would turn a difference in the last digit into other tokens."""
    rng = np.random.default_rng(5)
    tokens = distribution.sample(33, rng=rng)
    masked = rng.random(tokens.shape) < 0.6
    masked[:3] = True
    together = distribution.marginals(tokens, masked)
    for batch in (1, 7):
        parts = [distribution.marginals(tokens[i : i + batch], masked[i : i + batch]) for i in range(0, 33, batch)]
        np.testing.assert_array_equal(np.concatenate(parts), together)
