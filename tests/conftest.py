"""One thread per test process: the suite runs a process per core, and more threads would only wait for each other.

numba too: when galois starts its threads, it sets the number of torch's as well, and the last digits of a sum depend on
it.
"""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

try:
    import torch

    torch.set_num_threads(1)
except ModuleNotFoundError:
    pass


def pytest_addoption(parser):
    parser.addoption("--pictures", action="store_true", help="Store what the page looks like, to compare with later.")
