"""The common case in Python: `unmask.generate`, `unmask.calibrate`, `unmask.advise`."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import unmask
from unmask import InputError

torch = pytest.importorskip("torch")

TEXT = "anarchism originated as a term of abuse first used against early working class radicals including "


@pytest.fixture(scope="module")
def model():
    return unmask.load("builtin")


def test_prompts_of_several_lengths_are_filled_each_as_if_alone(model):
    prompts = ["the ____ of the ____", "in ____", "one two ________ three"]
    texts = unmask.generate(model, prompts, steps=4, seed=5)
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        assert len(text) == len(prompt)
        assert all(known in ("_", letter) for known, letter in zip(prompt, text, strict=True))
        schedule = unmask.Schedule(unmask.size.Even(4), unmask.order.Comb())
        alone = unmask.generate(model, prompt, schedule=schedule, seed=5 + number)
        assert [text] == alone


def test_several_texts_of_each_prompt_count_their_seeds_on(model):
    texts = unmask.generate(model, ["the ____", "a ______"], count=2, steps=2, seed=3)
    assert [text[:2] for text in texts] == ["th", "th", "a ", "a "]
    assert texts[1] == unmask.generate(model, "the ____", steps=2, seed=4)[0]


def test_texts_come_from_seeds_of_every_kind(model):
    alone = unmask.generate(model, length=16, count=2, seed=7)
    assert alone == unmask.generate(model, length=16, count=2, seed=[7, 8])
    assert alone == unmask.generate(model, length=16, count=2, seed=np.int64(7))
    assert len(unmask.generate(model, length=16, count=2, seed=np.random.default_rng(0))) == 2


@pytest.mark.parametrize("name", ["builtin", "causal"])
@pytest.mark.parametrize("order", [None, "whole-comb-4"])
def test_the_command_line_writes_the_same(name, order):
    line = [sys.executable, "-m", "unmask.cli", "generate", "--prompt", "the ____ of ____", "--steps", "3", "--json"]
    line += ["--model", name, *(["--order", order] if order else []), "--seed", "9", "--count", "2"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env={**os.environ})
    texts = json.loads(done.stdout)["texts"]
    assert texts == unmask.generate(name, "the ____ of ____", steps=3, order=order, seed=9, count=2)


def test_a_model_follows_the_schedules_it_was_trained_for_and_says_when_it_does_not():
    model = unmask.load("causal")
    own = model.schedules[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = unmask.generate(model, seed=4)
        assert texts == unmask.generate(model, schedule=own, seed=4)
        assert texts == unmask.generate(model, order="whole-comb", steps=own.size.steps, seed=4)
        unmask.generate("builtin", "a ____", order="random")  # this one was trained for any
    for other in ({"order": "random"}, {"order": "comb"}, {"order": "whole-comb", "size": "threshold:0.5"}):
        with pytest.warns(UserWarning, match="was trained for other schedules: planned ones in the order whole-comb"):
            assert len(unmask.generate(model, "a ____", **other)[0]) == 6


@pytest.mark.parametrize("kind", ["text", "texts", "rows", "path", "tensor"])
def test_a_model_is_measured_on_data_of_every_kind(model, kind, tmp_path):
    line = TEXT * 20
    (tmp_path / "rows.jsonl").write_text('{"prompt": "the ", "answer": "house of"}\n{"text": "one two three"}\n')
    data = {
        "text": line,
        "texts": [line[:30], line[7:60], line[20:90]],
        "rows": [{"prompt": "the ", "answer": "house of"}, {"text": "one two three"}],
        "path": tmp_path / "rows.jsonl",
        "tensor": torch.tensor(model.codec.encode(line[: 4 * 32])).reshape(4, 32),
    }[kind]
    found = unmask.calibrate(model, data, orders=("random", "comb-4"), texts=4, points=5)
    assert found.model == model.fingerprint
    assert set(found.losses) == {"random", "comb-4"}
    tokens = {"text": 256, "texts": (30 + 53 + 70) / 3, "rows": (8 + 13) / 2, "path": (8 + 13) / 2, "tensor": 32}[kind]
    assert found.tokens == pytest.approx(tokens)
    advice = unmask.advise(found, steps=3)
    filled = unmask.generate(model, ["the ______", "a ___"], schedule=advice.schedule)
    assert [len(text) for text in filled] == [10, 5]
    lines = str(advice).splitlines()
    assert 2 <= len(lines) <= 6
    assert all(len(each) <= 100 for each in lines)


def test_the_first_of_a_seed_is_reproduced(model):
    data = [TEXT[:40], TEXT[10:80]]
    one, two = (unmask.calibrate(model, data, orders=("random",), texts=2, points=4, seed=1) for _ in range(2))
    assert one.to_json() == two.to_json()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: unmask.generate(m, 3), "Argument 'prompts' must be a text or a list of texts, not 3"),
        (lambda m: unmask.generate(m, ["a_", 3]), "Argument 'prompts' must be a text, not 3"),
        (lambda m: unmask.generate(m, "no blank"), "Argument 'prompts' must have a gap to fill"),
        (lambda m: unmask.generate(m, []), "Argument 'prompts' must hold at least one text"),
        (lambda m: unmask.generate(3, "a_"), "Argument 'model' must be a model or the name of one, not 3"),
        (lambda m: unmask.generate(m, "a_", seed=-1), "Argument 'seed' must be"),
        (lambda m: unmask.generate(m, "a_", order="combs"), "must be a known name, not 'combs'. Did you mean 'comb'?"),
        (
            lambda m: unmask.calibrate(m, "short"),
            "Argument 'data' must have at least two sequences of 256 tokens, but this text has 5 tokens.",
        ),
        (lambda m: unmask.calibrate(m, __file__), "Argument 'data' must be a text, but this is the name of a file"),
        (lambda m: unmask.calibrate(m, "Ä" * 600), "Argument 'data' must use only the 27 characters"),
        (
            lambda m: unmask.calibrate(m, 3),
            "'data' must be a text, a path, Sequences, or a list of texts or rows, not 3",
        ),
        (lambda m: unmask.calibrate(m, [3, 4]), "Argument 'data' must hold texts or rows, not 3"),
        (
            lambda m: unmask.calibrate(m, [{"q": "a"}]),
            "must have rows with only the fields prompt, answer, text and given, not 'q'",
        ),
    ],
)
def test_mistakes_are_one_sentence(model, call, sentence):
    with pytest.raises(InputError) as raised:
        call(model)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_schedule_that_takes_fewer_steps_says_so_wherever_it_is_run(model, tmp_path):
    """Twelve steps of a comb of 16 segments, measured with 256 tokens: ten gaps have one tooth, and so one step."""
    from click.testing import CliRunner

    from unmask import models
    from unmask.cli import main

    said = "This schedule was made for longer texts. With 10 tokens to fill, it takes 1 step instead of 10."
    prompt = "the ____ of the ______ was"
    schedule = models.calibration_of(model).plan("comb-16", 12).schedule
    with pytest.warns(UserWarning, match=said):
        unmask.generate(model, prompt, schedule=schedule, seed=0)
    file, rows = tmp_path / "schedule.json", tmp_path / "rows.jsonl"
    schedule.save(file)
    rows.write_text(json.dumps({"prompt": prompt}) + "\n" + json.dumps({"prompt": "_" * 256}) + "\n", encoding="utf-8")
    for words in (["--prompt", prompt], ["--data", str(rows)]):
        line = ["generate", "--model", "builtin", "--schedule", str(file), *words]
        assert f"Note: {said}" in CliRunner().invoke(main, line).stderr
