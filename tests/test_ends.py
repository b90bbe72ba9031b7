"""Answers of unknown length: what counts of them, and that stopping early changes nothing that counts."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import InputError, order, size  # noqa: E402
from unmask.evaluate.comparison import compare  # noqa: E402
from unmask.evaluate.levels import random_order  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.front import generate  # noqa: E402
from unmask.models import Model  # noqa: E402
from unmask.models.text import Alphabet, Bytes, Codec  # noqa: E402
from unmask.predict import Headed, Logits  # noqa: E402
from unmask.sample import GIVEN, OPEN, PADDED, Counts, Sampler, Stop, Trace  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LETTERS = "abcd"
END, MASK, LENGTH = 4, 5, 12
SCHEDULES = [
    Schedule(size.Even(12), order.LeftToRight()),
    Schedule(size.Even(4), order.Random()),
    Schedule(size.LogLinear(6), order.Spread()),
    Schedule(size.TC(3), order.Comb()),
    Schedule(size.DTC(2), order.Blocks(order.Random(), 5)),
    Schedule(size.Even(3), order.Confidence()),
    Schedule(size.Even(5), order.Blocks(order.Margin(), 3)),
    Schedule(size.Threshold(0.3), order.Confidence()),
    Schedule(size.EntropyBound(3.0), order.Random()),
    Schedule(size.Factor(1.5), order.Blocks(order.Comb(3), 5)),
]


class Ended(Codec):
    """Four letters and an end, which decoding shows as a full stop wherever it still finds one."""

    vocab, end = 5, END

    def encode(self, text):
        return Alphabet(LETTERS).encode(text)

    def decode(self, tokens):
        return "".join(f"{LETTERS}."[token] for token in tokens)


def predictor(vocab=5, length=LENGTH, seed=0):
    """Logits of a sequence are a fixed random function of all of it, computed row by row."""
    source = torch.Generator().manual_seed(seed)
    embed, place = torch.randn((vocab + 1, 16), generator=source), torch.randn((length, 16), generator=source)
    mix, out = torch.randn((16, 16), generator=source), torch.randn((16, vocab), generator=source)

    def hidden(tokens):
        states = [embed[row] + place[: row.numel()] for row in tokens]
        return torch.stack([torch.tanh((each + each.mean(dim=0)) @ mix) for each in states])

    return Headed(hidden, lambda states: torch.stack([row @ out for row in states]), vocab, vocab)


@pytest.fixture
def model():
    return Model("toy", torch.nn.Linear(1, 1), predictor(), Ended(), LENGTH, {})


def record(tokens, revealed, evaluations, end=END, scores=None):
    """A record made by hand; every drawn token costs one nat unless said otherwise."""
    revealed = torch.tensor(revealed)
    scores = -(revealed >= 0).double() if scores is None else torch.tensor(scores, dtype=torch.float64)
    spent = np.array(evaluations, dtype=np.int64)
    return Trace(torch.tensor(tokens), revealed, scores, spent, max(evaluations), tuple(range(len(tokens))), end)


# Counting


@pytest.mark.parametrize(
    ("tokens", "revealed", "valid", "scored"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1], 4, 4),  # no end: all of it
        ([0, 1, END, 3], [0, 0, 1, 1], 2, 3),  # the end and what follows do not count
        ([0, 1, END, END], [0, 0, 1, PADDED], 2, 3),
        ([0, END, 2, END], [0, 1, 0, 1], 1, 2),  # the first end is the one that ends
        ([END, 1, 2, 3], [GIVEN, 0, 0, 1], 3, 3),  # an end of the prompt ends nothing
        ([END, 1, END, 3], [GIVEN, 0, 0, 1], 1, 2),
        ([1, 1, END, 3], [0, GIVEN, 0, GIVEN], 1, 2),  # what is given never counts
        ([END, 1, 2, 3], [0, 1, 1, 1], 0, 1),  # an answer may be empty
        ([0, MASK, END, 3], [0, OPEN, 1, 1], 1, 2),  # nor what is still masked
        ([0, 1, 2, 3], [GIVEN] * 4, 0, 0),
    ],
)
def test_valid_tokens_are_those_drawn_before_the_first_end_that_was_drawn(tokens, revealed, valid, scored):
    trace = record([tokens], [revealed], [3])
    assert trace.valid_tokens.tolist() == [valid]
    assert trace.counts == Counts(valid, 3)
    assert trace.tokens_per_evaluation == valid / 3
    assert trace.nll.tolist() == [scored]
    drawn = sum(step >= 0 for step in revealed)
    assert trace.until(None).counts == Counts(drawn, 3)
    assert trace.until(None).nll.tolist() == [drawn]
    assert trace.until(None).until(END).counts == trace.counts


def test_an_impossible_token_after_the_end_costs_nothing():
    trace = record([[0, END, 2]], [[0, 1, 1]], [2], scores=[[-1.0, -2.0, -math.inf]])
    assert trace.nll.tolist() == [3.0]
    assert trace.until(None).nll.tolist() == [math.inf]


def test_what_was_written_has_no_ends_and_nothing_after_them():
    trace = record([[END, 0, 1, END, 2], [END, 0, 1, 2, 3]], [[GIVEN, GIVEN, 0, 1, 0], [GIVEN, GIVEN, 0, 1, 0]], [2, 2])
    assert trace.written() == [[0, 1], [0, 1, 2, 3]]
    assert trace.written(2) == [[1], [1, 2, 3]]
    assert trace.until(None).written() == trace.tokens.tolist()
    with pytest.raises(InputError, match="'first'"):
        trace.written(-1)
    with pytest.raises(InputError, match="'end'"):
        trace.until(-1)


def test_counts_are_added_and_ratios_never_averaged():
    parts = [Counts(12, 4), Counts(1, 8), Counts(0, 0)]
    assert Counts.total(parts) == Counts(13, 12)
    assert (Counts(1, 2, 0.25) + Counts(0, 1, 0.5)).seconds == 0.75
    assert Counts.total(parts).tokens_per_evaluation == 13 / 12
    assert Counts().tokens_per_evaluation == 0.0
    wrongs = (lambda: Counts(-1, 2), lambda: Counts(1, 0.5), lambda: Counts(1, 1, -1.0), lambda: Counts() + 3)
    for wrong in (*wrongs, lambda: Counts.total(3)):
        with pytest.raises(InputError):
            wrong()
    assert Counts(3, 2, 0.5).to_json() == {
        "valid_tokens": 3, "evaluations": 2, "tokens_per_evaluation": 1.5, "seconds": 0.5
    }  # fmt: skip


def test_batches_sum_to_the_whole():
    """On 200 random records cut at random: whatever the rows hold, the counts of the parts add up to those of all."""
    chance = random.Random(4)
    for _ in range(200):
        rows = chance.randint(1, 9)
        tokens = [[chance.randint(0, MASK) for _ in range(6)] for _ in range(rows)]
        revealed = [[chance.choice([GIVEN, PADDED, OPEN, 0, 1, 2]) for _ in range(6)] for _ in range(rows)]
        spent = [chance.randint(0, 5) for _ in range(rows)]
        cut = chance.randint(0, rows)
        parts = [
            record(tokens[some], revealed[some], spent[some]).counts
            for some in (slice(cut), slice(cut, rows))
            if tokens[some]
        ]
        assert Counts.total(parts) == record(tokens, revealed, spent).counts


def test_a_sampler_that_stops_counts_alike_in_any_batches():
    sampler = Sampler(predictor(), SCHEDULES[0], stop=Stop(END, END))
    whole = sampler.run((7, LENGTH), rng=list(range(7)))
    parts = sampler.batches((7, LENGTH), rng=list(range(7)), batch=3)
    assert Counts.total([trace.counts for trace in parts]) == whole.counts


def test_a_record_is_printed_in_a_few_lines():
    trace = record([[0, 1, END, 3], [0, 1, 2, 3]], [[0, 0, 1, 1], [GIVEN, 0, 0, 1]], [2, 2])
    assert str(trace) == (
        "2 sequences of 4 tokens, 1 of them ended by token 4\n"
        "5 valid tokens in 4 evaluations: 1.25 tokens per evaluation\n"
        "1.443 bits per token"
    )
    open_ = record([[0, MASK]], [[0, OPEN]], [1], end=None)
    assert str(open_).splitlines() == [
        "1 sequence of 2 tokens",
        "1 valid token in 1 evaluation: 1 tokens per evaluation",
        "1 token still masked",
        "1.443 bits per token",
    ]
    assert str(record([[0]], [[GIVEN]], [0], end=None)) == (
        "1 sequence of 1 token\n0 valid tokens in 0 evaluations: 0 tokens per evaluation"
    )
    assert repr(trace).startswith("Trace(tokens=")
    assert trace.to_json()["valid_tokens"] == [2, 3]
    assert trace.to_json()["end"] == END


# Stopping early


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_an_early_stop_changes_nothing_of_an_answer(schedule):
    """Over seeds, prompts with ends and gaps: tokens, steps and log-probabilities up to the end are the same bits.

    It holds under every schedule, those that look at predictions too: a sequence is stopped only once everything up to
    its end is revealed, and what is revealed is never changed.
    """
    start = torch.full((40, LENGTH), MASK)
    start[10:20, :3] = torch.tensor([0, END, 1])
    start[20:30, [4, 7]] = torch.tensor([2, END])
    seeds = list(range(100, 140))
    whole = Sampler(predictor(), schedule).run(start, rng=seeds).until(END)
    short = Sampler(predictor(), schedule, stop=Stop(END, END)).run(start, rng=seeds)
    assert short.end == END
    assert torch.equal(short.scored, whole.scored)
    kept = whole.scored
    assert torch.equal(short.tokens[kept], whole.tokens[kept])
    assert torch.equal(short.revealed[kept], whole.revealed[kept])
    assert torch.equal(short.log_probability[kept], whole.log_probability[kept])
    assert torch.equal(short.nll, whole.nll)
    assert short.written() == whole.written()
    assert short.valid_tokens.tolist() == whole.valid_tokens.tolist()
    assert bool((short.evaluations <= whole.evaluations).all())
    ended = (whole.tokens == END) & (whole.revealed >= 0)
    assert 0 < int(ended.any(dim=1).sum()) < 40, "some rows end and some do not, or the test says little"
    if schedule is SCHEDULES[0]:  # one by one from the left nothing is evaluated beyond the end
        assert short.evaluations.tolist() == short.scored.sum(dim=1).tolist()


# Replay


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_replayed_answer_counts_as_when_it_was_written(schedule):
    """What the sampler wrote without stopping, replayed with its seeds: cost and counts are those of a stopped one."""
    seeds = list(range(30))
    whole = Sampler(predictor(), schedule).run((30, LENGTH), rng=seeds)
    short = Sampler(predictor(), schedule, stop=Stop(END, END)).run((30, LENGTH), rng=seeds)
    found = replay(predictor(), schedule, whole.tokens, rng=seeds, end=END, batch=7)
    assert torch.allclose(found.nll, short.nll, rtol=1e-6)
    assert found.revealed.tolist() == short.scored.sum(dim=1).tolist()
    assert found.evaluations.tolist() == short.evaluations.tolist()
    assert found.counts == short.counts
    everything = replay(predictor(), schedule, whole.tokens, rng=seeds)
    assert torch.allclose(everything.nll, whole.nll, rtol=1e-6)
    assert everything.counts == whole.counts == Counts(30 * LENGTH, int(whole.evaluations.sum()))


def test_an_end_outside_of_what_is_scored_ends_nothing():
    tokens = torch.tensor([[0, END, 1, 2, END, 3]])
    masked = torch.tensor([[False, False, True, True, True, True]])
    schedule = Schedule(size.Even(4), order.LeftToRight())
    found = replay(predictor(), schedule, tokens, masked=masked, rng=[0], end=END)
    assert (found.revealed.tolist(), found.counts) == ([3], Counts(2, 3))
    with pytest.raises(InputError, match="'end'"):
        replay(predictor(), schedule, tokens, rng=[0], end=17)


def test_the_reference_in_random_order_leaves_out_what_follows_the_end():
    """Uniform predictions cost log 5 for each token: 4 of 12 count. Within 5 standard errors, which fails in 6e-7."""
    uniform = Logits(lambda tokens: torch.zeros((*tokens.shape, 5)), 5, 5)
    tokens = torch.tensor([[0, 1, 2, END, 3, END, 0, 0, 0, 0, 0, 0]]).expand(2000, -1)
    nats, _ = random_order(uniform, tokens, rng=1, points=4, end=END)
    error = float(nats.std()) / math.sqrt(2000)
    assert error > 0
    assert float(nats.mean()) == pytest.approx(4 * math.log(5), abs=5 * error)
    whole, _ = random_order(uniform, tokens[:2], rng=1, points=4)
    assert whole.tolist() == pytest.approx([12 * math.log(5)] * 2)
    found = compare(uniform, SCHEDULES[:2], tokens[:3], rng=0, end=END)
    assert found.counts[0] == Counts(9, 12)  # one by one from the left: three tokens and the end in four evaluations
    assert [cost.counts for cost in found.costs] == list(found.counts)
    assert found.nll[1].tolist() == pytest.approx([4 * math.log(5)] * 3)


# The surfaces


def test_only_models_that_end_their_answers_stop(model):
    assert model.stop == Stop(END, END)
    assert (Bytes().end, Alphabet("ab").end) == (None, None)
    plain = Model("toy", torch.nn.Linear(1, 1), predictor(), Bytes(5), LENGTH, {})
    assert plain.stop is None


def test_texts_are_over_at_their_ends(model):
    texts = generate(model, schedule=SCHEDULES[0], count=20, seed=0)
    trace = Sampler(model.predictor, SCHEDULES[0]).run((20, LENGTH), rng=list(range(20))).until(END)
    assert texts == [model.codec.decode(row) for row in trace.written()] == model.texts(trace)
    assert [len(text) for text in texts] == trace.valid_tokens.tolist()
    assert not any("." in text for text in texts)
    assert len({len(text) for text in texts}) > 1


def test_the_page_counts_and_shows_no_more_than_the_answer(model):
    pytest.importorskip("gradio")
    from unmask.app import player
    from unmask.app.data import watch as runs

    sides = (runs.Side("left-to-right", "even", 12), runs.Side("random", "even", 4))
    met = 0
    for seed in range(8):
        both = list(runs.watch(model, "", sides, seed=seed))[-1]
        for run, schedule in zip(both, SCHEDULES, strict=False):
            trace = Sampler(model.predictor, schedule, stop=model.stop).run((1, LENGTH), rng=[seed])
            assert run.finished
            assert (run.valid[-1], run.steps) == (trace.counts.valid_tokens, trace.counts.evaluations)
            assert run.nll[-1] == pytest.approx(float(trace.nll[0]))
            shown = "".join(piece for piece, over in zip(run.pieces, run.beyond, strict=True) if not over)
            assert shown.rstrip(".") == model.texts(trace)[0]
            met += PADDED in run.revealed
        page = player.watched(both)
        left = both[0]
        bits = left.nll[-1] / left.scored[-1] / math.log(2)
        assert f"{left.valid[-1] / left.steps:.2f} tokens per evaluation · {bits:.3f} bits per token" in page
        assert page.count('data-step="-2"') == sum(run.revealed.count(PADDED) for run in both)
    assert met


def test_the_harness_counts_up_to_ends_and_stops(model, caplog):
    pytest.importorskip("lm_eval", reason="the engine of this adapter: pip install 'unmask[harness]'")
    from lm_eval.api.instance import Instance

    from unmask.adapters.harness import UnmaskLM

    lm = UnmaskLM(model, schedule=SCHEDULES[0], seed=3)
    asked = [
        Instance("generate_until", {}, (prompt, {"max_gen_toks": 9, "do_sample": True}), 0)
        for prompt in ("ab", "ca", "a", "bb")
    ]
    with caplog.at_level("INFO"):
        answers = lm.generate_until(asked, disable_tqdm=True)
    assert lm.generated.valid_tokens == sum(map(len, answers)) < 36
    assert lm.generated.evaluations >= lm.generated.valid_tokens
    assert f"Generated {lm.generated}." in caplog.text
    assert lm.generated.seconds > 0
    assert lm.get_model_info()["generated"] == lm.generated.to_json()
    assert lm.get_model_info()["scored"]["evaluations"] == 0

    cut = UnmaskLM(model, schedule=SCHEDULES[0], seed=3)
    for request in asked:
        request.args[1]["until"] = ["c", ""]
    stopped = cut.generate_until(asked, disable_tqdm=True)
    assert stopped == [answer.split("c")[0] for answer in answers]
    assert cut.generated == Counts(sum(map(len, stopped)), lm.generated.evaluations)

    cut.loglikelihood([SimpleNamespace(args=("ab", "cab")), SimpleNamespace(args=("", "dd"))], disable_tqdm=True)
    assert cut.scored == Counts(5, 5)
