"""The parts of the atlas of one kind, from its data to its tables; each begins where it was left."""

import json
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from experiments import common
from experiments.atlas import measuring, networks, seeing, writing
from experiments.atlas.kind import Data, Kind
from experiments.atlas.measuring import Cost, Costs
from experiments.atlas.rules import Rule, budgets

from unmask.calibration import Calibration
from unmask.sequences import Sequences

NETWORKS = networks.NETWORKS
BOTH = ("both", "both-comb")  # those that look both ways
_ROWS = 512
_TOLERANCE = 1.01  # of a budget, as `advise` has it
COSTS = ("network", "order", "size", "evaluations", "passes", "bits", "error", "over", "over_error")
CHOICES = ("evaluations", "schedule", "bits", "best", "best_bits", "over", "over_error", "within")


def say(line: str) -> None:
    print(line, flush=True)


class Atlas:
    """What is done with one kind.

    Arguments:
        kind: The kind.
        folder: Where everything is kept.
        rows: Test rows; half as many for validation.
        batch: Texts at once.
    """

    def __init__(self, kind: Kind, folder: Path, rows: int | None = None, batch: int = 512):
        self.kind, self.folder, self.rows, self.batch = kind, folder, rows or _ROWS, batch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def data(self) -> Data:
        return self.kind.read(self.folder)

    @cached_property
    def costs(self) -> Costs:
        return Costs(self.folder / "costs.npz", len(self.test))

    @cached_property
    def test(self) -> Sequences:
        return measuring.sequences(self.data.test, self.rows, self.device)

    @cached_property
    def valid(self) -> Sequences:
        return measuring.sequences(self.data.valid, max(2, self.rows // 2), self.device)

    @property
    def count(self) -> int:
        """Tokens to fill in a test row, in the one that has most."""
        return int(self.test.counts.max())

    @property
    def equal(self) -> bool:
        return int(self.test.counts.min()) == self.count

    def file(self, network: str) -> Path:
        return self.folder / f"{network}.safetensors"

    def make(self, shared: Path | None) -> None:
        """The data."""
        self.kind.make(self.folder, shared)

    def train(self, names: Sequence[str], seconds: float) -> None:
        """The networks, one after the other."""
        for name in names:
            networks.trained(self.kind, name, self.data, self.folder, seconds=seconds, say=say)

    @torch.no_grad()
    def see(self) -> dict[str, object]:
        """Curves and dependence of the network that looks both ways."""
        predictor = networks.loaded(self.file("both"), self.device).predictor()
        return seeing.seen(self.kind, predictor, self.valid, self.folder / "seen.json", self.batch)

    def listed(self) -> list[Rule]:
        """All rules of the networks that look both ways."""
        return measuring.listed(self.kind, self.test) + seeing.learned(self.see(), self.count, equal=self.equal)

    def calibrated(self, name: str) -> Calibration:
        """The calibration of a network, made on validation rows."""
        model = networks.loaded(self.file(name), self.device)
        path = self.folder / f"calibration-{name}.json"
        return measuring.calibrated(self.kind, model, self.valid, self.listed(), path, self.batch, say)

    @torch.no_grad()
    def measure(self, names: Sequence[str]) -> None:
        """The cost of every rule on test rows."""
        for name in names:
            if not self.file(name).exists():
                continue
            predictor = networks.loaded(self.file(name), self.device).predictor()
            wanted = self._wanted(name)
            measuring.measured(predictor, name, wanted, self.test, self.costs, self.batch, say)

    def _wanted(self, name: str) -> list[Rule]:
        if name in BOTH:
            return self.listed() + measuring.advised(self.calibrated(name), self.count)
        anchor = measuring.left_to_right(self.count)
        return [anchor] if name == "left-to-right" else [*measuring.planned_rules(self.kind, self.count), anchor]

    @torch.no_grad()
    def write(self, names: Sequence[str]) -> None:
        """Texts of the rules that are compared by what they write."""
        for name in names:
            if not self.file(name).exists():
                continue
            predictor = networks.loaded(self.file(name), self.device).predictor()
            path = self.folder / f"texts-{name}.npz"
            writing.written(
                predictor, self._wanted(name), self.data.test, self.rows, path, self.device, self.batch, say
            )

    @torch.no_grad()
    def table(self) -> None:
        """The CSV files."""
        name = self.kind.name
        common.write(common.RESULTS / f"atlas-{name}.csv", COSTS, self._rows())
        common.write(common.RESULTS / f"atlas-{name}-advised.csv", CHOICES, self._choices())
        kept = {key: value for key, value in self.see().items() if key != "orders"}  # each order is a long list
        (common.RESULTS / f"atlas-{name}-seen.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")
        scores = [
            {"network": network, **row}
            for network in NETWORKS
            if (path := self.folder / f"texts-{network}.npz").exists()
            for row in writing.scored(self.kind, self.data.test, path)
        ]
        if scores:
            columns = list(dict.fromkeys(key for row in scores for key in row))
            common.write(common.RESULTS / f"atlas-{name}-scores.csv", columns, scores)

    def _rows(self):
        """Every cost, and by how much it is over the anchor: left to right, or one by one in random order."""
        one = f"even:{self.count}"
        anchor = self.costs.get("left-to-right", f"left-to-right/{one}") or self.costs.get("both", f"random/{one}")
        for network in NETWORKS:
            for rule in self.costs.names(network):
                cost = self.costs.get(network, rule)
                assert cost is not None
                which, _, how_many = rule.rpartition("/")
                over, over_error = (math.nan, math.nan) if anchor is None else _paired(cost, anchor)
                yield {
                    "network": network,
                    "order": which,
                    "size": how_many,
                    "evaluations": float(cost.evaluations.mean()),
                    "passes": float(cost.evaluations.mean()) if network in BOTH else 1.0,
                    "bits": float(cost.bits.mean()),
                    "error": _error(cost.bits),
                    "over": over,
                    "over_error": over_error,
                }

    def _choices(self):
        """At every budget, what `advise` picked against the best of all rules on the test rows."""
        names = [name for name in self.costs.names("both") if not name.startswith("advised/")]
        found = {name: cost for name in names if (cost := self.costs.get("both", name)) is not None}
        advice = {rule.size: rule.schedule for rule in measuring.advised(self.calibrated("both"), self.count)}
        for steps in budgets(self.count):
            picked = self.costs.get("both", f"advised/{steps}")
            allowed = {name: each for name, each in found.items() if each.evaluations.mean() <= steps * _TOLERANCE}
            if picked is None or not allowed:
                continue
            best = min(allowed, key=lambda name: float(allowed[name].bits.mean()))
            over, error = _paired(picked, allowed[best])
            yield {
                "evaluations": float(picked.evaluations.mean()),
                "schedule": _described(advice[str(steps)]),
                "bits": float(picked.bits.mean()),
                "best": best,
                "best_bits": float(allowed[best].bits.mean()),
                "over": over,
                "over_error": error,
                "within": "yes" if over <= 2 * error else "no",
            }


def _paired(cost: Cost, other: Cost) -> tuple[float, float]:
    difference = cost.bits - other.bits
    return float(difference.mean()), _error(difference)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _described(schedule) -> str:
    saved = schedule.to_json()
    return f"{saved['order']['name']}, {saved['size']['name']}"
