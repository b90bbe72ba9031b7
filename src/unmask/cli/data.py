"""What is said of the data on the command line: a distribution with its options, or a loss curve in a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask.cli.names import build_distribution
from unmask.cli.output import number
from unmask.distribution import CurveEstimate, Distribution, LinearCode, estimate_curve
from unmask.information.curve import Curve
from unmask.information.estimate import average
from unmask.information.files import read_curve

_GROUPS = 50


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


def read(
    length: int | None,
    distribution: str | None,
    curve: Path | None,
    monotone: bool,
    estimate_curve: int | None,
    parameters: Mapping[str, float | None],
    *,
    rng: np.random.Generator,
) -> Data | None:
    """The data that the options describe; None if they describe none.

    Raises:
        ValueError: if options are missing, contradict each other, or have no use.
    """
    given = {key: value for key, value in parameters.items() if value is not None}
    if curve is not None:
        if distribution is not None:
            raise check.InputError(
                "", "A curve and a distribution say the same thing twice", remedy="Leave out --curve or --distribution."
            )
        _no_use("With --curve", given, {"--estimate-curve": estimate_curve is not None})
        return _from_file(curve, length, monotone)
    if distribution is None:
        unused = {"--estimate-curve": estimate_curve is not None, "--monotone": monotone}
        _no_use("Without --distribution" if given or not monotone else "Without --curve", given, unused)
        return None
    _no_use("Without --curve", {}, {"--monotone": monotone})
    named = Named.of(distribution, {"length": length, **parameters}, rng=rng)
    if estimate_curve is None:
        return named.exact()
    return named.estimated(list(named.estimates(check.integer("estimate-curve", estimate_curve, least=4), rng=rng)))


@dataclass(frozen=True, eq=False)
class Named:
    """A distribution whose curve is still to be found.

    Arguments:
        law: The distribution. title: What it is, in a few words. record: The same for programs.
    """

    law: Distribution
    title: str
    record: dict[str, Any]

    @classmethod
    def of(cls, name: str, options: Mapping[str, float | None], *, rng: np.random.Generator) -> "Named":
        """The distribution of that name.

        Arguments:
            name: A key of `unmask.cli.names.DISTRIBUTIONS`. options: What it is built from; None where not given.
            rng: Source of randomness, for distributions that are themselves drawn.
        """
        law = build_distribution(name, options, rng=rng)
        given = {key: value for key, value in options.items() if value is not None}
        title = ", ".join([name, *(f"{key} {value:g}" for key, value in given.items())])
        return cls(law, title, {"name": name, **given})

    def exact(self) -> Data:
        """Its exact curve."""
        return Data(_exact(self.law), self.title, self.record)

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


def required_length(length: int | None) -> int:
    """The length, where nothing else tells it."""
    if length is None:
        raise click.UsageError("Missing option '--length'.")
    return length


def _no_use(where: str, given: Mapping[str, object], flags: Mapping[str, bool]) -> None:
    idle = [f"--{name}" for name in given] + [flag for flag, present in flags.items() if present]
    if idle:
        raise check.InputError("", f"{where} there is no use for {' and '.join(idle)}", remedy="Leave it out.")


def _from_file(path: Path, length: int | None, monotone: bool) -> Data:
    reading = read_curve(path, length=length, monotone=monotone)
    record: dict[str, Any] = {"name": "curve", "file": str(path), "length": reading.curve.length}
    notes = ()
    if monotone:
        record["monotone_change"] = reading.change
        notes = (
            f"The curve increased in places; isotonic regression changed it by up to {number(reading.change)} nats."
            if reading.change
            else "The curve does not increase: --monotone changed nothing.",
        )
    return Data(reading.curve, f"curve '{path.name}', length {reading.curve.length}", record, notes)


def _exact(law: Distribution) -> Curve:
    return law.curve()
