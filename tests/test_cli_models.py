"""The commands on models: what they measure, advise and write, what they refuse, and that nothing is lost."""

import csv
import importlib
import io
import json
import math
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.progress import Progress as Bars

torch = pytest.importorskip("torch")

from unmask import InputError, models, order, size  # noqa: E402
from unmask.calibration import Calibration, measure  # noqa: E402
from unmask.calibration import advice as advise  # noqa: E402
from unmask.cli import main, output  # noqa: E402
from unmask.distribution import Markov  # noqa: E402
from unmask.evaluate import Estimate, random_order, replays  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.text import Bytes, Tokenizer  # noqa: E402
from unmask.names import rules  # noqa: E402
from unmask.predict import ExactPredictor, Remembering  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.train import Progress  # noqa: E402
from unmask.words.sentences import advice as sentences  # noqa: E402

LETTERS = "abcde "
LENGTH = 16


def run(*words: object) -> Result:
    """Run a command; text with options in it is split at blanks, a prompt is not."""
    line = [word.split() if isinstance(word, str) and "--" in word else [word] for word in words]
    return CliRunner().invoke(main, [str(part) for parts in line for part in parts])


def answer(*words: object) -> dict:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def complaint(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small random model, a text for it, and a calibration."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    network = nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32))
    weights.save(network, folder / "m.safetensors", about={"alphabet": LETTERS})
    rng = np.random.default_rng(0)
    (folder / "text.txt").write_text("".join(rng.choice(list(LETTERS), size=400)) + "\n")
    line = ("calibrate", *source(folder), "--output", folder / "c.json", "--texts 25")
    found = answer(*line, "--orders random,spread,comb-2,comb-4")
    assert found["measured"] == ["random", "spread", "comb-2", "comb-4"]
    return folder


def source(folder) -> tuple:
    return ("--model", folder / "m.safetensors", "--text", folder / "text.txt")


# Models


def test_a_model_comes_with_its_alphabet_and_a_fingerprint(place):
    model = models.load(place / "m.safetensors")
    assert model.codec.decode(model.codec.encode("bad ace")) == "bad ace"
    assert (model.length, model.about, len(model.fingerprint)) == (LENGTH, {"alphabet": LETTERS}, 16)
    assert model.predictor.vocab == model.codec.vocab == 6


def test_every_kind_of_alphabet_is_found_again():
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    again = models.codec_of(models.described(Tokenizer(words)), 3)
    assert isinstance(again, Tokenizer)
    assert again.vocab == 3
    assert isinstance(models.codec_of(models.described(Bytes()), 256), Bytes)
    assert models.codec_of({"alphabet": "bytes"}, 5).vocab == 5
    with pytest.raises(ValueError, match="as many tokens as its alphabet, 3, not 4"):
        models.codec_of({"alphabet": "abc"}, 4)
    with pytest.raises(ValueError, match="saved with its alphabet"):
        models.codec_of({}, 4)


def test_models_that_cannot_be_loaded_are_refused_in_a_sentence(place, tmp_path):
    from safetensors.torch import save_file

    whole = (place / "m.safetensors").read_bytes()
    (tmp_path / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.safetensors").write_bytes(b"")
    (tmp_path / "words.safetensors").write_text("these are no weights")
    save_file({"x": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    found = complaint("generate --model", tmp_path / "none.safetensors")
    assert "does not exist" in found
    assert "hf:" not in found
    assert complaint("generate --model bert-base").endswith("A model from Hugging Face would be hf:bert-base.")
    found = complaint("generate --model", tmp_path)
    assert f"--model must contain model.safetensors if it is a folder, but '{tmp_path}' does not." in found
    for name in ("half", "empty", "words"):
        assert "intact safetensors file" in complaint("generate --model", tmp_path / f"{name}.safetensors")
    assert "must be a model saved by unmask" in complaint("generate --model", tmp_path / "foreign.safetensors")


def test_without_the_shipped_weights_the_builtin_model_is_refused_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(rules.resources, "files", lambda package: tmp_path)
    for name in ("builtin", "causal"):
        said = complaint("generate --model", name)
        assert said == f"The model '{name}' is not part of this installation. Give a model file instead."


# generate


def test_generated_texts_follow_their_seeds(place):
    line = ("generate --model", place / "m.safetensors", "--steps 4")
    record = answer(*line, "--count 3 --seed 5")
    assert record["seeds"] == [5, 6, 7]
    assert [len(text) for text in record["texts"]] == [LENGTH] * 3
    assert record["sizes"] == [[4] * 4] * 3
    assert record["evaluations"] == [4] * 3
    assert record["tokens_per_evaluation"] == 4
    assert all(sorted(row) == sorted([0, 1, 2, 3] * 4) for row in record["revealed"])
    assert all(value > 0 for value in record["bits_per_token"])
    assert answer(*line, "--count 1 --seed 6")["texts"] == record["texts"][1:2]
    model = models.load(place / "m.safetensors")
    trace = Sampler(model.predictor, Schedule(size.Even(4), order.Comb())).run((1, LENGTH), rng=[5])
    assert model.codec.decode(trace.tokens[0].tolist()) == record["texts"][0]


def test_infilling_keeps_what_is_given(place):
    record = answer("generate --model", place / "m.safetensors", "--count 5 --prompt", "a__ b_c")
    assert record["length"] == 7
    for text, revealed in zip(record["texts"], record["revealed"], strict=True):
        assert (text[0], text[3:5], text[6]) == ("a", " b", "c")
        assert [step >= 0 for step in revealed] == [False, True, True, False, False, True, False]
        assert "_" not in text
    longer = answer("generate --model", place / "m.safetensors", "--prompt", "abba", "--length 12 --steps 3")
    assert all(text.startswith("abba") and len(text) == 12 for text in longer["texts"])


@pytest.mark.parametrize(
    "line",
    [
        "--order random --size cosine --steps 3",
        "--order confidence --size threshold:0.3",
        "--order entropy --size entropy-bound:2",
        "--order margin --size factor:1",
        "--order comb-4 --size tc --steps 5 --temperature 0.7 --top-p 0.9",
        "--temperature 0 --length 9",
    ],
)
def test_every_kind_of_schedule_generates(place, line):
    record = answer("generate --model", place / "m.safetensors", line)
    assert all(sum(sizes) == record["length"] for sizes in record["sizes"])


def test_texts_go_to_stdout_and_watching_needs_a_terminal(place):
    line = ("generate --model", place / "m.safetensors", "--count 2")
    plain, watched = run(*line), run(*line, "--watch")
    assert plain.exit_code == watched.exit_code == 0
    assert plain.stdout == watched.stdout
    assert plain.stdout.split("\n\n")[0] == answer(*line)["texts"][0]
    assert "16 evaluations each" in plain.stderr


def test_the_live_view_fits_its_terminal_and_marks_what_is_new(place, monkeypatch):
    from rich.console import Console

    from unmask.cli import watch

    console = Console(width=80, height=24, force_terminal=True, record=True)
    model = models.load(place / "m.safetensors")
    schedule = Schedule(size.Even(4), order.Comb())
    shown = []

    class Recorded(watch.Live):
        def update(self, renderable, *, refresh=False):
            shown.append(list(renderable.renderables))

    monkeypatch.setattr(watch, "Live", Recorded)
    with watch.live(console, model.codec, schedule, 30) as look:
        Sampler(model.predictor, schedule).run((30, LENGTH), rng=list(range(30)), watch=look)
    assert len(shown) == 4
    for number, frame in enumerate(shown):
        assert len(frame) < 24
        assert max(len(line) for line in frame) <= 80
        assert frame[0].plain.count("_") == LENGTH - 4 * (number + 1)
        new = [span for span in frame[0].spans if "green" in str(span.style)]
        assert sum(span.end - span.start for span in new) == 4
    assert "step 4 of 4   100% revealed   11 of 30 sequences" in shown[-1][-1].plain


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["--steps 17"], "--steps must be at most the length 16, not 17."),
        (["--steps 0"], "--steps must be at least 1, not 0."),
        (["--count 0"], "--count must be at least 1, not 0."),
        (["--length 17"], "--length must be at most 16, not 17."),
        (["--top-p 1.5"], "--top-p must be greater than 0 and at most 1, not 1.5."),
        (["--temperature -1"], "--temperature must be at least 0, not -1."),
        (["--temperature 0 --top-p 0.5"], "--top-p has no effect at temperature 0."),
        (["--order comd"], "--order: no such order 'comd'. Did you mean 'comb'?"),
        (["--order comb16"], "--order: no such order 'comb16'. Did you mean 'comb-16'?"),
        (["--order Whole-Comb:8"], "--order: no such order 'Whole-Comb:8'. Did you mean 'whole-comb-8'?"),
        (["--size threshold"], "--size: no such size 'threshold'."),
        (
            ["--size threshold:much"],
            "--size must be valid, but 'threshold:much' is not: its threshold must be a number",
        ),
        (["--size optimal"], "Size 'optimal' needs a measured model."),
        (["--size threshold:0.5 --steps 3"], "Size 'threshold:0.5' chooses the number of steps itself."),
        (
            ["--prompt", "a_Z__"],
            "--prompt must use only the 6 characters of the alphabet 'abcde ', but it has 'Z' at character 3. Replace "
            "or delete such characters, or train a model that reads any text (`unmask train --alphabet bytes`).",
        ),
        (["--prompt", "abc"], "--prompt must have a gap to fill, written as '_' or"),
        (["--prompt", "_" * 17], "--prompt must have at most 16 tokens, not 17."),
        (["--prompt", "a____", "--length 3"], "--length must be at least 5, the length of the prompt, not 3."),
        (["--device tpu"], "--device must be auto, cpu or cuda, not 'tpu'."),
        (["--device cuda:99"], "--device must be available, but this machine has no 'cuda:99'."),
        (["--schedule none.json"], "--schedule must be the name of an existing file, not 'none.json'"),
        (["--size optimal"], "Size 'optimal' needs a measured model. Run `unmask advise --calibration FILE"),
        (["--order comb-17"], "--order must be a comb of at most 16 segments, not 'comb-17'."),
        (["--schedule none.json --steps 4"], "--schedule sets the order, the sizes and the steps."),
        (["--watch --json"], "--watch cannot be used with --json. Leave out --watch."),
    ],
)
def test_a_bad_request_to_generate_is_refused_in_a_sentence(place, line, sentence):
    assert complaint("generate --model", place / "m.safetensors", *line).startswith(sentence)


# evaluate


def test_evaluation_obeys_its_laws(place, tmp_path):
    line = (
        "evaluate", *source(place), "--order random,comb,confidence --size even,threshold:0.4 --steps 4,16",
        "--calibration", place / "c.json", "--seed 3",
    )  # fmt: skip
    record = answer(*line, "--output", tmp_path / "rows.csv", "--figure", tmp_path / "rows.png")
    rows = record["rows"]
    assert (record["texts"], len(rows)) == (25, 9)
    best = min(rows, key=lambda row: row["bits_per_token"])
    for row in rows:
        bits = row["bits_per_token"]
        assert row["excess"] == pytest.approx(bits - record["reference"]["bits_per_token"], abs=1e-9)
        assert row["difference"] == pytest.approx(bits - best["bits_per_token"], abs=1e-12)
        assert (row["steps"] is None) == (row["size"] == "threshold:0.4")
        assert row["evaluations"] <= LENGTH
        if row["predicted"] is not None:
            assert abs(row["predicted"] - bits) < 4 * np.hypot(row["predicted_error"], row["standard_error"])
    assert (best["difference"], best["difference_error"]) == (0, 0)
    known = {(row["order"], row["steps"]) for row in rows if row["predicted"] is not None}
    assert known == {("random", 4), ("random", 16), ("comb", 4)}
    assert rows == answer(*line)["rows"]
    with (tmp_path / "rows.csv").open() as file:
        kept = list(csv.DictReader(file))
    assert [float(row["bits_per_token"]) for row in kept] == [row["bits_per_token"] for row in rows]
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.csv", "rows.png"]


def test_what_is_not_said_is_swept(place):
    rows = answer("evaluate", *source(place))["rows"]
    assert [(row["order"], row["size"], row["steps"]) for row in rows] == [
        (order, "even", steps) for order in ("random", "comb") for steps in (8, 16)
    ]
    rows = answer("evaluate", *source(place), "--order spread")["rows"]
    assert [(row["order"], row["steps"]) for row in rows] == [("spread", 8), ("spread", 16)]
    rows = answer("evaluate", *source(place), "--rule maskgit")["rows"]
    assert [row["steps"] for row in rows] == [8, 16]


def test_errors_of_an_evaluation_are_those_of_paired_differences(place):
    """The same texts and seeds from Python: what a row costs more than the reference or the best row, text by text.

    Errors of one and the other, put together as if they were independent, would be larger.
    """
    record = answer("evaluate", *source(place), "--order random,spread --size even --steps 4 --seed 3")
    model = models.load(place / "m.safetensors")
    letters = torch.from_numpy(model.codec.encode((place / "text.txt").read_text().strip("\n")).astype(np.int64))
    texts = letters[: 25 * LENGTH].view(25, LENGTH)
    schedules = [Schedule(size.Even(4), kind) for kind in (order.Random(), order.Spread())]
    reference, _ = random_order(model.predictor, texts, rng=3, points=32, batch=32)
    rng = torch.Generator().manual_seed(3)
    found = replays(model.predictor, schedules, texts, rng=rng, batch=32)
    best = min(found, key=lambda each: float(each.nll.mean()))
    unit = LENGTH * math.log(2)
    for row, each in zip(record["rows"], found, strict=True):
        excess = Estimate.of((each.nll - reference).numpy())
        assert row["bits_per_token"] * unit == pytest.approx(float(each.nll.mean()), rel=1e-6)
        assert row["excess"] * unit == pytest.approx(excess.mean, rel=1e-5)
        assert row["excess_error"] * unit == pytest.approx(excess.standard_error, rel=1e-5)
        assert row["difference_error"] * unit == pytest.approx(each.over(best).standard_error, rel=1e-5)
        unpaired = np.hypot(each.per_sequence.standard_error, Estimate.of(reference.numpy()).standard_error)
        assert row["excess_error"] * unit < 0.9 * unpaired


def test_a_model_whose_weights_are_not_numbers_is_refused_by_every_measurement(place, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(place / "m.safetensors", "pt") as file:
        weights = {name: torch.full_like(file.get_tensor(name), torch.nan) for name in file.keys()}  # noqa: SIM118
        save_file(weights, tmp_path / "broken.safetensors", file.metadata())
    given = ("--model", tmp_path / "broken.safetensors", "--text", place / "text.txt")
    for line in (
        ("calibrate", *given, "--output", tmp_path / "c.json"),
        ("calibrate", *given, "--output", tmp_path / "c.json", "--orders comb-4"),
        ("advise", *given, "--target 0.05"),
        ("evaluate", *given, "--order random --size even --steps 4"),
        ("evaluate", *given, "--order confidence --size threshold:0.5 --no-reference"),
    ):
        assert "not numbers" in complaint(*line)
    assert not (tmp_path / "c.json").exists()


def test_the_reference_can_be_left_out_and_the_text_fits_a_narrow_terminal(place):
    line = ("evaluate", *source(place), "--order random,comb-4 --size even,minimax-min --steps 4 --texts 3")
    record = answer(*line, "--no-reference")
    assert record["reference"] is None
    assert all(row["excess"] is row["excess_error"] is None for row in record["rows"])
    wide = ("evaluate", *source(place), "--order confidence,left-to-right --size entropy-bound:0.5 --texts 3")
    for shown in (run(*line), run(*wide, "--calibration", place / "c.json")):
        assert shown.exit_code == 0
        assert max(map(len, shown.stdout.splitlines())) <= 80
        assert "…" not in shown.stdout
    # The same schedule has another error in the advice, and this says why.
    assert "also allows for few texts and for the choice" in " ".join(shown.stdout.split())


def test_saved_schedules_are_told_apart_by_their_files(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, steps in (("first.json", 4), ("second.json", 5)):
        run("advise --calibration", place / "c.json", f"--steps {steps} --save {name}")
    line = ("evaluate", *source(place), "--texts 3 --schedule first.json --schedule second.json --no-reference")
    more = "--order random --size even --steps 2"  # which have no file, and whose steps are their own
    record = answer(*line, more, "--figure costs.svg", "--output rows.csv")
    assert [row["file"] for row in record["rows"]] == ["first.json", "second.json", None]
    assert [row["steps"] for row in record["rows"]] == [4, 5, 2]
    assert record["rows"][0]["size"] == record["rows"][1]["size"] != "even"
    shown = run(*line, more).stdout
    assert [line.split()[1:3] for line in shown.splitlines() if line.startswith((" comb", " random", " spread"))] == [
        ["first.json", "4"],
        ["second.json", "5"],
        ["even", "2"],
    ]
    assert record["rows"][0]["size"] not in shown
    assert "size or file" in shown
    assert "size or file" not in run("evaluate", *source(place), "--texts 3 --no-reference").stdout
    drawn = (tmp_path / "costs.svg").read_text()
    assert "first.json" in drawn
    assert "second.json" in drawn


def test_optimal_sizes_are_measured_where_the_calibration_planned_them(place):
    line = "--order random,comb --size even,optimal --steps 8"
    rows = answer("evaluate", *source(place), line, "--calibration", place / "c.json", "--no-reference")["rows"]
    even, best = (
        next(row for row in rows if row["size"] == name and row["order"] == "random") for name in ("even", "optimal")
    )
    assert best["predicted"] <= even["predicted"] + 1e-12
    plain = complaint("evaluate", *source(place), line)
    assert plain.startswith("Size 'optimal' needs a measured model. Add --calibration with a file written by")
    unmeasured = "--order dilated --size optimal --steps 8"
    assert "needs a calibration of the order 'dilated', but this one has random" in complaint(
        "evaluate", *source(place), unmeasured, "--calibration", place / "c.json"
    )


def test_the_reference_is_unbiased():
    """With a perfect predictor every order gives the text's own likelihood; within 5 standard errors."""
    chain = Markov.sticky(3, 0.8, 12)
    tokens = chain.sample(300, rng=np.random.default_rng(2))
    nats, spent = random_order(ExactPredictor(chain), torch.from_numpy(tokens), rng=1, points=5)
    assert spent == 5
    error = (nats + torch.from_numpy(chain.log_probability(tokens))).numpy()
    assert abs(error.mean()) < 5 * error.std() / math.sqrt(300)
    assert error.std() < 4


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--order random --size even --steps 17", "--steps must be at most the length 16, not 17."),
        ("--order random --size even --steps 4 --texts 26", "--texts must be at most 25, not 26"),
        ("--order random --size even --steps 4 --texts 1", "--texts must be at least 2, not 1."),
        ("--order random --size even --steps 4 --output .", "--output must be a file, not the folder '.'."),
        ("--order random --size even --steps 4 --figure no/x.png", "--figure must be in a folder that exists"),
        (
            "--order random --size even --steps 4 --calibration no.json",
            "--calibration must be the name of an existing file",
        ),
        (
            "--schedule none.json --steps 4",
            "--schedule sets the order, the sizes and the steps. Leave out --steps, or give --order or --size as well.",
        ),
    ],
)
def test_a_bad_request_to_evaluate_is_refused_in_a_sentence(place, line, sentence):
    assert complaint("evaluate", *source(place), line).startswith(sentence)


def test_texts_that_do_not_fit_the_model_are_refused_in_a_sentence(place, tmp_path):
    (tmp_path / "foreign.txt").write_text("Zebras " * 20)
    (tmp_path / "short.txt").write_text("abc")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe" * 50)
    model, rest = place / "m.safetensors", "--order random --size even --steps 4"
    for command, more in (("evaluate", rest), ("calibrate", f"--output {tmp_path / 'c.json'}")):
        line = (command, "--model", model, more, "--text")
        foreign = complaint(*line, tmp_path / "foreign.txt")
        assert "must use only the 6 characters of the alphabet 'abcde ', but it has 'Z' at character 1" in foreign
        assert foreign.endswith("or train a model that reads any text (`unmask train --alphabet bytes`).")
        assert "must have at least two sequences of 16 tokens" in complaint(*line, tmp_path / "short.txt")
        assert "must be text in UTF-8" in complaint(*line, tmp_path / "binary.txt")
        assert "the name of an existing file" in complaint(*line, tmp_path / "none.txt")
    assert not (tmp_path / "c.json").exists()


# calibrate


def test_a_calibration_says_what_the_model_is_and_implies(place):
    record = answer("calibrate", *source(place), "--output", place / "c.json", "--orders random", "--texts 25")
    assert record["measured"] == []
    assert record["orders"] == ["random", "spread", "comb-2", "comb-4"]
    curve = Calibration.load(place / "c.json").random.curve
    for key, value in (
        ("entropy", curve.entropy),
        ("tc", curve.total_correlation),
        ("dtc", curve.dual_total_correlation),
    ):
        assert record[key] == pytest.approx({"nats": value, "bits_per_token": value / LENGTH / math.log(2)})
    for row in record["rows"]:
        assert sum(row["sizes"]) == LENGTH
        assert len(row["sizes"]) == row["steps"]
        plan = dict(Calibration.load(place / "c.json").best(row["steps"]))[row["order"]]
        assert row["bits_per_token"] == pytest.approx(plan.nll / LENGTH / math.log(2), rel=1e-6)
    assert {row["steps"] for row in record["rows"]} == {8, 16}
    assert {row["order"] for row in record["rows"] if row["steps"] == 8} == {"random", "spread", "comb-2"}


def test_a_calibration_continues_where_it_stopped(place, tmp_path, monkeypatch):
    line = ("calibrate", *source(place), "--output", tmp_path / "c.json", "--orders random,comb-4,left-to-right")
    calls = []

    def stop(predictor, kind, tokens, **options):
        if len(calls) == 2:
            raise InputError("", "Killed")
        calls.append(kind)
        return measure(predictor, kind, tokens, **options)

    monkeypatch.setattr("unmask.calibration.series.measure", stop)
    assert complaint(*line).endswith("is not: Killed.")
    half = Calibration.load(tmp_path / "c.json")
    assert list(half.losses) == ["random", "comb-4"]
    monkeypatch.undo()
    assert answer(*line)["measured"] == ["left-to-right"]
    whole = Calibration.load(tmp_path / "c.json")
    assert np.array_equal(whole.losses["comb-4"].table, half.losses["comb-4"].table)
    assert set(advise.one_by_one(whole)) == {"random", "left-to-right"}
    text = run(*line)
    assert text.exit_code == 0
    assert "total correlation" in text.stdout


def test_a_calibration_is_refined_when_it_is_run_again(place, tmp_path, monkeypatch):
    """With twice as many texts each time, and all it knew; what was found stays until that is complete."""
    output, part = tmp_path / "c.json", tmp_path / ".c.json.part"
    line = ("calibrate", *source(place), "--output", output, "--orders random,comb-4")
    first = answer(*line)
    assert (first["texts"], first["measured"]) == (6, ["random", "comb-4"])
    more = answer(*line, "--rules confidence/even:4")
    assert (more["texts"], more["measured"]) == (6, ["confidence/even:4"])
    kept = output.read_bytes()
    calls = []

    def stop(predictor, kind, tokens, **options):
        if calls:
            raise InputError("", "Killed")
        calls.append(kind)
        return measure(predictor, kind, tokens, **options)

    monkeypatch.setattr("unmask.calibration.series.measure", stop)
    assert complaint(*line, "--json").endswith("is not: Killed.")
    said = f"'{output}' already has these measurements for 6 texts: this run repeats them with 12. To keep 6, set "
    assert run(*line).stderr.startswith(f"{said}--texts 6.\n")
    monkeypatch.undo()
    assert output.read_bytes() == kept
    assert list(Calibration.load(part).losses) == ["random"]
    second = answer(*line)
    assert (second["texts"], second["orders"]) == (12, ["random", "comb-4"])
    assert second["measured"] == ["comb-4", "confidence/even:4"]  # and what the one that was stopped had
    alone = answer("calibrate", *source(place), "--output", tmp_path / "d.json", "--orders random,comb-4", "--texts 12")
    assert second["rows"] == alone["rows"]
    assert answer(*line)["texts"] == 24
    assert answer(*line)["texts"] == 25  # all there are
    assert answer(*line)["measured"] == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.json", "d.json"]
    assert complaint(*line, "--texts 9").startswith("--texts must be at least 25, not 9, because")
    part.write_text("of no use")
    assert answer("calibrate", *source(place), "--output", tmp_path / "d.json", "--texts 20")["texts"] == 20


def test_a_refined_calibration_is_written_where_a_link_leads(place, tmp_path):
    (tmp_path / "kept").mkdir()
    output, link = tmp_path / "kept" / "c.json", tmp_path / "link.json"
    link.symlink_to(output)
    line = ("calibrate", *source(place), "--output", link, "--orders random")
    assert [answer(*line)["texts"] for _ in range(2)] == [6, 12]
    assert link.is_symlink()
    assert Calibration.load(output).texts == 12
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept", "link.json"]


def test_a_calibration_is_refined_by_two_commands_at_once(place, tmp_path, monkeypatch):
    """Whoever is the second finds that the other has put everything into its place."""
    output = tmp_path / "c.json"
    line = ("calibrate", *source(place), "--output", output, "--orders random")
    assert answer(*line)["texts"] == 6
    inner = []

    def measured_rules(model, schedules, tokens, kept, **options):
        if not inner:  # the first has measured everything, and its file is not in its place yet
            inner.append(0)
            inner[0] = answer(*line)["texts"]
        return kept

    monkeypatch.setattr("unmask.cli.calibrate.measured_rules", measured_rules)
    assert (answer(*line)["texts"], inner) == (12, [12])
    assert Calibration.load(output).texts == 12
    assert [file.name for file in tmp_path.iterdir()] == ["c.json"]


def test_a_calibration_of_something_else_is_refused_and_left_alone(place, tmp_path):
    (tmp_path / "other.txt").write_text("abcde " * 40)
    (tmp_path / "notes.json").write_text('{"mine": 1}')
    torch.manual_seed(1)
    network = nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32))
    weights.save(network, tmp_path / "twin.safetensors", about={"alphabet": LETTERS})
    network = nn.Transformer(nn.Config(len(LETTERS), 8, width=16, layers=1, heads=2, hidden=32))
    weights.save(network, tmp_path / "short.safetensors", about={"alphabet": LETTERS})
    kept = (place / "c.json").read_bytes()
    mine, text = place / "m.safetensors", place / "text.txt"
    output = ("--output", place / "c.json")
    assert "was made for another model" in complaint(
        "calibrate --model", tmp_path / "twin.safetensors", "--text", text, *output
    )
    assert (
        "was made for sequences of 16 tokens, but this model's sequences have 8. Choose another --output"
        in complaint("calibrate --model", tmp_path / "short.safetensors", "--text", text, *output)
    )
    assert "other texts or another seed" in complaint(
        "calibrate --model", mine, "--text", tmp_path / "other.txt", *output
    )
    assert "other texts or another seed" in complaint("calibrate --model", mine, "--text", text, "--seed 1", *output)
    for command in ("advise --target 1", "evaluate --order random --size even --steps 4"):
        more = ("--text", text) if command.startswith("evaluate") else ()
        assert "was made for another model" in complaint(
            *command.split(), "--model", tmp_path / "twin.safetensors", *more, "--calibration", place / "c.json"
        )
    assert "not written by this version of unmask" in complaint(
        "calibrate --model", mine, "--text", text, "--output", tmp_path / "notes.json"
    )
    assert "is a calibration. Run `unmask advise --calibration" in complaint(
        "generate --model", mine, "--schedule", place / "c.json"
    )
    assert (place / "c.json").read_bytes() == kept
    assert (tmp_path / "notes.json").read_text() == '{"mine": 1}'
    assert "a number such as comb-16, not 'confidence'" in complaint(
        "calibrate --model", mine, "--text", text, "--orders confidence --output", tmp_path / "n.json"
    )


def test_a_calibration_that_was_interrupted_says_what_is_left(place, tmp_path, monkeypatch):
    series = importlib.import_module("unmask.calibration.series")
    output, usual = tmp_path / "c.json", series.measure

    def interrupted(predictor, kind, *rest, **more):
        if kind == order.Spread():
            raise KeyboardInterrupt
        return usual(predictor, kind, *rest, **more)

    monkeypatch.setattr(series, "measure", interrupted)
    finished = "has the measurements that were finished. Run the same command again to continue."
    for orders, words in (("spread", "was not written."), ("random,spread", finished)):
        done = run("calibrate", *source(place), "--output", output, "--orders", orders)
        assert done.exit_code == 130
        assert f"Stopped: '{output}' {words}" in done.stderr
    monkeypatch.undo()
    found = answer("calibrate", *source(place), "--output", output, "--orders random,spread")
    assert found["measured"] == ["spread"]


def test_a_calibration_without_a_reference_says_what_to_measure_before_advice(place, tmp_path):
    """Its next command must work: advice needs the cost of one token at a time."""
    line = ("calibrate", *source(place), "--output", tmp_path / "c.json", "--texts 3")
    advice = ("advise --model", place / "m.safetensors", "--calibration", tmp_path / "c.json", "--target 0.05")
    for wanted, more in (("--orders comb-4", "--orders random"), ("--orders random", None)):
        after = next(line for line in run(*line, wanted).stdout.splitlines() if line.startswith("Next: "))
        if more is None:
            assert after.startswith("Next: unmask advise --model ")
            assert run(*advice).exit_code == 0
        else:
            assert after.startswith(f"Next: run this command again with {more}, because `unmask advise` needs ")
            assert "no order that was measured one token at a time" in complaint(*advice)


def test_combs_that_do_not_fit_are_left_out_unless_they_were_asked_for(place, tmp_path):
    usual = answer("calibrate", *source(place), "--output", tmp_path / "d.json")["orders"]
    assert usual == ["random", "spread", "comb-4", "comb-8", "comb-16"]
    line = ("calibrate", *source(place), "--output", tmp_path / "e.json", "--orders comb-32")
    assert complaint(*line) == "--orders must be a comb of at most 16 segments, not 'comb-32'."


# advise


def test_advice_is_the_fewest_steps_within_the_target(place):
    record = answer("advise --model", place / "m.safetensors", "--calibration", place / "c.json", "--target 0.01")
    calibration = Calibration.load(place / "c.json")
    reference, best = min(advise.one_by_one(calibration).items(), key=lambda pair: pair[1])
    limit = best + 0.01 * math.log(2) * LENGTH
    first = min(
        int(np.argmax(costs <= limit)) + 1
        for costs in map(calibration.costs, calibration.losses)
        if (costs <= limit).any()
    )
    assert record["reference"]["order"] == reference
    assert record["steps"] == first == len(record["sizes"])
    on_these = record["candidates"][0]["bits_per_token"]
    assert on_these * LENGTH * math.log(2) == pytest.approx(calibration.best(first)[0][1].nll)
    assert record["above"] <= 0.01
    assert record["runner_up"]["bits_per_token"] >= record["bits_per_token"]
    even = record["even_random"]["steps_for_target"]
    assert even is None or even >= first
    assert record["advice"].startswith(f"Take {first} step")
    assert "best cost of one token at a time among the measured orders" in record["advice"]


def test_a_saved_schedule_is_the_advice_and_generates(place, tmp_path):
    saved = tmp_path / "s.json"
    line = ("advise --model", place / "m.safetensors", "--calibration", place / "c.json", "--steps 8 --save", saved)
    record = answer(*line)
    assert Schedule.load(saved).to_json() == record["schedule"]
    made = answer("generate --model", place / "m.safetensors", "--schedule", saved)
    assert made["sizes"][0] == record["sizes"]
    assert made["schedule"] == record["schedule"]
    rows = answer("evaluate", *source(place), "--schedule", saved, "--calibration", place / "c.json")["rows"]
    assert rows[0]["predicted"] == pytest.approx(record["candidates"][0]["bits_per_token"])
    text = run(*line)
    assert max(map(len, text.stdout.splitlines()[:-2])) <= 80  # the last two hold paths
    # It fits any number of tokens; a list of sizes fits one.
    shorter = answer("generate --model", place / "m.safetensors", "--length 8 --schedule", saved)
    assert [sum(sizes) for sizes in shorter["sizes"]] == [8] * 4
    listed = tmp_path / "listed.json"
    Schedule(size.Explicit([4, 12]), order.Random()).save(listed)
    assert complaint("generate --model", place / "m.safetensors", "--length 8 --schedule", listed) == (
        f"--schedule must fit the 8 tokens to fill, but '{listed}' was made for 16. "
        "Use the --model it was made for, or --length 16."
    )
    assert f"must be a calibration file, but '{saved}' is a schedule" in complaint(
        "advise --target 1 --calibration", saved
    )


def test_advice_on_a_calibration_needs_no_model(place, tmp_path):
    """As docs/start.md writes it: the model that was measured is not named again."""
    line = ("--calibration", place / "c.json", "--target 0.01")
    named, unnamed = answer("advise --model", place / "m.safetensors", *line), answer("advise", *line)
    assert (named.pop("model"), unnamed.pop("model")) == (str(place / "m.safetensors"), None)
    assert named == unnamed
    assert "must be 16, as in the calibration, not 8" in complaint("advise", *line, "--length 8")
    shown = run("advise", *line, "--save", tmp_path / "s.json").stdout
    assert f"Next: unmask generate --model MODEL --length 16 --schedule {tmp_path / 's.json'}" in shown
    # A way out that is offered works.
    offered = complaint("generate --model", place / "m.safetensors", "--schedule", place / "c.json")
    command = shlex.split(offered.split("`")[1].replace("schedule.json", str(tmp_path / "offered.json")))[1:]
    assert run(*command).exit_code == 0
    made = answer("generate --model", place / "m.safetensors", "--schedule", tmp_path / "offered.json")
    assert made["length"] == LENGTH


def test_advice_says_when_steps_together_beat_one_by_one(place):
    calibration = Calibration.load(place / "c.json")
    for best, said in ((1e6, True), (0.0, False)):  # what one by one would have to cost
        advice = replace(advise.advise(calibration, steps=4), best=best)
        words = " ".join(sentences(advice, calibration, None))
        assert ("a target of 0 can be met too" in words) == said
    name, steps, cost = advice.least
    assert (
        cost == calibration.costs(name)[steps - 1] == min(calibration.costs(each).min() for each in calibration.losses)
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (0.2, "To meet it there too, ask for a stricter target, such as 0.16, or calibrate with more texts."),
        (0.04, "To meet it there too, calibrate with more texts."),
    ],
)
def test_advice_that_may_miss_its_target_says_what_to_ask_for(place, target, said):
    calibration = Calibration.load(place / "c.json")
    advice = advise.advise(calibration, target=0.2)
    limit, missing = advice.limit, 0.04 * advice.tokens * math.log(2)
    words = " ".join(sentences(replace(advice, cost=limit + missing), calibration, target))
    assert f"on other texts, expect to miss it by 0.040. {said}" in words
    assert "expect to miss" not in " ".join(sentences(replace(advice, cost=limit), calibration, target))


def test_advice_says_that_no_reactive_rule_was_measured(place, tmp_path):
    said = "No rules that look at predictions were measured."
    file = tmp_path / "c.json"
    shutil.copy(place / "c.json", file)
    line = ("advise --calibration", file, "--steps 4")
    for rule, expected in (("comb/even:4", True), ("confidence/even:4", False)):  # the first is planned
        assert said in answer(*line)["advice"]
        assert run("calibrate", *source(place), "--output", file, "--rules", rule).exit_code == 0
        assert (said in answer(*line)["advice"]) == expected
    assert said not in answer("advise --steps 16")["advice"]  # English, which does not need them


def test_advice_can_measure_first(place):
    record = answer("advise", *source(place), "--texts 3 --target 0.5")
    assert record["steps"] >= 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "--target 0.1",
            "This model comes without a calibration. Give one with --calibration, or measure the model now with --text "
            "or --data.",
        ),
        ("--calibration C", "Either --target or --steps must be given."),
        ("--calibration C --target -1", "--target must be at least 0, not -1."),
        ("--calibration C --steps 17", "--steps must be at most 16, not 17."),
        ("--calibration C --target 1 --texts 4", "--texts needs --text or --data."),
        ("--calibration C --target 1 --save no/s.json", "--save must be in a folder that exists"),
    ],
)
def test_a_bad_request_to_advise_is_refused_in_a_sentence(place, line, sentence):
    line = line.replace(" C", f" {place / 'c.json'}")
    assert complaint("advise --model", place / "m.safetensors", line).startswith(sentence)


# train

SMALL = "--length 8 --width 16 --layers 2 --heads 2 --batch 8 --steps 60"


def test_a_trained_model_is_used_by_the_other_commands(tmp_path):
    (tmp_path / "t.txt").write_text("ab ba " * 100)
    line = ("train --text", tmp_path / "t.txt", "--output", tmp_path / "run", SMALL)
    first = answer(*line, "--minutes 0")
    assert (first["steps"], first["finished"]) == (1, False)
    record = answer(*line)
    assert (record["steps"], record["finished"], record["tokens"]) == (60, True, 600)
    last = float((tmp_path / "run" / "log.csv").read_text().splitlines()[-1].split(",")[1])
    assert record["bits_per_token"] == pytest.approx(last / math.log(2), rel=1e-5)
    assert answer(*line)["bits_per_token"] is None  # nothing left to do
    assert set(answer("generate --model", tmp_path / "run", "--count 1")["texts"][0]) <= set("ab ")
    assert models.load(tmp_path / "run").about["steps"] == 60
    assert (tmp_path / "run" / "log.csv").read_text().startswith("step,loss,rate,seconds")
    text = run(*line)
    assert " 60 of 60 updates. This run was already complete.\n" in text.stdout
    assert "Written:" in text.stdout
    (tmp_path / "u.txt").write_text("ab ca " * 100)
    assert "holds a run on another text or alphabet" in complaint(
        "train --text", tmp_path / "u.txt", "--output", tmp_path / "run", SMALL
    )
    assert "must be empty or hold the same run" in complaint(*line, "--seed 1")


@pytest.mark.parametrize(
    "more",
    ["--masks comb", "--alphabet bytes", "--schedule comb:2,4 --schedule random:2", "--schedule left-to-right:8"],
)
def test_other_masks_and_alphabets_train(tmp_path, more):
    (tmp_path / "t.txt").write_text("naïve ab " * 50)
    record = answer("train --text", tmp_path / "t.txt", "--output", tmp_path / "run", SMALL, more)
    assert record["finished"]
    assert models.load(tmp_path / "run").codec.vocab == (256 if "bytes" in more else 7)


@pytest.mark.parametrize(
    ("more", "which", "steps"),
    [
        ("", order.Comb(shift=0), 1),
        ("--schedule left-to-right:8 --schedule comb:2,4 --muon 5e-3", order.LeftToRight(), 8),
        ("--layers 1 --schedule whole-comb-4:2", order.Comb(4, shift=0), 2),
    ],
)
def test_a_causal_model_is_trained_for_schedules_and_used_with_them(tmp_path, more, which, steps):
    (tmp_path / "t.txt").write_text("ab ba " * 100)
    line = ("train --text", tmp_path / "t.txt", "--output", tmp_path / "run", SMALL, f"--causal {more}")
    first = answer(*line, "--minutes 0")
    assert (first["steps"], first["finished"]) == (1, False)
    assert answer(*line)["finished"]
    model = models.load(tmp_path / "run")
    assert isinstance(model.predictor, Remembering)
    assert (model.module.config.layers, model.module.config.readers) == ((1, 0) if "--layers 1" in more else (1, 1))
    assert model.schedules[0] == Schedule(size.Even(steps), which)
    record = answer("generate --model", tmp_path / "run", "--count 2")
    assert record["schedule"] == model.schedules[0].to_json()
    assert record["evaluations"] == [steps] * 2
    # What is given stays, and any other schedule is followed too, with a sentence.
    filled = answer("generate --model", tmp_path / "run", "--count 2 --prompt", "ab _b_")
    assert all(text[:3] == "ab " and text[4] == "b" for text in filled["texts"])
    other = run("generate --model", tmp_path / "run", "--count 2 --order confidence --size threshold:0.5 --json")
    assert other.exit_code == 0
    assert other.stderr.count("\n") == 1
    assert other.stderr.startswith(
        f"Note: The model '{tmp_path / 'run'}' was trained for other schedules: planned ones in the order"
    )
    assert other.stderr.endswith(" With this schedule, its texts are worse.\n")
    # As the help says, a number of steps makes no other schedule.
    assert run("generate --model", tmp_path / "run", "--count 2 --steps 3 --json").stderr == ""


def test_a_model_says_what_schedules_it_was_trained_for_or_is_refused(place, tmp_path):
    torch.manual_seed(0)
    network = nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32))
    comb = Schedule(size.Even(2), order.Comb()).to_json()
    for wrong in ([], "comb", {"a": 1}, {"a": [{"schema": 1}, 1]}, {"a": [comb]}, {"a": [comb, "half"]}):
        weights.save(network, tmp_path / "m.safetensors", about={"alphabet": LETTERS, "schedules": wrong})
        said = complaint("generate --model", tmp_path / "m.safetensors")
        assert said == "--model must be saved with schedules that can be read."


def test_a_tokenizer_travels_with_its_model(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"on": 0, "off": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    (tmp_path / "t.txt").write_text("on off off " * 50)
    line = ("train --text", tmp_path / "t.txt", "--output", tmp_path / "run", SMALL)
    assert answer(*line, "--alphabet", tmp_path / "words.json")["tokens"] == 150
    (tmp_path / "words.json").unlink()
    text = answer("generate --model", tmp_path / "run", "--count 1 --prompt", "on __ off")["texts"][0]
    assert text.split()[0] == "on"
    assert text.split()[3] == "off"


@pytest.mark.parametrize(("seconds", "said"), [(1.0, "About 3 hours to go."), (0.01, "")])
def test_a_run_that_will_take_hours_says_so_once(seconds, said):
    command = importlib.import_module("unmask.cli.train")
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    watch = command._Watch(Bars(console=console, disable=True), 10_000, warned=False)
    for step in range(1, 40):
        watch(Progress(step, 1.0, 0.0, step * seconds))
    assert console.file.getvalue().count("hours to go") == bool(said)
    assert said in console.file.getvalue()


def test_a_run_that_is_interrupted_ends_with_a_checkpoint_and_goes_on(tmp_path):
    (tmp_path / "text.txt").write_text("abcde " * 200)
    shape = "--length 16 --width 16 --layers 2 --heads 2 --batch 4 --steps"
    line = ["train", "--text", str(tmp_path / "text.txt"), "--output", str(tmp_path / "run"), *shape.split()]
    command = [sys.executable, "-m", "unmask.cli", *line, "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "log.csv").exists():  # it is on its way
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped before the end. The same command continues the run." in said
    assert (tmp_path / "run" / "checkpoint.pt").exists()
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_bad_request_to_train_is_refused_and_leaves_nothing_behind(tmp_path):
    text, folder = tmp_path / "t.txt", tmp_path / "run"
    text.write_text("abcabc")
    (tmp_path / "taken").write_text("mine")
    line = ("train --text", text, "--output", folder)
    assert complaint(*line).startswith("--text must have at least 256 tokens, not 6. Give a longer text")
    assert "must be chars, bytes or a tokenizer file, but 'klingon'" in complaint(*line, "--alphabet klingon")
    assert "must be a tokenizer file" in complaint(*line, "--alphabet", text)
    assert "must be a multiple of 6, twice the number of heads" in complaint(*line, "--heads 3")
    assert "Did you mean 'comb'?" in complaint(*line, "--masks combs")
    assert "must be greater than 0" in complaint(*line, "--rate 0")
    assert "--muon must be greater than 0" in complaint(*line, "--muon 0")
    assert complaint(*line, "--masks comb --schedule comb:4") == "Give either --masks or --schedule, not both."
    assert complaint(*line, "--masks comb --causal") == (
        "--masks cannot be used with --causal. Use --schedule instead."
    )
    assert "--schedule must be an order and its numbers of steps, such as comb:16,32" in complaint(
        *line, "--schedule comb"
    )
    for wrong in ("comb:", "comb:0", "comb:a", "comb:4,", "comb:257", "kamm:4", "confidence:4", ":4", "comb-999:4"):
        assert "--schedule" in complaint(*line, "--schedule", wrong), wrong
    assert "must be a folder, not the file" in complaint("train --text", text, "--output", tmp_path / "taken", SMALL)
    assert not folder.exists()
    folder.mkdir()
    (folder / "model.safetensors").write_text("mine")
    text.write_text("abc" * 20)
    assert "must be empty or hold the same run" in complaint(*line, SMALL)
    assert (folder / "model.safetensors").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--causal"])
def test_two_processes_train_one_model(tmp_path, more):
    (tmp_path / "t.txt").write_text("ab ba " * 100)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "unmask.cli",
    ]
    command += ["train", "--text", str(tmp_path / "t.txt"), "--output", str(tmp_path / "run"), *SMALL.split()]
    command += more.split()
    done = subprocess.run([*command, "--device", "cpu", "--json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"]  # one process speaks
    assert models.load(tmp_path / "run").about["steps"] == 60


@pytest.mark.parametrize("command", ["generate", "evaluate", "calibrate", "advise", "train"])
def test_every_command_explains_itself_with_examples(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"\n    unmask {command}" in result.stdout
    assert "JSON:" in result.stdout


def test_advice_from_an_unfinished_calibration_says_so(place, tmp_path):
    kept = Calibration.load(place / "c.json")
    assert kept.missing == []
    torn = replace(kept, losses={"random": kept.losses["random"]}, wanted=tuple(kept.losses))
    torn.save(tmp_path / "torn.json")
    assert Calibration.load(tmp_path / "torn.json").missing == torn.missing
    said = " ".join(sentences(advise.advise(torn, steps=4), torn, None))
    assert f"Only 1 of {len(kept.losses)} orders have been measured so far" in said
    assert "so far" not in " ".join(sentences(advise.advise(kept, steps=4), kept, None))


def test_work_in_a_log_says_how_far_it_is(monkeypatch, capsys):
    """A line every half minute; nothing for short work."""
    clock = iter([0.0, 10.0, 31.0, 31.0, 40.0])
    monkeypatch.setattr("unmask.cli.output.time.monotonic", lambda: next(clock))
    with output.progress() as bar:
        task = bar.add_task("Measuring", total=4)
        for _ in range(3):
            bar.advance(task)
    assert capsys.readouterr().err.splitlines() == ["Measuring: 50 %"]


def test_a_figure_of_no_known_kind_is_refused_before_any_work(place):
    line = "evaluate", *source(place), "--order random --size even --steps 2", "--figure", place / "e.txt"
    assert complaint(*line) == "--figure must end in .png, .svg or .pdf, not 'e.txt'."


def test_verified_texts_say_what_was_taken_back():
    """Fewer evaluations than tokens, the same text for the same seed, and one sentence for what does not go with it."""
    found = answer("generate --verify --steps 16 --count 2 --seed 3")
    assert all(17 <= each <= 60 for each in found["evaluations"])
    pairs = zip(found["evaluations"], found["rejected"], strict=True)
    assert all(spent - 17 in (lost, lost - 1) for spent, lost in pairs)
    again = answer("generate --verify --steps 16 --count 1 --seed 4")
    assert again["texts"][0] == found["texts"][1]
    said = complaint("generate --verify --watch")
    assert said == "--verify cannot be used with --watch. Leave out one of them."
    looking = {"order": "--order confidence --size even", "size": "--size threshold:0.9", "rule": "--rule fast-dllm"}
    for blamed, words in looking.items():
        assert complaint(f"generate --verify {words}").startswith(f"--{blamed} must not look at predictions")


def test_evaluate_forecasts_what_verification_takes(tmp_path):
    """One by one it is what it is: as many evaluations as tokens; a rule that looks at predictions has no forecast."""
    text = tmp_path / "text.txt"
    text.write_text("the sea was calm and the night was long " * 20)
    found = answer("evaluate --model causal --no-reference --length 64 --texts 2 --verify --text", text,
                   "--order whole-comb,confidence --size even --steps 8,64")  # fmt: skip
    rows = {(row["order"], row["steps"]): row for row in found["rows"]}
    assert rows["whole-comb", 64]["verified"] == pytest.approx(64)
    assert 9 <= rows["whole-comb", 8]["verified"] < 40
    assert rows["confidence", 8]["verified"] is None


def test_an_order_that_was_learned_is_saved_and_generates(place, tmp_path):
    measured, saved = tmp_path / "d.json", tmp_path / "s.json"
    answer("calibrate", *source(place), "--output", tmp_path / "c.json", "--orders random --dependence", measured)
    line = ("advise --dependence", measured, "--model", place / "m.safetensors")
    record = answer(*line, "--steps 4 --save", saved)
    assert sorted(each for step in record["sets"] for each in step) == list(range(LENGTH))
    assert record["sizes"] == [4] * 4 == [len(step) for step in record["sets"]]
    nats = {row["order"]: row["nats"] for row in record["ignored"]}
    assert nats["learned"] <= min(nats["whole-comb"], nats["spread"]) + 1e-9
    assert Schedule.load(saved).to_json() == record["schedule"]
    made = answer("generate --model", place / "m.safetensors", "--schedule", saved)
    assert made["schedule"] == record["schedule"]
    assert made["sizes"][0] == record["sizes"]
    assert answer("evaluate", *source(place), "--schedule", saved)["rows"][0]["bits_per_token"] > 0
    shown = run(*line, "--steps 4 --layout 4x4 --save", saved).stdout
    assert f"--length 16 --schedule {saved}" in shown
    assert "comb-grid" in shown
    for words, sentence in (
        ((*line,), "--steps must be given. A learned order is for a fixed number of steps. For example: --steps 16."),
        ((*line, "--steps 17"), "--steps must be at most"),
        ((*line, "--steps 4 --length 8"), "--length must be 16, as in --dependence, not 8."),
        (
            (*line, "--steps 4 --layout 2x3"),
            "--layout must have 16 cells, one for each position, but 2x3 has 6.",
        ),
        (
            (*line, "--steps 4 --evaluations 9"),
            "--evaluations needs --text or --data. Give --text or --data, or leave out --evaluations.",
        ),
        ((*line, "--steps 4 --texts 9"), "--texts needs --text or --data. Give one of them, or leave out --texts."),
        ((*line, "--steps 4 --target 0.1"), "--target cannot be used with --dependence. Leave out --target."),
        (("advise --steps 4 --dependence", place / "c.json"), "--dependence must be a file written by"),
        (("advise --steps 4 --layout 4x4",), "--layout needs --dependence. Give --dependence, or leave out --layout."),
        (
            ("advise --steps 4 --evaluations 9",),
            "--evaluations needs --dependence. Give --dependence, or leave out --evaluations.",
        ),
        (("advise --model builtin --steps 4 --dependence", measured), "was measured on another model"),
    ):
        assert sentence in complaint(*words)


def test_with_texts_a_learned_order_is_refined_and_compared_on_those_held_out(place, tmp_path):
    """The model is random: no order is better than another, and whichever is taken is what is saved."""
    measured, saved, rows = tmp_path / "d.json", tmp_path / "s.json", tmp_path / "rows.jsonl"
    answer("calibrate", *source(place), "--output", tmp_path / "c.json", "--orders random --dependence", measured)
    line = ("advise --steps 4 --dependence", measured, *source(place))
    record = answer(*line, "--texts 24 --evaluations 40 --layout 4x4 --save", saved)
    names = {"learned", "whole-comb", "spread", "random", "comb-grid", "spread-grid"}
    assert {row["order"] for row in record["compared"]} == names == {row["order"] for row in record["ignored"]}
    assert [row["bits_per_token"] for row in record["compared"]] == sorted(
        r["bits_per_token"] for r in record["compared"]
    )
    assert (record["searched"], record["held_out"]) == (12, 12)
    assert record["evaluations"] <= 40
    costs = {row["order"]: row["bits_per_token"] for row in record["compared"]}
    best = min(cost for name, cost in costs.items() if name != "learned")
    assert record["gain"] == pytest.approx(best - costs["learned"], abs=1e-9)
    assert record["kept"] is None or costs[record["kept"]] == best
    assert Schedule.load(saved).to_json() == record["schedule"]
    assert "that the search has not seen" in record["advice"] or "found no better order" in record["advice"]
    shown = run(*line, "--texts 24 --evaluations 40").stdout
    assert "Cost on the 12 texts that were held out:" in shown
    letters = (place / "text.txt").read_text()
    rows.write_text("".join(json.dumps({"text": letters[n : n + 16 - (n == 3)]}) + "\n" for n in range(9)))
    for words, sentence in (
        (("--texts 7",), "--texts must be at least 8, not 7."),
        (("--evaluations 0",), "--evaluations must be at least 1, not 0."),
    ):
        assert complaint(*line, *words) == sentence
    said = complaint(*line[:2], "--model", place / "m.safetensors", "--data", rows)
    assert said.startswith("--data must have rows of 16 tokens, all of them to be filled. A learned order")
    (tmp_path / "short.txt").write_text(letters[:64])
    said = complaint(*line[:2], "--model", place / "m.safetensors", "--text", tmp_path / "short.txt")
    assert said.startswith("--text must have at least 8 sequences of 16 tokens, not 4.")
