"""What every rule costs the networks of a kind: chosen on validation rows, measured on test rows.

Costs are kept text by text (`costs.npz`), so that all differences are paired, and a run that was stopped goes on where
it was. The calibration from which `advise` chooses has the blind orders, whose best sizes it finds by itself, and every
rule of the list; the rows on which it was made are not those that are reported.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from experiments.atlas.kind import Kind, Rows
from experiments.atlas.rules import Rule, budgets, comb, rules, spread
from numpy.typing import NDArray

from unmask import InputError, order, size
from unmask._atomic import replacing
from unmask.calibration import Calibration, advise, blank, measure_orders, measure_rules
from unmask.evaluate import replay
from unmask.models.base import fingerprint
from unmask.models.shape import Network
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

Say = Callable[[str], object]


@final
@dataclass(frozen=True, eq=False)
class Cost:
    """What a rule cost on each text.

    Attributes:
        bits: Bits per token to fill, of each text.
        evaluations: Evaluations spent on each.
    """

    bits: NDArray[np.float64]
    evaluations: NDArray[np.float64]


def sequences(rows: Rows, count: int, device: str) -> Sequences:
    """The first so many rows, as the library takes them."""
    return Sequences.of(torch.from_numpy(rows.tokens[:count]), torch.from_numpy(rows.hidden[:count])).to(device)


@final
class Costs:
    """Costs by the name of a network and of a rule, kept in a file after every one.

    Arguments:
        path: The file.
        rows: How many texts are measured: costs of another number of them are not taken over.
    """

    def __init__(self, path: Path, rows: int):
        self.path = path
        self.found: dict[str, NDArray[np.float64]] = {}
        if path.exists():
            with np.load(path) as kept:
                self.found = {name: kept[name] for name in kept.files if kept[name].shape[1] == rows}

    def get(self, network: str, rule: str) -> Cost | None:
        both = self.found.get(f"{network}|{rule}")
        return None if both is None else Cost(both[0], both[1])

    def names(self, network: str) -> list[str]:
        return [name.split("|", 1)[1] for name in self.found if name.startswith(f"{network}|")]

    def put(self, network: str, rule: str, cost: Cost) -> None:
        self.found[f"{network}|{rule}"] = np.stack([cost.bits, cost.evaluations]).astype(np.float32)
        with replacing(self.path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.found)


def measured(
    predictor: MaskPredictor, network: str, wanted: Iterable[Rule], texts: Sequences, costs: Costs, batch: int, say: Say
) -> None:
    """The cost of every rule on these texts, one after the other; what is known is not measured again."""
    for rule in wanted:
        if costs.get(network, rule.name) is not None:
            continue
        begin = time.monotonic()
        found = replay(predictor, rule.schedule, texts, rng=list(range(len(texts))), batch=batch)
        cost = Cost(found.nll.numpy() / texts.counts.numpy() / math.log(2), found.evaluations.numpy().astype(float))
        costs.put(network, rule.name, cost)
        mean, spent = cost.bits.mean(), cost.evaluations.mean()
        say(f"{network} {rule.name}: {mean:.4f} bits, {spent:.1f} evaluations, {time.monotonic() - begin:.1f} s")


def orders_of(kind: Kind, count: int) -> dict[str, order.BlindOrder]:
    """The blind orders of a calibration: those whose best sizes are to be found."""
    found: dict[str, order.BlindOrder] = {"random": order.Random(), "spread": spread(kind)}
    for steps in budgets(count):
        if kind.layout is None:
            segments = max(1, count // steps)
            found[f"comb-{segments}"] = order.Comb(segments)
        else:
            found[f"comb of {steps} teeth"] = order.CombGrid(*kind.layout, teeth=steps)
    return found


def calibrated(
    kind: Kind, model: Network, texts: Sequences, wanted: Iterable[Rule], path: Path, batch: int, say: Say
) -> Calibration:
    """The calibration of a network that looks both ways, with every rule of the list; goes on with what is there."""
    predictor, count = model.predictor(), int(texts.counts.max())
    kept = Calibration.load(path) if path.exists() else blank(fingerprint(model), texts, 0)

    def save(found: Calibration) -> Calibration:
        found.save(path)
        return found

    begin = time.monotonic()
    kept = measure_orders(predictor, orders_of(kind, count), texts, kept, rng=0, batch=batch, save=save)
    say(f"calibrated {len(kept.losses)} orders in {time.monotonic() - begin:.0f} s")
    # Blind rules in these orders are forecast from their losses, the random order's of any sizes.
    listed = {rule.name: rule.schedule for rule in wanted if not forecast_already(rule)}
    kept = measure_rules(predictor, listed, texts, kept, rng=0, batch=batch, save=save)
    say(f"calibrated {len(kept.rules)} rules in {time.monotonic() - begin:.0f} s")
    return kept


def forecast_already(rule: Rule) -> bool:
    """Whether a calibration has the cost of a rule from the losses of its order."""
    return rule.order in ("random", "spread", "comb")


def advised(calibration: Calibration, count: int) -> list[Rule]:
    """What `advise` picks at every budget."""
    found = []
    for steps in budgets(count):
        try:
            advice = advise(calibration, steps=steps)
        except InputError:  # every blind order takes more
            continue
        found.append(Rule("advised", f"{steps}", advice.schedule))
    return found


def planned_rules(kind: Kind, count: int) -> list[Rule]:
    """What is measured of a network that is causal in the schedule."""
    found = [Rule("comb", f"even:{steps}", Schedule(size.Even(steps), comb(kind, shift=0))) for steps in budgets(count)]
    return found + [
        Rule("random", f"even:{steps}", Schedule(size.Even(steps), order.Random())) for steps in budgets(count)
    ]


def left_to_right(count: int) -> Rule:
    return Rule("left-to-right", f"even:{count}", Schedule(size.Even(count), order.LeftToRight()))


def listed(kind: Kind, texts: Sequences) -> list[Rule]:
    """All rules for these texts."""
    counts = texts.counts
    return list(rules(kind, int(counts.max()), equal=int(counts.min()) == int(counts.max())))
