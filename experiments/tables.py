"""Put the tables of README and `docs/` where they belong, from the committed results.

    python experiments/tables.py

A table stands between `<!-- NAME -->` and `<!-- end -->`; everything else on these pages is written by hand.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import atlastables
import common
import evaluations
import numpy as np
from common import markdown

ROOT = Path(__file__).parent.parent
PAGES = tuple(ROOT / name for name in ("README.md", "docs/results.md", "docs/integrations.md", "docs/atlas.md"))
STEPS = (4, 8, 16, 32, 64, 128)
BLIND = (
    ("random", "even"),
    ("random", "cosine"),
    ("random", "log-linear"),
    ("random", "tc"),
    ("random", "dtc"),
    ("random", "minimax-tc"),
    ("random", "minimax-dtc"),
    ("random", "minimax-min"),
    ("random", "universal"),
    ("random", "optimal"),
    ("spread", "even"),
    ("spread", "optimal"),
    ("comb", "even"),
    ("advised", "calibrated"),
    ("left-to-right", "even"),
    ("dilated", "rounds"),
    ("confidence", "even"),
    ("margin", "even"),
    ("entropy", "even"),
)


def priced(row: dict[str, str], over: str) -> list[str]:
    """What something costs, and its paired difference to something else, each with its error."""
    bits, error, gain, gain_error = (float(row[key]) for key in ("bits", "error", over, f"{over}_error"))
    return [f"{bits:.3f} ± {error:.3f}", f"{gain:+.4f} ± {gain_error:.4f}"]


def by_steps() -> dict[tuple[str, str, int], dict[str, str]]:
    """Order, size and steps -> row. Log-linear sizes leave steps empty; they count as the nearest of the table."""
    return {
        (r["order"], r["size"], min((*STEPS, 256), key=lambda k, r=r: abs(math.log(k / float(r["steps"]))))): r
        for r in common.read("text8.csv")
    }


def totals() -> str:
    """Bits per character of every schedule with a number of steps, and one by one."""
    found = {key: float(row["bits"]) for key, row in by_steps().items()}
    least = {
        steps: min(bits for (*rule, k), bits in found.items() if k == steps and tuple(rule) in BLIND) for steps in STEPS
    }
    one_by_one = min(bits for (_, size, _), bits in found.items() if size == "one by one")
    body = []
    for order, size in BLIND:
        line = [f"{order}, {size}"]
        for steps in STEPS:
            bits = found.get((order, size, steps))
            line.append("" if bits is None else f"**{bits:.3f}**" if bits == least[steps] else f"{bits:.3f}")
        whole = found.get((order, "one by one", 256))
        line.append("" if whole is None else f"**{whole:.3f}**" if whole == one_by_one else f"{whole:.3f}")
        body.append(line)
    return markdown(["order, sizes", *(f"{steps} steps" for steps in STEPS), "one by one"], body)


def excesses() -> str:
    """Nats per sequence over one by one in random order, with paired standard errors."""
    found = by_steps()
    body = []
    for order, size in BLIND:
        cells = [found.get((order, size, steps)) for steps in STEPS]
        body.append(
            [f"{order}, {size}"]
            + ["" if c is None else f"{float(c['excess']):+.1f} ± {float(c['excess_error']):.1f}" for c in cells]
        )
    return markdown(["order, sizes", *(f"{steps} steps" for steps in STEPS)], body)


def reactive() -> str:
    """Rules that look at predictions and choose their own number of steps."""
    known = [r for r in common.read("text8.csv") if r["size"].startswith(("entropy-bound", "threshold", "factor"))]
    body = [
        [f"{r['order']}, {r['size']}", f"{float(r['steps']):.1f}", f"{float(r['bits']):.3f} ± {float(r['error']):.3f}"]
        for r in known
    ]
    return markdown(["order, rule", "mean steps", "bits per character"], body)


def needed(order: str, size: str) -> float | None:
    """Mean evaluations at which a rule costs what a comb of 16 even steps costs; None if it never does."""
    found = common.read("text8.csv")
    goal = next(float(r["bits"]) for r in found if (r["order"], r["size"], r["steps"]) == ("comb", "even", "16"))
    steps, bits = evaluations.points(found, order, size)
    if bits.min() > goal:
        return None
    first = int(np.argmax(bits <= goal))
    share = (bits[first - 1] - goal) / (bits[first - 1] - bits[first])
    return float(steps[first - 1] + share * (steps[first] - steps[first - 1]))


def matched() -> str:
    """Evaluations at which other rules cost what a comb of 16 even steps costs."""
    rules = {
        "comb order, even sizes": ("comb", "even"),
        "entropy bound": ("entropy", "entropy-bound"),
        "confidence threshold": ("confidence", "threshold"),
        "random order, even sizes": ("random", "even"),
        "random order, optimal sizes": ("random", "optimal"),
        "spread order, even sizes": ("spread", "even"),
    }
    found = {name: needed(*rule) for name, rule in rules.items()}
    body = [[name, "more than 256" if count is None else f"{count:.0f}"] for name, count in found.items()]
    return markdown(["rule", "evaluations"], body)


def trained() -> str:
    """Small models trained on different masks."""
    body = [
        [
            r["masks"],
            r["schedule"],
            *priced(r, "over_uniform"),
        ]
        for r in common.read("masks.csv")
    ]
    return markdown(["trained on masks", "measured under", "bits per character", "over uniform masks"], body)


def agreement() -> str:
    """Predicted from the calibration and measured, and how many standard errors lie between."""
    body = []
    for (order, size, steps), r in by_steps().items():
        if r["predicted"] and steps in (8, 16, 32, 64):
            bits, predicted = float(r["bits"]), float(r["predicted"])
            error = (float(r["error"]) ** 2 + float(r["predicted_error"]) ** 2) ** 0.5
            name = f"{order}, {size}, {steps} steps"
            body.append([name, f"{predicted:.3f}", f"{bits:.3f}", f"{(bits - predicted) / error:+.1f}"])
    return markdown(["schedule", "predicted", "measured", "standard errors apart"], body)


def searched() -> str:
    """Orders by residues: those that people think of, and the best there is."""
    body = [
        [
            r["name"],
            r["steps"],
            *priced(r, "over_comb"),
            r["residues"].replace(" | ", " / "),
        ]
        for r in common.read("search.csv")
    ]
    return markdown(["order of the residues", "steps", "bits per character", "over the comb", "residues"], body)


def samples() -> str:
    """The first text of each setting."""
    return "\n\n".join(
        f"{r['order']} order, {r['steps']} steps:\n\n> {r['text']}"
        for r in common.read("text8-samples.csv")
        if r["seed"] == "0"
    )


def reactions() -> str:
    """Bits per masked token of a model of chemistry, as `unmask evaluate --output` wrote them.

    In one step all schedules are the same, and one by one all sizes.
    """
    found = {(r["order"], r["size"], r["steps"]): float(r["bits_per_token"]) for r in common.read("reactions.csv")}
    steps = sorted({int(count) for *_, count in found if count})
    body = []
    for order, size in dict.fromkeys((order, size) for order, size, count in found if count):
        left_out = {1, max(steps)} if size != "even" else {1} if order != "random" else set()
        cells = ["" if count in left_out else f"{found[order, size, str(count)]:.3f}" for count in steps]
        body.append([f"{order}, {size}", *cells])
    return markdown(["order, sizes", *(f"{count} steps" if count > 1 else "1 step" for count in steps)], body)


def halves() -> str:
    """What is advised for a half of the reactions that it has not seen, and what it costs there."""
    body = []
    for half, other in (("first", "second"), ("second", "first")):
        costs = common.read(f"reactions-{half}.csv")
        for steps, cost in zip((4, 10), costs, strict=False):  # the schedules from files come first
            said = json.loads((common.RESULTS / f"reactions-{half}-{steps}.json").read_text(encoding="utf-8"))
            even = next(r for r in costs if (r["order"], r["size"], r["steps"]) == ("random", "even", str(steps)))
            pairs = (
                (said["bits_per_token"], said["error"]),
                *((float(r["bits_per_token"]), float(r["standard_error"])) for r in (cost, even)),
            )
            body.append(
                [
                    f"{half}, {steps} steps",
                    other,
                    f"{said['order']}, {'computed sizes' if said['size'] == 'best' else said['size']}",
                    *(f"{bits:.3f} ± {error:.3f}" for bits, error in pairs),
                ]
            )
    return markdown(["calibrated on the", "measured on the", "advised", "predicted", "measured", "random, even"], body)


_FRONTIER = {
    ("left-to-right", "left-to-right", "one by one"): "left to right, one by one",
    ("causal", "comb", "even"): "**causal**, comb",
    ("causal", "comb of 16 teeth", "verified"): "**causal**, comb of 16 teeth, verified",
    ("causal", "random", "even"): "causal, random order (not trained for it)",
    ("both ways", "comb", "even"): "both ways, comb",
    ("both ways", "random", "even"): "both ways, random order",
    ("both ways", "confidence", "threshold 0.9"): "both ways, threshold 0.9",
    ("both ways", "entropy", "entropy-bound 1"): "both ways, entropy bound 1",
    ("both ways", "left-to-right", "one by one"): "both ways, left to right one by one",
}


def frontier() -> str:
    """Bits per character against steps and passes, causal, left to right and both ways."""
    found = common.read("frontier.csv")
    body = []
    for key, label in _FRONTIER.items():
        for row in (r for r in found if (r["model"], r["order"], r["size"]) == key):
            steps = float(row["steps"])
            if (key[0], steps) in {("both ways", 4.0), ("both ways", 128.0)}:
                continue
            spread = f" ± {float(row['over_error']):.3f}" if row["over_error"] else ""
            over = "" if key[0] == "left-to-right" else f"{float(row['over']):+.3f}{spread}"
            passes = float(row["passes"])
            bits = f"{float(row['bits']):.3f} ± {float(row['error']):.3f}"
            body.append([label, f"{steps:.4g}", f"{passes:.0f}" if passes >= 10 else f"{passes:.1f}", bits, over])
    return markdown(["model and schedule", "steps", "passes", "bits per character", "over left to right"], body)


def front() -> str:
    """A few rows of the frontier, for the first page."""
    wanted = [
        ("left-to-right", "left-to-right", "256", "left to right, one by one"),
        ("causal", "comb", "64", "causal in the schedule, comb"),
        ("causal", "comb", "32", "causal in the schedule, comb"),
        ("causal", "comb", "16", "causal in the schedule, comb"),
        ("both ways", "comb", "64", "looking both ways, comb"),
        ("both ways", "comb", "16", "looking both ways, comb"),
        ("both ways", "random", "16", "looking both ways, random order"),
    ]
    found = {(r["model"], r["order"], r["steps"]): r for r in common.read("frontier.csv")}
    body = []
    for model, order, steps, label in wanted:
        row = found[model, order, steps]
        passes = float(row["passes"])
        body.append([label, steps, f"{passes:.0f}" if passes >= 10 else f"{passes:.1f}", f"{float(row['bits']):.3f}"])
    return markdown(["model and schedule", "steps", "passes over the text", "bits per character"], body)


def tried() -> str:
    """What was tried of shapes and orders, a few minutes each."""
    rows = [r for r in common.read("causal-search.csv") if r["run"] in ("shape", "order")]
    kinds = {"shape": "combs of 16, 32 and 64 steps", "order": "six orders of 16 steps"}
    body = [
        [kinds[r["run"]], r["shape"], r["schedule"], f"{float(r['bits']):.3f} ± {float(r['error']):.3f}"] for r in rows
    ]
    return markdown(["trained on", "network", "scored under", "bits per character"], body)


_INNER = ("whole-comb", "comb", "spread", "dilated", "random", "left-to-right", "confidence", "margin", "entropy")
_FULL = 512  # windows; fewer are a first look


def sample_of(rows: list[dict[str, str]]) -> str:
    """What a table was measured on."""
    count = int(rows[0]["windows"])
    return f"{count} windows of test text" + ("" if count >= _FULL else " (a first look: do not quote)")


def inside() -> str:
    """Bits per character of every order inside blocks."""
    rows = common.read("blocks.csv")
    found = {(int(r["block"]), int(r["steps"]), r["order"]): r for r in rows if r["block"]}
    # Left to right one by one is the same in blocks and without: a whole comb with a tooth for every character.
    walked = [r for r in rows if not r["block"] and (r["order"], r["steps"]) == ("whole-comb", "256")]
    found |= {(*key, "left-to-right"): walked[0] for *key, _ in tuple(found) if walked and key[0] == key[1]}
    body = []
    for block, steps in sorted({key[:2] for key in found}):
        own = {name: float(found[block, steps, name]["bits"]) for name in _INNER if (block, steps, name) in found}
        cells = [f"{own[name]:.3f}" if name in own else "" for name in _INNER]
        # Which is least is known where all were run; left to right one by one has no others beside it.
        least = min(own.values()) if len(own) == len(_INNER) else None
        cells = [
            f"**{cell}**" if name in own and own[name] == least else cell
            for name, cell in zip(_INNER, cells, strict=True)
        ]
        body.append([f"{block}, {steps} steps", str(256 // block * steps), *cells])
    return f"Bits per character, {sample_of(rows)}:\n\n" + markdown(["blocks of", "evaluations", *_INNER], body)


def apart() -> str:
    """The comb inside blocks against the margin rule, and against a comb of the whole window."""
    rows = common.read("blocks.csv")
    body = []
    for r in rows:
        if r["order"] != "whole-comb" or not r["block"]:
            continue
        whole = f"{float(r['over_whole']):+.3f} ± {float(r['over_whole_error']):.3f}" if r["over_whole"] else ""
        line = [f"{float(r['bits']):.3f} ± {float(r['error']):.3f}"]
        line += [f"{float(r['over']):+.3f} ± {float(r['over_error']):.3f}" if r["over"] else "", whole]
        body.append([f"{r['block']}, {r['steps']} steps", r["evaluations"], *line])
    whole = {(r["order"], r["steps"]): float(r["bits"]) for r in rows if not r["block"]}
    said = "; ".join(
        f"{steps} steps cost {bits:.3f} (margin {whole['margin', steps]:.3f})"
        for (name, steps), bits in whole.items()
        if name == "whole-comb" and ("margin", steps) in whole
    )
    head = ["blocks of", "evaluations", "whole-comb inside", "over margin inside", "over a comb of the whole window"]
    return markdown(head, body) + f"\n\nA comb of the whole window, without blocks: {said}."


def caches() -> str:
    """Approximate caches: bits, share of positions computed, seconds."""
    rows = common.read("caches.csv")
    body = []
    for r in rows:
        if r["rule"] in ("everything", "none"):
            continue
        where = f"blocks of {r['block']}" if r["block"] else "whole window"
        rule = r["rule"] if not r["refresh"] else f"{r['rule']}, refresh {r['refresh']}"
        body.append(
            [
                f"{r['order']}, {where}, {r['steps']} steps",
                rule,
                f"{float(r['bits']):.3f}",
                f"{float(r['over']):+.4f} ± {float(r['over_error']):.4f}",
                f"{100 * float(r['computed']):.0f} %",
                f"{float(r['ratio']):.2f}",
            ]
        )
    head = ["schedule", "cache", "bits per character", "over no cache", "positions computed", "seconds"]
    return f"On {sample_of(rows)}, all at once on one {rows[0]['device']}:\n\n" + markdown(head, body)


def revisions() -> str:
    """What texts written with and without revision are worth to a judge, and how varied they are."""
    rows = common.read("revision.csv")
    found = {(r["rule"], r["budget"]): r for r in rows}
    budgets = sorted({r["budget"] for r in rows if r["budget"] != "0"}, key=int)
    body = []
    for rule in dict.fromkeys(r["rule"] for r in rows if r["budget"] != "0"):
        cells = [found[rule, each] for each in budgets if (rule, each) in found]
        said = [
            f"{float(r['judged']):.2f} ± {float(r['judged_error']):.2f}, {100 * float(r['words']):.0f} %" for r in cells
        ]
        body.append([rule, *said, *[""] * (len(budgets) - len(said))])
    return markdown(["rule", *(f"{each} evaluations" for each in budgets)], body)


TABLES: dict[str, Callable[[], str]] = {
    "revisions": revisions,
    "front": front,
    "frontier": frontier,
    "tried": tried,
    "totals": totals,
    "excesses": excesses,
    "reactive": reactive,
    "agreement": agreement,
    "matched": matched,
    "searched": searched,
    "trained": trained,
    "samples": samples,
    "reactions": reactions,
    "halves": halves,
    "inside": inside,
    "apart": apart,
    "caches": caches,
    **atlastables.TABLES,
}


def filled(page: str) -> str:
    """The page with every table as the results have it."""
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if pattern.search(page):
            table = make()
            page = pattern.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", page)
    return page


if __name__ == "__main__":
    for place in PAGES:
        place.write_text(filled(place.read_text(encoding="utf-8")), encoding="utf-8")
