"""What a text costs against what it takes to write it: causal in the schedule, left to right, and looking both ways.

    python experiments/frontier.py measure TEXT LEFT_TO_RIGHT    experiments/results/frontier.csv
    python experiments/frontier.py again TEXT CAUSAL             the same for a new causal model: see below
    python experiments/frontier.py                               the figure, from that file

Bits per character on windows of the test split of text8 (see corpus.py). LEFT_TO_RIGHT is the autoregressive model of
`experiments/causal.py`, which is not part of the repository. The rows of the bidirectional model are those of
text8.csv, on the same windows. All models have about 6 million parameters and were trained on the same text.

Where the left-to-right model is not at hand, a new causal model is compared with the one before it, CAUSAL, whose rows
are in the file, on the same windows. What it costs over left to right is then what that one costs over it and a paired
difference, and its error at most the sum of their errors, which is what is written.

Arithmetic is counted in passes: multiplications over those of one pass of the network over the text. A network that is
causal in the schedule takes every content through its layers once and every query through its readers once, which is
one pass; one that looks both ways takes all positions through its layers at every step.
"""

import math
import sys
from pathlib import Path

import common
import corpus
import numpy as np
import torch

from unmask import models, order, plot, size
from unmask.evaluate.drafts import verified_evaluations
from unmask.evaluate.likelihood import replay
from unmask.models.transformer import Config
from unmask.models.weights import load
from unmask.sample import Verified
from unmask.schedule import Schedule

WINDOWS = 512  # as many as in text8.csv, and the same
WRITTEN = 16  # texts written with verification
STEPS = (8, 16, 32, 64, 128, 256)
LENGTH = corpus.LENGTH
FIELDS = ("model", "order", "size", "steps", "passes", "bits", "error", "over", "over_error")


def whole_comb(steps: int) -> Schedule:
    return Schedule(size.Even(steps), order.Comb(shift=0))


def passes_both_ways(steps: float, *, reads: float) -> float:
    """Passes of the bidirectional built-in model: all positions through its layers at every step."""
    return common.passes(Config(corpus.ALPHABET.vocab, LENGTH), steps, reads=reads)


def scored(predictor, schedule: Schedule, texts: torch.Tensor) -> np.ndarray:
    """Bits per character of each text."""
    return replay(predictor, schedule, texts, rng=list(range(len(texts)))).nll.numpy() / LENGTH / math.log(2)


def error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


class Anchor:
    """What left to right costs on the texts themselves."""

    def __init__(self, texts: torch.Tensor, left_to_right: Path):
        network, _ = load(left_to_right)
        self.bits = scored(network.predictor(), Schedule(size.Even(LENGTH), order.LeftToRight()), texts)
        self.row = described("left-to-right", "left-to-right", "one by one", LENGTH, 1.0, self.bits, 0.0, 0.0)

    def over(self, bits: np.ndarray, which: str, how_many: str, steps: int, schedule: Schedule) -> tuple[float, float]:
        return float((bits - self.bits).mean()), error(bits - self.bits)


class Before:
    """What the causal model before cost over left to right: its rows, and its weights."""

    def __init__(self, texts: torch.Tensor, causal: Path):
        self.texts, self.predictor = texts, load(causal)[0].predictor()
        rows = common.read("frontier.csv")
        self.row = next(each for each in rows if each["model"] == "left-to-right")
        self.rows = {(each["order"], each["size"], each["steps"]): each for each in rows if each["model"] == "causal"}

    def over(self, bits: np.ndarray, which: str, how_many: str, steps: int, schedule: Schedule) -> tuple[float, float]:
        change = bits - scored(self.predictor, schedule, self.texts)
        before = self.rows[which, how_many, f"{steps:g}"]
        return float(before["over"]) + float(change.mean()), float(before["over_error"]) + error(change)


def described(
    model: str, which: str, how_many: str, steps: float, passes: float, bits: np.ndarray, over: float, over_error: float
) -> dict[str, str]:
    return {
        "model": model,
        "order": which,
        "size": how_many,
        "steps": f"{steps:g}",
        "passes": f"{passes:.3g}",
        "bits": f"{bits.mean():.4f}",
        "error": f"{error(bits):.4f}",
        "over": f"{over:.4f}",
        "over_error": f"{over_error:.4f}",
    }


def measured(texts: torch.Tensor, anchor: Anchor | Before):
    yield anchor.row
    causal = models.load("causal").predictor
    one_by_one = Schedule(size.Even(LENGTH), order.Comb(16, shift=0))
    cases = [("comb", "even", steps, whole_comb(steps)) for steps in STEPS]
    cases += [("random", "even", steps, Schedule(size.Even(steps), order.Random())) for steps in (16, 64)]
    for which, how_many, steps, schedule in [*cases, ("comb of 16 teeth", "one by one", LENGTH, one_by_one)]:
        bits = scored(causal, schedule, texts)
        over = anchor.over(bits, which, how_many, steps, schedule)
        yield described("causal", which, how_many, steps, 1.0, bits, *over)
    # The same law as one by one, drafted a tooth at a time: how long that takes is forecast and then seen.
    forecast = verified_evaluations(causal, whole_comb(16), texts[:64], rng=0).expected
    trace = Verified(causal, whole_comb(16)).run((WRITTEN, LENGTH), rng=1)
    taken = float(trace.verification.rejected.mean())
    config = models.load("causal").module.config
    layers, readers = (
        (config.layers * (4 * config.width + 3 * config.hidden)),
        (config.readers * (2 * config.width + 3 * config.reader_hidden)),
    )
    # Each token is read twice; a rejection repeats half a tooth of contents, and their queries and those of the next.
    more = (LENGTH * readers + taken * (8 * layers + 24 * readers)) / (LENGTH * (layers + readers))
    evaluations = float(trace.evaluations.mean())
    yield described("causal", "comb of 16 teeth", "verified", evaluations, 1 + more, bits, *over)
    spread = error(trace.evaluations)
    print(
        f"verified: {evaluations:.2f} ± {spread:.2f} evaluations, forecast {forecast.mean:.2f} ± "
        f"{forecast.standard_error:.2f} from 64 windows; {trace.verification.acceptance:.1%} accepted"
    )
    common.write(
        common.RESULTS / "verified.csv",
        ("evaluations", "error", "forecast", "forecast_error", "accepted", "texts"),
        [
            {
                "evaluations": evaluations, "error": spread, "forecast": forecast.mean,
                "forecast_error": forecast.standard_error, "accepted": trace.verification.acceptance, "texts": WRITTEN,
            }
        ],
    )  # fmt: skip
    for each in common.read("text8.csv"):
        kept = both_ways(each, float(anchor.row["bits"]))
        if kept is not None:
            yield kept


def both_ways(each: dict[str, str], anchor: float):
    """A row of the bidirectional model, if the figure shows it; its texts are not at hand, so no error is paired."""
    blind = each["order"] in ("comb", "random") and each["size"] in ("even", "one by one")
    reactive = each["size"].startswith(("threshold", "entropy-bound"))
    if not (blind or reactive or (each["order"], each["size"]) == ("left-to-right", "one by one")):
        return None
    steps = float(each["steps"])
    reads = common.looked_at(steps) if reactive else 1.0
    return {
        "model": "both ways", "order": each["order"], "size": each["size"], "steps": f"{steps:g}",
        "passes": f"{passes_both_ways(steps, reads=reads):.3g}", "bits": f"{float(each['bits']):.4f}",
        "error": f"{float(each['error']):.4f}", "over": f"{float(each['bits']) - anchor:.4f}", "over_error": "",
    }  # fmt: skip


LINES = {
    ("causal", "comb", "even"): {"label": "causal, comb", "color": "#0072B2", "marker": "o"},
    ("both ways", "comb", "even"): {"label": "both ways, comb", "color": "#D55E00", "marker": "s"},
    ("both ways", "random", "even"): {"label": "both ways, random order", "color": "#E69F00", "marker": "^"},
    ("both ways", "confidence", "threshold"): {
        "label": "both ways, threshold", "color": "#CC79A7", "marker": "v", "ls": ":"
    },
    ("both ways", "entropy", "entropy-bound"): {
        "label": "both ways, entropy bound", "color": "#009E73", "marker": "D", "ls": ":"
    },
}  # fmt: skip


def figure():
    rows = common.read("frontier.csv")
    paths, _ = common.places("frontier")
    anchor = next(each for each in rows if each["model"] == "left-to-right")
    checked = next(each for each in rows if each["size"] == "verified")
    title = "Bits per character against what a text takes to write"
    with plot.sheet(2, (9.6, 4.9), paths, title=title, legend_columns=4, narrow=common.narrow(paths)) as axes:
        for axis, column, name in zip(
            axes, ("steps", "passes"), ("sequential steps", "passes over the text"), strict=True
        ):
            axis.axhline(float(anchor["bits"]), color="#666666", lw=0.8, ls="--")
            axis.plot(float(anchor[column]), float(anchor["bits"]), "k*", ms=11, ls="", label="left to right")
            axis.plot(
                float(checked[column]), float(checked["bits"]), "P", color="#56B4E9", ms=9, ls="",
                label="causal, comb, verified",
            )  # fmt: skip
            for (model, which, how_many), look in LINES.items():
                some = [
                    r for r in rows if (r["model"], r["order"]) == (model, which) and r["size"].startswith(how_many)
                ]
                points = sorted((float(r["steps"]), float(r[column]), float(r["bits"])) for r in some)
                axis.plot([p[1] for p in points], [p[2] for p in points], ms=4.5, lw=1.4, **look)
            axis.set_xscale("log", base=2)
            axis.set_xlabel(name)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_ylim(1.36, 2.02)
        axes[0].set_ylabel("bits per character")


def main():
    if len(sys.argv) == 4:
        _, _, test = corpus.splits(Path(sys.argv[2]))
        texts = torch.from_numpy(test.even_windows(LENGTH, WINDOWS))
        anchor = {"measure": Anchor, "again": Before}[sys.argv[1]](texts, Path(sys.argv[3]))
        common.write(common.RESULTS / "frontier.csv", FIELDS, list(measured(texts, anchor)))
        return
    figure()


if __name__ == "__main__":
    with torch.no_grad():
        main()
