"""Predictors: only the rows asked for, wrappers that are predictors."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.distribution import LatentParity, LinearCode, Markov, Mixture, Parity, ReedSolomon, Table  # noqa: E402
from unmask.predict import (  # noqa: E402
    Counted,
    ExactPredictor,
    Guided,
    Headed,
    Logits,
    Shifted,
    Suppressed,
    Tempered,
)
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_model_may_answer_with_an_object_that_has_logits():
    class Answer:
        def __init__(self, logits):
            self.logits = logits

    model = table_model()
    tokens = torch.full((2, 5), 6)
    plain = Logits(model, 6, 6)(tokens, tokens == 6)
    wrapped = Logits(lambda tokens: Answer(model(tokens)), 6, 6)(tokens, tokens == 6)
    assert torch.equal(plain.logits(), wrapped.logits())


def test_logits_of_another_shape_are_refused():
    tokens = torch.full((2, 5), 6)
    with pytest.raises(ValueError, match=r"Argument 'model' must return logits of shape \(2, 5, 7\), not \(2, 5, 6\)"):
        Logits(table_model(), 7, 7)(tokens, tokens == 6)
    with pytest.raises(ValueError, match="Argument 'mask' must be at least 0, not -1"):
        Logits(table_model(), 6, -1)
    with pytest.raises(ValueError, match="Argument 'vocab' must be at least 1, not 0"):
        Headed(lambda tokens: tokens, lambda hidden: hidden, 0, 0)


def test_the_head_sees_only_the_rows_asked_for():
    seen = []
    weight = torch.randn((4, 9), generator=generator(6))
    body = torch.nn.Embedding(10, 4)

    def head(hidden):
        seen.append(hidden.shape[0])
        return hidden @ weight

    predictor = Headed(body, head, 9, 9)
    with torch.no_grad():
        tokens = torch.randint(9, (3, 8), generator=generator(7))
        rows = torch.tensor([3, 17])
        part = predictor(tokens, tokens < 0, rows).logits()
        assert seen == [2]
        assert torch.equal(part, predictor(tokens, tokens < 0).logits()[rows])
    seen.clear()
    Sampler(predictor, Schedule(size.Even(4), order.Random())).run((3, 8), rng=generator())
    assert sum(seen) == 24


def test_the_mask_is_never_drawn():
    """A mask inside the vocabulary that the model would love to say."""

    def model(tokens):
        logits = torch.zeros((*tokens.shape, 4))
        logits[..., 2] = 50.0
        return logits

    for predictor in (Logits(model, 4, 2), Headed(model, lambda hidden: hidden, 4, 2)):
        trace = Sampler(predictor, Schedule(size.Even(3), order.Confidence())).run((50, 6), rng=generator())
        assert not bool((trace.tokens == 2).any())
        np.testing.assert_allclose(trace.log_probability, np.log(1 / 3), rtol=1e-6)


def test_suppressed_tokens_have_probability_zero():
    predictor = Suppressed(Logits(table_model(), 6, 6), [0, 3])
    trace = Sampler(predictor, Schedule(size.Even(5), order.Random())).run((100, 5), rng=generator())
    assert set(trace.tokens.flatten().tolist()) == {1, 2, 4, 5}
    prediction = predictor(torch.full((1, 5), 6), torch.ones((1, 5), dtype=torch.bool))
    np.testing.assert_allclose(prediction.log_probabilities().exp()[:, [1, 2, 4, 5]].sum(dim=-1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="Argument 'tokens' must be at most 5, not 6"):
        Suppressed(Logits(table_model(), 6, 6), [6])


def test_shifted_is_the_concatenation_of_the_first_and_all_but_the_last():
    model = table_model()
    tokens = torch.randint(7, (3, 5), generator=generator(8))
    logits = model(tokens)
    explicit = torch.cat([logits[:, :1], logits[:, :-1]], dim=1).flatten(0, 1)
    shifted = Shifted(Logits(model, 6, 6))
    assert torch.equal(shifted(tokens, tokens == 6).logits(), explicit)
    rows = torch.tensor([0, 4, 5, 9, 10, 13])
    assert torch.equal(shifted(tokens, tokens == 6, rows).logits(), explicit[rows])


def test_tempered_divides_logits():
    base = Logits(table_model(), 6, 6)
    tokens = torch.full((2, 5), 6)
    np.testing.assert_allclose(
        Tempered(base, 2.5)(tokens, tokens == 6).logits(), base(tokens, tokens == 6).logits() / 2.5, rtol=1e-6
    )
    with pytest.raises(ValueError, match="Argument 'temperature' must be greater than 0, not 0"):
        Tempered(base, 0)


def test_counted_counts():
    counted = Counted(Logits(table_model(), 6, 6))
    tokens = torch.full((2, 5), 6)
    counted(tokens, tokens == 6)
    counted(tokens[:1], tokens[:1] == 6, torch.tensor([1, 3]))
    assert (counted.calls, counted.sequences, counted.rows) == (2, 3, 12)
    assert (counted.vocab, counted.mask, counted.whole) == (6, 6, False)


def test_guidance_of_scale_zero_is_no_guidance_and_no_extra_work():
    counted = Counted(Logits(table_model(), 6, 6))
    prompt = torch.tensor([True, True, False, False, False])
    tokens = torch.tensor([[1, 2, 6, 6, 6]])
    guided = Guided(counted, prompt, 0.0)(tokens, tokens == 6)
    assert counted.calls == 1
    assert torch.equal(guided.logits(), Logits(table_model(), 6, 6)(tokens, tokens == 6).logits())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_guidance_is_the_formula_in_full_precision(dtype):
    model = table_model(dtype=dtype)
    tokens = torch.tensor([[1, 2, 6, 6, 6]])
    prompt = torch.tensor([True, True, False, False, False])
    conditional, free = (model(t).double().flatten(0, 1) for t in (tokens, torch.full((1, 5), 6)))
    guided = Guided(Logits(model, 6, 6), prompt, 1.5)(tokens, tokens == 6).logits()
    np.testing.assert_allclose(guided, free + 2.5 * (conditional - free), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=str)
@pytest.mark.parametrize("steps", [1, 3])
def test_each_sequence_is_guided_by_its_own_prompt(which, steps):
    """Prompts of different lengths in one batch; rows that finish early must not shift the others' prompts."""
    model = table_model()
    start = torch.tensor([[1, 2, 3, 4, 6], [5, 6, 6, 6, 6], [2, 2, 6, 6, 6]])
    prompt = start != 6
    schedule = Schedule(size.Even(steps), which)
    batch = Sampler(Guided(Logits(model, 6, 6), prompt, 2.0), schedule).run(start, rng=[1, 2, 3])
    for row in range(3):
        one = Sampler(Guided(Logits(model, 6, 6), prompt[row], 2.0), schedule).run(start[row : row + 1], rng=[row + 1])
        assert torch.equal(one.tokens[0], batch.tokens[row])
        np.testing.assert_allclose(one.log_probability[0], batch.log_probability[row], atol=1e-6)
        assert one.evaluations[0] == batch.evaluations[row]


def test_impossible_tokens_stay_impossible_under_guidance():
    table = Table([[0.5, 0.0], [0.25, 0.25]])
    guided = Guided(ExactPredictor(table), torch.tensor([True, False]), 1.0)
    tokens = torch.tensor([[0, 2]])
    p = guided(tokens, tokens == 2).log_probabilities()[1].exp()
    np.testing.assert_allclose(p, [1.0, 0.0])


def test_tokens_that_may_not_be_drawn_stay_so_under_guidance():
    """Impossible with the prompt and without: their logits differ by −∞ − (−∞), which is not a number."""
    base, prompt = Suppressed(Logits(table_model(), 6, 5), [2, 4]), torch.tensor([True, False, False, False, False])
    tokens = torch.tensor([[1, 5, 5, 5, 5]])
    p = Guided(base, prompt, 1.5)(tokens, tokens == 5).log_probabilities().exp()
    assert bool(torch.isfinite(p).all())
    assert bool((p[:, [2, 4, 5]] == 0).all())
    assert bool((p[:, [0, 1, 3]] > 0).all())


def test_prompts_of_another_shape_are_refused():
    base = Logits(table_model(), 6, 6)
    tokens = torch.full((2, 5), 6)
    with pytest.raises(ValueError, match=r"Argument 'prompt' must have the shape \(2, 5\) or \(5,\) of the tokens"):
        Guided(base, torch.zeros((3, 5), dtype=torch.bool), 1.0)(tokens, tokens == 6)
    with pytest.raises(ValueError, match="Argument 'prompt' must hold booleans"):
        Guided(base, torch.zeros(5), 1.0)


@pytest.mark.parametrize(
    "distribution",
    [
        Table(np.random.default_rng(0).dirichlet([0.4] * 27).reshape(3, 3, 3)),
        Parity(4),
        ReedSolomon(4, 2, 4),
        LinearCode([[1, 0, 1, 1]], 2),
        Markov.sticky(3, 0.7, 4),
        Mixture([0.3, 0.7], [[[0.9, 0.1]] * 4, [[0.2, 0.8]] * 4]),
        LatentParity(3),
    ],
    ids=lambda d: type(d).__name__,
)
def test_the_exact_predictor_gives_the_marginals_of_every_distribution(distribution):
    rng = np.random.default_rng(1)
    tokens = distribution.sample(20, rng=rng)
    masked = rng.random(tokens.shape) < 0.5
    predictor = ExactPredictor(distribution)
    given = torch.from_numpy(np.where(masked, predictor.mask, tokens))
    prediction = predictor(given, torch.from_numpy(masked))
    assert prediction.logits().dtype == torch.float64
    expected = distribution.marginals(tokens, masked).reshape(-1, distribution.vocab)
    np.testing.assert_allclose(prediction.log_probabilities().exp(), expected, atol=1e-12)
    rows = torch.tensor([0, 5, 7])
    np.testing.assert_allclose(
        predictor(given, torch.from_numpy(masked), rows).log_probabilities().exp(), expected[rows.numpy()], atol=1e-12
    )


def test_wrappers_compose_in_any_order():
    base = Logits(table_model(), 6, 6)
    tokens = torch.tensor([[1, 6, 6, 2, 6]])
    for first, second in itertools.permutations([lambda p: Suppressed(p, [4]), lambda p: Tempered(p, 2.0), Shifted], 2):
        one, two = first(second(base)), second(first(base))
        np.testing.assert_allclose(
            one(tokens, tokens == 6).log_probabilities().exp(), two(tokens, tokens == 6).log_probabilities().exp()
        )
