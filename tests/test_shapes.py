"""The shapes and types that docstrings promise, with every axis of another size; and what does not fit is refused.

`shaped(result, "batch length vocab", "float64", batch=3, …)` names the axes as the docstrings do. A library of shape
annotations (jaxtyping) would say the same at every function, but would have to be imported by every one of them, or be
left out where it is not installed; the docstrings already name the axes, and here they are held to it.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inspect import signature  # noqa: E402

from unmask import InputError, order, size  # noqa: E402
from unmask.calibration import measure  # noqa: E402
from unmask.distribution import (  # noqa: E402
    LatentParity,
    LinearCode,
    Markov,
    Mixture,
    Parity,
    ReedSolomon,
    Table,
    estimate_curve,
)
from unmask.evaluate import random_order, replay, replays  # noqa: E402
from unmask.predict import (  # noqa: E402
    Counted,
    ExactPredictor,
    Framed,
    Guided,
    Headed,
    Logits,
    Prediction,
    Shifted,
    Suppressed,
    Tempered,
    Watched,
)
from unmask.sample import Categorical, Greedy, Replay, Sampler, Stop, TopK, TopP, seeds_of  # noqa: E402
from unmask.sample.draw import invert  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

BATCH, LENGTH, VOCAB, STEPS, WIDTH, ROWS = 3, 7, 5, 4, 11, 6
AXES = {"batch": BATCH, "length": LENGTH, "vocab": VOCAB, "steps": STEPS, "rows": ROWS}

CHAIN = Markov.sticky(VOCAB, 0.5, LENGTH)
BODY = torch.randn((VOCAB + 1, WIDTH), generator=torch.Generator().manual_seed(0))
HEAD = torch.randn((WIDTH, VOCAB), generator=torch.Generator().manual_seed(1))
TEXTS = torch.from_numpy(CHAIN.sample(BATCH, rng=0))
MASKED = torch.rand((BATCH, LENGTH), generator=torch.Generator().manual_seed(2)) < 0.6
START = TEXTS.masked_fill(MASKED, VOCAB)
FLAT = torch.tensor([1, 4, 8, 9, 15, 20])
SEED = {"rng" if "rng" in signature(measure).parameters else "seed": 0}
ORDERED = {"rng" if "rng" in signature(random_order).parameters else "seed": 0}


def shaped(result, axes, dtype, **sizes):
    """Refuse a tensor or an array of another shape or type than its axes say."""
    wanted = tuple(int(axis) if axis.isdigit() else (AXES | sizes)[axis] for axis in axes.split())
    assert tuple(result.shape) == wanted, (axes, tuple(result.shape))
    assert str(result.dtype).removeprefix("torch.") == dtype, (axes, result.dtype)


def body(tokens):
    return BODY[tokens]


def head(hidden):
    return hidden @ HEAD


def model(tokens):
    return head(body(tokens))


LOGITS, HEADED = Logits(model, VOCAB, VOCAB), Headed(body, head, VOCAB, VOCAB)
PREDICTORS = {
    "exact": (ExactPredictor(CHAIN), "float64"),
    "logits": (LOGITS, "float32"),
    "half": (Logits(lambda tokens: model(tokens).bfloat16(), VOCAB, VOCAB), "float32"),
    "headed": (HEADED, "float32"),
    "suppressed": (Suppressed(HEADED, [0, 2]), "float32"),
    "tempered": (Tempered(LOGITS, 2.0), "float32"),
    "shifted": (Shifted(HEADED), "float32"),
    "framed": (Framed(LOGITS, [0, 1], [2], pad=3), "float32"),
    "guided": (Guided(HEADED, START != VOCAB, 1.5), "float32"),
    "counted": (Counted(LOGITS), "float32"),
    "watched": (Watched(HEADED, lambda done: None), "float32"),
}


@pytest.mark.parametrize("name", PREDICTORS)
@pytest.mark.parametrize("flat", [None, FLAT], ids=["all", "some"])
def test_a_prediction_has_one_row_for_each_position_asked_for(name, flat):
    predictor, dtype = PREDICTORS[name]
    prediction = predictor(START, MASKED, flat)
    rows = BATCH * LENGTH if flat is None else ROWS
    assert len(prediction) == rows
    shaped(prediction.logits(), "rows vocab", dtype, rows=rows)
    shaped(prediction.logits(2, 5), "3 vocab", dtype)
    shaped(prediction.log_probabilities(), "rows vocab", dtype, rows=rows)
    shaped(prediction.log_probabilities(1), "rows vocab", dtype, rows=rows - 1)
    for statistic in (prediction.confidence, prediction.margin, prediction.entropy):
        shaped(statistic, "rows", dtype, rows=rows)
    shaped(prediction.losses(torch.zeros(rows, dtype=torch.int64)), "rows", "float64", rows=rows)
    shaped(prediction.take(torch.tensor([0, 3])).logits(), "2 vocab", dtype)
    assert prediction.chunks() == [(0, rows)]
    assert predictor(START[:0], MASKED[:0]).losses(FLAT[:0]).shape == (0,) if name != "guided" else True


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_predictor_refuses_what_does_not_fit(name):
    predictor, _ = PREDICTORS[name]
    for bad in (
        (START[0], MASKED[0]),
        (START.float(), MASKED),
        (START + 0j, MASKED),
        (MASKED, MASKED),
        (START, MASKED[:, :-1]),
        (START, MASKED.long()),
        (START.numpy(), MASKED),
        (START, None),
        (START, MASKED, FLAT[None]),
        (START, MASKED, FLAT.float()),
        (START, MASKED, FLAT + 20),
        (START, MASKED, [0, 1]),
    ):
        with pytest.raises(InputError, match=r"^Argument '(tokens|masked|rows)' must (hold|be) .*\.$"):
            predictor(*bad)


def test_predictions_and_models_refuse_what_does_not_fit():
    prediction = Prediction((torch.zeros((ROWS, VOCAB)),), lambda logits: logits, VOCAB)
    for bad in (FLAT[:3], FLAT.float(), FLAT + VOCAB, FLAT[None], None):
        with pytest.raises(InputError, match=r"^Argument 'tokens' must (hold|be) "):
            prediction.losses(bad)
    for bad in (torch.tensor([ROWS]), torch.zeros(2), torch.zeros(2, dtype=torch.bool), [0]):
        with pytest.raises(InputError, match=r"^Argument 'index' must (hold|be) "):
            prediction.take(bad)
    for parts in ((), (torch.zeros(2), torch.zeros(3)), (torch.tensor(1.0),), [torch.zeros(2)]):
        with pytest.raises(InputError, match=r"^Argument 'parts' must be "):
            Prediction(parts, lambda logits: logits, VOCAB)
    fitting = torch.zeros((BATCH, LENGTH, VOCAB))
    for answer in (torch.zeros(VOCAB), fitting[..., :-1], fitting[:1], fitting * 1j, 3):
        with pytest.raises(InputError, match=r"^Argument 'model' must return logits"):
            Logits(lambda tokens, answer=answer: answer, VOCAB, VOCAB)(START, MASKED)
    for hidden in (torch.zeros((BATCH, LENGTH)), torch.zeros((BATCH, LENGTH + 1, WIDTH)), None):
        with pytest.raises(InputError, match=r"^Argument 'body' must return hidden states"):
            Headed(lambda tokens, hidden=hidden: hidden, head, VOCAB, VOCAB)(START, MASKED)
    for logits in (torch.zeros((ROWS, VOCAB + 1)), torch.zeros(ROWS), None):
        with pytest.raises(InputError, match=r"^Argument 'head' must return logits"):
            Headed(body, lambda hidden, logits=logits: logits, VOCAB, VOCAB)(START, MASKED, FLAT).logits()


@pytest.mark.parametrize("bad", [3, None, "model", torch.zeros(2)], ids=repr)
def test_what_is_no_model_is_refused_when_it_is_given(bad):
    makes = {
        "model": lambda: Logits(bad, VOCAB, VOCAB),
        "body": lambda: Headed(bad, head, VOCAB, VOCAB),
        "head": lambda: Headed(body, bad, VOCAB, VOCAB),
        "distribution": lambda: ExactPredictor(bad),
        "predictor": lambda: Counted(bad),
        "report": lambda: Watched(LOGITS, bad),
    }
    for name, make in makes.items():
        with pytest.raises(InputError, match=rf"^Argument '{name}' must "):
            make()


DRAWS = [Categorical(), TopK(2), TopP(0.9), Greedy(), Replay(TEXTS)]


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: type(draw).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_draw_gives_one_token_for_each_row(draw, dtype):
    chances, uniform = torch.log_softmax(torch.zeros((ROWS, VOCAB), dtype=dtype), dim=-1), torch.zeros(ROWS)
    shaped(draw(chances, uniform, FLAT), "rows", "int64")
    shaped(invert(chances, uniform), "rows", "int64")
    shaped(draw(chances[:0], uniform[:0], FLAT[:0]), "0", "int64")


SCHEDULES = [
    Schedule(size.Even(STEPS), order.Random()),
    Schedule(size.Even(STEPS), order.Confidence()),
    Schedule(size.Threshold(0.5), order.Entropy()),
    Schedule(size.Even(2), order.Blocks(order.Margin(), 4)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s.order).__name__)
@pytest.mark.parametrize("stop", [None, Stop(0, 1)], ids=["to the end", "early"])
def test_states_steps_and_traces_have_their_shapes(schedule, stop):
    sampler = Sampler(LOGITS, schedule, stop=stop)
    state = sampler.init((BATCH, LENGTH), rng=0)
    for state, step in sampler.steps(state):  # noqa: B007, B020 - the last state is looked at
        count = len(step.rows)
        for values, dtype in ((step.rows, "int64"), (step.tokens, "int64"), (step.log_probability, "float64")):
            shaped(values, "count", dtype, count=count)
    for values, dtype in (
        (state.tokens, "int64"),
        (state.masked, "bool"),
        (state.uniform, "float64"),
        (state.revealed, "int64"),
        (state.log_probability, "float64"),
    ):
        shaped(values, "batch length", dtype)
    trace = state.trace()
    for values, dtype in ((trace.tokens, "int64"), (trace.revealed, "int64"), (trace.log_probability, "float64")):
        shaped(values, "batch length", dtype)
    shaped(trace.evaluations, "batch", "int64")
    shaped(trace.nll, "batch", "float64")
    shaped(trace.sizes, "batch steps", "int64", steps=trace.steps)
    assert len(trace.seeds) == len(seeds_of(0, BATCH)) == BATCH
    assert [len(frame) for frame in trace.frames(str)] == [BATCH] * (trace.steps + 1)


def test_a_sampler_refuses_what_does_not_fit():
    sampler = Sampler(LOGITS, SCHEDULES[0])
    for start in (
        START[0],
        START.float(),
        START + 0j,
        MASKED,
        (BATCH,),
        (BATCH, LENGTH, 1),
        [BATCH, LENGTH],
        "ab",
        None,
    ):
        with pytest.raises(InputError, match=r"^Argument 'start' must "):
            sampler.run(start, rng=0)
    for masked in (MASKED[0], MASKED.long(), MASKED[:, 1:], MASKED.numpy()):
        with pytest.raises(InputError, match=r"^Argument 'masked' must "):
            sampler.run(START, masked, rng=0)
    for device in ("nowhere", "meta", 3.5, "cuda:99"):
        with pytest.raises(InputError, match=r"^Argument 'device' must be a device of this machine"):
            sampler.run(START, rng=0, device=device)
    with pytest.raises(InputError, match=r"^Argument 'batch' must be at most .* More would fill the memory"):
        sampler.run((10**12, LENGTH), rng=0)


@pytest.mark.parametrize("bad", [torch.zeros(ROWS), torch.zeros((ROWS, 1), dtype=torch.int64), None, 3], ids=str)
def test_a_draw_of_ones_own_gives_token_ids(bad):
    class Odd(type(Greedy()).__mro__[1]):
        def __call__(self, log_probabilities, uniform, rows):
            return bad

    with pytest.raises(InputError, match=r"^Argument 'draw' must return 6 token ids from 0 to 4 as int64\.$"):
        Sampler(LOGITS, Schedule(size.Even(1), order.Random()), Odd()).run((1, ROWS), rng=0)


def test_measurements_on_texts_have_one_number_for_each():
    replayed = replay(LOGITS, SCHEDULES[0], TEXTS, rng=0, masked=MASKED)
    shaped(replayed.nll, "batch", "float64")
    shaped(replayed.revealed, "batch", "int64")
    shaped(replayed.evaluations, "batch", "int64")
    assert len(replays(LOGITS, SCHEDULES[:2], TEXTS, rng=0)) == 2
    nats, evaluations = random_order(LOGITS, TEXTS, points=STEPS, **ORDERED)
    shaped(nats, "batch", "float64")
    assert evaluations == STEPS
    for which, places in ((order.Random(), STEPS), (order.Comb(2), 4), (order.LeftToRight(), STEPS)):
        losses = measure(LOGITS, which, TEXTS, points=STEPS, **SEED)
        shaped(losses.visible, "places", "int64", places=places)
        shaped(losses.table, "places length", "float64", places=places)
        shaped(losses.error, "places", "float64", places=places)
        shaped(losses.mean, "places", "float64", places=places)


def test_measurements_refuse_what_are_no_texts():
    checked = "rng" in SEED  # measurements look at their texts as replay does
    others = [TEXTS * 1j] if checked else []
    for bad in (TEXTS[0], TEXTS.double(), TEXTS + VOCAB, MASKED, TEXTS.numpy(), None, *others):
        with pytest.raises(InputError, match=r"^Argument 'tokens' must "):
            replay(LOGITS, SCHEDULES[0], bad, rng=0)
        if checked:
            with pytest.raises(InputError, match=r"^Argument 'tokens' must "):
                measure(LOGITS, order.Random(), bad, **SEED)
            with pytest.raises(InputError, match=r"^Argument 'tokens' must "):
                random_order(LOGITS, bad, **ORDERED)


LAWS = [
    Table(np.full((2,) * LENGTH, 0.5**LENGTH)),
    Parity(LENGTH, VOCAB),
    ReedSolomon(LENGTH, 4, LENGTH),
    LinearCode(np.eye(STEPS, LENGTH, dtype=int), VOCAB),
    CHAIN,
    Mixture([0.2, 0.3, 0.5], np.full((3, VOCAB), 1 / VOCAB), length=LENGTH),
    LatentParity(LENGTH),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_distributions_answer_in_their_shapes(law):
    tokens = law.sample(BATCH, rng=0)
    shaped(tokens, "batch length", "int64")
    shaped(law.log_probability(tokens), "batch", "float64")
    shaped(law.marginals(tokens, MASKED.numpy()), "batch length vocab", "float64", vocab=law.vocab)
    shaped(law.curve().loss, "length", "float64")
    shaped(law.curve().drops, "6", "float64")
    shaped(law.curve().information, "8", "float64")
    estimate = estimate_curve(law, STEPS, rng=0)
    shaped(estimate.loss, "length", "float64")
    shaped(estimate.standard_error, "length", "float64")
    for bad in (tokens[:, 1:], tokens + law.vocab, tokens * 1.0, tokens * 1j, [["a"] * LENGTH] * BATCH, None):
        with pytest.raises(InputError, match=r"^Argument 'tokens' must "):
            law.log_probability(bad)
    for bad in (MASKED.numpy()[:, 1:], MASKED.long().numpy(), None):
        with pytest.raises(InputError, match=r"^Argument 'masked' must "):
            law.marginals(tokens, bad)
