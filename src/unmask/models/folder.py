"""What a folder of Hugging Face would have us read, looked at before it is read.

The weights of a large model lie in several files, which an index names. It can name anything: pickled weights, which
run what they like when they are read, or files that have nothing to do with the model.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unmask import _check as check
from unmask._files import NUMBERS, read_text

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


def pickled(name: str) -> check.InputError:
    """The sentence for a model whose weights are pickled."""
    return check.InputError(
        "",
        f"The model '{name}' has no weights in safetensors",
        remedy="Pickle files can run anything; if it has those and you trust them, allow it by {allow_pickle}.",
    )


def _named(index: Path) -> Iterator[object]:
    """The files that an index names, once each."""
    text = read_text(index, "model", most=NUMBERS)
    try:
        found: Any = json.loads(text)
        yield from dict.fromkeys(found["weight_map"].values())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise check.InputError("model", "have an index of its weights", detail=f"which '{index}' is not") from None


def _check_name(folder: Path, source: str, name: object) -> None:
    """Refuse a name that leads out of the folder, by the rules of any system."""
    if isinstance(name, str) and name and "\0" not in name:
        paths = PurePosixPath(name), PureWindowsPath(name)
        if not any(path.anchor or ".." in path.parts for path in paths):
            return
    raise check.InputError(
        "model", "have all its weights in its folder", detail=f"but {source} of '{folder}' names {check.shown(name)}"
    )
