"""How long `unmask calibrate` and `unmask evaluate` take with the built-in model. `make bench` prints it.

Both commands are run as a person would, on 32 sequences of the project's own pages. The floor is the time of as many
forward passes of those sequences, half masked: with logits of all masked positions where they are all scored, and of as
many as a step reveals otherwise. It is measured right before and right after, and the median counts: a command that
takes minutes sees the machine at its usual speed, not at its best.
"""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from unmask import models
from unmask.evaluate.levels import random_order

ROOT = Path(__file__).parent.parent
TEXTS, ORDERS, STEPS = 32, ("random", "spread", "comb"), (8, 16, 32)


def text() -> str:
    """Pages of the documentation in the alphabet of the model: long enough, and on every machine."""
    pages = " ".join(path.read_text(encoding="utf-8").lower() for path in sorted((ROOT / "docs").glob("*.md")))
    return re.sub("[^a-z]+", " ", pages)


@torch.no_grad()
def passes(model: models.Model, tokens: torch.Tensor, share: int) -> list[float]:
    """Seconds for passes of half-masked sequences with logits of one in `share` of the masked positions."""
    masked = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    hidden = tokens.masked_fill(masked, model.predictor.mask)
    rows = masked.flatten().nonzero().flatten()[::share]
    spent = []
    for _ in range(6):
        start = time.perf_counter()
        model.predictor(hidden, masked, rows).log_probabilities()
        spent.append(time.perf_counter() - start)
    return spent[1:]  # the first one warms up


def timed(*words: str) -> tuple[float, dict]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "unmask.cli", *words, "--texts", str(TEXTS), "--device", "cpu", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, json.loads(done.stdout)


def evaluations(answer: dict) -> dict[int, int]:
    """How many passes the rows took, and the reference, by the share of positions that they score."""
    counts = {1: inspect.signature(random_order).parameters["points"].default}
    for row in answer["rows"]:
        share = row["steps"] // 2
        counts[share] = counts.get(share, 0) + round(row["evaluations"])
    return counts


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    model = models.load("builtin")
    with TemporaryDirectory() as folder:
        source, kept = Path(folder, "text.txt"), Path(folder, "calibration.json")
        source.write_text(text(), encoding="utf-8")
        tokens = torch.from_numpy(model.codec.encode(text()[: TEXTS * model.length])).long().view(TEXTS, -1)
        # With K steps a step reveals L / K tokens: of half a sequence, one in K / 2.
        shares = (1, *(steps // 2 for steps in STEPS))
        before = {share: passes(model, tokens, share) for share in shares}
        calibrating, _ = timed("calibrate", "--text", str(source), "--output", str(kept), "--texts", "32")
        losses = json.loads(kept.read_text(encoding="utf-8"))["losses"]
        steps = ",".join(map(str, STEPS))
        evaluating, answer = timed(
            "evaluate", "--text", str(source), "--order", ",".join(ORDERS), "--size", "even", "--steps", steps
        )
        floor = {share: median(spent + passes(model, tokens, share)) for share, spent in before.items()}
    record = {"cores": os.cpu_count(), "texts": TEXTS}
    runs = {
        "calibrate": (calibrating, {1: sum(len(each["visible"]) for each in losses.values())}),
        "evaluate": (evaluating, evaluations(answer)),
    }
    for name, (seconds, counts) in runs.items():
        count, bare = sum(counts.values()), sum(count * floor[share] for share, count in counts.items())
        record[name] = {"seconds": round(seconds, 1), "evaluations": count, "ratio": round(seconds / bare, 3)}
        words = f"unmask {name}, {TEXTS} texts, built-in model"
        print(f"{words:<44}{seconds:>19.1f} s {f'{count} passes {bare:.1f} s ':>26}{seconds / bare:>10.3f}")
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
