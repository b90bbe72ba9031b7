"""What measurements are given, checked before any work: texts, and where randomness comes from."""

from typing import cast

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import MaskPredictor, device_of
from unmask.sample import seeds_of

NOT_NUMBERS = "The model gives losses that are not numbers; nothing can be measured with it"
Randomness = int | np.random.Generator | torch.Generator


def texts_of(tokens: Tensor, predictor: MaskPredictor, *, least: int = 1) -> Tensor:
    """The texts as token ids of shape `(count, length)`, int64, where the predictor's weights are.

    Raises:
        InputError: if they are no tensor of token ids that the predictor has, or fewer than `least`.
    """
    if not isinstance(predictor, MaskPredictor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise check.InputError(
            "predictor",
            "be a mask predictor",
            found=f"{type(predictor).__name__}",
            remedy="Wrap a model that gives logits in unmask.predict.Logits.",
        )
    check_ids(tokens, least=least)
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < predictor.vocab:
        raise check.InputError("tokens", f"hold token ids from 0 to {predictor.vocab - 1}")
    return tokens.to(device=device_of(predictor), dtype=torch.int64)


def check_ids(tokens: Tensor, *, least: int = 1) -> None:
    """Refuse what is no tensor of at least so many texts, each of as many integers."""
    if not isinstance(tokens, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise check.InputError("tokens", "be a tensor of token ids", found=f"{type(tokens).__name__}")
    other = tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool
    if tokens.ndim != 2 or tokens.shape[0] < least or other:
        number = "at least one text" if least == 1 else f"at least {least} texts"
        raise check.InputError(
            "tokens",
            f"hold token ids of shape (count, length), {number}",
            found=f"{tokens.dtype} of shape {tuple(tokens.shape)}",
        )


def seed_of(rng: Randomness) -> int:
    """One seed: itself, or drawn from a generator."""
    if isinstance(rng, torch.Generator):
        return seeds_of(rng, 1)[0]
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**62))
    given = cast("object", rng)  # whatever a stranger brings
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise check.InputError("rng", "be a seed or a generator of torch or numpy", found=check.shown(given))
    return check.seed("rng", rng)


def generator_of(rng: Randomness) -> torch.Generator:
    """A generator of torch: itself, or one with the seed."""
    return rng if isinstance(rng, torch.Generator) else torch.Generator().manual_seed(seed_of(rng))
