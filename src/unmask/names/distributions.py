"""The names of gauges and of distributions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask import gauge
from unmask.distribution import Distribution, LatentParity, Markov, Mixture, Parity, ReedSolomon, latent_code


@final
@dataclass(frozen=True)
class NamedGauge:
    """What the name of a gauge stands for.

    Attributes:
        make: Gives the gauge of a length.
        title: The measure of dependence it belongs to.
        sentence: What it is.
    """

    make: gauge.Gauge
    title: str
    sentence: str

    @property
    def factor(self) -> str:
        """The measure as a factor of a product."""
        return f"({self.title})" if " + " in self.title else self.title


GAUGES: dict[str, NamedGauge] = {
    "tc": NamedGauge(gauge.tc, "TC", "Total correlation: how far the tokens are from being independent."),
    "dtc": NamedGauge(gauge.dtc, "DTC", "Dual total correlation: how much of the text's information its tokens share."),
    "min": NamedGauge(gauge.both, "min(TC, DTC)", "TC or DTC, whichever is smaller: for when you do not know which."),
    "sum": NamedGauge(
        gauge.total, "TC + DTC", "The sum of TC and DTC, which equals the sum of I(X_i; X_-i) over the tokens."
    ),
}


@final
@dataclass(frozen=True)
class NamedDistribution:
    """What the name of a distribution stands for.

    Attributes:
        sentence: What it is, with its options in braces.
        needs: The options it cannot do without.
        build: Takes the options given.
        usual: Values with which it shows what it is about.
        takes: Options it can do without.
        shares: Those of its options that are between 0 and 1; the others are whole numbers.
        drawn: Whether it is itself drawn, and takes a generator of random numbers too.
    """

    sentence: str
    needs: tuple[str, ...]
    build: Callable[..., Distribution]
    usual: Mapping[str, float]
    takes: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    drawn: bool = False

    def made(self, name: str, options: Mapping[str, object], *, rng: np.random.Generator) -> Distribution:
        """The distribution.

        Arguments:
            name: Its name, for a sentence about what is wrong.
            options: What was said of it; None where nothing was.
            rng: Source of randomness, for distributions that are themselves drawn.

        Raises:
            InputError: if an option is missing or has no meaning here, or the values do not fit.
        """
        given = {option: value for option, value in options.items() if value is not None}
        if missing := [option for option in self.needs if option not in given]:
            raise check.InputError("", f"Distribution '{name}' needs {_listed(missing)} as well")
        if idle := [option for option in given if option not in self.needs + self.takes]:
            words = _listed(idle)
            raise check.InputError("", f"Distribution '{name}' does not take {words}", remedy=f"Leave out {words}.")
        return self.build(**given, **({"rng": rng} if self.drawn else {}))


def _listed(options: list[str]) -> str:
    return " and ".join(f"{{{option}}}" for option in options)


def _sticky(length: int, alphabet: int, stay: float) -> Markov:
    """A chain in which each token repeats the one before with probability `stay`."""
    with check.renamed("vocab", "alphabet"):
        return Markov.sticky(alphabet, stay, length)


def _coin(length: int, bias: float) -> Mixture:
    """A coin of bias `bias` or `1 − bias`, equally likely, tossed `length` times."""
    if not 0 <= check.real("bias", bias) <= 1:
        raise check.InputError("bias", "be between 0 and 1", found=f"{bias:g}")
    return Mixture([0.5, 0.5], [[1 - bias, bias], [bias, 1 - bias]], length=length)


DISTRIBUTIONS: dict[str, NamedDistribution] = {
    "reed-solomon": NamedDistribution(
        "a code: any {dimension} tokens are independent and determine the rest",
        ("length", "dimension", "alphabet"),
        ReedSolomon,
        {"length": 256, "dimension": 250, "alphabet": 256},
    ),
    "parity": NamedDistribution(
        "a code with one check token",
        ("length",),
        Parity,
        {"length": 256, "alphabet": 2},
        takes=("alphabet",),
    ),
    "linear": NamedDistribution(
        "a code with a random generator matrix",
        ("length", "dimension", "alphabet"),
        latent_code,
        {"length": 128, "dimension": 120, "alphabet": 2, "draws": 100},
        drawn=True,
    ),
    "markov": NamedDistribution(
        "a chain in which each token repeats the one before with probability {stay}",
        ("length", "alphabet", "stay"),
        _sticky,
        {"length": 256, "alphabet": 2, "stay": 0.9},
        shares=("stay",),
    ),
    "mixture": NamedDistribution(
        "tosses of one coin, which shows 1 with probability {bias} or 1 - {bias}",
        ("length", "bias"),
        _coin,
        {"length": 256, "bias": 0.1},
        shares=("bias",),
    ),
    "latent-parity": NamedDistribution(
        "a bit shared by all tokens, and a parity check over a second bit of each",
        ("length",),
        LatentParity,
        {"length": 256},
    ),
}
