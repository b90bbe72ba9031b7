"""One test for each defect met in published samplers: what went wrong there, in the docstring, does not here."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from toy import table_model  # noqa: E402
from unmask import _torch, order, size  # noqa: E402
from unmask.distribution import Parity  # noqa: E402
from unmask.predict import Counted, ExactPredictor, Guided, Headed, Logits, Suppressed  # noqa: E402
from unmask.predict import base as prediction  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy, Replay, TopP, invert  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, LENGTH = 3000, 12
RANKED = [order.Confidence(), order.Margin(), order.Entropy()]
WAITS = ("_local_scalar_dense", "nonzero", "unique", "is_nonzero", "equal", "item")


class Recorder(TorchDispatchMode):
    """Notes every operation with the shapes and types of what it returns."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, torch.Tensor):
                self.seen.append((function.__name__.split(".")[0], tuple(value.shape), value.dtype))
            else:
                self.seen.append((function.__name__.split(".")[0], (), None))
        return result


@pytest.fixture
def on_a_gpu(monkeypatch):
    """On a CPU nothing waits, and more is looked at; the loop runs as it would on a GPU."""
    monkeypatch.setattr(_torch, "at_hand", lambda values: False)


def headed():
    """A model of 3,000 tokens in bfloat16."""
    source = torch.Generator().manual_seed(0)
    embed = torch.randn((VOCAB + 1, 8), generator=source).bfloat16()
    out = torch.randn((8, VOCAB), generator=source).bfloat16()
    return Headed(
        lambda tokens: embed[tokens] + embed[tokens].mean(dim=1, keepdim=True), lambda h: h @ out, VOCAB, VOCAB
    )


def recorded(schedule, batch=3, draw=None):
    sampler = Sampler(headed(), schedule, draw or Categorical())
    state = sampler.init((batch, LENGTH), rng=list(range(batch)))
    with Recorder() as recorder:
        steps = sum(1 for _ in sampler.steps(state))
    return recorder.seen, steps


SCHEDULES = [Schedule(size.Even(4), order.Random()), *(Schedule(size.Even(4), which) for which in RANKED)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_no_noise_is_made_over_the_vocabulary(schedule):
    """Gumbel noise in float64 for every token of every position, several copies of it, though few rows are kept."""
    seen, _ = recorded(schedule)
    assert not [name for name, *_ in seen if "rand" in name or name in ("uniform_", "exponential_", "multinomial")]
    state = Sampler(headed(), schedule).init((3, LENGTH), rng=[1, 2, 3])
    assert state.uniform.shape == (3, LENGTH)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_nothing_over_the_vocabulary_is_in_float64(schedule):
    """A softmax over the vocabulary in float64, to read one probability."""
    seen, _ = recorded(schedule)
    assert not [entry for entry in seen if entry[2] == torch.float64 and VOCAB in entry[1]]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_nothing_sorts_the_vocabulary(schedule):
    """A sort of the whole vocabulary for the gap between its two best tokens."""
    seen, _ = recorded(schedule)
    assert not [entry for entry in seen if entry[0] in ("sort", "argsort", "topk") and VOCAB in entry[1]]


@pytest.mark.usefixtures("on_a_gpu")
def test_the_blind_loop_never_waits_for_the_device():
    """A wait of the host at each step, for each row or even each candidate token."""
    for how_many in (size.Even(4), size.TC(4), size.LogLinear(6)):
        seen, _ = recorded(Schedule(how_many, order.Random()))
        assert not [name for name, *_ in seen if name in WAITS]


@pytest.mark.usefixtures("on_a_gpu")
def test_a_mask_within_the_vocabulary_is_excluded_without_a_copy_from_the_host():
    """Token ids moved to the device at a step, which waits for it: here they are written by the device itself."""
    prediction.token_index.cache_clear()
    inside = Suppressed(Headed(headed().body, headed().head, VOCAB, VOCAB - 1), [3, 5])
    sampler = Sampler(inside, SCHEDULES[0])
    state = sampler.init((3, LENGTH), rng=[1, 2, 3])
    with Recorder() as recorder:
        for state, _ in sampler.steps(state):  # noqa: B007, B020
            pass
    assert not [name for name, *_ in recorder.seen if name in (*WAITS, "lift_fresh")]
    assert not bool(torch.isin(state.tokens, torch.tensor([3, 5, VOCAB - 1])).any())


def test_logits_of_all_positions_are_never_copied(monkeypatch):
    """A second copy of the logits of every position, to read those of the masked ones."""
    monkeypatch.setattr(prediction, "_ELEMENTS", 4 * VOCAB)
    logits = torch.randn((3, LENGTH, VOCAB), generator=torch.Generator().manual_seed(0))
    sampler = Sampler(Logits(lambda tokens: logits[: len(tokens)], VOCAB, VOCAB), Schedule(size.Even(4), RANKED[0]))
    state = sampler.init((3, LENGTH), rng=[1, 2, 3])
    with Recorder() as recorder:
        sampler.step(state)
    assert max(shape[0] for name, shape, _ in recorder.seen if name == "index" and VOCAB in shape) == 4


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("which", RANKED, ids=str)
def test_waits_of_ranked_orders_do_not_grow_with_the_batch(which):
    """The same, for rules that look: a fixed few per step whatever the batch."""
    for how_many in (size.Even(4), size.AtMost(size.Threshold(0.0), 3)):
        counts = []
        for batch in (2, 9):
            seen, steps = recorded(Schedule(how_many, which), batch)
            assert steps == 4
            counts.append(sum(name in WAITS for name, *_ in seen))
        assert counts[0] == counts[1] <= 6 * 5


def test_the_head_runs_on_the_revealed_rows_alone():
    """The output head run on every position of every sequence at every step."""
    seen, steps = recorded(Schedule(size.Even(4), order.Random()))
    heads = [shape[0] for name, shape, _ in seen if name == "mm" and shape[-1] == VOCAB]
    assert (sum(heads), steps) == (3 * LENGTH, 4)


def test_steps_of_size_zero_are_free():
    """A forward pass paid for a step that reveals nothing."""
    counted = Counted(ExactPredictor(Parity(5)))
    Sampler(counted, Schedule(size.LogLinear(1000), order.Random())).run((1, 5), rng=[0])
    assert counted.calls <= 5


@pytest.mark.parametrize("schedule", [*SCHEDULES, Schedule(size.Threshold(0.5), order.Confidence())], ids=str)
def test_each_row_reveals_its_own_number(schedule):
    """The number to reveal averaged over the batch: short rows lose prompt tokens, long ones keep masks."""
    start = torch.zeros((3, LENGTH), dtype=torch.int64)
    masked = torch.zeros_like(start, dtype=torch.bool)
    masked[0, 1], masked[1, 2:8], masked[2] = True, True, True
    trace = Sampler(headed(), schedule).run(start, masked, rng=[1, 2, 3])
    assert bool((trace.tokens < VOCAB).all())
    assert torch.equal(trace.tokens[~masked], start[~masked])
    assert trace.sizes.sum(dim=1).tolist() == [1, 6, 12]


def test_rows_do_not_share_a_budget():
    """One budget for the whole batch: what a sequence reveals depends on its neighbours."""
    model = Logits(table_model(5, 6, scale=0.8), 5, 5)
    for schedule in (
        Schedule(size.Threshold(0.6), order.Confidence()),
        Schedule(size.EntropyBound(0.6), order.Entropy()),
        Schedule(size.Even(2), order.Margin()),
    ):
        batch = Sampler(model, schedule).run((6, 6), rng=list(range(6)))
        for row in range(6):
            alone = Sampler(model, schedule).run((1, 6), rng=[row])
            assert torch.equal(alone.revealed[0], batch.revealed[row])
            assert torch.equal(alone.tokens[0], batch.tokens[row])


def test_a_suppressed_end_token_counts_neither_in_the_draw_nor_in_the_ranking():
    """Suppression of the end token written into a tensor that is read too late, or never."""
    logits = torch.zeros((1, 3, 4))
    logits[0, 0, 3] = 9.0  # certain of the end token, and of nothing else
    logits[0, 1, 1] = 2.0
    predictor = Suppressed(Logits(lambda tokens: logits.expand(tokens.shape[0], -1, -1), 4, 4), [3])
    trace = Sampler(predictor, Schedule(size.Even(3), order.Confidence()), Greedy()).run((1, 3), rng=[0])
    assert trace.revealed.tolist() == [[1, 0, 2]]
    assert not bool((trace.tokens == 3).any())
    np.testing.assert_allclose(trace.log_probability[0, 0], np.log(1 / 3), rtol=1e-6)


@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=str)
def test_guidance_works_with_prompts_and_without(which):
    """Classifier-free guidance that fails as soon as there is no attention mask, or no prompt."""
    model = Logits(table_model(5, 6), 5, 5)
    start = torch.tensor([[1, 2, 5, 5, 5, 5], [5, 5, 5, 5, 5, 5]])
    trace = Sampler(Guided(model, start != 5, 1.5), Schedule(size.Even(3), which)).run(start, rng=[1, 2])
    assert bool((trace.tokens < 5).all())
    # A sequence without a prompt has nothing to be guided by.
    plain = Sampler(model, Schedule(size.Even(3), which)).run(start[1:], rng=[2])
    assert torch.equal(plain.tokens[0], trace.tokens[1])


@pytest.mark.parametrize("draw", [Categorical(), TopP(0.9), Greedy()], ids=str)
def test_a_failed_draw_is_an_error(draw):
    """A categorical draw that fails on bad probabilities, caught, and silently replaced by the most likely token."""
    model = Logits(lambda tokens: torch.full((*tokens.shape, 4), torch.nan), 4, 4)
    with pytest.raises(ValueError, match="The predictor returned logits that are not numbers"):
        Sampler(model, Schedule(size.Even(2), order.Random()), draw).run((1, 4), rng=[0])


def test_confidence_ranks_bfloat16_logits_above_0998():
    """Confidence computed in bfloat16, where everything above 0.998 is one."""
    logits = torch.zeros((1, 5, 3), dtype=torch.bfloat16)
    logits[0, :, 0] = torch.tensor([9.0, 12.0, 8.0, 11.0, 10.0])
    assert bool((torch.softmax(logits, dim=-1).amax(dim=-1) > 0.998).all())
    predictor = Logits(lambda tokens: logits.expand(tokens.shape[0], -1, -1), 3, 3)
    for which in RANKED:
        trace = Sampler(predictor, Schedule(size.Even(5), which)).run((1, 5), rng=[0])
        assert trace.revealed.tolist() == [[3, 0, 4, 1, 2]]


def test_rare_tokens_stay_as_rare_as_they_are():
    """Gumbel noise in float32, whose coarse tail lowers the effective temperature: rare tokens are never drawn.

    A token of probability 1e-9 is drawn for numbers below 1e-9 and for no others, in float32 logits.
    """
    logits = torch.log(torch.tensor([[1e-9, 1 - 1e-9]]))
    inside, outside = (torch.tensor([u], dtype=torch.float64) for u in (0.99e-9, 1.01e-9))
    assert (invert(logits, inside).item(), invert(logits, outside).item()) == (0, 1)
    state = Sampler(headed(), SCHEDULES[0]).init((1, LENGTH), rng=[0])
    assert state.uniform.dtype == torch.float64


@pytest.mark.parametrize("which", RANKED, ids=str)
def test_ranks_do_not_look_at_the_token_just_drawn(which):
    """Ranking by the probability of the token just drawn, which biases the law even of a perfect predictor."""
    model = Logits(table_model(5, 6), 5, 5)
    chosen = []
    for draw in (Greedy(), Replay(torch.full((1, 6), 3)), Replay(torch.full((1, 6), 1)), Categorical(5.0)):
        sampler = Sampler(model, Schedule(size.Even(2), which), draw)
        chosen.append(sampler.step(sampler.init((1, 6), rng=[0]))[1].rows.tolist())
    assert chosen == [chosen[0]] * 4


def test_temperature_zero_is_not_called_sampling():
    """Random order at temperature 0, presented as sampling: the most likely tokens in random order."""
    with pytest.raises(ValueError, match="Use Greedy for the most likely token"):
        Categorical(0.0)
