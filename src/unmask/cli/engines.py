"""The words for engines: who does the work of a command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

from unmask import _check as check
from unmask.cli import options
from unmask.cli.completion import Words
from unmask.engine import LOCAL, Engine, Ray

NAMES = ("local", "ray")


def engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who does the work."""
    choices = (
        click.option(
            "--engine", "engine_name", type=Words(NAMES), default="local", show_default=True, metavar="NAME",
            help="local, or ray for many cores, GPUs and machines; the results are the same.",
        ),
        click.option("--workers", type=options.INTEGER, metavar="N", help="With ray: workers; all it has by default."),
        click.option("--address", metavar="WHERE", help="With ray: an existing cluster, such as auto."),
    )  # fmt: skip
    for option in reversed(choices):
        command = option(command)
    return command


def engine_named(name: str, workers: int | None, address: str | None, device: str = "cpu") -> Engine:
    """The engine of that name.

    Arguments:
        name, workers, address: What the options say.
        device: The device that was asked for.
    """
    if check.known("engine", name, NAMES) == "ray":
        if ":" in device:
            raise check.InputError(
                "", "With --engine ray every worker has a GPU of its own", remedy=f"Take --device cuda, not {device}."
            )
        return Ray(workers, address, gpu=device == "cuda")
    for option, value in (("workers", workers), ("address", address)):
        if value is not None:
            raise check.InputError("", f"Argument '{option}' goes with --engine ray", remedy="Give both or neither.")
    return LOCAL


@contextmanager
def working(engine: Engine) -> Iterator[Engine]:
    """The engine at work. What Ray has to say meanwhile, of a worker that died, must not end up in the output."""
    with redirect_stdout(sys.stderr), engine:
        yield engine
