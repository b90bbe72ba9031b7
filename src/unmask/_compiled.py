"""Compiled loops: numba where it is installed, plain Python where it is not (the same results, more slowly)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]: ...

else:
    try:
        from numba import njit

        def compiled(function):
            """Compile a function of arrays and numbers, once for all processes where there is a place to keep it."""
            try:
                return njit(cache=True)(function)
            except RuntimeError:  # neither the package nor the home folder can be written
                return njit(function)

    except ModuleNotFoundError:

        def compiled(function):
            """Leave the function as it is."""
            return function
