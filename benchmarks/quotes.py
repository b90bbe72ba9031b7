"""Is the cost that advice quotes the cost of what it advises?

Prompts of random length on distributions for which the model is exact: of 14 tokens the last `m` are to be filled, `m`
uniform from 6 to 12. 4,000 such texts are the population. Advice is asked for on some rows drawn from it, with a
number of steps and with a target, and what is quoted is compared with the exact cost of the advised schedule on the
whole population, many times. Rules that look at predictions are about as good as the best blind schedule: which is
cheapest on some texts is much a matter of luck. A chain keeps its token with probability 0.8. Another one, "two-parts",
has an easy part that is hardly ever left and a hard one, so that a few texts say little of their mean. The code is one
of Reed and Solomon, the mixture one of two biased coins.

    python benchmarks/quotes.py --law chain --repetitions 300 --rows 16 --output benchmarks/results/quotes.csv

Said are how often the true cost lies within two quoted standard errors, and the mean difference in units of these; for
comparison the same of the cost on the texts that the schedule was chosen on. Rows are added to the file.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from unmask import order, size
from unmask.calibration import Calibration, Candidate, MeasuredRule, Mixed, advise, measure
from unmask.distribution import Markov, Mixture, ReedSolomon
from unmask.evaluate import replays
from unmask.predict import ExactPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

LENGTH, FEWEST, MOST = 14, 6, 12
STAY, LEAVE, EASY = 0.8, 0.02, 0.6
OTHER = (1 - LEAVE - STAY) / 2
ENTER = LEAVE * (1 - EASY) / EASY / 3
LAWS = {
    "chain": Markov.sticky(3, STAY, LENGTH),
    "two-parts": Markov(
        [
            [1 - 3 * ENTER, ENTER, ENTER, ENTER],
            [LEAVE, STAY, OTHER, OTHER],
            [LEAVE, OTHER, STAY, OTHER],
            [LEAVE, OTHER, OTHER, STAY],
        ],
        LENGTH,
    ),
    "code": ReedSolomon(LENGTH, 7, 16),
    "mixture": Mixture([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length=LENGTH),
}
ORDERS = {"random": order.Random(), "spread": order.Spread(), "left-to-right": order.LeftToRight()}
RULES = {
    **{f"spread/entropy-bound:{b:g}": Schedule(size.EntropyBound(b), order.Spread()) for b in (1.0, 1.5, 2.0, 3.0)},
    **{f"spread/threshold:{p:g}": Schedule(size.Threshold(p), order.Spread()) for p in (0.6, 0.7)},
    **{f"confidence/even:{k}": Schedule(size.Even(k), order.Confidence()) for k in (2, 4)},
    "confidence/threshold:0.9": Schedule(size.Threshold(0.9), order.Confidence()),
    "entropy/entropy-bound:0.5": Schedule(size.EntropyBound(0.5), order.Entropy()),
}
ASKED = {
    "chain": ({"steps": 4}, {"target": 0.06}),
    "two-parts": ({"steps": 3}, {"target": 0.15}),
    "code": ({"steps": 4}, {"target": 0.3}),
    "mixture": ({"steps": 4}, {"target": 0.01}),
}
COLUMNS = ("law", "rows", "asked", "repetitions", "inside", "mean_error", "inside_same", "mean_error_same", "rules")


def texts(chain, count, seed):
    """Texts whose beginning is given."""
    rng = np.random.default_rng(seed)
    tokens = chain.sample(count, rng=rng)
    prompt = LENGTH - rng.integers(FEWEST, MOST + 1, size=count)
    return Sequences.of(torch.from_numpy(tokens), torch.from_numpy(np.arange(LENGTH) >= prompt[:, None]))


class Population:
    """Everything that is measured of so many texts."""

    def __init__(self, chain, count=4000, points=33, seed=1):
        given = texts(chain, count, seed)
        self.count, self.predictor, self.tokens = count, ExactPredictor(chain), given.counts.numpy()
        # As many places as `unmask calibrate` takes: of so few tokens that is all of them, and nothing is interpolated.
        self.losses = {
            name: measure(self.predictor, kind, given, rng=seed, points=points, batch=1000)
            for name, kind in ORDERS.items()
        }
        found = replays(
            self.predictor, list(RULES.values()), given, rng=torch.Generator().manual_seed(seed), batch=1000
        )
        self.rules = {
            name: (schedule, each.nll.numpy(), each.evaluations.numpy())
            for (name, schedule), each in zip(RULES.items(), found, strict=True)
        }

    def calibration(self, chosen):
        """The calibration of some of the texts."""
        losses = {
            name: replace(each, tokens=each.tokens[chosen], cells=each.cells[chosen])
            for name, each in self.losses.items()
        }
        rules = {
            name: MeasuredRule.of(schedule, nll[chosen], spent[chosen], self.tokens[chosen])
            for name, (schedule, nll, spent) in self.rules.items()
        }
        return Calibration(MOST, "", len(chosen), losses, rules=rules)

    def cost(self, chosen: Candidate):
        """What a candidate costs on all texts, in nats per token."""
        if chosen.measured:
            return float(self.rules[chosen.name][1].mean() / self.tokens.mean())
        found = self.losses[chosen.name]
        assert isinstance(found, Mixed)
        return float(found.each(chosen.plan.size).mean() / self.tokens.mean())


def study(population, rows, repetitions, asked, seed=0):
    """Of each repetition: true cost, quoted cost and error, cost and error on the texts of the choice, if a rule won.

    Nats per token.
    """
    result = []
    for number in range(repetitions):
        chosen = np.random.default_rng([seed, rows, number]).integers(population.count, size=rows)
        advice = advise(population.calibration(chosen), **asked)
        true = population.cost(advice.candidates[0])
        nats = np.array((advice.cost, advice.cost_error, advice.plan.nll, advice.plan.error)) / advice.tokens
        result.append((true, *nats, advice.measured))
    return np.array(result).T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--law", choices=LAWS, default="chain")
    parser.add_argument("--output", type=Path, help="A CSV to add rows to.")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=[16, 64, 256])
    given = parser.parse_args()
    population = Population(LAWS[given.law])
    for rows in given.rows:
        for asked in ASKED[given.law]:
            true, cost, error, naive, naive_error, rule = study(population, rows, given.repetitions, asked)
            said = []
            for mean, spread in ((cost, error), (naive, naive_error)):
                said += [(np.abs(mean - true) <= 2 * spread + 1e-9).mean(), (mean - true).mean() / spread.mean()]
            words = " ".join(f"{name} {value:g}" for name, value in asked.items())
            line = [given.law, rows, words, given.repetitions, *(f"{value:.4f}" for value in (*said, rule.mean()))]
            print(*line, flush=True)
            if given.output is not None:
                fresh = not given.output.exists()
                with given.output.open("a", newline="") as file:
                    csv.writer(file).writerows([COLUMNS, line] if fresh else [line])


if __name__ == "__main__":
    main()
