"""Command lines of `unmask` drawn at random: most of them almost right.

Commands, options, their types and the names they take are read from the commands themselves, so that a new option is
tried as soon as it exists. What is written down here is what no command can tell: which options belong together, which
values keep the work small, and what people and scripts get wrong.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from fuzz_files import LENGTH, Files
from fuzz_line import Line, bent, typo
from fuzz_values import (
    DEVICES,
    INTEGERS,
    NUMBERS,
    ODD,
    ORDERS,
    OUTPUTS,
    OUTSIDE,
    PLACES,
    PROMPTS,
    SIZES,
    SMALL,
    STRINGS,
    WORDS,
)

# How often a command is tried; one that is not named here, twice.
WEIGHTS = {
    "plan": 4, "expect": 5, "steps": 2, "generate": 5, "evaluate": 4, "calibrate": 3, "advise": 4, "train": 4,
    "explore": 0.6, "demo": 0.15, "reproduce": 0.3, "completion": 0.5,
}  # fmt: skip
HEAVY = ("demo", "reproduce")  # seconds, if nothing is wrong
TOIL = {"train": "steps", "reproduce": "draws"}  # more than seconds, unless this says otherwise
# Mostly in the way, or slow.
RARELY = (
    "compile", "workers", "address", "dimension", "alphabet", "stay", "bias", "trust-remote-code", "allow-pickle",
    "chat", "rule",
)  # fmt: skip
PLAIN = {"size": "even", "order": "random", "steps": 2}  # what nothing is wrong with
TARGETS = ("output", "save", "figure")
SOURCES = ("curve", "gauge", "schedule", "calibration", "text", "model", "alphabet")


class Grammar:
    """What command lines are made of.

    Arguments:
        main: The group of all commands.
        files: The files there are to name.
        guarded: Whether a command that writes where it should not can do no harm.
    """

    def __init__(self, main: click.Group, files: Files, *, guarded: bool):
        context = click.Context(main)
        names = [*main.list_commands(context), "steps"]  # which may be another word for something else
        found = {name: main.get_command(context, name) for name in dict.fromkeys(names)}
        self.commands = {name: command for name, command in found.items() if command is not None}
        self.files, self.guarded = files, guarded
        self.sources = list(self._sources())

    def line(self, seed: int, number: int) -> Line:
        """The command line of that number."""
        rng = random.Random(f"{seed}-{number}")
        if number % 4 == 0:
            return self._reading(*self._source(seed, number // 4), rng)
        if rng.random() < 0.02:
            return self._top(rng)
        names = list(self.commands)
        name = rng.choices(names, [WEIGHTS.get(name, 2) for name in names])[0]
        mood = rng.choices(("good", "one", "some", "wild"), (4, 9, 4, 1))[0]
        line = self._of(name, mood, rng)
        if mood != "good" and rng.random() < 0.25:
            line = bent(line, rng)
        if "port" in self._options(name):  # it would serve: nothing but mistakes
            wrong = ("--port", rng.choice(("0", "-1", "65536", "x", "")))
            line = replace(line, parts=(*line.parts, rng.choice((wrong, ("--unknown",), ("--help",)))))
        if name in HEAVY and rng.random() < 0.85:
            sure = (("--output", "curve.csv"), ("--unknown",), ("--help",), ("--seed", "-1"), ("--output",))
            line = replace(line, parts=(*line.parts, rng.choice(sure)), plain=False)
        if rng.random() < 0.02 and all("\n" not in word and "\udcff" not in word for word in line.words):
            return replace(line, complete=rng.choice(("bash", "zsh", "fish")))
        return line

    def _sources(self) -> Iterator[tuple[str, str, str]]:
        """Every command with every option that reads a file, and every file that is not what it should be."""
        for name in self.commands:
            for word, option in self._options(name).items():
                if word in SOURCES and not _is(option, "integer") and "port" not in self._options(name):
                    kinds = {"model": ("model", "hf", "run"), "alphabet": ("tokenizer",)}.get(word, (word,))
                    made = [each for kind in (*kinds, "anything") for each in self.files.bad.get(kind, [])]
                    yield from ((name, word, each) for each in (*made, *PLACES))

    def _source(self, seed: int, number: int) -> tuple[str, str, str]:
        """One of them, another for each number until all have been."""
        turn, place = divmod(number, len(self.sources))
        step = next(step for step in range(997 + 2 * (seed % 499), 10**6) if math.gcd(step, len(self.sources)) == 1)
        return self.sources[(place * step + seed + turn) % len(self.sources)]

    def _reading(self, name: str, word: str, file: str, rng: random.Random) -> Line:
        """A line in which nothing is wrong but a file."""
        options = self._options(name)
        values = self._together(name, options, rng)
        for _ in range(20):
            if word in values:
                break
            values = self._together(name, options, rng)
        values |= {word: file} | {each: plain for each, plain in PLAIN.items() if each in values}
        if word == "schedule":
            values = {each: value for each, value in values.items() if each not in ("order", "size", "steps")}
        if word == "model" and "text" in options and "calibration" in values and rng.random() < 0.5:
            values |= {"text": "text.txt", "texts": 2}
            del values["calibration"]
        if file.startswith("hf:") and "length" in options:
            values |= {"length": 8, **({"text": "words.txt"} if "text" in values else {})}
        if "-chat-" in file and "chat" in options:
            values |= {"chat": None, "prompt": "the cat"}
        parts = [(f"--{each}", *(() if value is None else (str(value),))) for each, value in values.items()]
        return Line(name, tuple(parts))

    def good(self, seed: int, number: int, name: str) -> Line:
        """A command line of that command with nothing wrong."""
        return self._of(name, "good", random.Random(f"{seed}-{name}-{number}"))

    def named(self, name: str) -> set[str]:
        """Every option of a command as it is written, and every argument as the help calls it."""
        found = self.commands.get(name)
        params = [] if found is None else found.params
        options = {word for param in params for word in (*param.opts, *param.secondary_opts) if word.startswith("-")}
        arguments = {str(param.name).upper() for param in params if isinstance(param, click.Argument)}
        return options | arguments

    def _options(self, name: str) -> dict[str, click.Option]:
        params = self.commands[name].params
        return {_word(param): param for param in params if isinstance(param, click.Option) and not param.hidden}

    def _top(self, rng: random.Random) -> Line:
        """Lines without a command, or with none that exists."""
        first = rng.choice(("", *STRINGS, *self.commands, "pln", "Plan", "plans", "expct", "help", "version"))
        rest = rng.choice(((), ("--help",), ("--version",), ("-h",), ("--unknown",), ("--json",), ("-x",), ("plan",)))
        parts = (rest,) if rest else ()
        if first in self.commands and first != "completion":
            return Line(first, (("--help",),))
        return Line(first, parts, plain=False) if rng.random() < 0.7 else Line("", (*parts, (first,)), plain=False)

    def _of(self, name: str, mood: str, rng: random.Random) -> Line:
        options = self._options(name)
        values = self._together(name, options, rng)
        likely = 0.3 if mood == "wild" else 0.12 if mood != "good" else 0.05
        for word in options:
            if word not in values and rng.random() < (likely / 4 if word in RARELY else likely):
                values[word] = self._good(name, options[word], rng)
        if "json" in options and rng.random() < 0.4:
            values["json"] = None
        spoiled: set[str] = set()
        able = [word for word in values if not options[word].is_flag]
        if mood == "one" and able and rng.random() < 0.8:
            weights = [5 if word in SOURCES else 2 if word in TARGETS else 1 for word in able]
            spoiled = set(rng.choices(able, weights))
        elif mood in ("some", "wild"):
            spoiled = {word for word in able if rng.random() < 0.4}
        parts: list[tuple[str, ...]] = []
        for word, value in values.items():
            if options[word].is_flag:
                parts.append((f"--{word}",))
            else:
                wrong = self._bad(name, options[word], values, rng) if word in spoiled else str(value)
                parts.append((f"--{word}", wrong))
        if mood in ("one", "wild") and not spoiled and parts and rng.random() < 0.7:
            parts.remove(rng.choice([part for part in parts if part[0] != f"--{TOIL.get(name)}"] or parts))
        rng.shuffle(parts)
        for param in self.commands[name].params:
            if isinstance(param, click.Argument):
                count = 1 if param.nargs == 1 else rng.choice((0, 1, 1, 2))
                known = _words(param.type) or STRINGS
                wrong = mood != "good" and rng.random() < 0.4
                parts.extend((typo(rng.choice(known), rng) if wrong else rng.choice(known),) for _ in range(count))
        return Line(name, tuple(parts))

    def _together(self, name: str, options: dict[str, click.Option], rng: random.Random) -> dict[str, Any]:
        """Options that make sense together; those that the command does not have are left out."""
        values: dict[str, Any] = {}
        if "distribution" in options or "curve" in options:
            if "target" in options and "tc" in options and rng.random() < 0.4:
                values |= {"length": rng.choice((2, 16, 50)), rng.choice(("tc", "dtc")): rng.choice((0, 0.5, 3, 20))}
            elif not ("gauge" in options and rng.random() < 0.5):
                values |= self._data(rng)
            elif rng.random() < 0.7:
                values |= {"length": rng.choice((4, 16, 50))}
            if "gauge" in options and "curve" not in values and rng.random() < 0.2:
                values = {"gauge": rng.choice(self.files.good["gauge"]), "length": LENGTH}
        elif "width" in options:
            values |= {"text": "text.txt", "length": rng.choice((4, 16)), "width": 8, "layers": rng.choice((2, 3))}
            values |= {"heads": 2, "batch": rng.choice((1, 2, 4)), "device": "cpu"}
        elif "model" in options:
            values |= self._model(name, options, rng)
        wanted = [word for word, option in options.items() if option.required]
        wanted += [word for word in ("steps", "size", "order", "orders", "target") if rng.random() < 0.93]
        spare = {rng.choice(("steps", "target"))} if "target" in options and rng.random() < 0.8 else set()
        if "tc" in values or "dtc" in values:
            spare = {"size", "steps"}
        wanted = [word for word in wanted if word not in spare]
        for word in wanted:
            if word in options and word not in values and not (word == "size" and "gauge" in values):
                values[word] = self._good(name, options[word], rng)
        if TOIL.get(name) in options:
            values[TOIL[name]] = rng.choice((1, 2)) if name == "train" else 2
        made = str(values.get("size", "")).startswith(("optimal", "square"))
        if made and "curve" in options and "distribution" not in values:
            values["curve"] = "curve.csv"
            values.pop("length", None)
        return {word: value for word, value in values.items() if word in options}

    def _data(self, rng: random.Random) -> dict[str, Any]:
        length, share = rng.choice((2, 5, 8, 12, 16)), round(rng.random(), 2)
        code = {"length": length, "dimension": max(1, length - 2)}
        kinds: tuple[dict[str, Any], ...] = (
            {"curve": rng.choice(self.files.good["curve"])},
            {"distribution": "reed-solomon", "alphabet": rng.choice((16, 17, 25)), **code},
            {"distribution": "linear", "alphabet": rng.choice((2, 3, 4)), **code},
            {"distribution": "parity", "length": length},
            {"distribution": "markov", "length": length, "alphabet": rng.choice((2, 5)), "stay": share},
            {"distribution": "mixture", "length": length, "bias": share},
            {"distribution": "latent-parity", "length": length},
        )
        return rng.choice(kinds)

    def _model(self, name: str, options: dict[str, click.Option], rng: random.Random) -> dict[str, Any]:
        values: dict[str, Any] = {"model": rng.choice(self.files.good["model"]), "device": "cpu"}
        text = "text.txt"
        if rng.random() < 0.12 and "hf" in self.files.good:
            values["model"], text = "hf:bert", "words.txt"
            values["length"] = 8
        elif rng.random() < 0.05:
            values["model"], values["length"] = "builtin", 16
        if "count" in options:
            values["count"] = rng.choice((1, 2, 3))
        if "text" in options and (options["text"].required or rng.random() < 0.2):
            values |= {"text": text, "texts": rng.choice((2, 4)), "points": rng.choice((2, 5))}
        elif "calibration" in options:
            values["calibration"] = "calibration.json"
            if values["model"] == "builtin" or rng.random() < 0.1:
                values.pop("length", None)
                values |= {"model": "builtin", "calibration": "builtin.json"}
        return values

    def _good(self, name: str, option: click.Option, rng: random.Random) -> Any:
        """A value that can be right."""
        if option.is_flag:
            return None
        word = _word(option)
        several = rng.choice((1, 1, 2)) if _listed(option) else 1
        return ",".join(str(self._one(name, word, option, rng)) for _ in range(several))

    def _one(self, name: str, word: str, option: click.Option, rng: random.Random) -> Any:
        if word == "alphabet" and not _is(option, "integer"):
            return rng.choice(("chars", "bytes", *self.files.good.get("tokenizer", [])))
        if word in TARGETS:
            folder = (option.metavar or "").upper() in ("DIR", "FOLDER", "DIRECTORY")
            endings = {"save": ("json",), "figure": ("png", "svg")}.get(word, ("csv", "jsonl", "parquet"))
            return "new" if folder else f"new.{'json' if name == 'calibrate' else rng.choice(endings)}"
        if word in self.files.good:
            return rng.choice(self.files.good[word])
        if word in SMALL:
            return rng.choice(SMALL[word])
        if known := _words(option.type):
            return rng.choice(known).replace("NUMBER", "0.5")
        if word.startswith("order"):
            return rng.choice(ORDERS)
        if word == "size":
            return rng.choice(SIZES)
        return rng.choice((1, 2, 4)) if _is(option, "integer") or _is(option, "number") else "x"

    def _bad(self, name: str, option: click.Option, values: dict[str, Any], rng: random.Random) -> str:
        """A value that is probably wrong."""
        word = _word(option)
        if word in TARGETS or (isinstance(option.type, click.Path) and word not in SOURCES):
            found = rng.choice((*OUTPUTS, *OUTSIDE, rng.choice(STRINGS)))
            return found if self.guarded or not (found.startswith("/") or ".." in found) else "new"
        if rng.random() < 0.06:
            found = rng.choice((*INTEGERS, *NUMBERS, *STRINGS))
            return found if _bearable(name, word, found) else ""
        if word in SOURCES and not _is(option, "integer"):
            return self._file(word, rng)
        if _listed(option):
            return self._list(name, option, rng)
        if _is(option, "integer"):
            length = int(values["length"]) if str(values.get("length", "")).isdigit() else LENGTH
            found = rng.choice((*INTEGERS, str(length), str(length + 1), str(length - 1), *rng.sample(WORDS, 4)))
            return found if _bearable(name, word, found) else "0"
        if _is(option, "number"):
            return rng.choice(NUMBERS)
        if word == "prompt":
            return rng.choice((*STRINGS, *PROMPTS))
        if word in ("size", "order"):
            return rng.choice((*STRINGS, *SIZES, *ORDERS, *ODD, typo(rng.choice((*SIZES, *ORDERS)), rng)))
        return rng.choice((*STRINGS, *DEVICES, typo(str(values.get(word) or "local"), rng)))

    def _file(self, word: str, rng: random.Random) -> str:
        kinds = {"model": ("model", "model", "hf", "run"), "alphabet": ("tokenizer",)}.get(word, (word,))
        made = self.files.bad.get(rng.choice(kinds), [])
        if made and rng.random() < 0.5:
            return rng.choice(made)
        if rng.random() < 0.5:
            name = rng.choice(self.files.bad["anything"])
            return f"hf:{name}" if word == "model" and rng.random() < 0.3 else name
        others = [name for names in self.files.good.values() for name in names]
        return rng.choice((*PLACES, *others))

    def _list(self, name: str, option: click.Option, rng: random.Random) -> str:
        odd = (*INTEGERS, *WORDS) if _is(option, "integer") else (*STRINGS, *SIZES, *ORDERS, *ODD)
        good = [str(self._one(name, _word(option), option, rng)) for _ in range(3)]
        shapes = (
            rng.choice(odd), f"{good[0]},{rng.choice(odd)}", f"{rng.choice(odd)},{good[0]}",
            f"{good[0]},,{good[1]}", f"{good[0]},", f",{good[0]}", f"{good[0]}, {good[1]}", f"{good[0]},{good[0]}",
            f"{good[0]};{good[1]}", " ".join(good), ",".join(good * 700), "," * 10_000, typo(good[0], rng),
        )  # fmt: skip
        return rng.choice(shapes)


def _word(option: click.Parameter) -> str:
    """The name of an option, without its dashes: the longest of several."""
    return max(option.opts, key=len).lstrip("-")


def _words(kind: Any) -> tuple[str, ...]:
    """The names that a type knows."""
    item = getattr(kind, "item", kind)
    found: Any = getattr(item, "words", None) or getattr(item, "choices", None) or ()
    return () if callable(found) else tuple(map(str, found))


def _listed(option: click.Option) -> bool:
    """Whether an option takes values separated by commas."""
    return hasattr(option.type, "item") or (option.metavar or "") in ("NAMES", "NUMBERS")


def _is(option: click.Option, kind: str) -> bool:
    """Whether the values of an option are integers or numbers, one or a list of them."""
    name = str(getattr(getattr(option.type, "item", option.type), "name", "")).lower()
    return name in {"integer": ("integer", "int", "integer range"), "number": ("number", "float", "float range")}[kind]


def _bearable(name: str, word: str, value: str) -> bool:
    """False where so much work is asked for that nobody could call it a hang."""
    try:
        number = int(value)
    except ValueError:
        return True
    if word in ("draws", "estimate-curve") or TOIL.get(name) == word:
        return not 100 < number <= 2**48
    return word != "count" or not 2000 < number < 10**8
