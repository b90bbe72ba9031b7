"""Slots: laws with allowed tokens alone, by enumeration, with and without memory, and on the command line."""

import json
from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import enumeration  # noqa: E402
import tiny  # noqa: E402
from test_cli_models import LETTERS, answer, complaint, run  # noqa: E402
from unmask import InputError, order, size  # noqa: E402
from unmask.distribution import Table  # noqa: E402
from unmask.evaluate import log_likelihood, replay  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Allowed, Counted, ExactPredictor, Suppressed  # noqa: E402
from unmask.sample import Sampler, Verified  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

VOCAB, LENGTH = 3, 4
JOINT = np.random.default_rng(0).dirichlet(np.full(VOCAB**LENGTH, 0.5)).reshape((VOCAB,) * LENGTH)
TABLE = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1]]).bool()
EVERY = torch.tensor(list(product(range(VOCAB), repeat=LENGTH)))
MODEL = Allowed(ExactPredictor(Table(JOINT)), TABLE)
PAIRS = [
    (order.LeftToRight(), size.Even(4)), (order.LeftToRight(), size.Even(2)), (order.Random(), size.Even(3)),
    (order.Random(), size.TC(2)), (order.Comb(), size.Even(2)), (order.Confidence(), size.Even(2)),
    (order.Entropy(), size.EntropyBound(0.5)), (order.Margin(), size.Threshold(0.6)),
]  # fmt: skip


class Among(enumeration.Conditionals):
    """Conditional marginals of a table, each divided by the mass of what is allowed."""

    def __call__(self, revealed, history=()):
        found = super().__call__(revealed, history) * TABLE.numpy()
        # What is given, and not allowed, is predicted by nobody.
        return found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)


def causal(seed=0):
    torch.manual_seed(seed)
    shape = {"width": 16, "heads": 2, "hidden": 16, "reader_hidden": 16, "layers": 1, "readers": 1}
    model = CausalConfig(VOCAB, LENGTH, **shape).network().double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model.predictor()


def fits(drawn, law):
    """Whether counts are those of a law, by chi-square; a right one is 6 deviations off once in a million times."""
    mean = law * drawn.sum()
    some = mean > 1
    chi = ((drawn[some] - mean[some]) ** 2 / mean[some]).sum()
    return chi < some.sum() + 6 * np.sqrt(2 * some.sum())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_law_is_that_of_conditionals_divided_by_what_is_allowed(pair):
    """Drawn 20,000 times and compared text by text."""
    expected = enumeration.mixture(enumeration.laws(JOINT, *pair, Among(JOINT))).ravel()
    trace = Sampler(MODEL, Schedule(pair[1], pair[0])).run((20_000, LENGTH), rng=1)
    drawn = np.bincount(trace.tokens.numpy() @ VOCAB ** np.arange(LENGTH)[::-1], minlength=VOCAB**LENGTH)
    assert drawn[expected == 0].sum() == 0
    assert fits(drawn, expected)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if type(pair[0]).__name__ not in ("Random", "Comb")], ids=str)
def test_replay_is_the_logarithm_of_that_law(pair):
    (only,) = enumeration.laws(JOINT, *pair, Among(JOINT))
    found = replay(MODEL, Schedule(pair[1], pair[0]), EVERY, rng=0)
    assert torch.exp(-found.nll).numpy() == pytest.approx(only[1].ravel(), abs=1e-12)
    assert float(torch.exp(-found.nll).sum()) == pytest.approx(1, abs=1e-12)


def test_one_by_one_it_is_the_law_given_what_is_allowed_if_only_the_first_position_is_constrained():
    for where, agrees in (([0], True), ([LENGTH - 1], False), ([0, 1], False)):
        table = torch.ones((LENGTH, VOCAB), dtype=torch.bool)
        table[where, 2] = False
        model = Allowed(ExactPredictor(Table(JOINT)), table)
        found = replay(model, Schedule(size.Even(LENGTH), order.LeftToRight()), EVERY, rng=0)
        given = np.where((np.indices(JOINT.shape)[where] == 2).any(axis=0), 0.0, JOINT)
        same = np.abs(torch.exp(-found.nll).numpy() - (given / given.sum()).ravel()).max() < 1e-12
        assert same == agrees


@pytest.mark.parametrize("kind", [order.Random(), order.Comb(), order.Confidence()], ids=str)
def test_a_memory_with_slots_is_the_pass_over_all_steps_with_slots(kind):
    """Sampled step by step with a memory, scored by replay, in one pass where that can be, and with gradients."""
    predictor, schedule = Allowed(causal(), TABLE), Schedule(size.Even(3), kind)
    trace = Sampler(predictor, schedule).run((40, LENGTH), rng=3)
    assert bool(TABLE[torch.arange(LENGTH).expand(40, -1), trace.tokens].all())
    found = replay(predictor, schedule, trace.tokens, rng=trace.seeds)
    assert found.in_one_pass == schedule.blind
    torch.testing.assert_close(found.nll, trace.nll, atol=1e-10, rtol=0)
    value = log_likelihood(predictor, schedule, trace.tokens, rng=trace.seeds)
    torch.testing.assert_close(-value.detach(), trace.nll, atol=1e-10, rtol=0)
    stepwise = Allowed(causal(), lambda tokens, rows: TABLE[rows % tokens.shape[1]])
    assert not stepwise.in_one_pass
    torch.testing.assert_close(
        replay(stepwise, schedule, trace.tokens, rng=trace.seeds).nll, trace.nll, atol=1e-10, rtol=0
    )


def test_drafts_are_verified_among_what_is_allowed():
    """Exactly the law of one by one, with a memory and without, as that of the sampler: 5,000 texts each."""
    for predictor in (MODEL, Allowed(causal(), TABLE)):
        one = Schedule(size.Even(LENGTH), order.LeftToRight())
        expected = torch.exp(-replay(predictor, one, EVERY, rng=0).nll).numpy()
        trace = Verified(predictor, Schedule(size.Even(2), order.LeftToRight())).run((5_000, LENGTH), rng=2)
        drawn = np.bincount(trace.tokens.numpy() @ VOCAB ** np.arange(LENGTH)[::-1], minlength=VOCAB**LENGTH)
        assert drawn[expected == 0].sum() == 0
        assert fits(drawn, expected)


def test_given_tokens_are_untouched_whatever_is_allowed_there():
    start = torch.tensor([[2, VOCAB, 2, VOCAB], [VOCAB, 0, 0, VOCAB]])
    trace = Sampler(MODEL, Schedule(size.Even(2), order.Random())).run(start.repeat(50, 1), rng=0)
    given = (start < VOCAB).repeat(50, 1)
    assert torch.equal(trace.tokens[given], start.repeat(50, 1)[given])
    assert bool(TABLE[torch.arange(LENGTH).expand(100, -1), trace.tokens][~given].all())


@pytest.mark.parametrize("predictor", [ExactPredictor(Table(JOINT)), causal()], ids=["table", "causal"])
@pytest.mark.parametrize("kind", [order.Random(), order.Confidence()], ids=str)
def test_a_row_is_the_same_alone_in_any_batch_and_with_a_table_of_its_own(predictor, kind):
    schedule, seeds = Schedule(size.Even(2), kind), list(range(6))
    tables = torch.stack([TABLE, TABLE.flip(0), torch.ones_like(TABLE)]).repeat(2, 1, 1)
    together = Sampler(Allowed(predictor, tables), schedule).run((6, LENGTH), rng=seeds)
    for row in range(6):
        alone = Sampler(Allowed(predictor, tables[row]), schedule).run((1, LENGTH), rng=seeds[row : row + 1])
        assert torch.equal(alone.tokens[0], together.tokens[row])
    again = replay(Allowed(predictor, tables), schedule, together.tokens, rng=seeds)
    torch.testing.assert_close(again.nll, together.nll, atol=1e-10, rtol=0)


def test_what_is_allowed_may_depend_on_what_stands_there():
    """No token twice: all orders of three tokens and no other text, with probabilities that sum to one."""
    joint = JOINT.sum(axis=3) / JOINT.sum()

    def unused(tokens, rows):
        used = torch.nn.functional.one_hot(tokens, VOCAB + 1)[..., :VOCAB].amax(dim=1) > 0
        return ~used[rows // tokens.shape[1]]

    predictor = Allowed(ExactPredictor(Table(joint)), unused)
    texts = torch.tensor(list(product(range(VOCAB), repeat=3)))
    for kind in (order.LeftToRight(), order.Confidence()):
        found = torch.exp(-replay(predictor, Schedule(size.Even(3), kind), texts, rng=0).nll)
        different = torch.tensor([len(set(text)) == 3 for text in texts.tolist()])
        assert float(found[different].sum()) == pytest.approx(1, abs=1e-12)
        assert float(found[~different].sum()) == 0


def test_sequences_may_be_shorter_than_the_table():
    predictor = Allowed(causal(), TABLE)
    texts = Sequences.of([[0, 1, 1, 2], [1, 2], [0, 0, 1]])
    schedule = Schedule(size.Even(2), order.Random())
    together = replay(predictor, schedule, texts, rng=[5, 6, 7]).nll
    for row in range(3):
        alone = replay(Allowed(causal(), TABLE), schedule, texts[[row]], rng=[5 + row]).nll
        torch.testing.assert_close(alone[0], together[row], atol=1e-10, rtol=0)


def test_a_text_that_is_not_allowed_has_probability_zero():
    found = replay(MODEL, Schedule(size.Even(2), order.Random()), torch.tensor([[2, 0, 1, 1]]), rng=0)
    assert found.nll.tolist() == [float("inf")]


def test_what_cannot_be_allowed_is_refused():
    plain = ExactPredictor(Table(JOINT))
    none = TABLE.clone()
    none[2] = False
    with pytest.raises(
        InputError, match="'allowed' must allow at least one token at every position, but it allows none at position 2"
    ):
        Allowed(plain, none)
    with pytest.raises(InputError, match="none at position 2 of sequence 1"):
        Allowed(plain, torch.stack([TABLE, none]))
    for wrong in (TABLE.long(), TABLE[:, :2], TABLE[0], torch.zeros((0, 4)).bool()):
        with pytest.raises(
            InputError, match=r"'allowed' must hold booleans of shape \(length, 3\) or \(batch, length, 3\)"
        ):
            Allowed(plain, wrong)
    with pytest.raises(InputError, match="'allowed' must be a function"):
        Allowed(plain, [[True]])
    schedule = Schedule(size.Even(2), order.Random())
    with pytest.raises(InputError, match="'allowed' must have a row for each of the 4 positions, not for 3"):
        Sampler(Allowed(plain, TABLE[:3]), schedule).run((2, 4), rng=0)
    with pytest.raises(InputError, match=r"'allowed' must have the shape \(2, 4, 3\) of the batch"):
        Sampler(Allowed(plain, TABLE[None]), schedule).run((2, 4), rng=0)
    with pytest.raises(InputError, match=r"'allowed' must return booleans of shape \(4, 3\)"):
        Sampler(Allowed(plain, lambda tokens, rows: None), schedule).run((2, 4), rng=0)
    with pytest.raises(
        InputError, match="at least one token at every position, but at some position this function allows none"
    ):
        Sampler(Allowed(plain, lambda tokens, rows: none[rows % 4]), schedule).run((2, 4), rng=0)
    with pytest.raises(InputError, match="ruled out every token at a position"):
        Sampler(Suppressed(Allowed(plain, TABLE), [1]), schedule).run((2, 4), rng=0)
    with pytest.raises(InputError, match="needs sequences of equal length"):
        replay(Allowed(causal(), TABLE[None].repeat(2, 1, 1)), schedule, Sequences.of([[0, 1], [1]]), rng=0)
    with pytest.raises(InputError, match="'allowed' must be a table if drafts are verified"):
        Verified(Allowed(causal(), lambda tokens, rows: TABLE[rows % 4]), schedule).run((2, 4), rng=0)


def test_slots_cost_no_evaluation():
    counted = Counted(causal())
    Sampler(Allowed(counted, TABLE), Schedule(size.Even(2), order.Comb())).run((5, LENGTH), rng=0)
    assert (counted.calls, counted.sequences) == (2, 10)


# The command line


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slots")
    torch.manual_seed(0)
    network = nn.Transformer(nn.Config(len(LETTERS), 16, width=16, layers=1, heads=2, hidden=32))
    weights.save(network, folder / "m.safetensors", about={"alphabet": LETTERS})
    (folder / "text.txt").write_text("abc e" * 40)
    return folder


def test_what_is_generated_is_allowed(place, tmp_path):
    line = ("generate", "--model", place / "m.safetensors", "--count 20 --steps 4")
    found = answer(*line, "--allow", "2:ab", "--allow", "5-8:c d", "--allow", "6:e")
    assert found["allow"] == {"2": "ab", "5-8": "c d", "6": "e"}
    for text in found["texts"]:
        assert text[1] in "ab"
        assert set(text[4] + text[6:8]) <= set("c d")
        assert text[5] == "e"
    (tmp_path / "s.json").write_text(json.dumps({"2": ["a", "b"], "5-8": "c d", "6": "e"}))
    assert answer(*line, "--allow", tmp_path / "s.json")["texts"] == found["texts"]
    assert "allow" not in answer(*line)
    prompted = answer(*line[:3], "--prompt", "abc_e_", "--allow", "1-6:b")
    assert set(prompted["texts"]) == {"abcbeb"}


def test_what_is_evaluated_is_the_law_of_what_is_generated(place):
    line = ("evaluate", "--model", place / "m.safetensors", "--text", place / "text.txt", "--length 5 --order comb")
    free = answer(*line, "--steps 2")
    bound = answer(*line, "--steps 2", "--allow", "1:a", "--allow", "2-3:bc")
    assert bound["allow"] == {"1": "a", "2-3": "bc"}
    assert bound["rows"][0]["bits_per_token"] < free["rows"][0]["bits_per_token"]
    assert bound["reference"]["bits_per_token"] < free["reference"]["bits_per_token"]
    none = answer(
        *line, "--steps 2", *(word for at, letter in enumerate("abc e", 1) for word in ("--allow", f"{at}:{letter}"))
    )
    assert none["rows"][0]["bits_per_token"] == pytest.approx(0, abs=1e-6)
    assert complaint(*line, "--allow", "3:ab") == (
        "--allow must allow the tokens that the texts contain, but sequence 1 has 'c' at position 3."
    )
    assert "--allow cannot be used with --calibration" in complaint(*line, "--allow", "3:ab", "--calibration", "c.json")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("abc", "--allow must be a rule such as 3:abc or 10-20:0123456789, or a .json file of them, not 'abc'."),
        ("3:", "--allow must allow at least one token at position 3."),
        ("3-4:", "--allow must allow at least one token at positions 3-4."),
        ("0:a", "--allow must have positions counted from 1, with the lower one first, not 0."),
        ("5-3:a", "--allow must have positions counted from 1, with the lower one first, not 5-3."),
        ("17:a", "--allow must have positions of at most 16, not 17."),
        ("3:xyz", "--allow must use only the 6 characters of the alphabet 'abcde ', but it has 'x' at character 1."),
        ("missing.json", "--allow must be the name of an existing file"),
    ],
)
def test_words_for_no_slot_are_refused_in_one_sentence(place, word, said):
    found = complaint("generate", "--model", place / "m.safetensors", "--allow", word)
    assert found.startswith(said)


@pytest.mark.parametrize("text", ["[]", "{", '{"3": 5}', '{"x": "a"}', '{"3": ["a", 1]}', '{"3": ["a", ""]}'])
def test_files_without_slots_are_refused_in_one_sentence(place, tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    found = complaint("generate", "--model", place / "m.safetensors", "--allow", tmp_path / "s.json")
    assert found.startswith("--allow must ")
    if '""' in text:
        assert found == "--allow must list single tokens of the model, but position 3 has ''."


def test_there_are_no_slots_in_rows_of_prompts(place, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "ab__"}\n')
    found = complaint(
        "generate", "--model", place / "m.safetensors", "--data", tmp_path / "rows.jsonl", "--allow", "1:a"
    )
    assert found == "--allow cannot be used with --data. Leave out --allow."


def test_words_are_allowed_where_a_model_has_words(tmp_path):
    pytest.importorskip("transformers")
    tiny.bert(tmp_path)
    tiny.tokenizer(tmp_path)
    line = ("generate", "--model", f"hf:{tmp_path}", "--count 5", "--prompt", "the [MASK] sat on the [MASK]")
    found = answer(*line, "--allow", "2:cat dog", "--allow", "6:mat")
    assert {text.split()[1] for text in found["texts"]} <= {"cat", "dog"}
    assert {text.split()[-1] for text in found["texts"]} == {"mat"}
    assert "--allow must list single tokens of the model, but 'dogs' is 2 tokens" in complaint(
        *line, "--allow", "2:dogs"
    )
    assert run(*line, "--allow", "2:cat").exit_code == 0
