"""`unmask explore`: the page on which a schedule can be seen working."""

import importlib.util
from pathlib import Path

import click

from unmask import _check as check
from unmask.cli import options
from unmask.cli.group import Command
from unmask.cli.output import terminal
from unmask.words.inputs import shipped_calibration
from unmask.words.models import Source


@click.command(cls=Command)
@options.model
@options.calibration
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=options.INTEGER, metavar="N", help="Port; the first free one from 7860 on by default.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def explore(source: Source, calibration: Path | None, host: str, port: int | None, no_browser: bool) -> None:
    """Explore schedules on a local web page.

    Four tabs: size schedules and their guarantees; their error on known distributions; the model at work under two
    schedules side by side; and what a calibration says of your model. The page asks no other host for anything, and is
    to be seen from this machine only, unless --host says otherwise.

    \b
    Examples:
      unmask explore
      unmask explore --model my-run --calibration calibration.json
      unmask explore --no-browser --port 7860
    """
    if importlib.util.find_spec("gradio") is None:
        raise ModuleNotFoundError('This needs gradio, which is not installed. Run: pip install "unmask[app]"')
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
        address = page.serve(built, host=host, port=port, browser=not no_browser, wait=False)
    click.echo(f"Running on {address} (Ctrl+C ends it)")
    built.block_thread()
