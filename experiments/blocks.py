"""What the order inside blocks costs the built-in model, on text it has never seen.

    python experiments/blocks.py TEXT [--windows 512] [--seconds 140] [--output experiments/results]

Blocks of 4 to 32 characters are filled one after the other, each in 2 to 16 even steps under every inner order, and
beside them the whole window at once, in as many evaluations. Bits per character by replay on windows of the test split
(see corpus.py); all schedules see the same texts and the same seeds. Writes

    blocks.csv    order, block (empty: the whole window), steps in a block, evaluations, windows, bits per character,
                  and paired differences: over the margin rule in the same blocks and steps (`over`), and over a comb
                  of the whole window with as many evaluations (`over_whole`), each with its standard error
    blocks.npz    nats of every text, so that a run that was broken off goes on: what is in it is not measured again

Rows with few evaluations come first. No row is begun that would not be done within the seconds given: run again.
"""

import argparse
import math
import time
from pathlib import Path
from typing import NamedTuple

import common
import corpus
import numpy as np
import torch

from unmask import models, names, order, size
from unmask._atomic import replacing
from unmask.evaluate.likelihood import replay
from unmask.schedule import Schedule

LENGTH = corpus.LENGTH
BATCH = 512  # texts at once: enough for a large GPU
BLOCKS = (4, 8, 16, 32)
STEPS = (2, 4, 8, 16)
BLIND = ("whole-comb", "comb", "spread", "dilated", "random", "left-to-right")
RANKED = ("confidence", "margin", "entropy")
MOST = 256  # evaluations
FIELDS = (
    "order", "block", "steps", "evaluations", "windows", "bits", "error", "over", "over_error", "over_whole",
    "over_whole_error",
)  # fmt: skip


class Row(NamedTuple):
    """An order inside blocks, or in the whole window where the block is as long as that."""

    order: str
    block: int
    steps: int

    @property
    def evaluations(self) -> int:
        return LENGTH // self.block * self.steps

    @property
    def schedule(self) -> Schedule:
        inner = names.ORDERS[self.order].make()
        return Schedule(size.Even(self.steps), inner if self.block == LENGTH else order.Blocks(inner, self.block))

    @property
    def margin(self) -> "Row":
        """What it is compared with: the margin rule in the same blocks and steps."""
        return Row("margin", self.block, self.steps)

    @property
    def whole(self) -> "Row":
        """The other: a comb of the whole window with as many evaluations."""
        return Row("whole-comb", LENGTH, self.evaluations)


def wanted() -> list[Row]:
    """All rows, those with few evaluations first; in one block they are those that would take as many steps."""
    pairs = [
        (block, steps) for block in BLOCKS for steps in STEPS if steps <= block and steps * LENGTH // block <= MOST
    ]
    rows: list[Row] = []
    for block, steps in pairs:
        # One by one, whatever does not look comes to a walk through the block: left to right stands for all of these.
        blind = BLIND if steps < block else ("random",)
        rows += [Row(name, block, steps) for name in (*RANKED, *blind)]
    counts = sorted({LENGTH // block * steps for block, steps in pairs})
    rows += [Row(name, LENGTH, count) for count in counts for name in ("whole-comb", "margin") if count < LENGTH]
    rows.append(Row("whole-comb", LENGTH, LENGTH))  # left to right, one by one
    return sorted(rows, key=lambda row: (row.evaluations, row.order not in ("whole-comb", "margin"), row.block))


def paired(nats: dict[str, np.ndarray], row: Row, other: Row, scale: float) -> tuple[str, str]:
    """The mean of the differences to another row and its error, in bits per character; nothing where it is that row."""
    if row == other or str(tuple(other)) not in nats:
        return "", ""
    over = (nats[str(tuple(row))] - nats[str(tuple(other))]) * scale
    return f"{over.mean():.5f}", f"{over.std(ddof=1) / len(over) ** 0.5:.5f}"


def table(nats: dict[str, np.ndarray]) -> list[dict[str, object]]:
    scale = 1 / (LENGTH * math.log(2))
    found = []
    for row in sorted(wanted(), key=lambda row: (row.block, row.steps)):
        if str(tuple(row)) not in nats:
            continue
        bits = nats[str(tuple(row))] * scale
        over, over_error = paired(nats, row, row.margin, scale)
        over_whole, over_whole_error = paired(nats, row, row.whole, scale)
        found.append(
            {
                "order": row.order,
                "block": "" if row.block == LENGTH else row.block,
                "steps": row.steps,
                "evaluations": row.evaluations,
                "windows": len(bits),
                "bits": f"{bits.mean():.5f}",
                "error": f"{bits.std(ddof=1) / len(bits) ** 0.5:.5f}",
                "over": over,
                "over_error": over_error,
                "over_whole": over_whole,
                "over_whole_error": over_whole_error,
            }
        )
    return found


def keep(folder: Path, nats: dict[str, np.ndarray]) -> None:
    with replacing(folder / "blocks.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **nats)
    common.write(folder / "blocks.csv", FIELDS, table(nats))


def main():
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    texts = corpus.test_windows(options.text, options.windows).to(device)
    predictor = models.load(models.BUILTIN, device=device).predictor
    kept = options.output / "blocks.npz"
    nats = dict(np.load(kept)) if kept.exists() else {}
    nats = {name: values for name, values in nats.items() if len(values) == len(texts)}
    left = [row for row in wanted() if str(tuple(row)) not in nats]
    print(f"{len(left)} rows, {sum(row.evaluations for row in left)} evaluations, {time.monotonic() - begin:.0f} s")
    slowest = 0.0
    for number, row in enumerate(left):
        start = time.monotonic()
        if start - begin + slowest * row.evaluations > options.seconds:
            print(f"{len(left) - number} rows are left: run again to go on")
            break
        result = replay(predictor, row.schedule, texts, rng=list(range(len(texts))), batch=BATCH)
        assert result.mean_evaluations == row.evaluations
        nats[str(tuple(row))] = result.nll.numpy()
        taken = time.monotonic() - start
        # The first run also loads kernels.
        slowest = max(slowest, taken / row.evaluations) if number else 0.0
        bits = nats[str(tuple(row))].mean() / LENGTH / math.log(2)
        print(*row, row.evaluations, f"{bits:.4f}", f"{taken:.1f} s, {time.monotonic() - begin:.0f} in all", flush=True)
        if number % 8 == 7:
            keep(options.output, nats)
    keep(options.output, nats)


if __name__ == "__main__":
    with torch.no_grad():
        main()
