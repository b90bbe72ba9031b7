"""Numbers within a file: four bytes each, as text."""

import base64
import binascii
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check

LARGEST = 1e30  # nats: float32 has room for it


def text_of(values: NDArray[Any]) -> str:
    """The numbers as a file keeps them."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def numbers_of(name: str, text: object, count: int, *, signed: bool = False) -> NDArray[np.float32]:
    """As many numbers as there must be, all of them finite and, unless they are signed, none negative.

    Arguments:
        name: What they are called in the file.
        text: What `text_of` gave.
        count: How many there must be.
        signed: Whether they may be negative.

    Raises:
        InputError: if the text is something else.

    Example:
        >>> numbers_of("nll", text_of(np.array([1.5, 2.0])), 2).tolist()
        [1.5, 2.0]
    """
    try:
        raw = base64.b64decode(cast(str, text), validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise check.InputError(name, "hold numbers in base64") from None
    if len(raw) != 4 * count:
        raise check.InputError(name, f"have {4 * count} bytes", found=f"{len(raw)}")
    values = np.frombuffer(raw, dtype="<f4").astype(np.float32)
    least = -LARGEST if signed else 0.0
    if not np.all((values >= least) & (values <= LARGEST)):
        raise check.InputError(name, "hold finite numbers" + ("" if signed else ", none of them negative"))
    return values
