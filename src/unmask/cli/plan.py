"""`unmask plan`: what one schedule does and guarantees, or how many steps a target error needs."""

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from unmask import _check as check
from unmask import evaluate, gauge, size
from unmask._memory import check_memory
from unmask.cli import options
from unmask.cli.output import progress, terminal
from unmask.cli.report import Column, Report, facts, grid, plain, title, words
from unmask.information.files import read_gauge
from unmask.names import GAUGES
from unmask.words.data import Data, Said
from unmask.words.pictures import picture
from unmask.words.schedules import size_family
from unmask.words.sentences import abbreviated, counted, dependence, error, fewest, nats, number, promised
from unmask.words.targets import compared, fewest_on, guarantees

_BYTES = 100  # of a token while its schedule is computed, at the least
_OWN = "minimax"  # the size that --gauge makes; it has no meaning without the file


@options.command
@click.option("--steps", type=options.INTEGER, help="Number of steps.")
@click.option("--target", type=options.NUMBER, metavar="NATS", help=options.TARGET_HELP)
@click.option(
    "--size", type=options.Listed(options.PLANNED_SIZE), metavar="NAME",
    help=f"One of {options.BLIND_SIZES_HELP} With --target, you can list several, separated by commas.",
)  # fmt: skip
@click.option(
    "--gauge",
    "measure",
    type=options.FILE,
    metavar="FILE",
    help="Plan the minimax schedule for the gauge in this file.",
)
@click.option("--tc", type=options.NUMBER, help="With --target: total correlation of the data, in nats.")
@click.option("--dtc", type=options.NUMBER, help="With --target: dual total correlation of the data, in nats.")
@options.data
@options.seed
def plan(
    steps: int | None,
    target: float | None,
    size: list[str] | None,
    measure: Path | None,
    tc: float | None,
    dtc: float | None,
    data: Said,
    seed: int,
) -> Report:
    """Show the sizes and guarantees of a schedule, or find the fewest steps that meet a target.

    A guarantee is a factor c: for every distribution of the given length, the expected KL is at most c times the
    dependence between the tokens. There is one factor for each measure of dependence: the total correlation (tc), the
    dual total correlation (dtc), the smaller of the two (min), and their sum (sum), which equals the sum of I(X_i;
    X_-i) over the tokens. For each measure, the minimax sizes have the smallest factor that is possible with positions
    in random order.

    The sizes 'optimal' and 'square-root' are made for a loss curve, which comes from a distribution (see `unmask
    expect`) or from a file. A curve file holds the losses, in nats, with 0, 1, ..., length-1 tokens visible: as a JSON
    list, as a JSON object with the key "loss", or as CSV with one number per line or with the columns n,loss. A gauge
    is your own measure of dependence: its file holds length-1 positive numbers in any of these forms, but with the key
    "gauge" or the columns i,gauge.

    With --target, the command finds the fewest steps instead; `unmask steps` is another name for this. Say what you
    know about the data: --tc, --dtc or both, or a distribution, or a curve. From TC and DTC, the command computes the
    fewest steps that guarantee the target for every distribution with these values. For the sizes of Zhao & Cai's
    paper, it does so in three ways: by the paper's theorem, by the paper's simplified formula, and exactly. For the
    minimax sizes, which are the best possible, it does so exactly. For a distribution or a curve, you also get the
    fewest steps with which each schedule meets the target on exactly that data.

    \b
    Examples:
      unmask plan --length 2000 --steps 100 --size tc
      unmask plan --length 2000 --steps 100 --size minimax-tc
      unmask plan --steps 16 --size optimal --curve validation-loss.csv --monotone
      unmask plan --steps 16 --gauge gauge.json
      unmask plan --length 1000000 --steps 100000 --size dtc --json > plan.json
      unmask steps --length 2000 --tc 38.12 --target 0.1
      unmask steps --length 2000 --tc 500 --dtc 20 --target 0.5 --json
      unmask steps --distribution markov --length 256 --alphabet 2 --stay 0.9 --target 1
      unmask steps --curve validation-loss.csv --monotone --target 5

    JSON: length, steps, size, mean_sizes (one per step), overhang (for i = 1, ..., length-1, the expected number of
    tokens revealed in the same step as the i-th, but after it), guarantee {tc, dtc, min, sum}, sizes (one draw, from
    --seed). With the size tc or dtc, there are also coefficient (the paper's f) and theorem (the factor of the paper's
    bound, or null if the theorem does not apply). With universal or minimax sizes, there is also the field factor. With
    a distribution or a curve, there are also data and expected_kl; with --estimate-curve, there is also standard_error.

    JSON with --target: length, target, tc, dtc, guaranteed (rows of {size, theorem, simplified, exact}; theorem and
    simplified are null for minimax sizes, and simplified is also null for a target of 0), measured (rows of {size,
    steps, expected_kl}; empty without a distribution or curve; steps is null if no number of steps is enough),
    recommendation. With a distribution or a curve, there is also the field data.
    """
    rng = np.random.default_rng(seed)
    if target is not None:
        if steps is not None or measure is not None:
            what = "{steps}" if steps is not None else "{gauge}"
            raise check.InputError("", f"{what} cannot be used with {{target}}", remedy=f"Leave out {what}.")
        return _fewest(target, size, tc, dtc, data, rng)
    for name, value in (("tc", tc), ("dtc", dtc)):
        if value is not None:
            raise check.InputError(
                "",
                f"{{{name}}} needs {{target}}",
                remedy=f"With {{steps}}, the guarantees hold for all data and do not use {{{name}}}.",
            )
    if steps is None:
        raise check.InputError("steps", "be given", remedy="Or give {target} to find the number of steps.")
    return _shown(steps, _one(size, measure), measure, data, seed, rng)


def _one(names: list[str] | None, measure: Path | None) -> str:
    """The one name of a size that a plan is made for."""
    if names is not None and len(names) > 1:
        raise check.InputError("size", "be a single name", found=check.shown(",".join(names)))
    name = names[0] if names else None
    if measure is not None:
        if name not in (None, _OWN):
            remedy = "Leave out one of the two."
            raise check.InputError(
                "",
                f"Size '{name}' cannot be used with {{gauge}}, because {{gauge}} always uses the size '{_OWN}'",
                remedy=remedy,
            )
        return _OWN
    if name == _OWN:
        raise check.InputError(
            "",
            f"Size '{_OWN}' needs a gauge",
            remedy="Give one with {gauge}, or use minimax-tc, minimax-dtc, minimax-min or minimax-sum.",
        )
    if name is None:
        raise check.InputError("size", "be given", remedy="For example: {size} minimax-min.")
    return name


def _length(length: int | None) -> int:
    if length is None:
        raise check.InputError("length", "be given", remedy="For example: {length} 256.")
    return length


def _shown(steps: int, name: str, measure: Path | None, data: Said, seed: int, rng: np.random.Generator) -> Report:
    known = data.read(rng=rng)
    length = data.length if known is None else known.curve.length
    if measure is None:
        length = _length(length)
        schedule = size_family(name, None if known is None else known.curve)(steps)
    else:
        values = read_gauge(measure, length=length)
        length = values.values.size + 1
        schedule = size.Minimax(check.steps_and_length(steps, length)[0], values)
    check_memory(length * _BYTES, "length", "Choose a smaller one.")
    with terminal(stderr=True).status("Computing the distribution of the sizes"), check.renamed("values", "gauge"):
        sizes = schedule.draw(length, rng=np.random.default_rng(seed))[0]
        means = schedule.mean_sizes(length)
        overhang = schedule.overhang(length)
        factors = {key: gauge.guarantee(overhang, entry.make(length)) for key, entry in GAUGES.items()}
        promise = promised(schedule, length)
    record: dict[str, Any] = {
        "length": length,
        "steps": steps,
        "size": name,
        "mean_sizes": means.tolist(),
        "overhang": overhang.tolist(),
        "guarantee": factors,
        "sizes": sizes.tolist(),
        **promise,
    }
    if known is not None:
        record |= {"data": known.record, "expected_kl": evaluate.expected_kl(schedule, known.curve)}
        if (spread := known.standard_error(schedule)) is not None:
            record["standard_error"] = spread
    drawn = ("One draw", f"{abbreviated(sizes)}   (seed {seed})")
    same = ("", "[dim]the same in every draw[/dim]")
    promises = [
        (" ", f"[bold]{number(factor)}[/bold]", f"× {GAUGES[key].factor}", _remark(key, schedule, promise))
        for key, factor in factors.items()
    ]
    if measure is not None:
        promises.append((" ", f"[bold]{number(promise['factor'])}[/bold]", "× Σ gauge · drops", _best(schedule)))
    shown: list[Any] = [
        f"[bold]{name}[/bold]: {counted(length, 'token')} in {counted(steps, 'step')}\n",
        *map(plain, picture(means)),
        "",
        facts(("Mean sizes", abbreviated(means)), same if isinstance(schedule, size.Planned) else drawn),
        "\nFor every distribution, the expected KL is at most",
        facts(*promises, gap=1),
    ]
    if isinstance(schedule, size.Universal):
        shown.append(
            f"\nThe factors for TC, for DTC and for their sum are each at most {number(promise['factor'])} times the "
            f"smallest possible in {counted(steps, 'step')}."
        )
    if known is not None:
        shown += [plain(f"\nExpected KL on {known.title}: {number(record['expected_kl'])} nats"), *known.notes]
    return Report(record, shown)


def _remark(key: str, schedule: size.Blind, promise: dict[str, Any]) -> str:
    if isinstance(schedule, size.Minimax) and schedule.gauge is GAUGES[key].make:
        return _best(schedule)
    mine = (isinstance(schedule, size.TC) and key == "tc") or (isinstance(schedule, size.DTC) and key == "dtc")
    if not mine:
        return ""
    theorem = promise["theorem"]
    says = "does not hold for so few steps" if theorem is None else f"says {number(theorem)}"
    return f"[dim]Zhao & Cai's coefficient; their theorem {says}[/dim]"


def _best(schedule: size.Blind) -> str:
    return f"[dim]the smallest factor possible in {counted(schedule.steps, 'step')}[/dim]"


def _fewest(
    target: float, names: list[str] | None, tc: float | None, dtc: float | None, data: Said, rng: np.random.Generator
) -> Report:
    known = data.read(rng=rng)
    if known is None:
        if names:
            remedy = "Give one of them, or leave out {size}."
            raise check.InputError("", "With {target}, {size} needs {distribution} or {curve}", remedy=remedy)
        if tc is None and dtc is None:
            ways = "{tc}, {dtc}, {distribution} with its options, or {curve}"
            raise check.InputError("", f"Say what you know about the data: {ways}")
        length = _length(data.length)
    else:
        if tc is not None or dtc is not None:
            what = "{distribution}" if data.curve is None else "{curve}"
            raise check.InputError(
                "",
                f"{{tc}} and {{dtc}} are computed from {what}",
                remedy="Leave them out.",
            )
        length = known.curve.length
        tc, dtc = known.curve.total_correlation, known.curve.dual_total_correlation
    with terminal(stderr=True).status("Computing the guarantees"):
        guaranteed = guarantees(length, tc, dtc, target)
    measured = [] if known is None else watched(names or compared(length), known, target)
    advice = fewest(length, tc, dtc, target, guaranteed, measured)
    measured = [{key: row[key] for key in ("size", "steps", "expected_kl")} for row in measured]
    record: dict[str, Any] = {
        "length": length,
        "target": target,
        "tc": tc,
        "dtc": dtc,
        "guaranteed": guaranteed,
        "measured": measured,
        "recommendation": advice,
        **({} if known is None else {"data": known.record}),
    }
    columns = (
        words("size"),
        Column("by theorem", lambda row: "" if row["theorem"] is None else str(row["theorem"])),
        Column("simplified", lambda row: "" if row["simplified"] is None else f"≈ {math.ceil(row['simplified'])}"),
        Column("exactly", lambda row: f"[bold]{row['exact']}[/bold]"),
    )
    shown: list[Any] = [
        title(f"Fewest steps for {nats(target)} at length {length}\n"),
        f"For every distribution with {dependence(tc, dtc)}:",
        grid(columns, guaranteed),
    ]
    if known is not None:
        shown += [plain(f"On {known.title}:"), *known.notes, grid(FEWEST, measured)]
    return Report(record, [*shown, advice])


FEWEST = (
    words("size"),
    Column("steps", lambda row: "none is enough" if row["steps"] is None else f"[bold]{row['steps']}[/bold]"),
    Column("expected KL (nats)", lambda row: "" if row["steps"] is None else error(row["expected_kl"])),
)


def watched(names: list[str], known: Data, target: float) -> list[dict[str, Any]]:
    """The fewest steps of each size on known data, with a bar for each."""
    with progress() as bar:
        tasks = {name: bar.add_task(name, total=known.curve.length) for name in names}
        return fewest_on(names, known, target, lambda name, count: bar.update(tasks[name], completed=count))
