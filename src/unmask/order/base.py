"""What an order is."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check

Positions = NDArray[np.int64]
_LONGEST_SIDE = 2**12  # of a grid: its square has as many cells as the longest sequence has tokens


class Order(ABC):  # noqa: B024 - what is abstract differs between its two kinds
    """Ranks the masked positions of a sequence: a `BlindOrder`, a `ReactiveOrder`, or `Blocks` of one of these."""

    def blocks(self, positions: Positions) -> list[Positions]:
        """The stretches that are filled one after the other; a single one unless the order says otherwise."""
        return [ascending(positions)]


class BlindOrder(Order):
    """An order that is drawn without looking at predictions."""

    @property
    def fixed(self) -> bool:
        """Whether the same positions always come in the same order, whatever the source of randomness."""
        return False

    @abstractmethod
    def arrange(self, positions: Positions, *, length: int, steps: int | None, rng: check.Rng) -> Positions:
        """The masked `positions` (ascending) of a sequence of `length` tokens in the order of their revelation.

        Arguments:
            positions: Positions to be filled, ascending.
            length: Length of the whole sequence.
            steps: Number of steps in which they will be filled; `None` if that depends on predictions.
            rng: Source of randomness: a numpy generator, or a seed that makes one.
        """


class Predictions(Protocol):
    """What an order may read of predictions, one number for each position, as in `unmask.predict.Prediction`.

    Beside what is predicted that is the most likely token, the place of the position, which is its distance from the
    first one that its block has to fill, and the progress of that block, from 0 to 1.
    """

    @property
    def confidence(self) -> Any: ...
    @property
    def margin(self) -> Any: ...
    @property
    def entropy(self) -> Any: ...
    @property
    def best(self) -> Any: ...
    @property
    def places(self) -> Any: ...
    @property
    def progress(self) -> Any: ...


class ReactiveOrder(Order):
    """An order that looks at the predictions of all masked positions."""

    @abstractmethod
    def score(self, prediction: Predictions) -> Any:
        """One number for each predicted position; the largest is revealed first."""


def required(prediction: object, *names: str) -> None:
    """Refuse a prediction that lacks one of these attributes."""
    for name in names:
        if isinstance(prediction, type) or getattr(prediction, name, None) is None:
            must = f"have an attribute '{name}' with one value per position"
            raise check.InputError("prediction", must, detail=f"but {check.shown(prediction)} has none")


def ascending(positions: object) -> Positions:
    given = check.array("positions", positions)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        found = f"an array of {given.dtype} with shape {given.shape}"
        raise check.InputError("positions", "be a list of integers", found=found)
    given = given.astype(np.int64, copy=False)
    if (given[1:] <= given[:-1]).any():
        raise check.InputError("positions", "be different positions in ascending order")
    return given


def arguments(positions: object, length: object, steps: object, rng: object) -> tuple[Positions, np.random.Generator]:
    """The positions and the source of randomness of an order, if positions, length and steps fit together."""
    length = check.integer("length", length, least=1, most=check.LONGEST)
    if steps is not None:
        check.integer("steps", steps, least=1)
    given = ascending(positions)
    if given.size == 0 or given[0] < 0 or given[-1] >= length:
        raise check.InputError("positions", f"hold one or more positions from 0 to {length - 1}")
    return given, check.generator("rng", rng)


def first_met(walk: Positions) -> Positions:
    """The distinct values of a walk in the order of their first appearance; read-only, as it is kept."""
    _, first = np.unique(walk, return_index=True)
    result = walk[np.sort(first)]
    result.setflags(write=False)
    return result


def among(positions: Positions, walk: Positions, length: int) -> Positions:
    """The entries of a walk through a sequence of `length` tokens that are among the positions."""
    if positions.size == walk.size:
        return walk
    wanted = np.zeros(length, dtype=bool)
    wanted[positions] = True
    return walk[wanted[walk]]


def check_sides(height: object, width: object) -> None:
    """Refuse what are no rows and columns of a grid."""
    check.integer("height", height, least=1, most=_LONGEST_SIDE)
    check.integer("width", width, least=1, most=_LONGEST_SIDE)


def check_cells(length: int, height: int, width: int) -> None:
    """Refuse a sequence that has another number of positions than a grid has cells."""
    if length != height * width:
        raise check.InputError("length", f"be {height} x {width} = {height * width}", found=f"{length}")
