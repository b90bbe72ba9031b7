"""Put the committed results where the page of `unmask explore` finds them: its tab *Results*.

    python experiments/shipped.py

Writes `src/unmask/app/data/results.json`, which is part of the wheel. Every collection is one table of `results/`, and
every kind of the atlas that has been measured (`atlas-KIND.csv`) becomes one by itself. Rows are grouped into rules: an
order and a kind of sizes, of one model. One token at a time is the last value of even sizes. The sentences quote the
tables, so they change with them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import common
from common import KINDS

from unmask._atomic import replacing

PLACE = Path(__file__).parent.parent / "src" / "unmask" / "app" / "data" / "results.json"
BOTH = common.NETWORKS["both"]
# A list of rules does not say by itself that a network taught combs looks both ways. The frontier has labels already.
NETWORKS = {**common.NETWORKS, "both-comb": f"{BOTH}, {common.NETWORKS['both-comb']}", BOTH: BOTH}
FAR = 5  # times the smallest cost; if others are further, the axis is logarithmic
Row = Mapping[str, str]
Value = dict[str, object]


def number(text: str | None) -> float | None:
    return float(text) if text else None


def value(row: Row, *, evaluations: str = "evaluations", cost: str = "bits", error: str = "error") -> Value:
    """What was measured under one setting of a rule."""
    found = {
        "setting": row.get("size", ""),
        "evaluations": number(row[evaluations]),
        "passes": number(row.get("passes")),
        "cost": number(row[cost]),
        "error": number(row.get(error)),
    }
    return {key: each for key, each in found.items() if each is not None}


def family(size: str) -> str:
    """The kind of sizes, without the number that is its own or that of its steps."""
    return size.replace(":", " ").split(" ")[0] if size != "one by one" else "even"


def grouped(
    rows: Iterable[Row],
    named: Callable[[Row], tuple[str, str]],
    main: Sequence[tuple[str, str]],
    **columns: str,
) -> list[dict[str, object]]:
    """The rules, those that are shown first at the front; the values of each by ascending evaluations.

    Arguments:
        rows: The rows of a table.
        named: The model and the rule of a row.
        main: Those that are shown first.
        columns: What the columns are called, if not as usual.

    Raises:
        ValueError: if there is no row of one that should be shown first.
    """
    found: dict[tuple[str, str], list[Value]] = {}
    for row in rows:
        found.setdefault(named(row), []).append(value(row, **columns))
    if unknown := [key for key in main if key not in found]:
        raise ValueError(f"there is no row for {unknown}")
    order = [*main, *(key for key in found if key not in main)]
    return [
        {
            "model": model,
            "rule": rule,
            "main": (model, rule) in main,
            "values": sorted(found[model, rule], key=lambda each: float(str(each["evaluations"]))),
        }
        for model, rule in order
    ]


def rule_of(row: Row) -> tuple[str, str]:
    sizes = family(row["size"])
    if row["order"] in ("advised", "dilated"):
        return "", row["order"]
    own = {"threshold": "confidence threshold", "factor": "confidence factor", "entropy-bound": "entropy bound"}
    apart = row["order"].partition(", ")[2]
    return "", own[sizes] + (f", {apart}" if apart else "") if sizes in own else f"{row['order']}, {sizes}"


def modelled(row: Row) -> tuple[str, str]:
    """The rule of a table with several models."""
    name = NETWORKS[row.get("model") or row["network"]]
    if row["size"] == "verified":
        return name, f"{row['order'].split()[0]}, verified"
    if name == "left to right":
        return name, "one by one"
    return name, rule_of(row)[1]


def frontier() -> dict[str, object]:
    rows = common.read("frontier.csv")
    bits = {(r["model"], r["order"], r["steps"]): float(r["bits"]) for r in rows}
    causal, anchor = bits["causal", "comb", "16"], bits["left-to-right", "left-to-right", "256"]
    both = min(cost for (model, *_), cost in bits.items() if model == "both ways")
    main = [
        ("left to right", "one by one"),
        ("causal", "comb, even"),
        ("causal", "comb, verified"),
        ("both ways", "comb, even"),
        ("both ways", "random, even"),
        ("both ways", "entropy bound"),
        ("both ways", "confidence threshold"),
    ]
    return {
        "title": "The frontier",
        "source": "frontier.csv",
        "unit": "bits per character",
        "sees": "Three models of about 6 million parameters on test text of text8: what a character costs against how "
        "much work it takes to write a text of 256 characters.",
        "takes": f"In 16 evaluations and one pass, the model that is causal in the schedule costs {causal:.3f} bits. "
        "That is less than the model that looks both ways costs under any schedule of this table "
        f"({both:.3f} at best), and {causal - anchor:.3f} more than left to right in 256 evaluations.",
        "rules": grouped(rows, modelled, main, evaluations="steps"),
    }


def text8() -> dict[str, object]:
    rows = common.read("text8.csv")
    bits = {(r["order"], r["size"], r["steps"]): float(r["bits"]) for r in rows}
    comb, best = bits["comb", "even", "16"], bits["random", "optimal", "16"]
    whole = bits["random", "one by one", "256"]
    main = ["comb, even", "spread, even", "random, even", "random, cosine", "random, dtc", "left-to-right, even"]
    main += ["confidence, even", "confidence threshold", "entropy bound"]
    return {
        "title": "Orders and sizes on text8",
        "source": "text8.csv",
        "unit": "bits per character",
        "sees": "The built-in model that looks both ways on test text of text8: what a character costs under every "
        "order and size.",
        "takes": f"The order matters more than the sizes: 16 steps of a comb cost {comb:.3f} bits, 16 steps of the "
        f"best sizes in random order {best:.3f}, and 256 steps in random order {whole:.3f}.",
        "rules": grouped(rows, rule_of, [("", each) for each in main], evaluations="steps"),
    }


def oracle(chain: str, which: str, sees: str, more: Sequence[str] = ()) -> dict[str, object]:
    """What rules lose on a chain.

    Arguments:
        chain: Its column. which: Its order in words. sees: What is to be seen.
        more: Rules that are shown first, beside those that every chain has.
    """
    rows = [r for r in common.read("atlas-oracle.csv") if r["chain"] == chain and r["evaluations"]]
    bits = {(r["order"], r["size"], r["evaluations"]): float(r["bits"]) for r in rows}
    comb, random, margin = (bits[order, "even", "8"] for order in ("comb", "random", "margin"))
    main = ["comb, even", "spread, even", "random, even", "margin, even", "margin, 8 apart, even", *more]
    lost = f"{comb:.3f}" if comb >= 0.0005 else "less than 0.001"
    return {
        "title": f"Perfect predictions, {which}-order chain",
        "source": "atlas-oracle.csv",
        "unit": "bits per character lost",
        "sees": f"{sees} The chain was fitted to text8, texts have 128 characters, and all that is lost comes from "
        "drawing tokens together.",
        "takes": f"Orders that keep the tokens of a step apart lose least: in 8 evaluations a comb loses {lost} bits "
        f"per character, random order {random:.3f}, and the margin rule {margin:.3f}.",
        "logarithmic": True,
        "rules": grouped(rows, rule_of, [("", each) for each in main]),
    }


def blocks() -> dict[str, object]:
    rows = common.read("blocks.csv")
    bits = {(r["order"], r["block"], r["steps"]): float(r["bits"]) for r in rows}
    comb, margin = (bits[order, "32", "16"] for order in ("whole-comb", "margin"))
    whole = bits["whole-comb", "", "128"]

    def named(row: Row) -> tuple[str, str]:
        return "", f"{row['order']}, {'blocks of ' + row['block'] if row['block'] else 'no blocks'}"

    shown = [f"{order}, {where}" for where in ("no blocks", "blocks of 32", "blocks of 8") for order in _INSIDE]
    return {
        "title": "Block by block",
        "source": "blocks.csv",
        "unit": "bits per character",
        "sees": "The built-in model that looks both ways fills a text of 256 characters block by block, in even steps "
        "under one order inside each block.",
        "takes": f"Blocks cost extra bits, fewest with a comb inside: 128 evaluations in blocks of 32 cost {comb:.3f} "
        f"bits with a comb and {margin:.3f} with the margin rule. Without blocks a comb costs {whole:.3f}.",
        "rules": grouped(rows, named, [("", each) for each in shown]),
    }


_INSIDE = ("whole-comb", "margin")


def revision() -> dict[str, object]:
    rows = common.read("revision.csv")
    found = {(r["rule"], r["budget"]): r for r in rows}
    real, planner = found["real text", "0"], found["confidence, planner", "128"]
    main = ["comb", "comb, cap 0.1", "comb, edit 0.9", "comb, gibbs", "confidence", "confidence, planner"]
    return {
        "title": "More steps, or second thoughts",
        "source": "revision.csv",
        "unit": "bits per character under a judge",
        "sees": "Texts of 128 characters that the built-in model wrote with and without taking tokens back, as another "
        "model judges them.",
        "takes": f"Lower is not always better here: in 128 evaluations the planner's texts get "
        f"{float(planner['judged']):.2f} bits because they repeat themselves, while real text gets "
        f"{float(real['judged']):.2f}. In the planner's texts, {100 * float(planner['words']):.0f} % of the words are "
        f"distinct; in real text, {100 * float(real['words']):.0f} %.",
        "reference": {"name": "real text", "cost": float(real["judged"])},
        "rules": grouped(
            [r for r in rows if r["budget"] != "0"],
            lambda row: ("", row["rule"]),
            [("", each) for each in main],
            cost="judged",
            error="judged_error",
        ),
    }


def kind(name: str, title: str) -> dict[str, object]:
    """What was measured of one kind of the atlas."""
    rows = common.read(f"atlas-{name}.csv")
    main = [
        ("left to right", "one by one"),
        ("causal", "whole-comb, even"),
        ("both ways", "comb, even"),
        ("both ways", "random, even"),
        ("both ways", "confidence, even"),
        ("both ways", "confidence threshold"),
        ("both ways", "entropy bound"),
        ("both ways", "advised"),
    ]
    even = sorted({float(r["evaluations"]) for r in rows if (r["order"], family(r["size"])) == ("random", "even")})
    budget = even[len(even) // 2]
    within = [r for r in rows if float(r["evaluations"]) <= budget * 1.01]
    best = min(within, key=lambda r: float(r["bits"]))
    random = min(
        (r for r in within if (r["network"], r["order"], family(r["size"])) == ("both", "random", "even")),
        key=lambda r: float(r["bits"]),
    )
    model, rule = modelled(best)
    shown = [float(r["bits"]) for r in rows if modelled(r) in main]
    widest = max(shown) / min(shown)
    return {
        "title": f"Atlas: {title}",
        "source": f"atlas-{name}.csv",
        "unit": "bits per token",
        "sees": f"{title}: what a token costs on test texts, for every network and rule.",
        "takes": f"With at most {budget:.0f} evaluations, the cheapest is “{model}: {rule}” with "
        f"{float(best['bits']):.3f} bits per token. “both ways: random, even” costs {float(random['bits']):.3f}.",
        "logarithmic": widest > FAR,
        "rules": grouped(rows, modelled, main),
    }


def collections() -> list[dict[str, object]]:
    """All of them, by their keys; those of the atlas if they have been measured."""
    first = (
        "What every rule loses when predictions are perfect, on a chain where each character depends on the one before "
        "it."
    )
    more = ("random, dtc", "left-to-right, even", "confidence, even", "entropy bound")
    second = (
        "What every rule loses when predictions are perfect, on a chain where each character depends on the two before "
        "it."
    )
    made: dict[str, Callable[[], dict[str, object]]] = {
        "frontier": frontier,
        "text8": text8,
        "oracle": lambda: oracle("1", "first", first, more),
        "oracle-2": lambda: oracle("2", "second", second),
        "blocks": blocks,
        "revision": revision,
    }
    for name, called in KINDS.items():
        if (common.RESULTS / f"atlas-{name}.csv").exists():
            made[f"atlas-{name}"] = lambda name=name, called=called: kind(name, called.title)
    return [{"key": key, **make()} for key, make in made.items()]


def text() -> str:
    """The file, a rule to a line."""
    parts = []
    for each in collections():
        rules = each.pop("rules")
        assert isinstance(rules, list)
        head = json.dumps(each, ensure_ascii=False)[:-1]
        parts.append(
            head + ', "rules": [\n' + ",\n".join(json.dumps(rule, ensure_ascii=False) for rule in rules) + "\n]}"
        )
    return '{"collections": [\n' + ",\n".join(parts) + "\n]}\n"


if __name__ == "__main__":
    with replacing(PLACE) as temporary:
        temporary.write_text(text(), encoding="utf-8")
