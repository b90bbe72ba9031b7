"""Every version of every token of a run that takes tokens back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask._torch import Tensor, plain

MASKED = -1  # the token of a position that was taken back


@final
@dataclass(frozen=True, eq=False)
class Version:
    """What one evaluation changed, where the run is.

    Attributes:
        step: Number of its step.
        rows: Flat indices of the positions that were given a token.
        tokens: The tokens.
        log_probability: Their log-probabilities.
        taken: Flat indices of the positions that went back to the mask.
    """

    step: int
    rows: Tensor
    tokens: Tensor
    log_probability: Tensor
    taken: Tensor


@final
@dataclass(frozen=True, eq=False)
class Versions:
    """All changes of a batch, in their order; arrays of one length.

    Attributes:
        step: The step of each change.
        sequence: The sequence.
        position: The position in it.
        token: The token it was given; `MASKED` if it was taken back.
        log_probability: Log-probability of that token under the prediction it came from; 0 if it was taken back.
    """

    step: NDArray[np.int64]
    sequence: NDArray[np.int64]
    position: NDArray[np.int64]
    token: NDArray[np.int64]
    log_probability: NDArray[np.float64]

    @staticmethod
    def of(changes: Sequence[Version], length: int) -> "Versions":
        """The changes of a run, on the CPU."""
        step, rows, token = list[int](), list[int](), list[int]()
        score: list[float] = []
        for each in changes:
            drawn, gone = len(each.rows), len(each.taken)
            step += [each.step] * (drawn + gone)
            rows += plain(each.rows) + plain(each.taken)
            token += plain(each.tokens) + [MASKED] * gone
            score += plain(each.log_probability) + [0.0] * gone
        flat = np.array(rows, dtype=np.int64)
        return Versions(
            np.array(step, dtype=np.int64), flat // max(length, 1), flat % max(length, 1),
            np.array(token, dtype=np.int64), np.array(score, dtype=np.float64),
        )  # fmt: skip

    @staticmethod
    def joined(parts: "Sequence[Versions]", numbers: Sequence[NDArray[np.int64]]) -> "Versions":
        """Those of several batches whose sequences have the given numbers."""
        columns = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("step", "position", "token", "log_probability")
        ]
        sequence = np.concatenate([number[part.sequence] for part, number in zip(parts, numbers, strict=True)])
        return Versions(columns[0], sequence, *columns[1:])

    @property
    def taken(self) -> int:
        """How often a token was taken back."""
        return int((self.token == MASKED).sum())

    @property
    def rewritten(self) -> int:
        """How often a position was given a token after its first one."""
        where = np.stack([self.sequence, self.position])[:, self.token != MASKED]
        return where.shape[1] - np.unique(where, axis=1).shape[1]

    def sizes(self, count: int, steps: int) -> NDArray[np.int64]:
        """How many tokens each step gave, shape `(count, steps)`."""
        result = np.zeros((count, steps), dtype=np.int64)
        given = self.token != MASKED
        np.add.at(result, (self.sequence[given], self.step[given]), 1)
        return result

    def states(self, tokens: NDArray[np.int64], steps: int) -> Iterator[NDArray[np.int64]]:
        """The batch before the first step and after each; `tokens` says what was given, `MASKED` elsewhere."""
        now = tokens.copy()
        yield now.copy()
        for step in range(steps):
            for at in np.flatnonzero(self.step == step):
                now[self.sequence[at], self.position[at]] = self.token[at]
            yield now.copy()

    def to_json(self, count: int) -> list[list[dict[str, Any]]]:
        """For each of `count` sequences its changes, as dictionaries of plain values."""
        result: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        for step, row, position, token in zip(
            self.step.tolist(), self.sequence.tolist(), self.position.tolist(), self.token.tolist(), strict=True
        ):
            result[row].append({"step": step, "position": position, "token": None if token == MASKED else token})
        return result
