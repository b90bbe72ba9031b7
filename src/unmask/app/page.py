"""The page: five tabs, opened at the view that its link asks for."""

import os
import socket
import time
import webbrowser
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from threading import Thread
from typing import Any

# The page asks no host but its own, and so does the program that serves it. Gradio reads these when it is imported.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("GRADIO_RUN_HISTORY", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import fastapi
import gradio as gr
from fastapi.responses import HTMLResponse
from gradio.themes import Default
from starlette.routing import Mount

from unmask import _check as check
from unmask import models
from unmask.app import glossary, links
from unmask.app.data import schedules as laws
from unmask.app.events import Events
from unmask.app.fields import QUIET
from unmask.app.guard import UPLOAD, Guard, Names, is_name
from unmask.app.server import Server, listening
from unmask.app.tabs import Tab, distributions, model, results, schedules, watch
from unmask.calibration import Calibration
from unmask.words.schedules import FREE_SIZES

_FONT = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
_MONO = ("ui-monospace", "DejaVu Sans Mono", "Consolas", "monospace")
_KEPT = (3600, 86400)  # seconds between two looks for uploaded files, and after which one is deleted
_TITLES = {
    "watch": "Watch", "schedules": "Schedules", "distributions": "Distributions", "model": "Your model",
    "results": "Results",
}  # fmt: skip
_ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # of a page without scripts
_SCRIPTS = ("page.js", "chart.js", "zoom.js", "player.js", "animation.js")


def build(writer: models.Model, calibration: Calibration | None, name: str) -> gr.Blocks:
    """The page, not yet served.

    Arguments:
        writer: The model of the tab *Watch*.
        calibration: What the tab *Your model* shows until a file is given; None if there is nothing to show.
        name: What that calibration is.
    """
    makers = {
        "watch": lambda: watch.build(writer, calibration),
        "schedules": schedules.build,
        "distributions": distributions.build,
        "model": lambda: model.build(writer, calibration, name),
        "results": results.build,
    }
    tabs: dict[str, Tab] = {}
    with gr.Blocks(title="unmask: explore schedules", analytics_enabled=False, delete_cache=_KEPT) as page:
        gr.HTML(
            "<h1>unmask</h1><p class='facts'>Watch unmasking schedules at work, and see what each of them costs. "
            "Everything runs on this machine.</p>"
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
        # The fields are as the link wants them: the tab *Watch* may begin.
        ready.then(None, None, None, js="() => window.unmask.ready()", **QUIET)
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
        "head": "".join(f"<script>{files.joinpath(each).read_text(encoding='utf-8')}</script>" for each in _SCRIPTS),
        "footer_links": [],
    }


def serve(
    page: gr.Blocks, *, host: str, port: int | None, browser: bool, wait: bool = True, names: Sequence[str] = ()
) -> str:
    """Serve the page until it is interrupted; its address.

    Arguments:
        page: The page. host: Address to listen on. port: Port; a free one from 7860 on by default.
        browser: Whether to open it in a browser. wait: Whether to stay until interrupted; else `page.close` ends it.
        names: Other names under which it may be asked for, as `NAME` or `NAME:PORT`: those of a proxy.
    """
    for name in names:
        if not is_name(name):
            raise check.InputError("allow-host", "be a name such as plots.example.org", found=check.shown(name))
    at = listening(host, port)
    # What is compiled on first use takes a second, which the first slider should not.
    Thread(target=warm, daemon=True).start()
    port = int(at.getsockname()[1])
    machine = {socket.gethostname(), socket.getfqdn()}
    server = Server(_guarded(page, Names(host, port, names, machine)), at)
    # So that `page.close` ends it, as it ends a server of Gradio's own.
    page.server = server  # pyright: ignore[reportAttributeAccessIssue]
    server.wait()
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host.strip("[]") else host
    address = f"http://{shown}:{port}/"
    if browser:
        webbrowser.open(address)
    if wait:
        stay(page)
    return address


def stay(page: gr.Blocks) -> None:
    """Wait until the page that is served is interrupted, and end it."""
    try:
        while page.server.running:  # pyright: ignore[reportAttributeAccessIssue]
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    finally:
        page.close(verbose=False)


def _guarded(page: gr.Blocks, names: Names) -> Guard:
    """The page as an application that nobody but its own visitors can use."""
    app = fastapi.FastAPI(openapi_url=None)

    @app.get(f"/{glossary.ADDRESS}", response_class=HTMLResponse)
    def names_page() -> HTMLResponse:
        return HTMLResponse(glossary.html(), headers={"Content-Security-Policy": _ALONE})

    gr.mount_gradio_app(
        app, page, path="", ssr_mode=False, enable_monitoring=False, run_history=False, mcp_server=False, pwa=False,
        max_file_size=UPLOAD, **looks(),
    )  # fmt: skip
    (mounted,) = (route for route in app.routes if isinstance(route, Mount))
    page.app = mounted.app  # pyright: ignore[reportAttributeAccessIssue] - `close` tells it to end what is under way
    return Guard(app, names, Events(page))


def warm() -> None:
    """Use every schedule once."""
    laws.compare(64, 8, FREE_SIZES)
