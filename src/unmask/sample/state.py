"""The state of a run between two steps, what one step did, and what ends a sequence early."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import Memory
from unmask.sample.draw import impossible
from unmask.sample.plan import Plan
from unmask.sample.revising import RevisedPlan
from unmask.sample.trace import GIVEN, OPEN, PADDED, Trace
from unmask.sample.versions import Version, Versions


@final
@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs.

    Attributes:
        tokens: Token ids, shape `(batch, length)`, the predictor's mask at masked positions.
        masked: Booleans, true where a token is still to be revealed.
        uniform: One number in `[0, 1)` for each position, used when that position is drawn.
        plan: The rest of the plan: which positions come at which step.
        step: Steps taken so far.
        revealed: The step at which each position was revealed; `GIVEN` if it was not, `PADDED` after an early stop.
        log_probability: Log-probability of each revealed token under the prediction it was drawn from.
        evaluations: Predictor evaluations that revealed something of each sequence, shape `(batch,)`.
        calls: Predictor calls.
        seeds: The seed of each sequence.
        end: The token id at which the sampler is to stop; `None` if it never does.
        memory: What the predictor remembers of the batch; `None` if it remembers nothing.
        versions: What was changed so far, where a revision can take tokens back; `None` otherwise.
    """

    tokens: Tensor
    masked: Tensor
    uniform: Tensor
    plan: Plan | RevisedPlan
    step: int
    revealed: Tensor
    log_probability: Tensor
    evaluations: NDArray[np.int64]
    calls: int
    seeds: tuple[int, ...]
    end: int | None = None
    memory: Memory | None = None
    versions: tuple[Version, ...] | None = None

    def trace(self) -> Trace:
        """The record of all steps so far, on the CPU.

        Raises:
            InputError: if a prediction on the way was not a number. On a GPU nothing earlier says so where the loop
                never waits for it.
        """
        score = self.log_probability.cpu()
        if bool(torch.isnan(score).any()):
            raise impossible()
        revealed = self.revealed.masked_fill(self.masked, OPEN).cpu()
        versions = None if self.versions is None else Versions.of(self.versions, self.tokens.shape[1])
        tokens = self.tokens.cpu()
        return Trace(tokens, revealed, score, self.evaluations, self.calls, self.seeds, self.end, versions=versions)


@final
@dataclass(frozen=True, eq=False)
class Step:
    """What a reader wants to know of one step.

    Attributes:
        index: Number of the step, from 0.
        rows: Flat indices of the positions revealed.
        tokens: The tokens they were given.
        log_probability: Their log-probabilities; not a number where the prediction was none.
        taken: Flat indices of positions taken back, where a revision can; `None` otherwise.
        grown: How many more tokens stand after it, where a revision can take some back; `None` otherwise.
    """

    index: int
    rows: Tensor
    tokens: Tensor
    log_probability: Tensor
    taken: Tensor | None = None
    grown: int | None = None

    @property
    def gained(self) -> int:
        """How many more tokens stand after it than before."""
        return self.rows.numel() if self.grown is None else self.grown


@final
@dataclass(frozen=True)
class Stop:
    """End a sequence early: once `end` is revealed with nothing masked before it, the rest becomes `pad`.

    What was already revealed after it stays, and does not count (`unmask.sample.trace`). Nothing of the answer is
    changed by it, under any schedule that takes nothing back: it comes when all of that is revealed, and no other
    sequence hears of it. So it saves evaluations, and costs one wait for the device at each step, to see the end. With
    a revision the answer is settled by it: what might have been taken back later stays.

    Arguments:
        end: The token id that ends a sequence.
        pad: The token id that fills the rest.
    """

    end: int
    pad: int

    def __post_init__(self):
        check.integer("end", self.end, least=0)
        check.integer("pad", self.pad, least=0)


def stopped(state: State, stop: Stop) -> State:
    """The state without what comes after an end that was revealed."""
    ended = (state.tokens == stop.end) & (state.revealed != GIVEN)
    open_before = state.masked.cumsum(dim=1) > 0
    # After the first revealed end that has nothing masked before it, everything masked becomes padding.
    after = (ended & ~open_before).cumsum(dim=1) > 0
    closed = after & state.masked
    return replace(
        state,
        plan=state.plan.without(closed),
        tokens=state.tokens.masked_fill(closed, stop.pad),
        masked=state.masked & ~closed,
        revealed=state.revealed.masked_fill(closed, PADDED),
    )
