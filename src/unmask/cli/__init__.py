"""The command line `unmask`: one module per command, and one place (`group`) where mistakes become sentences."""

import click

from unmask import __version__
from unmask.cli.group import Group

_SUMMARIES = {
    "demo": "See a text written, what schedules cost, and a figure.",
    "plan": "Show what a schedule guarantees, or how many steps to take.",
    "expect": "Compute the exact expected KL of schedules on known data.",
    "generate": "Generate text with a model, or fill the gaps of a prompt.",
    "evaluate": "Measure what schedules cost on a text.",
    "calibrate": "Measure a model once, for its best schedules.",
    "advise": "Say how many steps to take, in which order, with which sizes.",
    "train": "Train a model of your own.",
    "explore": "See schedules at work on a local web page.",
    "reproduce": "Make the paper's three figures, at full size.",
    "completion": "Print the script that completes words in your shell.",
}
_TITLES = {
    "See it": ("demo", "generate", "explore"),
    "Design a schedule": ("plan", "expect"),
    "Fit one to a model": ("evaluate", "calibrate", "advise"),
    "And also": ("train", "reproduce", "completion"),
}
_OVERVIEW = """\
unmask: schedules for masked diffusion language models, with their exact error.

A sampler reveals L tokens in K steps. How many it reveals at each step, and
which, is its schedule. Revealing several at once costs accuracy; that cost is
computed here, not guessed.
"""
_EXAMPLES = """
To start with
  unmask demo                                        the first minute
  unmask generate --steps 16 --watch                 text, as it appears
  unmask plan --length 256 --steps 16 --size minimax-min
                                                     a schedule, and its promise

unmask COMMAND --help has examples; --json is for programs.
"""


@click.group(
    cls=Group,
    summaries=_SUMMARIES,
    titles=_TITLES,
    aliases={"steps": "plan"},  # reads better with --target
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="unmask")
@click.option("--traceback", is_flag=True, help="Show the traceback of an error, for a bug report.")
@click.pass_context
def main(context: click.Context, traceback: bool) -> None:
    """Unmasking schedules for masked diffusion language models, with their exact error.

    Run `unmask` alone for an overview, or `unmask COMMAND --help` for examples.
    """
    if context.invoked_subcommand is None:
        click.echo(overview(), nl=False)


def overview() -> str:
    """What `unmask` alone prints: every command in one line, and where to begin."""
    lines = [_OVERVIEW.rstrip("\n")]
    for title, names in _TITLES.items():
        lines += ["", title, *(f"  {name:<12}{_SUMMARIES[name]}" for name in names)]
    return "\n".join(lines) + "\n" + _EXAMPLES
