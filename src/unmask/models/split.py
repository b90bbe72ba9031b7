"""A network of Hugging Face as a mask predictor, with its output layer apart where that is possible.

The output layer of a language model is a matrix product with the vocabulary: most of the work at 126,464 tokens, and
needed at the masked positions alone. Whatever the architecture, `get_output_embeddings` names that layer. A shallow
copy of the network with the identity in its place gives hidden states; the weights are shared. Some architectures do
more after that layer, or never call it: so both ways are run once on a few tokens, and unless they agree the network
is used whole.

Whether sequences may be filled up is found out likewise. Most architectures hide padding from attention if they are
told where it is; some have no attention, or mix neighbours by other means too. So a few tokens are run alone and filled
up beside longer ones, and unless they are told the same, sequences of different lengths are kept apart.
"""

import copy
from collections.abc import Sequence
from typing import Any, final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import Headed, Logits, MaskPredictor

_ROUNDINGS = 4  # how many units of its last digit the largest logit may differ by
_BROKEN = (AttributeError, RuntimeError, TypeError, ValueError, IndexError, KeyError)  # what a network may answer with


@final
class Call:
    """Calls a network with token ids; padding is hidden from its attention.

    Arguments:
        network: Takes `input_ids` and `attention_mask`, and gives an object with `.logits`.
        pad: The token id of padding; `None` if there is none.
        whole: What the network is a copy of, if it is one: whose mode of training or evaluation counts.
    """

    def __init__(self, network: Any, pad: int | None, whole: Any = None):
        self.network, self.pad, self.whole = network, pad, whole

    def __call__(self, tokens: Tensor) -> Tensor:
        if self.pad is not None:
            present = tokens != self.pad
            # Without padding attention is faster. To look costs nothing on the CPU; a GPU would be waited for.
            if present.is_cuda or not bool(present.all()):
                return self.network(input_ids=tokens, attention_mask=present.long()).logits
        return self.network(input_ids=tokens).logits


@torch.no_grad()
def predictor(network: Any, mask: int, pad: int | None, probe: Sequence[int]) -> MaskPredictor:
    """The network as a mask predictor: `Headed` if that gives the same logits on the probe, else `Logits`.

    Arguments:
        network: A model of transformers with a head for tokens.
        mask: Token id that stands at masked positions.
        pad: Token id of padding, if there is any.
        probe: A few token ids to compare on.
    """
    device = next(network.parameters()).device
    tokens = torch.tensor([list(probe)], device=device)
    whole = Call(network, pad)
    logits = whole(tokens)
    if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
        raise check.InputError(
            "model", "return logits for every position", found=f"logits of shape {tuple(logits.shape)}"
        )
    vocab = logits.shape[-1]
    parts = split(network)
    if parts is not None:
        body, head = Call(parts[0], pad, network), parts[1]
        if _agree(body, head, tokens, logits):
            return Headed(body, head, vocab, mask, pad=hides(network, pad, probe))
    return Logits(whole, vocab, mask, pad=hides(network, pad, probe))


@torch.no_grad()
def hides(network: Any, pad: int | None, probe: Sequence[int]) -> int | None:
    """The token id of padding if the network hides it from all that is told; `None` if it does not, or there is none.

    Arguments:
        network: Takes `input_ids` and `attention_mask`, and gives an object with `.logits`.
        pad: Token id of padding, if there is any.
        probe: A few token ids: their first half is run alone, and filled up beside all of them.
    """
    longer = [token for token in probe if token != pad]
    shorter = longer[: (len(longer) + 1) // 2]
    if pad is None or len(longer) == len(shorter):
        return None
    device = next(network.parameters()).device
    tokens = torch.tensor([shorter + [pad] * (len(longer) - len(shorter)), longer], device=device)
    present = (tokens != pad).long()
    try:
        alone = network(input_ids=tokens[:1, : len(shorter)]).logits[0].float()
        hidden, seen = (
            (network(input_ids=tokens, attention_mask=where).logits[0, : len(shorter)].float() - alone).abs().mean()
            for where in (present, torch.ones_like(present))
        )
    except _BROKEN:
        return None
    # Rounding grows with the depth of a network, so the measure is what padding does when it is seen: half of the
    # digits are enough to tell the two apart. Both are means over logits: the largest of them would be a whole unit of
    # the last digit as soon as one logit is rounded the other way, which in half precision may be a thirtieth of what
    # padding does, and depends on the processor. Where it does nothing at all, nothing can be told.
    dtype = next((each.dtype for each in network.parameters() if each.is_floating_point()), torch.float32)
    return pad if bool((seen > 0) & (hidden <= seen * torch.finfo(dtype).eps ** 0.5)) else None


def split(network: Any) -> tuple[torch.nn.Module, torch.nn.Linear] | None:
    """A copy of the network that gives hidden states in place of logits, and its output layer; or `None`."""
    try:
        head = network.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    path = next((name for name, part in network.named_modules() if part is head), "")
    if not path or not isinstance(head, torch.nn.Linear):
        return None
    return _replaced(network, path.split("."), torch.nn.Identity()), head


def _replaced(module: torch.nn.Module, path: list[str], part: torch.nn.Module) -> torch.nn.Module:
    """The module with another part at a path; only the modules on the path are copied, and no weights."""
    copied = copy.copy(module)
    inner = module.get_submodule(path[0])
    copied._modules = {**module._modules, path[0]: _replaced(inner, path[1:], part) if path[1:] else part}
    return copied


def _agree(body: Call, head: torch.nn.Linear, tokens: Tensor, logits: Tensor) -> bool:
    try:
        found = head(body(tokens))
    except _BROKEN:
        return False  # the layer is not simply called: its weights are used by hand, say
    return same(found, logits)


def same(found: Tensor, logits: Tensor) -> bool:
    """Whether logits found in another way are those, but for the rounding of the output layer."""
    if found.shape != logits.shape:
        return False
    error = (found.float() - logits.float()).abs().max()
    return bool(error <= _ROUNDINGS * torch.finfo(logits.dtype).eps * logits.float().abs().max())
