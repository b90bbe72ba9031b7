"""Is the cost that advice quotes the cost of what it advises?

Prompts of random length on a Markov chain, for which the model is exact: of 14 tokens the last `m` are to be filled,
`m` uniform from 6 to 12. 4,000 such texts are the population. Advice is asked for on some rows drawn from it, with a
number of steps and with a target, and what is quoted is compared with the exact cost of the advised schedule on the
whole population, many times. Rules that look at predictions are about as good as the best blind schedule: which is
cheapest on some texts is much a matter of luck. There are two chains. The sticky one keeps its token with probability
0.8. The other has an easy part that is hardly ever left and a hard one, so that a few texts say little of their mean.

    python benchmarks/quotes.py --chain sticky --repetitions 300 --rows 16

Said are how often the true cost lies within two quoted standard errors, and the mean difference in units of these; for
comparison the same of the cost on the texts that the schedule was chosen on.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
import torch

from unmask import order, size
from unmask.calibration import Calibration, Candidate, MeasuredRule, Mixed, advise, measure
from unmask.distribution import Markov
from unmask.evaluate import replays
from unmask.predict import ExactPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

LENGTH, FEWEST, MOST = 14, 6, 12
STAY, LEAVE, EASY = 0.8, 0.02, 0.6
OTHER = (1 - LEAVE - STAY) / 2
ENTER = LEAVE * (1 - EASY) / EASY / 3
CHAINS = {
    "sticky": Markov.sticky(3, STAY, LENGTH),
    "two-parts": Markov(
        [
            [1 - 3 * ENTER, ENTER, ENTER, ENTER],
            [LEAVE, STAY, OTHER, OTHER],
            [LEAVE, OTHER, STAY, OTHER],
            [LEAVE, OTHER, OTHER, STAY],
        ],
        LENGTH,
    ),
}
ORDERS = {"random": order.Random(), "spread": order.Spread(), "left-to-right": order.LeftToRight()}
RULES = {
    **{f"spread/entropy-bound:{b:g}": Schedule(size.EntropyBound(b), order.Spread()) for b in (1.0, 1.5, 2.0, 3.0)},
    **{f"spread/threshold:{p:g}": Schedule(size.Threshold(p), order.Spread()) for p in (0.6, 0.7)},
    **{f"confidence/even:{k}": Schedule(size.Even(k), order.Confidence()) for k in (2, 4)},
    "confidence/threshold:0.9": Schedule(size.Threshold(0.9), order.Confidence()),
    "entropy/entropy-bound:0.5": Schedule(size.EntropyBound(0.5), order.Entropy()),
}
ASKED = {"sticky": ({"steps": 4}, {"target": 0.06}), "two-parts": ({"steps": 3}, {"target": 0.15})}


def texts(chain, count, seed):
    """Texts whose beginning is given."""
    rng = np.random.default_rng(seed)
    tokens = chain.sample(count, rng=rng)
    prompt = LENGTH - rng.integers(FEWEST, MOST + 1, size=count)
    return Sequences.of(torch.from_numpy(tokens), torch.from_numpy(np.arange(LENGTH) >= prompt[:, None]))


class Population:
    """Everything that is measured of so many texts."""

    def __init__(self, chain, count=4000, points=6, seed=1):
        given = texts(chain, count, seed)
        self.count, self.predictor, self.tokens = count, ExactPredictor(chain), given.counts.numpy()
        self.losses = self._measured(given, points, seed)
        # With all places nothing is interpolated: this is the truth.
        self.whole = self._measured(given, MOST, seed)
        found = replays(
            self.predictor, list(RULES.values()), given, rng=torch.Generator().manual_seed(seed), batch=1000
        )
        self.rules = {
            name: (schedule, each.nll.numpy(), each.evaluations.numpy())
            for (name, schedule), each in zip(RULES.items(), found, strict=True)
        }

    def _measured(self, given, points, seed):
        places = {name: points if name == "spread" else MOST for name in ORDERS}
        return {
            name: measure(self.predictor, kind, given, rng=seed, points=places[name], batch=1000)
            for name, kind in ORDERS.items()
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
        found = self.whole[chosen.name]
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
    parser.add_argument("--chain", choices=CHAINS, default="sticky")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=[16, 64, 256])
    given = parser.parse_args()
    population = Population(CHAINS[given.chain])
    for rows in given.rows:
        for asked in ASKED[given.chain]:
            true, cost, error, naive, naive_error, rule = study(population, rows, given.repetitions, asked)
            for what, mean, spread in (("quoted", cost, error), ("same texts", naive, naive_error)):
                inside = float((np.abs(mean - true) <= 2 * spread).mean())
                print(
                    f"{rows:4d} rows {json.dumps(asked):16s} {what:10s} within 2 errors {inside:6.1%}, mean error "
                    f"{(mean - true).mean() / spread.mean():+.3f} errors; a rule wins in {rule.mean():.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
