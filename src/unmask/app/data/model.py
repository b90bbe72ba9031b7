"""The tab *Your model*: what a calibration says of a model, and the schedule it implies."""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import models
from unmask.calibration import Calibration
from unmask.calibration.advice import Advice, advise
from unmask.words.inputs import of_one_length, read_calibration
from unmask.words.rules import order_and_size
from unmask.words.sentences import advice as sentences


@dataclass(frozen=True, eq=False)
class Profile:
    """What was measured of one order, in bits per token.

    Attributes:
        name: The order.
        visible: Numbers of visible tokens at which it is known. loss: Mean loss of a masked token at each.
        costs: Cost of the best sizes with 1, 2, … steps.
    """

    name: str
    visible: NDArray[np.int64]
    loss: NDArray[np.float64]
    costs: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tried:
    """What measured schedules of one order and kind of sizes cost, in bits per token.

    Attributes:
        name: The order and the kind of sizes.
        evaluations: Evaluations of a text under each, ascending.
        costs: Their costs.
    """

    name: str
    evaluations: NDArray[np.float64]
    costs: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Overview:
    """A calibration and its advice.

    Attributes:
        calibration: The calibration.
        losses: One for each order that was measured.
        tried: What was measured schedule by schedule.
        advice: What to take. words: The same in sentences.
    """

    calibration: Calibration
    losses: tuple[Profile, ...]
    tried: tuple[Tried, ...]
    advice: Advice
    words: tuple[str, ...]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The sizes of the advised schedule."""
        return self.advice.plan.sizes

    def record(self) -> dict[str, Any]:
        """The schedule, as `unmask generate --schedule` reads it."""
        return self.advice.plan.schedule.to_json()

    def rows(self) -> list[dict[str, Any]]:
        """The measured losses and the predicted costs, in bits per token."""
        rows: list[dict[str, Any]] = []
        for each in self.losses:
            for what, index, values in (
                ("loss", each.visible, each.loss),
                ("cost", np.arange(1, each.costs.size + 1), each.costs),
            ):
                rows += [
                    {"order": each.name, "quantity": what, "index": place, "bits_per_token": value}
                    for place, value in zip(index.tolist(), values.tolist(), strict=True)
                ]
        for each in self.tried:
            rows += [
                {"order": each.name, "quantity": "measured", "index": spent, "bits_per_token": value}
                for spent, value in zip(each.evaluations.tolist(), each.costs.tolist(), strict=True)
            ]
        return rows


def read(path: str) -> Calibration:
    """The calibration in a file; read again only if the file has changed."""
    with check.renamed("calibration", "file"):
        return _read(path, Path(path).stat().st_mtime_ns)


def differs(calibration: Calibration, model: models.Model) -> str:
    """What must be known of a calibration that is not one of this model, in a sentence; empty if there is nothing."""
    if calibration.model != model.fingerprint:
        return (
            f"This calibration is of a different model, not of {model.name}, which the page runs. The advice is for "
            "the model that was measured."
        )
    if of_one_length(calibration) and calibration.length != model.length:
        return (
            f"This calibration is for texts of {calibration.length} tokens; the page runs the model with "
            f"{model.length}."
        )
    return ""


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Calibration:
    file = Path(path)
    # An uploaded file lies under a name that its owner has never seen.
    found = read_calibration(file, called=file.name)
    if not found.losses and not found.rules:
        raise check.InputError("file", "hold at least one measured order or rule")
    return found


@lru_cache(maxsize=64)
def report(calibration: Calibration, target: float | None, steps: int | None) -> Overview:
    """The losses and the advice.

    Arguments:
        calibration: The calibration.
        target: Bits per token allowed above the best one-by-one likelihood.
        steps: The number of steps instead, if that is settled.
    """
    if target is None and steps is None:
        raise check.InputError("target", "be a number of bits per token, unless you give the number of steps")
    advice = advise(calibration, target=target, steps=steps)
    words = tuple(sentences(advice, calibration, target))
    return Overview(calibration, _losses(calibration), _tried(calibration), advice, words)


@lru_cache(maxsize=8)
def _losses(calibration: Calibration) -> tuple[Profile, ...]:
    bits = 1 / math.log(2)
    result = []
    for name, losses in calibration.losses.items():
        costs = calibration.costs(name) * bits / calibration.tokens
        result.append(Profile(name, losses.nodes[:-1], losses.profile * bits, costs))
    return tuple(result)


@lru_cache(maxsize=8)
def _tried(calibration: Calibration) -> tuple[Tried, ...]:
    found: dict[str, list[tuple[float, float]]] = {}
    for name, rule in calibration.rules.items():
        ranking, sizes = order_and_size(name, rule.schedule)
        cost = rule.cost / math.log(2) / calibration.tokens
        found.setdefault(f"{ranking}/{sizes.partition(':')[0]}", []).append((rule.spent, cost))
    pairs = ((name, np.array(sorted(each))) for name, each in found.items())
    return tuple(Tried(name, each[:, 0], each[:, 1]) for name, each in pairs)
