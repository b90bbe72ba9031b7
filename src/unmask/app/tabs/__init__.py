"""The five tabs: one module each, which makes its fields and says what they do."""

from collections.abc import Callable, Mapping
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
        running: How it is run: the options of its event.
        usual: What the fields say where a link does not, given what it says of the others; those left out say what
            they did at first.
    """

    form: Form
    refresh: Callable[..., Any]
    outputs: list[Any]
    running: dict[str, Any]
    usual: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda said: {}
