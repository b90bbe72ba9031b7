"""The tab *Distributions*: the exact error of schedules on a known distribution, against the number of steps."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import bounds, evaluate, gauge, size
from unmask.app.data.schedules import chosen_sizes
from unmask.distribution import CurveEstimate
from unmask.information.curve import Curve
from unmask.names import DISTRIBUTIONS, GAUGES
from unmask.words import data
from unmask.words.schedules import BLIND_SIZES, size_family

LONGEST = 2048
# What others on the page would have to wait for too long; the command line has no such limits.
MOST_DRAWS = 200
MOST_ALPHABET = {"markov": 64}
ANY_ALPHABET = 4096


@dataclass(frozen=True)
class Setting:
    """A distribution in words: what it is computed from, and remembered by.

    Arguments:
        family: A key of `unmask.names.DISTRIBUTIONS`. given: Its parameters.
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
        error: The standard error that each has where the curve is an estimate; None where the curve is exact.
        bound: What was promised at each before anything was computed; not a number where nothing is.
        promise: Who promises it.
    """

    name: str
    steps: NDArray[np.int64]
    kl: NDArray[np.float64]
    error: NDArray[np.float64] | None
    bound: NDArray[np.float64]
    promise: str


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Several schedules on one distribution.

    Attributes:
        known: The distribution's loss curve, and what it is called.
        errors: One for each schedule that is computed.
    """

    known: data.Data
    errors: tuple[Errors, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One for each schedule and number of steps; `curve_error` as `unmask expect` has it."""
        return [
            {
                "size": each.name,
                "steps": int(count),
                "expected_kl": float(each.kl[place]),
                **({} if each.error is None else {"curve_error": float(each.error[place])}),
                "bound": float(each.bound[place]) if np.isfinite(each.bound[place]) else None,
                "promise": each.promise,
            }
            for each in self.errors
            for place, count in enumerate(each.steps)
        ]

    def record(self) -> dict[str, Any]:
        """Everything on the tab, for programs."""
        loss = self.known.curve
        measures = {"entropy": loss.entropy, "tc": loss.total_correlation, "dtc": loss.dual_total_correlation}
        return {"distribution": {**self.known.record, **measures}, "rows": self.rows()}


@dataclass(frozen=True, eq=False)
class Stage:
    """How far it has come.

    Attributes:
        view: What there is to show, if anything yet.
        done, whole: How much of it; nothing where nobody can tell. words: The same for people.
    """

    view: Tradeoff | None
    done: int
    whole: int
    words: str


def parameters(family: str) -> tuple[str, ...]:
    """The parameters of a family, its length first."""
    recipe = DISTRIBUTIONS[check.known("distribution", family, DISTRIBUTIONS)]
    return recipe.needs + recipe.takes


def compare(family: str, values: Mapping[str, object], names: Iterable[str]) -> Iterator[Stage]:
    """First the distribution, then schedule after schedule, each time with one more.

    Arguments:
        family: A key of `unmask.names.DISTRIBUTIONS`.
        values: Its parameters; `draws` estimates the curve, `seed` seeds that and a random code. Others are ignored.
        names: Sizes to compare.

    Raises:
        ValueError: if the parameters do not fit, before anything is computed.
    """
    setting = _setting(family, values)
    chosen = chosen_sizes(names, BLIND_SIZES)
    known = _kept.get(setting)
    if known is None:
        yield Stage(None, 0, 0, "Preparing the distribution")
        rng = np.random.default_rng(setting.seed)
        named = data.Described.of(setting.family, dict(setting.given), rng=rng)
        if setting.draws is None:
            known = named.exact()
        else:
            estimates: list[CurveEstimate] = []
            groups = data.groups_of(setting.draws)
            for estimate in named.estimates(setting.draws, rng=rng):
                estimates.append(estimate)
                yield Stage(None, len(estimates), groups, f"{sum(each.draws for each in estimates)} draws made")
            known = named.estimated(estimates)
        _keep(setting, known)
    done: list[Errors] = []
    for name in (None, *chosen):
        if name is not None:
            done.append(errors(name, known))
        words = f"{len(done)} of {len(chosen)} schedules computed"
        yield Stage(Tradeoff(known, tuple(done)), len(done), len(chosen), words)


def _setting(family: str, values: Mapping[str, object]) -> Setting:
    """The distribution that the values describe, if the page can have it."""
    shares = DISTRIBUTIONS[check.known("distribution", family, DISTRIBUTIONS)].shares
    options = {name: _given(name, values.get(name), name in shares) for name in parameters(family)}
    check.integer("length", options["length"], least=2, most=LONGEST)
    if options.get("alphabet") is not None:
        check.integer("alphabet", options["alphabet"], most=MOST_ALPHABET.get(family, ANY_ALPHABET))
    draws = _given("draws", values.get("draws"), False)
    seed = check.integer("seed", _given("seed", values.get("seed"), False) or 0, least=0, most=check.EXACT)
    return Setting(
        family,
        tuple((name, value) for name, value in options.items() if value is not None),
        check.integer("draws", draws, least=4, most=MOST_DRAWS) if draws else None,
        seed,
    )


# Whoever changes the schedules gets the distribution from memory.
_kept: dict[Setting, data.Data] = {}
_lock = Lock()


def _keep(setting: Setting, known: data.Data) -> None:
    with _lock:
        _kept[setting] = known
        if len(_kept) > 32:
            del _kept[next(iter(_kept))]


@lru_cache(maxsize=256)
def errors(name: str, known: data.Data) -> Errors:
    """The errors of one schedule."""
    curve = known.curve
    family = size_family(name, curve)
    steps = counts(curve.length)
    schedules = [family(count) for count in steps.tolist()]
    kl = np.array([evaluate.expected_kl(schedule, curve) for schedule in schedules])
    promises = [promise(schedule, curve) for schedule in schedules]
    spreads = [spread for schedule in schedules if (spread := known.standard_error(schedule)) is not None]
    error = np.array(spreads) if spreads else None
    return Errors(name, steps, kl, error, np.array([value for _, value in promises]), promises[0][0])


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
    allowed = (entry.make(length) for entry in GAUGES.values())
    return "exact guarantee", min(gauge.guarantee(overhang, each) * float(curve.drops @ each) for each in allowed)


def _given(name: str, value: object, share: bool) -> Any:
    """A field as the command line would have it: whole numbers are integers, an empty field is None."""
    if value is None or value == "":
        return None
    number = check.real(name, value)
    return int(number) if number.is_integer() and not share else number
