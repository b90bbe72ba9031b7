"""The files that fuzzed command lines name: good ones, and ones with everything wrong that a file can have.

Every file is made from a fixed seed, so that a command line means the same in every run. What the library itself writes
(a trained model, a calibration, a schedule) is made by its own commands, and then damaged one place at a time.
"""

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LETTERS = "abcde "
LENGTH = 16
DEEP = 100_000

# Whatever stands in a JSON file could be one of these instead.
STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**48, 10**30, 10**400, 1e308, float("nan"), float("inf"), "", "x", "1", "\x1b[31m",
    "a" * 5000, "[/]", "{steps}", [], [[]], [None], [1, "a"], {}, {"name": "even"}, {"name": "x" * 300},
)  # fmt: skip


class Files:
    """The names of files by what they are made for.

    Arguments:
        folder: Where they are.

    Attributes:
        good: Kind -> names of files that can be used as what they are.
        bad: Kind -> names of files that almost can.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.good: dict[str, list[str]] = {}
        self.bad: dict[str, list[str]] = {}

    def keep(self, kind: str, name: str, content: object, *, good: bool = False) -> None:
        """Write a file: text and bytes as they are, anything else as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        self.note(kind, name, good=good)

    def note(self, kind: str, name: str, *, good: bool = False) -> None:
        """Remember a file that is there."""
        (self.good if good else self.bad).setdefault(kind, []).append(name)

    @property
    def names(self) -> set[str]:
        """The names at the top of the folder: whatever a command line can name."""
        return {path.name for path in self.folder.iterdir()}


def make(folder: Path, run: Callable[[list[str], Path], None]) -> Files:
    """Write all files.

    Arguments:
        folder: Where to.
        run: Runs a command line in a folder, and raises if it fails.
    """
    files = Files(folder)
    _anything(files)
    _numbers(files)
    _texts(files)
    _models(files, run)
    _measured(files, run)
    _pretrained(files)
    return files


def _anything(files: Files) -> None:
    """Files that are nothing at all."""
    rng = random.Random(0)
    contents: dict[str, str | bytes] = {
        "empty": "", "blank": " \n\n \n", "binary": rng.randbytes(4000), "zeros": bytes(1000), "quote": '"',
        "null.json": "null", "nan.json": "NaN", "number.json": "3", "string.json": '"x"', "object.json": "{}",
        "list.json": "[]", "nested.json": "[[1]]", "half.json": '{"schema": 1, "size',
        "digits.json": "[" + "9" * 6000 + "]", "minus.json": "-" * 50, "twice.json": "[1][2]",
        "deep-list.json": "[" * DEEP + "]" * DEEP, "deep-object.json": '{"a":' * DEEP + "1" + "}" * DEEP,
        "open.json": "[" * DEEP, "wide.csv": "1," * 100_000 + "1\n", "letters.csv": "x" * 200_000 + "\n",
        "quoted.csv": '"' + "1" * 200_000 + "\n", "latin.csv": "naïve".encode("latin-1"),
        "wide-letters.csv": "1\n2\n".encode("utf-16"), "control.csv": "\x1b[31m\x07\x00\n",
        "returns.csv": "3\r2\r1\r", "surrogate.json": '["\\ud800"]', "markup.csv": "[/bold]\n[red]\n",
    }  # fmt: skip
    for name, content in contents.items():
        files.keep("anything", name, content)
    (files.folder / "folder").mkdir()
    files.note("anything", "folder")
    (files.folder / "loop").symlink_to("loop")
    files.note("anything", "loop")


def _numbers(files: Files) -> None:
    """Curves and gauges."""
    falling = [round(2.0 - 0.1 * n, 3) for n in range(LENGTH)]
    table = "n,loss\n" + "".join(f"{n},{value}\n" for n, value in enumerate(falling))
    files.keep("curve", "curve.csv", table, good=True)
    files.keep("curve", "curve.json", falling, good=True)
    files.keep("curve", "curve-object.json", {"loss": falling}, good=True)
    files.keep("curve", "curve-lines.csv", "".join(f"{value}\n" for value in falling), good=True)
    files.keep("curve", "curve-short.csv", "1.5\n0.5\n", good=True)
    odd = {
        "rising": falling[::-1], "negative": [*falling[:-1], -0.1], "huge": [1e308] * LENGTH,
        "tiny": [5e-324] * LENGTH, "zero": [0] * LENGTH, "one": [1.0], "nan": [1.0, float("nan")],
        "infinite": [float("inf"), 0.0], "words": ["a", "b"], "nested": [[1.0], [0.5]], "true": [True, False],
        "falls": [1e308, 5e-324], "rounding": [1.0, 1.0 + 1e-12, 0.5],
        "long": [1.0 - n / 5000 for n in range(5000)],
    }  # fmt: skip
    for name, values in odd.items():
        files.keep("curve", f"curve-{name}.json", values)
    rows = {
        "gap": "0,1\n2,0.5\n", "twice": "0,1\n0,0.5\n", "later": "1,1\n2,0.5\n", "far": "0,1\n1000000000000000,0.5\n",
        "three": "1,2,3\n", "ragged": "0,1\n1\n", "heading": "n,loss\n", "nan": "nan\n1\n", "half": "0.5,1\n",
        "minus": "-1,2\n0,1\n", "max": "1e308,1\n",
    }  # fmt: skip
    for name, text in rows.items():
        files.keep("curve", f"curve-{name}.csv", text)
    for number, record in enumerate(damaged({"loss": falling}, 8)):
        files.keep("curve", f"curve-damaged-{number}.json", record)
    gauge = [1.0 + n for n in range(LENGTH - 1)]
    files.keep("gauge", "gauge.json", gauge, good=True)
    files.keep("gauge", "gauge.csv", "".join(f"{value}\n" for value in gauge), good=True)
    for name, values in {
        "zero": [0.0, 1.0],
        "huge": [1e308] * 15,
        "tiny": [5e-324] * 15,
        "mixed": [5e-324, 1e308] * 7,
        "one": [1.0],
        "minus": [-1.0, 1.0],
    }.items():
        files.keep("gauge", f"gauge-{name}.json", values)


def _texts(files: Files) -> None:
    rng = random.Random(1)
    files.keep("text", "text.txt", "".join(rng.choices(LETTERS, k=400)) + "\n", good=True)
    words = "the cat sat on the mat . a dogs sat on a cat . "
    files.keep("words", "words.txt", words * 12, good=True)
    odd = {
        "one": "a", "break": "\n", "short": "abc", "upper": "ABCDE " * 50, "same": "a" * 400,
        "control": "ab\x1b[31m\x07\x00" * 60, "unicode": "äöüß€𝔘 " * 60, "two": "ab" * 16,
        "surrounded": "\ufeff" + "abcde " * 60, "masks": "ab_c" * 60, "words": "the zebra [MASK] " * 40,
        "line": "abcde " * 50_000, "breaks": "abcde\r\n" * 60,
    }  # fmt: skip
    for name, text in odd.items():
        files.keep("text", f"text-{name}.txt", text)


def damaged(record: Any, count: int, seed: int = 0) -> Iterator[Any]:
    """Copies of a JSON record in which one place is gone, doubled or something else."""
    rng = random.Random(seed)
    for number in range(count):
        found = copy.deepcopy(record)
        holder, key = rng.choice(list(_places(found, rng)))
        how = rng.random()
        if how < 0.2:
            del holder[key]
        elif how < 0.3 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif how < 0.4 and isinstance(holder, dict):
            holder[f"{key}x"] = holder[key]
        else:
            holder[key] = STRANGE[number % len(STRANGE)] if how < 0.7 else rng.choice(STRANGE)
        yield found


def _places(record: Any, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Some places of a record, those near its root among them; long lists are not searched from end to end."""
    keys: list[Any] = list(record) if isinstance(record, dict) else list(range(len(record)))
    for key in keys if len(keys) < 12 else rng.sample(keys, 4):
        yield record, key
        if isinstance(record[key], dict | list) and record[key]:
            yield from _places(record[key], rng)


def _models(files: Files, run: Callable[[list[str], Path], None]) -> None:
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    small = {"length": 16, "width": 16, "layers": 2, "heads": 2, "steps": 2, "batch": 2}
    shape = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    run(["train", "--text", "text.txt", "--output", "run", *shape], files.folder)
    files.note("model", "run", good=True)
    shutil.copy(files.folder / "run/model.safetensors", files.folder / "model.safetensors")
    files.note("model", "model.safetensors", good=True)
    with safe_open(files.folder / "model.safetensors", "pt") as file:
        metadata = dict(file.metadata())
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary

    def keep(name: str, parts: dict[str, Any], about: dict[str, str] | None) -> None:
        save_file(parts, files.folder / f"model-{name}.safetensors", metadata=about)
        files.note("model", f"model-{name}.safetensors")

    texts = ("null", "[]", "3", '"x"', "{}", "", "{", "NaN", "[" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP)
    for key, text in metadata.items():
        keep(f"{key}-gone", weights, {name: value for name, value in metadata.items() if name != key})
        for number, other in enumerate(texts):
            keep(f"{key}-{number}", weights, metadata | {key: other})
        try:
            record = json.loads(text)
        except ValueError:
            continue
        for number, other in enumerate(damaged(record, 16, seed=2)):
            keep(f"{key}-damaged-{number}", weights, metadata | {key: json.dumps(other)})
    vocab = len(json.loads(metadata["about"])["alphabet"])
    for number, alphabet in enumerate(
        ("\x07\x1b\x9b\x00\r\x7f\x08", "aaaaaaa", "abc", "äöü€𝔘\u202e\ud800", "bytes", "[/b]{}:", "_abcdef")
    ):
        about = json.loads(metadata["about"]) | {"alphabet": alphabet[:vocab]}
        keep(f"alphabet-{number}", weights, metadata | {"about": json.dumps(about)})
    first = next(iter(weights))
    for name, value in (("nan", float("nan")), ("infinite", float("inf")), ("large", 6e4), ("zero", 0.0)):
        keep(f"weights-{name}", {key: torch.full_like(each, value) for key, each in weights.items()}, metadata)
    one = torch.full_like(weights[first], float("nan"))
    keep("weights-one-nan", weights | {first: one}, metadata)
    keep("weights-whole", {key: each.to(torch.int32) for key, each in weights.items()}, metadata)
    keep("weights-shape", weights | {first: weights[first].flatten()}, metadata)
    keep("weights-less", {key: each for key, each in weights.items() if key != first}, metadata)
    keep("weights-more", weights | {"x": one}, metadata)
    keep("weights-none", {}, metadata)
    keep("bare", weights, None)
    whole = (files.folder / "model.safetensors").read_bytes()
    for name, content in (
        ("half", whole[: len(whole) // 2]),
        ("eight", whole[:8]),
        ("header", b"\xff" * 8 + whole[8:]),
        ("more", whole + b"x"),
    ):
        files.keep("model", f"model-cut-{name}.safetensors", content)
    for name, content in (
        ("run-empty", None),
        ("run-list", b"[]"),
        ("run-deep", b"[" * DEEP),
        ("run-torn", b"\x80\x04torn"),
    ):
        if content is None:
            (files.folder / name).mkdir()
            files.note("run", name)
            continue
        shutil.copytree(files.folder / "run", files.folder / name)
        for path in (files.folder / name).iterdir():
            if path.suffix in (".json", ".pt"):
                path.write_bytes(content)
        files.note("run", name)
    files.note("run", "run", good=True)


def _measured(files: Files, run: Callable[[list[str], Path], None]) -> None:
    """Calibrations, and the schedules that follow from them."""
    line = ["calibrate", "--model", "model.safetensors", "--text", "text.txt", "--texts", "4", "--points", "5"]
    run([*line, "--output", "calibration.json", "--orders", "random,spread,comb-4,left-to-right"], files.folder)
    run(["advise", "--calibration", "calibration.json", "--steps", "4", "--save", "schedule.json"], files.folder)
    files.note("calibration", "calibration.json", good=True)
    files.note("schedule", "schedule.json", good=True)
    from unmask import models

    shutil.copy(Path(models.__file__).parent / "builtin/calibration.json", files.folder / "builtin.json")
    files.note("builtin", "builtin.json", good=True)
    record = json.loads((files.folder / "calibration.json").read_text())
    for number, other in enumerate(damaged(record, 60, seed=3)):
        files.keep("calibration", f"calibration-{number}.json", other)
    files.note("calibration", "schedule.json")
    schedules = [json.loads((files.folder / "schedule.json").read_text())]
    for size in (
        {"name": "even", "steps": 4},
        {"name": "minimax", "steps": 4, "gauge": "tc"},
        {"name": "threshold", "threshold": 0.5},
    ):
        schedules.append({"schema": 1, "size": size, "order": {"name": "random"}})
        files.keep("schedule", f"schedule-{size['name']}.json", schedules[-1], good=True)
    for which, schedule in enumerate(schedules):
        for number, other in enumerate(damaged(schedule, 20, seed=4 + which)):
            files.keep("schedule", f"schedule-{which}-{number}.json", other)
    wrapped: dict[str, Any] = {"name": "threshold", "threshold": 0.5}
    for _ in range(400):
        wrapped = {"name": "at-least", "size": wrapped, "least": 1}
    files.keep("schedule", "schedule-wrapped.json", {"schema": 1, "size": wrapped, "order": {"name": "random"}})
    for name, values in (
        ("zeros", [0, 16]),
        ("minus", [-1, 17]),
        ("many", [1] * 100_000),
        ("huge", [2**62, 2**62]),
        ("none", []),
        ("sum", [8, 9]),
    ):
        size = {"name": "explicit", "values": values}
        files.keep("schedule", f"schedule-{name}.json", {"schema": 1, "size": size, "order": {"name": "random"}})
    files.note("schedule", "calibration.json")


def _pretrained(files: Files) -> None:
    """Folders as Hugging Face has them, where its library is installed."""
    try:
        import transformers

        import tiny
    except ModuleNotFoundError:
        return
    transformers.utils.logging.disable_progress_bar()
    good = files.folder / "bert"
    good.mkdir()
    tiny.bert(good)
    tiny.tokenizer(good, chat=tiny.CHAT)
    files.note("hf", "hf:bert", good=True)

    def copied(name: str) -> Path:
        files.note("hf", f"hf:hf-{name}")
        return Path(shutil.copytree(good, files.folder / f"hf-{name}"))

    texts = ("null", "[]", "3", '"x"', "{}", "", "{", "[" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "\x00")
    for part in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        stem = part.removesuffix(".json")
        (copied(f"{stem}-gone") / part).unlink()
        for number, text in enumerate(texts):
            (copied(f"{stem}-{number}") / part).write_text(text)
        record = json.loads((good / part).read_text())
        for number, other in enumerate(damaged(record, 14 if part == "config.json" else 8, seed=9)):
            (copied(f"{stem}-damaged-{number}") / part).write_text(json.dumps(other))
    for number, template in enumerate(
        (
            "{{ ''.__class__.__mro__ }}",
            "{{",
            "{{ x.y.z }}",
            "{{ raise_exception('no') }}",
            "",
            "zebra {{ messages }}",
            "{% for i in range(10**9) %}{% endfor %}",
        )
    ):
        folder = copied(f"chat-{number}")
        for path in folder.glob("chat_template*"):
            path.unlink()
        record = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(record | {"chat_template": template}))
    weights = good / "model.safetensors"
    for name, content in (("cut", weights.read_bytes()[:500]), ("empty", b"")):
        (copied(f"weights-{name}") / "model.safetensors").write_bytes(content)
    (copied("weights-gone") / "model.safetensors").unlink()
    (copied("weights-pickled") / "model.safetensors").rename(files.folder / "hf-weights-pickled/pytorch_model.bin")
    indices = {
        "outside": "../bert/model.safetensors",
        "pickled": "pytorch_model.bin",
        "absent": "none.safetensors",
        "number": 3,
    }
    for name, target in indices.items():
        folder = copied(f"index-{name}")
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        index = {"metadata": {"total_size": 1}, "weight_map": {"bert.embeddings.word_embeddings.weight": target}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for number, text in enumerate(("[]", "null", "{", "")):
        folder = copied(f"index-{number}")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(text)
    files.keep("tokenizer", "tokenizer.json", (good / "tokenizer.json").read_text(), good=True)
    record = json.loads((good / "tokenizer.json").read_text())
    for number, other in enumerate(damaged(record, 12, seed=11)):
        files.keep("tokenizer", f"tokenizer-{number}.json", other)
