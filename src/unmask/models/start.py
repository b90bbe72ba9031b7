"""What a prompt means to a model: the tokens that a run begins from."""

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models.base import Model

_ANSWER = 128  # tokens of an answer, where nobody says how many


def start_of(model: Model, prompt: str | None, length: int | None, *, chat: bool = False) -> tuple[Tensor, int]:
    """One sequence to start from, and the first token to show.

    The sequence has the shape `(1, length)`, with the predictor's mask where something is to be filled.

    Arguments:
        model: The model.
        prompt: What is given; `_` or the model's own mask token stands for a masked token. None for nothing.
        length: Tokens in all; of an answer with `chat`.
        chat: Whether the prompt is a message that is to be answered.
    """
    if prompt is not None and not isinstance(prompt, str):
        raise check.InputError("prompt", "be a text", found=check.shown(prompt))
    if length is not None:
        check.integer("length", length, least=1, most=model.length)
    mask = model.predictor.mask
    if chat:
        if prompt is None:
            raise check.InputError("prompt", "be given", remedy="With {chat}, it is your message.")
        tokens = model.codec.chat(prompt)
        answer, room = length or _ANSWER, model.length - len(tokens)
        if room < 1:
            remedy = f"The model has room for {model.length} tokens, and an answer needs at least one."
            raise check.InputError(
                "prompt", f"have at most {model.length - 1} tokens", found=f"{len(tokens)}", remedy=remedy
            )
        if answer > room:
            remedy = f"The model has room for {model.length} tokens, and the prompt takes {len(tokens)}."
            raise check.InputError("length", f"be at most {room}", found=f"{answer}", remedy=remedy)
        return torch.tensor([tokens + [mask] * answer], device=model.device), len(tokens)
    tokens = model.codec.prompt(prompt or "", mask)
    if len(tokens) > model.length:
        raise check.InputError("prompt", f"have at most {model.length} tokens", found=f"{len(tokens)}")
    if prompt is not None and length is not None and len(tokens) > length:
        raise check.InputError("length", f"be at least {len(tokens)}, the length of the prompt", found=f"{length}")
    wanted = length or (model.cut().length if prompt is None else len(tokens))
    tokens += [mask] * (wanted - len(tokens))
    if mask not in tokens:
        raise check.InputError(
            "prompt",
            "have a gap to fill, written as '_' or as the model's own mask token",
            remedy="To continue the prompt instead, give a larger {length}.",
        )
    return torch.tensor([tokens], device=model.device), 0
