"""Option types and the options that several commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from unmask import _check as check
from unmask.cli.completion import Words
from unmask.cli.names import ALL_SIZES, CURVE_SIZES, DISTRIBUTIONS, GAUGE_SIZE, SIZES


class _Integer(click.ParamType):
    """An integer, refused in the library's own words."""

    name = "integer"

    def __init__(self, least: int | None = None, most: int | None = None):
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number: object = int(value)
        except ValueError:
            number = value
        return check.integer(_name(param), number, least=self.least, most=self.most)


class _Number(click.ParamType):
    """A finite number, refused in the library's own words."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else check.spelled(_name(param), str(value))


class Listed(click.ParamType):
    """Values of one type separated by commas."""

    name = "list"

    def __init__(self, item: click.ParamType):
        self.item = item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        words = [word.strip() for word in str(value).split(",")]
        if not all(words):
            raise check.InputError(_name(param), "be a list such as a,b,c without gaps", found=check.shown(str(value)))
        # Asking for the same thing twice gives it once.
        return list(dict.fromkeys(self.item.convert(word, param, ctx) for word in words))


class _SizeName(click.ParamType):
    """The name of a size schedule."""

    name = "size"

    def __init__(self, names: Iterable[str]):
        self.words = tuple(names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if "," in str(value) and param is not None and not isinstance(param.type, Listed):
            raise check.InputError("size", "be one name here", found=check.shown(str(value)))
        return check.known("size", value, self.words)


def _name(param: click.Parameter | None) -> str:
    """What the user typed: the option itself, not the variable it ends in."""
    return "value" if param is None else param.opts[0].lstrip("-")


INTEGER = _Integer(most=2**48)  # beyond it arrays fail in numpy's words rather than for want of memory
INTEGERS = Listed(INTEGER)
NUMBER = _Number()
SIZE = _SizeName([*ALL_SIZES, GAUGE_SIZE])
SIZE_LIST = Listed(_SizeName(ALL_SIZES))
FILE = click.Path(path_type=Path)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
seed = click.option(
    "--seed", type=_Integer(least=0), default=0, show_default=True, help="Seed of everything that is random."
)
SIZE_HELP = f"Of {', '.join(SIZES)}; for a distribution or curve also {' and '.join(CURVE_SIZES)}."


def data() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that describe the data: a distribution, or a curve in a file."""
    names = f"One of {', '.join(DISTRIBUTIONS)}."
    options = [
        click.option("--length", type=INTEGER, help="Number of tokens; that of --curve unless given."),
        click.option("--distribution", type=Words(DISTRIBUTIONS), metavar="NAME", help=names),
        click.option("--dimension", type=INTEGER, help="Dimension of a code."),
        click.option("--alphabet", type=INTEGER, help="Number of tokens; for a code a prime power."),
        click.option("--stay", type=NUMBER, help="Probability that a Markov chain keeps its token."),
        click.option("--bias", type=NUMBER, help="Bias of the coins of a mixture."),
        click.option(
            "--estimate-curve", type=INTEGER, metavar="DRAWS", help="Estimate the curve of the distribution from draws."
        ),
        click.option(
            "--curve", type=FILE, metavar="FILE", help="A loss curve instead: CSV or JSON, in nats per token."
        ),
        click.option("--monotone", is_flag=True, help="Make a curve that increases the nearest one that does not."),
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
