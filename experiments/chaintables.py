"""The tables of the oracle, for docs/atlas.md: what rules lose where predictions are perfect."""

from collections.abc import Callable

import common
from common import markdown

SIZES = ("even", "cosine", "tc", "dtc", "minimax-min", "optimal", "doubling", "rounds")  # sizes with a number of steps
ROUNDS = 7  # steps of dilated rounds for 128 characters


def _lost(row: dict[str, str]) -> str:
    """Bits per character lost to drawing tokens together, with their error where they were estimated."""
    bits, error = float(row["bits"]), float(row["error"])
    if abs(bits) < 1e-5 and error < 1e-5:
        return "0" if abs(bits) <= 1e-12 else "< 0.00001"
    return f"{bits:.4f}" + (f" ± {error:.4f}" if row["exact"] == "no" else "")


def _wrong(row: dict[str, str]) -> str:
    """The error rate of transitions in per cent, if there is one."""
    if not row["tv_rate"]:
        return ""
    rate = 100 * float(row["tv_rate"])
    return ", " + ("0 %" if rate < 1e-8 else "< 0.01 %" if rate < 0.01 else f"{rate:.2g} %")


def _rule(order: str, size: str) -> str:
    """A rule for readers. Dilated rounds stand under the nearest number of evaluations, so they say their own."""
    return f"{order}, {size}" + (f" ({ROUNDS} evaluations)" if size == "rounds" else "")


def planned() -> str:
    """Perfect predictions of a chain of first order: bits lost and error rates of every rule with a number of steps."""
    rows = [r for r in common.read("atlas-oracle.csv") if r["chain"] == "1" and r["evaluations"]]
    found = {(r["order"], r["size"], round(float(r["evaluations"]))): r for r in rows}
    counts = (4, 8, 16, 32, 64)
    body = []
    for order, size in dict.fromkeys(key[:2] for key in found if key[1] in SIZES):
        cells = [found.get((order, size, ROUNDS if (size, count) == ("rounds", 8) else count)) for count in counts]
        body.append([_rule(order, size), *("" if r is None else _lost(r) + _wrong(r) for r in cells)])
    return markdown(["order, sizes", *(f"{count} evaluations" for count in counts)], body)


def free() -> str:
    """The same for rules that choose their own number of steps."""
    rows = [r for r in common.read("atlas-oracle.csv") if r["chain"] == "1" and r["evaluations"]]
    chosen = [r for r in rows if r["size"].startswith(("threshold", "entropy-bound", "factor"))]
    body = [[f"{r['order']}, {r['size']}", f"{float(r['evaluations']):.1f}", _lost(r), _wrong(r)[2:]] for r in chosen]
    return markdown(["order, rule", "mean evaluations", "bits per character lost", "error rate"], body)


def second() -> str:
    """Bits lost on a chain of second order."""
    rows = [r for r in common.read("atlas-oracle.csv") if r["chain"] == "2"]
    found = {(r["order"], r["size"], int(float(r["evaluations"]))): r for r in rows}
    counts = (4, 8, 16, 32)
    body = []
    for order, size in dict.fromkeys(key[:2] for key in found):
        cells = [found.get((order, size, ROUNDS if (size, count) == ("rounds", 8) else count)) for count in counts]
        body.append([_rule(order, size), *("" if r is None else _lost(r) for r in cells)])
    return markdown(["order, sizes", *(f"{count} evaluations" for count in counts)], body)


TABLES: dict[str, Callable[[], str]] = {"oracle": planned, "oracle-free": free, "oracle-second": second}
