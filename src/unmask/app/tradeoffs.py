"""The tab *Distributions*: the exact error of schedules on a known distribution, against the number of steps."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import bounds, check, evaluate, gauge, size
from unmask.app.laws import chosen_sizes
from unmask.cli import data
from unmask.cli.names import ALL_SIZES, DISTRIBUTIONS, size_family
from unmask.curve import Curve
from unmask.schedule import GAUGES

LONGEST = 2048


@dataclass(frozen=True)
class Setting:
    """A distribution in words: what it is computed from, and remembered by.

    Arguments:
        family: A key of `unmask.cli.names.DISTRIBUTIONS`. given: Its parameters.
        draws: Draws to estimate its curve from; None for the exact one. seed: Seeds what is random.
    """

    family: str
    given: tuple[tuple[str, float], ...]
    draws: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class Errors:
    """Expected KL of one schedule against its number of steps, in nats.

    Attributes:
        name: As on the command line.
        steps: Numbers of steps. kl: The exact expected KL at each.
        bound: What was promised at each before anything was computed; not a number where nothing is.
        promise: Who promises it.
    """

    name: str
    steps: NDArray[np.int64]
    kl: NDArray[np.float64]
    bound: NDArray[np.float64]
    promise: str


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Several schedules on one distribution.

    Attributes:
        known: The distribution's loss curve, and what it is called.
        errors: One for each schedule that is computed.
        wanted: How many there will be.
    """

    known: data.Data
    errors: tuple[Errors, ...]
    wanted: int

    def rows(self) -> list[dict[str, Any]]:
        """One for each schedule and number of steps."""
        return [
            {
                "size": each.name,
                "steps": count,
                "expected_kl": kl,
                "bound": bound if np.isfinite(bound) else None,
                "promise": each.promise,
            }
            for each in self.errors
            for count, kl, bound in zip(each.steps.tolist(), each.kl.tolist(), each.bound.tolist(), strict=True)
        ]

    def record(self) -> dict[str, Any]:
        """Everything on the tab, for programs."""
        loss = self.known.curve
        measures = {"entropy": loss.entropy, "tc": loss.total_correlation, "dtc": loss.dual_total_correlation}
        return {"distribution": {**self.known.record, **measures}, "rows": self.rows()}


def parameters(family: str) -> tuple[str, ...]:
    """The parameters of a family, its length first."""
    recipe = DISTRIBUTIONS[check.known("distribution", family, DISTRIBUTIONS)]
    return recipe.needs + recipe.takes


def compare(family: str, values: Mapping[str, object], names: Iterable[str]) -> Iterator[Tradeoff]:
    """Schedule after schedule, each time with one more.

    Arguments:
        family: A key of `unmask.cli.names.DISTRIBUTIONS`.
        values: Its parameters; `draws` estimates the curve, `seed` seeds that and a random code. Others are ignored.
        names: Sizes to compare.

    Raises:
        ValueError: if the parameters do not fit, before anything is computed.
    """
    wanted = parameters(family)
    options = [(name, _given(name, values.get(name))) for name in wanted]
    given = tuple((name, value) for name, value in options if value is not None)
    check.integer("length", dict(given).get("length"), least=2, most=LONGEST)
    draws = _given("draws", values.get("draws"))
    seed = check.integer("seed", _given("seed", values.get("seed")) or 0, least=0)
    chosen = chosen_sizes(names, ALL_SIZES)
    setting = Setting(family, given, check.integer("draws", draws, least=4) if draws else None, seed)
    known = distribution(setting)
    done: list[Errors] = []
    yield Tradeoff(known, (), len(chosen))
    for name in chosen:
        done.append(errors(name, setting))
        yield Tradeoff(known, tuple(done), len(chosen))


@lru_cache(maxsize=32)
def distribution(setting: Setting) -> data.Data:
    """The distribution's loss curve."""
    options = dict(setting.given)
    length = int(options.pop("length"))
    rng = np.random.default_rng(setting.seed)
    known = data.read(length, setting.family, None, False, setting.draws, options, rng=rng)
    assert known is not None  # a family was named
    return known


@lru_cache(maxsize=256)
def errors(name: str, setting: Setting) -> Errors:
    """The errors of one schedule."""
    curve = distribution(setting).curve
    family = size_family(name, curve)
    steps = counts(curve.length)
    schedules = [family(count) for count in steps.tolist()]
    kl = np.array([evaluate.expected_kl(schedule, curve) for schedule in schedules])
    promises = [promise(schedule, curve) for schedule in schedules]
    return Errors(name, steps, kl, np.array([value for _, value in promises]), promises[0][0])


def counts(length: int) -> NDArray[np.int64]:
    """Numbers of steps from 1 to the length, two for each doubling.

    Example:
        >>> counts(10).tolist()
        [1, 2, 3, 4, 6, 8, 10]
    """
    powers = 2 ** np.arange(int(length).bit_length())
    tried = np.concatenate([powers, 3 * powers // 2, [length]])
    return np.unique(tried[tried <= length])


def promise(schedule: size.Blind, curve: Curve) -> tuple[str, float]:
    """What is known of the error beforehand from the dependence alone, and who says so.

    The paper's schemes have its theorems, fixed sizes the bound of Li and Cai, a minimax schedule its own factor. For
    any other schedule it is the best of its exact guarantees.
    """
    length, steps = curve.length, schedule.steps
    if isinstance(schedule, size.TC):
        return "Theorem 1", bounds.theorem_1(length, steps, curve.total_correlation) if steps > 1 else np.nan
    if isinstance(schedule, size.DTC):
        holds = steps > bounds.harmonic(length - 1)
        return "Theorem 2", bounds.theorem_2(length, steps, curve.dual_total_correlation) if holds else np.nan
    if isinstance(schedule, size.Minimax):
        return "minimax factor", schedule.factor(length) * float(curve.drops @ schedule.gauge(length))
    if isinstance(schedule, size.Planned):
        return "Li & Cai", bounds.li_cai(length, int(schedule.sizes(length).max()), curve.information_sum)
    overhang = schedule.overhang(length)
    allowed = (make(length) for make in GAUGES.values())
    return "exact guarantee", min(gauge.guarantee(overhang, each) * float(curve.drops @ each) for each in allowed)


def _given(name: str, value: object) -> Any:
    """A field as the command line would have it: whole numbers are integers, an empty field is None."""
    if value is None or value == "":
        return None
    number = check.real(name, value)
    return int(number) if number.is_integer() and name not in ("stay", "bias") else number
