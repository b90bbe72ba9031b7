"""Probability distributions over token sequences, each with its exact loss curve and conditional marginals."""

from unmask.distribution.base import Distribution
from unmask.distribution.code import Code, Parity, ReedSolomon
from unmask.distribution.estimate import CurveEstimate, estimate_curve
from unmask.distribution.linear import LinearCode, latent_code
from unmask.distribution.markov import Markov
from unmask.distribution.mixture import LatentParity, Mixture
from unmask.distribution.table import Table

__all__ = [
    "Code",
    "CurveEstimate",
    "Distribution",
    "LatentParity",
    "LinearCode",
    "Markov",
    "Mixture",
    "Parity",
    "ReedSolomon",
    "Table",
    "estimate_curve",
    "latent_code",
]
