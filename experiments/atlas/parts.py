"""The parts of the atlas of one kind, from its data to its files of costs and texts; each begins where it was left."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch
from experiments.atlas import measuring, networks, seeing, writing
from experiments.atlas.kind import Data, Kind
from experiments.atlas.measuring import Costs
from experiments.atlas.networks import BOTH
from experiments.atlas.rules import Rule
from experiments.atlas.turns import ALONE, Turns

from unmask.calibration import Calibration
from unmask.models.shape import Network
from unmask.sequences import Sequences


def say(line: str) -> None:
    print(line, flush=True)


@final
@dataclass(frozen=True)
class Training:
    """How networks are trained.

    Attributes:
        seconds: For each.
        updates: As many as the seconds allow by default.
        tokens: Tokens of an update; as many as fit a GPU by default.
        turns: When the GPU may be used.
        compiled: Whether a CPU compiles networks too, as a GPU always does.
    """

    seconds: float = 100
    updates: int | None = None
    tokens: int | None = None
    turns: Turns = ALONE
    compiled: bool = False


class Atlas:
    """What is done with one kind.

    Arguments:
        kind: The kind.
        folder: Where everything is kept.
        rows: Test rows; half as many for validation. The kind says how many by default.
        batch: Texts at once.
    """

    def __init__(self, kind: Kind, folder: Path, rows: int | None = None, batch: int = 512):
        self.kind, self.folder, self.rows, self.batch = kind, folder, rows or kind.tested, batch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def data(self) -> Data:
        return self.kind.read(self.folder)

    @cached_property
    def costs(self) -> Costs:
        """Everything that was measured. A network whose weights stayed elsewhere keeps its results."""
        for name in self.there(networks.NETWORKS):
            self.network(name)
        return Costs(self.folder, len(self.test))

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

    def there(self, names: Sequence[str]) -> list[str]:
        """Those of these networks that are trained."""
        return [name for name in names if self.file(name).exists()]

    def network(self, name: str) -> Network:
        """A trained network; what is kept of another one that had its name is removed first."""
        return networks.owning(self.folder, name, self.device, say)

    def make(self, shared: Path | None) -> None:
        """The data."""
        self.kind.make(self.folder, shared)

    def train(self, names: Sequence[str], how: Training) -> None:
        """The networks, one after the other."""
        tokens = {} if how.tokens is None else {"tokens": how.tokens}
        for name in names:
            networks.trained(
                self.kind, name, self.data, self.folder,
                seconds=how.seconds, updates=how.updates, turns=how.turns, compiled=how.compiled, say=say, **tokens,
            )  # fmt: skip

    @torch.no_grad()
    def see(self) -> dict[str, Any]:
        """Curves and dependence of the network that looks both ways."""
        predictor, path = self.network("both").predictor(), self.folder / "seen.json"
        return seeing.seen(self.kind, predictor, self.valid, path, self.batch)

    def listed(self) -> list[Rule]:
        """All rules of the network `both`, but for the advised ones."""
        return measuring.listed(self.kind, self.test) + seeing.learned(self.see(), equal=self.equal)

    @torch.no_grad()
    def calibrated(self, name: str) -> Calibration:
        """The calibration of a network, made on validation rows."""
        model, path = self.network(name), self.folder / f"calibration-{name}.json"
        return measuring.calibrated(self.kind, model, self.valid, self.listed(), path, self.batch, say)

    def advised(self, name: str) -> list[Rule]:
        """What `advise` picks for a network."""
        budgets = self.kind.settings.budgets(self.count)
        return measuring.advised(self.calibrated(name), budgets, self.folder / f"advised-{name}.json")

    @torch.no_grad()
    def measure(self, names: Sequence[str]) -> None:
        """The cost of every rule on test rows; of a kind that says so, of some on all rows that there are."""
        for name in self.there(names):
            predictor = self.network(name).predictor()
            costs = Costs(self.folder, len(self.test))  # read only now, without those of another network
            measuring.measured(predictor, name, self.wanted(name), self.test, costs, self.batch, say)

    def wanted(self, name: str) -> list[Rule]:
        """The rules that are measured of a network."""
        if name == "both":
            return self.listed() + self.advised(name)
        if name in BOTH:
            return measuring.compared(self.kind, self.count)
        anchor = measuring.left_to_right(self.count)
        return [anchor] if name == "left-to-right" else [*measuring.causal_rules(self.kind, self.count), anchor]

    def kept_rules(self, name: str) -> list[Rule]:
        """The rules whose texts are kept: all where texts are judged, and elsewhere one number of evaluations."""
        every = self.wanted(name)
        if self.kind.judged:
            return every
        few = self.kind.settings.budgets(self.count)[1]
        chosen = [rule for rule in every if rule.size in (f"even:{few}", str(few), "rounds", "threshold:0.9")]
        return chosen or every

    @torch.no_grad()
    def write(self, names: Sequence[str]) -> None:
        """Texts of the rules that are compared by what they write."""
        for name in self.there(names):
            predictor, path = self.network(name).predictor(), self.folder / f"texts-{name}.npz"
            writing.written(
                predictor, self.kept_rules(name), self.data.test, self.rows, path, self.device, self.batch, say
            )

    @torch.no_grad()
    def whole(self, names: Sequence[str], most: int | None = None) -> None:
        """Likelihoods of all test rows, where published numbers are of all; nothing for other kinds.

        Arguments:
            names: Networks.
            most: Rows at most.
        """
        rows = self.kind.whole(self.folder)
        if rows is None:
            return
        texts = measuring.sequences(rows, len(rows) if most is None else most, self.device)
        for name in self.there(names):
            predictor, path = self.network(name).predictor(), self.folder / f"whole-{name}.json"
            wanted = [] if name in BOTH else [rule for rule in self.wanted(name) if rule.order != "margin"]
            measuring.whole(predictor, name, wanted, texts, path, self.batch, say)
