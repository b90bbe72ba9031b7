"""Files that people name: texts, calibrations and schedules. Whatever is wrong with one is said in one sentence."""

import shlex
from importlib import resources
from pathlib import Path
from string import ascii_lowercase

from unmask import _check as check
from unmask import _files
from unmask.calibration import Calibration
from unmask.names import MODELS
from unmask.schedule import Schedule

BUILTIN = "builtin"
CAUSAL = "causal"
_OTHER_MODEL = "Give the {model} that was measured, or run `unmask calibrate` for this one."


def read_text(path: Path) -> str:
    """The text of a file."""
    return _files.read_text(path, "text", most=_files.TEXT)


def plainer(characters: str, path: Path) -> str:
    """How to make an English text fit a model of these characters, if they are the letters and the space."""
    if set(characters) != {*ascii_lowercase, " "}:
        return ""
    return f"To make it fit, run: tr A-Z a-z < {shlex.quote(str(path))} | tr -cs a-z ' ' > plain.txt"


def read_calibration(path: Path, *, called: str | None = None) -> Calibration:
    """A calibration, of whatever model.

    Arguments:
        path: The file.
        called: What the user calls it; its path by default.
    """
    name = called or str(path)
    try:
        with check.blamed("calibration", "be a usable calibration file", name), check.renamed("path", "calibration"):
            return Calibration.load(path)
    except check.InputError as error:
        if _loads(Schedule, path):
            raise error.changed(
                argument="calibration",
                must="be a calibration file",
                found="",
                detail=f"but '{name}' is a schedule",
                cause=None,
                remedy="`unmask calibrate` writes calibrations, and `unmask advise` saves schedules.",
            ) from None
        if not (error.found or error.detail):  # the library knows the path, which may not be what the user calls it
            raise error.changed(detail=f"but '{name}' is not") from None
        raise


def shipped_calibration(model: str = BUILTIN) -> Calibration | None:
    """What was measured of a built-in model, and ships with it; found without loading the model. None for others."""
    if model not in MODELS:
        return None
    shipped = MODELS[model].file("calibration.json")
    if not shipped.is_file():
        return None
    with resources.as_file(shipped) as path:
        return Calibration.load(path)


def of_one_length(calibration: Calibration) -> bool:
    """Whether all texts that it was measured on have as many tokens to fill."""
    return calibration.tokens == calibration.length


def check_calibration(
    found: Calibration, path: Path, length: int | None, fingerprint: str, remedy: str = _OTHER_MODEL
) -> None:
    """Refuse a calibration that was made for another model or length, with what to do about it.

    Where texts differ in their number of tokens, whether here or there, only the model must be the same.

    Arguments:
        found: The calibration.
        path: Where it was found.
        length: Tokens of a sequence of the model; None where they differ.
        fingerprint: The model's.
        remedy: What to do about it.
    """
    if length is not None and of_one_length(found) and found.length != length:
        made = f"The calibration '{path}' was made for sequences of {found.length} tokens"
        raise check.InputError("", f"{made}, but this model's sequences have {length}", remedy=remedy)
    if found.model != fingerprint:
        raise check.InputError("", f"The calibration '{path}' was made for another model", remedy=remedy)


def read_schedule(path: Path) -> Schedule:
    """A schedule saved by `unmask advise --save` or `Schedule.save`."""
    try:
        with check.blamed("schedule", "be a usable schedule file", str(path)), check.renamed("path", "schedule"):
            return Schedule.load(path)
    except check.InputError as error:
        if _loads(Calibration, path):
            command = f"unmask advise --calibration {shlex.quote(str(path))} --target 0.05 --save schedule.json"
            raise error.changed(
                argument="schedule",
                must="be a schedule file",
                found="",
                detail=f"but '{path}' is a calibration",
                cause=None,
                remedy=f"Run `{command}` to make a schedule from it.",
            ) from None
        raise


def _loads(kind: type[Calibration] | type[Schedule], path: Path) -> bool:
    """Whether the file holds one of those."""
    try:
        kind.load(path)
    except check.InputError:
        return False
    return True
