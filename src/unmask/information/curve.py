"""The loss curve: all that a schedule with random positions can see of a distribution.

Reveal positions in uniformly random order. With `n` of the `L` tokens visible, a masked token has mean
conditional entropy `ℓ(n)`, the **loss curve**; it never increases with `n` (Han). Summing it gives the
**information curve** `h(n)`, the mean entropy of `n` random tokens, and differencing it gives the **drops**:

    h(n) = ℓ(0) + … + ℓ(n−1)            d_i = ℓ(i−1) − ℓ(i) ≥ 0,   i = 1 … L−1

The drops carry every quantity the theory needs:

    TC = Σ d_i (L−i)       DTC = Σ d_i i       Σ_i I(X_i; X_−i) = L Σ d_i = TC + DTC

and the error of a schedule is the inner product of the drops with the schedule's overhang
(see `unmask.evaluate`). Everything is in nats.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A non-increasing loss curve `ℓ(0) ≥ … ≥ ℓ(L−1) ≥ 0`, in nats.

    Arguments:
        loss: The `L` numbers `ℓ(n)`.

    Raises:
        InputError: if the numbers are not finite, or increase by more than rounding allows.

    Example:
        A Reed–Solomon code of length 4 and dimension 3 over GF(4): three free tokens, one determined.

        >>> curve = Curve(np.log(4) * np.array([1.0, 1.0, 1.0, 0.0]))
        >>> round(curve.total_correlation, 4), round(curve.dual_total_correlation, 4)  # log 4 and 3 log 4
        (1.3863, 4.1589)
    """

    loss: NDArray[np.float64]

    def __init__(self, loss: ArrayLike):
        values = check.numbers("loss", loss).copy()
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
            raise check.InputError("loss", "be a non-empty list of finite numbers")
        # Differences of entropies carry rounding errors of this order; a real increase is refused.
        allowance = 1e-9 * max(1.0, float(np.max(np.abs(values))))
        rises = np.diff(values)
        if rises.size and rises.max() > allowance:
            where = int(np.argmax(rises))
            raise check.InputError(
                "loss",
                "not increase",
                detail=f"but it rises by {rises[where]:.3g} from {where} to {where + 1} visible tokens",
            )
        with np.errstate(over="ignore"):
            finite = bool(np.isfinite(values.sum() * values.size))
        if not finite:
            raise check.InputError("loss", "have a finite sum")
        if values[-1] < -allowance:
            raise check.InputError("loss", "not be negative", detail=f"but it ends at {values[-1]:.3g}")
        values.setflags(write=False)
        object.__setattr__(self, "loss", values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Curve) and np.array_equal(self.loss, other.loss)

    def __hash__(self) -> int:
        return hash(self.loss.tobytes())

    @property
    def length(self) -> int:
        """The number of tokens `L`."""
        return self.loss.size

    @cached_property
    def drops(self) -> NDArray[np.float64]:
        """`d_i = ℓ(i−1) − ℓ(i)` for `i = 1 … L−1`."""
        return np.maximum(-np.diff(self.loss), 0.0)

    @cached_property
    def information(self) -> NDArray[np.float64]:
        """The information curve `h(0) … h(L)`."""
        return np.concatenate([[0.0], np.cumsum(self.loss)])

    @property
    def entropy(self) -> float:
        """`H(X) = h(L)`."""
        return float(self.loss.sum())

    @cached_property
    def total_correlation(self) -> float:
        """`TC = Σ_i H(X_i) − H(X) = Σ_i d_i (L−i)`."""
        return float(self.drops @ (self.length - np.arange(1, self.length)))

    @cached_property
    def dual_total_correlation(self) -> float:
        """`DTC = H(X) − Σ_i H(X_i | X_−i) = Σ_i d_i i`."""
        return float(self.drops @ np.arange(1, self.length))

    @property
    def information_sum(self) -> float:
        """`Σ_i I(X_i; X_−i) = TC + DTC`."""
        return self.length * float(self.drops.sum())
