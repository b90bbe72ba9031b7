"""Fields that answer for themselves: whatever is wrong with a value is said next to it, in one sentence."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import gradio as gr

from unmask._check import InputError
from unmask.app.current import Current
from unmask.app.links import Parser, link
from unmask.app.status import note, progress
from unmask.words.mistakes import MISTAKES, sentence

QUIET: dict[str, Any] = {"api_visibility": "private"}  # the page is for people; programs have the library
# Every move of a slider is answered, but a slow answer is never waited for: the last position counts.
LIVE: dict[str, Any] = {**QUIET, "show_progress": "hidden", "trigger_mode": "always_last", "queue": False}
# Long work of all pages, a few at once. It is begun whenever fields change, and ends by itself where they have changed.
LONG: dict[str, Any] = {
    **QUIET, "show_progress": "hidden", "trigger_mode": "multiple", "concurrency_limit": 4, "concurrency_id": "compute",
}  # fmt: skip
_PAUSE = 0.1  # seconds between two pictures: the page shows them no faster


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
        self.unsaid: dict[str, Any] = {}
        self.places: dict[str, gr.HTML] = {}
        self.current = Current()

    def add(self, name: str, field: Any, parse: Parser | None, *, unsaid: Any = None) -> Any:
        """Take a field that was just made, and put the place for its sentence below it.

        Arguments:
            name: The argument. field: The component. parse: Reads its value from a link; None if no link can bring it.
            unsaid: The value that a link leaves out, with which the field must begin; None if it says every one.
        """
        self.fields[name] = field
        if unsaid is not None:
            self.unsaid[name] = unsaid
        if parse is not None:
            self.parsers[name] = parse
        self._place(name)
        return field

    def finish(self) -> None:
        """The place for sentences that belong to no single field, and for the number of a request."""
        self._place("")
        self.turn = gr.Textbox("0", visible="hidden", container=False)
        self.turn.preprocess = _counted

    def _place(self, name: str) -> None:
        identity = f"{self.tab}-{name or 'form'}-problem".replace(" ", "-")
        self.places[name] = gr.HTML(elem_id=identity, elem_classes="problem")

    @property
    def inputs(self) -> list[Any]:
        return list(self.fields.values())

    def changes(self, *, but: Sequence[Any] = ()) -> list[Any]:
        """Every way in which a person can change a field, of all fields except some."""
        events = []
        for each in self.inputs:
            if isinstance(each, gr.File):
                events += [each.upload, each.clear]
            elif all(each is not other for other in but):
                # A slider puts a number that is out of range right when its box is left, which is no input.
                events += [each.input, each.release] if isinstance(each, gr.Slider) else [each.input]
        return events

    def on(
        self, change: Callable[..., Any], handler: Callable[..., Any], outputs: Sequence[Any], **options: Any
    ) -> Any:
        """Let a handler answer what the fields say, which takes the number of the request before their values.

        Arguments:
            change: Registers a handler, as `then` of an event does. handler: Takes a request, its number, and values.
            outputs: Where its answer goes. options: Of the event.
        """
        return self._sent("turned(", change, handler, outputs, options)

    def shows(
        self, change: Callable[..., Any], handler: Callable[..., Any], outputs: Sequence[Any], **options: Any
    ) -> None:
        """The same for a handler whose answer is a picture: it is asked once the one before has been drawn."""
        shown = self._sent(f"alone('{self.tab}', ", change, handler, outputs, options)
        shown.then(None, None, None, js=f"() => window.unmask.drawn('{self.tab}')", **QUIET)

    def _sent(
        self,
        call: str,
        change: Callable[..., Any],
        handler: Callable[..., Any],
        outputs: Sequence[Any],
        options: dict[str, Any],
    ) -> Any:
        inputs = [self.turn, *self.inputs]
        js = f"(...all) => window.unmask.{call}all.slice(0, {len(inputs)}))"
        return change(handler, inputs, outputs, js=js, **options)

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

    def answers(self, error: BaseException | None = None, notes: Mapping[str, str] | None = None) -> list[str]:
        """For each place its sentence; empty where all is well.

        Arguments:
            error: What is wrong, if anything is.
            notes: By field, what was done differently from what it says.
        """
        sentences = dict.fromkeys(self.places, "")
        for name, words in (notes or {}).items():
            sentences[name] = f'<p class="clamped" role="status">{escape(words)}</p>'
        if error is not None:
            name, words = self._sentence(error)
            sentences[name] = f'<p role="alert">{escape(words)}</p>'
        return list(sentences.values())

    def _sentence(self, error: BaseException) -> tuple[str, str]:
        """The field at fault, and the sentence in the page's own words: it has fields where others have options."""
        if not isinstance(error, InputError):
            return "", sentence(error) or str(error)
        named = error.argument or next(iter(error.mentions), "")
        name = self._word(named) if named else ""
        # A list to choose from is on the page already, and an empty field shows nothing that could be quoted.
        shown = error
        if error.choices and not error.close:
            shown = error.changed(remedy="Choose one from the list.")
        if error.empty:
            shown = error.changed(found="", remedy=f"It is empty. {error.remedy}".strip())
        words = shown.sentence(lambda each: f"'{self._word(each)}'", lambda each: self._word(each).capitalize())
        return (name if name in self.places else ""), words

    def _word(self, argument: str) -> str:
        """What the page calls an argument."""
        name = argument.replace("_", "-")
        return self.aliases.get(argument, self.aliases.get(name, name))

    def link(self, values: dict[str, Any]) -> str:
        """The link to this view, which is made from these values."""
        said = {name: values[name] for name in self.parsers if name in values}
        said = {name: value for name, value in said.items() if name not in self.unsaid or value != self.unsaid[name]}
        address = escape(link(self.tab, said))
        return f'<a href="{address}">Link to this view</a>'


def _counted(payload: object) -> str:
    """The number of a request, which only a page counts: anything else is not from one."""
    if not isinstance(payload, str | int) or not re.fullmatch("[0-9]{1,15}", str(payload)):
        raise gr.Error("The number of a request must have 1 to 15 digits.", print_exception=False)
    return str(payload)


def answered(
    form: Form, outputs: int, notes: Callable[[dict[str, Any]], Mapping[str, str]] = lambda values: {}
) -> Callable[[Callable[..., Sequence[Any]]], Callable[..., list[Any]]]:
    """Makes a handler of a function of the form's values: a mistake leaves the view as it is and is said in its place.

    Arguments:
        form: The form whose values are the handler's inputs, and whose places follow its other outputs.
        outputs: How many other outputs there are.
        notes: What is done differently from what the values say, by field.
    """

    def decorate(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
        def handler(request: gr.Request, turn: str, *given: Any) -> list[Any]:
            work = form.current.begin(request.session_hash, turn)
            try:
                values = form.values(given)
                shown = [*function(values), *form.answers(notes=notes(values))]
            except (InputError, *MISTAKES) as error:
                shown = [*[gr.skip()] * outputs, *form.answers(error)]
            return shown if work.current else [gr.skip()] * len(shown)

        return handler

    return decorate


def streamed(form: Form, outputs: int) -> Callable[[Callable[..., Iterator[Sequence[Any]]]], Callable[..., Any]]:
    """The same for long work that shows how far it has come; the last output is its progress.

    It ends at its next picture once the page has asked for something else, and shows nothing from then on.
    """

    def decorate(function: Callable[..., Iterator[Sequence[Any]]]) -> Callable[..., Any]:
        def handler(request: gr.Request, turn: str, *given: Any) -> Iterator[list[Any]]:
            work = form.current.begin(request.session_hash, turn)
            if not work.current:
                return
            last, waiting = 0.0, None
            try:
                for shown in function(form.values(given)):
                    if not work.current:
                        return
                    waiting = [*shown, *form.answers()]
                    if time.monotonic() - last >= _PAUSE:
                        yield waiting
                        last, waiting = time.monotonic(), None
                if waiting is not None and work.current:
                    yield waiting
            except (InputError, *MISTAKES) as error:
                if work.current:
                    yield [*[gr.skip()] * (outputs - 1), "", *form.answers(error)]

        return handler

    return decorate


def follow(
    form: Form,
    change: Callable[..., Any],
    show: Callable[..., Any],
    outputs: Sequence[Any],
    status: Any,
    waiting: str = "Waiting for a turn",
    **room: Any,
) -> None:
    """Let long work show what the fields say after every change.

    Older work must end before there is room for newer: first the page says so, outside of the queue.

    Arguments:
        form: The form. change: Registers a handler of some changes, as `gr.on` does, or `then` of an event.
        show: What `streamed` made. outputs: Where it goes. status: Where its progress is shown.
        waiting: What is said until it begins. room: How many may work at once, if not as many as usual.
    """

    def said(request: gr.Request, turn: str, *given: Any) -> str:
        form.current.begin(request.session_hash, turn)
        return progress(0, 0, waiting)

    form.shows(form.on(change, said, [status], **LIVE).then, show, outputs, **{**LONG, **room})


def stop(form: Form, cancel: gr.Button, status: Any, words: str) -> None:
    """Let a button end long work, as a change of the fields does: Gradio's own way may end in an error of its own.

    Arguments:
        form: The form. cancel: The button. status: Where its progress is shown. words: What is said there in the end.
    """

    def told(request: gr.Request, turn: str, *given: Any) -> str:
        form.current.begin(request.session_hash, turn)
        return progress(0, 0, "Stopping")

    def stopped(turn: str, *given: Any) -> str:
        return note(words)

    # Said once nothing more can come: what is under way would write over it.
    form.shows(form.on(cancel.click, told, [status], **LIVE).then, stopped, [status], **LIVE)


def settled(triggers: Sequence[Any]) -> Any:
    """The event after any of these, once every field has the value that it will keep: see `changes`."""
    return gr.on(triggers, None, None, None, js="() => new Promise((done) => setTimeout(done))", **QUIET)


def whole_slider(*classes: str, **options: Any) -> gr.Slider:
    """A logarithmic slider of whole numbers whose number box may hold anything: the form answers what does not fit.

    Gradio has only linear ones: `page.js` puts a logarithmic one in its place. One of the class `within-length` ends at
    the number of the one of class `the-length` beside it.
    """
    slider = gr.Slider(step=1, buttons=[], elem_classes=["logarithmic", *classes], **options)
    return _unchecked(slider)


def whole_number(value: int, *, least: int, most: int | None = None, **options: Any) -> gr.Number:
    """A box of whole numbers whose arrows stop at the ends, and which may hold anything that is typed."""
    return _unchecked(gr.Number(value, step=1, minimum=least, maximum=most, **options))


def real_slider(**options: Any) -> gr.Slider:
    """The same for numbers in steps of a twentieth."""
    return _unchecked(gr.Slider(step=0.05, buttons=[], **options))


def _unchecked(field: Any) -> Any:
    # Gradio would answer a number out of range by a message that flies in and away.
    field.preprocess = lambda payload: payload
    return field


@contextmanager
def folded(tab: str) -> Iterator[None]:
    """Settings that fold on a phone, where the picture is wanted first; on a wide page they are always open.

    Arguments:
        tab: The name of the tab.
    """
    gr.HTML(
        f'<button type="button" class="fold" aria-expanded="false" aria-controls="{tab}-settings">Settings</button>',
        elem_id=f"{tab}-fold", elem_classes="folds",
    )  # fmt: skip
    with gr.Column(elem_id=f"{tab}-settings", elem_classes="settings"):
        yield


def download(form: Form, kind: str, name: str, text: Callable[[dict[str, Any]], str]) -> None:
    """A button that saves what `text` makes of the form's values.

    The text is made when it is asked for and saved by the browser: nothing is left on the server.

    Arguments:
        form: The form. kind: What the button says. name: The name of the file.
        text: Its contents.
    """
    button = gr.Button(f"Download {kind.upper()}", size="sm", elem_id=f"{form.tab}-{kind}")
    kept = gr.Textbox(visible="hidden", elem_id=f"{form.tab}-{kind}-text", container=False)

    def made(*given: Any) -> str:
        try:
            return text(form.values(given))
        except (InputError, *MISTAKES):
            return ""  # what is wrong was said when the field was changed

    saved = button.click(made, form.inputs, kept, **QUIET)
    saved.then(None, kept, None, js=f"(text) => window.unmask.save('{name}', text)", **QUIET)
