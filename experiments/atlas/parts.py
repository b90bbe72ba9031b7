"""The parts of the atlas of one kind, from its data to its files of costs and texts; each begins where it was left.

A part that measures needs weights, and makes the results in the folder theirs (`owners`). All others, such as the
tables, read what was recorded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch
from experiments.atlas import measuring, networks, owners, seeing, writing
from experiments.atlas.kind import Data, Kind
from experiments.atlas.measuring import Costs
from experiments.atlas.networks import BOTH, TAUGHT
from experiments.atlas.rules import Rule
from experiments.atlas.turns import ALONE, Turns

from unmask import InputError
from unmask import _check as check
from unmask.calibration import Calibration
from unmask.models.shape import Network
from unmask.predict import MaskPredictor
from unmask.sequences import Sequences


def say(line: str) -> None:
    print(line, flush=True)


@final
@dataclass(frozen=True)
class Training:
    """How networks are trained.

    Attributes:
        seconds: For each; as long as the updates take by default.
        updates: As many as the seconds allow by default.
        tokens: Tokens of an update; as many as fit a GPU by default.
        turns: When the GPU may be used.
        compiled: Whether a CPU compiles networks too, as a GPU always does.
    """

    seconds: float | None = None
    updates: int | None = None
    tokens: int | None = None
    turns: Turns = ALONE
    compiled: bool = False

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check.real("seconds", self.seconds, above=0)
        for name in ("updates", "tokens"):
            if (value := getattr(self, name)) is not None:
                check.integer(name, value, least=1)


class Atlas:
    """What is done with one kind.

    Arguments:
        kind: The kind.
        folder: Where everything is kept.
        rows: Test rows; half as many for validation. The kind says how many by default.
        batch: Texts at once.

    Raises:
        InputError: if there are fewer rows than two, as a single one has no error, or no texts at once.
    """

    def __init__(self, kind: Kind, folder: Path, rows: int | None = None, batch: int = 512):
        self.kind, self.folder = kind, folder
        self.rows = check.integer("rows", kind.tested if rows is None else rows, least=2)
        self.batch = check.integer("batch", batch, least=1)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def data(self) -> Data:
        return self.kind.read(self.folder)

    @cached_property
    def costs(self) -> Costs:
        """Everything that was measured, whether or not the weights are there."""
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
        return owners.weights(self.folder, network)

    def there(self, names: Sequence[str]) -> list[str]:
        """Those of these networks that are trained."""
        return [name for name in names if self.file(name).exists()]

    def _trained(self, names: Sequence[str]) -> list[str]:
        """Those that are trained, to be measured; at least one."""
        if found := self.there(names):
            return found
        raise networks.untrained(self.kind, self.folder, names[0])

    def make(self, shared: Path | None) -> None:
        """The data."""
        self.kind.make(self.folder, shared)

    def train(self, names: Sequence[str], how: Training) -> None:
        """The networks, one after the other."""
        tokens = {} if how.tokens is None else {"tokens": how.tokens}
        seconds = math.inf if how.seconds is None else how.seconds
        for name in names:
            networks.trained(
                self.kind, name, self.data, self.folder,
                seconds=seconds, updates=how.updates, turns=how.turns, compiled=how.compiled, say=say, **tokens,
            )  # fmt: skip

    @torch.no_grad()
    def see(self) -> None:
        """Measure curves and dependence of the network that looks both ways."""
        self._see(self._owning("both"))

    def _see(self, model: Network) -> None:
        seeing.seen(self.kind, model.predictor(), self.valid, self.folder / owners.SEEN, self.batch)

    def _owning(self, name: str) -> Network:
        """A trained network, to be measured: the results of its name are its own from now on."""
        return networks.owning(self.kind, self.folder, name, self.device, say)

    @torch.no_grad()
    def _measured(self, name: str) -> MaskPredictor:
        """A trained network, after all is measured that its rules are chosen from."""
        model = self._owning(name)
        if TAUGHT[name].rules is None:
            self._see(model)
            path = self.folder / f"calibration-{name}.json"
            measuring.calibrated(self.kind, model, self.valid, self.listed(), path, self.batch, say)
        return model.predictor()

    @torch.no_grad()
    def measure(self, names: Sequence[str]) -> None:
        """Measure the cost of every rule on test rows."""
        for name in self._trained(names):
            predictor = self._measured(name)
            costs = Costs(self.folder, len(self.test))  # read only now, without those of another network
            measuring.measured(predictor, name, self.wanted(name), self.test, costs, self.batch, say)

    def seen(self) -> dict[str, Any]:
        """The curves and the dependence that were measured.

        Raises:
            InputError: if they were not.
        """
        if (found := seeing.kept(self.folder / owners.SEEN, len(self.valid))) is not None:
            return found
        remedy = f"Measure them with: python -m experiments.atlas {self.kind.name} --parts see"
        detail = f"but there is no '{self.folder / owners.SEEN}'"
        raise InputError("folder", "hold curves of the network 'both'", detail=detail, remedy=remedy)

    def listed(self) -> list[Rule]:
        """All rules of the network `both`, but for the advised ones."""
        return measuring.listed(self.kind, self.test) + seeing.learned(self.seen(), equal=self.equal)

    def calibrated(self, name: str) -> Calibration | None:
        """The calibration of a network, as it was measured on validation rows; None if it was not."""
        path = self.folder / f"calibration-{name}.json"
        return measuring.calibration(path) if path.exists() else None

    def advised(self, name: str) -> list[Rule]:
        """What `advise` picks for a network; nothing before it is calibrated."""
        if (calibration := self.calibrated(name)) is None:
            return []
        budgets = self.kind.settings.budgets(self.count)
        return measuring.advised(calibration, budgets, self.folder / f"advised-{name}.json")

    def wanted(self, name: str) -> list[Rule]:
        """The rules that are measured of a network."""
        rules = TAUGHT[name].rules
        return self.listed() + self.advised(name) if rules is None else rules(self.kind, self.count)

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
        for name in self._trained(names):
            predictor, path = self._measured(name), self.folder / f"texts-{name}.npz"
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
        for name in self._trained(names):
            predictor, path = self._owning(name).predictor(), self.folder / f"whole-{name}.json"
            wanted = [] if name in BOTH else [rule for rule in self.wanted(name) if rule.order != "margin"]
            measuring.whole(predictor, name, wanted, texts, path, self.batch, say)
