"""A block-causal network says the same with finished blocks kept and without, under any schedule."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.blocks import BlockConfig  # noqa: E402
from unmask.models.transformer import Config  # noqa: E402
from unmask.predict import BlockNetwork, Blockwise, Counted, Logits, Places, Shifted, Suppressed  # noqa: E402
from unmask.sample import Sampler, Stop, Verified  # noqa: E402
from unmask.sample.trace import PADDED  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402
from unmask.words.rules import rules_named  # noqa: E402

BLOCK, LENGTH, VOCAB = 4, 18, 5  # the last block is cut short
SCHEDULES = {
    "comb in blocks": Schedule(size.Even(2), order.Blocks(order.Comb(shift=0), BLOCK, start=0)),
    "random in blocks": Schedule(size.LogLinear(3), order.Blocks(order.Random(), BLOCK, start=0)),
    "confidence in blocks": Schedule(size.Threshold(0.5), order.Blocks(order.Confidence(), BLOCK, start=0)),
    "margin in blocks": Schedule(size.Even(3), order.Blocks(order.Margin(), BLOCK, start=0)),
    "left to right": Schedule(size.Even(LENGTH), order.LeftToRight()),
    "blocks of another length": Schedule(size.Even(3), order.Blocks(order.Random(), 6)),
    "all over": Schedule(size.Even(5), order.Random()),
    "comb all over": Schedule(size.Even(6), order.Comb()),
    "confidence all over": Schedule(size.Even(5), order.Confidence()),
}


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def network(seed=0, **shape):
    torch.manual_seed(seed)
    usual = {"vocab": VOCAB, "length": LENGTH, "width": 16, "heads": 2, "layers": 2, "readers": 1, "hidden": 24}
    made = BlockConfig(**(usual | {"reader_hidden": 24, "block": BLOCK} | shape)).network().eval()
    with torch.no_grad():
        made.head.weight.mul_(2)  # predictions that differ
    return made


class Aside(BlockNetwork):
    """Another network's way of answering: shifted, or one block at a time."""

    def __init__(self, inner, shifted, several):
        self.inner, self.block, self.shifted, self.several, self.runs = inner, inner.block, shifted, several, []

    def run(self, tokens, start, join):
        self.runs.append((start, start + tokens.shape[1], len(tokens)))
        assert self.several or tokens.shape[1] <= self.block
        assert not bool((tokens > VOCAB).any())  # no padding, ever
        return self.inner.run(tokens, start, join)

    def logits(self, states):
        return self.inner.logits(states)


def pair(shifted=False, several=True, **shape):
    """A network with what is finished kept, and the same as a function of all tokens."""
    inner = network(**shape)
    plain = Logits(inner, VOCAB, VOCAB)
    made = Blockwise(Aside(inner, shifted, several), VOCAB, VOCAB, length=inner.config.length)
    return made, Shifted(plain) if shifted else plain


def prompted(seed=3, rows=4):
    """Texts of one length with prompts of several lengths and gaps."""
    rng = np.random.default_rng(seed)
    tokens = torch.as_tensor(rng.integers(VOCAB, size=(rows, LENGTH)))
    masked = torch.ones_like(tokens, dtype=torch.bool)
    for number, given in enumerate((2, 7, 0, 9)[:rows]):
        masked[number, :given] = False
    masked[2] = torch.as_tensor(rng.random(LENGTH) < 0.6)
    return tokens, masked


def ragged(seed=5):
    rng = np.random.default_rng(seed)
    lengths = [LENGTH, LENGTH, 13, 8, 8, 3]
    rows = [rng.integers(VOCAB, size=length).tolist() for length in lengths]
    hidden = [np.ones(length, dtype=bool) for length in lengths]
    # Where all of a block is masked and nothing is given, all of it is told the same: a ranking is left to rounding.
    hidden[0][1] = hidden[4][0] = False
    hidden[1][:6] = False
    hidden[2][:5] = False
    hidden[3] &= rng.random(8) < 0.5
    hidden[5][:] = [False, True, False]
    return rows, [each.tolist() for each in hidden]


# Kept and not kept


@pytest.mark.parametrize("several", [True, False], ids=["at once", "block by block"])
@pytest.mark.parametrize("shifted", [False, True], ids=["in place", "shifted"])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_every_step_is_told_what_a_full_pass_says(schedule, shifted, several):
    kept, plain = pair(shifted, several)
    tokens, masked = prompted()
    sampler = Sampler(kept, schedule)
    state = sampler.init(tokens, masked, rng=range(4))
    for before, (after, step) in itertools.pairwise([(state, None), *sampler.steps(state)]):
        visible = before[0]
        said = plain(visible.tokens, visible.masked, step.rows).log_probabilities()
        found = said.gather(1, step.tokens[:, None])[:, 0].double()
        assert float((found - step.log_probability).abs().max()) < 1e-5
        # All that is masked, read from the same memory, whatever the schedule asked for.
        rows = torch.nonzero(visible.masked.flatten())[:, 0]
        told, _ = visible.memory.read(visible.tokens, Places.of(rows, LENGTH))
        full = plain(visible.tokens, visible.masked, rows)
        assert float((told.log_probabilities() - full.log_probabilities()).abs().max()) < 1e-5
        state = after
    assert not bool(state.masked.any())


def test_without_a_memory_it_is_the_same_function():
    for shifted, several in itertools.product([False, True], repeat=2):
        kept, plain = pair(shifted, several)
        tokens, masked = prompted()
        blanked = tokens.masked_fill(masked, VOCAB)
        rows = torch.randperm(tokens.numel(), generator=torch.Generator().manual_seed(0))
        assert torch.allclose(kept(blanked, masked).logits(), plain(blanked, masked).logits(), atol=1e-5)
        assert torch.allclose(kept(blanked, masked, rows).logits(), plain(blanked, masked, rows).logits(), atol=1e-5)
        assert len(kept(blanked, masked, rows[:0])) == 0


def test_all_positions_can_be_asked_for_whatever_is_empty_and_whatever_a_masked_position_holds():
    for shifted, several in itertools.product([False, True], repeat=2):
        kept, _ = pair(shifted, several)
        tokens, masked = prompted()
        wanted = kept(tokens.masked_fill(masked, VOCAB), masked).logits()
        # What stands at a masked position is not looked at, though it be padding, at the end too.
        assert torch.equal(kept(tokens.masked_fill(masked, kept.pad), masked).logits(), wanted)
        tokens[1], masked[1] = kept.pad, False
        told = kept(tokens, masked).logits().view(len(tokens), LENGTH, VOCAB)
        others = torch.tensor([0, 2, 3])
        assert torch.allclose(told[others], wanted.view(told.shape)[others], atol=1e-6)
        assert torch.equal(told[1], torch.zeros(LENGTH, VOCAB))
        assert torch.equal(kept(tokens[1:2], masked[1:2]).logits(), torch.zeros(LENGTH, VOCAB))


def test_with_one_block_it_is_the_transformer_that_looks_both_ways():
    ours = network(block=LENGTH)
    fields = {name: value for name, value in vars(ours.config).items() if name != "block"}
    other = Config(**fields).network().eval()
    other.load_state_dict(ours.state_dict())
    tokens = torch.randint(VOCAB + 1, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(ours(tokens), other(tokens), atol=1e-5)


def test_no_position_sees_a_later_block_and_all_see_their_own():
    inner = network()
    tokens = torch.randint(VOCAB, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    base = inner(tokens)
    for place in range(LENGTH):
        other = tokens.clone()
        other[0, place] = (other[0, place] + 1) % VOCAB
        changed = (inner(other) - base).abs().amax(dim=-1)[0] > 1e-6
        assert changed.tolist() == [number // BLOCK >= place // BLOCK for number in range(LENGTH)]


# What a step computes


def test_a_step_computes_its_block_and_the_one_just_finished():
    kept, _ = pair()
    Sampler(kept, SCHEDULES["comb in blocks"]).run((2, LENGTH), rng=[0, 1])
    assert kept.network.runs == [
        (0, 4, 2), (0, 4, 2),
        (0, 8, 2), (4, 8, 2),
        (4, 12, 2), (8, 12, 2),
        (8, 16, 2), (12, 16, 2),
        (12, 18, 2), (16, 18, 2),
    ]  # fmt: skip


def test_evaluations_are_those_of_the_schedule():
    kept, plain = pair()
    schedule = SCHEDULES["comb in blocks"]
    tokens, masked = prompted()
    ours, theirs = (Sampler(each, schedule).run(tokens, masked, rng=range(4)) for each in (kept, plain))
    assert ours.evaluations.tolist() == theirs.evaluations.tolist()
    assert ours.calls == theirs.calls
    assert torch.equal(ours.tokens, theirs.tokens)


def test_the_first_token_of_a_block_costs_a_shifted_network_nothing_more():
    kept, _ = pair(shifted=True)
    Sampler(kept, Schedule(size.Even(4), order.Blocks(order.Margin(), BLOCK, start=0))).run((1, 8), rng=[0])
    assert kept.network.runs == [(0, 4, 1)] * 4 + [(0, 8, 1)] + [(4, 8, 1)] * 3
    left, _ = pair(shifted=True)
    Sampler(left, Schedule(size.Even(8), order.LeftToRight())).run((1, 8), rng=[0])
    # The token at position 4 is predicted at position 3: its own block is not needed yet.
    assert left.network.runs == [(0, 4, 1)] * 5 + [(4, 8, 1)] * 3


# A memory is a value


def test_a_memory_can_be_read_again_whatever_was_done_since():
    for shifted in (False, True):
        kept, plain = pair(shifted)
        tokens, masked = prompted()
        masked[:, 8:] = True
        masked[:, :8] = False
        blanked = tokens.masked_fill(masked, VOCAB)
        rows = torch.nonzero(masked.flatten())[:, 0]
        first = kept.begin(blanked, masked)
        _, first = first.read(blanked, Places.of(rows[rows % LENGTH < 12], LENGTH))
        said = plain(blanked, masked, rows).logits()
        whole = Places.of(rows, LENGTH)
        texts = tokens, (tokens + 1) % VOCAB
        for text in (*texts, *texts):  # two futures of one memory, in turn
            found, now = blanked.clone(), first
            hidden = masked.clone()
            for block in range(8, LENGTH, BLOCK):
                places = rows[(rows % LENGTH >= block) & (rows % LENGTH < block + BLOCK)]
                found.view(-1)[places] = text.flatten()[places]
                hidden.view(-1)[places] = False
                now = now.revealed(Places.of(places, LENGTH))
                later = torch.nonzero(hidden.flatten())[:, 0]
                if len(later):
                    told, now = now.read(found, Places.of(later, LENGTH))
                    assert torch.allclose(told.logits(), plain(found, hidden, later).logits(), atol=1e-5)
            assert torch.allclose(first.read(blanked, whole)[0].logits(), said, atol=1e-5)


def test_what_is_finished_can_be_asked_for():
    for shifted in (False, True):
        kept, plain = pair(shifted)
        tokens, masked = prompted()
        blanked = tokens.masked_fill(masked, VOCAB)
        every = Places.of(torch.arange(tokens.numel()), LENGTH)
        _, memory = kept.begin(blanked, masked).read(blanked, every)
        told, same = memory.read(blanked, every)
        assert torch.allclose(told.logits(), plain(blanked, masked).logits(), atol=1e-5)
        assert same is memory


# Alone and in a batch


@pytest.fixture(scope="module")
def real():
    """The size of the built-in model, with weights of nobody."""
    shape = {"vocab": 27, "length": 96, "width": 256, "heads": 4, "layers": 3, "readers": 2, "hidden": 512}
    return network(**shape, reader_hidden=512, block=16).predictor()


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_row_has_the_bits_that_it_has_alone(schedule):
    kept, _ = pair()
    rows, hidden = ragged()
    sampler = Sampler(kept, schedule if schedule.order != order.LeftToRight() else Schedule(size.Even(3), order.Comb()))
    whole = sampler.fill(Sequences.of(rows, hidden), rng=range(len(rows)))
    for number, (row, open_) in enumerate(zip(rows, hidden, strict=True)):
        alone = sampler.run(torch.tensor([row]), torch.tensor([open_]), rng=[number])
        for part in ("tokens", "revealed", "log_probability"):
            assert torch.equal(getattr(whole, part)[number, : len(row)], getattr(alone, part)[0]), (number, part)


def test_a_row_of_a_larger_network_has_the_bits_that_it_has_alone(real):
    rng = np.random.default_rng(0)
    rows = [rng.integers(27, size=length).tolist() for length in (96, 96, 70, 70, 33, 5)]
    hidden = [
        [place >= given for place in range(len(row))] for row, given in zip(rows, (0, 20, 9, 32, 1, 2), strict=True)
    ]
    sampler = Sampler(real, Schedule(size.Even(4), order.Blocks(order.Comb(), 16, start=0)))
    whole = sampler.fill(Sequences.of(rows, hidden), rng=range(len(rows)))
    for number, (row, open_) in enumerate(zip(rows, hidden, strict=True)):
        alone = sampler.run(torch.tensor([row]), torch.tensor([open_]), rng=[number])
        assert torch.equal(whole.log_probability[number, : len(row)], alone.log_probability[0]), number


def test_sequences_that_end_early_leave_the_others_as_they_are():
    kept, plain = pair()
    schedule = SCHEDULES["comb in blocks"]
    stop = Stop(0, 0)
    ours = Sampler(kept, schedule, stop=stop).run((6, LENGTH), rng=range(6))
    theirs = Sampler(plain, schedule, stop=stop).run((6, LENGTH), rng=range(6))
    assert torch.equal(ours.tokens, theirs.tokens)
    assert torch.equal(ours.revealed, theirs.revealed)
    ended = (ours.revealed == PADDED).any(dim=1)
    assert bool(ended.any())
    assert len({int(each) for each in ours.evaluations}) > 1


# Laws


def law(predictor, schedule, length):
    """The probability of every text, by enumeration of the sampler's path on each: from full passes."""
    texts = torch.as_tensor(list(itertools.product(range(VOCAB), repeat=length)))
    return texts, torch.exp(-replay(predictor, schedule, texts, rng=[0] * len(texts)).nll)


@pytest.mark.parametrize("name", ["comb in blocks", "margin in blocks", "all over"])
@pytest.mark.parametrize("shifted", [False, True], ids=["in place", "shifted"])
def test_what_is_drawn_has_the_law_that_enumeration_gives(name, shifted):
    """8,000 texts of 4 tokens in blocks of 2 against all 625: a Pearson test at 1e-6, with a fixed seed.

    With one seed for all texts, sizes and orders are drawn once; the numbers that choose tokens are other ones.
    """
    from scipy.stats import chi2

    kept, plain = pair(shifted, block=2)
    schedule = SCHEDULES[name]
    if isinstance(schedule.order, order.Blocks):
        schedule = Schedule(size.Even(2), replace(schedule.order, length=2))
    if name == "all over":
        schedule = Schedule(size.Even(2), order.Comb(shift=1))
    texts, chance = law(plain, schedule, 4)
    assert float(chance.sum()) == pytest.approx(1, abs=1e-5)
    drawn = Sampler(kept, schedule).run((8_000, 4), rng=0).tokens
    index = (drawn * torch.tensor([VOCAB**3, VOCAB**2, VOCAB, 1])).sum(dim=1)
    count = torch.bincount(index, minlength=len(texts)).double()
    expected = chance * len(drawn)
    common = expected >= 5
    rare = torch.stack([count[~common].sum(), expected[~common].sum()])
    found = ((count - expected)[common] ** 2 / expected[common]).sum() + (rare[0] - rare[1]) ** 2 / rare[1].clamp(min=1)
    assert float(chi2.sf(float(found), int(common.sum()))) > 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_replay_is_the_likelihood_of_full_passes(schedule):
    kept, plain = pair()
    tokens, masked = prompted()
    ours, theirs = (replay(each, schedule, tokens, masked=masked, rng=range(4)) for each in (kept, plain))
    assert torch.allclose(ours.nll, theirs.nll, atol=1e-4)
    assert torch.equal(ours.evaluations, theirs.evaluations)
    rows, hidden = ragged()
    texts = Sequences.of(rows, hidden)
    if schedule.order != order.LeftToRight():
        assert torch.allclose(
            replay(kept, schedule, texts, rng=range(6)).nll, replay(plain, schedule, texts, rng=range(6)).nll, atol=1e-4
        )


def test_replay_scores_what_the_sampler_drew():
    kept, _ = pair()
    schedule = SCHEDULES["random in blocks"]
    trace = Sampler(kept, schedule).run((5, LENGTH), rng=range(5))
    assert torch.allclose(replay(kept, schedule, trace.tokens, rng=range(5)).nll, trace.nll, atol=1e-6)


def test_drafts_are_verified_against_full_passes():
    kept, plain = pair()
    schedule = SCHEDULES["comb in blocks"]
    ours, theirs = (Verified(each, schedule).run((3, LENGTH), rng=range(3)) for each in (kept, plain))
    assert torch.equal(ours.tokens, theirs.tokens)
    assert ours.evaluations.tolist() == theirs.evaluations.tolist()
    assert ours.verification.sequences.tolist() == theirs.verification.sequences.tolist()


# Around it


def test_wrappers_that_alter_predictions_keep_the_memory():
    kept, plain = pair()
    counted = Counted(Suppressed(kept, [2]))
    schedule = SCHEDULES["comb in blocks"]
    ours = Sampler(counted, schedule).run((2, LENGTH), rng=[0, 1])
    theirs = Sampler(Suppressed(plain, [2]), schedule).run((2, LENGTH), rng=[0, 1])
    assert torch.equal(ours.tokens, theirs.tokens)
    assert counted.calls == ours.calls
    assert max(stop - start for start, stop, _ in kept.network.runs) <= 2 * BLOCK


def test_what_it_says_depends_on_visible_tokens_alone():
    assert not pair()[0].remembers


def test_weights_are_saved_and_read_back(tmp_path):
    made = network()
    weights.save(made, tmp_path / "model.safetensors", about={"alphabet": "abcde"}, half=False)
    again, about = weights.load(tmp_path / "model.safetensors")
    assert again.config == made.config
    assert about == {"alphabet": "abcde"}
    tokens = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    assert torch.equal(again(tokens), made(tokens))


def test_blocks_of_the_text_have_words():
    (found,) = rules_named(["whole-blocks-4/margin/even:2"], 12).values()
    assert found == Schedule(size.Even(2), order.Blocks(order.Margin(), 4, start=0))
    assert Schedule.from_json(found.to_json()) == found
    old = found.to_json()
    del old["order"]["start"]
    assert Schedule.from_json(old).order == order.Blocks(order.Margin(), 4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Blockwise(object(), 5, 5), "be a BlockNetwork"),
        (lambda: Blockwise(network(), 5, 5, pad=5), "be a different token"),
        (lambda: Blockwise(network(), 5, 5, length=0), "at least 1"),
        (lambda: BlockConfig(vocab=5, length=8, block=0), "at least 1"),
        (lambda: network().predictor()(*2 * (torch.zeros((1, 40), dtype=torch.int64),)), "booleans"),
        (lambda: Sampler(network().predictor(), SCHEDULES["all over"]).run((1, 40), rng=0), "at most 18 positions"),
        (lambda: order.Blocks(order.Margin(), 4, start=-1), "at least 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_what_the_page_says_of_a_step_was_measured():
    root = Path(__file__).parent.parent
    found = json.loads((root / "benchmarks" / "results" / "blocks.json").read_text())["cpu"]
    assert (found["shape"]["length"], found["shape"]["block"]) == (4096, 32)
    assert max(found["ratios"][name] for name in ("step", "answer")) <= 0.03
    page = (root / "docs" / "integrations.md").read_text(encoding="utf-8").split("**What a step costs.**")[1]
    for name in ("step", "answer", "first"):
        assert f"{100 * found['ratios'][name]:.1f} %" in page.split("| family |")[0]
