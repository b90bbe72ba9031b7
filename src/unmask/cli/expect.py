"""`unmask expect`: the exact error of schedules on a known distribution."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import click
import numpy as np

from unmask import _check as check
from unmask import evaluate, size
from unmask.cli import options
from unmask.cli.output import progress
from unmask.cli.report import Column, Report, Row, best, dim, grid, title, words
from unmask.engine import Report as Done
from unmask.words.data import Data, Said
from unmask.words.outputs import check_rows, write_rows
from unmask.words.schedules import size_family
from unmask.words.sentences import ROUNDING, error, number
from unmask.words.workers import Workers, working


@options.command
@options.data
@click.option(
    "--size", "names", type=options.Listed(options.BLIND_SIZE), metavar="NAMES", required=True,
    help=f"One or more of {options.BLIND_SIZES_HELP}",
)  # fmt: skip
@click.option("--steps", type=options.INTEGERS, metavar="NUMBERS", help=options.STEPS_HELP)
@click.option("--target", type=options.NUMBER, metavar="NATS", help=options.TARGET_HELP)
@click.option("--draws", type=options.INTEGER, help="Also estimate the expected KL from this many random schedules.")
@click.option(
    "--output", type=options.WRITTEN, metavar="FILE", help="Also write the rows to this file: .csv, .jsonl or .parquet."
)
@options.workers
@options.seed
def expect(
    data: Said,
    names: list[str],
    steps: list[int] | None,
    target: float | None,
    draws: int | None,
    output: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
    """Compute the exact expected KL, in nats, of schedules on a distribution or a loss curve.

    Separate the items of a list with commas. Give either a curve in a file (see `unmask plan`) or a distribution. A
    distribution needs --length and the options in the second column:

    \b
      reed-solomon    --dimension --alphabet    any DIMENSION tokens determine the rest
      parity          [--alphabet]              one check token
      linear          --dimension --alphabet    random generator matrix, from --seed
      markov          --alphabet --stay         each token repeats the one before with probability STAY
      mixture         --bias                    a coin with bias BIAS or 1 - BIAS
      latent-parity                             one shared bit and a parity check

    \b
    Examples:
      unmask expect --distribution reed-solomon --length 2000 --dimension 1995 --alphabet 2048 \\
                    --size tc,even --steps 50,500
      unmask expect --distribution markov --length 256 --alphabet 2 --stay 0.9 \\
                    --size even,cosine,tc,dtc --steps 16,32,64
      unmask expect --distribution markov --length 256 --alphabet 2 --stay 0.9 --size even,optimal --target 1
      unmask expect --distribution mixture --length 500 --bias 0.1 --size dtc,even --steps 20 --draws 10000
      unmask expect --distribution linear --length 500 --dimension 480 --alphabet 2 --estimate-curve 400 \\
                    --size tc,minimax-tc --steps 32
      unmask expect --curve validation-loss.csv --monotone --size even,minimax-min,optimal --steps 16,32
      unmask expect --distribution markov --length 4096 --alphabet 2 --stay 0.9 --size even,tc,dtc \\
                    --steps 64,128,256,512 --draws 100000 --engine ray --output rows.parquet

    For 'linear' with more than 22 tokens, the exact curve cannot be computed. Use --estimate-curve: it averages over
    random orders instead, and reports a standard error with every result.

    JSON: distribution {name and options (for a curve: name "curve", file and length), entropy, tc, dtc} and rows of
    {size, steps, expected_kl, tc, dtc}. With --draws, a row also has estimate and standard_error. With
    --estimate-curve, a row also has curve_error (the standard error of expected_kl due to the estimated curve), and
    distribution has estimated_from and curve_standard_error. With --monotone, distribution has monotone_change, the
    largest change made to the curve. With --target, a row has only size, steps (the fewest that meet the target, or
    null if no number of steps does) and expected_kl.
    """
    if (steps is None) == (target is None):
        raise check.InputError("", "Give exactly one of {steps} and {target}")
    check_rows(output, (".csv", ".jsonl", ".parquet"))
    engine = workers.on()
    rng = np.random.default_rng(seed)
    known = data.required(rng=rng)
    if target is not None:
        for name, value in (("draws", draws), ("output", output)):
            if value is not None:
                remedy = f"Leave out {{{name}}}, or give {{steps}} instead of {{target}}."
                raise check.InputError("", f"{{{name}}} cannot be used with {{target}}", remedy=remedy)
        return _reaching(known, names, target)
    loss = known.curve
    if draws is not None:
        check.integer("draws", draws, least=2)
    schedules = [(name, size_family(name, loss)(count)) for name in names for count in steps or []]
    for _, schedule in schedules:
        schedule.mean_sizes(loss.length)  # refuses more steps than tokens before any work is done
    shards = [
        (name, schedule, stream) for (name, schedule), stream in zip(schedules, rng.spawn(len(schedules)), strict=True)
    ]
    with progress() as bar, working(engine):
        task = bar.add_task("Computing", total=len(schedules) * (draws or 1))
        rows = engine.map(_Expected(known, draws), shards, lambda shard, done: bar.advance(task, done))
    if output is not None:
        write_rows(rows, output)
    ordered = [row for count in steps or [] for row in rows if row["steps"] == count]
    marked = dim("* smallest for its number of steps") if len(names) > 1 else None
    shown = [*_heading(known), grid(_columns(rows), ordered, section="steps"), marked]
    return Report({"distribution": _about(known), "rows": rows}, shown, written=[output])


def _about(known: Data) -> dict[str, Any]:
    loss = known.curve
    measures = {"entropy": loss.entropy, "tc": loss.total_correlation, "dtc": loss.dual_total_correlation}
    return {**known.record, **measures}


def _heading(known: Data) -> list[Any]:
    loss = known.curve
    amounts = f"TC {number(loss.total_correlation)} nats, DTC {number(loss.dual_total_correlation)} nats"
    return [title(known.title), amounts, *known.notes]


def _reaching(known: Data, names: list[str], target: float) -> Report:
    from unmask.cli.plan import FEWEST, watched

    rows = [{key: row[key] for key in ("size", "steps", "expected_kl")} for row in watched(names, known, target)]
    record = {"distribution": _about(known), "target": target, "rows": rows}
    return Report(record, [*_heading(known), grid(FEWEST, rows)])


@final
@dataclass(frozen=True, eq=False)
class _Expected:
    """Work on shards: the name of a size, the schedule, and its own source of randomness. A shard is a row.

    Attributes:
        known: The data.
        draws: Random schedules to estimate from; None for none.
    """

    known: Data
    draws: int | None

    def __call__(self, shard: tuple[str, size.Blind, np.random.Generator], report: Done) -> dict[str, Any]:
        name, schedule, rng = shard
        loss = self.known.curve
        row: dict[str, Any] = {
            "size": name,
            "steps": schedule.steps,
            "expected_kl": evaluate.expected_kl(schedule, loss),
            "tc": loss.total_correlation,
            "dtc": loss.dual_total_correlation,
        }
        if (spread := self.known.standard_error(schedule)) is not None:
            row["curve_error"] = spread
        if self.draws is None:
            report(1)
            return row
        (estimate,) = evaluate.sampled_kl(schedule, [loss], self.draws, rng=rng, progress=report)
        return row | {"estimate": estimate.mean, "standard_error": estimate.standard_error}


def _columns(rows: list[dict[str, Any]]) -> list[Column]:
    least = {row["steps"]: min(each["expected_kl"] for each in rows if each["steps"] == row["steps"]) for row in rows}
    several = len({row["size"] for row in rows}) > 1

    def exact(row: Row) -> str:
        return best(error(row["expected_kl"]), several and row["expected_kl"] == least[row["steps"]])

    def spread(row: Row) -> str:
        # Fixed sizes have no spread; what rounding leaves of it is not worth a column.
        return f"{row['standard_error'] if row['standard_error'] > 1e-12 * row['estimate'] else 0.0:.2g}"

    columns = [Column("steps", lambda row: str(row["steps"])), words("size"), Column("expected KL (nats)", exact)]
    if "curve_error" in rows[0]:
        shown = "± s.e. of curve"
        columns.append(Column(shown, lambda row: f"{row['curve_error'] if row['curve_error'] > ROUNDING else 0:.2g}"))
    if "estimate" in rows[0]:
        columns += [Column("Monte Carlo", lambda row: number(row["estimate"])), Column("standard error", spread)]
    return columns
