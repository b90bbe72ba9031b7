"""*Results*: what was measured of models and rules, on several kinds of data."""

from typing import Any

import gradio as gr

from unmask.app import links, outcomes
from unmask.app.data import results as measured
from unmask.app.fields import LIVE, Form, answered, download, folded, settled
from unmask.app.tabs import Tab

_FIRST = "frontier"


def build() -> Tab:
    """Make the tab."""
    form = Form("results")
    known = measured.collections()
    with gr.Row():
        with gr.Column(scale=1, min_width=280), folded("results"):
            chosen = gr.CheckboxGroup(
                [(each.title, key) for key, each in known.items()], value=[_FIRST], label="Results",
                info="Choose several to compare them.", elem_id="results-results",
            )  # fmt: skip
            form.add("results", chosen, links.some_of(list(known), "collection"))
            axis = gr.Radio(
                [(title.capitalize(), key) for key, title in measured.AXES.items()], value="evaluations",
                label="Against", elem_id="results-against",
                info="A network that is causal in the schedule writes a text in one pass, however many steps it takes.",
            )  # fmt: skip
            form.add("against", axis, links.one_of(list(measured.AXES)))
            which = gr.Radio(
                [(title.capitalize(), key) for key, title in measured.WHICH.items()], value="main", label="Rules",
                info="Click a name below a chart to hide or show that rule.", elem_id="results-rules",
            )  # fmt: skip
            form.add("rules", which, links.one_of(list(measured.WHICH)))
            form.finish()
            address = gr.HTML(elem_id="results-link", elem_classes="link")
            with gr.Row():
                download(form, "json", "results.json", lambda values: links.as_json(_compared(values).record()))
                download(form, "csv", "results.csv", lambda values: links.as_csv(_compared(values).rows()))
        with gr.Column(scale=3, min_width=300):
            view = gr.HTML(elem_id="results-view")

    @answered(form, 2, _notes)
    def show(values: dict[str, Any]) -> list[str]:
        return [outcomes.compared(_compared(values)), form.link(values)]

    outputs = [view, address, *form.outputs]
    form.shows(settled(form.changes()).then, show, outputs, **LIVE)
    return Tab(form, show, outputs, LIVE)


def _notes(values: dict[str, Any]) -> dict[str, str]:
    """Collections whose work was not counted in the unit asked for are shown in evaluations."""
    view = _compared(values)
    others = [each.title for each in view.collections if not each.counted(view.axis)]
    if not others:
        return {}
    return {"against": f"Shown against evaluations, because passes were not counted: {'; '.join(others)}."}


def _compared(values: dict[str, Any]) -> measured.Compared:
    return measured.compare(values["results"], values["against"], values["rules"])
