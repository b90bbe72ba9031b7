"""The plan of a batch: which positions come at which step.

Two kinds. `BlindPlan` knows every set before the model runs: it is drawn on the host, moved to the device once, and
sliced. `ReactivePlan` predicts all candidates at each step and ranks them on the device.

The steps of a sequence are those at which it reveals something: sizes of zero are left out of the plan, so that they
cost nothing, whatever the other sequences do. A sequence that is done takes no part in later evaluations.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask._torch import Tensor, torch
from unmask.predict import Places, Prediction
from unmask.sample.agenda import Stretch


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """The positions that one step needs predicted.

    Attributes:
        index: Number of the step.
        places: The positions, by sequence.
        wanted: How many of each sequence are to be revealed, where that is known and they are not all.
    """

    index: int
    places: Places
    wanted: Tensor | None = None


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The positions of one step and their predictions.

    Attributes:
        rows: Flat indices into `batch · length`, by sequence, and in each by its order.
        prediction: Predictions of those rows.
        plan: The plan after this step, where it remembers something of it; `None` if it is the same.
    """

    rows: Tensor
    prediction: Prediction
    plan: "Plan | None" = None


class Plan(ABC):
    """Which positions of a batch come at which step."""

    @abstractmethod
    def ask(self, step: int, masked: Tensor, *, whole: bool) -> Asked | None:
        """What the next non-empty step from `step` on needs predicted, or `None` when nothing is left.

        Arguments:
            step: Number of the step.
            masked: What is masked now, shape `(batch, length)`.
            whole: Whether all sequences of the batch must take part.
        """

    @abstractmethod
    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        """What the step reveals, given what it asked for."""

    @abstractmethod
    def without(self, closed: Tensor) -> "Plan":
        """The plan without positions that were closed early (true in `closed`, shape `(batch, length)`)."""


@final
@dataclass(frozen=True, eq=False)
class BlindPlan(Plan):
    """Every set is known.

    Attributes:
        row: All positions to reveal, by step and then by sequence, on the host.
        step: The step of each of them.
        shape: Batch and length.
        ends: Where each step ends in `row`; the first entry is 0.
        sequences: The sequences of each step, one step after the other, on the host.
        counts: How many positions of each of them the step reveals, on the host.
        parts: Where each step ends in `sequences`; the first entry is 0.
        rows: `row` on the device.
        local: The same positions among the sequences of their step alone, on the device.
        index: `sequences` on the device.
    """

    row: NDArray[np.int64]
    step: NDArray[np.int64]
    shape: tuple[int, ...]
    ends: NDArray[np.int64]
    sequences: NDArray[np.int64]
    counts: NDArray[np.int64]
    parts: NDArray[np.int64]
    rows: Tensor
    local: Tensor
    index: Tensor

    @staticmethod
    def of(agenda: list[list[Stretch]], shape: tuple[int, ...], device: torch.device) -> "BlindPlan":
        rows, steps = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for sequence, stretches in enumerate(agenda):
            if stretches:
                sizes = np.concatenate([stretch.sizes for stretch in stretches])
                rows += [sequence * shape[1] + stretch.positions for stretch in stretches]
                steps.append(np.repeat(np.arange(sizes.size), sizes))
        row, step = np.concatenate(rows), np.concatenate(steps)
        order = np.argsort(step, kind="stable")  # by step, then by sequence
        return BlindPlan._cut(row[order], step[order], shape, device)

    @staticmethod
    def known(step: NDArray[np.int64], device: torch.device) -> "BlindPlan":
        """The plan that reveals each position of a batch at the step given for it; those below 0 are left out."""
        row = np.flatnonzero(step >= 0)
        order = np.argsort(step.ravel()[row], kind="stable")  # by step, then by sequence
        return BlindPlan._cut(row[order], step.ravel()[row[order]], step.shape, device)

    @staticmethod
    def _cut(
        row: NDArray[np.int64], step: NDArray[np.int64], shape: tuple[int, ...], device: torch.device
    ) -> "BlindPlan":
        length = max(shape[1], 1)
        sequence = row // length
        first = np.ones(row.size, dtype=bool)  # where a sequence begins within a step
        first[1:] = (np.diff(step) != 0) | (np.diff(sequence) != 0)
        ends = np.concatenate([[0], np.cumsum(np.bincount(step))])
        sequences, parts = sequence[first], np.concatenate([[0], np.cumsum(np.bincount(step[first]))])
        local = (np.cumsum(first) - 1 - parts[step]) * length + row % length
        # One transfer for the whole plan; the steps are slices of it.
        moved = torch.as_tensor(np.concatenate([row, local, sequences])).to(device)
        rows, among, index = moved[: row.size], moved[row.size : 2 * row.size], moved[2 * row.size :]
        counts = np.diff(np.append(np.flatnonzero(first), row.size))
        return BlindPlan(row, step, shape, ends, sequences, counts, parts, rows, among, index)

    def without(self, closed: Tensor) -> "BlindPlan":
        gone: NDArray[np.bool_] = closed.flatten().cpu().numpy()[self.row]
        return BlindPlan._cut(self.row[~gone], self.step[~gone], self.shape, closed.device) if gone.any() else self

    def ask(self, step: int, masked: Tensor, *, whole: bool) -> Asked | None:
        # The first step from `step` on that reveals anything: an early stop may have emptied some.
        done = int(self.ends[min(step, self.ends.size - 1)])
        step = int(np.searchsorted(self.ends, done, side="right")) - 1
        if step >= self.ends.size - 1:
            return None
        part = slice(int(self.ends[step]), int(self.ends[step + 1]))
        some = slice(int(self.parts[step]), int(self.parts[step + 1]))
        return Asked(
            step, Places(self.rows[part], self.sequences[some], self.counts[some], self.index[some], self.local[part])
        )

    def choose(self, asked: Asked, prediction: Prediction) -> Chosen:
        return Chosen(asked.places.rows, prediction)
