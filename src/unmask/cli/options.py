"""Option types, and the options that several commands share: each bundle becomes one argument of the command."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from unmask import _check as check
from unmask.cli.completion import Words
from unmask.cli.files import FILE as FILE
from unmask.cli.files import FOLDER as FOLDER
from unmask.cli.files import WRITTEN as WRITTEN
from unmask.cli.files import Folder as Folder
from unmask.cli.group import Command
from unmask.names import DISTRIBUTIONS, MODELS, RULES
from unmask.words import data as words
from unmask.words import revisions, schedules
from unmask.words.inputs import BUILTIN
from unmask.words.models import Source
from unmask.words.texts import Texts
from unmask.words.workers import ENGINES, Workers

Function = Callable[..., Any]


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


class Named(click.ParamType):
    """A name that a function of `unmask.words` understands.

    Arguments:
        kind: What it names, as the sentence about a wrong one has it.
        proposed: Names to propose.
        understand: Refuses any other.
    """

    name = "name"

    def __init__(self, kind: str, proposed: Iterable[str], understand: Callable[[str], object]):
        self.kind, self.words, self.understand = kind, tuple(proposed), understand

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        listed = param is not None and isinstance(param.type, Listed)
        if "," in str(value) and not listed:
            raise check.InputError(self.kind, "be a single name", found=check.shown(str(value)))
        with check.renamed(self.kind, _name(param)):
            self.understand(str(value))
        return str(value)


class Listed(click.ParamType):
    """Values of one type separated by commas."""

    name = "list"

    def __init__(self, item: click.ParamType):
        self.item = item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        parts = [word.strip() for word in str(value).split(",")]
        if parts == [""]:
            raise check.InputError(_name(param), "not be empty")
        if not all(parts):
            raise check.InputError(
                _name(param), "be a list with an item before and after every comma", found=check.shown(str(value))
            )
        # Asking for the same thing twice gives it once.
        return list(dict.fromkeys(self.item.convert(word, param, ctx) for word in parts))


def _name(param: click.Parameter | None) -> str:
    """What the user typed: the option itself, not the variable it ends in."""
    return "value" if param is None else param.opts[0].lstrip("-")


def one_of(kind: str, names: Iterable[str]) -> Named:
    """One of several names."""
    known = tuple(names)
    return Named(kind, known, lambda name: check.known(kind, name, known))


INTEGER = _Integer(most=2**48)  # beyond it arrays fail in numpy's words rather than for want of memory
INTEGERS = Listed(INTEGER)
NUMBER = _Number()
BLIND_SIZE = one_of("size", schedules.BLIND_SIZES)
PLANNED_SIZE = one_of("size", (*schedules.BLIND_SIZES, "minimax"))
SIZE = Named("size", schedules.SIZE_WORDS, schedules.check_size)
ORDER = Named(
    "order", (*schedules.ORDER_WORDS, "comb-16", "whole-comb-16", "spaced-4/confidence"), schedules.order_named
)
RULE = one_of("rule", RULES)
REVISION = Named("revision", revisions.REVISION_WORDS, revisions.check_revision)

BLIND_SIZES_HELP = (
    f"{', '.join(schedules.FREE_SIZES)}; for a distribution or a curve, also {' or '.join(schedules.CURVE_SIZES)}."
)
_OTHERS, _LAST = (*schedules.FREE_SIZES, *schedules.NUMBERED_SIZES[:-1]), schedules.NUMBERED_SIZES[-1]
SIZES_HELP = f"{', '.join(_OTHERS)}, or {_LAST}"
ORDERS_HELP = (
    f"{', '.join(schedules.ORDER_WORDS)}. comb has as many segments as a step has tokens, and comb-16 has "
    "16. whole-comb starts at the first position. spaced-4/ORDER keeps the positions of a step at least 4 "
    "apart."
)
REVISION_HELP = (
    f"Take revealed tokens back, or change them, in one of these ways: {', '.join(revisions.REVISION_WORDS)}. Most of "
    "these ways take a number after a colon, as in cap:0.1. Revised texts have no exact likelihood."
)
STEPS_HELP = "One or more numbers of steps, separated by commas."
TARGET_HELP = "Instead of --steps: find the fewest steps with an expected KL of at most this many nats."
RULES_HELP = f"instead of --order and --size: {', '.join(RULES)}."


def command(function: Function) -> Command:
    """A command that returns a `Report`; --json prints its record."""
    as_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        help="Print the result as JSON and nothing else.",
        callback=_keep,
    )
    return click.command(cls=Command)(_last(as_json)(function))


def _keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta["unmask.json"] = value


def _last(option: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Put an option at the end of the help: click lists them in the order in which they are applied, last first."""

    def decorate(function: Function) -> Function:
        kept = list(getattr(function, "__click_params__", []))
        function.__click_params__ = []  # pyright: ignore[reportFunctionMemberAccess] - where click keeps them
        option(function)
        function.__click_params__ += kept  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return decorate


def bundled(
    gather: Callable[..., Any], argument: str, *choices: Callable[[Function], Function]
) -> Callable[[Function], Function]:
    """Several options that become one argument.

    Arguments:
        gather: Makes the argument of the options' values.
        argument: Its name.
        choices: The options.
    """
    # An option keeps itself with the function it is applied to: that is how its variable is known.
    names: list[str] = [vars(choice(lambda: None))["__click_params__"][0].name for choice in choices]

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def gathered(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return function(**{argument: gather(**own)}, **values)

        result: Function = gathered
        for choice in reversed(choices):
            result = choice(result)
        return result

    return decorate


seed = click.option(
    "--seed",
    type=_Integer(least=0, most=2**63),
    default=0,
    show_default=True,
    help="Seed for all random choices.",
)


def _said(
    length: int | None, distribution: str | None, estimate_curve: int | None, curve: Path | None, monotone: bool,
    **parameters: float | None,
) -> words.Said:  # fmt: skip
    return words.Said(length, distribution, parameters, estimate_curve, curve, monotone)


data = bundled(
    _said,
    "data",
    click.option("--length", type=INTEGER, help="Number of tokens. [default: as in --curve]"),
    click.option(
        "--distribution", type=one_of("distribution", DISTRIBUTIONS), metavar="NAME",
        help=f"One of {', '.join(DISTRIBUTIONS)}.",
    ),
    click.option("--dimension", type=INTEGER, help="Dimension of the code (reed-solomon or linear)."),
    click.option("--alphabet", type=INTEGER, help="Number of different tokens; for a code, a prime power."),
    click.option("--stay", type=NUMBER, help="Probability that a token of a Markov chain repeats the one before it."),
    click.option("--bias", type=NUMBER, help="Bias of the coin in a mixture."),
    click.option(
        "--estimate-curve", type=INTEGER, metavar="DRAWS",
        help="Estimate the distribution's curve from this many draws.",
    ),
    click.option(
        "--curve", type=FILE, metavar="FILE",
        help="Use a loss curve instead of a distribution: CSV or JSON, in nats per token.",
    ),
    click.option("--monotone", is_flag=True, help="If the curve increases, use the nearest curve that does not."),
)  # fmt: skip


workers = bundled(
    Workers,
    "workers",
    click.option(
        "--engine", type=one_of("engine", ENGINES), default="local", show_default=True, metavar="NAME",
        help="local, or ray to use many cores, GPUs or machines. The results are the same.",
    ),
    click.option(
        "--workers", type=INTEGER, metavar="N",
        help="With ray: number of workers. [default: as many as the cluster has room for]",
    ),
    click.option("--address", metavar="WHERE", help="With ray: the address of a running cluster, or auto to find one."),
)  # fmt: skip


device = click.option(
    "--device", type=Words(["auto", "cpu", "cuda"]), default="auto", show_default=True, metavar="NAME",
    help="cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.",
)  # fmt: skip


def model_by_default(name: str) -> Callable[[Function], Function]:
    """Which model, where to, and what it may do.

    Arguments:
        name: The model where nobody says which.
    """
    return bundled(
        lambda model, **rest: Source(model, **rest),
        "source",
        click.option(
            "--model", type=Words(MODELS, files=True), default=name, show_default=True, metavar="MODEL",
            help="builtin, causal, a .safetensors file saved by unmask, a folder written by `unmask train`, "
            "hf:NAME_OR_FOLDER for a masked language model from Hugging Face, or py:FILE.py:FUNCTION for a model "
            "that your function returns (this runs the code in that file).",
        ),
        click.option(
            "--trust-remote-code", is_flag=True, help="Run the Python code that comes with a Hugging Face model."
        ),
        click.option(
            "--allow-pickle", is_flag=True,
            help="Read pickled weights if a Hugging Face model has no weights in safetensors format.",
        ),
        device,
    )  # fmt: skip


model = model_by_default(BUILTIN)
length = click.option(
    "--length", type=INTEGER, metavar="L",
    help="Tokens per sequence. [default: the model's maximum, but at most 256 for Hugging Face models]",
)  # fmt: skip
_TEXT = "Text that the model has not seen, in the model's alphabet. The built-in models know a to z and the space."
DATA = (
    'JSON lines with {"prompt": ..., "answer": ...} or {"text": ...}, plain text with one row per line, FASTA, '
    "CSV or Parquet. Files may be compressed as .gz or .xz; use - for standard input."
)
column = click.option("--column", metavar="NAME", help="With --data: the column or key that holds the texts.")


def texts(text: str = _TEXT, usual: str = "32, or all if there are fewer") -> Callable[[Function], Function]:
    """Where the texts come from that a model is measured on.

    Arguments:
        text: The help of --text.
        usual: How many there are by default, in words.
    """
    return bundled(
        Texts,
        "texts",
        click.option("--text", type=FILE, metavar="FILE", help=text),
        click.option("--data", type=FILE, metavar="FILE", help=f"File of rows that the model has not seen: {DATA}"),
        column,
        click.option(
            "--texts", "count", type=INTEGER, metavar="N",
            help="Number of sequences: windows spread evenly over the text, or rows drawn from the data. [default: "
            f"{usual}]",
        ),
    )  # fmt: skip


allow = click.option(
    "--allow", multiple=True, metavar="WHERE:WHAT",
    help="Allow only certain tokens at one position (3:abc) or at each of several (10-20:0123456789). Positions are "
    "counted from 1. If the model's tokens are not characters, list whole tokens with spaces between them, as in "
    "'3:yes no'. You can also give a .json file of such rules. You can repeat this option; for each position, the last "
    "rule counts.",
)  # fmt: skip
calibration = click.option("--calibration", type=FILE, metavar="FILE", help="File written by `unmask calibrate`.")
