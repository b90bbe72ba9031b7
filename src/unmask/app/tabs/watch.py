"""*Watch*: one text is filled twice, side by side: by one model or two, under two schedules."""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from unmask import _check as check
from unmask import models
from unmask.app import glossary, links, player
from unmask.app.data import presets
from unmask.app.data import watch as runs
from unmask.app.data.model import differs
from unmask.app.fields import LIVE, QUIET, Form, folded, follow, real_slider, stop, streamed, whole_number
from unmask.app.status import progress
from unmask.app.tabs import Tab
from unmask.calibration import Calibration
from unmask.names import MODELS, SIZES
from unmask.words.own import own_order
from unmask.words.revisions import REVISION_WORDS
from unmask.words.schedules import FREE_SIZES, ORDER_WORDS, REACTIVE_SIZES, order_title

_SIDES = ("left", "right")
_PARTS = ("model", "order", "size", "steps", "revision")
_MOST = 4096  # steps; a text has fewer tokens on every model of the page, and its run says so
_SEEN = (
    "Each side fills in a masked text, several tokens in every step. Fewer steps are faster, and fewer bits per token "
    "are better."
)
_NONE = "none"  # no revision
_OWN = "your own"  # no preset
_REACTIVE = tuple(f"{name}:{SIZES[name].usual}" for name in REACTIVE_SIZES)


def build(model: models.Model, calibration: Calibration | None = None) -> Tab:
    """Make the tab.

    Arguments:
        model: The model that writes, beside the built-in ones.
        calibration: What was measured of it, if that is known; built-in models bring their own.
    """
    writers = {model.name: model} | {
        name: models.load(name) for name in MODELS if name != model.name and MODELS[name].file(models.FILE).is_file()
    }
    known = {name: models.calibration_of(each) for name, each in writers.items()}
    if calibration is not None and not differs(calibration, model):
        known[model.name] = calibration
    # The built-in models beside each other; a model of one's own beside itself in another order.
    own = model.name not in MODELS or len(writers) == 1
    first = (model.name, model.name) if own else (models.CAUSAL, models.BUILTIN)
    orders = [order_title(own_order(writers[name])) for name in first]
    form = Form("watch", aliases={"prompt": "text", "start": "text"})
    # The picture comes first, on every screen and for the keyboard.
    gr.HTML(f"<p class='facts'>{_SEEN}</p>", elem_id="watch-seen")
    view = gr.HTML(elem_id="watch-runs")
    gr.HTML(player.controls(), elem_id="watch-player")
    gr.HTML(player.colours(), elem_id="watch-colours")
    with gr.Row(elem_id="watch-asked"):
        with gr.Column(scale=5, min_width=280):
            text = gr.Textbox(
                "", label="Text", lines=1, max_lines=4, elem_id="watch-text", placeholder="the ____ of the ____ was",
                info="Each _ is a token to fill. Leave this field empty, and the model writes its own text.",
            )  # fmt: skip
            form.add("text", text, links.words)
        with gr.Column(scale=1, min_width=140):
            seed = whole_number(3, least=0, label="Seed", info="For both sides")
            form.add("seed", seed, links.whole(least=0))
        with gr.Column(scale=1, min_width=150, elem_id="watch-go"):
            start = gr.Button("Generate", variant="primary", elem_id="watch-generate", min_width=120, size="md")
            dice = gr.Button("⚄ New seed", elem_id="watch-dice", min_width=120, size="md")
    with gr.Row(equal_height=True, elem_classes="longer"):
        status = gr.HTML(elem_id="watch-status", scale=3)
        cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="watch-cancel")
    menus, abouts = {}, {}
    with folded("watch"):
        with gr.Row():
            for side, name, order in zip(_SIDES, first, [orders[0], "random" if own else orders[1]], strict=True):
                with gr.Column(min_width=280), gr.Group():
                    begun = {"model": name, "order": order, "size": "even", "steps": 16, "revision": _NONE}
                    menus[side], abouts[side] = _side(form, side, begun, known)
        with gr.Row():
            with gr.Column(min_width=240):
                heat = real_slider(
                    minimum=0, maximum=2, value=1, label="Temperature",
                    info="For both sides. 1 follows the model; 0 takes the most likely token.",
                )  # fmt: skip
                form.add("temperature", heat, links.real(least=0), unsaid=1)
            with gr.Column(min_width=240):
                mass = real_slider(
                    minimum=0.05, maximum=1, value=1, label="Top-p",
                    info="For both sides. Draw only from the likeliest tokens, up to this total probability.",
                )  # fmt: skip
                form.add("top-p", mass, links.real(least=0), unsaid=1)
    form.finish()
    gr.HTML(
        f"<p class='facts'>Models: {escape(', '.join(writers))}; up to {model.length} tokens. Both sides share one "
        "seed: a position gets the same random number on either side. The bits of a token are what it costs under the "
        "model: −log₂ of the probability that it was drawn with.</p>"
    )
    address = gr.HTML(elem_id="watch-link", elem_classes="link")

    @streamed(form, 2)
    def generate(values: dict[str, Any]) -> Iterator[list[Any]]:
        yield [gr.skip(), progress(0, 0, "Starting")]  # the last text stays until there is another
        choices = tuple(_choice(values, side, writers, known) for side in _SIDES)
        key = str(time.monotonic_ns())
        for both in runs.watch(
            model, values["text"], choices,  # pyright: ignore[reportArgumentType]
            seed=values["seed"], temperature=values["temperature"], top_p=values["top-p"],
        ):  # fmt: skip
            done = all(run.finished for run in both)
            taken = [f"{run.steps}{'' if run.planned is None else f' of {run.planned}'}" for run in both]
            whole = sum(run.planned or len(run.pieces) for run in both)
            words = progress(sum(run.steps for run in both), whole, f"steps {taken[0]} and {taken[1]}")
            yield [player.watched(both, key), "" if done else words]

    def show(turn: str, *given: Any) -> list[str]:
        return [form.link(form.values(given))]

    def generates(change: Any) -> None:
        # One run at a time uses the model; other pages may be first with it.
        follow(
            form, change, generate, [view, status, *form.outputs], status, "Waiting for the model",
            concurrency_limit=1, concurrency_id="model",
        )  # fmt: skip

    generates(start.click)
    generates(dice.click(None, None, [seed], js="() => [Math.floor(Math.random() * 10000)]", **QUIET).then)
    for side in _SIDES:
        fields = [form.fields[f"{side} {part}"] for part in _PARTS]
        generates(_preset(menus[side], fields, known).then)
        said = partial(_said, known)
        gr.on([each.change for each in fields], said, fields, [menus[side], abouts[side]], **LIVE)
    cancel.click(None, None, None, js="() => window.unmask.halt()", **QUIET)
    stop(form, cancel, status, "Cancelled.")
    form.on(partial(gr.on, [field.change for field in form.inputs]), show, [address], **LIVE)
    return Tab(form, show, [address], LIVE)


def _choice(
    values: Mapping[str, Any],
    side: str,
    writers: Mapping[str, models.Model],
    known: Mapping[str, Calibration | None],
) -> runs.Side:
    name = check.known(f"{side} model", values[f"{side} model"], writers)
    revision = values[f"{side} revision"]
    return runs.Side(
        values[f"{side} order"],
        values[f"{side} size"],
        values[f"{side} steps"],
        writers[name],
        None if revision in (_NONE, "", None) else revision,
        known[name],
    )


def _preset(menu: gr.Dropdown, fields: list[Any], known: Mapping[str, Calibration | None]) -> Any:
    """The event after the fields of a side were filled with a preset."""
    model, *others = fields

    def filled(name: str, writer: str) -> list[Any]:
        found = presets.preset(name, known.get(writer))
        if found is None:
            return [gr.skip()] * len(others)
        return [found.order, found.size, found.steps, found.revision or _NONE]

    return menu.input(filled, [menu, model], others, **LIVE)


def _said(
    known: Mapping[str, Calibration | None], model: object, order: object, size: object, steps: object, revision: object
) -> list[Any]:
    """What the fields of a side say: the preset they spell out, and a sentence for each name."""
    calibration = known.get(str(model))
    found = presets.matching(order, size, steps, None if revision == _NONE else str(revision), calibration)
    chosen = presets.preset(found, calibration) if found else None
    choices = [_OWN, *presets.presets(calibration)]
    info = chosen.sentence if chosen else "Choose a schedule to begin with, or set the fields yourself."
    menu = gr.update(choices=choices, value=found or _OWN, info=info)
    return [menu, glossary.about(model, order, size, revision)]


def _side(
    form: Form, side: str, values: Mapping[str, Any], known: Mapping[str, Calibration | None]
) -> tuple[gr.Dropdown, gr.HTML]:
    """The fields of one side; its menu of presets, and the place for the sentences about its names."""
    begun = presets.matching(values["order"], values["size"], values["steps"], None, None) or _OWN
    chosen = presets.preset(begun, None)
    menu = gr.Dropdown(
        [_OWN, *presets.presets(known[values["model"]])], value=begun, label=f"{side.capitalize()} schedule",
        info=chosen.sentence if chosen else "Choose a schedule to begin with, or set the fields yourself.",
        elem_id=f"watch-{side}-preset", filterable=False,
    )  # fmt: skip
    sizes = [*FREE_SIZES, *([runs.MEASURED_SIZE] if any(known.values()) else []), *_REACTIVE]
    choices = {"model": list(known), "order": list(ORDER_WORDS), "size": sizes, "revision": [_NONE, *REVISION_WORDS]}
    for parts in (_PARTS[:2], _PARTS[2:]):
        with gr.Row():
            for part in parts:
                with gr.Column(min_width=90 if part == "steps" else 130):
                    _field(form, side, part, values[part], choices.get(part))
    words = glossary.about(*(values[part] for part in ("model", "order", "size", "revision")))
    return menu, gr.HTML(words, elem_classes="about")


def _field(form: Form, side: str, part: str, value: Any, choices: list[str] | None) -> None:
    name, label = f"{side} {part}", f"{side.capitalize()} {part}"
    if choices is None:
        form.add(name, whole_number(value, least=1, most=_MOST, label=label), links.whole(least=1))
        return
    # A comb of so many segments, or another threshold, can be typed: comb-16, threshold:0.8, cap:0.1.
    field = gr.Dropdown(
        choices, value=value, label=label, allow_custom_value=True, elem_id=f"watch-{side}-{part}"
    )  # fmt: skip
    # Links are as they were before there were revisions, where there is none.
    form.add(name, field, links.words, unsaid=_NONE if part == "revision" else None)
