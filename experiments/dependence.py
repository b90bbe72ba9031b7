"""Orders learned from measured dependence, on two laws whose best order is known: an Ising grid and a small Sudoku.

    python experiments/dependence.py [FOLDER]
    python experiments/dependence.py --text FILE

The first is 3 x 4 spins that like to be equal to their neighbours, the second the 288 ways to fill a 4 x 4 board with
four letters, each once in every row, column and quarter (Shidoku): a code, in which many pairs of cells tell little of
each other. Dependence is measured on samples with the exact predictor, as it would be with a model: after every set of
positions ("learned": 64 or 8 samples), and on average over sets as for many positions ("pairs": 2,048 or 256 samples).
Orders are learned from either with several seeds, what they cost is computed exactly, and the best order is found by
exhaustive search. Known orders are averaged over what is random in them. Writes dependence.csv (means over seeds, and
the worst) and draws dependence.svg; some minutes on one core.

With --text the built-in model: dependence by distance from 64 windows of a text, the order of 16 steps learned from it,
and its exact bits per character on 16 others, beside comb, spread and random order with the same
windows and seeds. Writes dependence-text.csv: the difference to each is paired.
"""

import functools
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

import common
import corpus
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unmask import models, order, plot, size
from unmask.calibration.dependence import Dependence
from unmask.calibration.learning import learned_order, learned_orders
from unmask.calibration.refinement import refine_order
from unmask.calibration.revealing import OwnPredictions, measure_dependence, measure_distances
from unmask.calibration.subsets import measure_sets
from unmask.distribution import Distribution
from unmask.evaluate.exact import Estimate
from unmask.evaluate.likelihood import replays
from unmask.evaluate.sets import SetDependence, SetLosses
from unmask.information.curve import Curve
from unmask.models.text import Store
from unmask.predict import ExactPredictor
from unmask.schedule import Schedule

BETA = 0.4  # of the Ising grid: near the critical point of large ones, 0.44
STEPS = {"ising": (2, 3, 4, 6), "shidoku": (2, 4, 8)}
COLUMNS = ("law", "steps", "order", "seeds", "excess", "over_best", "worst")
TEXT = ("order", "steps", "windows", "bits", "error", "learned_less", "learned_less_error")
DRAWS = 200


@final
@dataclass(frozen=True, eq=False)
class Listed(Distribution):
    """A law on sequences that can be listed.

    Arguments:
        sequences: The sequences, shape `(count, length)`.
        chances: The probability of each.
    """

    sequences: NDArray[np.int64]
    chances: NDArray[np.float64]

    @property
    def length(self) -> int:
        return self.sequences.shape[1]

    @property
    def vocab(self) -> int:
        return int(self.sequences.max()) + 1

    @functools.cached_property
    def _ones(self) -> NDArray[np.float64]:
        return np.eye(self.vocab)[self.sequences].reshape(len(self.sequences), -1)

    def curve(self) -> Curve:
        losses = SetLosses.listed(self.sequences, self.chances).losses
        seen = np.array([bin(each).count("1") for each in range(len(losses))])
        return Curve([losses[seen == n].sum() / (seen == n).sum() / (self.length - n) for n in range(self.length)])

    def log_probability(self, tokens: ArrayLike) -> NDArray[np.float64]:
        agree = (np.atleast_2d(tokens)[:, None] == self.sequences).all(axis=2)
        with np.errstate(divide="ignore"):
            return np.log(agree @ self.chances)

    def sample(self, count: int, *, rng) -> NDArray[np.int64]:
        return self.sequences[np.random.default_rng(rng).choice(len(self.sequences), size=count, p=self.chances)]

    @functools.cached_property
    def _sums(self) -> NDArray[np.float64]:
        """The probability of every context, in base `vocab + 1`: its last digit stands for a masked position."""
        cells = np.zeros((self.vocab,) * self.length)
        cells[tuple(self.sequences.T)] = self.chances
        for axis in range(self.length):
            cells = np.concatenate([cells, cells.sum(axis=axis, keepdims=True)], axis=axis)
        return cells.ravel()

    def _looked_up(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        base = (self.vocab + 1) ** np.arange(self.length - 1, -1, -1)
        given = np.where(masked, self.vocab, tokens)
        parts = (given @ base)[:, None, None] + (np.arange(self.vocab) - given[:, :, None]) * base[:, None]
        found = self._sums[parts]
        total = found.sum(axis=2, keepdims=True)
        return np.divide(found, total, out=np.full_like(found, 1 / self.vocab), where=total > 0)

    def _marginals(self, tokens: NDArray[np.int64], masked: NDArray[np.bool_]) -> NDArray[np.float64]:
        if (self.vocab + 1) ** self.length < 1 << 20:
            return self._looked_up(tokens, masked)
        # In how many revealed positions each sequence agrees, as one product of matrices.
        given = (np.eye(self.vocab)[tokens] * ~masked[..., None]).reshape(len(tokens), -1)
        agree = given @ self._ones.T >= (~masked).sum(axis=1, keepdims=True) - 0.5
        weight = agree * self.chances
        total = weight.sum(axis=1, keepdims=True)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
        found = (weight @ self._ones).reshape(*tokens.shape, self.vocab)
        found[total[:, 0] == 0] = 1 / self.vocab
        return found


def ising(height: int = 3, width: int = 4) -> Listed:
    """Spins 0 and 1 on a grid, `exp(β Σ ±1)` over neighbours: 1 where they are equal."""
    spins = np.array(list(itertools.product((0, 1), repeat=height * width)))
    grid = 2 * spins.reshape(-1, height, width) - 1
    equal = (grid[:, 1:] * grid[:, :-1]).sum(axis=(1, 2)) + (grid[:, :, 1:] * grid[:, :, :-1]).sum(axis=(1, 2))
    weight = np.exp(BETA * equal)
    return Listed(spins, weight / weight.sum())


def shidoku() -> Listed:
    """All 4 x 4 boards with four letters, each once in every row, column and quarter."""
    rows = list(itertools.permutations(range(4)))
    pairs = [(a, b) for a in rows for b in rows if len({*a[:2], *b[:2]}) == len({*a[2:], *b[2:]}) == 4]
    boards = [np.array([*top, *bottom]) for top in pairs for bottom in pairs]
    boards = [board for board in boards if all(len(set(column)) == 4 for column in board.T)]
    return Listed(np.array(boards).reshape(len(boards), 16), np.full(len(boards), 1 / len(boards)))


LAWS = {"ising": (ising, (3, 4), 64, 2048, 5), "shidoku": (shidoku, (4, 4), 8, 256, 3)}


@functools.cache
def law(name: str) -> tuple[Listed, SetLosses]:
    """A law and what every set of its positions costs."""
    found = LAWS[name][0]()
    return found, SetLosses.listed(found.sequences, found.chances)


@functools.cache
def dependence(name: str, seed: int) -> Dependence:
    """What is measured of its pairs."""
    found, _ = law(name)
    texts = torch.from_numpy(found.sample(LAWS[name][3], rng=seed))
    return measure_dependence(ExactPredictor(found), texts, rng=seed, gain=OwnPredictions(), batch=1024)


@functools.cache
def every_set(name: str, seed: int) -> SetDependence:
    """What is measured of it after every set of positions."""
    found, _ = law(name)
    return measure_sets(ExactPredictor(found), torch.from_numpy(found.sample(LAWS[name][2], rng=seed)), batch=1024)


def average(table: SetLosses, kind: order.BlindOrder, steps: int) -> float:
    """What an order costs above one by one, over what is random in it."""
    length, each = table.length, table.length // steps
    walks = [kind.arrange(np.arange(length), length=length, steps=steps, rng=seed) for seed in range(DRAWS)]
    return float(np.mean([table.excess(walk.reshape(-1, each).tolist()) for walk in walks]))


def compute(name: str, steps: int, seeds: int | None = None) -> dict[str, list[float]]:
    """Nats above one by one of each order with so many equal steps, for each seed; the best there is among them."""
    found, table = law(name)
    _, layout, _, _, usual = LAWS[name]
    sizes = [found.length // steps] * steps
    kinds = {
        "random": order.Random(),
        "comb": order.Comb(),
        "spread": order.Spread(),
        "comb-grid": order.CombGrid(*layout),
        "spread-grid": order.SpreadGrid(*layout),
    }
    result = {label: [average(table, kind, steps)] for label, kind in kinds.items()}
    every = range(usual if seeds is None else seeds)
    result["pairs"] = [table.excess(learned_order(dependence(name, seed), sizes, layout=layout)) for seed in every]
    result["learned"] = [table.excess(learned_order(every_set(name, seed), sizes)) for seed in every]
    if name == "shidoku":
        result["pairs, refined"] = [refined(name, steps, seed) for seed in every]
    result["best"] = [table.excess(table.best(sizes))]
    return result


def refined(name: str, steps: int, seed: int, evaluations: int = 1500) -> float:
    """The same of the orders that pairs teach, made better by exchanges on the samples of that seed."""
    found, table = law(name)
    _, layout, _, count, _ = LAWS[name]
    sizes = [found.length // steps] * steps
    learned = learned_orders(dependence(name, seed), sizes, layout=layout)[:16]
    starts: dict[str, order.BlindOrder] = {f"learned {n}": each for n, each in enumerate(learned)}
    texts = torch.from_numpy(found.sample(count, rng=seed))
    best = refine_order(ExactPredictor(found), starts, sizes, texts, rng=2, evaluations=evaluations, batch=1024)
    return table.excess(best.order)


def on_text(path: Path, steps: int = 16) -> list[dict[str, object]]:
    """Bits per character of the built-in model in learned, comb, spread and random order."""
    model = models.load(models.BUILTIN)
    length = model.length
    ids = torch.from_numpy(Store.of(corpus.read(path), corpus.ALPHABET).even_windows(length, 80))
    found = measure_distances(model.predictor, ids[:64], rng=0)
    learned = learned_order(found, [length // steps] * steps)
    kinds = {"learned": learned, "comb": order.Comb(), "whole comb": order.Comb(shift=0), "spread": order.Spread()}
    schedules = {name: Schedule(size.Even(steps), kind) for name, kind in (kinds | {"random": order.Random()}).items()}
    costs = replays(model.predictor, list(schedules.values()), ids[64:], rng=list(range(16)))
    nats = {name: np.asarray(each.nll) / length / np.log(2) for name, each in zip(schedules, costs, strict=True)}
    rows: list[dict[str, object]] = []
    for name, each in nats.items():
        own, less = Estimate.of(each), Estimate.of(each - nats["learned"])
        numbers = (name, steps, len(each), own.mean, own.standard_error, less.mean, less.standard_error)
        rows.append(dict(zip(TEXT, numbers, strict=True)))
        print(*rows[-1].values(), flush=True)
    return rows


def main():
    if sys.argv[1:2] == ["--text"]:
        common.write(common.RESULTS / "dependence-text.csv", TEXT, on_text(Path(sys.argv[2])))
        return
    figures, results = common.places("dependence")
    rows = []
    for name, steps in ((name, steps) for name, every in STEPS.items() for steps in every):
        costs = compute(name, steps)
        best = costs["best"][0]
        for label, each in costs.items():
            mean = float(np.mean(each))
            over = (mean / best, max(each) / best) if best > 1e-9 else ("", "")  # some make no error at all
            rows.append(dict(zip(COLUMNS, (name, steps, label, len(each), mean, *over), strict=True)))
            print(*rows[-1].values(), flush=True)
    common.write(results, COLUMNS, rows)
    laws = {"3 × 4 Ising grid": "ising", "4 × 4 Sudoku": "shidoku"}
    plot.dependence({title: dependence(name, 0).matrix for title, name in laws.items()}, figures)


if __name__ == "__main__":
    main()
