"""Rows of data on the command line: measured, written and scored; what is refused, and that nothing is lost."""

import gzip
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")

from unmask import data, models, order, size  # noqa: E402
from unmask.calibration import Calibration  # noqa: E402
from unmask.cli import main  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LETTERS = "abcdefghijklmnopqrstuvwxyz "
LENGTH = 40
ROWS = [
    {"prompt": "the cat ", "answer": "sat on"},
    {"prompt": "a ", "answer": "dog sat on the mat"},
    {"text": "the cat sat on", "given": [0, 2]},
    {"text": "the dogs sat"},
    {"prompt": "the mat ", "answer": "a cat"},
    {"prompt": "on the ", "answer": "mat sat a cat"},
]
PROMPTS = [
    {"prompt": "the cat "},
    {"prompt": "a ___ sat"},
    {"prompt": "on"},
    {"prompt": "the dog sat "},
    {"prompt": "a"},
]
PY = """
import torch
from unmask.models import Bare

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(28, 8), torch.nn.Embedding(40, 8)
        self.head = torch.nn.Linear(8, 27)

    def forward(self, tokens):
        mixed = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(mixed + mixed.mean(dim=1, keepdim=True))

def make():
    torch.manual_seed(0)
    return Bare(module=Net(), vocab=27, mask=27, tokenizer="abcdefghijklmnopqrstuvwxyz ", length=40)
"""


def run(*words: object, given: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], input=given)


def answer(*words: object, given: str | None = None) -> dict:
    result = run(*words, "--json", given=given)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def complaint(*words: object, given: str | None = None) -> str:
    result = run(*words, given=given)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def written(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small random model, rows and prompts for it, a calibration, and a schedule."""
    folder = tmp_path_factory.mktemp("data")
    torch.manual_seed(0)
    network = nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32))
    weights.save(network, folder / "m.safetensors", about={"alphabet": LETTERS})
    written(folder / "rows.jsonl", ROWS)
    written(folder / "prompts.jsonl", PROMPTS)
    answer("calibrate", *rows_of(folder), "--output", folder / "c.json", "--orders", "random,comb-2", "--points", 9)
    answer("advise", "--calibration", folder / "c.json", "--steps", 4, "--save", folder / "s.json")
    return folder


def model_of(folder) -> tuple:
    return ("--model", folder / "m.safetensors")


def rows_of(folder) -> tuple:
    return (*model_of(folder), "--data", folder / "rows.jsonl")


def sources(folder: Path, kind: str) -> str:
    if kind == "builtin":
        return "builtin"
    if kind == "py":
        (folder / "mine.py").write_text(PY)
        return f"py:{folder / 'mine.py'}:make"
    pytest.importorskip("transformers")
    import tiny

    (folder / "bert").mkdir()
    tiny.tokenizer(folder / "bert")
    tiny.bert(folder / "bert")
    return f"hf:{folder / 'bert'}"


@pytest.mark.parametrize("more", [(), ("--json",), ("--output", "costs.csv"), ("--output", "costs.jsonl")])
def test_a_model_that_excludes_a_token_of_the_rows_is_refused_in_a_sentence(place, tmp_path, more):
    (tmp_path / "mine.py").write_text(
        PY.replace("return self.head(", "return torch.tensor([-torch.inf] + 26 * [0.0]) + self.head(")
    )
    more = [tmp_path / word if word.startswith("costs") else word for word in more]
    sentence = complaint(
        "evaluate", "--model", f"py:{tmp_path / 'mine.py'}:make", "--data", place / "rows.jsonl", "--steps", 2, *more
    )
    assert sentence.endswith("The model gives probability 0 to a token of the texts, so its loss is infinite.")
    assert [file.name for file in tmp_path.iterdir() if "costs" in file.name] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")
@pytest.mark.parametrize("kind", ["builtin", "bert", "py"])
def test_four_commands_in_a_row_lose_nothing_when_they_are_killed(kind, tmp_path):
    """SIGKILL up to six times in each, at random moments; every result is that of commands that were not killed."""
    written(tmp_path / "rows.jsonl", ROWS)
    asked = [{"prompt": "the [MASK] sat"} if kind == "bert" and "_" in row["prompt"] else row for row in PROMPTS]
    written(tmp_path / "prompts.jsonl", asked)
    script = Path(__file__).parent / "killed_commands.py"
    line = [sys.executable, script, tmp_path, sources(tmp_path, kind), "0"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"\d+ kills\n", done.stdout), done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= 8
    rows = [json.loads(line) for line in (tmp_path / "killed" / "out.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == [row["prompt"] for row in asked]


def test_costs_are_per_token_to_fill(place):
    """What is predicted and measured is nats over all rows, divided by the tokens that are filled in them."""
    rows = data.collect(models.load(str(place / "m.safetensors")), data.rows(place / "rows.jsonl"))
    tokens = rows.sequences.counts.double().mean()
    found = Calibration.load(place / "c.json")
    advice = answer("advise", "--calibration", place / "c.json", "--steps", 4)
    assert advice["tokens"] == found.tokens == tokens
    on_these = advice["candidates"][0]["bits_per_token"]
    assert on_these == pytest.approx(found.best(4)[0][1].nll / tokens / math.log(2))
    record = answer("evaluate", *rows_of(place), "--schedule", place / "s.json")
    assert (record["tokens"], record["length"], record["texts"]) == (tokens, 18, len(ROWS))
    model = models.load(str(place / "m.safetensors"))
    scored = replay(model.predictor, Schedule.load(place / "s.json"), rows.sequences, rng=0)
    bits = float(scored.nll.sum() / scored.revealed.sum()) / math.log(2)
    assert record["rows"][0]["bits_per_token"] == pytest.approx(bits)
    assert record["rows"][0]["tokens_per_evaluation"] == scored.counts.tokens_per_evaluation
    measured = answer(
        "calibrate", *rows_of(place), "--output", place / "c.json", "--orders", "random,comb-2", "--points", 9
    )
    assert (measured["measured"], measured["tokens"], measured["too_long"]) == ([], tokens, 0)
    best = next(row for row in measured["rows"] if row["steps"] == 8)
    assert best["bits_per_token"] == pytest.approx(found.best(8)[0][1].nll / tokens / math.log(2))


def test_the_steps_in_the_table_are_those_that_were_taken(place):
    """A row with fewer tokens than steps takes one step per token, so the mean is below what was asked for."""
    line = ("evaluate", *model_of(place), "--data", place / "rows.jsonl", "--no-reference")
    line += ("--order", "random", "--size", "even", "--steps", 10)
    (row,) = answer(*line)["rows"]
    assert row["steps"] == 10
    assert row["evaluations"] < 10
    shown = run(*line).stdout
    table = next(line.split() for line in shown.splitlines() if line.startswith(" random"))
    assert table[:3] == ["random", "even", f"{row['evaluations']:.4g}"]
    assert "steps: as many as writing a text takes, on average." in shown
    assert "steps: as many" not in run(*line[:-1], 2).stdout  # all rows have that many tokens


def test_advice_measured_now_is_that_of_a_calibration(place):
    now = answer("advise", *rows_of(place), "--steps", 4)
    kept = place / "default.json"
    answer("calibrate", *rows_of(place), "--output", kept)
    read = answer("advise", *model_of(place), "--calibration", kept, "--steps", 4)
    # A file keeps seven digits of each loss.
    for key in ("bits_per_token", "error", "above", "tokens"):
        assert read[key] == pytest.approx(now[key], rel=1e-5), key
    assert [read[key] for key in ("model", "order", "steps", "sizes", "texts")] == [
        now[key] for key in ("model", "order", "steps", "sizes", "texts")
    ]


def test_a_sample_of_rows_is_seeded_and_what_is_too_long_is_counted(place, tmp_path):
    many = written(tmp_path / "many.jsonl", [{"text": "the cat sat on the mat"[: 3 + row % 18]} for row in range(50)])
    long = written(tmp_path / "long.jsonl", [*ROWS, {"text": "a" * 41}, {"text": "b" * 99}])
    line = ("evaluate", *model_of(place), "--schedule", place / "s.json", "--no-reference")
    one, same, other = (answer(*line, "--data", many, "--texts", 8, "--seed", seed) for seed in (1, 1, 2))
    assert one == same
    assert one["tokens"] != other["tokens"]
    assert answer(*line, "--data", many)["texts"] == 32
    assert answer(*line, "--data", long)["too_long"] == 2
    said = run(*line, "--data", long)
    note = "2 rows are longer than the model's maximum of 40 tokens and were skipped: the first is line 7"
    assert note in said.stderr
    assert "on 6 of 8 rows with 6 to 18 tokens to fill" not in said.stdout  # 5 is the least
    assert "on 6 of 8 rows with 5 to 18 tokens to fill" in said.stdout
    shown = run("calibrate", *model_of(place), "--data", long, "--output", tmp_path / "c.json", "--orders", "random")
    assert "2 rows are longer" in shown.stdout
    # A row may be as long as the model takes, and less with --length.
    assert answer(*line, "--data", long, "--length", 14)["too_long"] == 4


def test_every_format_is_the_same_data(place, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    from pyarrow import parquet

    texts = ["the cat", "a dog sat", "on the mat", "mat"]
    jsonl = written(tmp_path / "a.jsonl", [{"text": text} for text in texts])
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "a.fasta").write_text("".join(f">{text}\n{text}\n" for text in texts))
    (tmp_path / "a.csv").write_text("id,s\n" + "".join(f"1,{text}\n" for text in texts))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(jsonl.read_bytes()))
    parquet.write_table(pyarrow.table({"s": texts}), tmp_path / "a.parquet")
    line = ("evaluate", *model_of(place), "--schedule", place / "s.json", "--no-reference", "--data")
    found = answer(*line, jsonl)
    for name, column in (("a.txt", ()), ("a.fasta", ()), ("a.csv", ("s",)), ("a.jsonl.gz", ()), ("a.parquet", ("s",))):
        assert answer(*line, tmp_path / name, *(("--column", *column) if column else ())) == found
    assert answer(*line, "-", given=jsonl.read_text()) == found
    assert complaint(*line, tmp_path / "a.csv").startswith("--column must be given, since '")


def test_rows_are_written_in_order_with_what_each_cost(place, tmp_path):
    """One row for each prompt, each as if it were alone: its seed says all that is random."""
    out = tmp_path / "out.jsonl"
    line = ("generate", *model_of(place), "--schedule", place / "s.json", "--length", 6)
    record = answer(*line, "--data", place / "prompts.jsonl", "--output", out, "--seed", 7)
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(5))
    assert [row["line"] for row in rows] == list(range(1, 6))
    assert [row["seed"] for row in rows] == [7, 8, 9, 10, 11]
    assert [row["valid_tokens"] for row in rows] == [6, 3, 6, 6, 6]
    assert [sum(row["sizes"]) for row in rows] == [6, 3, 6, 6, 6]
    assert all(row["evaluations"] == len(row["sizes"]) <= 4 for row in rows)
    for row, asked in zip(rows, PROMPTS, strict=True):
        assert row["prompt"] == asked["prompt"]
        if "_" in row["prompt"]:
            assert row["answer"] is None
            assert re.fullmatch(row["prompt"].replace("_", "."), row["text"])
        else:
            assert row["text"] == row["prompt"] + row["answer"]
    assert record["tokens_per_evaluation"] == 27 / sum(row["evaluations"] for row in rows)
    assert (record["count"], record["continued"]) == (5, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl"]
    alone = answer("generate", *model_of(place), "--schedule", place / "s.json", "--prompt", "the dog sat ______",
                   "--seed", 10, "--count", 1)  # fmt: skip
    assert alone["texts"][0] == rows[3]["text"]
    shown = answer(*line, "--data", "-", "--seed", 7, given=(place / "prompts.jsonl").read_text())
    assert shown["rows"] == rows
    assert run(*line, "--data", place / "prompts.jsonl", "--seed", 7).stdout.split("\n\n")[1] == rows[1]["text"]


def test_rows_in_parquet(place, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    line = ("generate", *model_of(place), "--data", place / "rows.jsonl", "--steps", 3, "--output")
    assert run(*line, tmp_path / "out.jsonl").exit_code == 0
    assert run(*line, tmp_path / "out.parquet").exit_code == 0
    rows = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows


def test_a_schedule_that_was_advised_fits_any_prompt_and_length(place, tmp_path):
    line = ("generate", *model_of(place), "--schedule", place / "s.json", "--count", 1)
    for length in (1, 2, 7, 40):
        assert sum(answer(*line, "--length", length)["sizes"][0]) == length
    assert sum(answer(*line, "--prompt", "the ___ sat on the _____")["sizes"][0]) == 8
    blocks = tmp_path / "blocks.json"
    advised = Schedule.load(place / "s.json")
    Schedule(advised.size, order.Blocks(advised.order, 8)).save(blocks)
    in_blocks = answer("generate", *model_of(place), "--schedule", blocks, "--length", 20, "--count", 1)
    assert sum(in_blocks["sizes"][0]) == 20
    listed = tmp_path / "listed.json"
    Schedule(size.Explicit([2, 4]), order.Random()).save(listed)
    for command in (("evaluate", *rows_of(place)), ("generate", *model_of(place), "--data", place / "rows.jsonl")):
        assert re.match(
            r"--schedule must fit the \d+ tokens to fill, but '.*' was made for 6\.",
            complaint(*command, "--schedule", listed),
        )


BAD = [
    ('{"prompt": "a"}', "have an answer to each prompt, but line 7 of 'F' has none", "calibrate"),
    ('{"prompt": "a", "answer": "É"}', "fit the model, but line 7 of 'F' does not", "both"),
    ('{"text": ""}', "have something in each row, but the text on line 7 of 'F' is empty", "both"),
    ('{"text": "a"', "hold a JSON object in each line, but line 7 of 'F' is not one", "both"),
    ('{"prompt": "' + "a" * 40 + '"}',
     "have rows of at most 40 tokens, the model's maximum, but line 7 of 'F' has", "generate"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "sentence", "where"), BAD, ids=["no answer", "unknown", "empty", "broken", "too long"])
def test_a_bad_row_is_one_sentence_and_nothing_is_written(place, tmp_path, row, sentence, where):
    file = tmp_path / "bad.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in ROWS) + row + "\n")
    commands = {
        "calibrate": ("calibrate", "--orders", "random", "--output", tmp_path / "c.json"),
        "advise": ("advise", "--steps", 2, "--save", tmp_path / "s.json"),
        "evaluate": ("evaluate", "--schedule", place / "s.json", "--output", tmp_path / "o.csv"),
        "generate": ("generate", "--length", 6, "--output", tmp_path / "o.jsonl"),
    }
    for name, line in commands.items():
        if where == "both" or (name == "generate") == (where == "generate"):
            found = complaint(*line, *model_of(place), "--data", file)
            assert found.replace(str(file), "F").startswith(f"--data must {sentence}"), name
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_a_bad_row_far_down_is_found_before_anything_is_written(place, tmp_path):
    file, out = tmp_path / "many.txt", tmp_path / "out.jsonl"
    file.write_text("a_\n" * 20_000 + "É_\n")
    sentence = complaint("generate", *model_of(place), "--data", file, "--output", out)
    assert f"line 20001 of '{file}' does not" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["many.txt"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("evaluate --data R --text R --rule mdlm", "Give either --text or --data, not both."),
        ("evaluate --rule mdlm", "Either --text or --data must be given."),
        ("calibrate --output c.json", "Either --text or --data must be given."),
        ("evaluate --column a --text R --rule mdlm", "--column needs --data. Give --data, or leave out --column."),
        ("evaluate --data R --texts 7 --schedule S", "--texts must be at most 6, not 7, since 'R' has no more rows."),
        ("evaluate --data R --texts 1 --schedule S", "--texts must be at least 2, not 1."),
        ("evaluate --data R --column text --schedule S", "--column must be the name of a key on line 1 of"),
        ("advise --data R --calibration C --steps 2", "Give either --calibration or --data, not both."),
        ("generate --data R --prompt a", "--prompt cannot be used with --data. Leave out --prompt."),
        ("generate --data R --count 2", "--count cannot be used with --data. Leave out --count."),
        ("generate --data R --watch", "--watch cannot be used with --data. Leave out --watch."),
        ("generate --data R --length 41", "--length must be at most 40, not 41."),
        ("generate --data R --chat", "--model must have a chat template"),
        ("generate --data no.jsonl", "--data must be the name of an existing file, not 'no.jsonl'."),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused_in_a_sentence(place, line, sentence):
    names = {"R": "rows.jsonl", "C": "c.json", "S": "s.json"}
    words = [place / names[word] if word in names else word for word in line.split()]
    found = complaint(*words, *model_of(place))
    assert found.replace(str(place / "rows.jsonl"), "R").startswith(sentence)


def test_what_was_finished_by_another_command_is_not_taken_for_this_one(place, tmp_path):
    """The part of a file that was being written is continued by the same command, and by no other."""
    out, part = tmp_path / "out.jsonl", tmp_path / ".out.jsonl.part"
    line = ("generate", *model_of(place), "--data", place / "prompts.jsonl", "--length", 6, "--steps", 3)
    whole = tmp_path / "whole.jsonl"
    answer(*line, "--output", whole)
    rows = whole.read_text().splitlines(keepends=True)
    task = _task_of(line, out)
    part.write_text(json.dumps(task) + "\n" + "".join(rows[:2]) + rows[2][:20])
    for more, what in ((("--seed", 1), "seed"), (("--temperature", 0.5), "temperature or top-p")):
        assert complaint(*line, *more, "--output", out) == (
            f"--output must not belong to another run, but '{part}' holds rows that were finished with another {what}. "
            "Run the earlier command again to finish it, delete this file, or choose another --output."
        )
    part.write_text(json.dumps({**task, "version": "0.0.1"}) + "\n" + rows[0])
    assert "finished with another version" in complaint(*line, "--output", out)
    part.write_text(json.dumps({**task, "allow": {"3": "a"}}) + "\n" + rows[0])
    assert "finished with another --allow. " in complaint(*line, "--output", out)
    part.write_text("mine\n")
    assert "finished by another command" in complaint(*line, "--output", out)
    part.write_text(json.dumps(task) + "\n" + "".join(rows[:2]) + rows[2][:20])
    assert answer(*line, "--output", out)["continued"] == 2
    assert out.read_bytes() == whole.read_bytes()
    assert not part.exists()
    # Without a finished row there is nothing to go on with, and nothing to lose.
    out.unlink()
    part.write_text(json.dumps({**task, "seed": 1}) + "\n" + rows[0][:20])
    assert answer(*line, "--output", out)["continued"] == 0
    assert out.read_bytes() == whole.read_bytes()


def test_rows_that_are_interrupted_say_what_is_left(place, tmp_path, monkeypatch):
    answers, out = importlib.import_module("unmask.cli.answers"), tmp_path / "out.jsonl"
    line = ("generate", *model_of(place), "--data", place / "prompts.jsonl", "--length", 6, "--output", out)
    usual = answers._filled
    for batches, part in ((0, False), (1, True)):

        def interrupted(*given, batches=batches):
            for batch in usual(*given):
                if not batches:
                    raise KeyboardInterrupt
                yield batch
                raise KeyboardInterrupt

        monkeypatch.setattr(answers, "_filled", interrupted)
        done = run(*line)
        assert done.exit_code == 130
        kept = tmp_path / ".out.jsonl.part"
        finished = f"Stopped: '{kept}' has the rows that were finished. Run the same command again to continue."
        assert (finished if part else f"Stopped: '{out}' was not written.") in done.stderr
        assert kept.exists() == part
    assert not out.exists()


def _task_of(line: tuple, out: Path) -> dict:
    """The first line of the file of an unfinished command, seen in the moment before it would be removed."""
    from unmask.words.unfinished import Unfinished

    seen = []
    remove = Unfinished.remove
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Unfinished, "remove", lambda kept: (seen.append(kept.path.read_text()), remove(kept)))
        answer(*line, "--output", out)
    out.unlink()
    return json.loads(seen[0].splitlines()[0])


def test_a_calibration_of_rows_needs_the_same_model_and_nothing_else(place, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat " * 20)
    # Windows have the model's length, whatever the rows had that the calibration is of.
    record = answer("evaluate", *model_of(place), "--text", text, "--schedule", place / "s.json", "--calibration",
                    place / "c.json", "--no-reference")  # fmt: skip
    assert (record["length"], record["tokens"]) == (LENGTH, LENGTH)
    rows = answer("evaluate", *rows_of(place), "--schedule", place / "s.json", "--calibration", place / "c.json")[
        "rows"
    ]
    advice = answer("advise", *model_of(place), "--calibration", place / "c.json", "--steps", 4)
    assert rows[0]["predicted"] == pytest.approx(advice["candidates"][0]["bits_per_token"])
    other = tmp_path / "other.safetensors"
    torch.manual_seed(1)
    weights.save(
        nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32)), other,
        about={"alphabet": LETTERS},
    )  # fmt: skip
    assert "was made for another model" in complaint(
        "advise", "--model", other, "--calibration", place / "c.json", "--steps", 4
    )
    assert complaint("calibrate", *rows_of(place), "--seed", 1, "--output", place / "c.json").endswith(
        "or give the same --data and --seed to continue it."
    )
    # Standard input cannot be read twice: once for the rows that are known, once for more.
    (tmp_path / "c.json").write_bytes((place / "c.json").read_bytes())
    texts = Calibration.load(place / "c.json").texts
    line = ("calibrate", *model_of(place), "--data", "-", "--output", tmp_path / "c.json")
    assert complaint(*line, "--texts", texts + 1, given=(place / "rows.jsonl").read_text()) == (
        f"--texts must be {texts}, not {texts + 1}, since standard input can be read only once. "
        "Put the rows into a file to continue with more of them."
    )
    assert "needs texts that all have the same number of tokens to fill" in complaint(
        "evaluate", *rows_of(place), "--calibration", place / "c.json", "--order", "random", "--size", "square-root",
        "--steps", 2,
    )  # fmt: skip


def test_memory_does_not_grow_with_the_rows(place, tmp_path, monkeypatch):
    """What is held at a time is a chunk of rows: ten times as many rows make ten times as many chunks, none larger."""
    from unmask.sample import Sampler

    seen = []
    fill = Sampler.fill
    monkeypatch.setattr(
        Sampler, "fill", lambda self, rows, **more: (seen.append(len(rows)), fill(self, rows, **more))[1]
    )
    (tmp_path / "p.txt").write_text("a_\n" * 1000)
    answer("generate", *model_of(place), "--data", tmp_path / "p.txt", "--steps", 1, "--output", tmp_path / "o.jsonl")
    assert max(seen) <= 128
    assert sum(seen) == 1000
    assert np.unique([json.loads(row)["seed"] for row in (tmp_path / "o.jsonl").open()]).size == 1000


@pytest.mark.skipif(shutil.which("bash") is None, reason="the page is for a shell")
def test_the_commands_of_the_page_on_answers_can_be_pasted(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "answers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n)+", page.split("## Other models")[0], flags=re.M)
    blocks = [block.replace("\n    ", "\n").removeprefix("    ") for block in blocks]
    commands = "".join(block for block in blocks if not block.startswith("{"))
    (tmp_path / "unmask").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unmask.cli "$@"\n')
    (tmp_path / "unmask").chmod(0o755)
    paths = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    line = ["bash", "-e", "-c", commands]
    done = subprocess.run(line, cwd=tmp_path, env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(row) for row in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [(row["valid_tokens"], row["evaluations"]) for row in rows] == [(20, 8), (10, 8)]
    assert "in the beginning " in done.stdout
    assert len((tmp_path / "costs.csv").read_text().splitlines()) == 3


def test_a_model_is_trained_on_rows(place, tmp_path):
    """Rows that are too short are counted, and the same letters in other rows are another run."""
    rows = written(tmp_path / "r.jsonl", [{"prompt": "aaaa", "answer": "aaaa"}, {"text": "bbbbbbbbb"}, {"text": "ab"}])
    shape = "--length 8 --width 16 --layers 2 --heads 2 --steps 20 --batch 16 --device cpu"
    line = ("train", "--output", tmp_path / "run", *shape.split())
    record = answer(*line, "--data", rows)
    assert (record["tokens"], record["too_short"], record["finished"]) == (17, 1, True)
    assert "1 row is shorter than 8 tokens and was skipped: line 3 of" in run(*line, "--data", rows).stderr
    texts = answer("generate", "--model", tmp_path / "run", "--count", 8, "--steps", 8, "--seed", 1)["texts"]
    assert all(re.fullmatch("[ab]{8}", text) for text in texts)
    rows.write_text('{"text": "aaaaaaaabbbbbbbbb"}\n')
    assert "another text" in complaint(*line, "--data", rows)
    assert complaint(*line, "--data", written(rows, [{"text": "ab"}, {"text": "aba"}])).endswith(
        f"at least 8 tokens, but the longest, line 2 of '{rows}', has 3. Give a smaller --length."
    )
    assert complaint("train", "--output", tmp_path / "other") == "Either --text or --data must be given."


def test_windows_within_rows_are_uniform_over_all_places():
    """Chi-squared over the 3 + 1 + 0 + 2 places of four rows, 6,000 draws; fails once in 10,000 seeds."""
    from scipy.stats import chisquare

    from unmask.models.text import Store

    rows = [np.arange(0, 5), np.arange(10, 13), np.arange(20, 22), np.arange(30, 34)]
    found = Store.of_rows(rows, 40).random_windows(3, 6000, rng=np.random.default_rng(0))
    assert np.array_equal(np.diff(found, axis=1), np.ones((6000, 2)))
    starts, counts = np.unique(found[:, 0], return_counts=True)
    assert starts.tolist() == [0, 1, 2, 10, 30, 31]
    assert chisquare(counts).pvalue > 1e-4
