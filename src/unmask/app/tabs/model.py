"""*Your model*: what a calibration file says, and the schedule it implies."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from unmask import check
from unmask.app import links, measured, panels
from unmask.app.fields import QUIET, Form, downloads, streamed
from unmask.app.tabs import Tab
from unmask.calibrate import Calibration


def build(calibration: Calibration | None, name: str) -> Tab:
    """Make the tab.

    Arguments:
        calibration: What is shown until a file is given. name: What it is.
    """
    form = Form("model")
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            file = gr.File(
                label="Calibration file", file_types=[".json"], type="filepath", elem_id="model-file", height=140
            )
            form.add("file", file, links.words)
            del form.parsers["file"]  # a link cannot bring a file
            target = gr.Number(0.05, label="Target", step=0.01, info="Bits per token above the best one by one")
            form.add("target", target, links.real)
            form.add("steps", gr.Number(0, label="Steps", step=1, info="If settled; 0 takes the target"), links.whole)
            form.finish()
            gr.HTML(
                f"<p class='facts'>Without a file: {name}. "
                "Write one with <code>unmask calibrate --text FILE --output calibration.json</code>.</p>"
            )
            address = gr.HTML(elem_id="model-link", elem_classes="link")
        with gr.Column(scale=3, min_width=300):
            with gr.Row(equal_height=True, elem_classes="longer"):
                status = gr.HTML(elem_id="model-status", scale=3)
                cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="model-cancel")
            view = gr.HTML(elem_id="model-view")
            with gr.Row():
                downloads(form, lambda values: _report(calibration, values), "schedule")

    @streamed(form, 3)
    def show(values: dict[str, Any]) -> Iterator[list[Any]]:
        yield [gr.skip(), form.link(values), panels.progress(0, 0, "Finding the best sizes")]
        yield [panels.report(_report(calibration, values)), gr.skip(), ""]

    outputs = [view, address, status, *form.outputs]
    running: dict[str, Any] = {
        **QUIET, "show_progress": "hidden", "trigger_mode": "always_last", "concurrency_limit": 4,
        "concurrency_id": "compute",
    }  # fmt: skip
    shown: list[Any] = [file.change(show, form.inputs, outputs, **running)]
    shown += [field.input(show, form.inputs, outputs, **running) for field in form.inputs if field is not file]
    cancel.click(None, None, None, cancels=shown, **QUIET).then(
        lambda: panels.note("Cancelled."), None, status, **QUIET
    )
    return Tab(form, show, outputs, cancel)


def _report(calibration: Calibration | None, values: dict[str, Any]) -> measured.Report:
    found = calibration if values["file"] is None else measured.read(values["file"])
    if found is None:
        raise ValueError("Argument 'file' must be a calibration: this model has none of its own.")
    target, steps = values["target"], values["steps"]
    return measured.report(
        found,
        None if target is None else check.real("target", target, least=0.0),
        check.integer("steps", steps, least=1) if steps else None,
    )
