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
@click.option("--target", type=options.NUMBER, metavar="NATS", help="Or an expected KL to reach: how many steps?")
@click.option(
    "--size", type=options.Listed(options.PLANNED_SIZE), metavar="NAME",
    help=f"{options.BLIND_SIZE_HELP} With --target a list.",
)  # fmt: skip
@click.option("--gauge", "measure", type=options.FILE, metavar="FILE", help="Plan the minimax schedule for this gauge.")
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
    """Show the sizes of a schedule and what it guarantees, or find the fewest steps for a target.

    The guarantee is the smallest c such that the expected KL is at most c times the dependence, for every
    distribution of that length: c times its total correlation (tc), its dual total correlation (dtc), the smaller of
    the two (min), or their sum, which is the sum of I(X_i; X_-i) over the tokens (sum). The minimax sizes have the
    smallest c that any schedule with random positions can have.

    Sizes 'optimal' and 'square-root' are made for a loss curve: of a distribution (see `unmask expect`) or in a file. A
    curve file holds the loss with 0, 1, ... length-1 tokens visible, in nats: a JSON list, an object with the key
    "loss", or CSV with one number per line or columns n,loss. A gauge file holds length-1 positive numbers.

    With --target (`unmask steps` is another word for it) give what is known of the data: --tc, --dtc or both, a
    distribution, or a curve. From TC and DTC follow guarantees for every such distribution: by the paper's theorem, by
    its simplified complexity, and exactly, for the paper's sizes and for the minimax ones, the best there are. A
    distribution or curve also gives the fewest steps of each schedule on that very distribution.

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

    JSON: length, steps, size, mean_sizes (one per step), overhang (expected number of tokens after the i-th in its own
    batch, i = 1 ... length-1), guarantee {tc, dtc, min, sum}, sizes (one draw for --seed); for tc and dtc also
    coefficient (the paper's f) and theorem (the factor of its bound, null where that does not hold); for minimax sizes
    and universal also factor; with a distribution or curve also data and expected_kl, and with
    --estimate-curve its standard_error.
    With --target: length, target, tc, dtc, guaranteed (rows of size, theorem, simplified, exact; the first two are null
    for minimax sizes, and simplified for target 0), measured (rows of size, steps, expected_kl; empty without a
    distribution or curve, steps null where no number of steps is enough), recommendation; with a distribution or curve
    also data.
    """
    rng = np.random.default_rng(seed)
    if target is not None:
        if steps is not None or measure is not None:
            what = "{steps}" if steps is not None else "{gauge}"
            raise check.InputError("", f"With {{target}} there is no use for {what}", remedy="Leave it out.")
        return _fewest(target, size, tc, dtc, data, rng)
    for name, value in (("tc", tc), ("dtc", dtc)):
        if value is not None:
            raise check.InputError(name, "go with {target}", remedy="A plan of given steps holds for all data.")
    if steps is None:
        raise check.InputError("steps", "be given", remedy="Or give {target}, and the steps are found.")
    return _shown(steps, _one(size, measure), measure, data, seed, rng)


def _one(names: list[str] | None, measure: Path | None) -> str:
    """The one name of a size that a plan is made for."""
    if names is not None and len(names) > 1:
        raise check.InputError("size", "be one name here", found=check.shown(",".join(names)))
    name = names[0] if names else None
    if measure is not None:
        if name not in (None, _OWN):
            remedy = "Leave out one of the two."
            raise check.InputError("", f"With {{gauge}} the size is '{_OWN}', not '{name}'", remedy=remedy)
        return _OWN
    if name == _OWN:
        raise check.InputError(
            "",
            f"Size '{_OWN}' is made for a gauge",
            remedy="Give one with {gauge}, or take minimax-tc, minimax-dtc, minimax-min or minimax-sum.",
        )
    if name is None:
        raise check.InputError("size", "be given")
    return name


def _length(length: int | None) -> int:
    if length is None:
        raise check.InputError("length", "be given")
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
    check_memory(length * _BYTES, "length", "Take a smaller one.")
    with terminal(stderr=True).status("Computing the law of the sizes"), check.renamed("values", "gauge"):
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
        "\nExpected KL, for every distribution, is at most",
        facts(*promises, gap=1),
    ]
    if isinstance(schedule, size.Universal):
        shown.append(
            f"\nFactor {number(promise['factor'])}: the best guarantees that {counted(steps, 'step')} can give for TC, "
            "for DTC and for their sum, each on its own, hold all at once within this factor."
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
    return f"[dim]the paper's coefficient, whose theorem {says}[/dim]"


def _best(schedule: size.Blind) -> str:
    return f"[dim]the smallest factor that {counted(schedule.steps, 'step')} can have[/dim]"


def _fewest(
    target: float, names: list[str] | None, tc: float | None, dtc: float | None, data: Said, rng: np.random.Generator
) -> Report:
    known = data.read(rng=rng)
    if known is None:
        if names:
            remedy = "Leave it out."
            raise check.InputError("", "Without {distribution} or {curve} there is no use for {size}", remedy=remedy)
        if tc is None and dtc is None:
            ways = "{tc}, {dtc}, {distribution} with its options, or {curve}"
            raise check.InputError("", f"Say what is known of the data: {ways}")
        length = _length(data.length)
    else:
        if tc is not None or dtc is not None:
            what = "{distribution}" if data.curve is None else "{curve}"
            raise check.InputError(
                "",
                "A distribution has its own TC and DTC, and so has a curve",
                remedy=f"Leave out {{tc}} and {{dtc}}, or {what}.",
            )
        length = known.curve.length
        tc, dtc = known.curve.total_correlation, known.curve.dual_total_correlation
    with terminal(stderr=True).status("Finding what can be promised"):
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
