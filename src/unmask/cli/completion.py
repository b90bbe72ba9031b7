"""`unmask completion`: the words of the command line, for bash, zsh and fish.

The shells ask at every press of the tab key, and the commands take seconds to import: they bring numba and torch. So
what they take is kept in `words.json`, written by `python -m unmask.cli.completion` and compared with the commands by a
test, and stand-ins made from that file answer through click's own mechanism.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from unmask._atomic import replacing

SHELLS = {
    "bash": 'eval "$(unmask completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(unmask completion zsh)"     in ~/.zshrc, after compinit',
    "fish": "unmask completion fish | source     in ~/.config/fish/config.fish",
}
WORDS = Path(__file__).with_name("words.json")


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
    record = json.loads(WORDS.read_text(encoding="utf-8")).get(name, {"arguments": [], "options": []})
    parameters: list[click.Parameter] = [
        click.Argument([f"argument{i}"], nargs=-1, type=Words(words)) for i, words in enumerate(record["arguments"])
    ]
    for option in record["options"]:
        kind = option["kind"]
        more: dict[str, Any] = {"is_flag": True} if kind is None else {"type": Words(**kind)}
        parameters.append(click.Option(option["names"], help=option["help"], **more))
    return click.Command(name, params=parameters)


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
    help="Print the script with which a shell completes commands, options and names.\n\n\b\nExamples:\n"
    + "\n".join(_shells())
)
@click.argument("shell", type=Words(SHELLS), metavar="[bash|zsh|fish]")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    from unmask import _check as check

    kind = get_completion_class(check.known("shell", shell, SHELLS))
    assert kind is not None
    script = kind(context.find_root().command, {}, "unmask", "_UNMASK_COMPLETE").source()
    # What click writes for fish would cut a list such as even,cosine at its first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))


if __name__ == "__main__":
    with replacing(WORDS) as path:
        path.write_text(json.dumps(collect(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
