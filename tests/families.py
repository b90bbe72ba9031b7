"""Every public family of size schedules that works at any length: steps → schedule."""

from unmask import gauge, size


def minimax_tc(steps):
    return size.Minimax(steps, gauge.tc)


def minimax_dtc(steps):
    return size.Minimax(steps, gauge.dtc)


def minimax_min(steps):
    return size.Minimax(steps, gauge.both)


def minimax_sum(steps):
    return size.Minimax(steps, gauge.total)


MINIMAX = {
    "tc": (minimax_tc, gauge.tc),
    "dtc": (minimax_dtc, gauge.dtc),
    "min": (minimax_min, gauge.both),
    "sum": (minimax_sum, gauge.total),
}
FAMILIES = [
    size.Even, size.Ceil, size.Cosine, size.LogLinear, size.ChenTC, size.ChenDTC, size.Offset, size.Logit, size.TC,
    size.DTC, size.Universal, minimax_tc, minimax_dtc, minimax_min, minimax_sum,
]  # fmt: skip
