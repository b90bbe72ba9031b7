"""Whether what is asked for can fit into memory at all, said before any work is done.

The memory of a machine is what it has, or what this process is allowed of it: by a limit of its container (a control
group) or of its own (`ulimit -v`). What others use of it meanwhile does not count, so that the answer is the same at
every moment. Estimates are lower bounds: what is refused could not have worked.
"""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from unmask import _check as check

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

_EXHAUSTED = ("DefaultCPUAllocator", "Storage size calculation overflowed")  # in what torch says
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
_GROUPS = "/sys/fs/cgroup"


def check_memory(needed: int, argument: str, remedy: str = "", *, device: Any = None) -> None:
    """Refuse what needs more memory than there is.

    Arguments:
        needed: Bytes, at the least.
        argument: The argument that makes it so many.
        remedy: The way out.
        device: A GPU of torch, if that is where they are needed.

    Raises:
        InputError: if they do not fit.

    Example:
        >>> check_memory(10**20, "count", "Take fewer.")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        unmask.InputError: Argument 'count' must fit into memory, but it needs at least 100 EB and only ...
    """
    there = machine_memory() if device is None or device.type != "cuda" else gpu_memory(device)
    if there is not None and needed > there:
        raise check.InputError(
            argument,
            "fit into memory",
            detail=f"but it needs at least {in_words(needed)} and only {in_words(there)} is available",
            remedy=remedy,
        )


def exhausted(error: BaseException) -> bool:
    """Whether an error says that memory is used up: Python's, numpy's, or torch's of a CPU or a GPU."""
    if isinstance(error, MemoryError):
        return True
    # The one of a GPU is a class of its own, which need not be imported to be known; that of a CPU has its words alone.
    text = str(error) if isinstance(error, RuntimeError) else ""
    return type(error).__name__ == "OutOfMemoryError" or any(words in text for words in _EXHAUSTED)


def in_words(count: int) -> str:
    """So many bytes.

    Example:
        >>> in_words(1_500_000_000), in_words(999), in_words(10**22), in_words(10**40)
        ('1.5 GB', '999 bytes', '10,000 EB', '10^40 bytes')
    """
    if count >= 10**30:
        return f"10^{round((count.bit_length() - 1) * 0.30103)} bytes"
    power = min((len(str(count)) - 1) // 3, len(_UNITS) - 1)
    value = count / 1000**power
    return f"{value:.3g} {_UNITS[power]}" if value < 999.5 else f"{value:,.0f} {_UNITS[power]}"


@cache
def machine_memory() -> int | None:
    """Bytes that this process can have at most; None if the system does not say."""
    limits = [*_group_limits(Path(_GROUPS))]
    with suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if resource is not None:
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        limits.append(soft)
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits.append(max(1, soft - _mapped()) if soft > 0 else soft)
    return min((limit for limit in limits if limit > 0), default=None)


def _mapped() -> int:
    """Bytes of addresses in use, most of them of libraries; they count where addresses are limited."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def gpu_memory(device: Any) -> int:
    """Bytes of a GPU."""
    from unmask._torch import torch

    return torch.cuda.mem_get_info(device)[1]


def _group_limits(root: Path) -> list[int]:
    """The limits of the control groups that this process is in, of either version."""
    places = [root, root / "memory"]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, group = line.split(":", 2)
            if kinds in ("", "memory"):
                inside = root / kinds / group.lstrip("/")
                places += [inside, *(above for above in inside.parents if root in above.parents)]
    found: list[int] = []
    for place in places:
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # there is none, or it is "max"
                found.append(int((place / name).read_text(encoding="ascii")))
    return found
