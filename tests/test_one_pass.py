"""Predictors that remember are scored in one pass: what the sampler gives text by text, whatever the steps."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from families import FAMILIES  # noqa: E402
from pairs import label  # noqa: E402
from unmask import InputError, order, size  # noqa: E402
from unmask.calibration import blank, measure, measure_orders  # noqa: E402
from unmask.evaluate import compare, random_order, replay, replays  # noqa: E402
from unmask.evaluate.likelihood import at_once  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Counted, Tempered  # noqa: E402
from unmask.sample import Sampler, Stop  # noqa: E402
from unmask.sample.draw import Replay  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

VOCAB, LENGTH, END = 5, 12, 3
SHAPE = {"vocab": VOCAB, "length": LENGTH, "width": 16, "heads": 2, "hidden": 24, "reader_hidden": 24}
ORDERS = [
    order.Random(), order.Spread(), order.Comb(), order.Comb(shift=0), order.Comb(2), order.Periodic([0, 2, 1]),
    order.LeftToRight(), order.Dilated(), order.Blocks(order.Random(), 5), order.Blocks(order.Comb(), 4),
]  # fmt: skip


def network(seed=0, readers=2):
    """A network with weights of random sizes, so that nothing it looks at is negligible."""
    torch.manual_seed(seed)
    model = CausalConfig(layers=2, readers=readers, **SHAPE).network().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


PREDICTOR = network().predictor()


def mixed(seed=0, count=11):
    """Texts of different lengths, with prompts of different lengths, gaps, ends, and one with nothing to fill."""
    source = np.random.default_rng(seed)
    tokens, masked = [], []
    for number in range(count):
        length = int(source.integers(1, LENGTH + 1))
        hidden = np.arange(length) >= source.integers(length)
        if number % 3 == 0:
            hidden = source.random(length) < 0.6
        tokens.append(source.integers(VOCAB, size=length).tolist())
        masked.append((hidden & (number != 4)).tolist())
    return Sequences.of(tokens, masked)


def by_sampler(predictor, schedule, texts, seeds, end=None):
    """Nats and evaluations of each text, run alone by the sampler with its own tokens in place of draws."""
    nll, spent = [], []
    for number, seed in enumerate(seeds):
        one = texts[[number]]
        stop = None if end is None else Stop(end, end)
        trace = Sampler(predictor, schedule, Replay(one.tokens), stop).run(one.tokens, one.masked, rng=[seed])
        nll.append(float(trace.nll))
        spent.append(int(trace.evaluations[0]))
    return torch.tensor(nll, dtype=torch.float64), spent


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("kind", ORDERS, ids=label)
def test_one_pass_costs_what_the_sampler_does_text_by_text(kind, family):
    """Random sizes and orders are drawn as the sampler draws them; 1e-5 nats are rounding in float32."""
    schedule = Schedule(family(3), kind)
    texts, seeds = mixed(), list(range(50, 61))
    assert at_once(PREDICTOR, schedule)
    for end in (None, END):
        found = replay(PREDICTOR, schedule, texts, rng=seeds, end=end, batch=4)
        nll, spent = by_sampler(PREDICTOR, schedule, texts, seeds, end)
        torch.testing.assert_close(found.nll, nll, atol=1e-5, rtol=0)
        assert found.evaluations.tolist() == spent
        assert found.passes.tolist() == [int(each > 0) for each in spent]


@pytest.mark.parametrize("seed", range(30))
def test_the_evaluations_of_a_sampler_that_stops_follow_from_the_steps(seed):
    """Whether the end comes in one step with others, in the last, within a gap or in the prompt."""
    texts, seeds = mixed(seed, 7), list(range(7))
    kind = ORDERS[seed % len(ORDERS)]
    found = replay(PREDICTOR, Schedule(size.Even(1 + seed % 6), kind), texts, rng=seeds, end=END)
    _, spent = by_sampler(PREDICTOR, Schedule(size.Even(1 + seed % 6), kind), texts, seeds, END)
    assert found.evaluations.tolist() == spent
    assert min(found.evaluations.tolist()) == 0  # one text has nothing to fill


def test_what_follows_the_end_is_not_scored():
    tokens = torch.tensor([[0, 1, END, 2, 4, END, 0, 1, 2, 0, 1, 2]])
    other = torch.tensor([[0, 1, END, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    schedule = Schedule(size.Even(12), order.LeftToRight())
    found = [replay(PREDICTOR, schedule, each, rng=[0], end=END) for each in (tokens, other)]
    assert torch.equal(found[0].nll, found[1].nll)
    assert found[0].revealed.tolist() == found[0].evaluations.tolist() == [3]
    assert found[0].counts.valid_tokens == 2
    with pytest.raises(InputError, match="'end' must be at most 4, not 17"):
        replay(PREDICTOR, schedule, tokens, rng=[0], end=17)


@pytest.mark.parametrize("readers", [0, 1, 2])
def test_a_text_costs_the_same_bits_alone_and_in_any_batch(readers):
    predictor, texts = network(1, readers).predictor(), mixed(3, 9)
    schedule, seeds = Schedule(size.Even(4), order.Random()), list(range(9))
    costs = [replay(predictor, schedule, texts, rng=seeds, batch=batch).nll for batch in (1, 2, 5, 9)]
    for cost in costs[1:]:
        assert torch.equal(cost, costs[0])


def test_one_pass_needs_one_pass():
    """The network is run over every text once, whatever the number of steps, and progress says so."""
    model, seen, done = network(), [], []
    hidden = model.hidden
    model.hidden = lambda tokens, step: seen.append(len(tokens)) or hidden(tokens, step)
    tokens = torch.randint(VOCAB, (10, LENGTH), generator=torch.Generator().manual_seed(0))
    found = replays(
        model.predictor(), [Schedule(size.Even(steps), order.Comb(shift=0)) for steps in (2, 12)], tokens, rng=0,
        batch=4, progress=lambda number, count: done.append((number, count)),
    )  # fmt: skip
    assert sum(seen) == 20
    assert done == [(number, count) for number in (0, 1) for count in (4, 4, 2)]
    assert [each.mean_evaluations for each in found] == [2, 12]
    assert [each.mean_passes for each in found] == [1, 1]


def test_what_looks_at_predictions_and_what_is_altered_goes_through_the_sampler():
    tokens = torch.randint(VOCAB, (5, LENGTH), generator=torch.Generator().manual_seed(0))
    looking = Schedule(size.Even(4), order.Confidence())
    found = replay(PREDICTOR, looking, tokens, rng=0)
    assert found.passes.tolist() == found.evaluations.tolist() == [4] * 5
    blind = Schedule(size.Even(4), order.Random())
    altered = Tempered(PREDICTOR, 1.0)
    assert not at_once(altered, blind)
    assert altered.remembers
    stepwise = replay(Counted(PREDICTOR), blind, tokens, rng=0)
    assert stepwise.passes.tolist() == [4] * 5
    torch.testing.assert_close(replay(PREDICTOR, blind, tokens, rng=0).nll, stepwise.nll, atol=1e-5, rtol=0)


def test_predictions_that_are_no_numbers_are_refused():
    model = network()
    torch.nn.init.constant_(model.head.weight, torch.nan)
    tokens = torch.zeros((2, LENGTH), dtype=torch.int64)
    with pytest.raises(InputError, match="logits that are not numbers"):
        replay(model.predictor(), Schedule(size.Even(4), order.Random()), tokens, rng=0)


def test_a_network_in_training_mode_is_scored_as_it_evaluates_and_put_back():
    model = network().train()
    tokens = torch.zeros((2, LENGTH), dtype=torch.int64)
    found = replay(model.predictor(), Schedule(size.Even(4), order.Random()), tokens, rng=0)
    assert model.training
    assert not found.nll.requires_grad


def test_longer_texts_than_the_network_takes_are_refused():
    with pytest.raises(InputError, match="must have at most 12 positions, not 13"):
        replay(PREDICTOR, Schedule(size.Even(4), order.Random()), torch.zeros((2, 13), dtype=torch.int64), rng=0)


# What a set of visible tokens does not say


def test_losses_by_visible_tokens_are_refused_and_the_way_out_is_named():
    tokens = torch.zeros((4, LENGTH), dtype=torch.int64)
    for predictor in (PREDICTOR, Tempered(PREDICTOR, 2.0)):
        with pytest.raises(InputError, match=r"remembers the steps in which they came\. Score .* with `replay`"):
            random_order(predictor, tokens, rng=0)
        with pytest.raises(InputError, match=r"no losses of its own\. Measure planned schedules with `measure_rules`"):
            measure(predictor, order.Random(), tokens, rng=0)
        with pytest.raises(InputError, match="remembers the steps in which they came"):
            measure_orders(predictor, {"random": order.Random()}, tokens, blank("it", tokens, 0), rng=0)


def test_the_reference_of_a_comparison_is_one_by_one_in_random_order():
    texts, done = mixed(8, 9)[[0, 1, 2, 3, 5, 6, 7, 8]], []
    schedules = [Schedule(size.Even(2), order.Comb()), Schedule(size.Even(LENGTH), order.Random())]
    found = compare(PREDICTOR, schedules, texts, rng=7, progress=lambda number, count: done.append((number, count)))
    assert np.array_equal(found.reference, found.nll[1])
    assert found.passes.tolist() == [1, 1]
    assert sum(count for number, count in done if number == -1) == 8
    assert {number for number, _ in done} == {-1, 0, 1}
    again = type(found).from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert [cost.passes for cost in found.costs] == [1, 1]
    assert compare(PREDICTOR, schedules, texts, rng=7, reference=False).reference is None
