"""Does a model gain from being fine-tuned on the likelihood of its own sampler? An example of gradients of replay.

    python experiments/finetune.py [--first 2000] [--updates 400] [--output experiments/results]

A small transformer (0.1 million parameters, 32 tokens at a time) learns texts of a Markov chain with the ordinary
objective, uniformly masked. From the same weights, with the same texts, it then goes on in several ways, the first
three for as many updates at the same rates:

    uniform    the ordinary objective
    masks      the masks that a comb of 4 steps visits, one step of each text: the same mean as the next, with noise
    replay     minus the log-likelihood of the texts under the sampler with that comb: all its steps, with gradients
    longer     as `masks`, with four times the updates and texts: as many evaluations with gradients as `replay`

All are measured by replay on texts that none has seen, under that comb; differences are paired. What the comb costs a
perfect predictor is the floor. Writes finetune.csv; some six minutes of a busy core.
"""

import argparse
import copy
import math
import time
from pathlib import Path

import common
import numpy as np
import torch

from unmask import order, size
from unmask.distribution import Markov
from unmask.evaluate import Estimate, log_likelihood, replay
from unmask.models.transformer import Config, Transformer
from unmask.predict import ExactPredictor, MaskPredictor
from unmask.schedule import Schedule
from unmask.train.masks import Lessons, ScheduleMasks, UniformMasks

VOCAB, LENGTH, BATCH = 12, 32, 32
STEPS = 4
COMB = Schedule(size.Even(STEPS), order.Comb())
WAYS = {"uniform": 1, "masks": 1, "replay": 1, "longer": STEPS}  # and how many times the updates each has
COLUMNS = ("way", "seconds", "bits", "error", "over_uniform", "over_uniform_error", "over_floor", "over_floor_error")


def chain(seed: int = 0) -> Markov:
    """A chain in which every token has some that like to follow it."""
    return Markov(np.random.default_rng(seed).dirichlet(np.full(VOCAB, 0.2), size=VOCAB), LENGTH)


def network() -> Transformer:
    torch.manual_seed(0)
    return Config(VOCAB, LENGTH, width=48, layers=2, readers=1, heads=3, hidden=96, reader_hidden=96).network()


def taught(model: Transformer, law: Markov, way: str, updates: int, rate: float, seed: int) -> float:
    """Teach a model in place; texts, and the rates from their peak down to zero, are the same for every way."""
    lessons: Lessons = UniformMasks() if way == "uniform" else ScheduleMasks(COMB)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    begin = time.perf_counter()
    for step in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / updates))
        texts = law.sample(BATCH, rng=np.random.default_rng((seed, step, 0)))
        source = np.random.default_rng((seed, step, 1))
        if way == "replay":
            value = log_likelihood(model.predictor(), COMB, torch.from_numpy(texts), rng=source)
            loss = -value.mean() / LENGTH
        else:
            batch = lessons.batch(texts, VOCAB, rng=source)
            loss = batch.loss(model(*batch.inputs))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return time.perf_counter() - begin


def measured(first: int, updates: int, texts: int) -> list[dict[str, object]]:
    """A row for the model before, one for each way, and one for a perfect predictor."""
    law = chain()
    held = torch.from_numpy(law.sample(texts, rng=np.random.default_rng(10**6)))
    seeds = list(range(texts))

    def bits(predictor: MaskPredictor) -> np.ndarray:
        return replay(predictor, COMB, held, rng=seeds, batch=256).nll.numpy() / (LENGTH * math.log(2))

    model = network()
    spent = {"before": taught(model, law, "uniform", first, 3e-3, seed=1)}
    found = {"before": bits(model.predictor())}
    for way, times in WAYS.items():
        own = copy.deepcopy(model)
        spent[way] = taught(own, law, way, times * updates, 1e-3, seed=2)
        found[way] = bits(own.predictor())
    found["floor"] = bits(ExactPredictor(law))
    rows: list[dict[str, object]] = []
    for way, cost in found.items():
        total, gain, above = (Estimate.of(each) for each in (cost, cost - found["uniform"], cost - found["floor"]))
        rows.append(
            {
                "way": way,
                "seconds": round(spent.get(way, 0.0), 1),
                "bits": total.mean,
                "error": total.standard_error,
                "over_uniform": gain.mean,
                "over_uniform_error": gain.standard_error,
                "over_floor": above.mean,
                "over_floor_error": above.standard_error,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=2000)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--texts", type=int, default=4096)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    rows = measured(options.first, options.updates, options.texts)
    for row in rows:
        print(*(f"{cell:.5f}" if isinstance(cell, float) else cell for cell in row.values()))
    common.write(options.output / "finetune.csv", COLUMNS, rows)


if __name__ == "__main__":
    main()
