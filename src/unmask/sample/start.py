"""What a batch starts from: token ids, and which positions to fill."""

from typing import cast

from unmask import _check as check
from unmask._torch import Tensor, integral, torch
from unmask.predict import MaskPredictor, device_of


def start_of(
    start: object, masked: object, predictor: MaskPredictor, device: torch.device | str | None, *, each: int
) -> tuple[Tensor, Tensor]:
    """The token ids and what is masked of them; `each` says how many numbers will be kept for a position."""
    device = device_of(predictor) if device is None else _device(device)
    if isinstance(start, Tensor):
        if start.ndim != 2 or not integral(start):
            raise check.InputError(
                "start",
                "hold token ids of shape (batch, length)",
                found=f"{start.dtype} of shape {tuple(start.shape)}",
                remedy="Or give the shape itself, as a tuple.",
            )
        tokens = start.to(device=device, dtype=torch.int64)
        hidden = tokens == predictor.mask if masked is None else booleans("masked", masked, tokens)
        given = tokens[~hidden if predictor.pad is None else ~hidden & (tokens != predictor.pad)]
        if given.numel() and not 0 <= int(given.min()) <= int(given.max()) < predictor.vocab:
            raise check.InputError(
                "start", f"hold token ids from 0 to {predictor.vocab - 1} at positions that are not masked"
            )
        return tokens, hidden
    if masked is not None:
        raise check.InputError("", "Argument 'masked' can be used only with token ids, not with a shape")
    wanted = "be a tensor of token ids or a shape (batch, length)"
    shape = cast(tuple[object, ...], check.instance("start", start, tuple, wanted))
    if len(shape) != 2:
        raise check.InputError("start", wanted, found=check.shown(shape))
    batch = check.integer("batch", shape[0], least=0)
    length = check.integer("length", shape[1], least=0, most=check.LONGEST)
    check.room("batch", batch, each * max(length, 1))
    tokens = torch.full((batch, length), predictor.mask, dtype=torch.int64, device=device)
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


def booleans(name: str, values: object, tokens: Tensor) -> Tensor:
    """Booleans of the shape of the tokens, where those are."""
    check.instance("tokens", tokens, Tensor, "be a tensor of token ids")
    if not isinstance(values, Tensor):
        raise check.InputError(name, "be a tensor of booleans", found=check.type_of(values))
    if values.dtype != torch.bool or values.shape != tokens.shape:
        raise check.InputError(
            name,
            f"hold booleans of shape {tuple(tokens.shape)}",
            found=f"{values.dtype} of shape {tuple(values.shape)}",
        )
    return values.to(tokens.device)


def _device(device: torch.device | str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError):  # as its parts please
        found = torch.device("meta")
    if found.type == "meta":  # which holds no numbers
        raise check.InputError("device", "be a device of this machine", found=check.shown(device))
    return found
