"""What approximate caches cost the built-in model in bits, and what they save in time.

    python experiments/caches.py TEXT [--windows 512] [--seconds 85] [--output experiments/results]

Caches that keep keys and values of some positions from earlier steps (`unmask.models.caches`), under a few schedules.
Bits per character by replay on windows of the test split (see corpus.py); the clock runs beside them, all windows at
once. Every rule of a schedule is run once in each of a few rounds, so that all see the machine as it is. Both are
compared with a cache that computes everything at every step, which is exact: bits text by text, seconds in the same
round. The network's own predictor, run once before them, stands beside them as the rule `none`. Writes

    caches.csv    rule, refresh, order, block (empty: the whole window), steps in a block, evaluations, windows, bits
                  per character, paired difference to everything computed and its error, share of positions computed,
                  ratio of seconds (mean over rounds), device

Schedules that are complete in the file, with as many windows, are not measured again, and none is begun that would not
be done within the seconds given: run again.
"""

import argparse
import csv
import math
import time
from pathlib import Path
from typing import NamedTuple

import common
import corpus
import numpy as np
import torch

from unmask import models, names, order, size
from unmask.models.caches import Cached, Delayed, Dual, Prefix, Renewal
from unmask.predict import MaskPredictor, evaluating
from unmask.sample import Sampler
from unmask.sample.draw import Replay
from unmask.schedule import Schedule

LENGTH = corpus.LENGTH
ROUNDS = 2
NEVER = LENGTH  # steps after which a cache would be refreshed, if there were so many
FIELDS = (
    "rule", "refresh", "order", "block", "steps", "evaluations", "windows", "bits", "error", "over", "over_error",
    "computed", "ratio", "device",
)  # fmt: skip


class Setting(NamedTuple):
    """An order in blocks, or in the whole window where the block is as long as that."""

    order: str
    block: int
    steps: int

    @property
    def schedule(self) -> Schedule:
        inner = names.ORDERS[self.order].make()
        return Schedule(size.Even(self.steps), inner if self.block == LENGTH else order.Blocks(inner, self.block))

    @property
    def rules(self) -> dict[tuple[str, str], Renewal]:
        """Name and refresh -> rule; the first computes everything."""
        exact = {("everything", "1"): Delayed(1)}
        if self.block < LENGTH:
            block = self.block
            often = {("delayed", "4"): Delayed(4, block)} if self.steps > 4 else {}
            kept = {("prefix", ""): Prefix(block), ("dual", ""): Dual(block)}
            return exact | kept | often | {("delayed", "never"): Delayed(NEVER, block)}
        return exact | {("delayed", str(n)): Delayed(n) for n in (2, 4, 8)} | {("delayed", "never"): Delayed(NEVER)}


SETTINGS = (
    Setting("whole-comb", 16, 4),
    Setting("margin", 16, 4),
    Setting("whole-comb", 32, 8),
    Setting("margin", 32, 8),
    Setting("whole-comb", 64, 8),
    Setting("whole-comb", LENGTH, 16),
    Setting("whole-comb", LENGTH, 64),
    Setting("margin", LENGTH, 64),
)


class Run(NamedTuple):
    """Nats and evaluations of each text, share of positions computed, seconds."""

    nats: np.ndarray
    evaluations: float
    computed: float
    seconds: float


def run(predictor: MaskPredictor, schedule: Schedule, texts: torch.Tensor) -> Run:
    sampler = Sampler(predictor, schedule, Replay(texts))
    state = sampler.init(texts, torch.ones_like(texts, dtype=torch.bool), rng=list(range(len(texts))))
    _wait(texts)
    begin = time.perf_counter()
    with evaluating(predictor):
        for state, _ in sampler.steps(state):  # noqa: B007, B020 - the last state is the result
            pass
    _wait(texts)
    seconds = time.perf_counter() - begin
    evaluations = float(state.evaluations.mean())
    computed = getattr(state.memory, "computed", None)
    share = 1.0 if computed is None else float(computed.double().mean()) / LENGTH / evaluations
    return Run(state.trace().nll.cpu().numpy(), evaluations, share, seconds)


def _wait(texts: torch.Tensor) -> None:
    if texts.is_cuda:
        torch.cuda.synchronize()


def measured(predictor: MaskPredictor, setting: Setting, texts: torch.Tensor, device: str) -> list[dict[str, object]]:
    own = run(predictor, setting.schedule, texts)
    rounds = [
        {key: run(Cached(predictor, rule), setting.schedule, texts) for key, rule in setting.rules.items()}
        for _ in range(ROUNDS)
    ]
    scale, rows = 1 / (LENGTH * math.log(2)), []
    # Not the network's own predictor: while all is masked its predictions are all alike, and a rule that looks at them
    # chooses by their rounding.
    exact = rounds[0]["everything", "1"]
    for (name, refresh), first in rounds[0].items():
        bits, over = first.nats * scale, (first.nats - exact.nats) * scale
        ratios = [each[name, refresh].seconds / each["everything", "1"].seconds for each in rounds]
        rows.append(
            {
                "rule": name,
                "refresh": refresh,
                "order": setting.order,
                "block": "" if setting.block == LENGTH else setting.block,
                "steps": setting.steps,
                "evaluations": f"{first.evaluations:g}",
                "windows": len(texts),
                "bits": f"{bits.mean():.5f}",
                "error": f"{bits.std(ddof=1) / len(bits) ** 0.5:.5f}",
                "over": f"{over.mean():.5f}",
                "over_error": f"{over.std(ddof=1) / len(over) ** 0.5:.5f}",
                "computed": f"{first.computed:.4f}",
                "ratio": f"{np.mean(ratios):.3f}",
                "device": device,
            }
        )
        print(*rows[-1].values(), flush=True)
    over, taken = (own.nats - exact.nats).mean() * scale, own.seconds / exact.seconds
    rows.append({**rows[0], "rule": "none", "refresh": "", "over": f"{over:.5f}", "ratio": f"{taken:.3f}"})
    return rows


def main():
    begin, slowest = time.monotonic(), 0.0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=85)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    texts = corpus.test_windows(options.text, options.windows).to(device)
    predictor = models.load(models.BUILTIN, device=device).predictor
    run(predictor, Schedule(size.Even(2), order.Random()), texts)  # kernels are loaded
    path = options.output / "caches.csv"
    known: list[dict[str, object]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            known = [row for row in csv.DictReader(file) if row["windows"] == str(len(texts)) and row["device"] == name]
    for setting in SETTINGS:
        block = "" if setting.block == LENGTH else str(setting.block)
        if any((r["order"], r["block"], r["steps"]) == (setting.order, block, str(setting.steps)) for r in known):
            continue
        start = time.monotonic()
        evaluations = LENGTH // setting.block * setting.steps
        if start - begin + slowest * evaluations > options.seconds:
            print("some schedules are left: run again to go on")
            break
        known += measured(predictor, setting, texts, name)
        slowest = max(slowest, (time.monotonic() - start) / evaluations)
        common.write(path, FIELDS, known)


if __name__ == "__main__":
    with torch.no_grad():
        main()
