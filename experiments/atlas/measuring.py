"""What every rule costs the networks of a kind: chosen on validation rows, measured on test rows.

Costs are kept text by text (`costs-NETWORK.npz`), so that all differences are paired, and a run that was stopped goes
on where it was. A cost is that of one schedule: if a name comes to mean another, as the advised ones do once more rules
are calibrated, it is measured again. The calibration from which `advise` chooses has the blind orders, whose best sizes
it finds by itself, and every rule of the list; the rows on which it was made are not those that are reported.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from experiments.atlas import files
from experiments.atlas.kind import Kind, Rows
from experiments.atlas.rules import Rule, comb, rules, spread
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
    """Costs by the name of a network and by rule, kept in a file for each network after every one.

    Arguments:
        folder: Where the files are.
        rows: How many texts are measured.

    Raises:
        InputError: if the folder has costs of another number of texts, which new ones would replace.
    """

    def __init__(self, folder: Path, rows: int):
        self.folder = folder
        self.found: dict[str, dict[str, NDArray[np.float32]]] = {}
        for path in sorted(folder.glob("costs-*.npz")):
            costs = files.read_arrays(path)
            for both in costs.values():
                check_rows(path, both.shape[-1], rows)
            self.found[path.stem.removeprefix("costs-")] = costs

    def get(self, network: str, rule: Rule) -> Cost | None:
        both = self.found.get(network, {}).get(rule.key)
        return None if both is None else Cost(both[0].astype(np.float64), both[1].astype(np.float64))

    def put(self, network: str, rule: Rule, cost: Cost) -> None:
        mine = without(self.found.get(network, {}), rule)
        mine[rule.key] = np.stack([cost.bits, cost.evaluations]).astype(np.float32)
        self.found[network] = mine
        with replacing(self.folder / f"costs-{network}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **mine)  # pyright: ignore[reportArgumentType]


def without(found: Mapping[str, NDArray[Any]], rule: Rule) -> dict[str, NDArray[Any]]:
    """What was found of other rules than this one, whatever schedule its name meant."""
    return {key: each for key, each in found.items() if key.partition("|")[0] != rule.name}


def check_rows(path: Path, kept: int, rows: int) -> None:
    """Refuse a file with results for another number of texts, which new ones would replace."""
    if kept != rows:
        remedy = "For another number of texts, name another folder."
        raise InputError("rows", f"be {kept}, as in '{path}'", found=f"{rows}", remedy=remedy)


def error(values: NDArray[np.float64]) -> float:
    """The standard error of a mean over texts."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def measured(
    predictor: MaskPredictor, network: str, wanted: Iterable[Rule], texts: Sequences, costs: Costs, batch: int, say: Say
) -> None:
    """The cost of every rule on these texts, one after the other; what is known is not measured again."""
    for rule in wanted:
        if costs.get(network, rule) is not None:
            continue
        begin = time.monotonic()
        found = replay(predictor, rule.schedule, texts, rng=list(range(len(texts))), batch=batch)
        cost = Cost(found.nll.numpy() / texts.counts.numpy() / math.log(2), found.evaluations.numpy().astype(float))
        costs.put(network, rule, cost)
        mean, spent = cost.bits.mean(), cost.evaluations.mean()
        say(f"{network} {rule.name}: {mean:.4f} bits, {spent:.1f} evaluations, {time.monotonic() - begin:.1f} s")


def orders_of(kind: Kind, count: int) -> dict[str, order.BlindOrder]:
    """The blind orders of a calibration: those whose best sizes are to be found."""
    found: dict[str, order.BlindOrder] = {"random": order.Random(), "spread": spread(kind)}
    for steps in kind.settings.budgets(count):
        if kind.layout is None:
            segments = max(1, count // steps)
            found[f"comb-{segments}"] = order.Comb(segments)
        else:
            found[f"comb of {steps} teeth"] = order.CombGrid(*kind.layout, teeth=steps)
    return found


def calibrated(
    kind: Kind, model: Network, texts: Sequences, wanted: Iterable[Rule], path: Path, batch: int, say: Say
) -> Calibration:
    """The calibration of a network that looks both ways, with every rule of the list; goes on with what is there.

    Raises:
        InputError: if what is there is of another network or of other texts.
    """
    predictor, count = model.predictor(), int(texts.counts.max())
    new = blank(fingerprint(model), texts, 0)
    kept = calibration(path) if path.exists() else new
    if (kept.model, kept.source) != (new.model, new.source):
        detail = f"but '{path}' is of another network or of other texts"
        remedy = "Remove it, or name another folder."
        raise InputError("folder", "hold a calibration of this network and these texts", detail=detail, remedy=remedy)

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
    return calibration(path)  # as it will be read from now on: a file has fewer digits


def calibration(path: Path) -> Calibration:
    """A calibration that was kept.

    Raises:
        InputError: if it is damaged.
    """
    with files.intact(path):
        return Calibration.load(path)


def forecast_already(rule: Rule) -> bool:
    """Whether a calibration has the cost of a rule from the losses of its order."""
    return rule.order in ("random", "spread", "comb")


def advised(calibration: Calibration, budgets: Sequence[int], path: Path) -> list[Rule]:
    """What `advise` picks at every budget, from validation rows alone; kept as JSON.

    The choice is that of `advise`, without its estimate of what to expect on other texts: that is what is measured
    here, and takes minutes where loops are not compiled.
    """
    known = json.dumps(calibration.to_json())  # all of it: a name may come to mean another schedule
    of = [sha256(known.encode()).hexdigest(), list(budgets)]
    kept = files.read_json(path) if path.exists() else {}
    if kept.get("of") != of:
        kept = {"of": of, "schedules": {}}
        for steps in budgets:
            try:
                kept["schedules"][str(steps)] = choose(calibration, None, steps).ranked[0].plan.schedule.to_json()
            except InputError:  # every blind order takes more
                continue
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(kept), encoding="utf-8")
    return [Rule("advised", steps, Schedule.from_json(saved)) for steps, saved in kept["schedules"].items()]


def causal_rules(kind: Kind, count: int) -> list[Rule]:
    """What is measured of a network that is causal in the schedule: what it learned, and one rule that looks."""
    # This comb begins at the first position, as all combs do from which networks learn.
    orders = {"whole-comb": comb(kind, shift=0), "random": order.Random(), "margin": order.Margin()}
    return at_every_budget(kind, count, orders)


def compared(kind: Kind, count: int) -> list[Rule]:
    """What is measured of a network that learned from masks of combs: enough to compare it with its twin."""
    orders = {"random": order.Random(), "spread": spread(kind), "comb": comb(kind), "whole-comb": comb(kind, shift=0)}
    orders["margin"] = order.Margin()
    return [*at_every_budget(kind, count, orders), random_order_of(count)]


def at_every_budget(kind: Kind, count: int, orders: Mapping[str, order.BlindOrder | order.ReactiveOrder]) -> list[Rule]:
    """Orders by their names, cut into even steps at every number of evaluations."""
    return [
        Rule(name, f"even:{steps}", Schedule(size.Even(steps), which))
        for name, which in orders.items()
        for steps in kind.settings.budgets(count)
    ]


def random_order_of(count: int) -> Rule:
    """One token at a time in random order."""
    return Rule("random", f"even:{count}", Schedule(size.Even(count), order.Random()))


def left_to_right(count: int) -> Rule:
    """One token at a time in the usual order."""
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
    found: list[dict[str, Any]] = files.read_json(path) if path.exists() else []
    for row in found:
        check_rows(path, row["texts"], len(texts))
    known = {row.get("key") for row in found}  # before there were keys, rows told rules by their names alone

    def put(rule: Rule, nats: NDArray[np.float64], evaluations: float, *, exact: bool) -> None:
        name, yes = rule.name, "yes" if exact else "no"
        values = (network, name, len(texts), evaluations, float(nats.mean()), error(nats), yes)
        found[:] = [row for row in found if row["rule"] != name]  # whatever schedule its name meant
        found.append({**dict(zip(WHOLE, values, strict=True)), "key": rule.key})
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
        say(f"{network} {name}: {nats.mean():.2f} nats on {len(texts)} texts")

    for rule in wanted:
        if rule.key not in known:
            each = replay(predictor, rule.schedule, texts, rng=list(range(len(texts))), batch=batch)
            put(rule, each.nll.numpy(), float(each.evaluations.double().mean()), exact=True)
    agnostic = random_order_of(int(texts.counts.max()))
    if not predictor.remembers and agnostic.key not in known:
        nats, _ = random_order(predictor, texts, rng=0, points=_LEVELS, batch=batch)
        put(agnostic, nats.numpy(), float(texts.counts.double().mean()), exact=False)
