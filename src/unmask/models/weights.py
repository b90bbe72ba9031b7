"""Weights in files: one file is a model.

Weights are saved as safetensors with the shape, and whatever else is worth knowing, inside the file. Its format says
which network they are of.
"""

import json
import os
from dataclasses import asdict
from math import prod
from typing import Any

from unmask import _check as check
from unmask._atomic import replacing
from unmask._files import check_file
from unmask._memory import check_memory
from unmask._torch import Tensor, torch
from unmask.models.blocks import BlockConfig
from unmask.models.causal import CausalConfig
from unmask.models.shape import Network, Shape
from unmask.models.transformer import Config

_FORMATS: dict[str, type[Shape]] = {
    "unmask-transformer-2": Config,
    "unmask-causal-1": CausalConfig,
    "unmask-blocks-1": BlockConfig,
}
_FLOATS = ("F16", "BF16", "F32", "F64")  # as safetensors has them
LARGEST = 65504.0  # of a weight: half precision, in which they are kept, has no more


def save(model: Network, path: str | os.PathLike[str], *, about: dict[str, Any], half: bool = True) -> None:
    """Write the weights and the configuration as one safetensors file; it appears complete or not at all.

    Arguments:
        model: The model.
        path: Where to.
        about: Plain values to keep with it, such as the alphabet and how it was trained.
        half: Store in half precision.
    """
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

    dtype = torch.float16 if half else torch.float32
    weights = {name: value.detach().cpu().to(dtype).contiguous() for name, value in model.state_dict().items()}
    if not all(bool(torch.isfinite(value).all()) for value in weights.values()):
        raise check.InputError("model", f"have weights that are numbers and fit into {dtype}")
    kind = next(name for name, shape in _FORMATS.items() if type(model.config) is shape)
    text = {"format": kind, "config": json.dumps(asdict(model.config)), "about": json.dumps(about)}
    with replacing(path) as file:
        save_file(weights, file, metadata=text)


def load(path: str | os.PathLike[str]) -> tuple[Network, dict[str, Any]]:
    """Read what `save` wrote: the model in float32, in evaluation mode, and what is known about it.

    What the file says of its shape is compared with the weights that it has before any memory is taken for them.
    Whether the weights are numbers is not looked at, which would take as long as reading them: losses tell.

    Raises:
        InputError: if the file cannot be read, is not such a model, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    check_file(path, "path")
    opened: Any = safe_open  # it is not Python, and says nothing of its types
    try:
        with opened(path, framework="pt") as file:
            config, about = _described(file.metadata() or {}, path)
            slices: dict[str, Any] = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no dictionary
            shapes: dict[str, tuple[int, ...]] = {name: tuple(each.get_shape()) for name, each in slices.items()}
            _check_shapes(config, shapes, path)
            if not all(each.get_dtype() in _FLOATS for each in slices.values()):
                raise _incomplete(path, "some of its weights are not floating-point numbers")
            weights: dict[str, Tensor] = {name: file.get_tensor(name).float() for name in slices}
    except (SafetensorError, OSError) as error:
        raise check.InputError(
            "path", "be an intact safetensors file", detail=f"but '{path}' is not: {error}"
        ) from None
    with torch.random.fork_rng(devices=[]):  # the weights drawn are replaced, and nobody asked for them
        model = config.network()
    if {name: tuple(value.shape) for name, value in model.state_dict().items()} != shapes:
        raise _incomplete(path, "its weights do not fit its shape")
    model.load_state_dict(weights)
    return model.eval(), about


def _described(metadata: dict[str, str], path: str | os.PathLike[str]) -> tuple[Shape, dict[str, Any]]:
    """The shape of a model and what is known about it, from the texts in its file."""
    kind = _FORMATS.get(metadata.get("format", ""))
    if kind is None:
        raise check.InputError("path", "be a model saved by unmask", detail=f"but '{path}' is not")
    found: dict[str, dict[str, Any]] = {}
    for key in ("config", "about"):
        try:
            value: Any = json.loads(metadata[key])
        except (KeyError, ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _incomplete(path, f"its '{key}' is missing or is not a JSON object")
        found[key] = value
    try:
        return kind(**found["config"]), found["about"]
    except TypeError:
        raise _incomplete(path, "its 'config' does not have the expected fields") from None
    except check.InputError as error:
        raise _incomplete(path, f"its '{error.argument}' cannot be {error.found}") from None


def _check_shapes(config: Shape, shapes: dict[str, tuple[int, ...]], path: str | os.PathLike[str]) -> None:
    """Refuse a shape that the weights of a file cannot have, before a model of that shape is made."""
    if len(shapes) != config.tensors or sum(map(prod, shapes.values())) != config.parameters:
        raise _incomplete(path, "its weights do not fit its shape")
    turns = 2 * 4 * config.length * (config.width // config.heads // 2)
    check_memory(turns + 4 * config.parameters, "path")


def _incomplete(path: str | os.PathLike[str], reason: str) -> check.InputError:
    return check.InputError("path", "be a complete model", detail=f"but '{path}' is not: {reason}")
