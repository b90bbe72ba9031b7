"""One thread per test process: the suite runs a process per core, and more threads would only wait for each other.

numba too: when galois starts its threads, it sets the number of torch's as well, and the last digits of a sum depend on
it.

Property tests have no deadlines: the first example of many compiles a loop, and on a busy machine any of them waits.
"""

import os

from hypothesis import settings

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
settings.register_profile("unmask", deadline=None)
settings.load_profile("unmask")

try:
    import torch

    torch.set_num_threads(1)
except ModuleNotFoundError:
    pass


def pytest_addoption(parser):
    parser.addoption("--pictures", action="store_true", help="Store what the page looks like, to compare with later.")
