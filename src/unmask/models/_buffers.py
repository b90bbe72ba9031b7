"""What a network computes when it is made, computed once more."""

import copy
from typing import Any, cast

from unmask._torch import Tensor, torch


def made_again(network: Any) -> dict[str, Tensor]:
    """The buffers of a network of transformers as its class makes them from its configuration, by name.

    Its weights are not: each is dropped as soon as it is registered, before it is filled, so that it takes no memory.

    Arguments:
        network: The network.

    Returns:
        The buffers; none if the class cannot be made without weights.
    """

    def weightless(module: torch.nn.Module, name: str, value: Any) -> Any:
        return None if value is None else torch.nn.Parameter(value.to("meta"), requires_grad=value.requires_grad)

    kind = cast(Any, type(network))
    hook = torch.nn.modules.module.register_module_parameter_registration_hook(weightless)
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            made: torch.nn.Module = kind._from_config(copy.deepcopy(network.config), dtype=network.dtype)
    except Exception:  # code of others raises whatever it does
        return {}
    finally:
        hook.remove()
    return {name: value for name, value in made.named_buffers() if not value.is_meta}
