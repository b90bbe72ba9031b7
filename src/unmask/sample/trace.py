"""The record of a run: what evaluation, plots, the command line and the page read.

For every position it says which token it holds, at which step it was revealed and with what log-probability; for every
sequence, how many evaluations it took.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.sequences import put_back

GIVEN = -1  # the step of a position that was not masked
PADDED = -2  # the step of a position filled with padding after an early stop
OPEN = -3  # the step of a position that is still masked, in the record of an unfinished run


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """What a sampler did, on the CPU.

    Attributes:
        tokens: Token ids, shape `(batch, length)`.
        revealed: The step at which each position was revealed, from 0; `GIVEN`, `PADDED` or `OPEN` otherwise. A
            sequence's steps are counted by what it reveals: a size of zero is no step.
        log_probability: Log-probability at reveal under the prediction, in float64; 0 where nothing was drawn.
        evaluations: Evaluations that revealed something of each sequence, shape `(batch,)`.
        calls: Predictor calls for the whole batch.
        seeds: The seed of each sequence; `Sampler.run(…, rng=[seed])` repeats it.
    """

    tokens: Tensor
    revealed: Tensor
    log_probability: Tensor
    evaluations: NDArray[np.int64]
    calls: int
    seeds: tuple[int, ...]

    @staticmethod
    def joined(traces: "Sequence[Trace]", order: Tensor) -> "Trace":
        """One record of all, in which the sequences of these have the given numbers; shorter ones are padded."""
        width = max((trace.tokens.shape[1] for trace in traces), default=0)

        def whole(part: str, filling: float) -> Tensor:
            wide = [torch.nn.functional.pad(getattr(trace, part), (0, width - trace.tokens.shape[1]), value=filling)
                    for trace in traces]  # fmt: skip
            return put_back(wide, order)

        evaluations = np.zeros(len(order), dtype=np.int64)
        seeds = np.zeros(len(order), dtype=object)
        if traces:
            evaluations[order.numpy()] = np.concatenate([trace.evaluations for trace in traces])
            seeds[order.numpy()] = [seed for trace in traces for seed in trace.seeds]
        calls = sum(trace.calls for trace in traces)
        tokens, revealed, score = whole("tokens", 0), whole("revealed", PADDED), whole("log_probability", 0.0)
        return Trace(tokens, revealed, score, evaluations, calls, tuple(seeds.tolist()))

    @property
    def steps(self) -> int:
        """Number of steps of the longest sequence."""
        return max(int(self.revealed.max()) + 1, 0) if self.revealed.numel() else 0

    @property
    def sizes(self) -> Tensor:
        """How many positions each step revealed, shape `(batch, steps)`."""
        counts = torch.zeros((self.revealed.shape[0], self.steps - OPEN), dtype=torch.int64)
        return counts.scatter_add_(1, self.revealed - OPEN, torch.ones_like(self.revealed))[:, -OPEN:]

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
        check.function("decode", decode)
        check.instance("blank", blank, str, "be text")
        drawn = plain(self.revealed != OPEN)
        words = [
            [decode([token]) if known else blank for token, known in zip(row, mask, strict=True)]
            for row, mask in zip(plain(self.tokens), drawn, strict=True)
        ]
        for step in range(-1, self.steps):
            shown = (self.revealed <= step) & (self.revealed >= GIVEN)
            if step == self.steps - 1:  # when padding was written is not recorded
                shown |= self.revealed == PADDED
            yield [
                "".join(word if visible else blank for word, visible in zip(row, mask, strict=True))
                for row, mask in zip(words, plain(shown), strict=True)
            ]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values; `None` for the logarithm of zero, which JSON cannot write."""
        return {
            "tokens": plain(self.tokens),
            "revealed": plain(self.revealed),
            "log_probability": [[_finite(round(value, 9)) for value in row] for row in plain(self.log_probability)],
            "sizes": plain(self.sizes),
            "nll": [_finite(value) for value in plain(self.nll)],
            "evaluations": self.evaluations.tolist(),
            "calls": self.calls,
            "tokens_per_evaluation": self.tokens_per_evaluation,
            "seeds": list(self.seeds),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
