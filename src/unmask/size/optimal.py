"""The best schedule when the curve is known.

For a known loss curve the best sizes are deterministic: the shortest path from `0` to `L` revealed tokens with `K`
edges, where revealing the next `s` tokens with `n` visible costs `s · ℓ(n)`. Its length is the smallest negative
log-likelihood that `K` steps can reach. The cost is Monge because `ℓ` does not increase, so the best predecessor of
`m` grows with `m` and divide and conquer finds a whole level in `O(L log L)`; one run gives the optimum for every
number of steps up to `K`.

For an order that is not uniformly random (spread, comb, left to right) let `ℓ(n, j)` be the cross-entropy of the
token of rank `j` when the first `n` of the order are visible. An edge from `n` to `m` then costs `ℓ(n, n+1) + … +
ℓ(n, m)`, which has no Monge structure, and the shortest path takes `O(K L²)`.

Two closed forms stand beside it: the square-root rule, the continuous limit `s ∝ 1/√(−ℓ')` for many steps on a smooth
curve, and the logit schedule, which needs no curve: steps uniform in the log-odds of the revealed fraction.

References:
    Hoogeboom, Gritsenko, Bastings, Poole, van den Berg & Salimans, Autoregressive diffusion models, 2022 (arXiv
        2110.02037): dynamic programming on the losses of a model, in random order.
    Chen, Cong & Li, Optimal inference schedules for masked diffusion models, 2025 (the oracle schedule).
    Lavenant & Zanella, Error bounds and optimal schedules for masked diffusions, 2025 (the square-root rule).
    Dmitriev, Huang & Wei, Efficient sampling with discrete diffusion models, 2026 (log-odds time).
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._compiled import compiled
from unmask.information.curve import Curve
from unmask.size.base import Planned, at_least_one
from unmask.size.systematic import Systematic, root

_CELLS = 1 << 28
_SHORT = 320  # nodes up to which arrays are quicker than compiled loops, the time to load the compiler included


@final
@dataclass(frozen=True)
class Optimal(Planned):
    """The sizes with the smallest expected error on `curve`.

    One more step never hurts on that curve. On another one it may.

    Arguments:
        steps: The number of steps.
        curve: The loss curve.

    References:
        Hoogeboom et al., Autoregressive diffusion models, 2022 (arXiv 2110.02037).

    Example:
        On a Reed–Solomon code of dimension 3 of 5 tokens, two steps suffice: three free tokens, then the rest.

        >>> Optimal(2, Curve([1.0, 1.0, 1.0, 0.0, 0.0])).sizes(5)
        array([3, 2])
    """

    curve: Curve

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_curve(self.curve)

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        _same_length(length, self.curve.length, "curve")
        return np.diff(best_paths(self.curve, steps).cuts(steps))

    def monotone_on(self, curve: Curve) -> bool:
        return self.curve == curve


@final
@dataclass(frozen=True, eq=False)
class OptimalTable(Planned):
    """The sizes with the smallest negative log-likelihood for a table of losses under some blind order.

    Arguments:
        steps: The number of steps.
        table: Shape `(L, L)`; entry `[n, j−1]` is the loss of the token of rank `j` with the first `n` visible. Entries
            with `j ≤ n` are ignored, and kept as zeros.

    Example:
        >>> table = np.array([[1.0, 0.8, 0.8], [np.nan, 0.5, 0.5], [np.nan, np.nan, 0.4]])
        >>> OptimalTable(2, table).sizes(3), OptimalTable(2, table) == OptimalTable(2, 2 * table)
        (array([1, 2]), False)
    """

    table: NDArray[np.float64]

    def __init__(self, steps: int, table: ArrayLike):
        values = check.numbers("table", table)
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
            raise check.InputError("table", "be square, with at least one row", found=f"of shape {values.shape}")
        if not np.all(np.isfinite(values[np.triu_indices(values.shape[0])])):
            raise check.InputError("table", "hold finite numbers on and above its diagonal")
        kept = np.triu(values) + 0.0  # no −0, which is equal to 0 and has another hash
        kept.setflags(write=False)
        object.__setattr__(self, "table", kept)
        super().__init__(steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptimalTable):
            return NotImplemented
        return self.steps == other.steps and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.steps, self.table.tobytes()))

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        _same_length(length, self.table.shape[0], "table")
        # reach[n, m] = cost of revealing ranks n+1 … m with n visible; below the diagonal nothing is revealed.
        return np.diff(table_paths(np.cumsum(self.table, axis=1), steps).cuts(steps))


@final
@dataclass(frozen=True)
class SquareRoot(Planned):
    """Cuts that split the mass of `√(drop)` evenly: the many-step limit of `Optimal` on a smooth curve.

    Arguments:
        steps: The number of steps.
        curve: The loss curve.

    Example:
        >>> SquareRoot(3, Curve([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125])).sizes(6)
        array([1, 1, 4])
    """

    curve: Curve

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_curve(self.curve)

    def sizes(self, length: int) -> NDArray[np.int64]:
        steps, length = check.steps_and_length(self.steps, length)
        _same_length(length, self.curve.length, "curve")
        mass = np.zeros(length + 1)
        mass[1:length] = np.cumsum(np.sqrt(self.curve.drops))
        mass[-1] = mass[-2]
        if mass[-1] == 0.0:  # independent tokens: nothing to balance
            mass = np.arange(length + 1.0)
        wanted: NDArray[np.float64] = mass[-1] * np.arange(steps + 1) / steps
        ends = np.rint(np.interp(wanted, mass, np.arange(length + 1.0))).astype(np.int64)
        ends[0], ends[-1] = 0, length  # where the curve is flat at an end, the mass leaves both open
        return np.diff(at_least_one(ends, length))


@final
@dataclass(frozen=True)
class Logit(Systematic):
    """Steps uniform in the log-odds of the revealed fraction, at a random phase.

    The cut probabilities follow the derivative of `log(j/(L−j))`,

        b_j = min(1, a (1/j + 1/(L−j))),        Σ b = K−1.

    References:
        Dmitriev, Huang & Wei, Efficient sampling with discrete diffusion models, 2026.

    Example:
        >>> Logit(3).cut_probabilities(4).round(3)
        array([0.727, 0.545, 0.727])
    """

    monotone: ClassVar[bool] = True

    def cut_probabilities(self, length: int) -> NDArray[np.float64]:
        steps, length = check.steps_and_length(self.steps, length)
        if steps in (1, length):
            return np.full(length - 1, float(steps > 1))
        position = np.arange(1.0, length)
        rate = 1 / position + 1 / (length - position)
        scale = root(lambda a: float(np.minimum(1.0, a * rate).sum()) - (steps - 1), 0.0, 1 / rate.min())
        return np.minimum(1.0, scale * rate)


@final
@dataclass(frozen=True, eq=False)
class Paths:
    """Shortest paths to the end for every number of steps up to some `K`.

    Attributes:
        costs: `costs[k−1]` is the smallest cost with exactly `k` steps.
        back: `back[k−1, m]` is the cut before `m` on the best path of `k` steps to `m`.
    """

    costs: NDArray[np.float64]
    back: NDArray[np.int32]

    def cuts(self, steps: int) -> NDArray[np.int64]:
        """`0 = N_0 < N_1 < … < N_steps = L` of the best path with `steps` steps."""
        steps = check.integer("steps", steps, least=1, most=self.costs.size)
        path = [self.back.shape[1] - 1]
        for k in range(steps, 0, -1):
            path.append(int(self.back[k - 1, path[-1]]))
        return np.array(path[::-1])


def best_paths(curve: Curve, steps: int) -> Paths:
    """The optimal schedules of `curve` for every number of steps up to `steps`, in one run.

    Example:
        >>> paths = best_paths(Curve([1.0, 0.5, 0.25, 0.125]), 4)
        >>> (paths.costs - 1.875).round(3)  # excess over the entropy
        array([2.125, 0.625, 0.125, 0.   ])
    """
    _require_curve(curve)
    steps, length = check.steps_and_length(steps, curve.length)
    if steps * (length + 1) > _CELLS:
        raise check.InputError(
            "steps",
            f"be at most {_CELLS // (length + 1)} at length {length}",
            found=f"{steps}",
            detail="because the table of paths has to fit into memory",
            remedy="For more steps, use the size 'square-root' (unmask.size.SquareRoot).",
        )
    if length <= _SHORT:
        ahead = np.arange(1, length + 1) - np.arange(length)[:, None]
        return _dense(ahead * curve.loss[:, None], steps)
    return Paths(*_levels(np.append(curve.loss, 0.0), steps))


def table_paths(reach: ArrayLike, steps: int) -> Paths:
    """The shortest paths of up to `steps` edges through nodes `0 … N` for any costs.

    Arguments:
        reach: Shape `(N, N)`; entry `[n, m−1]` is the cost of going from node `n` to node `m > n`.
        steps: The largest number of edges.
    """
    values = np.ascontiguousarray(check.numbers("reach", reach), dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise check.InputError("reach", "be square", found=f"of shape {values.shape}")
    steps, _ = check.steps_and_length(steps, values.shape[0])
    return _dense(values, steps) if len(values) <= _SHORT else Paths(*_table_levels(values, steps))


def _dense(reach: NDArray[np.float64], steps: int) -> Paths:
    """The same by arrays: for few nodes that takes less time than loading the compiler of the loops."""
    length = len(reach)
    allowed = np.where(np.arange(length)[:, None] <= np.arange(length), reach, np.inf)
    back = np.zeros((steps, length + 1), dtype=np.int32)
    best = np.append(np.inf, allowed[0])  # by the node at which a path ends
    costs = [best[-1]]
    for level in range(1, steps):
        tried = best[:-1, None] + allowed
        back[level, 1:] = tried.argmin(axis=0)
        best = np.append(np.inf, tried.min(axis=0))
        costs.append(best[-1])
    return Paths(np.array(costs), back)


def _require_curve(curve: object) -> None:
    if not isinstance(curve, Curve):
        raise check.InputError(
            "curve",
            "be an unmask.Curve",
            found=check.type_of(curve),
            remedy="To get the curve of a distribution, call distribution.curve().",
        )


def _same_length(length: int, expected: int, name: str) -> None:
    if length != expected:
        raise check.InputError("length", f"be the length {expected} of the {name}", found=f"{length}")


@compiled
def _levels(loss: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Level by level: `best[m] = min_n previous[n] + (m − n) ℓ(n)`, by divide and conquer over `m`."""
    length = loss.size - 1
    back = np.zeros((steps, length + 1), dtype=np.int32)
    costs = np.empty(steps)
    previous, best = np.full(length + 1, np.inf), np.full(length + 1, np.inf)
    for m in range(1, length + 1):
        previous[m] = m * loss[0]
    costs[0] = previous[length]
    stack = np.empty((64, 4), dtype=np.int64)
    for k in range(2, steps + 1):
        best[:] = np.inf
        stack[0] = (k, length, k - 1, length - 1)
        top = 1
        while top:
            top -= 1
            low, high, first, last = stack[top]
            if low > high:
                continue
            m = (low + high) // 2
            cost, where = np.inf, first
            for n in range(first, min(last, m - 1) + 1):
                candidate = previous[n] + (m - n) * loss[n]
                if candidate < cost:
                    cost, where = candidate, n
            best[m], back[k - 1, m] = cost, where
            stack[top] = (low, m - 1, first, where)
            stack[top + 1] = (m + 1, high, where, last)
            top += 2
        previous, best = best, previous
        costs[k - 1] = previous[length]
    return costs, back


@compiled
def _table_levels(reach: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Level by level without structure: `best[m] = min_n previous[n] + reach[n, m]`."""
    length = reach.shape[0]
    back = np.zeros((steps, length + 1), dtype=np.int32)
    costs = np.empty(steps)
    previous, best = np.full(length + 1, np.inf), np.full(length + 1, np.inf)
    for m in range(1, length + 1):
        previous[m] = reach[0, m - 1]
    costs[0] = previous[length]
    for k in range(2, steps + 1):
        best[:] = np.inf
        for n in range(k - 1, length):
            for m in range(n + 1, length + 1):
                candidate = previous[n] + reach[n, m - 1]
                if candidate < best[m]:
                    best[m], back[k - 1, m] = candidate, n
        previous, best = best, previous
        costs[k - 1] = previous[length]
    return costs, back
