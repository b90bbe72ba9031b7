"""The command that all models share."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from experiments import common
from experiments.weights import protocol, record, tiny
from experiments.weights.texts import Texts, taken

from unmask import InputError, models
from unmask._atomic import locked
from unmask.words.mistakes import MISTAKES, sentence

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_NAMES = ("wikitext", "lambada", "ag_news")


@final
@dataclass(frozen=True)
class Recipe:
    """What must be known of a model.

    Attributes:
        name: What it is called.
        published: Its name on the hub of Hugging Face.
        load: Loads it: the name or folder, where to, and whether its own code may run.
        tiny: Makes one with random weights of the same architecture: where its files may go, and the folder with the
            code of the architecture.
    """

    name: str
    published: str
    load: Callable[[str, str, bool], models.Model]
    tiny: Callable[[Path, Path], models.Model]


def main(recipe: Recipe, words: Sequence[str] | None = None) -> None:
    """Run the protocol; what is wrong with the words is one sentence, and exit code 2."""
    given = _options(recipe).parse_args(words)
    try:
        print(run(recipe, given))
    except InputError as error:
        sys.exit(_refused(error.sentence(lambda name: f"--{name.replace('_', '-')}")))
    except MISTAKES as error:
        said = sentence(error)
        if said is None:
            raise
        sys.exit(_refused(said))
    except KeyboardInterrupt:
        print(f"Stopped: '{given.output}' has what was finished, and the same command goes on.", file=sys.stderr)
        sys.exit(130)


def _refused(said: str) -> int:
    print(f"Error: {said}", file=sys.stderr)
    return 2


def _options(recipe: Recipe) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.weights.{recipe.name.partition('-')[0].lower()}",
        description=f"What schedules cost {recipe.name}, by exact replay: the protocol of DUEL (arXiv 2603.01367).",
        epilog="The same command again goes on with what is not yet measured.",
    )
    add = parser.add_argument
    add("--model", metavar="NAME", help=f"a folder, or a name on the hub such as {recipe.published}")
    add("--text", type=Path, metavar="FILE", help="your own text, to calibrate on: lines, or JSON lines")
    add("--data", action="append", default=[], metavar="NAME=FILE", help="texts to measure on; repeatable")
    add("--output", type=Path, required=True, metavar="DIR", help="where results are, and go on from")
    add("--texts", type=int, default=32, help="texts of each file (%(default)s)")
    add("--calibration-texts", type=int, default=16, help="texts to calibrate on (%(default)s)")
    add("--length", type=int, help="tokens of a window; 1024 by default")
    add("--rows", action="store_true", help="score every row by itself, in place of windows of the joined rows")
    add("--evaluations", metavar="NUMBERS", help="of a window; by default its length over 8, 4, 2 and 1")
    add("--rules", metavar="NAMES", help=f"some of: {', '.join(protocol.RULES)}")
    add("--block", type=int, help="tokens of a block; 32 by default")
    add("--batch", type=int, default=8, help="texts at once (%(default)s)")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="(%(default)s)")
    add("--dtype", choices=_DTYPES, help="of the weights; as they are stored by default")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--trust-remote-code", action="store_true", help="run the Python code that comes with the model")
    add("--tiny", action="store_true", help="random weights and made-up texts: a try of all of it, in a minute")
    add("--code", type=Path, metavar="DIR", help="with --tiny: a folder with the code of the architecture, which runs")
    return parser


def run(recipe: Recipe, given: argparse.Namespace) -> str:
    """Calibrate, measure what is missing, and write the table.

    Arguments:
        recipe: The model.
        given: The options.

    Returns:
        The table for people.

    Raises:
        InputError: if an option cannot be used, or the folder has results of something else.
    """
    files = _files(given)
    if given.tiny:
        given.length, given.texts = given.length or tiny.LENGTH, min(given.texts, tiny.TEXTS)
        given.calibration_texts, given.block = min(given.calibration_texts, tiny.TEXTS), given.block or tiny.BLOCK
        torch.set_num_threads(1)  # so small a network is slower with more
    _check(given, files)
    plan = _plan(given)
    given.output.mkdir(parents=True, exist_ok=True)
    with locked(given.output / "texts.csv", "output", "written"):
        model = _model(recipe, given, plan.length)
        if given.tiny:
            given.text = given.text or tiny.written(given.output / "tiny" / "own.txt", seed=0)
            places = {name: given.output / "tiny" / f"{name}.txt" for name in _NAMES}
            files = files or {name: tiny.written(each, seed) for seed, (name, each) in enumerate(places.items(), 1)}
        data = {
            name: taken(model, name, file, plan.length, given.texts, whole=given.rows, option="data")
            for name, file in files.items()
        }
        kept = record.Record(given.output, protocol.task(model, plan, data, given.rows))
        calibration = None
        if "advised" in plan.rules:
            own = taken(model, "own", given.text, plan.length, given.calibration_texts, whole=given.rows, option="text")
            calibration = protocol.calibrate(model, own, plan, given.output / "calibration.json")
            longest = max(int(texts.sequences.counts.max()) for texts in data.values())
            if longest > calibration.length:
                longer = f"advice is for rows of up to {calibration.length} tokens, the longest to calibrate on"
                protocol.say(f"{longer}: longer ones get no more steps than that")
        made = protocol.cells(plan, calibration)
        for texts in data.values():
            for cell in made:
                protocol.measure(model, cell, texts, plan, kept)
        return _written(recipe, given, kept, data)


def _written(recipe: Recipe, given: argparse.Namespace, kept: record.Record, data: dict[str, Texts]) -> str:
    rows = record.table(kept, {name: len(texts) for name, texts in data.items()})
    common.write(given.output / "table.csv", record.COLUMNS, rows)
    what = recipe.name
    if given.tiny:
        code = "its real code" if given.code else "a stand-in for its code"
        what = f"{recipe.name}, **random weights on {code}: these numbers show only that it runs**"
    joined = "rows" if given.rows else f"windows of {given.length or 1024} tokens"
    lines = record.shown(rows, (f"{what}; {joined}. {protocol.versions()}.",))
    (given.output / "table.md").write_text(lines, encoding="utf-8")
    return lines


def _files(given: argparse.Namespace) -> dict[str, Path]:
    pairs = [each.partition("=") for each in given.data]
    for (name, equals, file), each in zip(pairs, given.data, strict=True):
        if not (name and equals and file):
            raise InputError("data", "be NAME=FILE", found=f"'{each}'")
    return {name: Path(file) for name, _, file in pairs}


def _check(given: argparse.Namespace, files: dict[str, Path]) -> None:
    if given.code is not None and not given.tiny:
        raise InputError("code", "be left out without {tiny}")
    if given.code is not None and not given.code.is_dir():
        raise InputError("code", "be the name of an existing folder", found=f"'{given.code}'")
    if given.tiny == (given.model is not None):
        raise InputError("", "Give either {model} or {tiny}")
    if not given.tiny and not files:
        raise InputError("data", "be given", remedy="For example: {data} wikitext=wikitext.jsonl.")
    for option, file in [*(("data", each) for each in files.values()), ("text", given.text)]:
        if file is not None and not file.is_file():  # before a large model is loaded
            raise InputError(option, "be the name of an existing file", found=f"'{file}'")
    for name in ("texts", "calibration_texts"):
        if getattr(given, name) < 2:
            raise InputError(name, "be at least 2", found=f"{getattr(given, name)}")
    given.block = 32 if given.block is None else given.block
    for name in ("block", "batch"):
        if getattr(given, name) < 1:
            raise InputError(name, "be at least 1", found=f"{getattr(given, name)}")
    try:
        torch.empty(0, device=given.device)
    except (AssertionError, RuntimeError):
        raise InputError("device", "be one that torch has here", found=f"'{given.device}'") from None


def _plan(given: argparse.Namespace) -> protocol.Run:
    length = 1024 if given.length is None else given.length
    if length < 1:
        raise InputError("length", "be at least 1", found=f"{length}")
    usual = sorted({max(1, length // each) for each in protocol.TOKENS_A_STEP})
    budgets = tuple(_numbers(given.evaluations, length)) if given.evaluations else tuple(usual)
    rules = tuple(each.strip() for each in given.rules.split(",")) if given.rules else protocol.RULES
    if unknown := [each for each in rules if each not in protocol.RULES]:
        raise InputError("rules", f"be some of {', '.join(protocol.RULES)}", found=f"'{unknown[0]}'")
    if "advised" in rules and given.text is None and not given.tiny:
        remedy = "The rule 'advised' is calibrated on your own text. Without one, list the other rules with {rules}."
        raise InputError("text", "be given", remedy=remedy)
    return protocol.Run(length, budgets, given.block, given.batch, given.seed, rules)


def _numbers(words: str, most: int) -> list[int]:
    found = [int(word) if word.strip().isdecimal() else 0 for word in words.split(",")]
    if not all(1 <= number <= most for number in found):
        raise InputError("evaluations", f"be numbers from 1 to {most}, the length of a window", found=f"'{words}'")
    return found


def _model(recipe: Recipe, given: argparse.Namespace, length: int) -> models.Model:
    if given.tiny and given.code is None:
        model = tiny.stand_in(recipe.name, length)
    elif given.tiny:
        model = recipe.tiny(given.output / "tiny", given.code)
    else:
        protocol.say(f"loading {given.model}")
        model = recipe.load(given.model, given.device, given.trust_remote_code)
    network: Any = model.module
    network.to(device=given.device, dtype=_DTYPES.get(given.dtype))
    return model.cut(length)
