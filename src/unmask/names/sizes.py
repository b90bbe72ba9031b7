"""The names of sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, final

from unmask import gauge, size


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
    "even": NamedSize(
        size.Even, "The same number of tokens in every step, as in most code.", look=Look("#D55E00", page=0),
    ),
    "ceil": NamedSize(
        size.Ceil, "⌈L/K⌉ tokens per step until none are left: the baseline of Zhao & Cai's paper.",
        look=Look("#E69F00", (2, 1.5), page=8),
    ),
    "cosine": NamedSize(
        size.Cosine, "Few tokens first, many at the end, along a cosine (MaskGIT).",
        look=Look("#E69F00", (5, 2), page=2),
    ),
    "log-linear": NamedSize(
        size.LogLinear, "Every token gets its own random step, as in ancestral sampling (MDLM, SEDD).",
        look=Look("#999999", page=6),
    ),
    "explicit": NamedSize(size.Explicit, "Sizes that you list yourself.", Need.PARTS),
    "chen-tc": NamedSize(
        size.ChenTC, "Fixed sizes by Chen, Cong & Li, made for TC.", look=Look("#56B4E9", (2, 1.5), page=9),
    ),
    "chen-dtc": NamedSize(
        size.ChenDTC, "Fixed sizes by Chen, Cong & Li, made for DTC.",
        look=Look("#009E73", (2, 1.5), page=10),
    ),
    "offset": NamedSize(size.Offset, "Equal sizes, shifted by a random offset.", look=Look("#E69F00", page=11)),
    "tc": NamedSize(
        size.TC, "Zhao & Cai's scheme for data with a small total correlation (TC).",
        look=Look("#0072B2", (5, 2), page=1)
    ),
    "dtc": NamedSize(
        size.DTC, "Zhao & Cai's scheme for data with a small dual total correlation (DTC).",
        look=Look("#009E73", (5, 2), page=3),
    ),
    "minimax-tc": _minimax(
        "The best guarantee for TC that this number of steps allows.", gauge.tc, Look("#0072B2", page=12)
    ),
    "minimax-dtc": _minimax(
        "The best guarantee for DTC that this number of steps allows.", gauge.dtc, Look("#009E73", page=13)
    ),
    "minimax-min": _minimax(
        "The best guarantee for whichever of TC and DTC is smaller.", gauge.both, Look("#AA3377", page=4)
    ),
    "minimax-sum": _minimax("The best guarantee for TC + DTC.", gauge.total, Look("#56B4E9", page=14)),
    "minimax": NamedSize(size.Minimax, "The best guarantee for your own gauge.", Need.GAUGE),
    "universal": NamedSize(
        size.Universal, "Close to the best guarantees for TC, DTC and their sum, all at once.",
        look=Look("#7A4A1E", (6, 1.5, 1.5, 1.5), page=16),
    ),
    "logit": NamedSize(
        size.Logit, "Steps are evenly spaced in the log-odds of the share revealed.", look=Look("#CC79A7", page=17)
    ),
    "optimal": NamedSize(
        size.Optimal, "The lowest possible error on a known loss curve.", Need.CURVE, Look("#000000", page=5)
    ),
    "square-root": NamedSize(
        size.SquareRoot, "A formula that is close to optimal for many steps on a smooth curve.", Need.CURVE,
        Look("#777777", (2, 1.5), page=18),
    ),
    "optimal-table": NamedSize(
        size.OptimalTable, "The lowest cost for a table of losses, under any order.", Need.PARTS,
    ),
    "stretched": NamedSize(
        size.Stretched, "The lowest error on a loss curve that stretches to any number of tokens.", Need.PARTS
    ),
    "stretched-table": NamedSize(
        size.StretchedTable, "The lowest cost for measured losses, under any order and for any number of tokens.",
        Need.PARTS,
    ),
    "threshold": NamedSize(
        size.Threshold, "All leading positions with a confidence of at least the threshold (Fast-dLLM).", Need.NUMBER,
        usual="0.9",
    ),
    "factor": NamedSize(
        size.Factor, "More positions per step where the model is more confident (Fast-dLLM).", Need.NUMBER, usual="1"
    ),
    "entropy-bound": NamedSize(
        size.EntropyBound,
        "As many positions as possible that share at most this many nats of information (EB-Sampler).",
        Need.NUMBER,
        usual="1",
    ),
    "stable": NamedSize(
        size.Stable, "All positions above a confidence threshold whose prediction is stable (KLASS).",
        Need.NUMBER, usual="0.9"
    ),
    "at-least": NamedSize(size.AtLeast, "Another size, but at least this many tokens per step.", Need.PARTS),
    "at-most": NamedSize(size.AtMost, "Another size, but at most this many tokens per step.", Need.PARTS),
}  # fmt: skip


def sizes_that_need(*needs: Need) -> tuple[str, ...]:
    """The names of sizes for which one of `needs` is enough."""
    return tuple(name for name, entry in SIZES.items() if entry.needs in needs)
