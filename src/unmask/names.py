"""The names of things: the one table that files, the command line, the page, figures, completion and the docs read.

Inside the library an object is chosen by making it, never by a word. Words are for people and for files, and each of
them stands here once, with what it makes, what that needs, how it is drawn, and one sentence of explanation:

    SIZES            how many tokens each step reveals
    ORDERS           which ones
    GAUGES           what a guarantee is measured against
    DISTRIBUTIONS    data whose law is known
    RULES            samplers that were published under a name: an order and a size
    MODELS           models that ship with the library

To add a size: its class in `unmask.size`, a line here, and a page that says what it is for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, final

import numpy as np

from unmask import _check as check
from unmask import gauge, order, size
from unmask.distribution import Distribution, LatentParity, Markov, Mixture, Parity, ReedSolomon, latent_code


@final
@dataclass(frozen=True)
class Look:
    """How a size is drawn, the same in every figure.

    Colour says what it is made for: fixed sizes warm, TC blue, DTC green, both purple, a known curve black. The paper's
    schemes are dashed, minimax and optimal ones solid.

    Attributes:
        colour: As in HTML; distinguishable in print and by colour-blind readers (Okabe & Ito).
        dashes: Lengths of dashes and gaps; none for a solid line.
        page: Number of its colour on the page, which has a light and a dark one.
    """

    colour: str
    dashes: tuple[float, ...] = ()
    page: int = 0


class Need(Enum):
    """What must be said beside the name of a size."""

    STEPS = "a number of steps"
    CURVE = "a number of steps, and the loss curve it is made for"
    GAUGE = "a number of steps, and a gauge in a file"
    NUMBER = "a number of its own, after a colon; predictions decide the steps"
    PARTS = "parts that no word can say: it is made in Python, or read from a file"


@final
@dataclass(frozen=True)
class NamedSize:
    """What the name of a size stands for.

    Attributes:
        kind: The class.
        sentence: What it is.
        needs: What must be said beside the name.
        look: How it is drawn; None where no figure compares it.
        settled: Arguments of the class that the name settles. Files save them, and the name without them.
        usual: For `Need.NUMBER`: a number to begin with.
    """

    kind: type[size.Blind] | type[size.Reactive]
    sentence: str
    needs: Need = Need.STEPS
    look: Look | None = None
    settled: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usual: str = ""

    def make(self, *given: Any) -> Any:
        """The size, from what it needs."""
        return self.kind(*given, **self.settled)


def _minimax(sentence: str, measure: gauge.Gauge, look: Look) -> NamedSize:
    return NamedSize(size.Minimax, sentence, look=look, settled={"gauge": measure})


SIZES: dict[str, NamedSize] = {
    "even": NamedSize(size.Even, "The same number every step, as everyone does.", look=Look("#D55E00", page=0)),
    "ceil": NamedSize(
        size.Ceil, "⌈L/K⌉ tokens a step until nothing is left: the paper's baseline.",
        look=Look("#E69F00", (2, 1.5), page=8),
    ),
    "cosine": NamedSize(
        size.Cosine, "Few tokens first, many at the end, along a cosine (MaskGIT).",
        look=Look("#E69F00", (5, 2), page=2),
    ),
    "log-linear": NamedSize(
        size.LogLinear, "Every token chooses its step by itself, as in ancestral sampling (MDLM, SEDD).",
        look=Look("#999999", page=6),
    ),
    "explicit": NamedSize(size.Explicit, "Sizes written out.", Need.PARTS),
    "chen-tc": NamedSize(
        size.ChenTC, "Fixed sizes of Chen, Cong & Li for a total correlation.", look=Look("#56B4E9", (2, 1.5), page=9),
    ),
    "chen-dtc": NamedSize(
        size.ChenDTC, "Fixed sizes of Chen, Cong & Li for a dual total correlation.",
        look=Look("#009E73", (2, 1.5), page=10),
    ),
    "offset": NamedSize(size.Offset, "Equal sizes that begin at a random place.", look=Look("#E69F00", page=11)),
    "tc": NamedSize(
        size.TC, "The paper's scheme for data of small total correlation.", look=Look("#0072B2", (5, 2), page=1)
    ),
    "dtc": NamedSize(
        size.DTC, "The paper's scheme for data of small dual total correlation.",
        look=Look("#009E73", (5, 2), page=3),
    ),
    "minimax-tc": _minimax(
        "The best guarantee that so many steps can give for TC.", gauge.tc, Look("#0072B2", page=12)
    ),
    "minimax-dtc": _minimax(
        "The best guarantee that so many steps can give for DTC.", gauge.dtc, Look("#009E73", page=13)
    ),
    "minimax-min": _minimax(
        "The best guarantee for whichever of TC and DTC is smaller.", gauge.both, Look("#AA3377", page=4)
    ),
    "minimax-sum": _minimax("The best guarantee for TC + DTC.", gauge.total, Look("#56B4E9", page=14)),
    "minimax": NamedSize(size.Minimax, "The best guarantee for a gauge of your own.", Need.GAUGE),
    "universal": NamedSize(
        size.Universal, "Close to the best guarantees for TC, DTC and their sum, all at once.",
        look=Look("#7A4A1E", (6, 1.5, 1.5, 1.5), page=16),
    ),
    "logit": NamedSize(
        size.Logit, "Steps uniform in the log-odds of the share revealed.", look=Look("#CC79A7", page=17)
    ),
    "optimal": NamedSize(
        size.Optimal, "The least error that is possible on a known loss curve.", Need.CURVE, Look("#000000", page=5)
    ),
    "square-root": NamedSize(
        size.SquareRoot, "Close to optimal for many steps on a smooth curve, by a formula.", Need.CURVE,
        Look("#777777", (2, 1.5), page=18),
    ),
    "optimal-table": NamedSize(size.OptimalTable, "The least cost for a table of losses under any order.", Need.PARTS),
    "stretched": NamedSize(
        size.Stretched, "The least error on a loss curve, stretched to any number of tokens.", Need.PARTS
    ),
    "stretched-table": NamedSize(
        size.StretchedTable, "The least cost for measured losses under any order, with any number of tokens.",
        Need.PARTS,
    ),
    "threshold": NamedSize(
        size.Threshold, "All leading positions whose confidence is at least a threshold (Fast-dLLM).", Need.NUMBER,
        usual="0.9",
    ),
    "factor": NamedSize(
        size.Factor, "Leading positions, the surer the more of them (Fast-dLLM).", Need.NUMBER, usual="1"
    ),
    "entropy-bound": NamedSize(
        size.EntropyBound, "As many as can know at most so many nats of each other (EB-Sampler).", Need.NUMBER,
        usual="1",
    ),
    "at-least": NamedSize(size.AtLeast, "Another size, but no fewer than a number.", Need.PARTS),
    "at-most": NamedSize(size.AtMost, "Another size, but no more than a number.", Need.PARTS),
}  # fmt: skip


def sizes_that_need(*needs: Need) -> tuple[str, ...]:
    """The names of sizes for which one of `needs` is enough."""
    return tuple(name for name, entry in SIZES.items() if entry.needs in needs)


@final
@dataclass(frozen=True)
class NamedOrder:
    """What the name of an order stands for.

    Attributes:
        kind: The class.
        sentence: What it is.
        alone: Whether the name says it all; otherwise the order is made in Python, or read from a file.
        numbered: Whether a number may follow the name after a hyphen, as in comb-16.
        settled: Arguments of the class that the name settles. Files save them, and the name without them.
    """

    kind: type[order.Order]
    sentence: str
    alone: bool = True
    numbered: bool = False
    settled: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def make(self, *given: Any) -> Any:
        """The order, from its number if one was given."""
        return self.kind(*given, **self.settled)


ORDERS: dict[str, NamedOrder] = {
    "random": NamedOrder(order.Random, "Every order equally likely; the guarantees are for this one."),
    "spread": NamedOrder(order.Spread, "Every beginning of the order is spread evenly over the text."),
    "spread-grid": NamedOrder(order.SpreadGrid, "The same on a grid, for images.", alone=False),
    "comb": NamedOrder(order.Comb, "One token in every segment, then its right neighbour in each.", numbered=True),
    "whole-comb": NamedOrder(
        order.Comb, "The comb from the first position on, so that every segment is whole.", True, True, {"shift": 0},
    ),
    "periodic": NamedOrder(order.Periodic, "All positions of one residue, then all of the next.", alone=False),
    "left-to-right": NamedOrder(order.LeftToRight, "As one reads."),
    "dilated": NamedOrder(order.Dilated, "Halving strides: every second gap is filled in each round (DUS)."),
    "confidence": NamedOrder(order.Confidence, "Where the most likely token is likeliest first."),
    "margin": NamedOrder(order.Margin, "Where the best token leads the second by most first."),
    "entropy": NamedOrder(order.Entropy, "Where the prediction is surest first, by its entropy."),
    "blocks": NamedOrder(order.Blocks, "One stretch after the other, each by another order.", alone=False),
}  # fmt: skip


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
    "tc": NamedGauge(gauge.tc, "TC", "Total correlation."),
    "dtc": NamedGauge(gauge.dtc, "DTC", "Dual total correlation."),
    "min": NamedGauge(gauge.both, "min(TC, DTC)", "Whichever of the two is smaller."),
    "sum": NamedGauge(gauge.total, "TC + DTC", "Their sum, which is the sum of I(X_i; X_-i) over the tokens."),
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
            raise check.InputError("", f"Distribution '{name}' has no use for {_listed(idle)}", remedy="Leave it out.")
        return self.build(**given, **({"rng": rng} if self.drawn else {}))


def _listed(options: list[str]) -> str:
    return " and ".join(f"{{{option}}}" for option in options)


def _sticky(length: int, alphabet: int, stay: float) -> Markov:
    """A chain that keeps its token with probability `stay`."""
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
        "a chain that keeps its token with probability {stay}",
        ("length", "alphabet", "stay"),
        _sticky,
        {"length": 256, "alphabet": 2, "stay": 0.9},
        shares=("stay",),
    ),
    "mixture": NamedDistribution(
        "a coin whose bias is {bias} or 1 - {bias}, one or the other for all tokens",
        ("length", "bias"),
        _coin,
        {"length": 256, "bias": 0.1},
        shares=("bias",),
    ),
    "latent-parity": NamedDistribution(
        "a bit shared by all tokens and a parity check over a second one",
        ("length",),
        LatentParity,
        {"length": 256},
    ),
}


@final
@dataclass(frozen=True)
class Rule:
    """A sampler that was published under a name, as the words for its order and its size.

    Attributes:
        order: The word for its order.
        size: The word for its size.
        sentence: What it is, and by whom.
    """

    order: str
    size: str
    sentence: str


# Each is compared with an independent rewrite of its published loop in tests/test_equivalence.py.
RULES: dict[str, Rule] = {
    "llada-random": Rule("random", "even", "LLaDA's random remasking."),
    "llada": Rule("confidence", "even", "LLaDA's low-confidence remasking, at temperature 0."),
    "maskgit": Rule("confidence", "cosine", "MaskGIT, at temperature 0."),
    "mdlm": Rule("random", "log-linear", "Ancestral sampling of MDLM and SEDD."),
    "dream-margin": Rule("margin", "even", "Dream's topk_margin, with even sizes."),
    "dream-entropy": Rule("entropy", "even", "Dream's entropy, with even sizes."),
    "fast-dllm": Rule("confidence", "threshold:0.9", "Fast-dLLM's confidence threshold."),
    "fast-dllm-factor": Rule("confidence", "factor:1", "Fast-dLLM's factor."),
    "eb-sampler": Rule("entropy", "entropy-bound:0.5", "Entropy-bounded unmasking (EB-Sampler)."),
}


@final
@dataclass(frozen=True)
class NamedModel:
    """A model that ships with the library.

    Attributes:
        folder: Where its files are, within `unmask.models`.
        sentence: What it is.
    """

    folder: tuple[str, ...]
    sentence: str

    def file(self, name: str) -> Traversable:
        """One of its files, if it is there."""
        return resources.files("unmask").joinpath("models", *self.folder, name)


MODELS: dict[str, NamedModel] = {
    "builtin": NamedModel(("builtin",), "Looks both ways: at home with any schedule, and run anew at every step."),
    "causal": NamedModel(("builtin", "causal"), "Causal in the schedule: made for whole combs, and run once in all."),
}
