"""How many operations of torch a sampler's step dispatches beside its predictor: a count, the same on every machine.

On a GPU a step that does little is as slow as the operations it dispatches, whatever their size. Each step is counted
with `TorchDispatchMode`; what happens inside the call of the predictor is left out, and what is computed from its
prediction is counted. Steps of one run can differ by a few operations, where a sequence is filled earlier than others;
the largest number counts. `benchmarks/sampler.py` prints the numbers and `tests/test_overhead.py` bounds them.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unmask import order, size
from unmask.predict import MaskPredictor, Prediction
from unmask.sample import Sampler
from unmask.schedule import Schedule

VOCAB, LENGTH, BATCH, STEPS = 8, 32, 3, 8

SCHEDULES: dict[str, Schedule] = {
    "random": Schedule(size.Even(STEPS), order.Random()),
    "comb": Schedule(size.Even(STEPS), order.Comb()),
    "confidence": Schedule(size.Even(STEPS), order.Confidence()),
    "margin": Schedule(size.Even(STEPS), order.Margin()),
    "entropy": Schedule(size.Even(STEPS), order.Entropy()),
    "confidence, threshold 0.5": Schedule(size.Threshold(0.5), order.Confidence()),
    "entropy, entropy bound 2": Schedule(size.EntropyBound(2.0), order.Entropy()),
    "confidence in blocks of 8": Schedule(size.Even(2), order.Blocks(order.Confidence(), 8)),
}


class Operations(TorchDispatchMode):
    """Counts what is dispatched while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.on = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.on:
            self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


@dataclass(eq=False)
class Uncounted(MaskPredictor):
    """A table of logits that depends on the tokens revealed so far; what it dispatches itself is not counted."""

    counts: Operations
    vocab: int = VOCAB
    mask: int = VOCAB
    table: torch.Tensor = field(default_factory=lambda: torch.randn(97, VOCAB, generator=_seeded()))

    def __call__(self, tokens: torch.Tensor, masked: torch.Tensor, rows: torch.Tensor | None = None) -> Prediction:
        self.counts.on = False
        flat = torch.arange(tokens.numel()) if rows is None else rows
        length = tokens.shape[1]
        known = (tokens * torch.arange(1, length + 1)).sum(dim=1)
        logits = self.table[(known[flat // length] + 13 * (flat % length)) % 97]
        self.counts.on = True
        return Prediction((logits,), _same, self.vocab)


def _same(logits: torch.Tensor) -> torch.Tensor:
    return logits


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@torch.no_grad()
def dispatched(schedule: Schedule) -> Counter[str]:
    """Which operations a step dispatches beside its predictor, each as often as in the step that has most."""
    counts = Operations()
    sampler = Sampler(Uncounted(counts), schedule)
    state = sampler.init((BATCH, LENGTH), rng=list(range(BATCH)))
    most: Counter[str] = Counter()
    while True:
        counts.seen = Counter()
        with counts:
            state, step = sampler.step(state)
        if step is None:
            return most
        most = max(most, counts.seen, key=Counter.total)


@torch.no_grad()
def texts(schedule: Schedule) -> list[list[int]]:
    """What is written, so that two versions can be compared token by token."""
    sampler = Sampler(Uncounted(Operations()), schedule)
    return sampler.run((BATCH, LENGTH), rng=list(range(BATCH))).tokens.tolist()


def main() -> None:
    for name, schedule in SCHEDULES.items():
        print(f"{f'operations, {name}':<44}{dispatched(schedule).total():>19} a step")


if __name__ == "__main__":
    main()
