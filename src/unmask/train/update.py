"""One update of training, and the same recorded once and replayed.

An update of a small model is hundreds of short kernels, and Python launches them more slowly than a large GPU runs
them. `Recorded` therefore runs the first few updates as they are, records the next as a CUDA graph, and replays it: one
launch for each update, with the numbers of a batch copied to where the graph expects them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask._torch import Tensor, torch

_WARM = 3  # updates before the recording: kernels are compiled and chosen, and the optimisers make their state


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """What one update learns from.

    Attributes:
        inputs: What the network is given; its answer is logits of shape `(rows, vocab)`.
        target: The token of each row.
        weight: What each counts in the loss.
    """

    inputs: tuple[Tensor, ...]
    target: Tensor
    weight: Tensor

    @staticmethod
    def masked(tokens: NDArray[np.int64], masked: NDArray[np.bool_], mask: int) -> "Batch":
        """Predict masked tokens from the others: the network is given token ids and the rows that are wanted.

        The loss is the mean over sequences of the mean cross-entropy over their masked tokens. A few more rows are
        asked for, which count nothing, so that few numbers of rows occur.
        """
        flat = masked.ravel()
        wanted = np.flatnonzero(flat)
        # A compiled model is compiled for each number of rows: round up to a 64th of all positions.
        step = -(-flat.size // 64)
        spare = np.flatnonzero(~flat)[: -len(wanted) % step]
        index = np.concatenate([wanted, spare])
        weight = _weight(masked).ravel()[index]
        return Batch._of((np.where(masked, mask, tokens), index), tokens.ravel()[index], weight)

    @staticmethod
    def stepped(tokens: NDArray[np.int64], step: NDArray[np.int64]) -> "Batch":
        """Predict every token from those of earlier steps: the network is given token ids and steps.

        The loss is the mean over sequences of the mean cross-entropy over their tokens of step 0 and later: those
        before it are given.
        """
        return Batch._of((tokens, step), tokens.ravel(), _weight(step >= 0).ravel())

    @staticmethod
    def _of(inputs: tuple[NDArray[np.int64], ...], target: NDArray[np.int64], weight: NDArray[np.float64]) -> "Batch":
        given = tuple(torch.from_numpy(part) for part in inputs)
        return Batch(given, torch.from_numpy(target), torch.from_numpy(weight.astype(np.float32)))

    @property
    def parts(self) -> tuple[Tensor, ...]:
        return *self.inputs, self.target, self.weight

    @property
    def shapes(self) -> tuple[torch.Size, ...]:
        return tuple(part.shape for part in self.parts)

    def to(self, device: torch.device) -> "Batch":
        """The batch there, or on its way there."""
        if device.type != "cuda":
            return self
        *inputs, target, weight = (part.pin_memory().to(device, non_blocking=True) for part in self.parts)
        return Batch(tuple(inputs), target, weight)

    def loss(self, logits: Tensor) -> Tensor:
        """In nats per token."""
        return (torch.nn.functional.cross_entropy(logits.float(), self.target, reduction="none") * self.weight).sum()


def _weight(counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights of a mean over sequences of means over what is counted of them."""
    return counted / (counted.sum(axis=1, keepdims=True) * len(counted))


@final
@dataclass(frozen=True, eq=False)
class Learner:
    """What an update changes: the parameters of a model, by its optimisers, and the sum of losses.

    Attributes:
        runner: The model, or what runs it (compiled, or one of several processes).
        optimisers: Each group knows its `peak` rate.
        clip: Largest gradient norm.
        total: Sum of the losses so far, a scalar on the device.
    """

    runner: Any
    optimisers: Sequence[torch.optim.Optimizer]
    clip: float
    total: Tensor

    def learn(self, batch: Batch) -> None:
        kind = self.total.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            logits = self.runner(*batch.inputs)
        loss = batch.loss(logits)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.runner.parameters(), self.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.total.add_(loss.detach())

    def set_rate(self, share: float) -> None:
        """All learning rates at a share of their peaks."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                if isinstance(group["lr"], torch.Tensor):
                    group["lr"].fill_(share * group["peak"])
                else:
                    group["lr"] = share * group["peak"]


class Update(ABC):
    """How an update is run."""

    @abstractmethod
    def __call__(self, batch: Batch) -> None:
        """Learn from a batch, on whichever device it is."""


@final
@dataclass(frozen=True, eq=False)
class Plain(Update):
    """As it is written."""

    learner: Learner

    def __call__(self, batch: Batch) -> None:
        self.learner.learn(batch.to(self.learner.total.device))


@final
class Recorded(Update):
    """As a CUDA graph, one for each shape of a batch; learning rates must be tensors, which the graph reads.

    Must be called on a stream of its own (`torch.cuda.stream`): the default one cannot be recorded.
    """

    def __init__(self, learner: Learner):
        self._learner = learner
        self._seen: Counter[tuple[torch.Size, ...]] = Counter()
        self._graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, Batch]] = {}
        # Replays never overlap, so all graphs work in the same memory.
        self._pool = torch.cuda.graph_pool_handle()
        self._done = [torch.cuda.Event(), torch.cuda.Event()]

    def __call__(self, batch: Batch) -> None:
        # Wait for the update before the last one: a host that runs further ahead would not know how late it is.
        self._done.reverse()
        self._done[0].synchronize()
        self._run(batch.to(self._learner.total.device))
        self._done[0].record()

    def _run(self, batch: Batch) -> None:
        shape = batch.shapes
        if shape in self._graphs:
            graph, place = self._graphs[shape]
            for mine, new in zip(place.parts, batch.parts, strict=True):
                mine.copy_(new)
            graph.replay()
        elif self._seen[shape] < _WARM:
            self._seen[shape] += 1
            self._learner.learn(batch)
        else:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=torch.cuda.current_stream()):
                self._learner.learn(batch)
            self._graphs[shape] = graph, batch
            graph.replay()
