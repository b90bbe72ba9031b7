import itertools
import math
import subprocess
import sys
import time

import galois
import numpy as np
import pytest
from scipy.stats import binomtest

from unmask.distribution import LinearCode, Parity, ReedSolomon, Table, latent_code
from unmask.distribution.code import prime_power

FIELDS = [2, 3, 4, 5, 7, 8, 9]


def _mean_ranks(generator: np.ndarray, order: int) -> np.ndarray:
    """The mean rank of `n` columns, one rank computation per set."""
    field = galois.GF(order)
    length = generator.shape[1]
    means = [0.0]
    for size in range(1, length + 1):
        sets = list(itertools.combinations(range(length), size))
        ranks = [np.linalg.matrix_rank(field(generator[:, chosen])) for chosen in sets]
        means.append(sum(map(int, ranks)) / len(sets))
    return np.array(means)


def test_the_papers_code_has_its_total_correlation():
    """Length 2000, 2048 symbols, codimension 5: TC is five symbols, 38.12 nats."""
    curve = ReedSolomon(2000, 1995, 2048).curve()
    assert curve.total_correlation == pytest.approx(5 * math.log(2048))
    assert curve.total_correlation == pytest.approx(38.12, abs=0.005)
    assert curve.dual_total_correlation == pytest.approx(1995 * math.log(2048))


def test_reed_solomon_curves_end_in_exact_zeros():
    loss = ReedSolomon(10, 4, 11).curve().loss
    assert loss.tolist() == [math.log(11)] * 4 + [0.0] * 6


def test_constructors_and_curves_do_not_import_galois():
    program = (
        "import sys; from unmask.distribution import *; "
        "ReedSolomon(2000, 1995, 2048).curve(); Parity(1000, 9).curve(); LatentParity(9); "
        "assert 'galois' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("alphabet", FIELDS)
def test_reed_solomon_words_are_values_of_polynomials(alphabet):
    field = galois.GF(alphabet)
    length, dimension = min(alphabet, 4), min(alphabet, 4) - 1
    points = field(np.arange(length))
    rng = np.random.default_rng(alphabet)
    words = [np.asarray(galois.Poly(rng.integers(alphabet, size=dimension), field=field)(points)) for _ in range(50)]
    log_probability = ReedSolomon(length, dimension, alphabet).log_probability(np.array(words, dtype=np.int64))
    np.testing.assert_allclose(log_probability, -dimension * math.log(alphabet))


def test_a_long_reed_solomon_row_is_completed():
    code = ReedSolomon(2000, 1995, 2048)
    rng = np.random.default_rng(0)
    tokens = code.sample(1, rng=rng)
    assert code.log_probability(tokens)[0] == pytest.approx(-1995 * math.log(2048))
    masked = np.zeros((1, 2000), dtype=bool)
    masked[0, rng.permutation(2000)[:5]] = True
    start = time.perf_counter()
    marginals = code.marginals(tokens, masked)
    assert time.perf_counter() - start < 5
    np.testing.assert_array_equal(marginals.argmax(axis=2), tokens)
    assert (marginals.max(axis=2) == 1).all()
    masked[0, np.flatnonzero(~masked[0])[0]] = True
    assert (code.marginals(tokens, masked)[masked] == 1 / 2048).all()


def test_a_wrong_token_makes_the_context_impossible():
    code = ReedSolomon(6, 3, 7)
    tokens = code.sample(1, rng=np.random.default_rng(0))
    tokens[0, 0] = (tokens[0, 0] + 1) % 7
    assert code.log_probability(tokens)[0] == -math.inf
    masked = np.array([[False, False, False, False, True, True]])
    assert (code.marginals(tokens, masked)[masked] == 1 / 7).all()


@pytest.mark.parametrize("alphabet", FIELDS)
def test_parity_words_sum_to_zero_in_the_field(alphabet):
    words = Parity(7, alphabet).sample(200, rng=np.random.default_rng(0))
    assert (np.asarray(np.sum(galois.GF(alphabet)(words), axis=1)) == 0).all()


def test_parity_is_a_reed_solomon_like_code_at_any_length():
    curve = Parity(100_000, 4).curve()
    assert curve.total_correlation == pytest.approx(math.log(4))
    assert curve.dual_total_correlation == pytest.approx(99_999 * math.log(4))


@pytest.mark.parametrize("alphabet", FIELDS)
def test_parity_is_the_linear_code_with_one_check(alphabet):
    minus_one = int(-galois.GF(alphabet)(1))
    generator = np.hstack([np.eye(3, dtype=int), np.full((3, 1), minus_one)])
    np.testing.assert_allclose(
        Table.of(Parity(4, alphabet)).probabilities, Table.of(LinearCode(generator, alphabet)).probabilities
    )


@pytest.mark.parametrize("alphabet", FIELDS)
@pytest.mark.parametrize("dimension", [1, 2, 4, 5, 6])
def test_linear_curve_counts_ranks_through_the_code_or_its_dual(alphabet, dimension):
    rng = np.random.default_rng(alphabet * 10 + dimension)
    field = galois.GF(alphabet)
    while True:
        # Few distinct entries make sets of dependent columns common, also in large fields.
        generator = rng.integers(2, size=(dimension, 6)) * rng.integers(1, alphabet, size=(dimension, 1))
        if np.linalg.matrix_rank(field(generator)) == dimension:
            break
    code = LinearCode(generator, alphabet)
    expected = math.log(alphabet) * np.diff(_mean_ranks(generator, alphabet))
    np.testing.assert_allclose(code.curve().loss, expected, atol=1e-14)


def test_linear_curve_of_a_reed_solomon_generator_is_a_step():
    field = galois.GF(16)
    generator = np.asarray(field.Vandermonde(field.primitive_element, 12, 5)).T.astype(int)
    loss = LinearCode(generator, 16).curve().loss
    np.testing.assert_allclose(loss, ReedSolomon(12, 5, 16).curve().loss, atol=1e-14)


def test_row_operations_do_not_change_the_law():
    generator = np.array([[1, 0, 2, 3], [0, 1, 1, 2]])
    field = galois.GF(4)
    other = np.asarray(field([[2, 1], [1, 1]]) @ field(generator)).astype(int)
    one, two = LinearCode(generator, 4), LinearCode(other, 4)
    np.testing.assert_allclose(Table.of(one).probabilities, Table.of(two).probabilities)


@pytest.mark.parametrize("dimension", [4, 11])
def test_rank_estimates_agree_with_the_exact_curve(dimension):
    """How often the rank grows at `n` is binomial; each of 15 exact tests has level 1e-6."""
    code = latent_code(15, dimension, rng=np.random.default_rng(dimension))
    estimate = code.estimate_curve(400, rng=np.random.default_rng(1))
    grown = np.rint(400 * estimate.loss / math.log(2)).astype(int)
    chance = np.clip(code.curve().loss / math.log(2), 0.0, 1.0)
    assert all(binomtest(int(k), 400, p).pvalue > 1e-6 for k, p in zip(grown, chance, strict=True))
    np.testing.assert_allclose(
        estimate.standard_error, math.log(2) * np.sqrt(grown / 400 * (1 - grown / 400) / 399), atol=1e-15
    )
    assert estimate.loss.sum() == pytest.approx(dimension * math.log(2))
    assert (np.diff(estimate.curve.loss) <= 1e-12).all()


def test_latent_codes_are_the_papers_low_dtc_example():
    """`H = d log q`, `TC = (L−d) log q`, `DTC ≤ d log q`."""
    for alphabet, dimension in itertools.product([2, 3, 4], [1, 2, 5]):
        code = latent_code(10, dimension, alphabet, rng=np.random.default_rng(dimension))
        curve = code.curve()
        symbol = math.log(alphabet)
        assert code.generator.any(axis=0).all()
        assert curve.entropy == pytest.approx(dimension * symbol)
        assert curve.total_correlation == pytest.approx((10 - dimension) * symbol)
        assert curve.dual_total_correlation <= dimension * symbol + 1e-12


def test_exact_linear_curves_have_a_stated_reach():
    assert latent_code(22, 11, 4, rng=np.random.default_rng(0)).curve().length == 22
    for length, dimension, alphabet in [(23, 2, 2), (16, 8, 9)]:
        code = latent_code(length, dimension, alphabet, rng=np.random.default_rng(0))
        with pytest.raises(ValueError, match=r"^The exact curve needs .* Use .estimate_curve. to estimate it"):
            code.curve()


def test_prime_powers_are_those_of_galois():
    for number in range(2, 600):
        if galois.is_prime_power(number):
            assert prime_power("alphabet", number) == number
        else:
            with pytest.raises(ValueError, match=rf"^Argument 'alphabet' must be a prime power, not {number}\.$"):
                prime_power("alphabet", number)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ReedSolomon(3, 2, 6), "Argument 'alphabet' must be a prime power, not 6."),
        (lambda: ReedSolomon(3, 2, 1), "Argument 'alphabet' must be at least 2, not 1."),
        (lambda: ReedSolomon(3, 4, 5), "Argument 'dimension' must be at most the length 3, not 4."),
        (lambda: ReedSolomon(3, 0, 5), "Argument 'dimension' must be at least 1, not 0."),
        (
            lambda: ReedSolomon(6, 2, 5),
            "Argument 'length' must be at most the alphabet size 5, not 6. Each position needs its own field element.",
        ),
        (lambda: Parity(0), "Argument 'length' must be at least 1, not 0."),
        (lambda: Parity(3, 10), "Argument 'alphabet' must be a prime power, not 10."),
        (
            lambda: LinearCode([[1, 1], [1, 1]], 2),
            "Argument 'generator' must have full row rank 2, not rank 1. Leave out the rows that depend on others.",
        ),
        (lambda: LinearCode([[2, 1]], 2), "Argument 'generator' must hold field elements from 0 to 1."),
        (lambda: LinearCode([1, 1], 2), "Argument 'generator' must be a non-empty matrix, not an array of shape (2,)."),
        (lambda: LinearCode([[1]], 6), "Argument 'alphabet' must be a prime power, not 6."),
        (
            lambda: latent_code(3, 4, rng=np.random.default_rng(0)),
            "Argument 'dimension' must be at most the length 3, not 4.",
        ),
        (
            lambda: LinearCode([[1]], 2).estimate_curve(1, rng=np.random.default_rng(0)),
            "Argument 'draws' must be at least 2, not 1.",
        ),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match="Argument") as error:
        call()
    assert str(error.value) == sentence


def test_generators_of_fractions_are_refused():
    with pytest.raises(ValueError, match=r"^Argument 'generator' must hold integers, not float64\.$"):
        LinearCode([[0.5, 1.0]], 2)


def test_codes_with_equal_parameters_are_equal():
    assert ReedSolomon(4, 2, 5) == ReedSolomon(4, 2, 5)
    assert len({Parity(4), Parity(4), Parity(5)}) == 2
    assert repr(ReedSolomon(4, 2, 5)) == "ReedSolomon(length=4, dimension=2, alphabet=5)"
