"""torch, or one sentence that says how to get it; and what can be seen of a tensor without waiting for its device.

Between two pieces of work torch's threads wait for the next, by default in a loop that keeps a core busy, for
milliseconds each time. On a machine with other work they then hold the cores that they are waiting for, and what takes
two seconds can take a minute. So they are told to look for some microseconds and then to sleep, which an idle machine
hardly notices (`benchmarks/threads.py`), unless the environment already says how to wait. OpenMP reads that once, when
it is loaded: a program that imports torch before this library decides for itself, by the same two variables.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, cast

from unmask._packages import Package

# The first by the standard, for every make of OpenMP; the second is how often GNU's, which Linux wheels bring, looks.
_PATIENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}

if "torch" not in sys.modules and not any(name in os.environ for name in (*_PATIENT, "KMP_BLOCKTIME")):
    os.environ.update(_PATIENT)

with Package("torch", "torch", 'Run: pip install "unmask[torch]"', "2.4 to 2.13"):
    import torch
    from torch import Tensor

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
