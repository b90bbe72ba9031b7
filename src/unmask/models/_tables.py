"""Tables in which a network keeps what it made of a batch, and steps of it that are recorded on a GPU.

A step of a large network with a few new tokens is hundreds of short kernels, which a host launches more slowly than a
GPU runs them. A step of a shape that comes again is therefore recorded as a CUDA graph and replayed: one launch. A
graph knows the memory that it works on, so tables and their graphs are kept together, and handed to the next batch of
the same shape once nobody holds them.
"""

import os
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import final

from unmask._torch import Tensor, torch

_MOST = 8  # shapes of steps that are recorded of one batch: those of even sizes are four or five

Compute = Callable[..., tuple[Tensor, ...]]


@final
class Recordings:
    """Steps of one batch as CUDA graphs, by their shapes."""

    def __init__(self) -> None:
        self._seen: Counter[Hashable] = Counter()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, ...]]] = {}
        # Whoever has every launch waited for looks for an error, and nothing can be recorded then.
        self._most = 0 if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1" else _MOST

    def run(self, key: Hashable, inputs: Sequence[Tensor], compute: Compute) -> tuple[Tensor, ...]:
        """`compute(*inputs)`: replayed if a step of this shape was recorded, and recorded when it comes again.

        Arguments:
            key: Everything that the course of the computation depends on, other than numbers on the device.
            inputs: Tensors on the device, of shapes that belong to the key.
            compute: What is to be done; nothing in it may wait for the device.
        """
        if key not in self._graphs:
            self._seen[key] += 1
            # The first time kernels are chosen and their memory is made.
            if self._seen[key] == 1 or len(self._graphs) >= self._most:
                return compute(*inputs)
            own = [each.clone() for each in inputs]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                found = compute(*own)
            self._graphs[key] = graph, own, found
        graph, own, found = self._graphs[key]
        torch._foreach_copy_(own, list(inputs))  # pyright: ignore[reportPrivateImportUsage]
        graph.replay()
        return tuple(each.clone() for each in found)


@final
@dataclass(eq=False)
class Tables:
    """Keys and values of all layers and of the readers, and contents, by sequence and place; written in place.

    Attributes:
        pairs: Shape `(layers + 1, 2, sequences, places, heads, …)`.
        contents: Shape `(sequences, places, width)`.
        recordings: Steps that are recorded with these tables; None where nothing is.
        newest: The mark of the memory that wrote last.
    """

    pairs: Tensor
    contents: Tensor
    recordings: Recordings | None = None
    newest: object = field(default_factory=object)

    @staticmethod
    def of(network: torch.nn.Module, shape: tuple[int, ...], width: int, spare: "Spare") -> "Tables":
        """Empty tables: those that a batch of the same shape left behind, if there are any.

        Arguments:
            network: Whose they are; their dtype and device are its own.
            shape: That of the keys and values.
            width: Numbers of a content.
            spare: Where tables are kept in between.
        """
        weight = next(network.parameters())
        # Zeros, not whatever the memory holds: what is not seen must still be numbers.
        if not weight.is_cuda:
            return Tables(weight.new_zeros(shape), weight.new_zeros((*shape[2:4], width)))
        return spare.take(network, shape, width)

    def copied(self) -> "Tables":
        return Tables(self.pairs.clone(), self.contents.clone())


@final
class Spare:
    """The tables of the last batch on a GPU, once nobody holds them; not more, since they are large."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Tensor, Tensor, Recordings]] = {}

    def __reduce__(self) -> tuple[type["Spare"], tuple[()]]:
        return Spare, ()  # graphs stay where they were recorded

    def take(self, network: torch.nn.Module, shape: tuple[int, ...], width: int) -> Tables:
        """Tables full of zeros on the network's GPU."""
        weights = list(network.parameters())
        # A graph reads weights where they were, and what one stream has queued may still run when another starts.
        # So may tables made in inference mode be written in it alone, and what is recorded keep to a precision.
        modes = torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        stream = torch.cuda.current_stream(weights[0].device)
        key = shape, stream, modes, tuple(each.data_ptr() for each in weights)
        kept = self._kept.pop(key, None)
        self._kept.clear()
        if kept is None:
            pairs = weights[0].new_zeros(shape)
            kept = pairs, pairs.new_zeros((*shape[2:4], width)), Recordings()
        else:
            for table in kept[:2]:
                table.zero_()
        tables = Tables(*kept)
        weakref.finalize(tables, self._give, key, kept).atexit = False
        return tables

    def _give(self, key: Hashable, kept: tuple[Tensor, Tensor, Recordings]) -> None:
        self._kept = {key: kept}
