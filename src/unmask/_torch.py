"""torch, or one sentence that says how to get it. The modules that run models take it from here.

Between two pieces of work torch's threads wait for the next, by default in a loop that keeps a core busy, for
milliseconds each time. On a machine with other work they then hold the cores that they are waiting for, and what takes
two seconds can take a minute. So they are told to look for some microseconds and then to sleep, which an idle machine
hardly notices (`benchmarks/threads.py`), unless the environment already says how to wait. OpenMP reads that once, when
it is loaded: a program that imports torch before this library decides for itself, by the same two variables.
"""

import os
import sys

# The first by the standard, for every make of OpenMP; the second is how often GNU's, which Linux wheels bring, looks.
_PATIENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}

if "torch" not in sys.modules and not any(name in os.environ for name in (*_PATIENT, "KMP_BLOCKTIME")):
    os.environ.update(_PATIENT)

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError:
    raise ModuleNotFoundError('This needs torch, which is not installed. Run: pip install "unmask[torch]"') from None

__all__ = ["Tensor", "torch"]
