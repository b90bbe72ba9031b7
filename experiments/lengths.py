"""Schedules advised from texts that differ in how much is to be filled, against those made for each number of tokens.

    python experiments/lengths.py

256 texts of 60 tokens, of which the first 0 to 40 are given, are measured under five orders. For 20, 30 … 60 tokens to
fill, what is advised from them runs on 400 other texts with so many; beside it runs what is advised from 256 texts that
all have so many. The model is exact, so that all that differs is the schedule. Writes `results/lengths.csv`: `ratio` is
the cost of the first over that of the second, `error` its standard error (paired, over texts).
"""

from collections.abc import Iterator

import numpy as np
import torch
from common import RESULTS, write

from unmask import order
from unmask.calibration import Calibration, advise, measure
from unmask.distribution import Distribution, Markov, Mixture
from unmask.evaluate.likelihood import replays
from unmask.predict import ExactPredictor
from unmask.sequences import Sequences

LENGTH, TEXTS, OTHERS, POINTS = 60, 256, 400, 33
FILLED = (20, 30, 40, 50, 60)
STEPS = (4, 8, 12)
LAWS = {
    "chain": Markov.sticky(4, 0.8, LENGTH),
    "mixture": Mixture([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length=LENGTH),
}
ORDERS = {
    "random": order.Random(), "spread": order.Spread(), "comb-4": order.Comb(4), "comb-8": order.Comb(8),
    "comb-16": order.Comb(16),
}  # fmt: skip

COLUMNS = ("data", "filled", "steps", "order", "order_alone", "ratio", "error")


def texts(law: Distribution, count: int, seed: int, least: int, most: int) -> Sequences:
    """Texts whose beginning is given, with `least` to `most` tokens to fill."""
    rng = np.random.default_rng(seed)
    tokens = torch.from_numpy(law.sample(count, rng=rng))
    left = rng.integers(least, most + 1, size=count)
    return Sequences.of(tokens, torch.from_numpy(np.arange(LENGTH) >= LENGTH - left[:, None]))


def calibrated(law: Distribution, rows: Sequences) -> Calibration:
    predictor = ExactPredictor(law)
    losses = {name: measure(predictor, kind, rows, rng=0, points=POINTS) for name, kind in ORDERS.items()}
    return Calibration(int(rows.counts.max()), "exact", len(rows), losses)


def compute(name: str, filled: tuple[int, ...] = FILLED, steps: tuple[int, ...] = STEPS) -> Iterator[dict[str, object]]:
    law = LAWS[name]
    predictor = ExactPredictor(law)
    pooled = calibrated(law, texts(law, TEXTS, 1, FILLED[0], FILLED[-1]))
    for count in filled:
        alone = calibrated(law, texts(law, TEXTS, 2, count, count))
        others = texts(law, OTHERS, 3, count, count)
        for wanted in steps:
            chosen = [advise(found, steps=wanted) for found in (pooled, alone)]
            mine, theirs = replays(predictor, [each.plan.schedule for each in chosen], others, rng=0)
            mean = float(theirs.nll.mean())
            over = (mine.nll - theirs.nll).numpy()
            yield {
                "data": name, "filled": count, "steps": wanted,
                "order": chosen[0].order, "order_alone": chosen[1].order,
                "ratio": 1 + float(over.mean()) / mean,
                "error": float(over.std(ddof=1)) / np.sqrt(over.size) / mean,
            }  # fmt: skip


if __name__ == "__main__":
    write(RESULTS / "lengths.csv", COLUMNS, [row for name in LAWS for row in compute(name)])
