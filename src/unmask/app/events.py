"""What an event of the page may carry: the values of its fields, and nothing that Gradio would stumble over.

Gradio trusts its own script: what that would never send ends in a traceback. Here the same looks are taken beforehand,
and what fails is a `Refusal`. Values that a person can type are let through, whatever they are: a sentence next to the
field answers those.
"""

from pathlib import Path
from typing import Any, final

import gradio as gr
from gradio.utils import get_upload_folder

from unmask.app.guard import Refusal

_WORDS = 256  # letters of the name of a session or an event
_MANY = 1000  # values of a field in which several can be chosen
_LARGE = 10**21  # from here on a browser writes a number as a float
_SINGLE = (gr.Slider, gr.Number, gr.Textbox, gr.Radio, gr.Checkbox, gr.Dropdown)


@final
class Events:
    """Looks at what is sent to the page: `judge` of a `Guard`.

    Arguments:
        page: The page.
    """

    def __init__(self, page: gr.Blocks):
        self._page = page

    def __call__(self, path: str, value: Any) -> Refusal | None:
        if not isinstance(value, dict):
            return Refusal(422, "The request must be an object.")
        for name, kind in (("session_hash", str), ("event_id", str), ("fn_index", int), ("trigger_id", int)):
            given = value.get(name)
            if given is not None and (not isinstance(given, kind) or isinstance(given, bool)):
                return Refusal(422, f"{name} is of the wrong type.")
            if isinstance(given, str) and (len(given) > _WORDS or not given.isascii() or not given.isprintable()):
                return Refusal(422, f"{name} is too long, or has letters that it cannot have.")
        if path.endswith("/reset"):
            return _needs(value, "event_id")
        if path.endswith("/cancel"):
            return _needs(value, "event_id", "session_hash", "fn_index")
        return _needs(value, "session_hash", "fn_index", "data") or self._event(value)

    def _event(self, value: dict[str, Any]) -> Refusal | None:
        event = self._page.fns.get(value["fn_index"])
        if event is None or event.fn is None:
            return Refusal(404, "The page has no such event. Open it again if it was open for long.")
        unusual = {"oauth_token", "simple_format", "batched"}
        if any(value.get(name) for name in unusual) or not _plain(value.get("event_data"), 8):
            return Refusal(422, "The request has parts that this page does not send.")
        given = value["data"]
        if not isinstance(given, list) or len(given) != len(event.inputs):
            return Refusal(422, f"The event takes a list of {len(event.inputs)} values.")
        for field, each in zip(event.inputs, given, strict=True):
            if not _fits(field, each):
                return Refusal(422, f"A value does not fit its field, a {type(field).__name__}.")
        return None


def _needs(value: dict[str, Any], *names: str) -> Refusal | None:
    missing = [name for name in names if value.get(name) is None]
    return Refusal(422, f"{missing[0]} is missing.") if missing else None


def _fits(field: Any, value: Any) -> bool:
    """Whether a component takes a value."""
    model = getattr(field, "data_model", None)
    if not _plain(value, 1 if model is None else 8) or not _uploaded(value):
        return False
    several = isinstance(field, gr.CheckboxGroup) or getattr(field, "multiselect", False) or model is not None
    if not several and isinstance(field, _SINGLE) and isinstance(value, list):
        return False
    if model is None or value is None:
        found: Any = value
    else:
        try:
            found = model.model_validate(value, context={"validate_meta": True})
        except ValueError:
            return False
    try:
        take: Any = field.preprocess
        take(found)
    except Exception:  # each component has its own way of refusing
        return False
    return True


def _plain(value: Any, depth: int) -> bool:
    """Whether a value of JSON is of this depth at most, and made of things that can be written again."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, list):
        return depth > 0 and len(value) <= _MANY and all(_plain(each, depth - 1) for each in value)
    if isinstance(value, dict):
        return depth > 1 and all(_plain(key, 0) and _plain(each, depth - 1) for key, each in value.items())
    return not isinstance(value, int) or abs(value) < _LARGE


def _uploaded(value: Any) -> bool:
    """Whether every file that a value names was uploaded; Gradio would fetch one from anywhere."""
    if isinstance(value, list):
        return all(map(_uploaded, value))
    if not isinstance(value, dict):
        return True
    if "path" in value:
        try:
            path = Path(value["path"]).resolve()
            if not path.is_file() or not path.is_relative_to(Path(get_upload_folder()).resolve()):
                return False
        except (OSError, TypeError, ValueError):
            return False
    return all(map(_uploaded, value.values()))
