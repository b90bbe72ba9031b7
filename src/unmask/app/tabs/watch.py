"""*Watch*: one text is filled twice, side by side: by one model or two, under two schedules."""

import time
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from unmask import _check as check
from unmask import models
from unmask.app import links, panels
from unmask.app.data import watch as runs
from unmask.app.fields import LIVE, QUIET, Form, follow, stop, streamed
from unmask.app.status import progress
from unmask.app.tabs import Tab
from unmask.names import MODELS, SIZES
from unmask.words.own import own_order
from unmask.words.schedules import FREE_SIZES, ORDER_WORDS, REACTIVE_SIZES, order_title

_SIDES = ("left", "right")
_REACTIVE = tuple(f"{name}:{SIZES[name].usual}" for name in REACTIVE_SIZES)


def build(model: models.Model) -> Tab:
    """Make the tab.

    Arguments:
        model: The model that writes, beside the built-in ones.
    """
    writers = {model.name: model} | {
        name: models.load(name) for name in MODELS if name != model.name and MODELS[name].file(models.FILE).is_file()
    }
    # The built-in models beside each other; a model of one's own beside itself in another order.
    own = model.name not in MODELS or len(writers) == 1
    first = (model.name, model.name) if own else (models.CAUSAL, models.BUILTIN)
    orders = [order_title(own_order(writers[name])) for name in first]
    form = Form("watch", aliases={"prompt": "text", "start": "text"})
    with gr.Row():
        with gr.Column(scale=3, min_width=280):
            text = gr.Textbox(
                "", label="Text", lines=2, elem_id="watch-text", placeholder="the ____ of the ____ was",
                info="_ is a token to fill; empty for a text of the model's own",
            )  # fmt: skip
            form.add("text", text, links.words)
        with gr.Column(scale=1, min_width=120):
            seed = gr.Number(3, label="Seed", info="One for both sides", step=1)
            form.add("seed", seed, links.whole(least=0))
    with gr.Row():
        for side, name, order in zip(_SIDES, first, [orders[0], "random" if own else orders[1]], strict=True):
            with gr.Column(min_width=280), gr.Row():
                _side(form, side, {"model": name, "order": order, "size": "even"}, list(writers), 16)
    form.finish()
    with gr.Row():
        start = gr.Button("Generate", variant="primary", elem_id="watch-generate", min_width=150, size="md")
        # The page wakes these up once there is a text to go through.
        play, back, ahead = (
            gr.Button(words, elem_id=f"watch-{key}", min_width=150, size="md", interactive=False)
            for key, words in (("play", "Play"), ("back", "Step back"), ("step", "Step"))
        )
    with gr.Row(equal_height=True, elem_classes="longer"):
        status = gr.HTML(elem_id="watch-status", scale=3)
        cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="watch-cancel")
    view = gr.HTML(elem_id="watch-runs")
    gr.HTML(
        f"<p class='facts'>Models: {escape(', '.join(writers))}; up to {model.length} tokens. At temperature 1, from "
        "one seed: a position has the same random number on both sides. Newest tokens are marked, given ones "
        "underlined.</p>"
    )
    address = gr.HTML(elem_id="watch-link", elem_classes="link")

    @streamed(form, 2)
    def generate(values: dict[str, Any]) -> Iterator[list[Any]]:
        yield [gr.skip(), progress(0, 0, "Starting")]  # the last text stays until there is another
        choices = tuple(
            runs.Side(
                values[f"{side} order"],
                values[f"{side} size"],
                values[f"{side} steps"],
                writers[check.known(f"{side} model", values[f"{side} model"], writers)],
            )
            for side in _SIDES
        )
        key = str(time.monotonic_ns())
        for both in runs.watch(model, values["text"], choices, seed=values["seed"]):  # pyright: ignore[reportArgumentType]
            done = all(run.finished for run in both)
            taken = [f"{run.steps}{'' if run.planned is None else f' of {run.planned}'}" for run in both]
            whole = sum(run.planned or len(run.pieces) for run in both)
            words = progress(sum(run.steps for run in both), whole, f"steps {taken[0]} and {taken[1]}")
            yield [panels.watched(both, key), "" if done else words]

    def show(turn: str, *given: Any) -> list[str]:
        return [form.link(form.values(given))]

    # One run at a time uses the model; other pages may be first with it.
    follow(
        form, start.click, generate, [view, status, *form.outputs], status, "Waiting for the model",
        concurrency_limit=1, concurrency_id="model",
    )  # fmt: skip
    cancel.click(None, None, None, js="() => window.unmask.halt()", **QUIET)
    stop(form, cancel, status, "Cancelled.")
    for button, call in ((play, "play()"), (back, "move(-1)"), (ahead, "move(1)")):
        button.click(None, None, None, js=f"() => window.unmask.{call}", **QUIET)
    form.on(partial(gr.on, [field.change for field in form.inputs]), show, [address], **LIVE)
    return Tab(form, show, [address], LIVE)


def _side(form: Form, side: str, values: dict[str, str], writers: list[str], steps: int) -> None:
    choices = {"model": writers, "order": list(ORDER_WORDS), "size": [*FREE_SIZES, *_REACTIVE]}
    for part, value in values.items():
        with gr.Column(min_width=150):
            # A comb of so many segments, or another threshold, can be typed.
            field = gr.Dropdown(
                choices[part], value=value, label=f"{side.capitalize()} {part}", allow_custom_value=True,
                elem_id=f"watch-{side}-{part}",
            )  # fmt: skip
            form.add(f"{side} {part}", field, links.words)
    with gr.Column(min_width=90):
        number = gr.Number(steps, label=f"{side.capitalize()} steps", step=1)
        form.add(f"{side} steps", number, links.whole(least=1))
