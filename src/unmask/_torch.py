"""torch, or one sentence that says how to get it; and what can be seen of a tensor without waiting for its device."""

from collections.abc import Callable
from typing import Any, cast

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError:
    raise ModuleNotFoundError('This needs torch, which is not installed. Run: pip install "unmask[torch]"') from None

__all__ = ["Tensor", "at_hand", "integral", "outside", "plain", "seen", "torch"]


def at_hand(values: Tensor) -> bool:
    """Whether the values can be looked at without waiting for a device."""
    return values.device.type == "cpu"


def seen(values: Tensor, wrong: Callable[[Tensor], Tensor]) -> bool:
    """Whether `wrong` is true of some value, as far as that can be seen without waiting: on a GPU it is not asked."""
    return at_hand(values) and bool(wrong(values).any())


def outside(values: Tensor, end: int) -> bool:
    """Whether some value is not among `0 … end−1`, as far as that can be seen without waiting."""
    return seen(values, lambda found: (found < 0) | (found >= end))


def plain(values: Tensor) -> list[Any]:
    """The values as lists of Python's own numbers."""
    return cast(Any, values).tolist()  # torch does not say of what


def integral(values: Tensor) -> bool:
    """Whether the values are integers, as token ids are: neither real or complex numbers nor booleans."""
    return not (values.is_floating_point() or values.is_complex() or values.is_quantized or values.dtype == torch.bool)
