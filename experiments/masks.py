"""Is a model better for a schedule if it is trained on that schedule's own masks? The paper's second open question.

    python experiments/masks.py TEXT [--steps 3000] [--output experiments/results]

Small transformers (0.4 million parameters, 64 characters at a time) learn text8 from the same initial weights and the
same windows, with different masked sets: uniformly random ones; those that a comb of 8 steps visits, in proportion to
what it reveals there (the paper's objective under that schedule); half of each. Each is then measured by replay on
validation text under the comb, and under random order in as many steps and one by one. Writes masks.csv.
"""

import argparse
import math
from pathlib import Path

import common
import corpus
import torch

from unmask import order, size
from unmask.evaluate.exact import Estimate
from unmask.evaluate.likelihood import replay
from unmask.models import transformer as nn
from unmask.schedule import Schedule
from unmask.train import Recipe, train
from unmask.train.masks import Masks, MixedMasks, ScheduleMasks, UniformMasks

LENGTH = 64
COMB = Schedule(size.Even(8), order.Comb())
MASKS: dict[str, Masks] = {
    "uniform": UniformMasks(),
    "half comb": MixedMasks((UniformMasks(), ScheduleMasks(COMB))),
    "comb": ScheduleMasks(COMB),
}
MEASURED = {
    "comb, 8 steps": COMB,
    "random, 8 steps": Schedule(size.Even(8), order.Random()),
    "random, one by one": Schedule(size.Even(LENGTH), order.Random()),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--windows", type=int, default=4096)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    store, valid, _ = corpus.splits(options.text)
    texts = torch.from_numpy(valid.even_windows(LENGTH, options.windows))
    config = nn.Config(
        corpus.ALPHABET.vocab, LENGTH, width=96, layers=2, readers=2, heads=3, hidden=192, reader_hidden=288
    )
    scale = 1 / (LENGTH * math.log(2))
    rows = []
    recipe = Recipe(steps=options.steps, batch=64, rate=3e-3, muon=5e-3, warmup=200)
    reference = {}
    for name, masks in MASKS.items():
        model, _ = train(
            config, store, recipe, lessons=masks, watch=lambda p: print(p.step, f"{p.loss:.4f}", flush=True)
        )
        for label, schedule in MEASURED.items():
            nll = replay(model.predictor(), schedule, texts, rng=list(range(len(texts))), batch=256).nll.numpy()
            reference.setdefault(label, nll)  # of the model trained on uniform masks, which comes first
            total, gain = Estimate.of(nll), Estimate.of(nll - reference[label])
            row = {
                "masks": name,
                "schedule": label,
                "bits": f"{total.mean * scale:.5f}",
                "error": f"{total.standard_error * scale:.5f}",
                "over_uniform": f"{gain.mean * scale:.5f}",
                "over_uniform_error": f"{gain.standard_error * scale:.5f}",
            }
            print(*row.values(), flush=True)
            rows.append(row)
    common.write(options.output / "masks.csv", list(rows[0]), rows)


if __name__ == "__main__":
    main()
