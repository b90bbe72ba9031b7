"""Memory that is not there is refused beforehand, and an error that says so is known as one."""

import os
import subprocess
import sys

import numpy as np
import pytest

from unmask import _memory
from unmask._check import InputError
from unmask._memory import check_memory, exhausted, in_words, machine_memory


def test_what_fits_passes_and_what_does_not_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(_memory, "machine_memory", lambda: 2 * 10**9)
    check_memory(2 * 10**9, "count")
    with pytest.raises(InputError) as caught:
        check_memory(2 * 10**9 + 1, "count", "Take fewer.")
    assert str(caught.value) == (
        "Argument 'count' must fit into memory, but it needs at least 2 GB and only 2 GB is available. Take fewer."
    )
    with pytest.raises(InputError, match=r"needs at least 10\^401 bytes and only 2 GB is available"):
        check_memory(10**401, "count")
    monkeypatch.setattr(_memory, "machine_memory", lambda: None)  # a system that does not say
    check_memory(10**401, "count")


def test_sizes_are_said_in_three_digits():
    words = [in_words(count) for count in (0, 1, 999, 1000, 123_456, 99_950_000_000, 10**18, 5 * 10**21)]
    assert words == ["0 bytes", "1 bytes", "999 bytes", "1 kB", "123 kB", "100 GB", "1 EB", "5,000 EB"]


def test_the_memory_of_this_machine_is_known():
    assert machine_memory() is not None
    assert machine_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        ({}, []),
        ({"memory.max": "max\n"}, []),
        ({"memory.max": "1000\n"}, [1000]),
        ({"memory/memory.limit_in_bytes": "2000\n"}, [2000]),
        ({"memory.max": "damaged"}, []),
    ],
)
def test_the_limit_of_a_container_is_read(tmp_path, files, limits):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert set(_memory._group_limits(tmp_path)) == set(limits)


@pytest.mark.skipif(_memory.resource is None, reason="this system has no such limits")
def test_the_limit_of_a_process_is_read():
    code = (
        "import resource\nfrom unmask._memory import machine_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\nprint(machine_memory() <= 4 << 30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_errors_of_memory_are_known_whoever_raises_them():
    torch = pytest.importorskip("torch")
    for take in (
        lambda: torch.empty(2**55),
        lambda: torch.empty((2**32, 2**32)),
        lambda: np.empty(2**55),
    ):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            take()
        assert exhausted(caught.value), caught.value
    assert exhausted(torch.OutOfMemoryError("CUDA out of memory"))
    assert not exhausted(RuntimeError("shapes cannot be multiplied"))
    assert not exhausted(ValueError("DefaultCPUAllocator"))


def test_training_that_runs_out_of_memory_names_what_to_lower():
    pytest.importorskip("torch")
    from unmask.models.transformer import Config
    from unmask.train.memory import fitting

    small = Config(4, 8, width=8, layers=1, heads=2, hidden=32)
    sentence = "Argument 'batch' must be smaller, because there was not enough memory."
    with pytest.raises(InputError) as raised, fitting(small, 1000):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")
    assert str(raised.value) == sentence
    with pytest.raises(RuntimeError, match="other"), fitting(small, 1000):
        raise RuntimeError("other")
