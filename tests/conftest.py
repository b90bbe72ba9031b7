"""One thread per test process: the suite runs a process per core, and more threads would only wait for each other.

numba too: when galois starts its threads, it sets the number of torch's as well, and the last digits of a sum depend on
it.

Property tests have no deadlines: the first example of many compiles a loop, and on a busy machine any of them waits.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Files whose tests share what exists once: a browser with its page, a server, or what is measured for all of them.
TOGETHER = ("test_browser.py", "test_errors.py", "test_fuzz_core.py", "test_guard.py")

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
settings.register_profile("unmask", deadline=None)
settings.load_profile("unmask")

# A shell's background jobs ignore Ctrl+C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    import torch

    torch.set_num_threads(1)
except ModuleNotFoundError:
    pass


def pytest_addoption(parser):
    parser.addoption("--pictures", action="store_true", help="Store what the page looks like, to compare with later.")


def pytest_ignore_collect(collection_path, config):
    """Files that are run in a process of their own are read where they are named, and not as some of many."""
    named = {Path(given).name for given in config.args}
    apart = collection_path.name in ("real_ray.py", "real_sglang.py")
    return True if apart and collection_path.name not in named else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The tests of a file in `TOGETHER` run in one process, one after the other; all others wherever there is room.

    Not by marks (`xdist_group`): xdist 3.8 passes them on in an attribute of a test that pytest 9.2 does not read, and
    then shares out the tests of a group without a word.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = Path(nodeid.split("::")[0]).name
            return file if file in TOGETHER else nodeid

    return Together(config, log)
