"""Files that commands read and write: no command writes to what it reads, and what is wrong with a file names it."""

import json
import os

import click
import pytest
from click.testing import CliRunner

from unmask.cli import main
from unmask.cli.files import WRITTEN, Folder

WRITING = {
    "advise": {"--save"},
    "calibrate": {"--output", "--dependence", "--figure"},
    "evaluate": {"--output", "--figure"},
    "expect": {"--output"},
    "generate": {"--output"},
}
NEEDED = {"expect": (("--size", "even"), ("--steps", "2")), "calibrate": (("--output", "needed.json"),)}


def complaint(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def options_of(name: str) -> list[click.Option]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return [each for each in command.params if isinstance(each, click.Option)]


def pairs() -> list[tuple[str, str, str]]:
    """Every command with an option that writes a file and another one that names a file."""
    found = []
    for name in main.summaries:
        files = [
            each for each in options_of(name) if isinstance(each.type, click.Path) and not isinstance(each.type, Folder)
        ]
        written = [each for each in files if each.type is WRITTEN]
        for number, one in enumerate(written):
            read = [each for each in files if each.type is not WRITTEN]
            read += [each for each in options_of(name) if each.name == "model"]
            found += [(name, one.opts[0], each.opts[0]) for each in [*read, *written[:number]]]
    return found


def test_every_option_that_writes_is_known_to_do_so():
    """Such options are called by a few names; `--dependence` is read by one command and written by another."""
    found = {name: {each.opts[0] for each in options_of(name) if each.type is WRITTEN} for name in main.summaries}
    assert {name: words for name, words in found.items() if words} == WRITING
    for name in main.summaries:
        for each in options_of(name):
            if {"output", "save", "figure"} & {word.lstrip("-") for word in each.opts}:
                assert each.type is WRITTEN or isinstance(each.type, Folder), (name, each.opts)


@pytest.mark.parametrize(("name", "written", "other"), pairs(), ids=" ".join)
def test_no_file_is_both_read_and_written(name, written, other, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text("kept")
    (tmp_path / "folder").mkdir()
    os.symlink("a.json", tmp_path / "link.json")
    needed = [word for each in NEEDED.get(name, ()) if each[0] not in (written, other) for word in each]
    for mine, theirs in (
        ("a.json", "a.json"),
        ("a.json", "./folder/../a.json"),
        ("link.json", "a.json"),
        ("a.json", tmp_path / "link.json"),
        ("new.json", "folder/../new.json"),  # which does not exist yet
    ):
        found = complaint(name, *needed, written, mine, other, theirs)
        assert found.startswith(f"{written} must be a different file from {other}, but "), found
        assert found.endswith(f" Choose another {written}."), found
        assert (tmp_path / "a.json").read_text() == "kept"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "folder", "link.json"]


def test_the_files_of_a_model_are_not_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-run").mkdir()
    for file, word in (("my-run/model.safetensors", "my-run"), ("net.py", "py:net.py:make")):
        (tmp_path / file).write_text("kept")
        found = complaint("advise", "--model", word, "--steps", 4, "--save", f"./{file}")
        assert "must be a different file from --model" in found, found
        assert (tmp_path / file).read_text() == "kept"


def test_what_is_wrong_with_a_file_names_it(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "held-out.txt").write_text("the cat sat on the mat " * 40)
    (tmp_path / "other.txt").write_text("a text")
    (tmp_path / "other.json").write_text("{}")
    assert complaint("calibrate", "--text", "held-out.txt", "--output", "other.txt") == (
        "--output must be a calibration file in valid JSON, but 'other.txt' is not. That file already exists. Choose "
        "another --output."
    )
    assert (tmp_path / "other.txt").read_text() == "a text"
    for words, sentence in (
        ("--calibration held-out.txt", "--calibration must be a calibration file in valid JSON, but 'held-out.txt' is"),
        (
            "--dependence held-out.txt",
            "--dependence must be a dependence file in valid JSON, but 'held-out.txt' is not",
        ),
        ("--dependence other.json", "file written by `unmask calibrate --dependence`, but 'other.json' is not."),
    ):
        assert sentence in complaint("advise", "--steps", 4, *words.split())


def test_standard_input_devices_and_names_of_models_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = "must be a different file"
    assert same not in complaint("calibrate", "--data", "-", "--output", "-", "--length", "x")
    assert same not in complaint("calibrate", "--text", "/dev/null", "--output", "/dev/null")
    result = CliRunner().invoke(main, ["advise", "--steps", "4", "--save", "builtin"])
    assert result.exit_code == 0, result.stderr
    assert "size" in json.loads((tmp_path / "builtin").read_text())


@pytest.mark.parametrize("name", ["log.csv", "checkpoint.pt"])
def test_a_run_does_not_replace_the_text_it_learns_from(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "run" / name
    text.parent.mkdir()
    text.write_text("a text " * 100, encoding="utf-8")
    found = complaint("train", "--text", f"run/{name}", "--output", "run")
    assert found == (
        f"--output must be a different folder from that of --text, but 'run/{name}' would be replaced. "
        "Choose another --output."
    )
    assert text.read_text(encoding="utf-8") == "a text " * 100


def test_a_model_of_hugging_face_is_read_from_its_folder_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    line = ("advise", "--model", "hf:model", "--steps", "4", "--save", "model/model.safetensors")
    assert "must be a different file from --model" in complaint(*line)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"weights"
