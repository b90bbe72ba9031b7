"""The page: four tabs, opened at the view that its link asks for."""

import os
import socket
from collections.abc import Mapping
from html import escape
from importlib import resources
from threading import Thread
from typing import Any

# The page asks no host but its own, and so does the program that serves it. Gradio reads these when it is imported.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("GRADIO_RUN_HISTORY", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
from gradio.themes import Default

from unmask import _check as check
from unmask import models
from unmask.app import links
from unmask.app.data import schedules as laws
from unmask.app.fields import QUIET
from unmask.app.tabs import Tab, distributions, model, schedules, watch
from unmask.calibration import Calibration
from unmask.words.schedules import FREE_SIZES

_FONT = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
_MONO = ("ui-monospace", "DejaVu Sans Mono", "Consolas", "monospace")
_KEPT = (3600, 86400)  # seconds between two looks for uploaded files, and after which one is deleted
_TITLES = {"schedules": "Schedules", "distributions": "Distributions", "watch": "Watch", "model": "Your model"}


def build(writer: models.Model, calibration: Calibration | None, name: str) -> gr.Blocks:
    """The page, not yet served.

    Arguments:
        writer: The model of the tab *Watch*.
        calibration: What the tab *Your model* shows until a file is given; None if there is nothing to show.
        name: What that calibration is.
    """
    makers = {
        "schedules": schedules.build,
        "distributions": distributions.build,
        "watch": lambda: watch.build(writer),
        "model": lambda: model.build(writer, calibration, name),
    }
    tabs: dict[str, Tab] = {}
    with gr.Blocks(title="unmask: explore schedules", analytics_enabled=False, delete_cache=_KEPT) as page:
        gr.HTML(
            "<h1>unmask</h1><p class='facts'>Unmasking schedules, seen working. What a schedule costs is computed, not "
            "guessed; everything runs on this machine.</p>"
        )
        notice = gr.HTML(elem_id="notice", elem_classes="problem")
        with gr.Tabs(overflow_behavior="wrap") as row:
            for key, make in makers.items():
                with gr.Tab(_TITLES[key], id=key):
                    tabs[key] = make()

        def opened(request: gr.Request) -> list[Any]:
            return _opened(dict(request.query_params), tabs)

        fields = [field for tab in tabs.values() for field in tab.form.inputs]
        ready = page.load(opened, None, [row, notice, *fields], **QUIET, queue=False, show_progress="hidden")
        for tab in tabs.values():
            tab.form.shows(ready.then, tab.refresh, tab.outputs, **tab.running)
    return page


def _opened(query: Mapping[str, str], tabs: Mapping[str, Tab]) -> list[Any]:
    reading = links.read(query, {key: tab.form.parsers for key, tab in tabs.items()})
    # Plain values: an update would make Gradio build the component anew, without what `whole_slider` changed of it.
    updates = []
    for key, tab in tabs.items():
        said = reading.values if key == reading.tab else {}
        usual = {**tab.usual(said), **said}
        updates += [usual.get(name, field.value) for name, field in tab.form.fields.items()]
    problems = "".join(f'<p role="alert">{escape(words)}</p>' for words in reading.problems)
    return [gr.Tabs(selected=reading.tab), problems, *updates]


def looks() -> dict[str, Any]:
    """Theme, styles and script, for `launch`: fonts of the system, colours that Gradio has anyway."""
    files = resources.files("unmask.app")
    # White letters need a darker blue than Gradio's own.
    dark = {"button_primary_background_fill": "*primary_700", "button_primary_background_fill_hover": "*primary_800"}
    return {
        "theme": Default(primary_hue="blue", font=_FONT, font_mono=_MONO).set(**dark),
        "css": files.joinpath("page.css").read_text(encoding="utf-8"),
        "head": f"<script>{files.joinpath('page.js').read_text(encoding='utf-8')}</script>",
        "footer_links": [],
    }


def serve(page: gr.Blocks, *, host: str, port: int | None, browser: bool, wait: bool = True) -> str:
    """Serve the page until it is interrupted; its address.

    Arguments:
        page: The page. host: Address to listen on. port: Port; a free one from 7860 on by default.
        browser: Whether to open it in a browser. wait: Whether to stay until interrupted.
    """
    _own(host)
    # What is compiled on first use takes a second, which the first slider should not.
    Thread(target=warm, daemon=True).start()
    try:
        _, address, _ = _launched(page, host, port, browser)
    except OSError:
        where = f"{host}:{port}" if port is not None else host
        raise check.InputError(
            "port", "be free to listen on", detail=f"which {where} is not", remedy="Take another."
        ) from None
    if wait:
        page.block_thread()
    return address


def _own(host: str) -> None:
    """Refuse an address of another machine, for which Gradio would wait for ever."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.bind(address)
    except (OSError, UnicodeError):
        raise check.InputError("host", "be an address of this machine", detail=f"which '{host}' is not") from None


def _launched(page: gr.Blocks, host: str, port: int | None, browser: bool) -> tuple[Any, str, str]:
    return page.launch(
        server_name=host, server_port=port, inbrowser=browser, prevent_thread_lock=True, quiet=True, share=False,
        enable_monitoring=False, ssr_mode=False, max_file_size="64mb", **looks(),
    )  # fmt: skip


def warm() -> None:
    """Use every schedule once."""
    laws.compare(64, 8, FREE_SIZES)
