"""What users bring to a sampler is checked before it can spoil a result: models, sizes, orders, draws, randomness."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import gauge, order, size  # noqa: E402
from unmask.distribution import Markov, Table  # noqa: E402
from unmask.evaluate import expected_kl, replay, replayed_kl  # noqa: E402
from unmask.evaluate.exact import Estimate  # noqa: E402
from unmask.information.curve import Curve  # noqa: E402
from unmask.predict import ExactPredictor, Headed, Logits, Suppressed  # noqa: E402
from unmask.sample import Sampler, Stop  # noqa: E402
from unmask.sample.draw import Categorical, Replay  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.size.base import Planned  # noqa: E402
from unmask.size.reactive import Reactive  # noqa: E402

CHAIN = Markov.sticky(4, 0.7, 12)
PREDICTOR = ExactPredictor(CHAIN)
EVEN = Schedule(size.Even(4), order.Random())
TEXTS = torch.from_numpy(CHAIN.sample(8, rng=np.random.default_rng(0)))


# Models


@pytest.mark.parametrize("width", [7, 9])
def test_a_head_of_another_width_than_the_vocabulary_is_refused(width):
    """A broader one could draw the mask itself, a narrower one never draws some tokens."""
    model = Headed(lambda tokens: torch.zeros(*tokens.shape, 3), torch.nn.Linear(3, width), 8, 8)
    with pytest.raises(ValueError, match=rf"Argument 'head' must return logits of shape \(1, 8\), not \(1, {width}\)"):
        Sampler(model, EVEN).run((1, 4), rng=[0])


def test_a_model_that_gives_no_logits_is_refused():
    with pytest.raises(ValueError, match="'model' must return logits, or an object that has them, not a tuple"):
        Sampler(Logits(lambda tokens: (tokens,), 4, 4), EVEN).run((1, 4), rng=[0])


@pytest.mark.parametrize("tokens", [1, np.array([1]), torch.tensor([1])], ids=["number", "array", "tensor"])
def test_suppressed_tokens_are_a_list(tokens):
    with pytest.raises(ValueError, match="Argument 'tokens' must be a list of token ids"):
        Suppressed(PREDICTOR, tokens)


@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=str)
def test_a_model_that_keeps_something_for_each_sequence_is_replayed_whole(which):
    """Such a model sees all sequences at every call, however few are evaluated at once otherwise."""
    bias = torch.randn(8, 12, 4, generator=torch.Generator().manual_seed(0))
    model = Logits(lambda tokens: bias.clone(), 4, 4, whole=True)
    schedule = Schedule(size.Even(4), which)
    whole = replay(model, schedule, TEXTS, rng=list(range(8)), batch=3)
    expected = -bias.log_softmax(-1).gather(2, TEXTS[..., None])[..., 0].sum(dim=1)
    torch.testing.assert_close(whole.nll, expected.double(), atol=1e-5, rtol=1e-6)
    (trace,) = Sampler(model, schedule, Replay(TEXTS)).batches((8, 12), rng=list(range(8)), batch=3)
    assert torch.equal(trace.nll, whole.nll)


# Sizes and orders


@dataclass(frozen=True)
class Short(Planned):
    """Leaves one token out."""

    def sizes(self, length):
        return size.Even(self.steps).sizes(length - 1)


class Alone(Planned):
    """Made from nothing, as a size of one's own may be."""

    def __init__(self):
        object.__setattr__(self, "steps", 6)

    def fitted(self, count):
        return self if count >= 6 else size.Even(count)

    def sizes(self, length):
        return size.Even(6).sizes(length)


@dataclass(frozen=True)
class Twice(order.BlindOrder):
    def arrange(self, positions, *, length, steps, rng):
        return np.concatenate([positions[:1], positions[:-1]])


@dataclass(frozen=True)
class Hesitant(Reactive):
    """Reveals nothing of the second sequence."""

    def count(self, ranked):
        count = ranked.valid.sum(dim=1)
        count[1:2] = 0
        return count


def test_sizes_that_do_not_split_the_positions_are_refused():
    with pytest.raises(
        ValueError,
        match=r"The size must split the 12 masked positions into steps, but Short\(steps=4\) returned \[3, 3, 3, 2\]",
    ):
        Sampler(PREDICTOR, Schedule(Short(4), order.Random())).run((1, 12), rng=[0])


def test_an_order_that_leaves_out_a_position_is_refused():
    with pytest.raises(ValueError, match=r"The order must return every masked position once, but Twice\(\) did not"):
        Sampler(PREDICTOR, Schedule(size.Even(4), Twice())).run((1, 12), rng=[0])


def test_a_size_that_reveals_nothing_of_one_sequence_is_refused_at_once():
    with pytest.raises(ValueError, match=r"at least one of the masked positions, but Hesitant\(\) did not"):
        Sampler(PREDICTOR, Schedule(Hesitant(), order.Confidence())).run((3, 12), rng=[0, 1, 2])


def test_a_size_of_ones_own_says_how_it_fits_fewer_tokens():
    start = torch.full((2, 12), 4)
    start[1, 3:] = 0
    trace = Sampler(PREDICTOR, Schedule(Alone(), order.Random())).run(start, rng=[0, 1])
    assert trace.sizes.sum(dim=1).tolist() == [12, 3]


@pytest.mark.parametrize(
    "how_many",
    [
        size.Optimal(4, Curve([1.0, 0.5, 0.25, 0.125])),
        size.SquareRoot(2, Curve([1.0, 0.5, 0.25, 0.125])),
        size.Minimax(3, gauge.Vector([1.0, 2.0, 3.0])),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_schedule_that_was_read_back_equals_the_one_saved(how_many):
    schedule = Schedule(how_many, order.Random())
    again = Schedule.from_json(json.loads(json.dumps(schedule.to_json())))
    assert again == schedule
    assert hash(again) == hash(schedule)


@pytest.mark.parametrize("value", ["0.9", True, None], ids=repr)
def test_a_number_in_a_file_must_be_one(value):
    data = Schedule(size.Threshold(0.9), order.Confidence()).to_json()
    data["size"]["threshold"] = value
    with pytest.raises(ValueError, match="Argument 'threshold' must be a number"):
        Schedule.from_json(data)


def test_a_name_in_a_file_must_be_one():
    data = EVEN.to_json() | {"size": {"name": None, "steps": 4}}
    with pytest.raises(ValueError, match="Argument 'size' must be a name, not None"):
        Schedule.from_json(data)


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "\x00"], ids=["deep", "long", "no JSON"])
def test_a_file_that_holds_no_schedule_is_refused_in_a_sentence(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match=r"Argument 'path' must be valid JSON|must be a JSON object"):
        Schedule.load(tmp_path / "s.json")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(EVEN.to_json()), encoding="utf-8-sig")
    assert Schedule.load(tmp_path / "s.json") == EVEN


@pytest.mark.parametrize("residues", [4, None, {0: 1}], ids=repr)
def test_residues_are_a_list(residues):
    with pytest.raises(ValueError, match="Argument 'residues' must be a list of integers"):
        order.Periodic(residues)


def test_an_exact_error_is_asked_for_a_size():
    with pytest.raises(ValueError, match="'size' must be a blind size, not a Schedule"):
        expected_kl(EVEN, CHAIN.curve())


# Draws, tokens and randomness


def test_a_tiny_temperature_draws_the_most_likely_token():
    chances = torch.tensor([[0.4, 0.6], [0.7, 0.3]], dtype=torch.float64).log()
    for temperature in (1e-3, 1e-300):
        drawn = Categorical(temperature)(chances, torch.tensor([0.01, 0.99]), torch.arange(2))
        assert drawn.tolist() == [1, 0]


def test_tokens_to_replay_fit_the_batch():
    with pytest.raises(
        ValueError, match=r"The tokens to replay must have the shape \(3, 12\) of the batch, not \(8, 12\)"
    ):
        Sampler(PREDICTOR, EVEN, Replay(TEXTS)).run((3, 12), rng=[0, 1, 2])


@pytest.mark.parametrize("stop", [Stop(4, 0), Stop(0, 4), 3], ids=["end", "pad", "number"])
def test_a_stop_is_made_of_tokens_that_exist(stop):
    with pytest.raises(ValueError, match=r"Argument '(end|pad|stop)' must be"):
        Sampler(PREDICTOR, EVEN, stop=stop)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32], ids=str)
def test_texts_may_be_integers_of_any_kind(dtype):
    narrow = replay(PREDICTOR, EVEN, TEXTS.to(dtype), rng=list(range(8)))
    assert torch.equal(narrow.nll, replay(PREDICTOR, EVEN, TEXTS, rng=list(range(8))).nll)


def test_what_is_no_tensor_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="'tokens' must be sequences or a tensor of token ids, not an ndarray"):
        replay(PREDICTOR, EVEN, TEXTS.numpy(), rng=list(range(8)))
    with pytest.raises(ValueError, match="Argument 'masked' must be a tensor of booleans, not a list"):
        replay(PREDICTOR, EVEN, TEXTS, masked=[True], rng=list(range(8)))
    with pytest.raises(ValueError, match="Argument 'masked' must be a tensor of booleans, not an ndarray"):
        Sampler(PREDICTOR, EVEN).run(TEXTS, np.ones((8, 12), dtype=bool), rng=list(range(8)))
    with pytest.raises(
        ValueError, match=r"Argument 'rng' must be a seed, a torch generator or a numpy generator, not \["
    ):
        replayed_kl(EVEN, CHAIN, 4, rng=[1, 2])


def test_each_row_may_bring_a_generator():
    """A row's result is then that of its own generator, alone or in a batch."""

    def sources(*seeds):
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    together = Sampler(PREDICTOR, EVEN).run((3, 12), rng=sources(5, 6, 7))
    for row, seed in enumerate((5, 6, 7)):
        alone = Sampler(PREDICTOR, EVEN).run((1, 12), rng=sources(seed))
        assert torch.equal(alone.tokens[0], together.tokens[row])


# What comes out


def test_one_text_has_no_standard_error():
    assert math.isnan(Estimate.of([2.5]).standard_error)
    assert Estimate.of([2.5]).mean == 2.5
    assert math.isnan(Estimate.of([]).mean)
    nothing = replay(PREDICTOR, EVEN, TEXTS, masked=torch.zeros_like(TEXTS, dtype=torch.bool), rng=list(range(8)))
    assert math.isnan(nothing.per_token.mean)


def test_an_impossible_token_is_written_as_null():
    table = Table([[0.5, 0.0], [0.0, 0.5]])
    text = torch.tensor([[0, 1]])
    trace = Sampler(ExactPredictor(table), Schedule(size.Even(2), order.LeftToRight()), Replay(text)).run(
        (1, 2), rng=[0]
    )
    data = json.loads(json.dumps(trace.to_json(), allow_nan=False))
    assert data["log_probability"][0][1] is None
    assert data["nll"] == [None]


@pytest.mark.parametrize("which", [order.Random(), order.Entropy(), order.Confidence()], ids=str)
def test_a_chain_is_sampled_and_scored_alike_in_any_batch(which):
    schedule = Schedule(size.Even(4), which)
    seeds = list(range(8))
    scores = [replay(PREDICTOR, schedule, TEXTS, rng=seeds, batch=batch).nll for batch in (1, 3, 8)]
    assert torch.equal(scores[0], scores[1])
    assert torch.equal(scores[0], scores[2])
    together = Sampler(PREDICTOR, schedule).run((8, 12), rng=seeds).tokens
    for seed in seeds:
        assert torch.equal(Sampler(PREDICTOR, schedule).run((1, 12), rng=[seed]).tokens[0], together[seed])
