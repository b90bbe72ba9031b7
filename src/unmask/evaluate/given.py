"""What measurements are given, checked before any work: texts, and where randomness comes from."""

from typing import cast

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import MaskPredictor, device_of
from unmask.predict.base import mask_predictor
from unmask.sample import seeds_of
from unmask.sequences import Sequences

NOT_NUMBERS = "The model gives losses that are not numbers; nothing can be measured with it"
Randomness = int | np.random.Generator | torch.Generator


def texts_of(
    tokens: Sequences | Tensor, predictor: MaskPredictor, masked: Tensor | None = None, *, least: int = 1
) -> Sequences:
    """The texts as sequences, where the predictor's weights are.

    Arguments:
        tokens: Sequences, or token ids of shape `(count, length)`.
        predictor: The model.
        masked: With token ids: which positions are to be scored; all by default.
        least: At least so many.

    Raises:
        InputError: if they are no token ids that the predictor has, or fewer than `least`.
    """
    mask_predictor(predictor)
    check_ids(tokens, least=least)
    texts = Sequences.of(tokens, masked, device=device_of(predictor))
    ids = texts.tokens
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < predictor.vocab:
        raise check.InputError("tokens", f"hold token ids from 0 to {predictor.vocab - 1}")
    return texts


def check_ids(tokens: Sequences | Tensor, *, least: int = 1) -> None:
    """Refuse what is neither sequences nor a tensor of texts, each of as many integers, or has fewer than so many."""
    if isinstance(tokens, Sequences):
        if len(tokens) < least:
            raise check.InputError("tokens", f"hold at least {least} sequences", found=f"{len(tokens)}")
        return
    if not isinstance(tokens, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise check.InputError("tokens", "be sequences or a tensor of token ids", found=check.type_of(tokens))
    other = tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool
    if tokens.ndim != 2 or tokens.shape[0] < least or other:
        number = "at least one text" if least == 1 else f"at least {least} texts"
        raise check.InputError(
            "tokens",
            f"hold token ids of shape (count, length), with {number}",
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
        raise check.InputError("rng", "be a seed, a torch generator or a numpy generator", found=check.shown(given))
    return check.seed("rng", rng)


def generator_of(rng: Randomness) -> torch.Generator:
    """A generator of torch: itself, or one with the seed."""
    return rng if isinstance(rng, torch.Generator) else torch.Generator().manual_seed(seed_of(rng))
