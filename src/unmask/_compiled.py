"""Compiled loops: numba where it is installed, plain Python where it is not (the same results, more slowly).

numba takes longer to import than all the rest of the core, and most of what the core is asked needs no loop. So it is
imported when a compiled function is first called, not when one is defined.
"""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_waiting: dict[str, list[Callable[..., Any]]] = defaultdict(list)  # by module, until one of them is called
_made: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers when it is called, once for all processes where they can keep it.

    A compiled function may call others of its own module.
    """
    _waiting[function.__module__].append(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if function not in _made:
            _compile(function.__module__)
        return _made[function](*args, **kwargs)

    return call


def _compile(module: str) -> None:
    """Put what numba makes of them in the place of all functions of a module: it finds the ones they call by name."""
    with _lock:
        for function in _waiting.pop(module, []):
            made = _njit(function)
            scope, name = function.__globals__, function.__name__
            if getattr(scope.get(name), "__wrapped__", None) is function:
                scope[name] = made
            _made[function] = made


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        from numba import njit
    except ModuleNotFoundError:
        return function
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # neither the package nor the home folder can be written
        return njit(function)
