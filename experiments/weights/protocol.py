"""The cells of the table: rules at several budgets, each scored exactly on the same texts with the same seeds.

DUEL (Turok, De Sa and Kuleshov, arXiv 2603.01367) measures a sampler by the exact likelihood of texts under it, at
1,024, 512, 256 and 128 evaluations of 1,024 tokens: 1, 2, 4 and 8 tokens a step. So a budget is a number of tokens a
step here, and a text of another length gets as many evaluations as that makes. The rules:

    margin in blocks     largest gap between the two best tokens first, in one block after the other: DUEL's pick
    threshold            in the same blocks, all tokens whose probability is above a threshold
    entropy bound        in all of the text, tokens whose entropies together stay below a bound
    random               random order
    comb                 segments in step
    advised              what `unmask.advise` says after a calibration on a text of the user's own

The second and the third decide by themselves how many evaluations they take; they are run at four settings each.
"""

import platform
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, final

import torch
from experiments.weights.record import MARGIN, Key, Record, Scored
from experiments.weights.texts import Texts

from unmask import Calibration, InputError, Schedule, __version__, advise, models, order, replay, size
from unmask.calibration import Advice, blank, measure_orders
from unmask.sample import seeds_of

RULES = (MARGIN, "threshold", "entropy bound", "random", "comb", "advised")
TOKENS_A_STEP = (1, 2, 4, 8)
THRESHOLDS = (0.9, 0.7, 0.5, 0.3)
BOUNDS = (0.1, 0.5, 2.0, 8.0)  # nats


@final
@dataclass(frozen=True)
class Run:
    """What is to be measured, apart from the texts.

    Attributes:
        length: Tokens of a window, or the most of a row.
        evaluations: Budgets, as evaluations of a text of that length.
        block: Tokens of a block.
        batch: Texts at once.
        seed: Of all that is random.
        rules: Which of `RULES`.
    """

    length: int
    evaluations: tuple[int, ...]
    block: int
    batch: int
    seed: int
    rules: tuple[str, ...]


@final
@dataclass(frozen=True)
class Cell:
    """A rule at one setting.

    Attributes:
        rule: What it is called.
        setting: Evaluations, or the number of a rule that decides them by itself.
        words: What it is in words.
        schedule: The schedule for a text of so many tokens.
        advice: What was advised for a text of so many tokens, in a word; None where nothing was.
    """

    rule: str
    setting: str
    words: str
    schedule: Callable[[int], Schedule]
    advice: Callable[[int], str] | None = None

    def named(self, counts: Collection[int]) -> str:
        """The words for what texts of these lengths get: those of one schedule for each length and setting."""
        if self.advice is None:
            return self.words
        longest = sorted(set(counts), reverse=True)
        parts = [(name, next(lengths)) for name, lengths in groupby(longest, key=self.advice)]
        said = [name if count == longest[0] else f"{name} up to {count} tokens" for name, count in parts]
        return f"{self.words}: {', '.join(said)}"


def cells(run: Run, calibration: Calibration | None) -> list[Cell]:
    """All rules of a run at all their settings."""
    blocks = {
        MARGIN: order.Blocks(order.Margin(), run.block),
        "threshold": order.Blocks(order.Confidence(), run.block),
    }
    made: list[Cell] = []
    for rule in run.rules:
        if rule == "threshold":
            words = f"confidence above {{}}, blocks of {run.block}"
            fixed = [(f"{at:g}", Schedule(size.Threshold(at), blocks[rule])) for at in THRESHOLDS]
            made += [Cell(rule, at, words.format(at), lambda count, s=each: s) for at, each in fixed]
        elif rule == "entropy bound":
            fixed = [(f"{at:g}", Schedule(size.EntropyBound(at), order.Entropy())) for at in BOUNDS]
            made += [Cell(rule, at, f"entropy bound of {at}", lambda count, s=each: s) for at, each in fixed]
        elif rule == "advised":
            made += _advised(run, calibration)
        else:
            made += [_budgeted(run, rule, spent, blocks[MARGIN]) for spent in run.evaluations]
    return made


def _budgeted(run: Run, rule: str, spent: int, blocks: order.Blocks) -> Cell:
    if rule == MARGIN:
        steps = max(1, round(run.block * spent / run.length))
        schedule = Schedule(size.Even(steps), blocks)
        return Cell(rule, f"{spent}", f"margin, blocks of {run.block}", lambda count: schedule)
    kind = {"random": order.Random(), "comb": order.Comb()}[rule]
    words = {"random": "random, even", "comb": "comb, even"}[rule]
    return Cell(rule, f"{spent}", words, lambda count: Schedule(size.Even(steps_of(run, spent, count)), kind))


def _advised(run: Run, calibration: Calibration | None) -> list[Cell]:
    assert calibration is not None
    known: dict[int, Advice] = {}  # by the number of steps: advice takes seconds on long texts

    def advice(spent: int, count: int) -> Advice:
        steps = min(steps_of(run, spent, count), calibration.length)
        if steps not in known:
            known[steps] = advise(calibration, steps=steps)
        return known[steps]

    def cell(spent: int) -> Cell:
        return Cell(
            "advised", f"{spent}", "advised",
            lambda count: advice(spent, count).schedule, lambda count: advice(spent, count).order,
        )  # fmt: skip

    made: list[Cell] = []
    for spent in run.evaluations:
        try:
            advice(spent, run.length)
        except InputError as error:  # nothing that was measured takes so few steps, say
            say(f"no advice for {spent} evaluations: {error}")
            continue
        made.append(cell(spent))
    return made


def steps_of(run: Run, spent: int, count: int) -> int:
    """Steps of a text with so many tokens, when one of the whole length takes `spent` of them."""
    return max(1, -(-count * spent // run.length))


def calibrate(model: models.Model, texts: Texts, run: Run, place: Path) -> Calibration:
    """The losses of the model under the orders among which advice is to choose; what the file has is kept.

    Left to right and the combs of the budgets, with which one tooth is one step; random and spread orders.
    """
    kept = blank(model.fingerprint, texts.sequences, run.seed)
    if place.exists():
        found = Calibration.load(place)
        if (found.model, found.source) != (kept.model, kept.source):
            raise InputError(
                "output", "be a folder of the same measurement",
                detail=f"but '{place}' was made with another model, text, seed or number of texts",
                remedy="Choose another {output}.",
            )  # fmt: skip
        kept = found
    segments = sorted({max(1, round(run.length / spent)) for spent in run.evaluations} - {1})
    orders: dict[str, order.BlindOrder] = {"random": order.Random(), "spread": order.Spread()}
    orders |= {f"comb-{each}": order.Comb(each) for each in segments}
    orders["left-to-right"] = order.LeftToRight()
    new, began = [name for name in orders if name not in kept.losses], time.perf_counter()

    def saved(found: Calibration) -> Calibration:
        found.save(place)
        say(f"calibration: {len(found.losses)} of {len(orders)} orders, {time.perf_counter() - began:.0f} s")
        return Calibration.load(place)

    say(f"calibration: {len(texts)} texts, {', '.join(new) or 'all orders known'}")
    return measure_orders(model.predictor, orders, texts.sequences, kept, rng=run.seed, batch=run.batch, save=saved)


def measure(model: models.Model, cell: Cell, texts: Texts, run: Run, record: Record) -> None:
    """Score the texts of a cell that are not yet known, a batch at a time."""
    counts, seeds = texts.sequences.counts.tolist(), seeds_of(run.seed, len(texts))
    key = Key(texts.name, cell.rule, cell.setting, cell.named(counts))
    groups: dict[int, list[int]] = {}
    schedules: list[Schedule] = []
    # Texts of one length share a batch, and all texts with the same schedule a group.
    for text in sorted(record.missing(key, len(texts)), key=lambda text: counts[text]):
        schedule = cell.schedule(counts[text])
        if schedule not in schedules:
            schedules.append(schedule)
        groups.setdefault(schedules.index(schedule), []).append(text)
    done = len(texts) - sum(map(len, groups.values()))
    for number, group in groups.items():
        for some in (group[first : first + run.batch] for first in range(0, len(group), run.batch)):
            began = time.perf_counter()
            found = replay(
                model.predictor, schedules[number], texts.sequences[some],
                rng=[seeds[text] for text in some], batch=run.batch,
            )  # fmt: skip
            each = (time.perf_counter() - began) / len(some)
            lines = zip(some, found.nll.tolist(), found.evaluations.tolist(), strict=True)
            record.add(
                Scored(*key, text, counts[text], texts.words[text], nats, spent, each) for text, nats, spent in lines
            )
            done += len(some)
            say(f"{texts.name}, {key.schedule}, {cell.setting}: {done} of {len(texts)} texts, {each:.3g} s each")


def task(model: models.Model, run: Run, texts: Mapping[str, Texts], whole: bool) -> dict[str, Any]:
    """What is measured, so that nothing else is added to it."""
    return {
        "dtype": str(next(model.module.parameters()).dtype).removeprefix("torch."),
        "model": model.fingerprint,
        "length": run.length,
        "block": run.block,
        "seed": run.seed,
        "version": __version__,
        "rows": whole,
        "data": {name: blank(model.fingerprint, each.sequences, run.seed).source for name, each in texts.items()},
    }


def versions() -> str:
    """What this ran with."""
    found = [f"unmask {__version__}", f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    if (library := sys.modules.get("transformers")) is not None:
        found.append(f"transformers {library.__version__}")
    return ", ".join(found)


def say(words: str) -> None:
    """A line on how far it is."""
    print(words, file=sys.stderr, flush=True)
