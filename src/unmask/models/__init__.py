"""Models that you can use with a schedule: the built-in ones, your own, and those from Hugging Face.

"builtin" looks both ways and is at home with any schedule; "causal" is causal in the schedule, made for combs from the
first position on, and computes every token once.

Your own are files saved by `models.transformer`, or made by a function that you name (`models.python`).

A model file holds the weights, the shape, and what is known about the model. Of the latter `load` needs the alphabet:

    "alphabet": "abc "         one token per character
    "alphabet": "bytes"        one token per byte of UTF-8
    "alphabet": "tokenizer"    a tokenizer of the `tokenizers` library, itself under "tokenizer"

A model that was trained for certain schedules says so under "schedules": the JSON of each by a name, with its share.
"""

import os
from importlib import resources
from pathlib import Path
from typing import Any

from unmask import _check as check
from unmask._files import unreadable
from unmask._torch import torch
from unmask.calibration import Calibration
from unmask.models import hf, python, weights
from unmask.models.base import Model
from unmask.models.python import Bare
from unmask.models.text import Alphabet, Bytes, Codec, Tokenizer
from unmask.names import MODELS

BUILTIN = "builtin"
CAUSAL = "causal"
FILE = "model.safetensors"
CHECKPOINT = "checkpoint.pt"  # of a run that is not finished (`unmask.train`)
CALIBRATION = "calibration.json"

__all__ = ["BUILTIN", "CAUSAL", "FILE", "Bare", "Model", "calibration_of", "codec_of", "described", "load"]


def load(
    name: str | os.PathLike[str],
    *,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> Model:
    """Load a model.

    Arguments:
        name: "builtin" or "causal", a file saved by `models.weights.save`, a folder that holds one as
            `model.safetensors`, "hf:" and a folder or name of Hugging Face (see `unmask.models.hf`), or "py:" and a
            function of Python that makes a model, "py:FILE.py:FUNCTION", whose code then runs (see
            `unmask.models.python`).
        device: Where to put it.
        trust_remote_code: Run Python code that comes with a model of Hugging Face.
        allow_pickle: Read weights of a model of Hugging Face from pickle files.

    Raises:
        InputError: if there is no such model, or the file is foreign or damaged, or needs what was not allowed.
    """
    if str(name).startswith(hf.PREFIX):
        bare = str(name).removeprefix(hf.PREFIX)
        return hf.load(bare, device=device, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)
    if trust_remote_code or allow_pickle:
        allowed = "{trust_remote_code}" if trust_remote_code else "{allow_pickle}"
        remedy = f"Write 'hf:{name}', or leave out {allowed}."
        if str(name) in MODELS:
            remedy = f"Leave out {allowed}."
        elif str(name).startswith(python.PREFIX):
            remedy = f"Leave out {allowed}: the code of this model runs in any case."
        raise check.InputError("", f"{allowed} can be used only with a Hugging Face model", remedy=remedy)
    if str(name).startswith(python.PREFIX):
        return python.load(str(name).removeprefix(python.PREFIX), device=device)
    if str(name) in MODELS:
        shipped = MODELS[str(name)].file(FILE)
        if not shipped.is_file():
            raise check.InputError(
                "", f"The model '{name}' is not part of this installation", remedy="Give a model file instead."
            )
        with resources.as_file(shipped) as path:
            return _read(str(name), path, device)
    path = Path(name)
    try:
        if path.is_dir() and not (path / FILE).is_file():
            unfinished = "Its training is not finished: run the same `unmask train` command again."
            raise check.InputError(
                "model", f"contain {FILE} if it is a folder", detail=f"but '{path}' does not",
                remedy=unfinished if (path / CHECKPOINT).is_file() else "",
            )  # fmt: skip
        if not path.exists():
            known = ", ".join(MODELS)
            elsewhere = f"A model from Hugging Face would be hf:{name}."
            raise check.InputError(
                "model", f"be {known} or a model file", detail=f"but '{path}' does not exist",
                remedy="" if path.suffix == ".safetensors" else elsewhere,
            )  # fmt: skip
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise unreadable(path, "model", error) from None
    return _read(str(name), path / FILE if path.is_dir() else path, device)


def calibration_of(model: Model) -> Calibration | None:
    """What was measured of a built-in model and ships with it; None for any other model."""
    if model.name not in MODELS:
        return None
    shipped = MODELS[model.name].file(CALIBRATION)
    if not shipped.is_file():
        return None
    with resources.as_file(shipped) as path:
        return Calibration.load(path)


def _read(name: str, path: Path, device: str | torch.device) -> Model:
    with check.renamed("path", "model"):
        module, about = weights.load(path)
    codec = codec_of(about, module.config.vocab)
    module = module.to(device)
    return Model(name, module, module.predictor(), codec, module.config.length, about)


def codec_of(about: dict[str, Any], vocab: int) -> Codec:
    """The alphabet that a model was saved with.

    Arguments:
        about: What was saved with the model.
        vocab: Number of tokens of the model.

    Raises:
        InputError: if there is none that can be used, or it has another number of tokens.
    """
    alphabet = about.get("alphabet")
    if not isinstance(alphabet, str):
        raise check.InputError("model", "be saved with its alphabet", detail="but this one is not")
    try:
        if "tokenizer" in about:
            codec: Codec = Tokenizer.of(str(about["tokenizer"]))
        else:
            # An alphabet of these five letters has five tokens, not 256.
            codec = Bytes() if alphabet == "bytes" and vocab != len(alphabet) else Alphabet(alphabet)
    except check.InputError as error:
        raise check.InputError("model", "be saved with a usable alphabet", cause=error.about("alphabet")) from None
    if codec.vocab != vocab:
        raise check.InputError("model", f"have as many tokens as its alphabet, {codec.vocab}", found=f"{vocab}")
    return codec


def described(codec: Codec) -> dict[str, Any]:
    """What `codec_of` reads back: to be saved with a model."""
    if isinstance(codec, Alphabet):
        return {"alphabet": codec.characters}
    if isinstance(codec, Tokenizer):
        return {"alphabet": "tokenizer", "tokenizer": codec.inner.to_str()}
    return {"alphabet": "bytes"}
