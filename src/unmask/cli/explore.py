"""`unmask explore`: the page on which a schedule can be seen working."""

import importlib.util
from pathlib import Path

import click

from unmask import _check as check
from unmask._packages import install
from unmask.cli import options
from unmask.cli.group import Command
from unmask.cli.output import terminal
from unmask.words.inputs import shipped_calibration
from unmask.words.models import Source


@click.command(cls=Command)
@options.model
@options.calibration
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=options.INTEGER, metavar="N", help="Port to listen on. [default: the first free one from 7860]"
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Also answer requests for this host name, given as NAME or NAME:PORT. You can repeat this option.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, but do not open a browser.")
def explore(
    source: Source, calibration: Path | None, host: str, port: int | None, names: tuple[str, ...], no_browser: bool
) -> None:
    """Explore schedules on a local web page.

    The page opens with two texts that models write side by side, each under a schedule that you choose. The other tabs
    compare sizes and their guarantees, show the errors of these sizes on known distributions, show what a calibration
    says about your model, and show measured results. The page sends no requests to other hosts. Unless you set --host,
    only this machine can open it. It answers only requests for its own address: if it runs behind a proxy, give the
    proxy's host name with --allow-host.

    \b
    Examples:
      unmask explore
      unmask explore --model my-run --calibration calibration.json
      unmask explore --no-browser --port 7860
      unmask explore --host 0.0.0.0 --allow-host plots.example.org
    """
    if importlib.util.find_spec("gradio") is None:
        raise ModuleNotFoundError(f"This needs gradio, which is not installed. {install('app')}")
    if port is not None:
        check.integer("port", port, least=1, most=65535)
    screen = terminal(stderr=True)
    with screen.status("Preparing the page"):
        model, known = source.measured(None, calibration)
        known = known or shipped_calibration(source.name)
        from unmask.app import page  # Gradio takes seconds to load

        own = "the calibration of the built-in model"
        name = "nothing" if known is None else calibration.name if calibration else own
        built = page.build(model, known, name)
        address = page.serve(built, host=host, port=port, browser=not no_browser, wait=False, names=names)
    click.echo(f"Running on {address} (Ctrl+C ends it)")
    page.stay(built)
