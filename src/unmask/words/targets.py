"""How many steps a target error needs: what is promised for all data, and what known data take."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from unmask import _check as check
from unmask import bounds, evaluate, size
from unmask.names import GAUGES, SIZES, Need
from unmask.words.data import Data
from unmask.words.schedules import Family, size_family

COMPARED = ("tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "even", "cosine", "optimal")
LONG = 4096  # tokens up to which every size is compared, though of some every number of steps must be tried
_MOST = 16384  # beyond it nobody would wait for that
Watch = Callable[[str, int], None]


def compared(length: int) -> list[str]:
    """The sizes to compare where nobody names any."""
    return [name for name in COMPARED if length <= LONG or quick(name)]


def guarantees(length: int, tc: float | None, dtc: float | None, target: float) -> list[dict[str, Any]]:
    """What is promised for all data with that TC and DTC: the paper's sizes, then the minimax ones."""
    papers: list[dict[str, Any]] = []
    best: list[dict[str, Any]] = []
    if tc is not None:
        theorem, simple = bounds.steps_for_tc(length, tc, target), _simplified(bounds.complexity_tc, length, tc, target)
        papers.append(_row("tc", "tc", length, tc, target) | {"theorem": theorem, "simplified": simple})
        best.append(_row("minimax-tc", "tc", length, tc, target))
    if dtc is not None:
        theorem = bounds.steps_for_dtc(length, dtc, target)
        simple = _simplified(bounds.complexity_dtc, length, dtc, target)
        papers.append(_row("dtc", "dtc", length, dtc, target) | {"theorem": theorem, "simplified": simple})
        best.append(_row("minimax-dtc", "dtc", length, dtc, target))
    if tc is not None and dtc is not None:
        best.append(_row("minimax-min", "min", length, min(tc, dtc), target))
        best.append(_row("minimax-sum", "sum", length, tc + dtc, target))
    return papers + best


def _simplified(
    complexity: Callable[[int, float, float], float], length: int, amount: float, target: float
) -> float | None:
    """The simplified complexity; None where it says nothing: for no error at all, or for a single token."""
    if target == 0 or length == 1:
        return None
    value = complexity(length, amount, target)
    return value if math.isfinite(value) else None


def _row(name: str, measure: str, length: int, amount: float, target: float) -> dict[str, Any]:
    exact = evaluate.fewest_steps_guaranteed(SIZES[name].make, GAUGES[measure].make(length), amount, target)
    return {"size": name, "theorem": None, "simplified": None, "exact": exact}


def quick(name: str) -> bool:
    """Whether the fewest steps of a size are found without trying every number of them."""
    entry = SIZES[name]
    return entry.needs is Need.STEPS and entry.make(1).monotone


def fewest_on(names: Sequence[str], known: Data, target: float, watch: Watch) -> list[dict[str, Any]]:
    """The fewest steps of each size on known data; `sure` where more steps never hurt.

    Arguments:
        names: Words for the sizes.
        known: The data.
        target: The expected KL to reach, in nats.
        watch: Called with the name of a size and the number of steps that is tried.
    """
    curve, target = known.curve, check.real("target", target, least=0.0)
    rows: list[dict[str, Any]] = []
    for name in names:
        if curve.length > _MOST and not quick(name):
            wanted = "be one that never gets worse with more steps, such as minimax-tc"
            why = f"because there are more than {_MOST:,} tokens"
            remedy = "For any other size, every number of steps would have to be tried."
            raise check.InputError("size", wanted, found=check.shown(name), detail=why, remedy=remedy)
    for name in names:
        family = size_family(name, curve)
        # Some families are scanned step by step, so that a bar can follow the number of steps tried.
        row: dict[str, Any] = {"size": name, "steps": None, "expected_kl": None, "sure": family(1).monotone_on(curve)}
        try:
            row["steps"] = evaluate.fewest_steps(_watched(family, watch, name), curve, target)
            row["expected_kl"] = evaluate.expected_kl(family(row["steps"]), curve)
        except check.InputError as error:
            if error.argument != "target":
                raise  # else no number of steps is enough: other sizes may do better
        rows.append(row)
    return rows


def _watched(family: Family, watch: Watch, name: str) -> Family:
    def make(count: int) -> size.Blind:
        watch(name, count)
        return family(count)

    return make
