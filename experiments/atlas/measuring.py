"""What every rule costs the networks of a kind: chosen on validation rows, measured on test rows.

Costs are kept text by text (`costs-NETWORK.npz`), so that all differences are paired, and a run that was stopped goes
on where it was. The calibration from which `advise` chooses has the blind orders, whose best sizes it finds by itself,
and every rule of the list; the rows on which it was made are not those that are reported.
"""

import json
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
from unmask.calibration import Calibration, blank, measure_orders, measure_rules
from unmask.calibration.choice import choose
from unmask.evaluate import random_order, replay
from unmask.models.base import fingerprint
from unmask.models.shape import Network
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

Say = Callable[[str], object]
WHOLE = ("network", "rule", "texts", "evaluations", "nats", "error", "exact")  # columns
_LEVELS = 16  # evaluations of each text, to estimate what one by one in random order costs


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
    """So many rows, spread evenly, as the library takes them."""
    some = rows.spread(count)
    return Sequences.of(torch.from_numpy(some.tokens), torch.from_numpy(some.hidden)).to(device)


@final
class Costs:
    """Costs by the name of a network and of a rule, kept in a file for each network after every one.

    Arguments:
        folder: Where the files are.
        rows: How many texts are measured: costs of another number of them are not taken over.
    """

    def __init__(self, folder: Path, rows: int):
        self.folder = folder
        self.found: dict[str, dict[str, NDArray[np.float32]]] = {}
        for path in sorted(folder.glob("costs-*.npz")):
            with np.load(path) as kept:
                costs = {name: kept[name] for name in kept.files}
            network = path.stem.removeprefix("costs-")
            self.found[network] = {name: both for name, both in costs.items() if both.shape[1] == rows}

    def get(self, network: str, rule: str) -> Cost | None:
        both = self.found.get(network, {}).get(rule)
        return None if both is None else Cost(both[0].astype(np.float64), both[1].astype(np.float64))

    def names(self, network: str) -> list[str]:
        return list(self.found.get(network, {}))

    def put(self, network: str, rule: str, cost: Cost) -> None:
        mine = self.found.setdefault(network, {})
        mine[rule] = np.stack([cost.bits, cost.evaluations]).astype(np.float32)
        with replacing(self.folder / f"costs-{network}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **mine)  # pyright: ignore[reportArgumentType]


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
    return Calibration.load(path)  # as it will be read from now on: a file has fewer digits


def forecast_already(rule: Rule) -> bool:
    """Whether a calibration has the cost of a rule from the losses of its order."""
    return rule.order in ("random", "spread", "comb")


def advised(calibration: Calibration, count: int, path: Path) -> list[Rule]:
    """What `advise` picks at every budget, from validation rows alone; kept as JSON.

    The choice is that of `advise`, without its estimate of what to expect on other texts: that is what is measured
    here, and takes minutes where loops are not compiled.
    """
    of = [calibration.model, calibration.source, len(calibration.rules), budgets(count)]
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if kept.get("of") != of:
        kept = {"of": of, "schedules": {}}
        for steps in budgets(count):
            try:
                kept["schedules"][str(steps)] = choose(calibration, None, steps).ranked[0].plan.schedule.to_json()
            except InputError:  # every blind order takes more
                continue
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(kept), encoding="utf-8")
    return [Rule("advised", steps, Schedule.from_json(saved)) for steps, saved in kept["schedules"].items()]


def causal_rules(kind: Kind, count: int) -> list[Rule]:
    """What is measured of a network that is causal in the schedule: what it learned, and one rule that looks."""
    found = []
    for name, which in {"comb": comb(kind, shift=0), "random": order.Random(), "margin": order.Margin()}.items():
        found += [Rule(name, f"even:{steps}", Schedule(size.Even(steps), which)) for steps in budgets(count)]
    return found


def compared(kind: Kind, count: int) -> list[Rule]:
    """What is measured of a network that learned from masks of combs: enough to compare it with its twin."""
    orders = {"random": order.Random(), "spread": spread(kind), "comb": comb(kind), "margin": order.Margin()}
    found = [
        Rule(name, f"even:{steps}", Schedule(size.Even(steps), which))
        for steps in budgets(count)
        for name, which in orders.items()
    ]
    return [*found, Rule("random", f"even:{count}", Schedule(size.Even(count), order.Random()))]


def left_to_right(count: int) -> Rule:
    return Rule("left-to-right", f"even:{count}", Schedule(size.Even(count), order.LeftToRight()))


def listed(kind: Kind, texts: Sequences) -> list[Rule]:
    """All rules for these texts."""
    counts = texts.counts
    return list(rules(kind, int(counts.max()), equal=int(counts.min()) == int(counts.max())))


def whole(
    predictor: MaskPredictor, network: str, wanted: Iterable[Rule], texts: Sequences, path: Path, batch: int, say: Say
) -> None:
    """Nats of whole texts, kept as JSON: by replay where that takes one pass, and else one by one in random order.

    One by one, a network that looks both ways takes an evaluation for every token. The mean over all orders, which is
    what an order-agnostic likelihood is, is estimated without bias from a few (`unmask.evaluate.levels`).
    """
    found: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    known = {(row["network"], row["rule"]) for row in found if row["texts"] == len(texts)}
    found = [row for row in found if row["texts"] == len(texts)]

    def put(rule: str, nats: NDArray[np.float64], evaluations: float, *, exact: bool) -> None:
        error = float(nats.std(ddof=1) / math.sqrt(len(nats)))
        values = (network, rule, len(texts), evaluations, float(nats.mean()), error, "yes" if exact else "no")
        found.append(dict(zip(WHOLE, values, strict=True)))
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
        say(f"{network} {rule}: {nats.mean():.2f} nats on {len(texts)} texts")

    for rule in wanted:
        if (network, rule.name) not in known:
            each = replay(predictor, rule.schedule, texts, rng=list(range(len(texts))), batch=batch)
            put(rule.name, each.nll.numpy(), float(each.evaluations.double().mean()), exact=True)
    agnostic = f"random/even:{int(texts.counts.max())}"
    if not predictor.remembers and (network, agnostic) not in known:
        nats, _ = random_order(predictor, texts, rng=0, points=_LEVELS, batch=batch)
        put(agnostic, nats.numpy(), float(texts.counts.double().mean()), exact=False)
