"""Which model, on which device; and windows of a text.

torch takes a second to load, and what is asked for may be refused before: it is imported where a model is.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.calibration import Calibration
from unmask.words.inputs import BUILTIN, check_calibration, of_one_length, plainer, read_calibration, read_text

if TYPE_CHECKING:
    from unmask._torch import Tensor, torch
    from unmask.models import Model


@final
@dataclass(frozen=True)
class Source:
    """Which model to load, where to, and what it may do.

    Attributes:
        name: The model.
        device: The device in words.
        trust_remote_code: Whether a model of Hugging Face may run its own code.
        allow_pickle: Whether it may have pickled weights.
    """

    name: str = BUILTIN
    device: str = "auto"
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def load(self) -> "Model":
        """The model."""
        from unmask import models

        return models.load(
            self.name,
            device=device_named(self.device),
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )

    def load_for(self, length: int | None, calibration: Calibration | None = None, *, whole: bool = False) -> "Model":
        """The model for sequences of that length; else of a calibration's length; else of its own.

        Arguments:
            length: Tokens of a sequence; None where nobody said.
            calibration: A calibration, for the length of its texts, if they have one.
            whole: Whether sequences have lengths of their own, and may be as long as the model takes.
        """
        model = self.load()
        if whole and length is None:
            return model
        equal = calibration is not None and of_one_length(calibration)
        if length is None and calibration is not None and equal and calibration.length <= model.length:
            length = calibration.length
        return model.cut(length)

    def measured(
        self, length: int | None, file: Path | None, *, whole: bool = False
    ) -> "tuple[Model, Calibration | None]":
        """The model with the calibration in a file, if there is one, which must be of that model."""
        calibration = None if file is None else read_calibration(file)
        model = self.load_for(length, calibration, whole=whole)
        if calibration is not None and file is not None:
            check_calibration(calibration, file, None if whole else model.length, model.fingerprint)
        return model, calibration

    @property
    def place(self) -> str:
        """The device by its full name."""
        return str(device_named(self.device))

    @property
    def words(self) -> str:
        """The options of a command that name this model again."""
        allowed = " --trust-remote-code" if self.trust_remote_code else ""
        return f"--model {shlex.quote(self.name)}" + allowed + (" --allow-pickle" if self.allow_pickle else "")


def file_of(name: str) -> Path:
    """The file that a word for a model names: of a folder the weights, of a function the code."""
    path = Path(name.removeprefix("hf:"))
    if name.startswith("py:"):
        path = Path(os.path.expanduser(name.removeprefix("py:").rpartition(":")[0]))
    return path / "model.safetensors" if path.is_dir() else path  # `unmask.models.FILE`, without torch


def device_named(word: str) -> "torch.device":
    """The device of that name, if this machine has it."""
    from unmask._torch import torch

    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(word)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise check.InputError("device", "be auto, cpu or cuda", found=check.shown(word))
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise check.InputError(
            "device", "be available", detail=f"but this machine has no '{word}'", remedy="Use cpu or auto."
        )
    return found


def windows(model: "Model", path: Path, count: int | None, usual: int) -> "Tensor":
    """Disjoint sequences of the model's length, spread evenly over a text, on the model's device.

    Arguments:
        model: The model.
        path: The text.
        count: How many; None where nobody said.
        usual: How many then, or all if there are fewer.
    """
    from unmask._torch import torch
    from unmask.models.text import Alphabet, Store

    text = read_text(path)
    remedy = ""
    if isinstance(model.codec, Alphabet):
        remedy = plainer(model.codec.characters, path)
        if "\n" not in model.codec.characters:  # then a line break that ends the file is not part of the text
            text = text.removesuffix("\n").removesuffix("\r")
    try:
        store = Store.of(text, model.codec)
    except check.InputError as error:
        raise error.changed(remedy=remedy or error.remedy) from None
    most = len(store) // model.length
    if count is not None:
        check.integer("texts", count, least=2)
    if most < 2:
        wanted = f"have at least two sequences of {model.length} tokens"
        remedy = "Give a longer text, or a smaller {length}."
        raise check.InputError("text", wanted, detail=f"but '{path}' has {len(store)} tokens", remedy=remedy)
    if count is not None and count > most:
        detail = f"since '{path}' has no more sequences of {model.length} tokens"
        raise check.InputError("texts", f"be at most {most}", found=f"{count}", detail=detail)
    return torch.from_numpy(store.even_windows(model.length, count or min(usual, most))).to(model.device)
