import itertools
import math

import numpy as np
import pytest

from unmask.distribution import Markov, Table


@pytest.fixture
def table() -> Table:
    return Table(np.random.default_rng(0).dirichlet([0.4] * 81).reshape(3, 3, 3, 3))


def test_marginal_sums_out_the_other_positions_in_the_order_asked(table):
    joint = table.probabilities
    np.testing.assert_allclose(table.marginal([2]).probabilities, joint.sum(axis=(0, 1, 3)))
    np.testing.assert_allclose(table.marginal([0, 3]).probabilities, joint.sum(axis=(1, 2)))
    np.testing.assert_allclose(table.marginal([3, 0]).probabilities, joint.sum(axis=(1, 2)).T)
    expected = np.einsum("abcd->dab", joint)
    np.testing.assert_allclose(table.marginal([3, 0, 1]).probabilities, expected)


def test_condition_is_the_normalised_slice(table):
    part = table.probabilities[:, 2, :, 1]
    conditional = table.condition([0, 2, 0, 1], [True, False, True, False])
    assert (conditional.length, conditional.vocab) == (2, 3)
    np.testing.assert_allclose(conditional.probabilities, part / part.sum(), atol=1e-15)


def test_condition_on_nothing_is_the_table_itself(table):
    np.testing.assert_allclose(table.condition([0] * 4, [True] * 4).probabilities, table.probabilities)


def test_condition_on_an_impossible_context_is_uniform():
    table = Table([[[0.5, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.0, 0.0]]])
    given = table.condition([0, 1, 0], [True, False, True]).probabilities
    np.testing.assert_array_equal(given, np.full((2, 2), 0.25))


def test_marginals_are_the_marginals_of_the_conditional_table(table):
    rng = np.random.default_rng(1)
    for hidden in itertools.product([False, True], repeat=4):
        if not any(hidden):
            continue
        tokens = rng.integers(3, size=4)
        marginals = table.marginals(tokens, np.array(hidden))[0]
        conditional = table.condition(tokens, hidden)
        for axis, position in enumerate(np.flatnonzero(hidden)):
            np.testing.assert_allclose(marginals[position], conditional.marginal([axis]).probabilities, atol=1e-15)


def test_conditioning_step_by_step_rebuilds_the_probability(table):
    rng = np.random.default_rng(2)
    tokens = table.sample(20, rng=rng)
    total = np.zeros(20)
    masked = np.ones(tokens.shape, dtype=bool)
    for position in rng.permutation(4):
        chance = table.marginals(tokens, masked)[np.arange(20), position, tokens[:, position]]
        total += np.log(chance)
        masked[:, position] = False
    np.testing.assert_allclose(total, table.log_probability(tokens), atol=1e-12)


def test_table_of_a_table_is_itself(table):
    np.testing.assert_allclose(Table.of(table).probabilities, table.probabilities, rtol=1e-14)


def test_a_single_position_has_its_entropy_for_a_curve():
    assert Table([0.25, 0.75]).curve().loss == pytest.approx(
        [-0.25 * math.log(0.25) - 0.75 * math.log(0.75)], abs=1e-15
    )


def test_the_table_does_not_follow_its_argument():
    joint = np.array([0.5, 0.5])
    table = Table(joint)
    joint[0] = 0.0
    assert table.probabilities.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        table.probabilities[0] = 0.0


def test_draws_avoid_tokens_of_probability_zero():
    table = Table([0.0, 0.3, 0.0, 0.7, 0.0])
    assert set(table.sample(1000, rng=np.random.default_rng(0)).ravel().tolist()) == {1, 3}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Table(1.0), "Argument 'probabilities' must have at least one axis, one per position."),
        (
            lambda: Table([[0.5, 0.5, 0.0]]),
            "Argument 'probabilities' must have axes of equal size, but its shape is (1, 3).",
        ),
        (
            lambda: Table(np.zeros(2**24 + 1)),
            "Argument 'probabilities' must have at most 2^24 cells, not 16777217.",
        ),
        (
            lambda: Table([0.5, 0.4]),
            "Argument 'probabilities' must sum to 1, but the sum is off by 0.1.",
        ),
        (
            lambda: Table([]),
            "Argument 'probabilities' must hold one or more finite numbers, none of them negative.",
        ),
        (
            lambda: Table([0.5, 0.5]).marginal([]),
            "Argument 'positions' must hold one or more different positions, not [].",
        ),
        (
            lambda: Table([[0.5, 0.5], [0.0, 0.0]]).marginal([1, 1]),
            "Argument 'positions' must hold one or more different positions, not [1, 1].",
        ),
        (lambda: Table([0.5, 0.5]).marginal([1]), "Argument 'positions' must be at most 0, not 1."),
        (
            lambda: Table([0.5, 0.5]).condition([0], [False]),
            "Argument 'masked' must be true for at least one position.",
        ),
        (
            lambda: Table([0.5, 0.5]).condition([[0], [1]], [[True], [True]]),
            "Argument 'tokens' must be one sequence, not 2.",
        ),
        (
            lambda: Table.of(Markov.sticky(2, 0.5, 25)),
            "Argument 'distribution' must have at most 2^24 sequences, not 2^25. Shorten it, or use its own methods.",
        ),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match="Argument") as error:
        call()
    assert str(error.value) == sentence
