"""Learning from a reward with exact log-probabilities: score-function gradients of the sampler itself.

    python experiments/reward.py [--updates 300] [--output experiments/results]

A small transformer that is causal in the schedule writes 6 tokens of 4 kinds in 3 steps of a comb. The reward `r(x)` of
a text is the share of its neighbours that differ by one, in a circle. Alone it would be learned by always writing one
text, so what is maximised is

    E[r(x)] − β KL(p, uniform),          the same as E[r(x) − β log p(x)] but for a constant,

with β = 0.1; it is at most `β log mean exp(r/β)`, over all laws. Every update draws 64 texts, asks for their exact
log-probabilities under the sampler (`unmask.evaluate.log_likelihood`, with the seeds of their trace), and ascends

    mean of (g(x) − b(x)) log p(x | randomness)          g(x) = r(x) − β log p(x), b(x): the mean g of the other texts

which is an unbiased estimate of the gradient. There are 4096 texts, so that every twentieth update all is also computed
exactly, by summing over them. Writes reward.csv; half a minute on one core. In `tests/test_gradients.py` the estimate
is held against the exact gradient.
"""

import argparse
import math
from itertools import product
from pathlib import Path

import common
import numpy as np
import torch

from unmask import order, size
from unmask.evaluate import log_likelihood
from unmask.models.causal import Causal, CausalConfig
from unmask.predict import MaskPredictor
from unmask.sample import Sampler
from unmask.schedule import Schedule

VOCAB, LENGTH, TEXTS, BETA = 4, 6, 64, 0.1
COMB = Schedule(size.Even(3), order.Comb(shift=0))
COLUMNS = ("update", "drawn", "reward", "bits", "goal", "most")


def reward(tokens: torch.Tensor) -> torch.Tensor:
    """The share of neighbours of each text that differ by one, in a circle of `VOCAB` tokens."""
    gap = (tokens[:, 1:] - tokens[:, :-1]) % VOCAB
    return ((gap == 1) | (gap == VOCAB - 1)).double().mean(dim=1)


def estimated(
    predictor: MaskPredictor, schedule: Schedule, texts: int, length: int, *, rng: np.random.Generator
) -> tuple[torch.Tensor, float]:
    """A number whose gradient is an unbiased estimate of that of the goal; and the mean reward of what was drawn."""
    trace = Sampler(predictor, schedule).run((texts, length), rng=rng)
    value = log_likelihood(predictor, schedule, trace.tokens, rng=trace.seeds)
    worth = reward(trace.tokens)
    goal = worth - BETA * value.detach()
    others = (goal.sum() - goal) / (texts - 1)  # of the other texts, which know nothing of this one
    return ((goal - others) * value).mean(), float(worth.mean())


def exact(predictor: MaskPredictor, schedule: Schedule, vocab: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The expected reward and the entropy in nats by summing over all texts, with gradients.

    The schedule must draw nothing.
    """
    every = everything(vocab, length)
    value = log_likelihood(predictor, schedule, every, rng=[0] * len(every), batch=4096)
    return (value.exp() * reward(every)).sum(), -(value.exp() * value).sum()


def everything(vocab: int, length: int) -> torch.Tensor:
    """All texts."""
    return torch.tensor(list(product(range(vocab), repeat=length)))


def network() -> Causal:
    torch.manual_seed(0)
    return CausalConfig(VOCAB, LENGTH, width=32, layers=1, readers=1, heads=2, hidden=64, reader_hidden=64).network()


def learned(updates: int, every: int = 20) -> list[dict[str, object]]:
    """The learning curve: the mean reward of what was drawn, and before every twentieth update what is exact."""
    model = network()
    predictor, optimiser = model.predictor(), torch.optim.Adam(model.parameters(), lr=1e-3)
    most = BETA * float(torch.exp(reward(everything(VOCAB, LENGTH)) / BETA).mean().log())
    rows, recent = list[dict[str, object]](), list[float]()
    for update in range(updates + 1):
        goal, drawn = estimated(predictor, COMB, TEXTS, LENGTH, rng=np.random.default_rng((1, update)))
        recent.append(drawn)
        if update % every == 0:
            with torch.no_grad():
                worth, entropy = (float(each) for each in exact(predictor, COMB, VOCAB, LENGTH))
            rows.append(
                {
                    "update": update,
                    "drawn": float(np.mean(recent)),
                    "reward": worth,
                    "bits": entropy / math.log(2),
                    "goal": worth + BETA * (entropy - LENGTH * math.log(VOCAB)),
                    "most": most,
                }
            )
            recent = []
        optimiser.zero_grad(set_to_none=True)
        (-goal).backward()
        optimiser.step()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--output", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    rows = learned(options.updates)
    for row in rows:
        print(*(f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row.values()))
    common.write(options.output / "reward.csv", COLUMNS, rows)


if __name__ == "__main__":
    main()
