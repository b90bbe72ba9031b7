"""Text from a model in one call, and what a prompt means to it."""

import numpy as np

from unmask import _check as check
from unmask import order, size
from unmask._torch import Tensor, torch
from unmask.models.base import Model
from unmask.sample import Categorical, Draw, Sampler, Seeds, seeds_of
from unmask.schedule import Schedule

_STEPS = 16
_ANSWER = 128  # tokens of an answer, where nobody says how many


def generate(
    model: Model,
    schedule: Schedule | None = None,
    *,
    count: int = 1,
    prompt: str | None = None,
    length: int | None = None,
    draw: Draw | None = None,
    rng: Seeds = 0,
) -> list[str]:
    """Texts that a model writes under a schedule.

    Arguments:
        model: The model (`unmask.load`).
        schedule: How many tokens at each step, and which; 16 even steps of a comb by default.
        count: How many texts.
        prompt: What is given: `_` or the model's own mask token stands for a masked token. None for nothing.
        length: Tokens in all; the model's own by default, and those of the prompt if there is one.
        draw: How a token is drawn from its prediction; the predicted law itself by default.
        rng: The seed of the first text, from which the others count on; or a seed for each, or a generator.

    Example:
        >>> import unmask
        >>> text = unmask.generate(unmask.load("builtin"), prompt="the _____ of the _____", rng=3)[0]
        >>> text[:4], text[9:17], len(text)
        ('the ', ' of the ', 22)
    """
    count = check.integer("count", count, least=1)
    start, _ = start_of(model, prompt, length)
    masked = int((start == model.predictor.mask).sum())
    if schedule is None:
        schedule = Schedule(size.Even(min(_STEPS, masked)), order.Comb())
    # As on the command line: the first text of a seed is that of the seed alone.
    plain = isinstance(rng, int | np.integer) and not isinstance(rng, bool)
    seeds = [check.seed("rng", rng) + row for row in range(count)] if plain else seeds_of(rng, count)
    sampler = Sampler(model.predictor, schedule, Categorical() if draw is None else draw, model.stop)
    traces = sampler.batches(start.expand(count, -1), rng=seeds)
    return [text for trace in traces for text in model.texts(trace)]


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
            raise check.InputError("prompt", "be given", remedy="With {chat} it is the message.")
        tokens = model.codec.chat(prompt)
        answer, room = length or _ANSWER, model.length - len(tokens)
        if answer > room:
            remedy = f"So many tokens are left of the model's {model.length} after a prompt of {len(tokens)}."
            raise check.InputError("length", f"be at most {room}", found=f"{answer}", remedy=remedy)
        return torch.tensor([tokens + [mask] * answer], device=model.device), len(tokens)
    tokens = model.codec.prompt(prompt or "", mask)
    if len(tokens) > model.length:
        raise check.InputError("prompt", f"have at most {model.length} tokens", found=f"{len(tokens)}")
    if prompt is not None and length is not None and len(tokens) > length:
        raise check.InputError("length", f"be at least that of the prompt, {len(tokens)}", found=f"{length}")
    wanted = length or (model.cut().length if prompt is None else len(tokens))
    tokens += [mask] * (wanted - len(tokens))
    if mask not in tokens:
        raise check.InputError(
            "prompt",
            "have something to fill, written as '_' or as the model's own mask token",
            remedy="Or give a {length} beyond it.",
        )
    return torch.tensor([tokens], device=model.device), 0
