"""The tab *Schedules*: the law of size schedules, and what they guarantee for every distribution."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import gauge, size
from unmask.names import GAUGES, SIZES
from unmask.words.schedules import FREE_SIZES
from unmask.words.sentences import promised

LONGEST = 4096  # tokens on the page; the command line has no such limit


@dataclass(frozen=True, eq=False)
class SizeLaw:
    """What is known of one size schedule before any data are.

    Attributes:
        name: As on the command line.
        mean_sizes: One per step. cuts: Probability of a cut at `1 … L−1`. overhang: At ranks `1 … L−1`.
        guarantees: The smallest `c` with expected KL at most `c` times the dependence, by gauge.
        theorem: The factor that the paper's theorem promises in its place, where there is one and it holds.
    """

    name: str
    mean_sizes: NDArray[np.float64]
    cuts: NDArray[np.float64]
    overhang: NDArray[np.float64]
    guarantees: dict[str, float]
    theorem: float | None


@dataclass(frozen=True, eq=False)
class SizeLaws:
    """Several schedules of one length and number of steps.

    Attributes:
        laws: One for each schedule.
        least: The smallest guarantee that any schedule of so many steps can have, by gauge.
    """

    length: int
    steps: int
    laws: tuple[SizeLaw, ...]
    least: dict[str, float]

    def record(self) -> dict[str, Any]:
        """Everything on the tab, for programs, in the words of `unmask plan --json`."""
        return {
            "length": self.length,
            "steps": self.steps,
            "least": self.least,
            "schedules": [
                {
                    "size": law.name,
                    "mean_sizes": law.mean_sizes.tolist(),
                    "cut_probabilities": law.cuts.tolist(),
                    "overhang": law.overhang.tolist(),
                    "guarantee": law.guarantees,
                    "theorem": law.theorem,
                }
                for law in self.laws
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row for each value that is drawn and for each guarantee; what the theorems say is in `record` alone."""
        result = []
        for law in self.laws:
            for what, values in (
                ("mean_size", law.mean_sizes),
                ("cut_probability", law.cuts),
                ("overhang", law.overhang),
            ):
                result += [
                    {"size": law.name, "quantity": what, "index": index, "value": value}
                    for index, value in enumerate(values.tolist(), start=1)
                ]
            result += [
                {"size": law.name, "quantity": f"guarantee_{key}", "index": 0, "value": value}
                for key, value in law.guarantees.items()
            ]
        return result


def compare(length: object, steps: object, names: Iterable[str]) -> SizeLaws:
    """The laws of the schedules of those names.

    Raises:
        ValueError: if the numbers do not fit or nothing was chosen.
    """
    check.integer("length", length, least=2, most=LONGEST)
    steps, length = check.steps_and_length(steps, length)
    chosen = chosen_sizes(names, FREE_SIZES)
    return SizeLaws(length, steps, tuple(law(name, length, steps) for name in chosen), _least(length, steps))


def chosen_sizes(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names, in the order of `known`, if there is one at least."""
    known = list(known)
    wanted = {check.known("size", name, known) for name in names}
    if not wanted:
        raise check.InputError("size", "be at least one schedule", remedy="Choose the schedule that you want to see.")
    return [name for name in known if name in wanted]


@lru_cache(maxsize=512)
def law(name: str, length: int, steps: int) -> SizeLaw:
    """The law of one schedule. Whoever moves a slider back and forth gets it from memory."""
    schedule = SIZES[name].make(steps)
    overhang = schedule.overhang(length)
    return SizeLaw(
        name,
        np.asarray(schedule.mean_sizes(length)),
        schedule.cut_probabilities(length),
        overhang,
        {key: gauge.guarantee(overhang, entry.make(length)) for key, entry in GAUGES.items()},
        promised(schedule, length).get("theorem"),
    )


@lru_cache(maxsize=512)
def _least(length: int, steps: int) -> dict[str, float]:
    return {key: size.Minimax(steps, entry.make).factor(length) for key, entry in GAUGES.items()}
