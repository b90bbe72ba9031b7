"""Commands that are loaded when they are called, and whose every mistake ends as one sentence.

Whatever the user can get wrong is a single line on stderr and exit code 2: usage errors of `click`, the `InputError` of
the library, said of options, files that cannot be written, a missing extra. `unmask --traceback …` shows where the
error came from. A reader that goes away, as `| head -1` does, ends a command quietly with exit code 0.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, final

import click
from click.shell_completion import CompletionItem

# numpy and rich are imported where they are needed: the shell waits for this module at every press of the tab key.

_LONGEST = 900  # letters of a sentence; what else a user wrote into it is left out
_WHOLE = "\N{NON-BREAKING HYPHEN}"


@final
class _Help(click.HelpFormatter):
    """Help in which no line ends inside a word with a hyphen: it could be an option that a reader copies."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _WHOLE))

    def write_dl(self, rows: Sequence[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
        super().write_dl([(first, second.replace("-", _WHOLE)) for first, second in rows], *args, **kwargs)

    def getvalue(self) -> str:
        return super().getvalue().replace(_WHOLE, "-")


@final
class _Context(click.Context):
    formatter_class = _Help


class Command(click.Command):
    """A command whose function returns a `Report`, which is printed here: for people, or as JSON."""

    context_class = _Context

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # The library speaks of its own arguments: an option that is called otherwise here has both names.
        named = {(param.name or "").replace("_", "-"): param.opts[0] for param in self.params}
        self.options = named | {word.lstrip("-"): word for param in self.params for word in param.opts}

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with self._speaking():
            return super().make_context(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True  # click refuses them without saying what to do
        extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            what = "Got unexpected extra argument" if len(extra) == 1 else "Got unexpected extra arguments"
            hint = (
                " To give a prompt, write --prompt before it, and put it in quotes." if "prompt" in self.options else ""
            )
            raise click.UsageError(f"{what} ({' '.join(extra)}).{hint}")
        return extra

    def invoke(self, ctx: click.Context) -> Any:
        from unmask.cli.files import check_apart
        from unmask.cli.output import terminal
        from unmask.cli.report import Report, print_json

        with self._speaking(), _noting():
            check_apart(self.params, ctx.params)
            report = super().invoke(ctx)
            if not isinstance(report, Report):
                return report
            if wants_json(ctx):
                print_json(report.record)
            else:
                report.print(terminal())
        return report.code

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """Mistakes speak of the options of this command."""
        from unmask._check import InputError
        from unmask.words.mistakes import MISTAKES, sentence

        try:
            yield
        except BrokenPipeError:
            raise  # a closed pager is no mistake
        except click.NoSuchOption as error:
            from unmask._check import known

            try:
                known("option", error.option_name, sorted(self.options.values()))
            except InputError as unknown:
                # A single letter is like too many words to be taken for one of them.
                guessed = unknown.close and len(error.option_name) > 2
                hint = unknown.remedy if guessed else "See --help."
                raise click.UsageError(f"There is no option {unknown.found}. {hint}") from None
            raise
        except click.MissingParameter as error:
            param = error.param
            if isinstance(param, click.Argument) and param.metavar:
                raise click.UsageError(f"Give one of {param.metavar.strip('[]').replace('|', ', ')}.") from None
            raise click.UsageError(f"{param.opts[0] if param else 'Something'} must be given.") from None
        except InputError as error:
            self._refuse(error, self._sentence(error))
        except MISTAKES as error:
            if (words := sentence(error)) is None:
                raise
            self._refuse(error, words)

    def _refuse(self, error: BaseException, sentence: str) -> NoReturn:
        context = click.get_current_context(silent=True)
        if context is not None and context.find_root().params.get("traceback"):
            raise error
        raise click.UsageError(sentence) from error

    def _word(self, argument: str) -> str:
        return self.options.get(argument.replace("_", "-"), f"'{argument}'")

    def _sentence(self, error: Any) -> str:
        word = self._word(error.argument)
        if error.choices and word.startswith("--"):
            return f"{word}: no such {error.kind} {error.found}. {error.remedy}"
        if error.choices:
            return f"There is no {error.kind} {error.found}. {error.remedy}"
        return error.sentence(self._word, lambda name: word if word.startswith("--") else f"Argument '{name}'")


@contextmanager
def _noting() -> Iterator[None]:
    """Notes of the library are a line on stderr, each once."""
    from unmask._errors import Note
    from unmask.cli.output import said

    seen: set[str] = set()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def shown(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, Note):
                others(message, category, *where, **more)
            elif str(message) not in seen:
                seen.add(str(message))
                said(f"Note: {message}")

        warnings.simplefilter("always", Note)
        warnings.showwarning = shown
        yield


def wants_json(ctx: click.Context | None = None) -> bool:
    """Whether the command that runs was given --json."""
    return bool((ctx or click.get_current_context()).meta.get("unmask.json"))


class Group(click.Group):
    """A group whose commands live in modules of this package.

    Arguments:
        summaries: Command name -> one line for the list of commands. The command `name` is the object of that name
            in the module `unmask.cli.name`, imported on first use: the numerical libraries take a second to load.
        titles: Title -> the names of the commands listed under it.
        aliases: Another word for a command, with the command and a line for the list.
    """

    context_class = _Context

    def __init__(
        self,
        *args: Any,
        summaries: Mapping[str, str],
        titles: Mapping[str, tuple[str, ...]],
        aliases: Mapping[str, tuple[str, str]],
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.summaries, self.titles = dict(summaries), dict(titles)
        self.aliases = {word: command for word, (command, _) in aliases.items()}
        self.lines = self.summaries | {word: line for word, (_, line) in aliases.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.aliases.get(cmd_name, cmd_name)
        if cmd_name not in self.summaries:
            return None
        if ctx.resilient_parsing:  # a shell asks what could come next; nothing will be run
            from unmask.cli.completion import stand_in

            return stand_in(cmd_name)
        return getattr(importlib.import_module(f"unmask.cli.{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in self.aliases:
            from unmask import _check

            if args[0] == "help":
                remedy = "Run `unmask --help`, or `unmask COMMAND --help` for one command."
                raise click.UsageError(f"There is no command 'help'. {remedy}")
            try:
                _check.known("command", args[0], self.summaries)
            except _check.InputError as error:
                raise click.UsageError(f"There is no command {error.found}. {error.remedy}") from None
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self.titles.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.lines[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in self.lines.items() if name.startswith(incomplete)]

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _whoever_reads():  # --help and --version print here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _whoever_reads():
            code = super().invoke(ctx)
            sys.stdout.flush()
        return code

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs = {"prog_name": "unmask", **kwargs, "standalone_mode": False}
        if sys.stdout is None:  # closed by whoever started us: what is printed has nowhere to go
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
        try:
            code = super().main(*args, **kwargs)
        except click.ClickException as error:
            _complain(error.format_message())
            try:
                sys.stdout.flush()
            except OSError:  # it is the output that cannot be written
                _forget_the_reader()
            sys.exit(2)
        except click.Abort as stopped:
            click.echo(str(stopped) or "Stopped.", err=True)
            sys.exit(130)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _whoever_reads() -> Iterator[None]:
    """A reader that goes away ends the command with 0, where click would end it with 1; a full disk is a mistake."""
    try:
        yield
    except BrokenPipeError:
        _forget_the_reader()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        from unmask.words.mistakes import sentence

        if (words := sentence(error)) is None:
            raise
        raise click.UsageError(words) from error


def _forget_the_reader() -> None:
    """The reader has what it wanted: what is left in the buffer must not fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from unmask._check import clipped

    line = clipped(" ".join(message.split()), _LONGEST)
    text = Text.assemble(("Error: ", "bold red"), line if line.endswith((".", "?")) else f"{line}.")
    Console(stderr=True).print(text, soft_wrap=True, highlight=False)
