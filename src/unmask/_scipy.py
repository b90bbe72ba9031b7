"""The functions of scipy that are used here, with their types, each loaded when it is first called.

scipy has no types of its own, and importing its parts takes 0.2 to 0.4 s: more than all that a small command does.
"""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def entr(probabilities: Reals) -> Reals:
    """`−p log p` of each number, 0 where it is 0."""
    return _special().entr(probabilities)


def rel_entr(p: Reals, q: Reals) -> Reals:
    """`p log(p/q)` of each pair, 0 where `p` is 0 and `inf` where only `q` is."""
    return _special().rel_entr(p, q)


def xlog1py(x: Reals, y: Reals) -> Reals:
    """`x log(1 + y)` of each pair, 0 where `x` is 0."""
    return _special().xlog1py(x, y)


def log_factorial(counts: NDArray[np.int64] | int) -> Reals:
    """`log n!` of each number."""
    return _special().gammaln(counts + 1)


def student_quantile(freedom: int, deviations: float) -> float:
    """What a Student variable stays below as often as a normal one stays below so many standard deviations."""
    return float(_special().stdtrit(freedom, _special().ndtr(deviations)))


def log_sum_exp(terms: Reals) -> Reals:
    """`log Σ e^t` along the last axis."""
    return np.asarray(_special().logsumexp(terms, axis=-1))


def falling(values: Reals) -> Reals:
    """The non-increasing numbers nearest to the given ones in least squares (isotonic regression).

    Example:
        >>> falling(np.array([1.0, 0.0, 0.5])).tolist()
        [1.0, 0.25, 0.25]
    """
    optimize: Any = import_module("scipy.optimize")
    return optimize.isotonic_regression(values, increasing=False).x


def connected(edges: NDArray[np.bool_]) -> tuple[int, NDArray[np.int32]]:
    """The strongly connected parts of a directed graph: their number, and that of each vertex."""
    sparse: Any = import_module("scipy.sparse")
    graphs: Any = import_module("scipy.sparse.csgraph")
    return graphs.connected_components(sparse.csr_matrix(edges), directed=True, connection="strong")


def _special() -> Any:
    return import_module("scipy.special")
