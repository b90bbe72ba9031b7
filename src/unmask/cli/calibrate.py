"""`unmask calibrate`: measure a model once, so that its best schedules can be computed."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from unmask import _check as check
from unmask import order, size
from unmask._atomic import locked
from unmask.calibration import Calibration
from unmask.cli import options
from unmask.cli import pairs as both
from unmask.cli.group import wants_json
from unmask.cli.output import progress, said
from unmask.cli.report import Column, Report, dim, facts, grid, plain, title, words
from unmask.engine import LOCAL, Engine
from unmask.schedule import Schedule
from unmask.words.calibrating import begin, following, usual
from unmask.words.models import Source
from unmask.words.outputs import check_place
from unmask.words.rules import RULE_WORDS, check_rule, inside_blocks
from unmask.words.schedules import USUAL_ORDERS, measurable
from unmask.words.sentences import abbreviated, bits, evaluated, number
from unmask.words.texts import Texts, about
from unmask.words.workers import Workers, working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models import Model
    from unmask.sequences import Sequences

_TABLE = (8, 16, 32, 64)


@options.command
@options.model
@options.texts(usual="6 windows or 32 rows at first, and twice as many each time you run the command again")
@click.option(
    "--output", type=options.WRITTEN, required=True, metavar="FILE", help="Save the calibration here, as JSON."
)
@click.option(
    "--orders", type=options.Listed(options.Named("order", (*USUAL_ORDERS, "left-to-right"), measurable)),
    default=",".join(USUAL_ORDERS), show_default=True, metavar="NAMES", help="Orders to measure.",
)  # fmt: skip
@click.option(
    "--rules", type=options.Listed(options.Named("rule", RULE_WORDS, check_rule)), metavar="NAMES",
    help="Rules to measure as well: all, or names such as confidence or confidence/threshold:0.9.",
)  # fmt: skip
@click.option(
    "--blocks", type=options.INTEGER, metavar="B",
    help="Measure orders inside blocks of B tokens, instead of orders of the whole text. Blocks are filled one by one.",
)  # fmt: skip
@options.length
@click.option(
    "--points", type=options.INTEGER, default=33, show_default=True, metavar="P",
    help="Measure random and spread orders at this many numbers of visible tokens. A larger value is finer but slower.",
)  # fmt: skip
@click.option(
    "--dependence", type=options.WRITTEN, metavar="FILE",
    help="Also measure how much revealing one position tells you about another, and save the result here, as JSON.",
)  # fmt: skip
@click.option(
    "--layout", metavar="HxW",
    help="With --dependence: the positions form a grid, such as 28x28; keep the value of every pair.",
)  # fmt: skip
@click.option(
    "--figure", type=options.WRITTEN, metavar="FILE", help="With --dependence: draw the result as .png, .svg or .pdf."
)
@options.workers
@options.seed
def calibrate(
    source: Source,
    texts: Texts,
    output: Path,
    orders: list[str],
    rules: list[str] | None,
    blocks: int | None,
    length: int | None,
    points: int,
    dependence: Path | None,
    layout: str | None,
    figure: Path | None,
    workers: Workers,
    seed: int,
) -> Report:
    """Measure a model once under several orders, to compute its best schedules later.

    The default model is 'builtin' here, but 'causal' in `unmask generate`. Measure the model that you will use.

    For each order, the command measures the loss with different numbers of tokens visible. For a comb, it does so
    whenever one more token of every segment is visible, and for 'left-to-right', after every token. For other orders,
    --points sets how many numbers of visible tokens it tries. 'left-to-right' takes one evaluation per token. In
    return, `unmask advise` has one more reference, the cost of revealing one token at a time in that order.

    The first result comes from 6 windows of a text or 32 rows of data, and takes about 20 seconds with 'builtin'. Each
    time you run the same command again, it uses twice as many texts and says so. To choose the number yourself, set
    --texts. The file is saved after every order. If the command is interrupted, run it again, and it continues from
    there.

    The cost of rules that look at predictions cannot be computed in advance. With --rules, the command runs them on the
    same texts, one schedule at a time, and `unmask advise` compares them with the measured orders. A rule can be
    'confidence', 'margin' or 'entropy', each of which is run with three thresholds and with even sizes in 4, 8, 16 and
    32 steps. It can also be 'entropy-bound', a published rule such as 'fast-dllm', or an order and a size, such as
    'confidence/threshold:0.9' or 'confidence/even:16'; for blocks of 32 tokens, write
    'blocks-32/confidence/threshold:0.9'. 'all' measures a small selection of these.

    For a model that fills a text block by block, --blocks 32 measures orders inside blocks of 32 tokens: whole-comb,
    spread, random and margin order in 2, 4, 8 and 16 steps per block, and left-to-right order with one token per step.
    The command runs each of them on the texts, with as many evaluations as sampling would take. `unmask advise` then
    chooses the order and the number of steps per block. To measure orders of the whole text as well, use --rules
    blocks-32 instead. Blocks are counted from the first token to fill. For a block-causal model, they are counted from
    the beginning of the text, like the model's own blocks ('whole-blocks-32').

    Rows of --data may differ in length and in what there is to fill: the answer to a prompt, or all of a text except
    what is given. The command then measures losses at different shares of revealed tokens, and reports costs in bits
    per filled token. It skips rows that are too long for the model, or for --length, and says how many; it never cuts a
    row.

    With --dependence, the same texts also show how much revealing one position lowers the loss at another, on average
    over random sets of visible positions. These sets range from no positions to all but two. For text, the values are
    averaged by distance; with --layout, there is one value for every pair. From these values, `unmask advise
    --dependence` learns an order that puts dependent positions in different steps.

    \b
    Examples:
      unmask calibrate --text held-out.txt --output calibration.json
      unmask calibrate --model my-run --text held-out.txt --output c.json --texts 256
      unmask calibrate --text held-out.txt --output c.json --orders random,comb-16,left-to-right --json
      unmask calibrate --text held-out.txt --output c.json --rules confidence,entropy-bound
      unmask calibrate --text held-out.txt --output c.json --texts 4096 --engine ray
      unmask calibrate --model hf:my-model --data rows.jsonl --output c.json --texts 256
      unmask calibrate --model causal --text held-out.txt --output c.json
      unmask calibrate --model hf:my-model --data rows.jsonl --output c.json --blocks 32
      unmask calibrate --text held-out.txt --output c.json --dependence d.json --figure d.svg
    Then:
      unmask advise --calibration calibration.json --target 0.05

    In a model that is causal in the schedule, such as 'causal', a prediction depends on the steps in which tokens were
    revealed, so an order alone does not determine the losses. For such a model, the command measures planned schedules
    instead, each exactly and in one evaluation per text, on 32 texts at first. The default set ('planned') has whole
    combs with even sizes in 4, 8, 16, … steps, left-to-right order with one token per step, and random order in 16 and
    64 steps and with one token per step. Choose others, such as 'whole-comb/cosine:24', with --rules.

    JSON: model, length (tokens to fill in the longest text), tokens (the same, on average), texts, too_long (rows
    skipped), seconds, orders, measured (orders and rules that are new in the file), passes (how many evaluations of
    each text these took), rules (rows of {name, evaluations (to write a text, on average), passes (to measure a text),
    bits_per_token, error (its standard error)}), entropy, tc and dtc of the model (in random order, each with nats per
    sequence and bits_per_token; null without that order, or if texts differ in length), rows of {steps, order, sizes,
    bits_per_token, error}, best orders first, and dependence (null unless asked for): texts, length, shares (of
    positions that were visible), distances (rows of {distance, nats, error}, the nearest first) and pairs (rows of {of,
    told_by, nats, error}, the largest values first). Values are means over the shares. Without --layout, pairs is null;
    with it, distances is null.
    """
    check.integer("points", points, least=1)
    if blocks is not None:
        inside_blocks(blocks)
    check_place("output", output)
    sides = both.check_pairs(dependence, layout, figure)

    texts.required()
    engine = workers.on(source.place)
    model = source.load_for(length, whole=texts.data is not None)
    strict = click.get_current_context().get_parameter_source("orders") is not ParameterSource.DEFAULT
    orders, rules = usual(model, orders, rules or [], said=strict, blocks=blocks)
    begun = begin(output, model, texts, seed, orders, rules, strict=strict)
    said("" if wants_json() else begun.note)
    taken, kept = begun.taken, begun.kept
    wanted, schedules, rows = begun.orders, begun.rules, taken.sequences
    began = replace(kept, wanted=tuple(dict.fromkeys([*kept.wanted, *wanted, *schedules]))) if schedules else kept
    both.check_measurable_pairs(dependence, model, sides, rows)
    started = time.perf_counter()
    try:
        with check.blamed("model", "be usable", source.name, parts=False), working(engine):
            found = measured(model, wanted, rows, began, seed=seed, points=points, engine=engine, save=begun.save)
            found = measured_rules(model, schedules, rows, found, seed=seed, engine=engine, save=begun.save)
            pairs = None if dependence is None else both.measured_pairs(model, rows, sides, seed=seed, engine=engine)
    except KeyboardInterrupt:
        left = "was not written"
        if begun.place.exists():
            left = "has the measurements that were finished. Run the same command again to continue"
        raise click.Abort(f"Stopped: '{begun.place}' {left}.") from None
    if begun.place != output:
        with locked(output, "output", "written", wait=True):
            found.save(output)  # where a link leads, and complete whatever another process did to the part
        begun.place.unlink(missing_ok=True)
    if pairs is not None and dependence is not None:
        pairs.save(dependence)
        if figure is not None:
            both.draw_pairs(pairs, figure)
    seconds = time.perf_counter() - started
    new = [name for name in found.losses if name not in kept.losses]
    new += [name for name in found.rules if name not in kept.rules]
    passes = _passes(model, found, rows, points)
    record: dict[str, Any] = {
        "model": source.name,
        "length": found.length,
        "tokens": found.tokens,
        "texts": found.texts,
        "too_long": taken.long,
        "seconds": round(seconds, 1),
        "orders": list(found.losses),
        "measured": new,
        "passes": sum(passes[name] for name in new),
        "rules": _rules(found, passes),
        **_facts(found),
        "rows": _rows(found),
        "dependence": None if pairs is None else both.pairs_record(pairs),
    }
    written = [f"{output}   ({seconds:.0f} s)", dependence, figure]
    after = following(found, output, source.words)
    return Report(record, _shown(record, about(taken), taken.note), written=written, next=after)


def measured(
    model: "Model",
    wanted: dict[str, order.BlindOrder],
    tokens: "Sequences",
    kept: Calibration,
    *,
    seed: int,
    points: int = 33,
    engine: Engine = LOCAL,
    save: Callable[[Calibration], Calibration] = lambda found: found,
) -> Calibration:
    """The calibration with all of `wanted`, measured with a bar for each; what `kept` has is not measured again."""
    if not wanted:
        return kept
    from unmask.calibration.series import measure_orders

    with progress() as bar:
        tasks = {
            name: bar.add_task(name, total=_each(kind, tokens, points) * len(tokens))
            for name, kind in wanted.items()
            if name not in kept.losses
        }
        return measure_orders(
            model.predictor,
            wanted,
            tokens,
            kept,
            rng=seed,
            points=points,
            engine=engine,
            save=save,
            progress=lambda name, done: bar.advance(tasks[name], done),
        )


def _each(kind: order.BlindOrder, tokens: "Sequences", points: int) -> int:
    """How many evaluations of each text an order takes."""
    from unmask.calibration.series import evaluations

    counts = tokens.counts
    # Where rows differ, so do the teeth of a comb: it is measured at as many places as other orders.
    same = int(counts.min()) == int(counts.max()) or not isinstance(kind, order.Comb)
    return evaluations(kind if same else order.Random(), int(counts.max()), points)


def _passes(model: "Model", found: Calibration, tokens: "Sequences", points: int) -> dict[str, float]:
    """How many evaluations of a text it takes to measure each order and rule, on average."""
    from unmask.evaluate.likelihood import at_once

    orders = {name: float(_each(losses.order, tokens, points)) for name, losses in found.losses.items()}
    rules = found.rules.items()
    return orders | {name: 1.0 if at_once(model.predictor, each.schedule) else each.spent for name, each in rules}


def measured_rules(
    model: "Model",
    schedules: dict[str, Schedule],
    tokens: "Sequences",
    kept: Calibration,
    *,
    seed: int,
    engine: Engine = LOCAL,
    save: Callable[[Calibration], Calibration] = lambda found: found,
) -> Calibration:
    """The calibration with all of these rules, measured with a bar for each; what `kept` has is not measured again."""
    if not schedules:
        return kept
    from unmask.calibration.series import measure_rules
    from unmask.evaluate.likelihood import at_once

    def each(schedule: Schedule) -> int:
        # Where predictions decide the number of steps, the length is as many as it can be.
        return 1 if at_once(model.predictor, schedule) else _most_steps(schedule, int(tokens.counts.max()))

    with progress() as bar:
        tasks = {
            name: bar.add_task(name, total=len(tokens) * each(schedule), visible=name not in kept.rules)
            for name, schedule in schedules.items()
        }
        return measure_rules(
            model.predictor,
            schedules,
            tokens,
            kept,
            rng=seed,
            engine=engine,
            save=save,
            progress=lambda name, done: bar.advance(tasks[name], done),
        )


def _most_steps(schedule: Schedule, length: int) -> int:
    blocks = -(-length // schedule.order.length) if isinstance(schedule.order, order.Blocks) else 1
    return min(length, schedule.size.steps * blocks) if isinstance(schedule.size, size.Blind) else length


def _rows(found: Calibration) -> list[dict[str, Any]]:
    return [
        {
            "steps": steps,
            "order": name,
            "sizes": plan.sizes.tolist(),
            "bits_per_token": bits(plan.nll, found.tokens),
            "error": bits(plan.error, found.tokens),
        }
        for steps in _TABLE
        if steps <= found.length
        for name, plan in found.best(steps)
    ]


def _rules(found: Calibration, passes: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "evaluations": rule.spent,
            "passes": passes[name],
            "bits_per_token": bits(rule.cost, found.tokens),
            "error": bits(rule.error, found.tokens),
        }
        for name, rule in found.rules.items()
    ]


def _facts(found: Calibration) -> dict[str, dict[str, float] | None]:
    curve = found.curve
    if curve is None:
        return {"entropy": None, "tc": None, "dtc": None}
    values = {"entropy": curve.entropy, "tc": curve.total_correlation, "dtc": curve.dual_total_correlation}
    return {key: {"nats": value, "bits_per_token": bits(value, found.length)} for key, value in values.items()}


def _shown(record: dict[str, Any], texts: str, note: str) -> list[Any]:
    known = [*record["orders"], *(row["name"] for row in record["rules"])]
    shown: list[Any] = [plain(f"Already measured: {name}") for name in known if not record["measured"]]
    shown.append(title(f"The model on {texts}\n"))
    if record["entropy"] is not None:
        labels = {"entropy": "entropy", "tc": "total correlation", "dtc": "dual total correlation"}
        lines = [
            (f"  {label}", f"{number(record[key]['nats'])} nats", f"{record[key]['bits_per_token']:.3f} bits per token")
            for key, label in labels.items()
        ]
        shown += [facts(*lines), dim("  one token at a time in random order, including the model's own error\n")]
    shown += [plain(f"{note}\n")] if note else []
    best = [row for steps in _TABLE for row in [row for row in record["rows"] if row["steps"] == steps][:2]]
    columns = (
        Column("steps", lambda row: str(row["steps"])),
        words("order"),
        Column("bits/token", lambda row: f"{row['bits_per_token']:.3f}"),
        Column("sizes", lambda row: abbreviated(row["sizes"], 8), left=True),
    )
    if best:
        shown += [title("Best schedules of the measured orders"), grid(columns, best)]
    if record["rules"]:
        rules = (
            words("rule", "name"),
            Column("evaluations", lambda row: f"{row['evaluations']:.1f}"),
            Column("bits/token", lambda row: f"{row['bits_per_token']:.3f}"),
        )
        shown += [title("Measured rules" if best else "Measured schedules"), grid(rules, record["rules"])]
    if record["dependence"] is not None:
        shown += both.shown_pairs(record["dependence"])
    if record["measured"]:
        shown.append(dim(_spent(record)))
    return shown


def _spent(record: dict[str, Any]) -> str:
    """How many evaluations it took."""
    rules = [row for row in record["rules"] if row["name"] in record["measured"]]
    each = rules and all(row["passes"] == 1 for row in rules) and len(rules) == len(record["measured"])
    return f"Measured with {evaluated(record['passes'])} of each text{', one for each schedule' if each else ''}."
