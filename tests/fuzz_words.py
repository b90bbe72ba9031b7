"""Command lines of `unmask` drawn at random: most of them almost right.

Commands, options, their types and the names they take are read from the commands themselves, so that a new option is
tried as soon as it exists. What is written down here is what no command can tell: which options belong together, which
values keep the work small, and what people and scripts get wrong.
"""

import random
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import click
from fuzz_files import LENGTH, Files

# How often a command is tried; one that is not named here, twice.
WEIGHTS = {
    "plan": 4, "expect": 5, "steps": 2, "generate": 5, "evaluate": 4, "calibrate": 3, "advise": 4, "train": 4, "explore": 0.6,
    "demo": 0.15, "reproduce": 0.3, "completion": 0.5,
}  # fmt: skip
HEAVY = ("demo", "reproduce")  # seconds, if nothing is wrong
TOIL = {"train": "steps", "reproduce": "draws"}  # more than seconds, unless this says otherwise
RARELY = ("workers", "address", "dimension", "alphabet", "stay", "bias", "trust-remote-code", "allow-pickle", "chat")  # mostly in the way
PIPED = "/dev/fd/9"  # a curve that comes through a pipe

INTEGERS = (
    "0", "1", "-1", "2", "3", "15", "16", "17", "-0", "+5", "007", "1_000", "1e3", "3.0", "2.5", "0x10", "1000", "100000", "1000000",
    "1000000000", str(2**31), str(2**48), str(2**48 + 1), str(2**63), str(2**64), str(10**14), str(-(10**14)), "9" * 400, "9" * 5000, "nan",
    "inf", "1e308", "", " ", " 4 ", "٣", "４", "½", "x", "4x", "None", "true",
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "0.5", "-0.0", "1e-308", "5e-324", "1e-400", "1e308", "-1e308", "1e400", "nan", "-nan", "inf", "-inf", "infinity",
    "1_0", "0x1p3", "½", "٣.٥", "1,5", "", " ", ".", "e", "1e", "9" * 400, "1e15", "1e-15", "0.9999999999999999", "1.0000000000000002", "x",
)  # fmt: skip
STRINGS = (
    "", " ", "x", "X", "-", "--", "_", "a" * 10_000, "a b " * 2000, "é", "𝔘𝔫𝔦", "日本語", "\u202eabc", "\x1b[31mred\x07", "a\nb", "a\tb", "\r",
    "[/]", "[/bold]", "[red]", "[link=x]", "{}", "{steps}", "{0}", "%s%n", "$(id)", "`id`", "../..", "'", '"', "\\", "*", "~", "\udcff", "\x7f",
    ",", ",,", ":", "a:b", "None", "null", "nan", "--json", "--help", "-h", "@file", "=", "a=b",
)  # fmt: skip
PLACES = (
    "missing.json", "missing/file.json", ".", "..", "/", "", "~", "curve.csv/x", "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom",
    "/dev/stdin", "/dev/tty", PIPED, "/proc/self/mem", "/proc/self/environ", "/etc/shadow", "x" * 300, "x" * 10_000, "a\nb.json", "\x1b[31m.json",
    "\udcff.json", "[/b].json", "{name}.json", "file:///etc/passwd", "https://example.org/x.json", "-", " ", "hf:", "hf:missing", "hf:/missing",
    "hf:./missing", "hf:.", "hf:a/b/c", "hf:bert-base-uncased", "hf:" + "x" * 10_000, "hf:[/b]", "hf:../../x", "hf:a b", "hf:\x1b[31m",
)  # fmt: skip
OUTPUTS = (
    "new", "new.xyz", "new.CSV", ".new.json", "new.json", "new.csv", "new.jsonl", "new.png", "missing/new.json", ".", "", "folder", "curve.csv",
    "calibration.json", "run", "run-empty", "loop", "x" * 300 + ".json", "a\nb.json", "\x1b[31m.csv", "\udcff.jsonl", "[/b].json", " ",
    "run/model.safetensors", "curve.csv/new.json", "a/b/c/d",
)  # fmt: skip
OUTSIDE = ("/", "..", "/dev/null", "/dev/full", "/dev/zero", "/dev/stdout", "/proc/new.json", "/new.json", "/dev/new.csv", "~")
SIZES = ("even", "cosine", "tc", "dtc", "minimax-min", "logit", "log-linear", "offset", "universal", "optimal", "square-root")
ORDERS = ("random", "spread", "comb", "comb-4", "left-to-right", "dilated", "confidence", "margin", "entropy")
KINDS = ("curve", "gauge", "schedule", "calibration", "text")


@dataclass(frozen=True)
class Line:
    """A command line.

    Arguments:
        command: Its first word; may be empty.
        parts: The others, those together that belong together.
        plain: Whether every option has the value that was meant for it.
        complete: The shell that asks how the last word could go on, if one does.
    """

    command: str
    parts: tuple[tuple[str, ...], ...]
    plain: bool = True
    complete: str = ""

    @property
    def words(self) -> list[str]:
        return ([self.command] if self.command else []) + [word for part in self.parts for word in part]

    @property
    def json(self) -> bool:
        """Whether the answer must be JSON."""
        return self.plain and not self.complete and ("--json",) in self.parts and ("--help",) not in self.parts

    def without(self, number: int) -> "Line":
        return replace(self, parts=self.parts[:number] + self.parts[number + 1 :])

    def __str__(self) -> str:
        words = [word if len(word) <= 60 else f"{word[:20]}…{len(word)} letters…{word[-10:]}" for word in self.words]
        shown = " ".join(shlex.quote(word) if word.isprintable() else f"$'{_escaped(word)}'" for word in words)
        return f"[{self.complete} asks] unmask {shown}" if self.complete else f"unmask {shown}"


def _escaped(word: str) -> str:
    return word.encode("unicode_escape", "surrogatepass").decode().replace("'", "\\'")


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

    def line(self, seed: int, number: int) -> Line:
        """The command line of that number."""
        rng = random.Random(f"{seed}-{number}")
        if rng.random() < 0.02:
            return self._top(rng)
        names = list(self.commands)
        name = rng.choices(names, [WEIGHTS.get(name, 2) for name in names])[0]
        mood = rng.choices(("good", "one", "some", "wild"), (4, 9, 4, 1))[0]
        line = self._of(name, mood, rng)
        if mood != "good" and rng.random() < 0.25:
            line = _bent(line, rng)
        if "port" in self._options(name):  # it would serve: nothing but mistakes
            wrong = ("--port", rng.choice(("0", "-1", "65536", "x", "")))
            line = replace(line, parts=(*line.parts, rng.choice((wrong, ("--unknown",), ("--help",)))))
        if name in HEAVY and rng.random() < 0.85:
            wrong = (("--output", "curve.csv"), ("--unknown",), ("--help",), ("--seed", "-1"), (rng.choice(STRINGS),), ("--output",))
            line = replace(line, parts=(*line.parts, rng.choice(wrong)), plain=False)
        if rng.random() < 0.02 and all("\n" not in word and "\udcff" not in word for word in line.words):
            return replace(line, complete=rng.choice(("bash", "zsh", "fish")))
        return line

    def good(self, seed: int, number: int, name: str) -> Line:
        """A command line of that command with nothing wrong."""
        return self._of(name, "good", random.Random(f"{seed}-{name}-{number}"))

    def options_of(self, name: str) -> set[str]:
        """Every option of a command, as it is written."""
        found = self.commands.get(name)
        params = [] if found is None else found.params
        return {word for param in params if isinstance(param, click.Option) for word in (*param.opts, *param.secondary_opts)}

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
            spoiled = {rng.choice(able)}
        elif mood in ("some", "wild"):
            spoiled = {word for word in able if rng.random() < 0.4}
        parts = [
            (f"--{word}",) if options[word].is_flag else (f"--{word}", self._bad(name, options[word], values, rng) if word in spoiled else str(value))
            for word, value in values.items()
        ]  # fmt: skip
        if mood in ("one", "wild") and not spoiled and parts and rng.random() < 0.7:
            parts.remove(rng.choice([part for part in parts if part[0] != f"--{TOIL.get(name)}"] or parts))
        rng.shuffle(parts)
        for param in self.commands[name].params:
            if isinstance(param, click.Argument):
                count = 1 if param.nargs == 1 else rng.choice((0, 1, 1, 2))
                known = _words(param.type) or STRINGS
                wrong = mood != "good" and rng.random() < 0.4
                parts.extend((_typo(rng.choice(known), rng) if wrong else rng.choice(known),) for _ in range(count))
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
                values |= {"gauge": rng.choice(self.files.good["gauge"]), "length": LENGTH}
                values.pop("distribution", None)
        elif "width" in options:
            shape = {"length": rng.choice((4, 16)), "width": 8, "layers": rng.choice((2, 3)), "heads": 2, "batch": rng.choice((1, 2, 4))}
            values |= {"text": "text.txt", **shape, "steps": rng.choice((1, 2)), "device": "cpu"}
        elif "model" in options:
            values |= self._model(name, options, rng)
        wanted = [word for word, option in options.items() if option.required]
        wanted += [word for word in ("steps", "size", "order", "orders", "target") if rng.random() < 0.8]
        if "calibration" in values and "target" in options:  # what to do with it: one of the two
            wanted = [word for word in wanted if word != rng.choice(("steps", "target"))]
        for word in wanted:
            if word in options and word not in values and not (word == "size" and "gauge" in values):
                values[word] = self._good(name, options[word], rng)
        if TOIL.get(name) in options:
            values[TOIL[name]] = rng.choice((1, 2)) if name == "train" else 2
        if str(values.get("size", "")).startswith(("optimal", "square")) and "curve" in options and "distribution" not in values:
            values["curve"] = "curve.csv"
            values.pop("length", None)
        return {word: value for word, value in values.items() if word in options}

    def _data(self, rng: random.Random) -> dict[str, Any]:
        length, stay = rng.choice((2, 5, 8, 12, 16)), round(rng.random(), 2)
        kinds: tuple[dict[str, Any], ...] = (
            {"curve": rng.choice(self.files.good["curve"])},
            {"distribution": "reed-solomon", "length": length, "dimension": max(1, length - 2), "alphabet": rng.choice((16, 17, 25))},
            {"distribution": "parity", "length": length},
            {"distribution": "linear", "length": length, "dimension": max(1, length // 2), "alphabet": rng.choice((2, 3, 4))},
            {"distribution": "markov", "length": length, "alphabet": rng.choice((2, 5)), "stay": stay},
            {"distribution": "mixture", "length": length, "bias": stay},
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
        word, listed = _word(option), hasattr(option.type, "item")
        if option.is_flag:
            return None
        several = rng.choice((1, 1, 2)) if listed else 1
        return ",".join(str(self._one(name, word, option, rng)) for _ in range(several))

    def _one(self, name: str, word: str, option: click.Option, rng: random.Random) -> Any:
        small: dict[str, tuple[Any, ...]] = {
            "length": (4, 8, 16), "steps": (1, 2, 4, 8), "seed": (0, 1, 7), "draws": (2, 20), "estimate-curve": (4, 20), "count": (1, 2),
            "texts": (2, 4), "points": (2, 5), "target": (0, 0.05, 1, 5), "tc": (0, 3), "dtc": (0, 3), "temperature": (0, 0.5, 1, 2),
            "top-p": (0.1, 0.9, 1), "minutes": (0, 0.001), "rate": (0.001, 0.01), "stay": (0, 0.5, 1), "bias": (0, 0.3, 1), "dimension": (1, 2),
            "device": ("cpu", "auto"), "engine": ("local", "local", "ray"), "workers": (1, 2), "address": ("auto",), "host": ("127.0.0.1",),
            "port": (7860,), "prompt": ("ab__cd", "a_", "the _ sat", "abc"), "masks": ("uniform", "comb"), "alphabet": (2, 3, 16), "width": (8, 16),
            "layers": (2,), "heads": (1, 2), "batch": (1, 2),
        }  # fmt: skip
        if word == "alphabet" and not _is(option, "integer"):
            return rng.choice(("chars", "bytes", *self.files.good.get("tokenizer", [])))
        if word in ("output", "save", "figure"):
            folder = (option.metavar or "").upper() in ("DIR", "FOLDER", "DIRECTORY")
            return "new" if folder else rng.choice({"save": ("new.json",), "figure": ("new.png", "new.svg")}.get(word, ("new.csv", "new.jsonl", "new.parquet") if name != "calibrate" else ("new.json",)))
        if word in self.files.good:
            return rng.choice(self.files.good[word])
        if word in small:
            return rng.choice(small[word])
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
        if word in ("output", "save", "figure") or (isinstance(option.type, click.Path) and word not in (*KINDS, "model")):
            found = rng.choice((*OUTPUTS, *OUTSIDE, rng.choice(STRINGS)))
            return found if self.guarded or not (found.startswith("/") or ".." in found) else "new"
        if rng.random() < 0.06:
            found = rng.choice((*INTEGERS, *NUMBERS, *STRINGS))
            return found if _bearable(name, word, found) else ""
        if word in (*KINDS, "model", "alphabet") and not _is(option, "integer"):
            return self._file(word, rng)
        if hasattr(option.type, "item"):
            return self._list(name, option, values, rng)
        if _is(option, "integer"):
            length = int(values["length"]) if str(values.get("length", "")).isdigit() else LENGTH
            found = rng.choice((*INTEGERS, str(length), str(length + 1), str(length - 1)))
            return found if _bearable(name, word, found) else "0"
        if _is(option, "number"):
            return rng.choice(NUMBERS)
        if word == "prompt":
            return rng.choice((*STRINGS, "_" * 16, "_" * 17, "a" * 16, "[MASK] _", "the [SEP] _", "zebra _", "A_", "_" * 5000))
        if word in ("size", "order"):
            return rng.choice((*STRINGS, *SIZES, *ORDERS, *_ODD, _typo(rng.choice((*SIZES, *ORDERS)), rng)))
        return rng.choice((*STRINGS, _typo(str(values.get(word) or "local"), rng), "cuda", "cuda:99", "mps", "meta", "ray", "cpu:3"))

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

    def _list(self, name: str, option: click.Option, values: dict[str, Any], rng: random.Random) -> str:
        item = option.type.item  # pyright: ignore[reportAttributeAccessIssue]
        odd = INTEGERS if getattr(item, "name", "") == "integer" else (*STRINGS, *SIZES, *ORDERS, *_ODD)
        good = [str(self._one(name, _word(option), option, rng)) for _ in range(3)]
        shapes = (
            rng.choice(odd), f"{good[0]},{rng.choice(odd)}", f"{rng.choice(odd)},{good[0]}", f"{good[0]},,{good[1]}", f"{good[0]},", f",{good[0]}",
            f"{good[0]}, {good[1]}", f"{good[0]},{good[0]}", f"{good[0]};{good[1]}", " ".join(good), ",".join(good * 700), "," * 10_000, _typo(good[0], rng),
        )  # fmt: skip
        return rng.choice(shapes)


_ODD = (
    "comb-0", "comb-1", "comb-16", "comb-17", "comb-999999999999", "comb--1", "comb-", "comb-x", "comb-1.5", "comb-" + "9" * 5000, "comb-٣", "threshold",
    "threshold:", "threshold:0.9", "threshold:0", "threshold:1", "threshold:2", "threshold:-1", "threshold:nan", "threshold:inf", "threshold:x",
    "threshold:0.5:0.5", "factor:0", "factor:1", "factor:1e308", "factor:-1", "entropy-bound:0", "entropy-bound:1e-320", "entropy-bound:1",
    "nothing:1", ":", ":1", "minimax", "EVEN", "Random",
)  # fmt: skip


def _word(option: click.Parameter) -> str:
    """The name of an option, without its dashes: the longest of several."""
    return max(option.opts, key=len).lstrip("-")


def _words(kind: Any) -> tuple[str, ...]:
    """The names that a type knows."""
    item = getattr(kind, "item", kind)
    return tuple(str(word) for word in (getattr(item, "words", None) or getattr(item, "choices", None) or ()))


def _is(option: click.Option, kind: str) -> bool:
    """Whether the values of an option are integers or numbers, one or a list of them."""
    name = getattr(getattr(option.type, "item", option.type), "name", "").lower()
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


def _typo(word: str, rng: random.Random) -> str:
    if not word:
        return "x"
    place = rng.randrange(len(word))
    changes = (word[:place] + word[place + 1 :], word[:place] + "q" + word[place:], word.upper(), word + "s", word[: place + 1], f" {word}", f"{word}\n")
    return rng.choice(changes)


def _bent(line: Line, rng: random.Random) -> Line:
    """The same line with a slip of the hand."""
    parts = list(line.parts)
    if not parts:
        return replace(line, parts=((rng.choice(STRINGS),),), plain=False)
    place = rng.randrange(len(parts))
    part = parts[place]

    def slips() -> Iterator[list[tuple[str, ...]]]:
        before, after = parts[:place], parts[place + 1 :]
        yield [*before, part[:1], *after]  # the value is missing
        yield [*parts, part]  # twice
        yield [*parts, (part[0], *rng.choice(STRINGS).split("\n")[:1])] if len(part) > 1 else [*parts, part, part]
        yield [*parts, (rng.choice(("--unknown", "--lenght", "-x", "--Json", "-", "---json", "--no-json", "--", "-h")),)]
        yield [*before, (_typo(part[0], rng), *part[1:]), *after]
        yield [*before, (part[0][: rng.randrange(3, 8)], *part[1:]), *after]  # the beginning of a name
        yield [*before, ("=".join(part),), *after]
        yield [*before, (part[0] + "=",), *after]
        yield [*before, ("--",), part, *after]
        yield [*before, (rng.choice(STRINGS),), part, *after]  # a word too many
        yield [*before, part[::-1], *after]
        yield [*parts, ("--help",)]

    return replace(line, parts=tuple(rng.choice(list(slips()))), plain=False)
