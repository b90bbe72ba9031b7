"""Size schedules: how many tokens to reveal at each step. See `unmask.size.base` for the formalism."""

from unmask.size.base import Blind, Planned
from unmask.size.dependence import DTC, TC
from unmask.size.loglinear import LogLinear
from unmask.size.planned import Ceil, ChenDTC, ChenTC, Cosine, Even, Explicit, chen_sizes, chen_zeta
from unmask.size.poisson import ConditionalPoisson
from unmask.size.recursion import CoefficientTable, Scheme, dtc_scheme, tc_scheme
from unmask.size.systematic import Offset, Systematic

__all__ = [
    "DTC",
    "TC",
    "Blind",
    "Ceil",
    "ChenDTC",
    "ChenTC",
    "CoefficientTable",
    "ConditionalPoisson",
    "Cosine",
    "Even",
    "Explicit",
    "LogLinear",
    "Offset",
    "Planned",
    "Scheme",
    "Systematic",
    "chen_sizes",
    "chen_zeta",
    "dtc_scheme",
    "tc_scheme",
]
