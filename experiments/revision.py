"""Is it better to take more steps, or to correct? Exactly on small laws, and on the built-in model.

    python experiments/revision.py exact                 experiments/results/revision-exact.csv
    python experiments/revision.py model TEXT            experiments/results/revision.csv, a row at a time: run again
    python experiments/revision.py                       the figure, from the first

*Exact*: five binary tokens of a sticky chain and of a random law, a perfect predictor and one whose logits are divided
by 1.3, all schedules by `revised_law`: KL and total variation against evaluations.

*Model*: the built-in model that looks both ways writes texts of 128 characters in 16 to 128 evaluations. Where a
schedule has an exact likelihood, windows of the test split (see corpus.py) are replayed. All texts that were written
are judged by the causal built-in model left to right, one character at a time, beside windows of real text: bits per
character under the judge, the entropy of single characters, and the share of distinct words and of distinct runs of
four words among all; likelihood alone would reward dull text. Evaluations are those that were really made.
"""

import math
import sys
import time
from pathlib import Path

import common
import corpus
import numpy as np
import torch

from unmask import models, order, plot, revision, size
from unmask.distribution import Markov, Table
from unmask.evaluate import revised_law
from unmask.evaluate.likelihood import replay
from unmask.predict import ExactPredictor, Tempered
from unmask.sample import Sampler
from unmask.schedule import Schedule

LENGTH = 128  # half of what the model takes, to be done on a CPU
TEXTS = 12  # written for each row
WINDOWS = 8  # replayed for each row
BUDGETS = (16, 32, 64, 128)
EXACT = ("law", "temperature", "rule", "steps", "evaluations", "kl", "total_variation")
MODEL = (
    "rule", "budget", "evaluations", "taken", "bits", "bits_error", "judged", "judged_error", "entropy", "words",
    "runs", "seconds",
)  # fmt: skip

RANDOM, SURE = order.Random(), order.Confidence()


def small_schedules(length: int):
    """Name, steps and schedule of everything that is compared on small laws."""
    for steps in range(1, length + 1):
        even = size.Even(steps)
        yield "random", steps, Schedule(even, RANDOM)
        yield "confidence", steps, Schedule(even, SURE)
        yield "likeliest", steps, Schedule(even, SURE, revision.Likeliest())
        yield "planner", steps, Schedule(even, SURE, revision.Planner(1.0))
        yield "rescale 0.5", steps, Schedule(even, RANDOM, revision.Rescale(0.5))
        yield "least sure", steps, Schedule(even, RANDOM, revision.LeastSure())
        if steps > 1:
            yield "verify 0.5", steps, Schedule(even, RANDOM, revision.Verify(0.5))
    for steps in (1, 2, 3):
        for more in (1, 2, 4):
            yield "gibbs at the end", steps, Schedule(size.Even(steps), RANDOM, revision.Gibbs(more, finally_only=True))
        if steps > 1:
            for more in (1, 2, 4):
                yield "loop", steps, Schedule(size.Even(steps), RANDOM, revision.Loop(more, 0.5, 0.5))


def exact():
    laws = {
        "chain": Table.of(Markov.sticky(2, 0.85, 5)).probabilities,
        "random law": np.random.default_rng(0).dirichlet(np.full(32, 0.3)).reshape((2,) * 5),
    }
    rows = []
    for law, joint in laws.items():
        for temperature in (1.0, 1.3):
            perfect = ExactPredictor(Table(joint))
            predictor = perfect if temperature == 1 else Tempered(perfect, temperature)
            for rule, steps, schedule in small_schedules(5):
                found = revised_law(predictor, schedule, joint)
                rows.append(
                    dict(zip(EXACT, (law, temperature, rule, steps, found.evaluations, found.kl, found.total_variation),
                             strict=True))
                )  # fmt: skip
            print(law, temperature, flush=True)
    common.write(common.RESULTS / "revision-exact.csv", EXACT, rows)


def rules(budget: int):
    """Name and schedule of everything that is compared on the built-in model, for about so many evaluations."""
    comb = order.Comb()
    half = budget // 2
    yield "comb", Schedule(size.Even(budget), comb)
    yield "comb, cap 0.1", Schedule(size.Even(budget), comb, revision.Cap(0.1))
    yield "comb, least sure", Schedule(size.Even(budget), comb, revision.LeastSure())
    yield "comb, loop", Schedule(size.Even(half), comb, revision.Loop(budget - half, 0.05, 0.9))
    yield "comb, edit 0.9", Schedule(size.Even(budget), comb, revision.Edit(0.9))
    yield "comb, verify 0.1 seen", Schedule(size.Even(budget), comb, revision.Verify(0.1, hidden=False))
    yield (
        "comb, gibbs",
        Schedule(size.Even(half), comb, revision.Gibbs((budget - half) * 8, together=8, finally_only=True)),
    )
    yield "confidence", Schedule(size.Even(budget), SURE)
    yield "confidence, likeliest", Schedule(size.Even(budget), SURE, revision.Likeliest())
    yield "confidence, planner", Schedule(size.Even(budget), SURE, revision.Planner(1.0))
    yield "confidence, spaced 8", Schedule(size.Even(budget), order.Spaced(SURE, 8))


def judged(judge, tokens: torch.Tensor) -> np.ndarray:
    """Bits per character of each text, left to right and one by one, in one pass."""
    one_by_one = Schedule(size.Even(LENGTH), order.LeftToRight())
    return replay(judge.predictor, one_by_one, tokens, rng=0).nll.numpy() / LENGTH / math.log(2)


def diversity(tokens: torch.Tensor) -> tuple[float, float, float]:
    """Entropy of single characters in bits; distinct words and distinct runs of four words, as shares of all."""
    share = np.bincount(tokens.flatten().numpy(), minlength=corpus.ALPHABET.vocab) / tokens.numel()
    entropy = float(-(share[share > 0] * np.log2(share[share > 0])).sum())
    texts = [corpus.ALPHABET.decode(row).split() for row in tokens.tolist()]
    words = [word for text in texts for word in text]
    runs = [tuple(text[at : at + 4]) for text in texts for at in range(len(text) - 3)]
    return entropy, len(set(words)) / max(1, len(words)), len(set(runs)) / max(1, len(runs))


def error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def model(text: Path):
    path = common.RESULTS / "revision.csv"
    rows = common.read(path.name) if path.exists() else []
    done = {(row["rule"], row["budget"]) for row in rows}
    _, _, test = corpus.splits(text)
    windows = torch.from_numpy(test.even_windows(LENGTH, WINDOWS)).long()
    writer, judge = models.load("builtin"), models.load("causal")
    if ("real text", "0") not in done:
        many = torch.from_numpy(test.even_windows(LENGTH, 512)).long()
        bits = judged(judge, many)
        row = ("real text", 0, 0, 0, "", "", float(bits.mean()), error(bits), *diversity(many[:TEXTS]), 0.0)
        rows.append(dict(zip(MODEL, row, strict=True)))
    for budget in BUDGETS:
        for rule, schedule in rules(budget):
            if (rule, str(budget)) in done:
                continue
            begin = time.monotonic()
            trace = Sampler(writer.predictor, schedule).run((TEXTS, LENGTH), rng=list(range(TEXTS)))
            bits = judged(judge, trace.tokens)
            cost = ("", "")
            if schedule.revision is None:
                found = replay(writer.predictor, schedule, windows, rng=list(range(WINDOWS)), batch=WINDOWS)
                each = found.nll.numpy() / LENGTH / math.log(2)
                cost = (float(each.mean()), error(each))
            taken = 0 if trace.versions is None else (trace.versions.taken + trace.versions.rewritten) / TEXTS
            seconds = time.monotonic() - begin
            row = (
                rule, budget, float(trace.evaluations.mean()), float(taken), *cost, float(bits.mean()), error(bits),
                *diversity(trace.tokens), seconds,
            )  # fmt: skip
            rows.append(dict(zip(MODEL, row, strict=True)))
            common.write(path, MODEL, rows)
            print(*row[:8], f"{seconds:.0f} s", flush=True)


LOOKS: dict[str, tuple[str, str]] = {
    "random": ("#D55E00", "o-"), "gibbs at the end": ("#009E73", "s"), "rescale 0.5": ("#0072B2", "^--"),
    "loop": ("#56B4E9", "v"), "least sure": ("#E69F00", "x--"), "verify 0.5": ("#AA3377", "D"),
    "likeliest": ("#777777", "+--"), "planner": ("#000000", "*--"),
}  # fmt: skip


def figure():
    """KL against evaluations: the chain, with a perfect predictor and with one that is too flat."""
    rows = common.read("revision-exact.csv")
    paths, _ = common.places("revision")
    title = "Five tokens of a chain: KL to the data against evaluations"
    with plot.sheet(2, (9.6, 4.6), paths, title=title, legend_columns=4, narrow=common.narrow(paths)) as axes:
        for axis, temperature, name in zip(
            axes, ("1", "1.3"), ("perfect predictor", "logits divided by 1.3"), strict=True
        ):
            for rule, (colour, mark) in LOOKS.items():
                found = [r for r in rows if (r["law"], r["temperature"], r["rule"]) == ("chain", temperature, rule)]
                # One by one a perfect predictor makes no error, which a logarithmic axis cannot show.
                points = [(float(r["evaluations"]), max(float(r["kl"]), 1e-4)) for r in found]
                axis.plot(*zip(*points, strict=True), mark, color=colour, label=rule, ms=5, lw=1.2)
            axis.set_yscale("log")
            axis.set_xlabel(f"evaluations of a text, {name}")
            axis.set_xlim(0.5, 12)
        axes[0].set_ylabel("nats")


def main():
    match sys.argv[1:]:
        case ["exact"]:
            exact()
        case ["model", text]:
            model(Path(text))
        case _:
            figure()


if __name__ == "__main__":
    main()
