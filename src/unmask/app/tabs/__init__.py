"""The four tabs: one module each, which makes its fields and says what they do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unmask.app.fields import Form


@dataclass(frozen=True, eq=False)
class Tab:
    """What the page needs to know of a tab.

    Attributes:
        form: Its fields.
        refresh: Shows what the fields say, when the page opens; its inputs are the fields.
        outputs: Where that goes.
        cancel: The button that ends it, if it can take long.
    """

    form: Form
    refresh: Callable[..., Any]
    outputs: list[Any]
    cancel: Any = None
