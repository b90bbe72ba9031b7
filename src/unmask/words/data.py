"""What is said of the data becomes a loss curve: a distribution with its options, or a curve in a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask.distribution import CurveEstimate, Distribution, LinearCode, estimate_curve
from unmask.distribution.estimate import average
from unmask.information.curve import Curve
from unmask.information.files import read_curve
from unmask.names import DISTRIBUTIONS
from unmask.words.sentences import number

_GROUPS = 50
PARAMETERS = ("dimension", "alphabet", "stay", "bias")  # of distributions, beside the length, which all have


@final
@dataclass(frozen=True, eq=False)
class Data:
    """A loss curve and where it came from.

    Arguments:
        curve: The curve.
        title: What it is, in a few words.
        record: The same for programs.
        notes: What a reader must know before trusting it, a sentence each.
        losses: Where it is an estimate: unbiased curves, independent, shape `(groups, length)`.
    """

    curve: Curve
    title: str
    record: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    losses: NDArray[np.float64] | None = field(default=None, repr=False)

    def standard_error(self, schedule: size.Blind) -> float | None:
        """The standard error of the schedule's expected KL; None where the curve is exact.

        The expected KL is linear in the curve, `Σ_n (v_n − 1) ℓ(n)`, so every group gives a value of its own.
        """
        if self.losses is None:
            return None
        values = self.losses @ (schedule.batch_mass(self.curve.length) - 1.0)
        return float(values.std(ddof=1) / np.sqrt(values.size))


@final
@dataclass(frozen=True)
class Said:
    """What was said of the data.

    Attributes:
        length: Number of tokens; that of the curve unless given.
        distribution: The name of a distribution.
        parameters: Its options, by name; None where nothing was said.
        estimate_curve: From how many draws to estimate its curve; exact unless given.
        curve: A file with a loss curve instead.
        monotone: Whether a curve that increases becomes the nearest one that does not.
    """

    length: int | None = None
    distribution: str | None = None
    parameters: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    estimate_curve: int | None = None
    curve: Path | None = None
    monotone: bool = False

    def read(self, *, rng: np.random.Generator) -> Data | None:
        """The data; None if nothing was said of them.

        Raises:
            InputError: if something is missing, contradicts something else, or has no use.
        """
        given = [name for name, value in self.parameters.items() if value is not None]
        estimated = ["estimate-curve"] if self.estimate_curve is not None else []
        monotone = ["monotone"] if self.monotone else []
        if self.curve is not None:
            if self.distribution is not None:
                remedy = "Leave out one of them."
                raise check.InputError("", "{curve} and {distribution} cannot be used together", remedy=remedy)
            _refused(given + estimated, beside="{curve}")
            return _from_file(self.curve, self.length, self.monotone)
        if self.distribution is None:
            _refused(given + estimated, without="{distribution}")
            _refused(monotone, without="{curve}")
            return None
        _refused(monotone, without="{curve}")
        named = Described.of(self.distribution, {"length": self.length, **self.parameters}, rng=rng)
        if self.estimate_curve is None:
            return named.exact()
        draws = check.integer("estimate-curve", self.estimate_curve, least=4)
        return named.estimated(list(named.estimates(draws, rng=rng)))

    def required(self, *, rng: np.random.Generator) -> Data:
        """The data, which must be there."""
        known = self.read(rng=rng)
        if known is None:
            raise check.InputError("", "Say what the data are: give {distribution} with its options, or {curve}")
        return known


@final
@dataclass(frozen=True, eq=False)
class Described:
    """A distribution whose curve is still to be found.

    Arguments:
        law: The distribution.
        title: What it is, in a few words.
        record: The same for programs.
    """

    law: Distribution
    title: str
    record: dict[str, Any]

    @classmethod
    def of(cls, name: str, options: Mapping[str, float | None], *, rng: np.random.Generator) -> "Described":
        """The distribution of that name.

        Arguments:
            name: A key of `unmask.names.DISTRIBUTIONS`.
            options: What it is built from; None where not given.
            rng: Source of randomness, for distributions that are themselves drawn.
        """
        entry = DISTRIBUTIONS[check.known("distribution", name, DISTRIBUTIONS)]
        law = entry.made(name, options, rng=rng)
        given = {key: value for key, value in options.items() if value is not None}
        title = ", ".join([name, *(f"{key} {value:g}" for key, value in given.items())])
        return cls(law, title, {"name": name, **given})

    def exact(self) -> Data:
        """Its exact curve."""
        return Data(self.law.curve(), self.title, self.record)

    def estimates(self, draws: int, *, rng: np.random.Generator) -> Iterator[CurveEstimate]:
        """Estimates of its curve from groups of draws: the spread between them is the error of all that follows.

        Arguments:
            draws: Draws in all, at least 4; a few less where they cannot be shared evenly.
            rng: Source of randomness.
        """
        groups = groups_of(draws)
        for _ in range(groups):
            if isinstance(self.law, LinearCode):
                yield self.law.estimate_curve(draws // groups, rng=rng)
            else:
                yield estimate_curve(self.law, draws // groups, rng=rng)

    def estimated(self, estimates: Sequence[CurveEstimate]) -> Data:
        """What all `estimates` say together."""
        losses = np.array([estimate.loss for estimate in estimates])
        draws = sum(estimate.draws for estimate in estimates)
        whole = average(losses)
        worst = float(whole.standard_error.max())
        record = self.record | {"estimated_from": draws, "curve_standard_error": worst}
        note = (
            f"The curve is estimated from {draws:,} draws, with a standard error of up to {number(worst)} nats per "
            "token; sizes made for it, such as 'optimal', look a little better on it than they are."
        )
        return Data(whole.curve, self.title, record, (note,), losses)


def groups_of(draws: int) -> int:
    """How many groups so many draws are shared among."""
    return min(draws // 2, _GROUPS)


def _refused(names: list[str], *, beside: str = "", without: str = "") -> None:
    """Refuse options that cannot be used beside another one, or without it."""
    if not names:
        return
    words = " and ".join(f"{{{name}}}" for name in names)
    if beside:
        raise check.InputError("", f"{words} cannot be used with {beside}", remedy=f"Leave out {words}.")
    needs = "need" if names[1:] else "needs"
    raise check.InputError("", f"{words} {needs} {without}", remedy=f"Give {without}, or leave out {words}.")


def _from_file(path: Path, length: int | None, monotone: bool) -> Data:
    reading = read_curve(path, length=length, monotone=monotone)
    record: dict[str, Any] = {"name": "curve", "file": str(path), "length": reading.curve.length}
    notes = ()
    if monotone:
        record["monotone_change"] = reading.change
        notes = (
            f"The curve increased in places; isotonic regression changed it by up to {number(reading.change)} nats."
            if reading.change
            else "The curve does not increase, so nothing had to be changed.",
        )
    return Data(reading.curve, f"curve '{path.name}', length {reading.curve.length}", record, notes)
