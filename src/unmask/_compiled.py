"""Compiled loops: numba where it is installed, plain Python where it is not (the same results, more slowly)."""

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays and numbers when it is first called; importing numba alone takes 0.2 s.

    Such functions may not call each other: a loop that is compiled can see no other but a compiled one.
    """

    @wraps(function)
    def run(*values: Any) -> Any:
        return _made(function)(*values)

    return run


@cache
def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled function, kept for all processes where there is a place for it."""
    try:
        numba: Any = import_module("numba")
    except ModuleNotFoundError:
        return function
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package nor the home folder can be written
        return numba.njit(function)
