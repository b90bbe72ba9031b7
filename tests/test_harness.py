"""The model for lm-evaluation-harness, run by the harness itself on tiny local tasks."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lm_eval", reason="the engine of this adapter: pip install 'unmask[harness]'")

from unmask import models, order, size  # noqa: E402
from unmask.adapters.harness import UnmaskLM  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

ROOT = Path(__file__).parent.parent
LETTERS = "abcdefgh "
TINY = 16


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Transformer(
            nn.Config(
                vocab=len(LETTERS), length=TINY, width=32, layers=1, readers=1, heads=2, hidden=32, reader_hidden=32
            )
        ).eval()
        with torch.no_grad():
            for part in module.parameters():
                part.add_(0.3 * torch.randn_like(part))
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    weights.save(module, path, about={"alphabet": LETTERS})
    return models.load(path)


def asked(*requests):
    return [SimpleNamespace(args=request) for request in requests]


SCHEDULES = [
    Schedule(size.Even(4), order.Comb()),
    Schedule(size.TC(3), order.Random()),
    Schedule(size.Threshold(0.3), order.Confidence()),
]
PAIRS = [("abc ab", " cab"), ("", "hgf"), ("aa ", "bc"), ("abcdefgh" * 3, "abc"), ("abd ab", " bad")]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_likelihoods_are_exact_replays_of_the_continuation(tiny, schedule):
    lm = UnmaskLM(tiny, schedule=schedule, seed=3)
    answers = lm.loglikelihood(asked(*PAIRS), disable_tqdm=True)
    for pair, seed, (score, greedy) in zip(PAIRS, lm._seeds(PAIRS), answers, strict=True):
        whole = torch.from_numpy(tiny.codec.encode("".join(pair)))[-TINY:][None]
        scored = len("".join(pair)) - len(pair[0].rstrip())  # spaces go to the continuation
        masked = torch.arange(whole.shape[1])[None] >= whole.shape[1] - scored
        wanted = replay(tiny.predictor, schedule, whole, masked=masked, rng=[seed])
        assert score == pytest.approx(-float(wanted.nll[0]), rel=1e-5)
        written = Sampler(tiny.predictor, schedule, Greedy()).run(whole, masked, rng=[seed]).tokens
        assert greedy == torch.equal(written, whole)


@pytest.mark.parametrize("which", [order.LeftToRight(), order.Dilated(), order.Confidence()], ids=repr)
def test_what_greedy_draws_write_is_known_to_be_greedy(tiny, which):
    """Orders without randomness, so that both kinds of request take the same path."""
    lm = UnmaskLM(tiny, schedule=Schedule(size.Even(3), which))
    (text,) = lm.generate_until(asked(("abcd", {"max_gen_toks": 6})), True)
    other = text[:-1] + ("a" if text[-1] != "a" else "b")
    answers = lm.loglikelihood(asked(("abcd", text), ("abcd", other)), disable_tqdm=True)
    assert [greedy for _, greedy in answers] == [True, False]


def test_results_do_not_depend_on_the_batch_or_on_other_requests(tiny):
    few, many = (UnmaskLM(tiny, schedule=SCHEDULES[1], batch_size=n) for n in (1, "auto"))
    first, second = few.loglikelihood(asked(*PAIRS), True), many.loglikelihood(asked(*reversed(PAIRS)), True)[::-1]
    assert [score for score, _ in first] == pytest.approx([score for score, _ in second], rel=1e-5)
    assert [greedy for _, greedy in first] == [greedy for _, greedy in second]
    prompts = [("abc", {"do_sample": True}), ("abd", {"do_sample": True}), ("abc", {"do_sample": True})]
    first = few.generate_until(asked(*prompts), True)
    assert first == many.generate_until(asked(*prompts), True)
    assert first[0] != first[2]  # the same request asked twice is sampled twice
    assert first[1] == many.generate_until(asked(prompts[1]), True)[0]


def test_a_rolling_likelihood_scores_every_token_once(tiny):
    """One token per step left to right: windows of 16, and the last one sees what comes before it."""
    text = "abc abd abe abfe abh a fed"
    lm = UnmaskLM(tiny, schedule=Schedule(size.Even(TINY), order.LeftToRight()))
    (found,) = lm.loglikelihood_rolling(asked((text,)), disable_tqdm=True)
    pairs = (("", text[:TINY]), (text[:TINY], text[TINY:]))
    wanted = sum(score for score, _ in lm.loglikelihood(asked(*pairs), True))
    assert found == pytest.approx(wanted, rel=1e-5)
    assert lm.loglikelihood_rolling(asked(("",)), True) == [0.0]


def test_generation_is_cut_at_the_first_stop_and_keeps_its_length(tiny):
    lm = UnmaskLM(tiny, steps=4, max_gen_toks=10)
    (text,) = lm.generate_until(asked(("abc", {})), True)
    assert len(text) == 10
    stop = text[3]
    (short,) = lm.generate_until(asked(("abc", {"until": [stop]})), True)
    assert short == text[: text.index(stop)]
    (long,) = lm.generate_until(asked(("abcdefgh" * 4, {"max_gen_toks": TINY})), True)
    assert len(long) == TINY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 17}, "Argument 'steps' must be at most the length 16, not 17."),
        ({"size": "evne"}, "Argument 'size' must be a known name, not 'evne'."),
        ({"order": "cmob"}, "Argument 'order' must be a known name, not 'cmob'."),
        ({"schedule": SCHEDULES[0], "steps": 4}, "Argument 'schedule' must not go with 'steps'."),
        ({"max_gen_toks": 17}, "Argument 'max_gen_toks' must be at most 16, not 17."),
        ({"schedule": "none.json"}, "Argument 'schedule' must name a file to read, not 'none.json'"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(tiny, options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
        UnmaskLM(tiny, **options)
    assert str(caught.value).startswith(message)


def test_a_length_is_that_of_sequences_and_of_what_is_written(tiny):
    lm = UnmaskLM(tiny, length=8)
    assert (lm.model.length, lm.new) == (8, 4)
    assert UnmaskLM(replace(tiny, window=10)).model.length == 10


def test_a_continuation_longer_than_the_model_is_refused(tiny):
    with pytest.raises(ValueError, match="Argument 'continuation' must have at most 16 tokens, not 17"):
        UnmaskLM(tiny, steps=4).loglikelihood(asked(("a", "b" * 17)), True)


def test_the_harness_runs_benchmarks_from_its_command_line(tmp_path, monkeypatch, capsys):
    """Three tasks with the built-in model: it knows English from noise, and 16 letters cost about what they should."""
    from unmask.adapters.__main__ import main

    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(
        "sys.argv",
        ["lm_eval", "--model", "unmask", "--model_args", "model=builtin,steps=8,order=comb,size=even",
         "--device", "cpu", "--batch_size", "8",
         "--tasks", "unmask_choices,unmask_writing,unmask_perplexity", "--include_path", "tests/tasks",
         "--output_path", str(tmp_path / "out"), "--log_samples"],
    )  # fmt: skip
    main()
    (path,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(path.read_text())
    assert found["results"]["unmask_choices"]["acc,none"] == 1.0
    assert 0 < found["results"]["unmask_perplexity"]["bits_per_byte,none"] < math.log2(27)
    assert found["config"]["schedule"]["size"] == {"name": "even", "steps": 8}
    (samples,) = (tmp_path / "out").rglob("samples_unmask_writing_*.jsonl")
    for line in samples.read_text().splitlines():
        assert len(json.loads(line)["resps"][0][0]) <= 8
