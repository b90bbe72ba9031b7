"""*Distributions*: the exact error of schedules on a known distribution."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from unmask.app import links, panels, tradeoffs
from unmask.app.fields import QUIET, Form, downloads, streamed, whole_slider
from unmask.app.tabs import Tab
from unmask.cli.names import ALL_SIZES, DISTRIBUTIONS

_CHOSEN = ["even", "tc", "dtc", "minimax-min", "optimal"]
# Values with which a family shows what it is about.
_TYPICAL: dict[str, dict[str, float | None]] = {
    "reed-solomon": {"length": 256, "dimension": 250, "alphabet": 256},
    "parity": {"length": 256, "alphabet": 2},
    "linear": {"length": 128, "dimension": 120, "alphabet": 2, "draws": 100},
    "markov": {"length": 256, "alphabet": 2, "stay": 0.9},
    "mixture": {"length": 256, "bias": 0.1},
    "latent-parity": {"length": 256},
}
_PARAMETERS = ("dimension", "alphabet", "stay", "bias")  # and the length, which all have
_FIRST = "markov"


def build() -> Tab:
    """Make the tab."""
    form = Form("distributions", aliases={"estimate-curve": "draws", "distribution": "family"})
    first = _TYPICAL[_FIRST]
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            family = gr.Dropdown(list(DISTRIBUTIONS), value=_FIRST, label="Family", elem_id="distributions-family")
            form.add("family", family, links.one_of(list(DISTRIBUTIONS)))
            length = whole_slider(minimum=2, maximum=tradeoffs.LONGEST, value=first["length"], label="Length")
            form.add("length", length, links.whole)
            for name in _PARAMETERS:
                shown = name in tradeoffs.parameters(_FIRST)
                number = gr.Number(first.get(name), label=name.capitalize(), visible=shown, step=_step(name))
                form.add(name, number, links.real)
            draws = gr.Number(
                0, label="Draws", info="To estimate a curve that is out of reach; 0 for the exact one", step=1
            )
            form.add("draws", draws, links.whole)
            form.add("seed", gr.Number(0, label="Seed", info="Of a random code, and of the draws", step=1), links.whole)
            sizes = gr.CheckboxGroup(
                list(ALL_SIZES), value=_CHOSEN, label="Size schedules", elem_id="distributions-size"
            )
            form.add("size", sizes, links.some_of(ALL_SIZES))
            form.finish()
            address = gr.HTML(elem_id="distributions-link", elem_classes="link")
            with gr.Row():
                downloads(form, _last, "errors")
        with gr.Column(scale=3, min_width=300):
            with gr.Row(equal_height=True, elem_classes="longer"):
                status = gr.HTML(elem_id="distributions-status", scale=3)
                cancel = gr.Button("Cancel", size="sm", scale=0, min_width=100, elem_id="distributions-cancel")
            view = gr.HTML(elem_id="distributions-view")

    @streamed(form, 3)
    def show(values: dict[str, Any]) -> Iterator[list[str]]:
        for found in _compared(values):
            done = len(found.errors)
            words = panels.progress(done, found.wanted, f"{done} of {found.wanted} schedules computed")
            yield [panels.errors(found), form.link(values), "" if done == found.wanted else words]

    outputs = [view, address, status, *form.outputs]
    running: dict[str, Any] = {
        **QUIET, "show_progress": "hidden", "trigger_mode": "always_last", "concurrency_limit": 4,
        "concurrency_id": "compute",
    }  # fmt: skip
    shown = [field.input(show, form.inputs, outputs, **running) for field in form.inputs if field is not family]
    parameters = [form.fields[name] for name in _PARAMETERS]
    changed = family.input(_typical, family, [length, *parameters, draws], **QUIET, show_progress="hidden")
    shown.append(changed.then(show, form.inputs, outputs, **running))
    # Said once nothing more can come: what is under way would write over it.
    cancel.click(None, None, None, cancels=shown, **QUIET).then(
        lambda: panels.note("Cancelled: what was computed until then is shown."), None, status, **QUIET
    )
    # A link may name another family, whose parameters must then be seen.
    family.change(_visible, family, parameters, **QUIET, show_progress="hidden")
    return Tab(form, show, outputs, cancel)


def _step(name: str) -> float:
    return 0.01 if name in ("stay", "bias") else 1


def _typical(family: str) -> list[Any]:
    """The fields of a family with values that go together; the others are out of sight."""
    typical, wanted = _TYPICAL[family], tradeoffs.parameters(family)
    fields = [
        gr.update(value=typical.get(name, 0), visible=name == "draws" or name in wanted)
        for name in (*_PARAMETERS, "draws")
    ]
    return [typical["length"], *fields]


def _visible(family: str) -> list[Any]:
    wanted = tradeoffs.parameters(family)
    return [gr.update(visible=name in wanted) for name in _PARAMETERS]


def _compared(values: dict[str, Any]) -> Iterator[tradeoffs.Tradeoff]:
    return tradeoffs.compare(values["family"], values, values["size"])


def _last(values: dict[str, Any]) -> tradeoffs.Tradeoff:
    *_, last = _compared(values)
    return last
