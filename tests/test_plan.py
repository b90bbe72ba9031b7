"""The plan of a batch: nothing that is due is given up, whatever a host, a stop or an order of one's own does."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pairs import label  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import InputError, order, size  # noqa: E402
from unmask.adapters.hosted import Hosted  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import PADDED, Sampler, Stop  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, LENGTH = 5, 8
MODEL = table_model(VOCAB, LENGTH)
PREDICTOR = Logits(MODEL, VOCAB, VOCAB)

BLOCKED = [
    Schedule(how_many, order.Blocks(which, 4))
    for how_many in (size.Even(2), size.LogLinear(3), size.Threshold(0.3))
    for which in (order.Confidence(), order.Random(), order.LeftToRight())
]


def named(schedule):
    return f"{label(schedule.size)}-{label(schedule.within)}"


@pytest.mark.parametrize("schedule", BLOCKED, ids=named)
@pytest.mark.parametrize("filled", [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2], [1, 4, 5]], ids=str)
def test_a_host_that_fills_a_part_itself_gets_the_rest_revealed(schedule, filled):
    """A whole block, or some of one: nothing is due at some steps, and the loop goes on with the next that is."""
    hosted = Hosted(schedule, VOCAB)
    tokens = torch.full((2, LENGTH), VOCAB)
    state = hosted.begin(tokens, vocab=VOCAB, rng=[1, 2])
    tokens[:, filled] = 3
    for _ in range(LENGTH):
        reveal = hosted.step(state, tokens, MODEL(tokens))
        assert bool((reveal.chosen.sum() > 0) | (tokens != VOCAB).all()), "a step that reveals nothing is the end"
        state, tokens = reveal.state, reveal.tokens
    assert bool((tokens != VOCAB).all())
    assert torch.equal(tokens[:, filled], torch.full((2, len(filled)), 3))


@pytest.mark.parametrize("schedule", BLOCKED, ids=named)
def test_a_host_that_fills_one_sequence_does_not_change_the_others(schedule):
    alone, both = Hosted(schedule, VOCAB), torch.full((2, LENGTH), VOCAB)
    first = both[:1].clone()
    states = alone.begin(first, vocab=VOCAB, rng=[1]), alone.begin(both, vocab=VOCAB, rng=[1, 2])
    both[1, :4] = 3
    for _ in range(LENGTH):
        one, two = alone.step(states[0], first, MODEL(first)), alone.step(states[1], both, MODEL(both))
        states, first, both = (one.state, two.state), one.tokens, two.tokens
    assert bool((both != VOCAB).all())
    assert torch.equal(both[:1], first)


@dataclass(frozen=True)
class Scores(order.ReactiveOrder):
    """Fixed scores by position, some of them the least there is."""

    values: tuple[float, ...]

    def score(self, prediction):
        return torch.tensor(self.values)[prediction.parts[0] % LENGTH]


def test_a_position_with_the_least_score_of_all_comes_last_but_it_comes():
    """−∞ is a score as any other: behind it stands nothing but what is no candidate at all."""
    low = -torch.inf
    which = Scores((low, 1.0, low, 5.0, low, 3.0, low, 2.0))
    start = torch.tensor([[VOCAB, VOCAB, 0, VOCAB, VOCAB, VOCAB, 0, VOCAB]])
    trace = Sampler(PREDICTOR, Schedule(size.Even(6), which)).run(start, rng=[0])
    assert trace.revealed[0].tolist() == [4, 3, -1, 0, 5, 1, -1, 2]
    # In a batch the shorter sequence is padded with positions that are no candidates, which score −∞ too.
    starts = torch.cat([start, torch.full((1, LENGTH), VOCAB)])
    both = Sampler(PREDICTOR, Schedule(size.Even(6), which)).run(starts, rng=[0, 1])
    assert torch.equal(both.revealed[0], trace.revealed[0])
    assert both.tokens.max() < VOCAB


@pytest.mark.parametrize("values", [torch.zeros(3), torch.zeros((1, LENGTH)), None, 0.5], ids=str)
def test_an_order_of_ones_own_gives_one_number_for_each_position(values):
    class Odd(order.ReactiveOrder):
        def score(self, prediction):
            return values

    with pytest.raises(InputError, match="The order must return one number for each of the 8 positions, but <"):
        Sampler(PREDICTOR, Schedule(size.Even(2), Odd())).run((1, LENGTH), rng=[0])


def test_scores_may_be_integers():
    class Last(order.ReactiveOrder):
        def score(self, prediction):
            return prediction.parts[0]

    trace = Sampler(PREDICTOR, Schedule(size.Even(LENGTH), Last())).run((1, LENGTH), rng=[0])
    assert trace.revealed[0].tolist() == list(range(LENGTH))[::-1]


@pytest.mark.parametrize("answer", [None, 1, torch.ones(3), torch.ones((1, 1))], ids=str)
def test_a_size_of_ones_own_gives_one_number_for_each_sequence(answer):
    class Odd(size.Reactive):
        def count(self, ranked):
            return answer

    with pytest.raises(InputError, match="The size must return one number for each sequence, but <"):
        Sampler(PREDICTOR, Schedule(Odd(), order.Random())).run((1, LENGTH), rng=[0])


@dataclass(frozen=True)
class Fixed(order.BlindOrder):
    positions: tuple[int, ...]

    def arrange(self, positions, *, length, steps, rng):
        return np.array(self.positions)


def test_a_stop_asks_that_nothing_is_masked_before_the_end():
    """The end comes first, then what follows it, then what precedes it: by then there is nothing left to stop."""
    logits = torch.full((LENGTH, VOCAB), -20.0)
    logits[:, 0] = 0.0
    logits[3, :] = torch.tensor([-20.0, -20.0, -20.0, 0.0, -20.0])
    model = Logits(lambda tokens: logits.expand(len(tokens), -1, -1), VOCAB, VOCAB)
    schedule = Schedule(size.Even(8), Fixed((3, 4, 5, 6, 0, 1, 2, 7)))
    trace = Sampler(model, schedule, Greedy(), Stop(end=3, pad=4)).run((1, LENGTH), rng=[0])
    assert trace.revealed[0].tolist() == [4, 5, 6, 0, 1, 2, 3, PADDED]
    assert trace.tokens[0].tolist() == [0, 0, 0, 3, 0, 0, 0, 4]


@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=label)
def test_a_plan_without_closed_positions_goes_on_with_the_others(which):
    """As an early stop leaves it, for any set of positions."""
    sampler = Sampler(PREDICTOR, Schedule(size.Even(8), which))
    state = sampler.init((3, LENGTH), rng=[1, 2, 3])
    closed = torch.rand((3, LENGTH), generator=torch.Generator().manual_seed(0)) < 0.6
    closed[2] = True
    state = replace(state, plan=state.plan.without(closed), masked=~closed, tokens=state.tokens.masked_fill(closed, 1))
    for state, _ in sampler.steps(state):  # noqa: B007, B020 - the last state is the result
        pass
    assert not bool(state.masked.any())
    assert torch.equal(state.revealed < 0, closed)
