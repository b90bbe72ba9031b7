"""Fields that answer for themselves: whatever is wrong with a value is said next to it, in one sentence."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import gradio as gr

from unmask.app.links import Parser, as_csv, as_json, link

# What the library raises when it is the request that is at fault.
MISTAKES = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)
QUIET: dict[str, Any] = {"api_visibility": "private"}  # the page is for people; programs have the library
# Every move of a slider is answered, but a slow answer is never waited for: the last position counts.
LIVE: dict[str, Any] = {**QUIET, "show_progress": "hidden", "trigger_mode": "always_last", "queue": False}


class Form:
    """The fields of one tab, by the name of the argument they fill.

    Arguments:
        tab: The name of the tab, as in a link.
        aliases: Other names under which the library speaks of a field.
    """

    def __init__(self, tab: str, aliases: dict[str, str] | None = None):
        self.tab = tab
        self.aliases = aliases or {}
        self.fields: dict[str, Any] = {}
        self.parsers: dict[str, Parser] = {}
        self.places: dict[str, gr.HTML] = {}

    def add(self, name: str, field: Any, parse: Parser) -> Any:
        """Take a field that was just made, and put the place for its sentence below it.

        Arguments:
            name: The argument. field: The component. parse: Reads its value from a link.
        """
        self.fields[name] = field
        self.parsers[name] = parse
        self._place(name)
        return field

    def finish(self) -> None:
        """The place for sentences that belong to no single field."""
        self._place("")

    def _place(self, name: str) -> None:
        identity = f"{self.tab}-{name or 'form'}-problem".replace(" ", "-")
        self.places[name] = gr.HTML(elem_id=identity, elem_classes="problem")

    @property
    def inputs(self) -> list[Any]:
        return list(self.fields.values())

    @property
    def outputs(self) -> list[Any]:
        """The places for sentences."""
        return list(self.places.values())

    def values(self, given: Sequence[Any]) -> dict[str, Any]:
        """The values of all fields by name; whole numbers as integers, as a slider does not always send them."""
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in zip(self.fields, given, strict=True)
        }

    def answers(self, error: BaseException | None = None) -> list[str]:
        """For each place its sentence; empty where all is well."""
        sentences = dict.fromkeys(self.places, "")
        if error is not None:
            name, words = self._sentence(error)
            sentences[name] = f'<p role="alert">{escape(words)}</p>'
        return list(sentences.values())

    def _sentence(self, error: BaseException) -> tuple[str, str]:
        if isinstance(error, MemoryError | OverflowError):
            return "", "The numbers are too large for this machine's memory. Take a smaller length."
        words = str(error)
        # Where the command line speaks of an option, the page has a field.
        named = re.search(r"Argument '([^']+)'|--([a-z-]+)", words)
        name = (named[1] or named[2]) if named else ""
        name = self.aliases.get(name, name)
        words = re.sub(r"--([a-z-]+)( [A-Z]+)?", lambda flag: f"'{self.aliases.get(flag[1], flag[1])}'", words)
        words = re.sub(r"^Argument '([^']+)'", lambda found: self.aliases.get(found[1], found[1]).capitalize(), words)
        return (name if name in self.places else ""), words

    def link(self, values: dict[str, Any]) -> str:
        """The link to this view."""
        address = escape(link(self.tab, {name: values[name] for name in self.fields if name in self.parsers}))
        return f'<a href="{address}">Link to this view</a>'


def answered(form: Form, outputs: int) -> Callable[[Callable[..., Sequence[Any]]], Callable[..., list[Any]]]:
    """Makes a handler of a function of the form's values: a mistake leaves the view as it is and is said in its place.

    Arguments:
        form: The form whose values are the handler's inputs, and whose places follow its other outputs.
        outputs: How many other outputs there are.
    """

    def decorate(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
        def handler(*given: Any) -> list[Any]:
            try:
                return [*function(form.values(given)), *form.answers()]
            except MISTAKES as error:
                return [*[gr.skip()] * outputs, *form.answers(error)]

        return handler

    return decorate


def streamed(form: Form, outputs: int) -> Callable[[Callable[..., Iterator[Sequence[Any]]]], Callable[..., Any]]:
    """The same for long work that shows how far it has come; the last output is its progress."""

    def decorate(function: Callable[..., Iterator[Sequence[Any]]]) -> Callable[..., Any]:
        def handler(*given: Any) -> Iterator[list[Any]]:
            try:
                for shown in function(form.values(given)):
                    yield [*shown, *form.answers()]
            except MISTAKES as error:
                yield [*[gr.skip()] * (outputs - 1), "", *form.answers(error)]

        return handler

    return decorate


def whole_slider(**options: Any) -> gr.Slider:
    """A slider of whole numbers whose number box may hold anything: what does not fit is answered by the form."""
    slider = gr.Slider(step=1, buttons=[], **options)
    # Gradio would answer a number out of range by a message that flies in and away.
    slider.preprocess = lambda payload: payload
    return slider


def downloads(form: Form, view: Callable[[dict[str, Any]], Any], name: str) -> None:
    """Two buttons that save what `view` makes of the form's values, as JSON and as CSV.

    The text is made when it is asked for and saved by the browser: nothing is left on the server.
    """
    kinds: dict[str, Callable[[Any], str]] = {
        "json": lambda shown: as_json(shown.record()),
        "csv": lambda shown: as_csv(shown.rows()),
    }
    for kind, text in kinds.items():
        button = gr.Button(f"Download {kind.upper()}", size="sm", elem_id=f"{form.tab}-{kind}")
        kept = gr.Textbox(visible="hidden", elem_id=f"{form.tab}-{kind}-text", container=False)

        def made(*given: Any, text: Callable[[Any], str] = text) -> list[Any]:
            try:
                return [text(view(form.values(given))), *form.answers()]
            except MISTAKES as error:
                return ["", *form.answers(error)]

        saved = button.click(made, form.inputs, [kept, *form.outputs], **QUIET)
        saved.then(None, kept, None, js=f"(text) => window.unmask.save('{name}.{kind}', text)", **QUIET)
