"""What every rule costs when predictions are perfect: Markov chains fitted to text8, and no model.

    python -m experiments.atlas.oracle [TEXT] [--output FOLDER]

The chain is fitted to the training characters of text8, every transition counted once more than it was seen, so that
nothing is impossible. `TEXT` is text8 or its beginning, as plain text or `.xz`; without it the committed counts are
used, and the run needs no data. All texts have 128 characters. Three numbers are reported for every rule:

    bits       KL from the chain to the sampler, in bits per character: what is lost by drawing tokens together
    tv_rate    the error rate: Σ_v w_v TV(q(·|v), P(·|v)), where q(·|v) is how the sampler's texts go on after the
               character v, and w_v how often it occurs in them; with the character before it given, a written
               character can be matched with one of the chain but for this share
    kl_rate    Σ_v w_v KL(q(·|v) ‖ P(·|v)), in nats

The two rates are those of "Is your diffusion sampler actually correct?" (2026, arXiv 2602.19619), where they are
measured on generated texts; lengths and numbers of texts are our own.

For rules that do not look at predictions all three are exact (`chains.py` says how): combs and spread orders are
averaged over all of their shifts. In random order the cost is that of `expected_kl`, and the rates are means over 32
orders that are drawn.

Rules that look at predictions are replayed on texts drawn from the chain, and cost what that is above the true
log-likelihood. Their rates are counted in texts that they write; so are those of the chain's own texts (`chain`), for
comparison, since counts of finitely many texts are never exact. To a perfect predictor all positions are alike at
first. Such ties go to the left, so that a first step takes a run of neighbours; `ties scattered` breaks them at random.

A chain of second order, where a character depends on the two before it, is replayed for a few rules. Its perfect
predictor (`SecondOrder`) goes through the text forwards and backwards.
"""

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments import common
from experiments.atlas.chains import (
    Bridges,
    Floats,
    Integers,
    Scattered,
    SecondOrder,
    counted,
    excess,
    first_order,
    neighbours,
    pair_law,
    powers,
    rates,
    steps_of,
)

from unmask import evaluate, gauge, order, plot, size
from unmask.distribution import Markov
from unmask.evaluate.exact import Estimate
from unmask.predict import MaskPredictor
from unmask.sample import Sampler
from unmask.schedule import Schedule

LENGTH = 128
STEPS = (4, 8, 16, 32, 64)
TEXTS, WRITTEN, ORDERS, SECOND = 256, 512, 32, 64  # replayed, written, random orders, replayed of second order
COUNTS = common.RESULTS / "atlas-oracle-counts.npz"
FIELDS = ("chain", "order", "size", "evaluations", "bits", "error", "exact", "tv_rate", "kl_rate", "rates")

SIZES: dict[str, Callable[[int], size.Blind]] = {
    "even": size.Even,
    "cosine": size.Cosine,
    "tc": size.TC,
    "dtc": size.DTC,
    "minimax-min": lambda steps: size.Minimax(steps, gauge.both),
}
REACTIVE: dict[str, Callable[[int], Schedule]] = {
    "confidence": lambda steps: Schedule(size.Even(steps), order.Confidence()),
    "margin": lambda steps: Schedule(size.Even(steps), order.Margin()),
    "entropy": lambda steps: Schedule(size.Even(steps), order.Entropy()),
    "margin, blocks of 32": lambda steps: Schedule(size.Even(steps * 32 // LENGTH), order.Blocks(order.Margin(), 32)),
    "margin, 8 apart": lambda steps: Schedule(size.Even(steps), order.Spaced(order.Margin(), 8)),
}
# Rules that choose their own number of steps: order and size -> schedule.
FREE: dict[tuple[str, str], Schedule] = {
    **{("confidence", f"threshold {t:g}"): Schedule(size.Threshold(t), order.Confidence()) for t in (0.9, 0.5, 0.3)},
    **{("entropy", f"entropy-bound {b:g}"): Schedule(size.EntropyBound(b), order.Entropy()) for b in (0.5, 2, 8, 32)},
    **{("confidence", f"factor {f:g}"): Schedule(size.Factor(f), order.Confidence()) for f in (1, 4, 16)},
    ("confidence, 8 apart", "threshold 0.3"): Schedule(size.Threshold(0.3), order.Spaced(order.Confidence(), 8)),
    ("entropy, 8 apart", "entropy-bound 32"): Schedule(size.EntropyBound(32), order.Spaced(order.Entropy(), 8)),
}


@dataclass(frozen=True)
class Blind:
    """Orders that are drawn before anything is predicted, with sizes.

    Attributes:
        order, size: Their names.
        steps: Shape `(count, length)`: the step of each position, for every order that may be drawn, all as likely.
        kl: The exact expected KL in nats; `None` if it is the mean over these orders.
    """

    order: str
    size: str
    steps: Integers
    kl: float | None = None


def doubling(steps: int) -> Integers:
    """Sizes of bisection: each step takes as many as are known, so one of every stretch."""
    last = LENGTH >> np.arange(1, steps)
    return np.concatenate([[LENGTH - last.sum()], last[::-1]])


def blind(chain: Markov) -> Iterator[Blind]:
    """Every rule that does not look at predictions."""
    everything, curve, rng = np.arange(LENGTH), chain.curve(), np.random.default_rng(0)
    spread = [(order.bit_reversal(LENGTH) + shift) % LENGTH for shift in range(LENGTH)]
    sizes = SIZES | {"optimal": lambda steps: size.Optimal(steps, curve)}
    for steps in STEPS:
        for name, family in sizes.items():
            counts = family(steps).draw(LENGTH, rng=rng, count=ORDERS)
            drawn = np.stack([steps_of(rng.permutation(LENGTH), each) for each in counts])
            yield Blind("random", name, drawn, evaluate.expected_kl(family(steps), curve))
        even = size.Even(steps).sizes(LENGTH)
        combs = [order.Comb(shift=s).arrange(everything, length=LENGTH, steps=steps, rng=0) for s in range(steps)]
        yield Blind("comb", "even", np.stack([steps_of(each, even) for each in combs]))
        yield Blind("spread", "even", np.stack([steps_of(each, even) for each in spread]))
        if 2 ** (steps - 1) <= LENGTH:
            yield Blind("spread", "doubling", np.stack([steps_of(each, doubling(steps)) for each in spread]))
        for name, fixed in (("halton", order.Halton()), ("left-to-right", order.LeftToRight())):
            walk = fixed.arrange(everything, length=LENGTH, steps=steps, rng=0)
            yield Blind(name, "even", steps_of(walk, even)[None])
    walk = order.Dilated().arrange(everything, length=LENGTH, steps=None, rng=0)
    yield Blind("dilated", "rounds", steps_of(walk, np.array(order.Dilated.rounds(LENGTH)))[None])
    yield Blind("any", "one by one", everything[None])


def blind_rows(chain: Markov) -> Iterator[dict[str, Any]]:
    table, informations = powers(chain), chain.informations()
    for rule in blind(chain):
        law = np.mean([pair_law(table, chain.stationary, each) for each in rule.steps], axis=0)
        nats = rule.kl if rule.kl is not None else float(np.mean([excess(informations, each) for each in rule.steps]))
        yield {
            "order": rule.order,
            "size": rule.size,
            "evaluations": float(np.mean([np.unique(each).size for each in rule.steps])),
            "bits": nats / LENGTH / math.log(2),
            "error": 0.0,
            "exact": "yes",
            **rates(law, chain.transition),
            "rates": "exact" if rule.kl is None else f"{ORDERS} orders",
        }


def reactive() -> Iterator[tuple[str, str, Schedule]]:
    """Every rule that looks at predictions: its order, its size, the schedule."""
    for steps in STEPS:
        for name, made in REACTIVE.items():
            yield name, "even", made(steps)
    for (name, which), schedule in FREE.items():
        yield name, which, schedule


def replayed(predictor: MaskPredictor, schedule: Schedule, tokens: torch.Tensor, truth: Floats) -> dict[str, Any]:
    """What a schedule costs above the true log-likelihood of texts, and how many evaluations it takes."""
    result = evaluate.replay(predictor, schedule, tokens, rng=list(range(len(tokens))), batch=256)
    over = Estimate.of(result.nll.numpy() + truth)
    per_character = 1 / (tokens.shape[1] * math.log(2))
    return {
        "evaluations": result.mean_evaluations,
        "bits": over.mean * per_character,
        "error": over.standard_error * per_character,
        "exact": "no",
    }


def reactive_rows(chain: Markov) -> Iterator[dict[str, Any]]:
    predictor, vocab = Bridges.of(chain), chain.vocab
    tokens = chain.sample(TEXTS, rng=1)
    truth, texts = chain.log_probability(tokens), torch.as_tensor(tokens)
    for name, which, schedule in reactive():
        trace = Sampler(predictor, schedule).run((WRITTEN, LENGTH), rng=2)
        law = neighbours(trace.tokens.numpy(), vocab)
        cost = replayed(predictor, schedule, texts, truth)
        yield {"order": name, "size": which, **cost, **rates(law, chain.transition), "rates": f"{WRITTEN} texts"}
    yield from scattered_rows(predictor, texts, truth)
    law = neighbours(chain.sample(WRITTEN, rng=3), vocab)
    nothing = {"evaluations": "", "bits": 0.0, "error": 0.0, "exact": "yes", "rates": f"{WRITTEN} texts"}
    yield {"order": "chain", "size": "", **nothing, **rates(law, chain.transition)}


def scattered_rows(predictor: MaskPredictor, texts: torch.Tensor, truth: Floats) -> Iterator[dict[str, Any]]:
    """What rules that look at predictions cost if their ties are broken at random."""
    for steps in STEPS:
        for name in ("confidence", "margin", "entropy"):
            cost = replayed(Scattered(predictor), REACTIVE[name](steps), texts, truth)
            said = {"order": f"{name}, ties scattered", "size": "even"}
            yield {**said, **cost, "tv_rate": "", "kl_rate": "", "rates": ""}


def second_rows(counts: Integers) -> Iterator[dict[str, Any]]:
    """A few rules on the chain of second order."""
    predictor = SecondOrder.of(counts)
    texts = predictor.sample(SECOND, LENGTH, np.random.default_rng(4))
    truth = predictor.log_probability(texts)
    for steps in STEPS[:-1]:  # a walk along every text at every step takes its time
        rules: dict[tuple[str, str], Schedule] = {
            (name, "even"): Schedule(size.Even(steps), which)
            for name, which in (("random", order.Random()), ("comb", order.Comb()), ("spread", order.Spread()))
        }
        if 2 ** (steps - 1) <= LENGTH:
            rules["spread", "doubling"] = Schedule(size.Explicit(doubling(steps)), order.Spread())
        rules |= {(name, "even"): REACTIVE[name](steps) for name in ("margin", "margin, 8 apart")}
        if steps == STEPS[0]:
            rounds = size.Explicit(order.Dilated.rounds(LENGTH))
            rules["dilated", "rounds"] = Schedule(rounds, order.Dilated())
        for (name, which), schedule in rules.items():
            cost = replayed(predictor, schedule, texts, truth)
            yield {"order": name, "size": which, **cost, "tv_rate": "", "kl_rate": "", "rates": ""}


def measured(counts: Integers) -> Iterator[dict[str, Any]]:
    """All rows, and on the screen what each took."""
    chain = first_order(counts, LENGTH)
    begin = time.monotonic()
    for number, rows in ((1, blind_rows(chain)), (1, reactive_rows(chain)), (2, second_rows(counts))):
        for row in rows:
            said = (f"{row[key]:.5g}" if isinstance(row[key], float) else row[key] for key in FIELDS[1:])
            print(number, *said, f"{time.monotonic() - begin:.0f} s", flush=True)
            yield {"chain": number, **row}


_LINES: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("left-to-right", "even"): ("left to right", {"color": "#777777"}),
    ("random", "tc"): (r"random order, $\pi_{\mathrm{tc}}$", {"color": "#009E73", "dashes": (5, 2)}),
    ("random", "even"): ("random order", {"color": "#D55E00"}),
    ("confidence", "even"): ("confidence", {"color": "#E69F00"}),
    ("margin", "even"): ("margin", {"color": "#AA3377"}),
    ("margin, blocks of 32", "even"): ("margin in blocks of 32", {"color": "#7A4A1E", "dashes": (2, 1.5)}),
    ("margin, 8 apart", "even"): ("margin, 8 apart", {"color": "#AA3377", "dashes": (5, 2)}),
    ("entropy", "entropy-bound"): ("entropy bound", {"color": "#E69F00", "dashes": (2, 1.5)}),
    ("comb", "even"): ("comb", {"color": "#0072B2", "linewidth": 3.2}),
    ("spread", "even"): ("spread", {"color": "#56B4E9", "dashes": (3, 2)}),
    ("spread", "doubling"): ("spread, doubling sizes", {"color": "#000000"}),
}


def draw(rows: list[dict[str, str]], paths: list[Path]) -> None:
    """Draw cost and error rate against evaluations; what is below the foot of an axis is a triangle there."""
    panels = (
        ("1", "bits", 1e-5, "first order: bits per character lost"),
        ("1", "tv_rate", 1e-4, "first order: error rate of transitions"),
        ("2", "bits", 1e-3, "second order: bits per character lost"),
    )
    title = "Perfect predictions: orders that keep the tokens of a step apart lose next to nothing"
    with plot.sheet(3, (13.0, 5.4), paths, title=title, legend_columns=6, narrow=common.narrow(paths)) as axes:
        for ax, (chain, key, foot, label) in zip(axes, panels, strict=True):
            for (name, which), (said, look) in _LINES.items():
                mine = [r for r in rows if (r["chain"], r["order"], r["size"].split(" ")[0]) == (chain, name, which)]
                points = np.array(sorted((float(r["evaluations"]), float(r[key])) for r in mine)).reshape(-1, 2)
                below = points[:, 1] < foot
                ax.plot(points[:, 0], np.maximum(points[:, 1], foot), label=said, **look)
                for marker, some in (("o", ~below), ("v", below)):
                    ax.plot(*np.maximum(points[some], foot).T, marker, color=look["color"], markersize=4.5)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_ylim(0.8 * foot, 1.0)
            ax.set_xticks([4, 8, 16, 32, 64, 128] if chain == "1" else [4, 8, 16, 32])
            ax.xaxis.set_major_formatter("{x:.0f}")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.set_xlabel("evaluations per text of 128 characters")
            ax.set_title(label)
        seen = next(float(r["tv_rate"]) for r in rows if r["order"] == "chain")
        axes[1].axhline(seen, color="#777777", linewidth=1)
        axes[1].text(4, 0.8 * seen, "the chain itself", color="#555555", fontsize=9, va="top")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", help="text8; the committed counts by default")
    parser.add_argument("--output", type=Path, help="a folder for all files, and a PNG to look at")
    parser.add_argument("--draw", action="store_true", help="draw the figure from what was measured before")
    options = parser.parse_args()
    results, figures = (common.RESULTS, common.FIGURES) if options.output is None else [options.output] * 2
    results.mkdir(parents=True, exist_ok=True)
    if options.text is not None:
        np.savez_compressed(results / COUNTS.name, counts=counted(options.text))
    counts = np.load(COUNTS if options.text is None else results / COUNTS.name)["counts"]
    if not options.draw:
        common.write(results / "atlas-oracle.csv", FIELDS, list(measured(counts)))
    with (results / "atlas-oracle.csv").open(newline="", encoding="utf-8") as file:
        suffixes = ("svg",) if options.output is None else ("svg", "png")
        draw(list(csv.DictReader(file)), [figures / f"atlas-oracle.{suffix}" for suffix in suffixes])


if __name__ == "__main__":
    main()
