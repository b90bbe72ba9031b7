"""A network that is causal in the schedule remembers exactly, and says the same cached or in one pass."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Places  # noqa: E402
from unmask.sample import Sampler, Stop  # noqa: E402
from unmask.sample.trace import PADDED  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

LENGTH = 256
COMB = Schedule(size.Even(16), order.Comb(shift=0))


def network(seed=0, **shape):
    torch.manual_seed(seed)
    return CausalConfig(**({"vocab": 5, "length": 12, "width": 16, "heads": 2, "hidden": 24} | shape)).network().eval()


@pytest.fixture(scope="module")
def real():
    """The size of the built-in model, with weights of nobody."""
    return network(vocab=27, length=LENGTH, width=256, heads=4, layers=5, readers=3, hidden=640, reader_hidden=640)


@pytest.fixture(scope="module")
def tiny():
    return network(layers=2, readers=2, reader_hidden=24)


def ragged(vocab, seed, longest):
    """Texts of several lengths, with prompts of several lengths, gaps, and one with hardly anything to fill."""
    rng = np.random.default_rng(seed)
    lengths = [longest, longest, 3 * longest // 4, longest // 2, longest // 2, 3]
    rows = [rng.integers(vocab, size=length).tolist() for length in lengths]
    hidden = [np.ones(length, dtype=bool) for length in lengths]
    hidden[1][: longest // 3] = False  # a prompt
    hidden[2][: longest // 8] = False
    hidden[3] &= rng.random(lengths[3]) < 0.5  # gaps
    hidden[5][:] = [False, True, False]
    return rows, [each.tolist() for each in hidden]


def same(trace, number, alone):
    """Whether a row of a batch has the bits of a row alone: tokens, steps and log-probabilities."""
    length = alone.tokens.shape[1]
    return all(
        torch.equal(getattr(trace, part)[number, :length], getattr(alone, part)[0])
        for part in ("tokens", "revealed", "log_probability")
    )


# Alone and in a batch


@pytest.mark.parametrize(
    "schedule",
    [COMB, Schedule(size.Even(16), order.Random()), Schedule(size.LogLinear(12), order.Comb(shift=0))],
    ids=["comb", "random order", "random sizes"],
)
def test_a_row_has_the_bits_that_it_has_alone(real, schedule):
    sampler = Sampler(real.predictor(), schedule)
    whole = sampler.run((5, LENGTH), rng=range(5))
    for row in range(5):
        assert same(whole, row, sampler.run((1, LENGTH), rng=[row])), row


@pytest.mark.parametrize(
    "schedule", [COMB, Schedule(size.LogLinear(12), order.Comb(shift=0))], ids=["comb", "random sizes"]
)
def test_a_row_with_a_prompt_of_its_own_has_the_bits_that_it_has_alone(real, schedule):
    rows, hidden = ragged(27, 1, LENGTH)
    sampler = Sampler(real.predictor(), schedule)
    whole = sampler.fill(Sequences.of(rows, hidden), rng=range(len(rows)))
    for number, (row, open_) in enumerate(zip(rows, hidden, strict=True)):
        assert same(whole, number, sampler.fill(Sequences.of([row], [open_]), rng=[number])), number
        given = torch.tensor([token for token, each in zip(row, open_, strict=True) if not each])
        assert torch.equal(whole.tokens[number, : len(row)][~torch.tensor(open_)], given)


@pytest.mark.parametrize("seed", range(12))
def test_a_row_has_the_bits_that_it_has_alone_in_networks_of_every_shape(seed):
    """Where states fill whole lines of memory: else a matrix product rounds by where a row happens to begin."""
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 4))
    model = network(
        seed, vocab=int(rng.integers(2, 40)), length=24, width=16 * heads * int(rng.integers(1, 4)), heads=heads,
        layers=int(rng.integers(1, 3)), readers=int(rng.integers(0, 3)), hidden=16 * int(rng.integers(1, 5)),
    )  # fmt: skip
    rows, hidden = ragged(model.config.vocab, seed, 24)
    kinds = (
        Schedule(size.Even(5), order.Comb(shift=0)),
        Schedule(size.LogLinear(4), order.Random()),
        Schedule(size.Threshold(0.3), order.Confidence()),
        Schedule(size.EntropyBound(2.0), order.Blocks(order.Entropy(), 7)),
    )
    sampler = Sampler(model.predictor(), kinds[seed % len(kinds)])
    whole = sampler.fill(Sequences.of(rows, hidden), rng=range(len(rows)))
    for number, (row, open_) in enumerate(zip(rows, hidden, strict=True)):
        assert same(whole, number, sampler.fill(Sequences.of([row], [open_]), rng=[number])), number


# Cached and in one pass


def scored(model, trace):
    """Log-probabilities of what a run wrote, all steps in one pass."""
    step = trace.revealed.clamp(min=-1)
    rows = torch.arange(trace.tokens.numel())
    with torch.no_grad():
        told = model.predictor().stepped(trace.tokens, step, rows).log_probabilities()
    return told.gather(1, trace.tokens.reshape(-1, 1)).view(trace.tokens.shape)


@pytest.mark.parametrize("schedule", [COMB, Schedule(size.LogLinear(12), order.Random())], ids=["comb", "random"])
def test_what_was_written_step_by_step_is_scored_alike_in_one_pass(real, schedule):
    """To 1e-5 nats in float32, for every token."""
    trace = Sampler(real.predictor(), schedule).run((3, LENGTH), rng=range(3))
    torch.testing.assert_close(
        scored(real, trace).double(), trace.log_probability.double(), atol=1e-5, rtol=0, check_dtype=False
    )


@pytest.mark.parametrize("which", [order.Comb(shift=0), order.LeftToRight(), order.Confidence()], ids=repr)
def test_prompts_and_gaps_are_scored_alike_in_one_pass(tiny, which):
    tokens = torch.randint(5, (4, 12), generator=torch.Generator().manual_seed(0))
    masked = torch.rand(4, 12, generator=torch.Generator().manual_seed(1)) < 0.6
    masked[0] = torch.arange(12) >= 5
    trace = Sampler(tiny.predictor(), Schedule(size.Even(4), which)).run(
        tokens.masked_fill(masked, tiny.predictor().mask), rng=range(4)
    )
    found = scored(tiny, trace)
    torch.testing.assert_close(found[masked].double(), trace.log_probability[masked].double(), atol=1e-5, rtol=0)


def test_nothing_of_a_step_or_later_changes_what_it_is_told(real):
    """Bit by bit, in one pass: every token of step k or later is replaced, for every k."""
    source = torch.Generator().manual_seed(0)
    tokens = torch.randint(27, (1, LENGTH), generator=source)
    step = (torch.arange(LENGTH) % 16)[None]
    with torch.no_grad():
        whole = real(tokens, step).view(1, LENGTH, -1)
        for now in (0, 1, 7, 15):
            other = torch.where(step >= now, torch.randint(27, tokens.shape, generator=source), tokens)
            assert torch.equal(real(other, step).view(1, LENGTH, -1)[step == now], whole[step == now])


# A memory is a value


def places(*rows):
    return Places.of(torch.tensor(rows), 12)


@torch.no_grad()
def test_a_memory_that_was_kept_says_the_same_again(tiny):
    """Copy on write: two ways from one memory do not hear of each other."""
    predictor = tiny.predictor()
    tokens = torch.randint(5, (2, 12), generator=torch.Generator().manual_seed(0))
    other = (tokens + 1) % 5
    masked = torch.ones(2, 12, dtype=torch.bool)
    _, memory = predictor.begin(tokens, masked).read(tokens, places(0, 6, 12))
    kept = memory.revealed(places(0, 6, 12, 18))
    wanted = places(1, 7, 13, 19)
    first, ahead = kept.read(tokens, wanted)
    branch, _ = kept.read(other, wanted)  # the same memory, where other tokens became known
    again, _ = kept.read(tokens, wanted)
    assert torch.equal(first.logits(), again.logits())
    assert not torch.allclose(first.logits(), branch.logits())
    # The one that went on first is as if nothing had happened.
    on, _ = ahead.revealed(places(1, 13)).read(tokens, places(2, 14))
    steps = torch.full((2, 12), 9)
    steps[:, [0, 6]], steps[:, 1] = 0, 1
    rows = torch.tensor([2, 14])
    steps[:, 2] = 2
    torch.testing.assert_close(on.logits(), predictor.stepped(tokens, steps, rows).logits(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_states_of_a_sampler_can_be_stepped_again(tiny):
    sampler = Sampler(tiny.predictor(), Schedule(size.Even(4), order.Comb(shift=0)))
    state = sampler.init((3, 12), rng=range(3))
    states = [state, *(after for after, _ in sampler.steps(state))]
    last = states[-1].trace()
    for kept in reversed(states[:-1]):
        *_, (end, _) = sampler.steps(kept)
        assert torch.equal(end.tokens, last.tokens)
        assert torch.equal(end.trace().log_probability, last.log_probability)


# Rows that are over


def test_rows_that_finish_or_stop_early_leave_the_others_alone(tiny):
    """Some rows have one token to fill, some reach an end at once: the others have the bits that they have alone."""
    sampler = Sampler(tiny.predictor(), Schedule(size.Even(6), order.LeftToRight()), stop=Stop(end=2, pad=2))
    mask = tiny.predictor().mask
    start = torch.full((8, 12), mask)
    start[1, :11] = 0
    start[4, 1:] = 1
    whole = sampler.run(start, rng=range(8))
    assert int((whole.revealed == PADDED).sum()) > 0
    for row in range(8):
        assert same(whole, row, sampler.run(start[row : row + 1], rng=[row])), row


# By hand


@torch.no_grad()
def test_a_predictor_called_by_hand_takes_what_is_visible_for_given(tiny):
    """Any rows in any order, each as one pass with everything visible given says it."""
    predictor = tiny.predictor()
    tokens = torch.randint(5, (3, 12), generator=torch.Generator().manual_seed(0))
    masked = torch.rand(3, 12, generator=torch.Generator().manual_seed(1)) < 0.5
    hidden = tokens.masked_fill(masked, predictor.mask)
    wanted = torch.nonzero(masked.flatten())[:, 0]
    rows = wanted[torch.randperm(len(wanted), generator=torch.Generator().manual_seed(2))]
    expected = predictor.stepped(tokens, torch.where(masked, 0, -1), rows).logits()
    torch.testing.assert_close(predictor(hidden, masked, rows).logits(), expected, atol=1e-5, rtol=0)
    assert torch.equal(predictor(hidden, masked, rows).logits(), predictor(hidden, masked, wanted).logits()[back(rows)])
    everything = predictor(hidden, masked)
    torch.testing.assert_close(everything.logits()[rows], expected, atol=1e-5, rtol=0)


def back(rows):
    """Where each of some rows stands among them in ascending order."""
    return rows.argsort().argsort()
