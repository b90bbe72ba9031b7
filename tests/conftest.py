"""One thread per test process: the suite runs a process per core, and more threads would only wait for each other.

numba too: when galois starts its threads, it sets the number of torch's as well, and the last digits of a sum depend on
it.

Property tests have no deadlines: the first example of many compiles a loop, and on a busy machine any of them waits.
"""

import os
from pathlib import Path

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


def pytest_ignore_collect(collection_path, config):
    """SGLang's own classes change other packages: their file is read where it is named, and not as one of many."""
    named = {Path(given).name for given in config.args}
    return True if collection_path.name == "real_sglang.py" and collection_path.name not in named else None
