"""The tables of docs/atlas.md about six kinds of data, from the committed results of those that have been measured.

What the tables mean is written by hand on the page; `.ci/prose/test_kinds.py` compares its numbers with the results.
"""

from collections.abc import Callable, Sequence

import chaintables
import common
from common import KINDS, NETWORKS, markdown

# What the network that looks both ways is run with: label -> order, sizes.
BLIND = {
    "random, even": ("random", "even"),
    "random, cosine": ("random", "cosine"),
    "random, tc": ("random", "tc"),
    "random, dtc": ("random", "dtc"),
    "random, minimax-min": ("random", "minimax"),
    "comb, even": ("comb", "even"),
    "comb by rows, even": ("comb by rows", "even"),
    "spread, even": ("spread", "even"),
    "Halton, even": ("halton", "even"),
    "learned order, even": ("learned", "even"),
}
REACTIVE = {
    "confidence, even": ("confidence", "even"),
    "margin, even": ("margin", "even"),
    "entropy, even": ("entropy", "even"),
}
ORDERS = {
    "halton": "Halton",
    "learned": "learned order",
    "whole-comb": "whole comb",
    "blocks-32/margin": "margin in blocks of 32",
}
PICKED = {
    "sets, explicit": "learned order",
    "dilated, explicit": "dilated rounds",
    "confidence, threshold": "confidence threshold",
}
BUILT_IN = {"characters": {"both": "built in", "causal": "built in"}}  # networks that were trained before

Row = dict[str, str]


def at(rows: Sequence[Row], network: str, order: str, size: str) -> Row | None:
    """The row of a rule."""
    wanted = (network, order, size)
    return next((row for row in rows if (row["network"], row["order"], row["size"]) == wanted), None)


def one_by_one(rows: Sequence[Row], network: str, order: str) -> Row | None:
    """The row of an order one token at a time."""
    return at(rows, network, order, f"even:{_steps(rows)[-1]}")


def budgets(rows: Sequence[Row]) -> list[int]:
    """Numbers of evaluations at which every order was measured, in ascending order."""
    return _steps(rows)[:-1]


def _steps(rows: Sequence[Row]) -> list[int]:
    """The steps of even sizes in random order; the last are one for each token.

    Raises:
        ValueError: if one token at a time was not measured. The budgets end with one evaluation for two tokens.
    """
    even = {r["size"] for r in rows if (r["network"], r["order"]) == ("both", "random") and r["size"][:5] == "even:"}
    found = sorted(int(each.partition(":")[2]) for each in even)
    if len(found) < 2 or found[-2] != max(1, round(found[-1] / 2)):
        raise ValueError(f"random order was not measured one token at a time, only in {found} steps")
    return found


def _rule(name: str) -> str:
    """A rule for readers; the number of its steps stands beside it."""
    order, _, size = name.rpartition("/")
    family, _, number = size.partition(":")
    own = {
        "threshold": f"confidence threshold {number}",
        "entropy-bound": f"entropy bound {number}",
        "rounds": "dilated rounds",
    }
    return own.get(family) or (order if order == "advised" else f"{ORDERS.get(order, order)}, {family}")


def _schedule(words: str) -> str:
    """An advised schedule for readers."""
    order, _, size = words.partition(", ")
    return PICKED.get(words) or f"{ORDERS.get(order, order)}, {'best sizes' if size.startswith('stretched') else size}"


def _bits(row: Row | None) -> str:
    return "–" if row is None else f"{float(row['bits']):.3f}"


def _signed(value: str, error: str) -> str:
    return f"{float(value):+.4f} ± {float(error):.4f}".replace("-", "−")


def networks() -> str:
    """What the data and the networks are like."""
    head = ["kind", "tokens to fill", "TC", "DTC", *(f"updates, {label}" for label in NETWORKS.values())]
    body = []
    for kind in common.atlas_measured(KINDS):
        seen = common.atlas_seen(kind)
        known = BUILT_IN.get(kind, {}) | {name: f"{count:,}" for name, count in seen["updates"].items()}
        learned = [known.get(name, "–") for name in NETWORKS]
        body.append([KINDS[kind].short, str(seen["tokens"]), f"{seen['tc']:.2f}", f"{seen['dtc']:.2f}", *learned])
    return markdown(head, body)


def costs(which: int) -> str:
    """Bits per token of every rule, a column for each kind; the lowest of a network that looks both ways in bold.

    Arguments:
        which: The place of the number of evaluations among those that were measured.
    """
    kinds = common.atlas_measured(KINDS)
    rows = {kind: common.atlas_rows(kind) for kind in kinds}
    steps = {kind: budgets(rows[kind])[which] for kind in kinds}
    own = {kind: [row for row in _both_ways(rows[kind], steps[kind]).values() if row] for kind in kinds}
    lowest = {kind: _bits(min(own[kind], key=lambda row: float(row["bits"]))) for kind in kinds}
    body = [["*evaluations*", *(f"*{steps[kind]}*" for kind in kinds)]]
    for label in (*BLIND, *REACTIVE, "advised"):
        cells = [_bits(_both_ways(rows[kind], steps[kind])[label]) for kind in kinds]
        marked = [f"**{cell}**" if cell == lowest[kind] else cell for kind, cell in zip(kinds, cells, strict=True)]
        body.append([label, *marked])
    one = {"random, one by one": ("both", "random"), "left to right, one by one": ("left-to-right", "left-to-right")}
    causal = {kind: at(rows[kind], "causal", "whole-comb", f"even:{steps[kind]}") for kind in kinds}
    body.append(["causal, whole comb", *(_bits(causal[kind]) for kind in kinds)])
    body += [[label, *(_bits(one_by_one(rows[kind], *key)) for kind in kinds)] for label, key in one.items()]
    errors = [max(float(row["over_error"]) for row in own[kind]) for kind in kinds]
    body.append(["*error of a difference*", *(f"*{error:.3f}*" for error in errors)])
    return markdown(["order, sizes", *(KINDS[kind].short for kind in kinds)], body)


def _both_ways(rows: Sequence[Row], steps: int) -> dict[str, Row | None]:
    found = {label: at(rows, "both", order, f"{size}:{steps}") for label, (order, size) in (BLIND | REACTIVE).items()}
    return {**found, "advised": at(rows, "both", "advised", str(steps))}


def advice() -> str:
    """What `advise` picked at every number of evaluations, and the best of all rules on the test texts."""
    head = ["kind", "evaluations", "advised", "bits per token", "lowest of all rules", "advised minus lowest"]
    body = []
    for kind in common.atlas_measured(KINDS):
        for row in common.atlas_rows(kind, "-advised"):
            cells = [_schedule(row["schedule"]), f"{float(row['bits']):.3f}", _rule(row["best"])]
            same = float(row["over"]) == 0 == float(row["over_error"])
            cells.append("the same" if same else _signed(row["over"], row["over_error"]))
            body.append([KINDS[kind].short, row["budget"], *cells])
    return markdown(head, body)


def scores(kind: str, score: str, rules: Sequence[tuple[str, str]], draws: Sequence[str]) -> str:
    """What written texts are worth, in per cent, against evaluations.

    Arguments:
        kind: The kind of data.
        score: The score's column.
        rules: The network and the rule of every line.
        draws: How tokens were drawn.
    """
    found = {(r["network"], r["rule"], r["draw"]): r for r in common.atlas_rows(kind, "-scores")}
    body = []
    for network, rule in rules:
        cells = [f"{NETWORKS[network]}: {_rule(rule)}"]
        for row in (found[network, rule, draw] for draw in draws):
            cells += [f"{float(row['evaluations']):.3g}", f"{float(row['tokens_per_forward']):.2f}"]
            cells.append(f"{100 * float(row[score]):.1f} ± {100 * float(row[f'{score}_error']):.1f}")
        body.append(cells)
    columns = [f"{what}, {draw}" for draw in draws for what in ("evaluations", "tokens per forward", "%")]
    return markdown(["network: order, sizes", *columns], body)


def solved() -> str:
    names = ("random", "comb", "margin", "confidence")
    rules = [("both", f"{name}/even:{steps}") for steps in (3, 7, 28) for name in names]
    rules += [("both", f"blocks-32/margin/even:{steps}") for steps in (2, 14)]
    return scores("sudoku", "solved", rules, ("temperature 1", "greedy"))


def right() -> str:
    rules = [("both", f"{name}/even:4") for name in ("random", "comb", "margin")]
    rules += [("both", "advised/4"), ("causal", "whole-comb/even:4")]
    rules += [("both", f"{name}/even:8") for name in ("random", "comb", "margin")]
    rules += [("both", "advised/8"), ("both", "entropy/entropy-bound:0.1"), ("both", "confidence/threshold:0.9")]
    rules += [("causal", "whole-comb/even:8"), ("both", "random/even:16"), ("both", "margin/even:16")]
    rules += [("left-to-right", "left-to-right/even:16")]
    return scores("countdown", "right", rules, ("temperature 1", "greedy"))


def new() -> str:
    rules = [("both", f"{name}/even:12") for name in ("random", "comb", "halton", "learned", "margin")]
    rules += [("both", "advised/12"), ("causal", "whole-comb/even:12"), ("both", "entropy/entropy-bound:2")]
    rules += [("both", f"{name}/even:24") for name in ("random", "comb", "halton", "learned", "margin")]
    rules += [("both", "advised/24"), ("causal", "whole-comb/even:24"), ("both", "random/cosine:24")]
    rules += [("both", f"entropy/entropy-bound:{bound}") for bound in (0.5, 0.1)]
    rules += [("both", "random/even:48"), ("both", "margin/even:48"), ("left-to-right", "left-to-right/even:48")]
    return scores("molecules", "new", rules, ("temperature 1", "greedy"))


TABLES: dict[str, Callable[[], str]] = {
    **chaintables.TABLES,
    "atlas-networks": networks,
    "atlas-few": lambda: costs(1),
    "atlas-more": lambda: costs(-2),
    "atlas-advice": advice,
    "atlas-solved": solved,
    "atlas-right": right,
    "atlas-new": new,
}
