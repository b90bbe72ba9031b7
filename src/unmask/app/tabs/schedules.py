"""*Schedules*: size schedules and what they guarantee, without any data."""

from typing import Any

import gradio as gr

from unmask.app import laws, links, panels
from unmask.app.fields import LIVE, Form, answered, downloads, whole_slider
from unmask.app.tabs import Tab
from unmask.cli.names import SIZES
from unmask.cli.plan import MEASURES

_CHOSEN = ["even", "cosine", "tc", "dtc", "minimax-min"]
_MOST_STEPS = 1024


def build() -> Tab:
    """Make the tab."""
    form = Form("schedules")
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            form.add("length", whole_slider(minimum=2, maximum=laws.LONGEST, value=256, label="Length"), links.whole)
            form.add("steps", whole_slider(minimum=1, maximum=_MOST_STEPS, value=16, label="Steps"), links.whole)
            sizes = gr.CheckboxGroup(list(SIZES), value=_CHOSEN, label="Size schedules", elem_id="schedules-size")
            form.add("size", sizes, links.some_of(list(SIZES)))
            gauges = [(words[1:-1] if words[0] == "(" else words, key) for key, words in MEASURES.items()]
            measure = gr.Radio(
                gauges, value="tc", label="Gauge",
                info="What the guarantee is measured against",
            )  # fmt: skip
            form.add("gauge", measure, links.one_of(list(MEASURES)))
            form.finish()
            address = gr.HTML(elem_id="schedules-link", elem_classes="link")
            with gr.Row():
                downloads(form, _compared, "schedules")
        with gr.Column(scale=3, min_width=300):
            view = gr.HTML(elem_id="schedules-view")

    @answered(form, 2)
    def show(values: dict[str, Any]) -> list[str]:
        return [panels.schedules(_compared(values), values["gauge"]), form.link(values)]

    outputs = [view, address, *form.outputs]
    for field in form.inputs:
        field.input(show, form.inputs, outputs, **LIVE)
    return Tab(form, show, outputs)


def _compared(values: dict[str, Any]) -> laws.Comparison:
    return laws.compare(values["length"], values["steps"], values["size"])
