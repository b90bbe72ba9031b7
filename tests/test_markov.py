import math
import time

import mpmath
import numpy as np
import pytest

from unmask.distribution import Markov, Table, estimate_curve


def _reference_loss(transition: list[list], length: int) -> list[mpmath.mpf]:
    """The loss curve at 60 digits from the closed form of the module's opening."""
    with mpmath.workdps(60):
        matrix = mpmath.matrix(transition)
        vocab = matrix.rows
        # The stationary law solves π(P − I) = 0 with the last equation replaced by Σπ = 1.
        system = (matrix - mpmath.eye(vocab)).T
        for column in range(vocab):
            system[vocab - 1, column] = 1
        law = mpmath.lu_solve(system, mpmath.matrix([0] * (vocab - 1) + [1]))
        single = -mpmath.fsum(p * mpmath.log(p) for p in law)
        power, informations = matrix, []
        for _ in range(length - 1):
            informations.append(
                mpmath.fsum(
                    law[i] * power[i, j] * mpmath.log(power[i, j] / law[j]) for i in range(vocab) for j in range(vocab)
                )
            )
            power = power * matrix

        def information(visible: int) -> mpmath.mpf:
            if visible < 2:
                return visible * single
            pairs = (
                (length - gap) * mpmath.binomial(length - gap - 1, visible - 2) * informations[gap - 1]
                for gap in range(1, length)
            )
            return visible * single - mpmath.fsum(pairs) / mpmath.binomial(length, visible)

        h = [information(visible) for visible in range(length + 1)]
        return [h[n + 1] - h[n] for n in range(length)]


@pytest.mark.parametrize(
    "transition",
    [
        [[0.75, 0.25], [0.5, 0.5]],
        [[0.5, 0.25, 0.25], [0.125, 0.5, 0.375], [0.25, 0.125, 0.625]],
        [[0.9990234375, 0.0009765625], [0.001953125, 0.998046875]],
    ],
)
def test_curve_agrees_with_sixty_digits(transition):
    expected = np.array([float(value) for value in _reference_loss(transition, 40)])
    np.testing.assert_allclose(Markov(transition, 40).curve().loss, expected, rtol=1e-13, atol=1e-15)


def test_informations_keep_their_relative_accuracy_when_tiny():
    """For a symmetric bit with correlation `c`, `I(a) = c^{2a}/2 + c^{4a}/12 + …`, down to 1e-20 of the first."""
    informations = Markov.sticky(2, 0.75, 60).informations()
    with mpmath.workdps(60):
        for gap, value in enumerate(informations, start=1):
            c = mpmath.mpf(1) / 2**gap
            exact = ((1 + c) * mpmath.log(1 + c) + (1 - c) * mpmath.log(1 - c)) / 2
            assert value == pytest.approx(float(exact), rel=1e-11)
    assert informations[-1] < 1e-20 * informations[0] * 1.0001
    assert len(informations) < 40


def test_informations_decrease_with_distance():
    chain = Markov(np.random.default_rng(0).dirichlet([0.3] * 5, 5), 50)
    assert (np.diff(chain.informations()) <= 0).all()


def test_long_chains_take_less_than_a_second():
    start = time.perf_counter()
    curve = Markov.sticky(27, 0.9, 2000).curve()
    assert time.perf_counter() - start < 1
    assert curve.loss[0] == pytest.approx(math.log(27))
    # H(X) = H(π) + (L−1) H(next | token)
    step = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1 / 26))
    assert curve.entropy == pytest.approx(math.log(27) + 1999 * step, rel=1e-12)
    assert curve.total_correlation == pytest.approx(1999 * (math.log(27) - step), rel=1e-9)


def test_last_loss_is_the_entropy_between_two_neighbours():
    """With all other tokens visible, `H(X_i | X_−i)` is `g(1)` at the ends and `2 g(1) − g(2)` inside."""
    length, chain = 500, Markov.sticky(3, 0.6, 500)
    single, (near, far) = math.log(3), chain.informations()[:2]
    inside, end = 2 * (single - near) - (single - far), single - near
    expected = ((length - 2) * inside + 2 * end) / length
    assert chain.curve().loss[-1] == pytest.approx(expected, rel=1e-12)


def test_independent_tokens_have_a_flat_curve():
    law = np.array([0.2, 0.3, 0.5])
    curve = Markov(np.tile(law, (3, 1)), 300).curve()
    np.testing.assert_allclose(curve.loss, -(law * np.log(law)).sum(), rtol=1e-14)
    assert curve.total_correlation < 1e-9


def test_a_deterministic_cycle_is_known_from_one_token():
    curve = Markov(np.roll(np.eye(5), 1, axis=1), 100).curve()
    np.testing.assert_allclose(curve.loss, [math.log(5)] + [0.0] * 99, atol=1e-13)


def test_stationary_law_is_accurate_in_every_component():
    """Grassmann–Taksar–Heyman: for a birth–death chain `π_{v+1}/π_v` is the ratio of the rates."""
    up, down, vocab = 1e-3, 0.5, 8
    matrix = np.diag([up] * (vocab - 1), 1) + np.diag([down] * (vocab - 1), -1)
    matrix += np.diag(1 - matrix.sum(axis=1))
    law = Markov(matrix, 3).stationary
    np.testing.assert_allclose(law[1:] / law[:-1], up / down, rtol=1e-14)


def test_tokens_that_are_left_for_good_never_occur():
    chain = Markov([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.0, 1.0, 0.0]], 4)
    assert chain.stationary[0] == 0.0
    assert not (chain.sample(500, rng=np.random.default_rng(0)) == 0).any()
    assert chain.log_probability([0, 1, 2, 1])[0] == -math.inf
    masked = np.array([False, True, True, True])
    np.testing.assert_array_equal(chain.marginals([0, 0, 0, 0], masked)[0, 1:], np.full((3, 3), 1 / 3))


def test_marginals_of_a_long_gap_are_products_of_powers():
    matrix = np.random.default_rng(1).dirichlet([1.0] * 4, 4)
    chain = Markov(matrix, 60)
    tokens = np.zeros(60, dtype=int)
    tokens[5], tokens[48] = 2, 3
    masked = np.ones(60, dtype=bool)
    masked[[5, 48]] = False
    marginals = chain.marginals(tokens, masked)[0]
    power = np.linalg.matrix_power
    for position in range(60):
        if position < 5:
            law = chain.stationary * power(matrix, 5 - position)[:, 2]
        elif position < 48:
            law = power(matrix, position - 5)[2] * power(matrix, 48 - position)[:, 3]
        else:
            law = power(matrix, position - 48)[3]
        np.testing.assert_allclose(marginals[position], law / law.sum(), atol=1e-13)


def test_excess_on_even_sizes_falls_with_the_number_of_steps():
    """`Σ_k s ℓ(N_k) − H` at 4 and 8 even steps, the scale of the numbers quoted for a chain of length 128."""
    curve = Markov.sticky(27, 0.4, 128).curve()
    excess = [128 // steps * curve.loss[:: 128 // steps].sum() - curve.entropy for steps in (1, 4, 8, 128)]
    assert excess == pytest.approx([curve.total_correlation, 19.0528, 9.0836, 0.0], abs=1e-4)


def test_estimates_of_a_long_chain_agree_with_its_curve():
    """Five standard errors at each of 200 values: a failure probability below 2e-4 for a fresh seed."""
    chain = Markov.sticky(3, 0.8, 200)
    estimate = estimate_curve(chain, 60, rng=np.random.default_rng(0))
    gap = np.abs(estimate.loss - chain.curve().loss)
    assert (gap <= 5 * estimate.standard_error + 1e-12).all()


def test_a_chain_of_two_tokens_has_the_curve_of_its_table():
    chain = Markov([[0.1, 0.9], [0.3, 0.7]], 2)
    np.testing.assert_allclose(chain.curve().loss, Table.of(chain).curve().loss, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Markov([0.5, 0.5], 3), "Argument 'transition' must be a square matrix, not an array of shape (2,)."),
        (
            lambda: Markov([[0.5, 0.5]], 3),
            "Argument 'transition' must be a square matrix, not an array of shape (1, 2).",
        ),
        (
            lambda: Markov([[0.5, 0.4], [0.5, 0.5]], 3),
            "Argument 'transition' must sum to 1 in every row, but one sum is off by 0.1.",
        ),
        (
            lambda: Markov(np.eye(3), 3),
            "Argument 'transition' must have one stationary distribution, not 3 separate ones. "
            "Connect the tokens, or mix the parts explicitly.",
        ),
        (lambda: Markov([[1.0]], 0), "Argument 'length' must be at least 1, not 0."),
        (lambda: Markov.sticky(2, 1.0, 4), "Argument 'stay' must be less than 1, not 1."),
        (lambda: Markov.sticky(2, -0.1, 4), "Argument 'stay' must be at least 0, not -0.1."),
        (lambda: Markov.sticky(1, 0.5, 4), "Argument 'vocab' must be at least 2, not 1."),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match="Argument") as error:
        call()
    assert str(error.value) == sentence
