"""The files that a Hugging Face folder asks us to read, checked before they are read.

The weights of a large model lie in several files, which an index names. It can name anything: pickled weights, which
run what they like when they are read, or files that have nothing to do with the model.

And a checkpoint can lack weights, which transformers makes up. It says so if it is asked, but not where a model's own
code stands between (Dream's does): then the names in the files are compared with those of the network.
"""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unmask import _check as check
from unmask._files import NUMBERS, read_text
from unmask._torch import torch

_SINGLE = ("model.safetensors", "pytorch_model.bin")
_SAFE, _SAFE_INDEX, _PICKLED_INDEX = ".safetensors", "model.safetensors.index.json", "pytorch_model.bin.index.json"


def check_weights(folder: Path, config: dict[str, Any], *, allow_pickle: bool) -> None:
    """Refuse a folder whose configuration or index names weights that are pickled, or are not in the folder.

    Arguments:
        folder: The folder.
        config: Its configuration.
        allow_pickle: Whether pickled weights may be read.

    Raises:
        InputError: if there are such, or the index cannot be read.
    """
    # A configuration may name the file itself; without that, an index of pickled weights is read only if allowed.
    explicit = config.get("transformers_weights")
    indices = [_SAFE_INDEX, *([_PICKLED_INDEX] if allow_pickle else [])]
    if explicit is not None:
        _check_name(folder, "config.json", explicit)
        if str(explicit).endswith(".index.json"):
            indices.append(str(explicit))
        elif not allow_pickle and not str(explicit).endswith(_SAFE):
            raise pickled(str(folder))
    for index in indices:
        if (folder / index).is_file():
            for name in _named(folder / index):
                _check_name(folder, index, name)
                if not allow_pickle and not str(name).endswith(_SAFE):
                    raise pickled(str(folder))


def lacking(network: Any, name: str, find: Callable[[str], str | None]) -> list[str]:
    """The weights of a network that its checkpoint has not.

    Arguments:
        network: The network.
        name: What it was loaded as.
        find: Where a file of the checkpoint is on this machine, if it has one of that name.
    """
    stored = _stored(name, find)
    prefix = f"{getattr(network, 'base_model_prefix', '')}."
    values: dict[str, Any] = network.state_dict()
    # A checkpoint of the inner model alone has its names without what stands before them in the whole.
    known = {key for key in values if key in stored or key.removeprefix(prefix) in stored}
    # Weights that are one and the same are stored once.
    places = {values[key].data_ptr() for key in known}
    return sorted(key for key in values if key not in known and values[key].data_ptr() not in places)


def _stored(name: str, find: Callable[[str], str | None]) -> set[str]:
    """The names of the weights in a checkpoint."""
    for index in (_SAFE_INDEX, _PICKLED_INDEX):
        if (path := find(index)) is not None:
            return set(_index(Path(path)))
    for file in _SINGLE:
        if (path := find(file)) is not None:
            if file.endswith(_SAFE):
                safetensors: Any = import_module("safetensors")
                with safetensors.safe_open(path, framework="pt") as held:
                    return set(held.keys())
            return set(torch.load(path, map_location="meta", weights_only=True))
    raise check.InputError(
        "model", "have its weights in files with known names", detail=f"but '{name}' has no such file"
    )


def pickled(name: str) -> check.InputError:
    """The sentence for a model whose weights are pickled."""
    return check.InputError(
        "",
        f"The model '{name}' has no weights in safetensors format",
        remedy="Pickled weights can run any code. "
        "If the model has pickled weights and you trust them, add {allow_pickle}.",
    )


def _named(index: Path) -> Iterator[object]:
    """The files that an index names, once each."""
    yield from dict.fromkeys(_index(index).values())


def _index(index: Path) -> dict[str, object]:
    """What an index says: the file of each weight."""
    text = read_text(index, "model", most=NUMBERS)
    try:
        return dict(json.loads(text)["weight_map"].items())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise check.InputError("model", "have an index of its weights", detail=f"but '{index}' is not one") from None


def _check_name(folder: Path, source: str, name: object) -> None:
    """Refuse a name that leads out of the folder, by the rules of any system."""
    if isinstance(name, str) and name and "\0" not in name:
        paths = PurePosixPath(name), PureWindowsPath(name)
        if not any(path.anchor or ".." in path.parts for path in paths):
            return
    raise check.InputError(
        "model", "have all its weights in its folder", detail=f"but {source} of '{folder}' names {check.shown(name)}"
    )
