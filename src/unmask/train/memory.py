"""What a run needs of memory, at the least, so that one that cannot fit is refused before anything is made.

Weights, their moving average and the state of the optimiser are there throughout: 16 bytes for each parameter with
AdamW, 12 with Muon. On top come what the layers keep for the gradients, and later the gradients. Kept are, in numbers
of two bytes on a GPU and of four elsewhere, about 12 states of the width and 5 of the hidden width for each token and
layer; for each reader as much for the tokens that are masked, about half of them, and two states for every token; the
logits three times; and for each token some indices, of this batch and of the next one. A network that is causal in the
schedule predicts every token, not half of them, and has two tables of who sees whom, `length²` numbers for each text.
What else a program needs is
left out, so that the sum is a lower bound: half to nine tenths of what was measured.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from unmask import _check as check
from unmask._memory import check_memory, exhausted
from unmask._torch import torch
from unmask.models.causal import CausalConfig
from unmask.models.shape import Shape

# What is usual: the argument that is furthest above it is the one to change.
_USUAL = {
    "batch": 64, "length": 256, "width": 256, "layers": 4, "readers": 4, "hidden": 512, "reader_hidden": 928,
    "vocab": 1024,
}  # fmt: skip

_INDICES = 300  # bytes


def bytes_needed(config: Shape, batch: int, *, muon: bool = False, cuda: bool = False) -> int:
    """A lower bound for the memory that training takes, in bytes.

    Arguments:
        config: Shape of the model.
        batch: Sequences per update in one process.
        muon: Whether Muon trains the matrices inside the layers.
        cuda: Whether that is on a GPU.
    """
    tokens = batch * config.length
    causal = isinstance(config, CausalConfig)
    predicted = tokens if causal else tokens // 2
    states = 12 * config.width
    kept = config.layers * tokens * (states + 5 * config.hidden)
    kept += config.readers * (tokens * 2 * config.width + predicted * (states + 5 * config.reader_hidden))
    kept += 2 * tokens * config.length if causal else 0
    logits = 3 * 4 * predicted * config.vocab
    activations = (2 if cuda else 4) * kept + logits + _INDICES * tokens
    parameters = config.parameters
    return (12 if muon else 16) * parameters + max(activations, 4 * parameters)


def check_fit(
    config: Shape, batch: int, *, muon: bool = False, device: str | torch.device = "cpu", processes: int = 1
) -> None:
    """Refuse a run that cannot fit into the memory of the machine, or of its GPU.

    Arguments:
        config: Shape of the model.
        batch: Sequences per update, over all processes.
        muon: Whether Muon trains the matrices inside the layers.
        device: Where the run is to be.
        processes: How many processes share the batch.

    Raises:
        InputError: if it needs more than there is; it is about the argument that is furthest above what is usual.
    """
    place = torch.device(device)
    needed = bytes_needed(config, -(-batch // processes), muon=muon, cuda=place.type == "cuda")
    check_memory(needed, _largest(config, batch // processes), "Use a smaller value.", device=place)


@contextmanager
def fitting(
    config: Shape, batch: int, *, muon: bool = False, device: str | torch.device = "cpu", processes: int = 1
) -> Iterator[None]:
    """Check a run as `check_fit` does; where that lower bound was too low, say so of the same argument.

    Arguments:
        config: Shape of the model.
        batch: Sequences per update, over all processes.
        muon: Whether Muon trains the matrices inside the layers.
        device: Where the run is to be.
        processes: How many processes share the batch.

    Raises:
        InputError: if it needs more than there is, or more was asked for than there was.
    """
    check_fit(config, batch, muon=muon, device=device, processes=processes)
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not exhausted(error):
            raise
        raise check.InputError(
            _largest(config, batch // processes),
            "be smaller",
            detail="because there was not enough memory",
        ) from None


def _largest(config: Shape, batch: int) -> str:
    """The argument that is furthest above what is usual."""
    given = {"batch": batch, **{name: getattr(config, name) for name in _USUAL if name != "batch"}}
    return max(_USUAL, key=lambda name: given[name] * 1000 // _USUAL[name])
