"""`unmask completion`: the words of the command line, for bash, zsh and fish.

The shells ask at every press of the tab key, and the commands take most of a second to import. So what they take is
kept in the user's cache folder, written when it is first asked for and again whenever the program has changed, and
stand-ins made from it answer through click's own mechanism.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from unmask.cli.group import Command

SHELLS = {
    "bash": 'eval "$(unmask completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(unmask completion zsh)"     in ~/.zshrc, after compinit',
    "fish": "unmask completion fish | source     in ~/.config/fish/config.fish",
}


class Words(click.ParamType):
    """A value for which some words can be proposed; whoever uses the value checks it.

    Arguments:
        words: What to propose.
        several: Whether the value is a list separated by commas.
        files: Whether it may be a file.
    """

    name = "text"

    def __init__(self, words: Any = (), *, several: bool = False, files: bool = False):
        self.words, self.several, self.files = tuple(words), several, files

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, begun = incomplete.rpartition(",") if self.several else ("", "", incomplete)
        used = before.split(",")
        found = [word for word in self.words if word.startswith(begun) and word not in used]
        items = [CompletionItem(f"{before}{comma}{word}") for word in found]
        # Only where no word fits: bash would forget the words.
        return items or ([CompletionItem(incomplete, type="file")] if self.files else [])


def stand_in(name: str) -> click.Command:
    """A command with the options of that one, and nothing to run."""
    record = _cached().get(name, {"arguments": [], "options": []})
    parameters: list[click.Parameter] = [
        click.Argument([f"argument{i}"], nargs=-1, type=Words(words)) for i, words in enumerate(record["arguments"])
    ]
    for option in record["options"]:
        kind = option["kind"]
        more: dict[str, Any] = {"is_flag": True} if kind is None else {"type": Words(**kind)}
        parameters.append(click.Option(option["names"], help=option["help"], **more))
    return click.Command(name, params=parameters)


def _cached() -> dict[str, Any]:
    """What every command takes: from the cache, or from the commands themselves, and then it is kept."""
    path, age = cache_file(), _age()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["age"] == age:
            return kept["commands"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there yet, or not ours: it is written anew
    found = collect()
    try:
        from unmask._atomic import replacing

        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({"age": age, "commands": found}), encoding="utf-8")
    except OSError:
        pass  # a home that cannot be written to only costs time
    return found


def cache_file() -> Path:
    """Where the words are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unmask" / "completion.json"


def _age() -> list[Any]:
    """Which program the words are of: its place, and when its commands and names last changed."""
    here = Path(__file__).parent
    files = [*here.glob("*.py"), *here.parent.glob("names/*.py"), *here.parent.glob("words/*.py")]
    return [str(here), max(file.stat().st_mtime_ns for file in files), len(files)]


def describe(command: click.Command) -> dict[str, Any]:
    """What `stand_in` needs to know of a command."""
    options, arguments = [], []
    for parameter in command.params:
        kind = parameter.type
        item = getattr(kind, "item", kind)
        words = list(getattr(item, "words", ()))
        if not isinstance(parameter, click.Option):
            arguments.append(words)
            continue
        files = isinstance(item, click.Path) or getattr(item, "files", False)
        value = None if parameter.is_flag else {"words": words, "several": item is not kind, "files": files}
        options.append({"names": list(parameter.opts), "help": parameter.help, "kind": value})
    return {"arguments": arguments, "options": options}


def collect() -> dict[str, Any]:
    """What every command takes."""
    from unmask.cli import main

    commands = ((name, main.get_command(click.Context(main), name)) for name in main.summaries)
    return {name: describe(command) for name, command in commands if command is not None}


def _shells() -> Iterator[str]:
    yield from (f"  {line}" for line in SHELLS.values())


@click.command(
    cls=Command,
    help="Print a script that lets your shell complete commands, options and names.\n\n\b\nExamples:\n"
    + "\n".join(_shells()),
)
@click.argument("shell", type=Words(SHELLS), metavar="[bash|zsh|fish]")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    from unmask import _check

    try:
        kind = get_completion_class(_check.known("shell", shell, SHELLS))
    except _check.InputError as error:
        raise click.UsageError(f"Completion does not support the shell {error.found}. {error.remedy}") from None
    assert kind is not None
    script = kind(context.find_root().command, {}, "unmask", "_UNMASK_COMPLETE").source()
    # What click writes for fish would cut a list such as even,cosine at its first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
