"""What docs/atlas.md says of the kinds of data, from the committed results of those that have some.

One figure with a panel for each kind, one table, and one paragraph for each kind. Words about numbers are made here, so
that they follow the numbers; why an order wins is written by hand, on the page.
"""

import json
from collections.abc import Callable, Sequence

import chaintables
import common
from common import markdown

KINDS = ("books", "characters", "sudoku", "countdown", "molecules", "digits")
UNTRAINED = (
    "The models of the six kinds have not been trained yet, so this page has no numbers for them.",
    "The models of the other kinds have not been trained yet.",
)
ORDERS = {
    "random": "random order", "comb": "comb", "spread": "spread", "halton": "Halton", "learned": "learned order",
    "confidence": "confidence", "margin": "margin", "entropy": "entropy",
}  # fmt: skip
SCORES = {"solved": "solves", "right": "answers", "valid": "writes valid molecules in", "unique": "", "new": ""}

Row = dict[str, str]


def seen_of(kind: str) -> dict[str, object]:
    return json.loads((common.RESULTS / f"atlas-{kind}-seen.json").read_text(encoding="utf-8"))


def budgets(kind: str) -> list[int]:
    """Numbers of evaluations at which rules were measured."""
    return sorted({int(row["budget"]) for row in common.atlas_rows(kind, "-advised")})


def at(rows: Sequence[Row], network: str, order: str, size: str) -> Row | None:
    """The row of a rule."""
    wanted = (network, order, size)
    return next((row for row in rows if (row["network"], row["order"], row["size"]) == wanted), None)


def one_by_one(rows: Sequence[Row], network: str, order: str) -> Row | None:
    """The row of an order one token at a time: that of its even sizes with the most evaluations."""
    own = [r for r in rows if (r["network"], r["order"]) == (network, order) and r["size"].startswith("even:")]
    return max(own, key=lambda row: int(row["size"].partition(":")[2]), default=None)


def _bits(row: Row | None) -> str:
    return "" if row is None else f"{float(row['bits']):.3f} ± {float(row['error']):.3f}"


def _signed(value: str, error: str) -> str:
    return f"{float(value):+.3f} ± {float(error):.3f}".replace("-", "−")


def _budget(kind: str) -> int:
    """About a sixteenth of the tokens: the second of the budgets, or the only one."""
    found = budgets(kind)
    return found[min(1, len(found) - 1)]


def section() -> str:
    """All that is said of the kinds."""
    kinds = common.atlas_measured(KINDS)
    if not kinds:
        return UNTRAINED[0]
    figure = "![Bits per token against evaluations, a panel for each kind of data](figures/atlas.svg)"
    why = "![Loss curves, and how much positions tell of each other, for each kind](figures/atlas-dependence.svg)"
    rest = [] if len(kinds) == len(KINDS) else [UNTRAINED[1]]
    return "\n\n".join([figure, kinds_table(kinds), why, *map(_paragraph, kinds), *rest])


def kinds_table(kinds: Sequence[str]) -> str:
    """Bits per token of every kind in as many evaluations as a sixteenth of its tokens."""
    head = ["kind", "evaluations", *ORDERS.values(), "advised", "causal, comb", "left to right, one by one"]
    body = []
    for kind in kinds:
        rows, steps = common.atlas_rows(kind), _budget(kind)
        cells = [at(rows, "both", order, f"even:{steps}") for order in ORDERS]
        cells += [at(rows, "both", "advised", str(steps)), at(rows, "causal", "comb", f"even:{steps}")]
        cells.append(one_by_one(rows, "left-to-right", "left-to-right"))
        body.append([str(seen_of(kind)["title"]), str(steps), *map(_bits, cells)])
    return markdown(head, body)


def _paragraph(kind: str) -> str:
    seen, rows = seen_of(kind), common.atlas_rows(kind)
    said = [
        f"A text has {seen['tokens']} tokens to fill. For the network that looks both ways, the total correlation is "
        f"{seen['tc']:.2f} bits per token and the dual total correlation {seen['dtc']:.2f}."
    ]
    updates: dict[str, int] = seen["updates"]  # pyright: ignore[reportAssignmentType]
    said += [_trained(updates), _anchors(rows), _advice(common.atlas_rows(kind, "-advised"))]
    if _alike(updates.get("both", 0), updates.get("both-comb", 0)):
        said.append(_masks(rows, _budget(kind)))
    said += [_task(common.atlas_rows(kind, "-scores"), score) for score in SCORES]
    said.append(_whole(common.atlas_rows(kind, "-whole")))
    return f"### {seen['title']}\n\n" + " ".join(filter(None, said))


def _trained(updates: dict[str, int]) -> str:
    """How long each network learned."""
    names = {"both": "both ways", "causal": "causal", "left-to-right": "left to right", "both-comb": "taught combs"}
    return "Updates in training: " + ", ".join(f"{names[name]} {count:,}" for name, count in updates.items()) + "."


def _alike(updates: int, others: int) -> bool:
    """Whether two networks learned about as long, so that what they learned from can be compared."""
    return abs(updates - others) <= 0.05 * updates


def _anchors(rows: Sequence[Row]) -> str:
    """One token at a time, left to right and in random order."""
    left, random = one_by_one(rows, "left-to-right", "left-to-right"), one_by_one(rows, "both", "random")
    if left is None or random is None:
        return ""
    return (
        f"One token at a time, the left-to-right network takes {_bits(left)} bits per token, and the one that looks "
        f"both ways takes {_bits(random)} in random order."
    )


def _advice(rows: Sequence[Row]) -> str:
    """How often the advice was as good as the best rule, and what was better where it was not."""
    own = [row for row in rows if row["network"] == "both"]
    if not own:
        return ""
    good = sum(row["within"] == "yes" for row in own)
    said = f"The schedule that `advise` picks is within two standard errors of the best rule at {good} of {len(own)} "
    said += "numbers of evaluations."
    for row in own:
        if row["within"] != "yes":
            said += (
                f" In {row['budget']} evaluations it picks {row['schedule']}, which takes "
                f"{_signed(row['over'], row['over_error'])} bits per token against `{row['best']}`."
            )
    return said


def _masks(rows: Sequence[Row], steps: int) -> str:
    """Training on the masks of combs against uniform ones, under a comb."""
    uniform, own = (at(rows, network, "comb", f"even:{steps}") for network in ("both", "both-comb"))
    if uniform is None or own is None:
        return ""
    return (
        f"In a comb of {steps} steps, training half of every batch on the masks of combs takes {_bits(own)} bits per "
        f"token instead of {_bits(uniform)}."
    )


def _task(rows: Sequence[Row], score: str) -> str:
    """The best rule of each draw by a score, and random order beside it."""
    verb = SCORES[score]
    own = [row for row in rows if row.get(score) and row["network"] == "both"]
    if not verb or not own:
        return ""
    said = []
    for draw in dict.fromkeys(row["draw"] for row in own):
        drawn = [row for row in own if row["draw"] == draw]
        best = max(drawn, key=lambda row: float(row[score]))
        random = [row for row in drawn if row["rule"].startswith("random/even:")]
        usual = max(random, key=lambda row: float(row["evaluations"]), default=None)
        said.append(
            f"{_drawn(draw)}, `{best['rule']}` {verb} {_share(best, score)} with "
            f"{float(best['tokens_per_forward']):.3g} tokens per evaluation"
            + ("." if usual is None else f", and random order one token at a time {_share(usual, score)}.")
        )
    return " ".join(said)


def _drawn(draw: str) -> str:
    return "With the most likely tokens" if draw == "greedy" else f"At {draw}"


def _share(row: Row, score: str) -> str:
    return f"{100 * float(row[score]):.1f} ± {100 * float(row[f'{score}_error']):.1f} %"


def _whole(rows: Sequence[Row]) -> str:
    """Likelihoods of whole texts on all test rows."""
    said = [
        f"{row['network']} {row['rule']} {float(row['nats']):.2f} ± {float(row['error']):.2f}"
        for row in rows
        if row["network"] in ("both", "left-to-right")
    ]
    return "" if not said else f"Nats per text on all {rows[0]['texts']} test texts: {'; '.join(said)}."


TABLES: dict[str, Callable[[], str]] = {**chaintables.TABLES, "atlas": section}
