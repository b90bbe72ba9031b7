"""*Schedules*: size schedules and what they guarantee, without any data."""

from typing import Any

import gradio as gr

from unmask.app import glossary, links, panels
from unmask.app.data import schedules as laws
from unmask.app.fields import LIVE, Form, answered, download, folded, settled, whole_slider
from unmask.app.tabs import Tab
from unmask.names import GAUGES
from unmask.words.schedules import FREE_SIZES
from unmask.words.sentences import counted

_CHOSEN = ["even", "cosine", "tc", "dtc", "minimax-min"]


def build() -> Tab:
    """Make the tab."""
    form = Form("schedules")
    with gr.Row():
        with gr.Column(scale=1, min_width=280), folded("schedules"):
            length = whole_slider("the-length", minimum=2, maximum=laws.LONGEST, value=256, label="Length")
            form.add("length", length, links.whole(least=2, most=laws.LONGEST))
            steps = whole_slider("within-length", minimum=1, maximum=laws.LONGEST, value=16, label="Steps")
            form.add("steps", steps, links.whole(least=1, most=laws.LONGEST))
            sizes = gr.CheckboxGroup(list(FREE_SIZES), value=_CHOSEN, label="Size schedules", elem_id="schedules-size")
            form.add("size", sizes, links.some_of(FREE_SIZES))
            gauges = [(entry.title, key) for key, entry in GAUGES.items()]
            measure = gr.Radio(
                gauges, value="tc", label="Gauge",
                info="The measure of dependence for the guarantee",
            )  # fmt: skip
            form.add("gauge", measure, links.one_of(list(GAUGES)))
            gr.HTML(glossary.folded({"size": FREE_SIZES, "gauge": GAUGES}))
            form.finish()
            address = gr.HTML(elem_id="schedules-link", elem_classes="link")
            with gr.Row():
                download(form, "json", "schedules.json", lambda values: links.as_json(_compared(values).record()))
                download(form, "csv", "schedules.csv", lambda values: links.as_csv(_compared(values).rows()))
        with gr.Column(scale=3, min_width=300):
            view = gr.HTML(elem_id="schedules-view")

    @answered(form, 2, _notes)
    def show(values: dict[str, Any]) -> list[str]:
        clamped = {**values, "steps": _steps(values)}
        return [panels.schedules(_compared(clamped), values["gauge"]), form.link(clamped)]

    outputs = [view, address, *form.outputs]
    form.shows(settled(form.changes()).then, show, outputs, **LIVE)
    return Tab(form, show, outputs, LIVE)


def _steps(values: dict[str, Any]) -> Any:
    """The number of steps, but no more than tokens: a step reveals one at least."""
    length, steps = values["length"], values["steps"]
    possible = isinstance(length, int) and isinstance(steps, int) and length >= 1
    return min(steps, length) if possible else steps


def _notes(values: dict[str, Any]) -> dict[str, str]:
    if _steps(values) == values["steps"]:
        return {}
    length = counted(values["length"], "token")
    return {"steps": f"A step reveals at least one token, so {length} take at most {values['length']:,} steps."}


def _compared(values: dict[str, Any]) -> laws.SizeLaws:
    return laws.compare(values["length"], _steps(values), values["size"])
