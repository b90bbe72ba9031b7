"""The command line `unmask`: one module per command, and one place (`group`) where mistakes become sentences."""

import click

from unmask import __version__
from unmask.cli.group import Group

_SUMMARIES = {
    "demo": "Watch a text appear, and see what schedules cost.",
    "plan": "Show what a schedule guarantees.",
    "expect": "Compute the exact expected KL of schedules on known data.",
    "generate": "Generate text with a model, or fill the gaps in a prompt.",
    "evaluate": "Measure what schedules cost on a text.",
    "calibrate": "Measure a model once, to find its best schedules.",
    "advise": "Recommend how many steps, which order and which sizes to use.",
    "train": "Train your own model.",
    "explore": "Watch and compare schedules on a local web page.",
    "reproduce": "Reproduce the three figures of Zhao & Cai's paper.",
    "completion": "Print a script for tab completion in your shell.",
}
_ALIASES = {"steps": ("plan", "Find how many steps a target needs (plan --target).")}  # reads better there
_TITLES = {
    "See it": ("demo", "generate", "explore"),
    "Design a schedule": ("plan", "steps", "expect"),
    "Fit one to a model": ("evaluate", "calibrate", "advise"),
    "More": ("train", "reproduce", "completion"),
}
_OVERVIEW = """\
unmask: schedules for masked diffusion language models, with their exact error.

A sampler reveals L tokens in K steps. Its schedule says how many it reveals
at each step, and which ones. Revealing several at once costs accuracy. unmask
computes that cost exactly and finds the best schedule for your model.
"""
_EXAMPLES = """
Start here
  unmask demo                                        a first look, in a minute
  unmask generate --steps 16 --watch                 watch a text appear
  unmask plan --length 256 --steps 16 --size minimax-min
                                                     what a schedule guarantees

Run unmask COMMAND --help for examples. Add --json for machine-readable output.
"""


@click.group(
    cls=Group,
    summaries=_SUMMARIES,
    titles=_TITLES,
    aliases=_ALIASES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="unmask")
@click.option("--traceback", is_flag=True, help="Show the traceback of an error, for a bug report.")
@click.pass_context
def main(context: click.Context, traceback: bool) -> None:
    """Unmasking schedules for masked diffusion language models, with their exact error.

    Run `unmask` by itself for an overview, or `unmask COMMAND --help` for examples.
    """
    if context.invoked_subcommand is None:
        click.echo(overview(), nl=False)


def overview() -> str:
    """What `unmask` alone prints: every command in one line, and where to begin."""
    lines, summaries = [_OVERVIEW.rstrip("\n")], _SUMMARIES | {word: line for word, (_, line) in _ALIASES.items()}
    for title, names in _TITLES.items():
        lines += ["", title, *(f"  {name:<12}{summaries[name]}" for name in names)]
    return "\n".join(lines) + "\n" + _EXAMPLES
