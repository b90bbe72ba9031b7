"""The command line `unmask`: one module per command, and one place (`group`) where mistakes become sentences."""

import click

from unmask import __version__
from unmask.cli.group import Group

OVERVIEW = """\
unmask: schedules for masked diffusion language models, with their exact error.

A sampler reveals L tokens in K steps. How many it reveals at each step is its
schedule. Revealing several at once costs accuracy; for a known distribution
that cost is computed here, not guessed.

  Text from the built-in model, as it appears
    unmask generate --steps 16 --watch
  What schedules cost on a text, and which one to take
    unmask evaluate --text FILE --order random,comb --size even --steps 8,16,32
    unmask calibrate --text FILE --output calibration.json
    unmask advise --calibration calibration.json --target 0.05
  A model of your own
    unmask train --text FILE --output my-run
  Many texts on many cores, GPUs and machines
    unmask generate --count 100000 --engine ray --output texts.parquet

  A page on which to see all this
    unmask explore

  The first minute: schedules compared on three distributions, with a figure
    unmask demo
  What one schedule does, and what it guarantees for every distribution
    unmask plan --length 2000 --steps 100 --size minimax-min
  The exact error of schedules on a known distribution
    unmask expect --distribution markov --length 256 --alphabet 2 --stay 0.9 \\
                  --size even,cosine,tc,minimax-min,optimal --steps 16,32
  The best sizes for a measured loss curve
    unmask plan --steps 16 --size optimal --curve validation-loss.csv
  The fewest steps for a target error
    unmask steps --length 2000 --tc 38 --target 0.1
  The three figures of the paper
    unmask reproduce --output figures

Every command has --help with examples, and --json for programs.
"""

_SUMMARIES = {
    "demo": "Compare schedules on three distributions, with a figure.",
    "plan": "Show the sizes of a schedule and what it guarantees.",
    "expect": "Compute the exact expected KL of schedules on a distribution or curve.",
    "steps": "Find the fewest steps that reach a target error.",
    "generate": "Generate text with a model, or fill the gaps of a prompt.",
    "evaluate": "Measure what schedules cost on a text.",
    "calibrate": "Measure a model once, for its best schedules.",
    "advise": "Say how many steps to take, in which order, with which sizes.",
    "train": "Train a model of your own.",
    "explore": "See schedules at work on a local web page.",
    "reproduce": "Make the paper's three figures, at full size.",
}


@click.group(
    cls=Group,
    summaries=_SUMMARIES,
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
        click.echo(OVERVIEW, nl=False)
