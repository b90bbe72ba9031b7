"""*Watch*: a model fills one text under two schedules, side by side."""

import time
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from unmask import models
from unmask.app import links, panels
from unmask.app.data import watch as runs
from unmask.app.fields import LIVE, QUIET, Form, follow, stop, streamed
from unmask.app.status import progress
from unmask.app.tabs import Tab
from unmask.names import SIZES
from unmask.words.schedules import FREE_SIZES, ORDER_WORDS, REACTIVE_SIZES

_FIRST = {"left": ("comb", "even", 16), "right": ("random", "even", 16)}
_REACTIVE = tuple(f"{name}:{SIZES[name].usual}" for name in REACTIVE_SIZES)


def build(model: models.Model) -> Tab:
    """Make the tab.

    Arguments:
        model: The model that writes.
    """
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
        for side, (order, size, steps) in _FIRST.items():
            with gr.Column(min_width=280), gr.Row():
                _side(form, side, order, size, steps)
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
        f"<p class='facts'>Model: {escape(model.name)}, up to {model.length} tokens. At temperature 1, from one seed: "
        "a position has the same random number on both sides. Newest tokens are marked, given ones underlined.</p>"
    )
    address = gr.HTML(elem_id="watch-link", elem_classes="link")

    @streamed(form, 2)
    def generate(values: dict[str, Any]) -> Iterator[list[Any]]:
        yield [gr.skip(), progress(0, 0, "Starting")]  # the last text stays until there is another
        choices = tuple(
            runs.Side(*(values[f"{side} {part}"] for part in ("order", "size", "steps"))) for side in _FIRST
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


def _side(form: Form, side: str, order: str, size: str, steps: int) -> None:
    named = {"order": (list(ORDER_WORDS), order), "size": ([*FREE_SIZES, *_REACTIVE], size)}
    for part, (choices, value) in named.items():
        with gr.Column(min_width=150):
            # A comb of so many segments, or another threshold, can be typed.
            field = gr.Dropdown(
                choices, value=value, label=f"{side.capitalize()} {part}", allow_custom_value=True,
                elem_id=f"watch-{side}-{part}",
            )  # fmt: skip
            form.add(f"{side} {part}", field, links.words)
    with gr.Column(min_width=90):
        number = gr.Number(steps, label=f"{side.capitalize()} steps", step=1)
        form.add(f"{side} steps", number, links.whole(least=1))
