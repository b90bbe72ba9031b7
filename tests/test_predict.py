"""Predictors: statistics in float32 or better, only the rows asked for, wrappers that are predictors."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toy import table_model  # noqa: E402
from unmask import order, predict, size  # noqa: E402
from unmask.distribution import LatentParity, LinearCode, Markov, Mixture, Parity, ReedSolomon, Table  # noqa: E402
from unmask.predict import (  # noqa: E402
    Counted,
    ExactPredictor,
    Guided,
    Headed,
    Logits,
    Prediction,
    Shifted,
    Suppressed,
    Tempered,
)
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def prediction_of(logits):
    return Prediction((logits,), lambda rows: rows, logits.shape[-1])


def statistics_of(logits):
    """Confidence, margin and entropy in float64, row by row."""
    p = torch.softmax(logits.double(), dim=-1).numpy()
    top = np.sort(p, axis=-1)
    second = top[:, -2] if p.shape[1] > 1 else 0.0
    entropy = [-sum(v * np.log(v) for v in row if v > 0) for row in p]
    return top[:, -1], top[:, -1] - second, np.array(entropy)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab", [1, 2, 5, 600, 1300])
def test_statistics_equal_their_float64_references(dtype, vocab):
    logits = (torch.randn((9, vocab), generator=generator(1)) * 4).to(dtype)
    prediction = prediction_of(logits)
    for mine, reference in zip(
        (prediction.confidence, prediction.margin, prediction.entropy), statistics_of(logits), strict=True
    ):
        assert mine.dtype in (torch.float32, torch.float64)
        np.testing.assert_allclose(mine.double(), reference, rtol=3e-6, atol=3e-6)


def test_confidences_near_one_do_not_tie():
    """Bfloat16 logits; probabilities between 0.998 and 1 that bfloat16 would all call 1."""
    logits = torch.zeros((6, 3), dtype=torch.bfloat16)
    logits[:, 0] = torch.tensor([7.0, 8.0, 9.0, 10.0, 11.0, 12.0])
    half = torch.softmax(logits, dim=-1)[:, 0]
    assert half.unique().numel() < 6
    for values in (prediction_of(logits).confidence, prediction_of(logits).margin, -prediction_of(logits).entropy):
        assert bool((values.diff() > 0).all())
    assert float(prediction_of(logits).confidence.min()) > 0.998
    # Large common offsets must not cost digits either.
    shifted = prediction_of(logits.float() + 64)
    assert bool((shifted.confidence.diff() > 0).all())


def test_impossible_tokens_and_rows_are_handled():
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf, 3.0, -torch.inf]])
    prediction = prediction_of(logits)
    np.testing.assert_allclose(prediction.confidence, [0.5, 1.0])
    np.testing.assert_allclose(prediction.margin, [0.0, 1.0])
    np.testing.assert_allclose(prediction.entropy, [np.log(2), 0.0], atol=1e-7)
    assert bool(torch.isnan(prediction_of(torch.full((1, 3), -torch.inf)).confidence).all())


@pytest.mark.parametrize("elements", [1, 7, 40, 1000])
def test_chunks_do_not_change_results(monkeypatch, elements):
    logits = torch.randn((11, 10), generator=generator(2))
    whole = prediction_of(logits)
    expected = whole.confidence, whole.margin, whole.entropy
    monkeypatch.setattr(predict, "_ELEMENTS", elements)
    parts = prediction_of(logits)
    assert parts.chunks()[0] == (0, min(11, max(1, elements // 10)))
    assert [stop for _, stop in parts.chunks()][-1] == 11
    for mine, reference in zip((parts.confidence, parts.margin, parts.entropy), expected, strict=True):
        assert torch.equal(mine, reference)
    model = Logits(table_model(), 6, 6)
    schedule = Schedule(size.Even(2), order.Entropy())
    chunked = Sampler(model, schedule).run((4, 5), rng=[1, 2, 3, 4])
    monkeypatch.undo()
    plain = Sampler(model, schedule).run((4, 5), rng=[1, 2, 3, 4])
    assert torch.equal(chunked.tokens, plain.tokens)
    assert torch.equal(chunked.log_probability, plain.log_probability)


def test_a_lone_row_has_the_statistics_of_a_row_among_others():
    """Bit by bit, also where torch would split the sum of a single long row over its threads."""
    logits = torch.randn((5, 40_000), generator=generator(9)) * 3
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        whole = prediction_of(logits)
        for row in range(5):
            alone = prediction_of(logits[row : row + 1])
            assert torch.equal(alone.confidence, whole.confidence[row : row + 1])
            assert torch.equal(alone.margin, whole.margin[row : row + 1])
            assert torch.equal(alone.entropy, whole.entropy[row : row + 1])
            assert torch.equal(alone.log_probabilities(), whole.log_probabilities()[row : row + 1])
    finally:
        torch.set_num_threads(threads)


def test_statistics_leave_the_models_logits_alone():
    logits = torch.randn((4, 9), generator=generator(3))
    before = logits.clone()
    prediction = prediction_of(logits)
    _ = prediction.confidence, prediction.margin, prediction.entropy
    assert torch.equal(logits, before)


def test_take_and_slices_select_rows():
    logits = torch.randn((8, 4), generator=generator(4))
    prediction = prediction_of(logits)
    index = torch.tensor([5, 0, 5])
    assert torch.equal(prediction.take(index).logits(), logits[index])
    assert len(prediction.take(index)) == 3
    assert torch.equal(prediction.logits(2, 4), logits[2:4])
    np.testing.assert_allclose(prediction.log_probabilities(1, 3).exp().sum(dim=-1), 1, rtol=1e-6)
    empty = prediction.take(torch.zeros(0, dtype=torch.int64))
    assert empty.confidence.shape == empty.margin.shape == empty.entropy.shape == (0,)


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
    with pytest.raises(ValueError, match=r"Argument 'model' must give logits of shape \(2, 5, 7\), not \(2, 5, 6\)"):
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
