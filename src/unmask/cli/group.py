"""The command group: loads commands when they are called, and turns every mistake into one sentence.

Whatever the user can get wrong ends as a single line on stderr and exit code 2: usage errors of `click`, the
`ValueError` and `TypeError` of the library's argument checks, files that cannot be written, a missing extra.
`unmask --traceback …` shows where the error came from.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

# numpy and rich are imported where they are needed: the shell waits for this module at every press of the tab key.

# What the library and the file system raise when it is the request that is at fault.
MISTAKES = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)
TOO_LARGE = "The numbers given are too large for this machine's memory. Take smaller ones."


class Group(click.Group):
    """A group whose commands live in modules of this package.

    Arguments:
        summaries: Command name -> one line for the list of commands. The command `name` is the object of that name
            in the module `unmask.cli.name`, imported on first use: the numerical libraries take a second to load.
        titles: Title -> the names of the commands listed under it.
    """

    def __init__(self, *args: Any, summaries: Mapping[str, str], titles: Mapping[str, tuple[str, ...]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.summaries, self.titles = dict(summaries), dict(titles)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return None
        if ctx.resilient_parsing:  # a shell asks what could come next; nothing will be run
            from unmask.cli.completion import stand_in

            return stand_in(cmd_name)
        return getattr(importlib.import_module(f"unmask.cli.{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing:
            from unmask import _check as check

            check.known("command", args[0], self.summaries)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self.titles.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.summaries[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in self.summaries.items() if name.startswith(incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # a closed pager is no mistake; click ends quietly
        except MISTAKES as error:
            if ctx.params["traceback"]:
                raise
            raise click.UsageError(_sentence(error)) from error

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs = {"prog_name": "unmask", **kwargs, "standalone_mode": False}
        try:
            code = super().main(*args, **kwargs)
        except click.ClickException as error:
            _complain(error.format_message())
            sys.exit(2)
        except click.Abort as stopped:
            click.echo(str(stopped) or "Stopped.", err=True)
            sys.exit(130)
        sys.exit(code if isinstance(code, int) else 0)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        what = "the output" if error.filename is None else f"'{error.filename}'"
        return f"Cannot write {what}: {error.strerror.lower()}."
    if isinstance(error, MemoryError | OverflowError):
        return TOO_LARGE
    return str(error)


def _complain(message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    line = " ".join(message.split())
    text = Text.assemble(("Error: ", "bold red"), line if line.endswith((".", "?")) else f"{line}.")
    Console(stderr=True).print(text, soft_wrap=True, highlight=False)
