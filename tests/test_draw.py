"""Draws: inversion is exact, tails are kept, nothing impossible is drawn."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from reference import chi_square  # noqa: E402
from unmask import InputError  # noqa: E402
from unmask.sample.draw import Categorical, Greedy, Replay, TopK, TopP, invert  # noqa: E402

FIRST = torch.zeros(1, dtype=torch.int64)


def drawn(draw, logits, count, seed=0):
    uniform = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return draw(logits.expand(count, -1), uniform, torch.arange(count))


def counts(tokens, vocab):
    return np.bincount(tokens.numpy(), minlength=vocab)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("vocab", [1, 2, 7, 511, 512, 513, 1300])
def test_on_a_grid_of_uniform_numbers_frequencies_are_the_probabilities(vocab, dtype):
    """`n` numbers `(j + 1/2)/n`: a token of probability `p` is drawn `n p` times, to within one."""
    rng, n = np.random.default_rng(vocab), 4000
    p = rng.dirichlet(np.full(vocab, 0.3))
    p[rng.random(vocab) < 0.3] = 0.0
    if p.sum() == 0:
        p[-1] = 1.0
    p /= p.sum()
    logits = torch.log(torch.from_numpy(p)).to(dtype)
    uniform = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    found = counts(invert(logits.expand(n, -1), uniform), vocab)
    assert np.all(np.abs(found - n * p) <= 1 + 1e-3)
    assert found[p == 0].sum() == 0


def test_the_cumulative_distribution_is_inverted_in_the_order_of_the_ids():
    logits = torch.log(torch.tensor([0.25, 0.0, 0.5, 0.25], dtype=torch.float64)).expand(6, -1)
    uniform = torch.tensor([0.0, 0.2499, 0.2501, 0.7499, 0.7501, 1 - 2**-53], dtype=torch.float64)
    assert invert(logits, uniform).tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("vocab", [3, 512, 1300])
@pytest.mark.parametrize("uniform", [0.0, 5e-324, 2**-53, 0.5, 1 - 2**-53])
def test_impossible_tokens_are_never_drawn_even_at_the_ends(vocab, uniform):
    """One possible token among impossible ones, wherever it stands."""
    for where in {0, 1, vocab // 2, vocab - 2, vocab - 1}:
        logits = torch.full((1, vocab), -torch.inf)
        logits[0, where] = -3.0
        assert invert(logits, torch.tensor([uniform], dtype=torch.float64)).item() == where


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_impossible_tokens_are_never_drawn_at_the_edges_of_blocks(dtype):
    """Blocks of 512 that begin and end with impossible tokens, at the numbers where one block ends, give or take.

    Rounding then puts some of them just before their block; on 40 random laws that happens a dozen times.
    """
    rng = np.random.default_rng(1)
    for _ in range(40):
        p = rng.dirichlet(np.full(4096, 0.5))
        p[::512] = p[511::512] = 0.0
        logits = torch.log(torch.from_numpy(p / p.sum())).to(dtype)
        weight = torch.exp(logits - logits.amax())
        edges = weight.view(8, 512).sum(dim=-1).double().cumsum(dim=-1)
        near = torch.cat([edges / edges[-1] * (1 + k * 2.0**-53) for k in range(-6, 7)]).clamp(0, 1 - 2**-53)
        assert np.all(p[invert(logits.expand(len(near), -1), near).numpy()] > 0)


def test_a_peaked_distribution_keeps_its_tail():
    """The tail of probability 1e-4 is drawn as often as it should be: no lowered effective temperature.

    A grid of 50,000 numbers: 5 of them fall in the tail, whose 600 tokens share them.
    """
    p = np.full(601, 1e-4 / 600)
    p[0] = 1 - 1e-4
    n = 50_000
    uniform = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    logits = torch.log(torch.from_numpy(p)).float()
    tail = sum(int((invert(logits.expand(len(part), -1), part) > 0).sum()) for part in uniform.split(10_000))
    assert tail == 5


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_temperatures_raise_probabilities_to_a_power(temperature):
    """Chi-square over 8 tokens and 20,000 draws, level 1e-6."""
    logits = torch.linspace(-2, 2, 8)
    chances = torch.softmax(logits.double() / temperature, dim=-1).numpy()
    assert chi_square(counts(drawn(Categorical(temperature), logits, 20_000), 8), chances) > 1e-6


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("count", [1, 3, 8, 50])
def test_top_k_keeps_the_most_likely_and_renormalises(count, temperature):
    """Chi-square over 20,000 draws, level 1e-6."""
    logits = torch.tensor([0.3, 2.0, -1.0, 1.0, 0.0, -2.0, 1.5, -0.5])
    p = torch.softmax(logits.double() / temperature, dim=-1).numpy()
    p[np.argsort(-p)[count:]] = 0.0
    assert chi_square(counts(drawn(TopK(count, temperature), logits, 20_000), 8), p / p.sum()) > 1e-6


@pytest.mark.parametrize(("mass", "kept"), [(0.3, 1), (0.45, 2), (0.69, 2), (0.71, 3), (0.9, 4), (1.0, 5)])
def test_top_p_keeps_the_fewest_that_reach_the_mass(mass, kept):
    """Probabilities 0.4, 0.3, 0.15, 0.1, 0.05 in another order; chi-square over 20,000 draws, level 1e-6."""
    p = np.array([0.1, 0.4, 0.05, 0.3, 0.15])
    cut = np.where(p >= np.sort(p)[-kept], p, 0.0)
    found = counts(drawn(TopP(mass), torch.log(torch.from_numpy(p)).float(), 20_000), 5)
    assert chi_square(found, cut / cut.sum()) > 1e-6


def test_the_whole_mass_cuts_nothing_however_small():
    """With mass 1 a tail beyond the rounding of a float32 running sum is still possible."""
    logits = torch.zeros((1, 40_001))
    logits[0, 0] = 20.0
    last = torch.tensor([1 - 1e-13], dtype=torch.float64)
    assert TopP(1.0)(logits, last, FIRST).item() == Categorical()(logits, last, FIRST).item() > 0


def test_greedy_takes_the_most_likely_whatever_the_number():
    logits = torch.tensor([0.0, 2.0, 1.0])
    assert set(drawn(Greedy(), logits, 50).tolist()) == {1}


def test_replay_gives_the_tokens_of_the_positions():
    tokens = torch.arange(12).view(3, 4)
    rows = torch.tensor([1, 7, 10])
    assert Replay(tokens)(torch.zeros((3, 12)), torch.zeros(3), rows).tolist() == [1, 7, 10]


def test_bad_arguments_get_one_sentence():
    sentence = r"Argument 'temperature' must be greater than 0, not 0\. Use Greedy for the most likely token\."
    for make in (lambda: Categorical(0), lambda: TopK(3, 0.0), lambda: TopP(0.5, 0)):
        with pytest.raises(ValueError, match=sentence):
            make()
    with pytest.raises(ValueError, match="Argument 'temperature' must be at least 0, not -1"):
        Categorical(-1)
    with pytest.raises(ValueError, match="Argument 'count' must be at least 1, not 0"):
        TopK(0)
    with pytest.raises(ValueError, match=r"Argument 'mass' must be at most 1, not 1\.5"):
        TopP(1.5)
    with pytest.raises(ValueError, match="Argument 'mass' must be greater than 0, not 0"):
        TopP(0)


# Ties, temperatures near zero, and what is not a number


@pytest.mark.parametrize(("mass", "kept"), [(0.25, 1), (0.5, 2), (0.75, 3), (0.7500001, 4)])
def test_a_mass_that_is_reached_exactly_needs_no_more_tokens(mass, kept):
    """Four equal tokens, whose probabilities and sums are exact: half the mass is two of them."""
    logits, grid = torch.zeros((400, 4)), (torch.arange(400, dtype=torch.float64) + 0.5) / 400
    found = counts(TopP(mass)(logits, grid, torch.arange(400)), 4)
    assert np.count_nonzero(found) == kept


@pytest.mark.parametrize("make", [Categorical, lambda t: TopK(2, t), lambda t: TopP(0.9, t), lambda t: TopP(1.0, t)])
@pytest.mark.parametrize("temperature", [1e-30, 1e-39, 1e-300])
def test_a_temperature_near_zero_takes_the_most_likely_token_in_float32(make, temperature):
    """Among 600 tokens every log-probability is below −6, and its quotient by such a temperature beyond a float32."""
    logits = torch.zeros((2, 600))
    logits[0, 17], logits[1, 555] = 0.2, 0.1
    uniform = torch.tensor([0.01, 0.99], dtype=torch.float64)
    drawn = make(temperature)(torch.log_softmax(logits, dim=-1), uniform, torch.arange(2))
    assert drawn.tolist() == [17, 555]


DRAWS = [Categorical(), Categorical(0.5), TopK(1), TopK(2, 3.0), TopP(0.9), TopP(1.0), TopP(0.5, 0.2), Greedy()]


@pytest.mark.parametrize("draw", DRAWS, ids=str)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("vocab", [1, 2, 600])
def test_nothing_is_drawn_from_what_is_not_a_number(draw, bad, vocab):
    """Whole rows, one among others; for NaN and ∞ a single entry will do."""
    uniform, rows = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), torch.arange(3)
    whole = torch.zeros((3, vocab))
    whole[1] = bad
    part = torch.zeros((3, vocab))
    part[1, -1] = bad
    for logits in (whole, part) if bad != float("-inf") else (whole,):
        with pytest.raises(InputError, match="returned logits that are not numbers, or ruled out every token"):
            draw(logits, uniform, rows)


@pytest.mark.parametrize("draw", [*DRAWS, Replay(torch.zeros((2, 2), dtype=torch.int64))], ids=lambda d: repr(d)[:20])
def test_arguments_that_do_not_fit_get_one_sentence(draw):
    logits, uniform, rows = torch.zeros((3, 4)), torch.zeros(3), torch.arange(3)
    for bad, sentence in (
        ((logits[0], uniform, rows), r"Argument 'log_probabilities' must hold real numbers of shape \(rows, vocab\)"),
        ((logits[:, :0], uniform, rows), "Argument 'log_probabilities' must hold real numbers"),
        ((logits.long(), uniform, rows), "Argument 'log_probabilities' must hold real numbers"),
        ((logits + 1j, uniform, rows), "Argument 'log_probabilities' must hold real numbers"),
        ((None, uniform, rows), "Argument 'log_probabilities' must be a tensor, not None"),
        ((logits, uniform[:2], rows), "Argument 'uniform' must hold one number for each of the 3 rows"),
        ((logits, uniform + 1, rows), "Argument 'uniform' must hold numbers that are at least 0 and less than 1"),
        ((logits, uniform * torch.nan, rows), "Argument 'uniform' must hold numbers that are at least 0"),
        ((logits, uniform, rows[:2]), "Argument 'rows' must hold one index for each of the 3 rows"),
        ((logits, uniform, rows + 0.5), "Argument 'rows' must hold one index"),
    ):
        with pytest.raises(InputError, match=sentence):
            draw(*bad)


def test_tokens_to_replay_are_token_ids():
    for bad in (None, [[1]], torch.zeros(3, dtype=torch.int64), torch.zeros((2, 2)), torch.zeros((2, 2)) * 1j):
        with pytest.raises(InputError, match=r"Argument 'tokens' must (be a tensor|hold token ids)"):
            Replay(bad)
    with pytest.raises(InputError, match="Argument 'rows' must hold indices from 0 to 3"):
        Replay(torch.zeros((2, 2), dtype=torch.int64))(torch.zeros((1, 3)), torch.zeros(1), torch.tensor([4]))
