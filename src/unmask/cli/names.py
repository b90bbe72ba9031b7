"""What the words on the command line stand for: the only place where a string chooses an algorithm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from unmask import _check as check
from unmask import gauge, size
from unmask.distribution import Distribution, LatentParity, Markov, Mixture, Parity, ReedSolomon, latent_code
from unmask.information.curve import Curve

Family = Callable[[int], size.Blind]

# What a number of steps is enough for.
SIZES: dict[str, Family] = {
    "even": size.Even,
    "ceil": size.Ceil,
    "cosine": size.Cosine,
    "log-linear": size.LogLinear,
    "chen-tc": size.ChenTC,
    "chen-dtc": size.ChenDTC,
    "offset": size.Offset,
    "tc": size.TC,
    "dtc": size.DTC,
    "minimax-tc": partial(size.Minimax, gauge=gauge.tc),
    "minimax-dtc": partial(size.Minimax, gauge=gauge.dtc),
    "minimax-min": partial(size.Minimax, gauge=gauge.both),
    "minimax-sum": partial(size.Minimax, gauge=gauge.total),
    "universal": size.Universal,
    "logit": size.Logit,
}
# What is made for a loss curve.
CURVE_SIZES: dict[str, Callable[[int, Curve], size.Blind]] = {
    "optimal": size.Optimal,
    "square-root": size.SquareRoot,
}
ALL_SIZES = (*SIZES, *CURVE_SIZES)
# What `unmask plan --gauge FILE` makes; it has no meaning without the file.
GAUGE_SIZE = "minimax"


def size_family(name: str, curve: Curve | None = None) -> Family:
    """The size schedule of that name, still without its number of steps.

    Arguments:
        name: One of `ALL_SIZES`.
        curve: The loss curve, for those that are made for one.
    """
    if check.known("size", name, ALL_SIZES) in SIZES:
        return SIZES[name]
    if curve is None:
        raise check.InputError(
            "",
            f"Size '{name}' is made for a loss curve",
            remedy="Give one with --curve FILE, or name a --distribution.",
        )
    return lambda steps: CURVE_SIZES[name](steps, curve)


@dataclass(frozen=True)
class Recipe:
    """How to build one distribution from options.

    Arguments:
        summary: What it is, with its options in braces.
        needs: The options it cannot do without.
        build: Takes the options given and a generator of random numbers.
        takes: Options it can do without.
        shares: Those of its options that are between 0 and 1; the others are whole numbers.
    """

    summary: str
    needs: tuple[str, ...]
    build: Callable[..., Distribution]
    takes: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()


def _coin(length: int, bias: float) -> Mixture:
    """A coin of bias `bias` or `1 − bias`, equally likely, tossed `length` times."""
    if not 0 <= check.real("bias", bias) <= 1:
        raise check.InputError("bias", "be between 0 and 1", found=f"{bias:g}")
    return Mixture([0.5, 0.5], [[1 - bias, bias], [bias, 1 - bias]], length=length)


DISTRIBUTIONS: dict[str, Recipe] = {
    "reed-solomon": Recipe(
        "a code: any {dimension} tokens are independent and determine the rest",
        ("length", "dimension", "alphabet"),
        lambda rng, **options: ReedSolomon(**options),
    ),
    "parity": Recipe(
        "a code with one check token",
        ("length",),
        lambda rng, **options: Parity(**options),
        takes=("alphabet",),
    ),
    "linear": Recipe(
        "a code with a random generator matrix",
        ("length", "dimension", "alphabet"),
        lambda rng, **options: latent_code(**options, rng=rng),
    ),
    "markov": Recipe(
        "a chain that keeps its token with probability {stay}",
        ("length", "alphabet", "stay"),
        lambda rng, length, alphabet, stay: Markov.sticky(check.integer("alphabet", alphabet, least=2), stay, length),
        shares=("stay",),
    ),
    "mixture": Recipe(
        "a coin whose bias is {bias} or 1 - {bias}, one or the other for all tokens",
        ("length", "bias"),
        lambda rng, **options: _coin(**options),
        shares=("bias",),
    ),
    "latent-parity": Recipe(
        "a bit shared by all tokens and a parity check over a second one",
        ("length",),
        lambda rng, **options: LatentParity(**options),
    ),
}


def build_distribution(name: str, options: Mapping[str, object], *, rng: np.random.Generator) -> Distribution:
    """Build the distribution of that name.

    Arguments:
        name: A key of `DISTRIBUTIONS`.
        options: All the options of the command line; those not given are None.
        rng: Source of randomness, for distributions that are themselves drawn.

    Raises:
        ValueError: if the name is unknown, an option is missing or has no meaning here, or the values do not fit.
    """
    recipe = DISTRIBUTIONS[check.known("distribution", name, DISTRIBUTIONS)]
    given = {option: value for option, value in options.items() if value is not None}
    missing = [option for option in recipe.needs if option not in given]
    if missing:
        raise check.InputError("", f"Distribution '{name}' needs {_flags(missing)} as well")
    idle = [option for option in given if option not in recipe.needs + recipe.takes]
    if idle:
        raise check.InputError("", f"Distribution '{name}' has no use for {_flags(idle)}", remedy="Leave it out.")
    return recipe.build(rng, **given)


def _flags(options: list[str]) -> str:
    return " and ".join(f"--{option}" for option in options)
