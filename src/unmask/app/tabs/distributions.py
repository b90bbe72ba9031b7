"""*Distributions*: the exact error of schedules on a known distribution."""

from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from unmask.app import glossary, links, panels
from unmask.app.data import distributions as tradeoffs
from unmask.app.fields import (
    LIVE,
    LONG,
    QUIET,
    Form,
    download,
    folded,
    follow,
    settled,
    stop,
    streamed,
    whole_number,
    whole_slider,
)  # fmt: skip
from unmask.app.status import progress
from unmask.app.tabs import Tab
from unmask.names import DISTRIBUTIONS
from unmask.words.data import PARAMETERS
from unmask.words.schedules import BLIND_SIZES

_CHOSEN = ["even", "tc", "dtc", "minimax-min", "optimal"]
_FIRST = "markov"
_MEANING = {
    "dimension": "Free symbols, which determine all tokens",
    "alphabet": "Number of values that a token can have",
    "stay": "Probability that a token is the same as the one before",
    "bias": "Probability of a 1, or of a 0; the same for all tokens",
}


def build() -> Tab:
    """Make the tab."""
    form = Form("distributions", aliases={"estimate-curve": "draws", "distribution": "family"})
    first = DISTRIBUTIONS[_FIRST].usual
    with gr.Row():
        with gr.Column(scale=1, min_width=280), folded("distributions"):
            family = gr.Dropdown(list(DISTRIBUTIONS), value=_FIRST, label="Family", elem_id="distributions-family")
            form.add("family", family, links.one_of(list(DISTRIBUTIONS)))
            length = whole_slider(minimum=2, maximum=tradeoffs.LONGEST, value=first["length"], label="Length")
            form.add("length", length, links.whole(least=2, most=tradeoffs.LONGEST))
            for name in PARAMETERS:
                shown = name in tradeoffs.parameters(_FIRST)
                number = gr.Number(
                    first.get(name), label=name.capitalize(), info=_MEANING[name], visible=shown, step=_step(name)
                )
                form.add(name, number, links.optional(links.real()))
            draws = whole_number(
                0, least=0, most=tradeoffs.MOST_DRAWS, label="Draws",
                info="0 computes the loss curve exactly. Any other number estimates it from this many draws",
            )  # fmt: skip
            form.add("draws", draws, links.optional(links.whole(least=0, most=tradeoffs.MOST_DRAWS)))
            seed = whole_number(0, least=0, label="Seed", info="For a random code, and for the draws")
            form.add("seed", seed, links.optional(links.whole(least=0)))
            sizes = gr.CheckboxGroup(
                list(BLIND_SIZES), value=_CHOSEN, label="Size schedules", elem_id="distributions-size"
            )
            form.add("size", sizes, links.some_of(BLIND_SIZES))
            gr.HTML(glossary.folded({"size": BLIND_SIZES, "distribution": DISTRIBUTIONS}))
            form.finish()
            address = gr.HTML(elem_id="distributions-link", elem_classes="link")
            with gr.Row():
                download(form, "json", "errors.json", lambda values: links.as_json(_last(values).record()))
                download(form, "csv", "errors.csv", lambda values: links.as_csv(_last(values).rows()))
        with gr.Column(scale=3, min_width=300):
            with gr.Row(equal_height=True, elem_classes="longer"):
                status = gr.HTML(elem_id="distributions-status", scale=3)
                cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="distributions-cancel")
            view = gr.HTML(elem_id="distributions-view")

    @streamed(form, 3)
    def show(values: dict[str, Any]) -> Iterator[list[Any]]:
        for stage in _stages(values):
            ended = stage.view is not None and stage.done == stage.whole
            words = "" if ended else progress(stage.done, stage.whole, stage.words)
            # The link comes with what it leads to.
            shown = [gr.skip()] * 2 if stage.view is None else [panels.errors(stage.view), form.link(_own(values))]
            yield [*shown, words]

    outputs = [view, address, status, *form.outputs]
    parameters = [form.fields[name] for name in PARAMETERS]
    changed = family.input(_filled, family, [length, *parameters, draws], **LIVE)
    follow(form, settled(form.changes(but=[family])).then, show, outputs, status)
    follow(form, changed.then, show, outputs, status)
    stop(form, cancel, status, "Cancelled. The page shows what had been computed by then.")
    # A link may name another family, whose parameters must then be seen.
    family.change(_visible, family, parameters, **QUIET, queue=False, show_progress="hidden")
    return Tab(form, show, outputs, LONG, _usual)


def _step(name: str) -> float:
    return 0.01 if any(name in recipe.shares for recipe in DISTRIBUTIONS.values()) else 1


def _usual(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a family with values that go together; those of other families are empty."""
    typical = DISTRIBUTIONS[said.get("family", _FIRST)].usual
    return {"length": typical["length"], "draws": 0, **{name: typical.get(name) for name in (*PARAMETERS, *typical)}}


def _filled(family: str) -> list[Any]:
    """The same for the page; what a family has no use for is out of sight."""
    usual, wanted = _usual({"family": family}), tradeoffs.parameters(family)
    fields = [gr.update(value=usual[name], visible=name in wanted) for name in PARAMETERS]
    return [usual["length"], *fields, usual["draws"]]


def _visible(family: str) -> list[Any]:
    wanted = tradeoffs.parameters(family)
    return [gr.update(visible=name in wanted) for name in PARAMETERS]


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those of other families."""
    others = set(PARAMETERS).difference(tradeoffs.parameters(values["family"]))
    return {name: value for name, value in values.items() if name not in others}


def _stages(values: dict[str, Any]) -> Iterator[tradeoffs.Stage]:
    return tradeoffs.compare(values["family"], values, values["size"])


def _last(values: dict[str, Any]) -> tradeoffs.Tradeoff:
    *_, last = _stages(values)
    assert last.view is not None  # the last stage has everything
    return last.view
