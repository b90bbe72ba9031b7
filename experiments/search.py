"""The best periodic order there is for the built-in model, found exactly, and a few others that were thought of.

    python experiments/search.py TEXT [--model builtin] [--valid 256] [--test 1024] [--output experiments/results]

In a periodic order all positions of one residue modulo 16 are revealed together; a comb is `0, 1, 2, …`, but any of the
16! orders may be better, and so may steps of several residues. The loss of residue `r` when the residues of a set `S`
are visible is measured for every `S` up to rotation (4,116 of them) on validation text. Then the cost of every schedule
that reveals whole residues is a path through the 65,536 sets, and the best one for each number of steps is a shortest
path. The winners, and the orders that people think of, are then measured by replay on the test split, where nothing was
chosen. Writes search.csv.
"""

import math
import time

import common
import corpus
import numpy as np
import torch
from numpy.typing import NDArray

from unmask import models, order, size
from unmask.evaluate.exact import Estimate
from unmask.evaluate.likelihood import replay
from unmask.schedule import Schedule

PERIOD = 16
FULL = (1 << PERIOD) - 1
# One residue at a time, in orders that people think of.
GUESSES = {
    "comb": list(range(PERIOD)),
    "both sides": [r for pair in zip(range(8), range(15, 7, -1), strict=True) for r in pair],
    "two runs": [r for pair in zip(range(8), range(8, 16), strict=True) for r in pair],
    "four anchors, then runs": [0, 8, 4, 12, *(a + b for b in (1, 2, 3) for a in (0, 8, 4, 12))],
    "bit reversal": order.bit_reversal(PERIOD).tolist(),
    "every second, then the gaps": [*range(0, 16, 2), *range(1, 16, 2)],
}


def rotated(subset: int, by: int) -> int:
    return ((subset << by) | (subset >> (PERIOD - by))) & FULL


@torch.no_grad()
def losses(model: models.Model, texts: torch.Tensor) -> NDArray[np.float64]:
    """Nats per token of residue `r` when those of `S` are visible, shape `(2^16, 16)`; NaN where it is visible."""
    count, length = texts.shape
    shift = torch.arange(count, device=texts.device) % PERIOD
    residue = (torch.arange(length, device=texts.device) - shift[:, None]) % PERIOD
    table = np.full((FULL + 1, PERIOD), np.nan)
    begin = time.monotonic()
    for subset in range(FULL):
        if any(rotated(subset, by) < subset for by in range(1, PERIOD)):
            continue
        masked = ((subset >> residue) & 1) == 0
        rows = torch.nonzero(masked.flatten())[:, 0]
        prediction = model.predictor(texts.masked_fill(masked, model.predictor.mask), masked, rows)
        total = torch.zeros(PERIOD, dtype=torch.float64, device=texts.device)
        total.index_add_(0, residue.flatten()[rows], prediction.losses(texts.flatten()[rows]))
        mean = (total * PERIOD / texts.numel()).cpu().numpy()
        for by in range(PERIOD):
            turned = rotated(subset, by)
            hidden = [r for r in range(PERIOD) if not subset >> r & 1]
            table[turned, [(r + by) % PERIOD for r in hidden]] = mean[hidden]
    print(f"{len(texts)} texts, all sets, in {time.monotonic() - begin:.0f} s", flush=True)
    return table


def costs(table: NDArray[np.float64], device: str | torch.device = "cpu") -> NDArray[np.float64]:
    """Cost of the best way to each set in `k` steps, shape `(period + 1, 2^period)`; infinite where there is none."""
    period = table.shape[1]
    loss = torch.from_numpy(np.nan_to_num(table)).to(device)
    # Every pair of a set and a step from it: each residue is hidden after it, revealed in it, or visible before.
    start = torch.zeros(1, dtype=torch.int64, device=device)
    step = start
    for r in range(period):
        start = torch.cat([start, start, start | 1 << r])
        step = torch.cat([step, step | 1 << r, step])
    added = torch.zeros(len(start), dtype=torch.float64, device=device)
    for r in range(period):
        added += torch.where((step >> r) & 1 == 1, loss[start, r], 0.0)
    end = start | step
    added[step == 0] = torch.inf
    cost = torch.full((period + 1, 1 << period), torch.inf, dtype=torch.float64, device=device)
    cost[0, 0] = 0.0
    for k in range(period):
        cost[k + 1].scatter_reduce_(0, end, cost[k][start] + added, "amin")
    return cost.cpu().numpy()


def best(table: NDArray[np.float64], cost: NDArray[np.float64], steps: int) -> list[list[int]]:
    """The residues of each step of the best schedule with so many steps."""
    period = table.shape[1]
    groups, end = [], (1 << period) - 1
    for k in range(steps, 0, -1):
        starts = [s for s in range(end) if s & end == s and np.isfinite(cost[k - 1, s])]
        gained = [[r for r in range(period) if (end ^ s) >> r & 1] for s in starts]
        total = [cost[k - 1, s] + table[s, group].sum() for s, group in zip(starts, gained, strict=True)]
        first = int(np.argmin(total))
        groups.append(gained[first])
        end = starts[first]
    return groups[::-1]


def predicted(table: NDArray[np.float64], groups: list[list[int]]) -> float:
    """Nats per period of a schedule that reveals these residues step by step."""
    seen, total = 0, 0.0
    for group in groups:
        total += table[seen, group].sum()
        seen |= sum(1 << r for r in group)
    return total


def candidates(table: NDArray[np.float64], cost: NDArray[np.float64]) -> dict[tuple[str, int], list[list[int]]]:
    """Name and number of steps -> the residues of each step."""
    found = {}
    for name, residues in GUESSES.items():
        found[name, 16] = [[r] for r in residues]
        found[name, 8] = [residues[k : k + 2] for k in range(0, 16, 2)]
        found[name, 4] = [residues[k : k + 4] for k in range(0, 16, 4)]
    for steps in (4, 6, 8, 10, 12, 16):
        found["best of all", steps] = best(table, cost, steps)
    return found


def main():
    model, valid, texts, output = corpus.task(__doc__, valid=256, test=1024)
    table = losses(model, valid)
    cost = costs(table, texts.device)
    repeats, rows, reference = corpus.LENGTH // PERIOD, [], {}
    for (name, steps), groups in candidates(table, cost).items():
        flat = [r for group in groups for r in group]
        schedule = Schedule(size.Explicit([repeats * len(group) for group in groups]), order.Periodic(flat))
        nll = replay(model.predictor, schedule, texts, rng=list(range(len(texts))), batch=1024).nll.numpy()
        # The comb with one tooth for each step, whatever its period.
        if steps not in reference:
            comb = Schedule(size.Even(steps), order.Comb())
            reference[steps] = replay(model.predictor, comb, texts, rng=list(range(len(texts))), batch=1024).nll.numpy()
        total, gain = Estimate.of(nll), Estimate.of(nll - reference[steps])
        scale = 1 / (corpus.LENGTH * math.log(2))
        row = {
            "name": name,
            "steps": steps,
            "bits": f"{total.mean * scale:.5f}",
            "error": f"{total.standard_error * scale:.5f}",
            "over_comb": f"{gain.mean * scale:.5f}",
            "over_comb_error": f"{gain.standard_error * scale:.5f}",
            "predicted": f"{predicted(table, groups) / PERIOD / math.log(2):.5f}",
            "residues": " | ".join(" ".join(map(str, group)) for group in groups),
        }
        print(*row.values(), flush=True)
        rows.append(row)
    common.write(output / "search.csv", list(rows[0]), rows)


if __name__ == "__main__":
    main()
