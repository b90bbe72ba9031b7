"""Train the built-in model: characters a–z and space, 256 of them at a time.

    python experiments/builtin.py TEXT --folder runs/builtin --steps 20000 --minutes 9 --output DIR [--weights FILE]

TEXT is text8 (see corpus.py for its splits). Writes the model and, at the end of the run, `scores.csv`. Run it again to
resume; `--weights` begins a new run from a trained model. With `--masks comb` the sets are those that a comb of 16
to 64 steps visits, mixed evenly with uniform ones: the paper's objective under that schedule.
"""

import argparse
import csv
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from corpus import ALPHABET, LENGTH, splits

from unmask import order, size
from unmask.evaluate.likelihood import replay
from unmask.models import transformer as nn
from unmask.models import weights
from unmask.schedule import Schedule
from unmask.train import Recipe, train
from unmask.train.masks import MixedMasks, ScheduleMasks, UniformMasks

COMBS = [ScheduleMasks(Schedule(size.Even(steps), order.Comb())) for steps in (16, 32, 64)]
MASKS = {"uniform": UniformMasks(), "comb": MixedMasks((*[UniformMasks()] * 3, *COMBS))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--muon", type=float, default=5e-3)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--masks", choices=MASKS, default="uniform")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
    begin = time.monotonic()
    store, valid, _ = splits(options.text)
    print(f"read {len(store):,} characters in {time.monotonic() - begin:.0f} s on {device}", flush=True)
    recipe = Recipe(steps=options.steps, batch=options.batch, rate=options.rate, muon=options.muon, warmup=500)
    config = nn.Config(vocab=ALPHABET.vocab, length=LENGTH)
    model, progress = train(
        config,
        store,
        recipe,
        lessons=MASKS[options.masks],
        weights=weights.load(options.weights)[0] if options.weights else None,
        folder=options.folder,
        device=device,
        minutes=options.minutes,
        compile_model=device == "cuda",
        watch=lambda p: print(
            f"{p.step:>7} {p.loss / np.log(2):.4f} bits  {p.rate:.2e}  {p.seconds:.0f} s", flush=True
        ),
    )
    about = {
        "alphabet": ALPHABET.characters,
        "recipe": asdict(recipe),
        "masks": options.masks,
        "steps": progress.step,
        "data": "first 70,000,000 characters of text8 (English Wikipedia of 2006, CC BY-SA 3.0 / GFDL)",
    }
    options.output.mkdir(parents=True, exist_ok=True)
    weights.save(model, options.output / f"{options.masks}.safetensors", about=about)
    if progress.step < recipe.steps:
        return
    texts = torch.from_numpy(valid.even_windows(LENGTH, 1024)).to(device)
    predictor = model.predictor()
    with (options.output / "scores.csv").open("w", newline="") as file:
        scores = csv.writer(file, lineterminator="\n")
        scores.writerow(["schedule", "bits", "error"])
        for name, schedule in {
            "random, one by one": Schedule(size.Even(LENGTH), order.Random()),
            "random, 16 even": Schedule(size.Even(16), order.Random()),
            "comb, 16 even": Schedule(size.Even(16), order.Comb()),
            "left to right": Schedule(size.Even(LENGTH), order.LeftToRight()),
        }.items():
            score = replay(predictor, schedule, texts, rng=torch.Generator().manual_seed(0), batch=512).per_token
            row = [name, f"{score.mean / np.log(2):.4f}", f"{score.standard_error / np.log(2):.4f}"]
            scores.writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
