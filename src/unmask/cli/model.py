"""What the commands on models share: their options, and how their files are read."""

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import click
from click.core import ParameterSource

from unmask import _check as check
from unmask import models
from unmask._torch import Tensor, torch
from unmask.calibrate import Calibration
from unmask.cli import options
from unmask.cli.completion import Words
from unmask.models.text import Alphabet, Codec, Store
from unmask.schedule import Schedule

_NAME = click.option(
    "--model", "model_name", type=Words([models.BUILTIN], files=True), default=models.BUILTIN, show_default=True,
    metavar="MODEL",
    help="'builtin', a .safetensors file saved by unmask, the folder of `unmask train`, or hf:NAME_OR_FOLDER for a "
    "masked language model of Hugging Face.",
)  # fmt: skip
_TRUST = click.option(
    "--trust-remote-code", is_flag=True, help="Run Python code that comes with a model of Hugging Face."
)
_PICKLE = click.option(
    "--allow-pickle", is_flag=True, help="Read pickled weights where a model of Hugging Face has no safetensors."
)
device = click.option(
    "--device", "device_name", type=Words(["auto", "cpu", "cuda"]), default="auto", show_default=True, metavar="NAME",
    help="cpu, cuda, cuda:1 ...; auto takes a GPU where there is one.",
)  # fmt: skip
length = click.option(
    "--length", type=options.INTEGER, metavar="L",
    help="Tokens per sequence; all the model has by default, and 256 if it is of Hugging Face and has more.",
)  # fmt: skip
unseen = click.option(
    "--text", type=options.FILE, required=True, metavar="FILE",
    help="Text that the model has not seen, in its alphabet; that of the built-in model is a to z and the space.",
)  # fmt: skip
texts = click.option(
    "--texts", "count", type=options.INTEGER, metavar="N",
    help="How many sequences of the text, spread evenly over it; 32, or all if there are fewer.",
)  # fmt: skip

_TEXTS = 32


@dataclass(frozen=True)
class Source:
    """Which model to load, where to, and what it may do.

    Attributes:
        name: As given to `--model`. device: As given to `--device`.
        trust_remote_code, allow_pickle: What a model of Hugging Face may do.
        chosen: Whether `--model` was given at all.
    """

    name: str
    device: str
    trust_remote_code: bool
    allow_pickle: bool
    chosen: bool

    def load(self) -> models.Model:
        return models.load(
            self.name,
            device=device_named(self.device),
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )

    def load_for(self, length: int | None, calibration: Calibration | None = None) -> models.Model:
        """The model for sequences of that length; else of a calibration's length; else of its own."""
        model = self.load()
        if length is None and calibration is not None and calibration.length <= model.length:
            length = calibration.length
        return model.cut(length)

    @property
    def place(self) -> str:
        """The device by its full name."""
        return str(device_named(self.device))

    @property
    def words(self) -> str:
        """The options that name this model again."""
        allowed = " --trust-remote-code" if self.trust_remote_code else ""
        return f"--model {shlex.quote(self.name)}" + allowed + (" --allow-pickle" if self.allow_pickle else "")


def source(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command its model as the argument `source`: the first of its options, and the device."""

    @functools.wraps(command)
    def gathered(
        *, model_name: str, device_name: str, trust_remote_code: bool, allow_pickle: bool, **values: Any
    ) -> None:
        chosen = click.get_current_context().get_parameter_source("model_name") is not ParameterSource.DEFAULT
        command(source=Source(model_name, device_name, trust_remote_code, allow_pickle, chosen), **values)

    return _NAME(_TRUST(_PICKLE(device(gathered))))


def device_named(word: str) -> torch.device:
    """The device of that name, if this machine has it."""
    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(word)
    except RuntimeError:
        raise check.InputError("device", "be auto, cpu or cuda", found=check.shown(str(word))) from None
    if found.type not in ("cpu", "cuda"):
        raise check.InputError("device", "be auto, cpu or cuda", found=check.shown(str(word)))
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise check.InputError("device", "be there", detail=f"and this machine has no '{word}'", remedy="Take cpu.")
    return found


def read_text(path: Path, codec: Codec | None = None) -> str:
    """The text of a file. A line break that ends it is not part of it, unless the alphabet has line breaks."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError("text", "name a file to read", found=f"'{path}': {reason}") from None
    except UnicodeDecodeError:
        raise check.InputError("text", "be a file of UTF-8 text", detail=f"which '{path}' is not") from None
    if isinstance(codec, Alphabet) and "\n" not in codec.characters:
        text = text.removesuffix("\n").removesuffix("\r")
    return text


def _plainer(codec: Codec, path: Path) -> str:
    """How to make an English text fit a model of letters, if it is one."""
    if not isinstance(codec, Alphabet) or set(codec.characters) != {*ascii_lowercase, " "}:
        return ""
    return f" This makes it fit: tr A-Z a-z < {shlex.quote(str(path))} | tr -cs a-z ' ' > plain.txt"


def read_windows(model: models.Model, path: Path, count: int | None) -> Tensor:
    """Disjoint sequences of the model's length, spread evenly over the text, on the model's device."""
    text = read_text(path, model.codec)
    try:
        store = Store.of(text, model.codec)
    except ValueError as error:
        raise check.InputError("", f"{error}{_plainer(model.codec, path)}") from None
    most = len(store) // model.length
    if count is not None:
        check.integer("texts", count, least=2)
    if most < 2:
        raise check.InputError(
            "text",
            f"have at least two sequences of {model.length} tokens",
            detail=f"and '{path}' has {len(store)} tokens",
        )
    if count is not None and count > most:
        raise check.InputError(
            "texts", f"be at most {most}", found=f"{count}: '{path}' has no more sequences of {model.length} tokens"
        )
    return torch.from_numpy(store.even_windows(model.length, count or min(_TEXTS, most))).to(model.device)


def read_calibration(path: Path) -> Calibration:
    """A calibration, of whatever model."""
    try:
        with check.renamed("path", "calibration"):
            return Calibration.load(path)
    except ValueError:
        if _loads(Schedule, path):
            raise check.InputError(
                "calibration",
                f"name a calibration, and '{path}' is a schedule: what `unmask calibrate` writes",
                found="what `unmask advise` saves",
            ) from None
        raise
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError("calibration", "name a file to read", found=f"'{path}': {reason}") from None


_REMEDY = "Give the --model that was measured, or run `unmask calibrate` for this one."


def check_calibration(found: Calibration, path: Path, model: models.Model, remedy: str = _REMEDY) -> None:
    """Refuse a calibration that was made for another model or length, with what to do about it."""
    if found.length != model.length:
        raise check.InputError(
            "",
            f"The calibration '{path}' was made for sequences of {found.length} tokens, and this model has {model.length}",
            remedy=f"{remedy}",
        )
    if found.model != model.fingerprint:
        raise check.InputError("", f"The calibration '{path}' was made for another model", remedy=f"{remedy}")


def read_schedule(path: Path) -> Schedule:
    """A schedule saved by `unmask advise --save` or `Schedule.save`."""
    try:
        with check.renamed("path", "schedule"):
            return Schedule.load(path)
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError("schedule", "name a file to read", found=f"'{path}': {reason}") from None
    except ValueError:
        if _loads(Calibration, path):
            advise = f"unmask advise --calibration {shlex.quote(str(path))} --target 0.05"
            raise check.InputError(
                "schedule",
                "name a schedule",
                detail=f"and '{path}' is a calibration",
                remedy=f"Run `{advise} --save schedule.json` to make one of it.",
            ) from None
        raise


def _loads(kind: type[Calibration] | type[Schedule], path: Path) -> bool:
    """Whether the file holds one of those."""
    try:
        kind.load(path)
    except ValueError:
        return False
    return True
