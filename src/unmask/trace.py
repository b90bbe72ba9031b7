"""The record of a run: what evaluation, plots, the command line and the page read.

For every position it says which token it holds, at which step it was revealed and with what log-probability; for every
sequence, how many evaluations it took part in.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unmask.backend import Tensor, torch

GIVEN = -1  # the step of a position that was not masked
PADDED = -2  # the step of a position filled with padding after an early stop


@dataclass(frozen=True, eq=False)
class Trace:
    """What a sampler did, on the CPU.

    Attributes:
        tokens: Token ids, shape `(batch, length)`.
        revealed: The step at which each position was revealed, from 0; `GIVEN` or `PADDED` otherwise.
        log_probability: Log-probability at reveal under the prediction, in float64; 0 where nothing was drawn.
        evaluations: Evaluations each sequence took part in, shape `(batch,)`.
        calls: Predictor calls for the whole batch.
        seeds: The seed of each sequence; `Sampler.run(…, rng=[seed])` repeats it.
    """

    tokens: Tensor
    revealed: Tensor
    log_probability: Tensor
    evaluations: np.ndarray
    calls: int
    seeds: tuple[int, ...]

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        revealed: Tensor,
        log_probability: Tensor,
        evaluations: np.ndarray,
        calls: int,
        seeds: tuple[int, ...],
    ) -> "Trace":
        return cls(tokens.cpu(), revealed.cpu(), log_probability.cpu(), evaluations, calls, seeds)

    @property
    def steps(self) -> int:
        """Number of steps of the longest sequence."""
        return int(self.revealed.max()) + 1 if self.revealed.numel() else 0

    @property
    def sizes(self) -> Tensor:
        """How many positions each step revealed, shape `(batch, steps)`."""
        step = torch.arange(max(self.steps, 0))
        return (self.revealed[:, :, None] == step).sum(dim=1)

    @property
    def nll(self) -> Tensor:
        """Negative log-probability of what was drawn, per sequence, in nats."""
        return -self.log_probability.sum(dim=1)

    @property
    def tokens_per_evaluation(self) -> float:
        """Tokens drawn per evaluation of a sequence; prompt and padding do not count."""
        evaluations = int(self.evaluations.sum())
        return int((self.revealed >= 0).sum()) / evaluations if evaluations else 0.0

    def frames(self, decode: Callable[[list[int]], str], blank: str = "_") -> Iterator[list[str]]:
        """The sequences as text before the first step and after each: one list of lines per frame.

        Arguments:
            decode: Maps a list of token ids to text.
            blank: Stands for a masked position.
        """
        for step in range(-1, self.steps):
            # Padding appears with the last frame: when it was written is not recorded.
            shown = (self.revealed <= step) & ((self.revealed != PADDED) | (step == self.steps - 1))
            yield [
                "".join(decode([token]) if visible else blank for token, visible in zip(row, mask, strict=True))
                for row, mask in zip(self.tokens.tolist(), shown.tolist(), strict=True)
            ]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "tokens": self.tokens.tolist(),
            "revealed": self.revealed.tolist(),
            "log_probability": [[round(value, 9) for value in row] for row in self.log_probability.tolist()],
            "sizes": self.sizes.tolist(),
            "nll": self.nll.tolist(),
            "evaluations": self.evaluations.tolist(),
            "calls": self.calls,
            "tokens_per_evaluation": self.tokens_per_evaluation,
            "seeds": list(self.seeds),
        }
