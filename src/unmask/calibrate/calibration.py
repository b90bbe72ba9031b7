"""What was measured of a model under several orders, kept in a file, and the schedules it implies."""

import json
import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import _files, size
from unmask._atomic import replacing
from unmask.calibrate.losses import Curved, Losses, losses_of
from unmask.schedule import ORDERS, Schedule, decode, encode

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Forecast:
    """A schedule that a calibration implies.

    Attributes:
        schedule: The schedule.
        nll: Its predicted negative log-likelihood in nats per sequence.
        error: Its standard error, about (see `unmask.calibrate.losses.Losses.cost`).
    """

    schedule: Schedule
    nll: float
    error: float

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The sizes of the schedule."""
        assert isinstance(self.schedule.size, size.Explicit)
        return np.array(self.schedule.size.values)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The measured losses of a model under several orders, on texts of one length.

    Attributes:
        length: Tokens per text.
        model: A fingerprint of the model.
        texts: Number of texts.
        losses: What was measured, by the name of the order.
        source: A fingerprint of the texts and of the seed of the orders; empty if nobody needs to know.
        wanted: Names of all orders that were to be measured; more than there are losses while that is going on.
    """

    length: int
    model: str
    texts: int
    losses: dict[str, Losses] = field(default_factory=dict)
    source: str = ""
    wanted: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Orders that were to be measured and are not."""
        return [name for name in self.wanted if name not in self.losses]

    @property
    def random(self) -> Curved | None:
        """What was measured of the random order, if it was."""
        return next((each for each in self.losses.values() if isinstance(each, Curved)), None)

    def predict(self, name: str, sizes: NDArray[np.int64]) -> tuple[float, float]:
        """Predicted nats per sequence of given sizes under a measured order, and its standard error."""
        return self._named(name).cost(sizes)

    def plan(self, name: str, steps: int) -> Forecast:
        """The best sizes with `steps` steps under a measured order."""
        losses = self._named(name)
        nodes = losses.nodes
        if steps > nodes.size - 1:
            raise check.InputError(
                "steps",
                f"be at most {nodes.size - 1} for the order {name}, whose cuts were measured at so many places",
                found=f"{steps}",
            )
        best = np.diff(nodes[losses.paths(steps).cuts(steps)])
        return Forecast(Schedule(size.Explicit(best), losses.order), *losses.cost(best))

    def costs(self, name: str) -> NDArray[np.float64]:
        """The predicted nats per sequence of the best sizes with 1, 2, … steps, as many as the order allows."""
        losses = self._named(name)
        return losses.paths(losses.nodes.size - 1).costs

    def best(self, steps: int) -> list[tuple[str, Forecast]]:
        """The plans of all orders that allow `steps` steps, the best first."""
        able = (name for name, losses in self.losses.items() if steps < losses.nodes.size)
        return sorted(((name, self.plan(name, steps)) for name in able), key=lambda pair: pair[1].nll)

    def _named(self, name: str) -> Losses:
        return self.losses[check.known("order", name, self.losses)]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "schema": SCHEMA,
            "length": self.length,
            "model": self.model,
            "texts": self.texts,
            "source": self.source,
            "wanted": list(self.wanted),
            "losses": {
                name: {
                    "order": encode(losses.order, ORDERS),
                    "visible": losses.visible.tolist(),
                    "table": [[float(f"{value:.6g}") for value in row] for row in losses.table.tolist()],
                    "error": losses.error.tolist(),
                }
                for name, losses in self.losses.items()
            },
        }

    @classmethod
    def from_json(cls, data: Any) -> "Calibration":
        """What `to_json` described."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or "losses" not in data:
            raise check.InputError(
                "", "A calibration must be one that was written by this version of unmask, which this is not"
            )
        try:
            losses = {
                str(name): losses_of(
                    decode(part["order"], "order", ORDERS),
                    np.array(part["visible"], dtype=np.int64),
                    np.array(part["table"], dtype=np.float64),
                    np.array(part["error"], dtype=np.float64),
                )
                for name, part in data["losses"].items()
            }
            result = cls(data["length"], data["model"], data["texts"], losses, data.get("source", ""))
            result = replace(result, wanted=tuple(str(name) for name in data.get("wanted", ())))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise check.InputError("", f"The calibration is damaged: {error!r}") from None
        result._check()
        return result

    def _check(self) -> None:
        """Refuse what no `measure` makes: files come from strangers, and what they say is computed with and shown."""
        for key, number in (("length", self.length), ("texts", self.texts)):
            if type(number) is not int or not 1 <= number < check.EXACT:
                found = repr(number)[:40]
                raise check.InputError(
                    "", f"The calibration is damaged: '{key}' must be a positive integer, not {found}"
                )
        for key, text in (("model", self.model), ("source", self.source)):
            if not isinstance(text, str):
                raise check.InputError("", f"The calibration is damaged: '{key}' must be text, not {repr(text)[:40]}")
        for name, part in self.losses.items():
            fits = part.table.shape == (part.visible.size, self.length) and part.error.shape == part.visible.shape
            if not fits or not part.visible.size:
                raise check.InputError(
                    "", f"The calibration is damaged: the numbers of the order {name} do not fit together"
                )
            if part.visible[0] != 0 or part.visible[-1] >= self.length or np.any(np.diff(part.visible) <= 0):
                raise check.InputError(
                    "", f"The calibration is damaged: 'visible' of the order {name} must ascend from 0"
                )
            if not all(np.all(np.isfinite(values) & (values >= 0)) for values in (part.table, part.error)):
                raise check.InputError(
                    "", f"The calibration is damaged: a loss or error of the order {name} is not possible"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        with replacing(path) as file:
            file.write_text(json.dumps(self.to_json()) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Read what `save` wrote."""
        text = _files.read_text(path, "path", most=_files.CALIBRATION)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise check.InputError("path", "name a calibration in JSON", detail=f"which {path} is not") from None
        return cls.from_json(data)
