"""Every public family of size schedules that works at any length: steps → schedule."""

import numpy as np

from unmask import gauge, size
from unmask.information.curve import Curve


def minimax_tc(steps):
    return size.Minimax(steps, gauge.tc)


def minimax_dtc(steps):
    return size.Minimax(steps, gauge.dtc)


def minimax_min(steps):
    return size.Minimax(steps, gauge.both)


def minimax_sum(steps):
    return size.Minimax(steps, gauge.total)


def stretched(steps):
    return size.Stretched(steps, Curve([2.0, 1.2, 0.9, 0.4, 0.3, 0.3]))


# With a place for every token of 256, cuts may fall anywhere up to that length.
_RATES = np.triu(1 / (1 + np.arange(256.0)[:, None]) + 0.5 * np.sin(np.arange(256.0)) ** 2)


def stretched_table(steps):
    return size.StretchedTable(steps, 256, range(256), [64, 256], np.stack([_RATES, _RATES + 0.1]))


MINIMAX = {
    "tc": (minimax_tc, gauge.tc),
    "dtc": (minimax_dtc, gauge.dtc),
    "min": (minimax_min, gauge.both),
    "sum": (minimax_sum, gauge.total),
}
FAMILIES = [
    size.Even, size.Ceil, size.Cosine, size.LogLinear, size.ChenTC, size.ChenDTC, size.Offset, size.Logit, size.TC,
    size.DTC, size.Universal, minimax_tc, minimax_dtc, minimax_min, minimax_sum,
    stretched, stretched_table,
]  # fmt: skip
