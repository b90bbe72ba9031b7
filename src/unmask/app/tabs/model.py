"""*Your model*: what a calibration file says, and the schedule it implies."""

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from unmask import _check as check
from unmask.app import links, panels
from unmask.app.data import model as measured
from unmask.app.fields import LONG, Form, download, folded, follow, settled, stop, streamed, whole_number
from unmask.app.status import progress
from unmask.app.tabs import Tab
from unmask.calibration import Calibration
from unmask.models import Model


def build(writer: Model, calibration: Calibration | None, name: str) -> Tab:
    """Make the tab.

    Arguments:
        writer: The model that the page runs.
        calibration: What is shown until a file is given. name: What it is.
    """
    form = Form("model")

    def report(values: dict[str, Any]) -> measured.Overview:
        return _report(calibration, values)

    with gr.Row():
        with gr.Column(scale=1, min_width=280), folded("model"):
            file = gr.File(
                label="Calibration file", file_types=[".json"], type="filepath", elem_id="model-file", height=140
            )
            form.add("file", file, None)
            target = gr.Number(
                0.05, label="Target", step=0.01,
                info="Bits per token that you allow above the best cost of one token at a time",
            )  # fmt: skip
            form.add("target", target, links.optional(links.real(least=0)))
            steps = whole_number(0, least=0, label="Steps", info="0 finds the fewest that meet the target")
            form.add("steps", steps, links.optional(links.whole(least=0)))
            form.finish()
            gr.HTML(
                f"<p class='facts'>With no file given, this tab shows {escape(name)}. To measure your own model, run: "
                "<code>unmask calibrate --model MODEL --text FILE --output calibration.json</code>.</p>"
            )
            address = gr.HTML(elem_id="model-link", elem_classes="link")
        with gr.Column(scale=3, min_width=300):
            with gr.Row(equal_height=True, elem_classes="longer"):
                status = gr.HTML(elem_id="model-status", scale=3)
                cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="model-cancel")
            view = gr.HTML(elem_id="model-view")
            with gr.Row():
                download(form, "json", "schedule.json", lambda values: links.as_json(report(values).record()))
                download(form, "csv", "losses.csv", lambda values: links.as_csv(report(values).rows()))

    @streamed(form, 3)
    def show(values: dict[str, Any]) -> Iterator[list[Any]]:
        yield [gr.skip(), gr.skip(), progress(0, 0, "Finding the best sizes")]
        # The link comes with what it leads to: after a mistake both stay as they are.
        found = report(values)
        yield [panels.report(found, measured.differs(found.calibration, writer)), _link(form, values), ""]

    outputs = [view, address, status, *form.outputs]
    follow(form, settled(form.changes()).then, show, outputs, status)
    stop(form, cancel, status, "Cancelled.")
    return Tab(form, show, outputs, LONG)


def _link(form: Form, values: dict[str, Any]) -> str:
    if values["file"] is None:
        return form.link(values)
    return "<p class='facts'>There is no link to this view, because a link cannot carry the file.</p>"


def _report(calibration: Calibration | None, values: dict[str, Any]) -> measured.Overview:
    found = calibration if values["file"] is None else measured.read(values["file"])
    if found is None:
        raise check.InputError("file", "be given, because this model comes without a calibration")
    target, steps = values["target"], values["steps"]
    return measured.report(
        found,
        None if target is None else check.real("target", target, least=0.0),
        check.integer("steps", steps, least=1) if steps else None,
    )
