"""Size schedules: how many tokens to reveal at each step. See `unmask.size.base` for the formalism."""

from unmask.size._poisson import ConditionalPoisson
from unmask.size.base import Blind, Planned, Size
from unmask.size.dependence import DTC, TC
from unmask.size.loglinear import LogLinear
from unmask.size.minimax import Minimax, Universal
from unmask.size.optimal import Logit, Optimal, OptimalTable, Paths, SquareRoot, best_paths, table_paths
from unmask.size.planned import Ceil, ChenDTC, ChenTC, Cosine, Even, Explicit, chen_sizes, chen_zeta
from unmask.size.reactive import AtLeast, AtMost, EntropyBound, Factor, Ranked, Reactive, Threshold
from unmask.size.recursion import CoefficientTable, Scheme, dtc_scheme, tc_scheme
from unmask.size.stable import Stable
from unmask.size.stretched import Stretched, StretchedTable
from unmask.size.systematic import Offset, Systematic

__all__ = [
    "DTC",
    "TC",
    "AtLeast",
    "AtMost",
    "Blind",
    "Ceil",
    "ChenDTC",
    "ChenTC",
    "CoefficientTable",
    "ConditionalPoisson",
    "Cosine",
    "EntropyBound",
    "Even",
    "Explicit",
    "Factor",
    "LogLinear",
    "Logit",
    "Minimax",
    "Offset",
    "Optimal",
    "OptimalTable",
    "Paths",
    "Planned",
    "Ranked",
    "Reactive",
    "Scheme",
    "Size",
    "SquareRoot",
    "Stable",
    "Stretched",
    "StretchedTable",
    "Systematic",
    "Threshold",
    "Universal",
    "best_paths",
    "chen_sizes",
    "chen_zeta",
    "dtc_scheme",
    "table_paths",
    "tc_scheme",
]
