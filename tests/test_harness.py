"""The model for lm-evaluation-harness, run by the harness itself on tiny local tasks."""

import inspect
import json
import math
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lm_eval", reason="the engine of this adapter: pip install 'unmask[harness]'")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402
from lm_eval.evaluator import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from unmask import models, order, size  # noqa: E402
from unmask.adapters.harness import UnmaskLM, _valid  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy, draw_for  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

ROOT = Path(__file__).parent.parent
LETTERS = "abcdefgh "
TINY = 16
DOCS = json.loads((ROOT / "tests" / "tasks" / "choices.json").read_text())


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
    """Requests as the harness makes them; what kind they are is said by the method that is called."""
    return [Instance("generate_until", {}, request, 0) for request in requests]


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


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"do_sample": True, "temperature": 0.5}], ids=repr)
def test_what_is_generated_is_what_our_sampler_writes_token_by_token(tiny, schedule, options):
    prompts = ["abc ab", "", "hgf e", "abd ab"]
    lm = UnmaskLM(tiny, schedule=schedule, seed=3)
    answers = lm.generate_until(asked(*((prompt, {"max_gen_toks": 7, **options}) for prompt in prompts)), True)
    draw = draw_for(options.get("temperature", 1.0)) if options else Greedy()
    for prompt, seed, answer in zip(prompts, lm._seeds((prompt,) for prompt in prompts), answers, strict=True):
        start = torch.nn.functional.pad(torch.from_numpy(tiny.codec.encode(prompt)), (0, 7))[None]
        masked = torch.arange(start.shape[1])[None] >= len(prompt)
        trace = Sampler(tiny.predictor, schedule, draw).run(start, masked, rng=[seed])
        assert tiny.codec.encode(answer).tolist() == trace.tokens[0, len(prompt) :].tolist()


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


@pytest.mark.parametrize(
    ("tokens", "until", "valid"),
    [
        ([0, 1, 2, 3], ["cd"], 2),  # "ab": neither token of the stop
        ([0, 1, 2, 3], ["d", "bc"], 1),
        ([0, 1, 2, 3], ["a"], 0),
        ([0, 1, 2, 3], ["ba", ""], 4),
        ([0, 1, 2, 3], [], 4),
        ([0, 4, 3], ["ca"], 1),  # a token of "bca" has a part of the answer and all of the stop
        ([], ["a"], 0),
    ],
)
def test_tokens_of_a_stop_are_not_valid(tokens, until, valid):
    pieces = ["a", "b", "c", "d", "bca"]
    assert _valid(tokens, until, lambda some: "".join(pieces[each] for each in some)) == valid


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
        ({"schedule": SCHEDULES[0], "steps": 4}, "Argument 'schedule' must not be used with 'steps'."),
        ({"max_gen_toks": 17}, "Argument 'max_gen_toks' must be at most 16, not 17."),
        ({"schedule": "none.json"}, "Argument 'schedule' must be the name of an existing file, not 'none.json'."),
        ({"schedule": "comb/even:17"}, "Argument 'schedule' must be valid, but 'comb/even:17' is not"),
        ({"order": ""}, "Argument 'order' must be a known name, not ''."),
        ({"steps": 4, "size": "threshold:0.9"}, "Argument 'steps' must not be used with the size 'threshold:0.9'."),
    ],
)
def test_mistakes_are_answered_in_one_sentence(tiny, options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
        UnmaskLM(tiny, **options)
    assert str(caught.value).startswith(message)


def test_a_schedule_is_given_as_a_whole_or_by_its_parts(tiny, tmp_path):
    SCHEDULES[0].save(tmp_path / "schedule.json")
    for given in ("comb/even:4", str(tmp_path / "schedule.json"), SCHEDULES[0].to_json()):
        assert UnmaskLM(tiny, schedule=given).schedule == SCHEDULES[0] == UnmaskLM(tiny, steps=4).schedule
    assert (
        UnmaskLM(tiny, schedule="fast-dllm").schedule
        == UnmaskLM(tiny, order="confidence", size="threshold:0.9").schedule
    )


def test_the_model_answers_all_that_the_harness_asks_with_its_arguments():
    """Names and signatures of the installed harness, for each method that a model must have."""
    assert get_model("unmask") is UnmaskLM
    assert LM.__abstractmethods__ == {"loglikelihood", "loglikelihood_rolling", "generate_until"}
    for name in LM.__abstractmethods__:
        theirs, mine = (list(inspect.signature(getattr(one, name)).parameters) for one in (LM, UnmaskLM))
        assert mine[: len(theirs)] == theirs
    given = {"batch_size", "max_batch_size", "device"}  # what the harness adds to the arguments of a model
    assert given <= set(inspect.signature(UnmaskLM).parameters)
    asked_for = {
        "model",
        "tasks",
        "log_samples",
        "task_manager",
        "num_fewshot",
        "limit",
        "gen_kwargs",
        "apply_chat_template",
    }
    assert asked_for <= set(inspect.signature(simple_evaluate).parameters)


def test_a_length_is_that_of_sequences_and_of_what_is_written(tiny):
    lm = UnmaskLM(tiny, length=8)
    assert (lm.model.length, lm.new) == (8, 4)
    windowed = replace(tiny, window=10)
    assert UnmaskLM(windowed).model.length == 10
    for length in (6, 14):  # a model that was cut is not cut to its window once more
        assert UnmaskLM(UnmaskLM(windowed, length=length).model).model.length == length


def test_a_continuation_longer_than_the_model_is_refused(tiny):
    with pytest.raises(ValueError, match="Argument 'continuation' must have at most 16 tokens, not 17"):
        UnmaskLM(tiny, steps=4).loglikelihood(asked(("a", "b" * 17)), True)


def at_home(monkeypatch, folder):
    """Tasks name their files from the root of the repository; what the harness keeps goes elsewhere."""
    monkeypatch.setenv("HF_HOME", str(folder / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "cache")
    monkeypatch.chdir(ROOT)


def test_the_harness_runs_benchmarks_from_its_command_line(tmp_path, monkeypatch, capsys):
    """Three tasks with the built-in model: it knows English from noise, and 16 letters cost about what they should."""
    from unmask.adapters.__main__ import main

    at_home(monkeypatch, tmp_path)
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
    # Three answers of 8 letters at most, in 8 steps each; nine choices and three texts scored.
    written, scored = found["config"]["generated"], found["config"]["scored"]
    assert written["evaluations"] == 24
    assert written["tokens_per_evaluation"] == written["valid_tokens"] / 24 <= 1
    assert scored["valid_tokens"] == sum(len(c) for d in DOCS for c in d["choices"]) + sum(
        len(d["prompt"]) for d in DOCS
    )
    assert min(written["seconds"], scored["seconds"]) > 0
    (samples,) = (tmp_path / "out").rglob("samples_unmask_writing_*.jsonl")
    for line in samples.read_text().splitlines():
        assert len(json.loads(line)["resps"][0][0]) <= 8


def command(monkeypatch, capsys, *words):
    from unmask.adapters.__main__ import main

    monkeypatch.setattr("sys.argv", ["unmask-lm-eval", "compare", *words, "--device", "cpu"])
    # Of the harness's own tasks, which take long to list, none is asked for.
    monkeypatch.setattr("lm_eval.tasks.TaskManager", partial(TaskManager, include_defaults=False))
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


def test_one_command_compares_schedules_by_accuracy_and_tokens_per_forward(tmp_path, monkeypatch, capsys):
    """Each row is what the model alone does under that schedule; the count of evaluations is that of its steps."""
    at_home(monkeypatch, tmp_path)
    Schedule(size.Even(3), order.LeftToRight()).save(tmp_path / "three.json")
    schedules = ["comb/even:1", "left-to-right/even:12", str(tmp_path / "three.json")]
    words = [
        "--tasks", "unmask_words,unmask_choices", "--include_path", "tests/tasks", "--limit", "5",
        *(part for each in schedules for part in ("--schedule", each)),
    ]  # fmt: skip
    code, printed = command(monkeypatch, capsys, *words, "--json")
    assert code == 0
    rows = json.loads(printed.out)
    assert [row["words"] for row in rows] == schedules
    assert [row["evaluations"] for row in rows] == [5, 60, 15]
    docs = json.loads((ROOT / "tests" / "tasks" / "words.json").read_text())[:5]
    for row in rows:
        lm = UnmaskLM("builtin", schedule=Schedule.from_json(row["schedule"]), device="cpu")
        answers = lm.generate_until(asked(*((d["prompt"], {"until": [" "], "max_gen_toks": 12}) for d in docs)), True)
        share = sum(answer == doc["word"] for answer, doc in zip(answers, docs, strict=True)) / 5
        found = row["scores"]["unmask_words exact_match"]
        assert found["value"] == pytest.approx(share)
        assert found["error"] == pytest.approx(math.sqrt(share * (1 - share) / 4))
        assert row["valid_tokens"] == sum(map(len, answers)) == lm.generated.valid_tokens
        assert row["tokens_per_evaluation"] == row["valid_tokens"] / row["evaluations"]
        assert row["seconds"] > 0
        assert row["scored"]["evaluations"] > 0
        assert "unmask_choices acc" in row["scores"]


def test_a_pattern_of_tasks_stands_for_all_that_match(tmp_path, monkeypatch, capsys):
    at_home(monkeypatch, tmp_path)
    words = ["--tasks", "unmask_w*,unmask_words", "--include_path", "tests/tasks", "--limit", "2"]
    code, printed = command(monkeypatch, capsys, *words, "--schedule", "comb/even:1", "--json")
    assert code == 0
    (row,) = json.loads(printed.out)
    assert {name.split()[0] for name in row["scores"]} == {"unmask_words", "unmask_writing"}


def test_the_command_of_the_page_prints_the_table_of_the_page(tmp_path, monkeypatch, capsys):
    """All but the seconds, which are those of one machine."""
    at_home(monkeypatch, tmp_path)
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    line = re.search(r"^    unmask-lm-eval compare (.*?)\n\n", page, re.MULTILINE | re.DOTALL).group(1)
    code, printed = command(monkeypatch, capsys, *shlex.split(line.replace("\\\n", "")))
    shown = page.split("<!-- compare -->")[1].split("<!-- end -->")[0]
    found, wanted = (
        [row.rsplit("|", 2)[0] for row in text.splitlines() if row.startswith("|")] for text in (printed.out, shown)
    )
    assert code == 0
    assert found == wanted
    assert len(found) == 6


def test_the_comparison_is_printed_as_a_table(tmp_path, monkeypatch, capsys):
    at_home(monkeypatch, tmp_path)
    words = ["--tasks", "unmask_choices", "--include_path", "tests/tasks", "--schedule", "comb/even:1"]
    code, printed = command(monkeypatch, capsys, *words)
    head, _, line = (
        [cell.strip() for cell in row.strip("|").split("|")] for row in printed.out.splitlines() if row.startswith("|")
    )
    assert code == 0
    assert head == ["schedule", "unmask_choices acc", "evaluations", "tokens per forward", "seconds"]
    letters = sum(len(choice) for doc in DOCS for choice in doc["choices"])
    assert line[:4] == [
        "comb/even:1",
        "1.000 ± 0.000",
        "9",
        f"{letters / 9:.2f}",
    ]  # nothing is written: what was scored


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--tasks", "no_such", "--schedule", "comb/even:1"],
            "Argument 'tasks' must be tasks of lm-evaluation-harness, but 'no_such' is not one.",
        ),
        (["--model_args", "steps=3", "--schedule", "comb/even:1"], "Argument 'model_args' must not contain 'steps'."),
        (
            ["--model_args", "modle=x", "--schedule", "comb/even:1"],
            "Argument 'model_args' must be a known name, not 'modle'.",
        ),
        (["--schedule", ""], "Argument 'schedule' must be a schedule, not ''."),
        (
            ["--schedule", "steps=4,order="],
            "Argument 'schedule' must be the name of a schedule, or a file, not 'steps=4,order='.",
        ),
        (["--schedule", "comb"], "Argument 'schedule' must be the name of a schedule, or a file, not 'comb'."),
        (["--schedule", "/even:4"], "Argument 'schedule' must be valid, but '/even:4' is not"),
        (["--schedule", "confidence"], "Argument 'schedule' must be a single schedule, but 'confidence' stands for 7."),
        (
            ["--schedule", "comb/even:1", "--schedule", "comb/even:1"],
            "Argument 'schedule' must be different each time, but 'comb/even:1' is given twice.",
        ),
        (["--schedule", "comb/even:few"], "Argument 'schedule' must be valid, but 'comb/even:few' is not"),
        (["--schedule", "cmob/even:4"], "Argument 'schedule' must be valid, but 'cmob/even:4' is not"),
        (["--schedule", "none.json"], "Argument 'schedule' must be the name of an existing file, not 'none.json'."),
    ],
)
def test_mistakes_of_a_comparison_are_answered_before_anything_runs(monkeypatch, capsys, words, sentence):
    tasks = [] if "--tasks" in words else ["--tasks", "unmask_choices"]
    code, printed = command(monkeypatch, capsys, *tasks, "--include_path", str(ROOT / "tests" / "tasks"), *words)
    assert code == 2
    assert printed.err.splitlines()[-1].startswith(sentence)
    assert printed.out == ""
