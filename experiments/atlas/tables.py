"""The CSV files of a kind, from its folder: experiments/results/atlas-KIND*.csv.

atlas-KIND.csv          bits per token of every rule and network, and by how much that is over the anchor
atlas-KIND-advised.csv  what `advise` picked from validation rows at every budget, against the best on test rows
atlas-KIND-scores.csv   what texts are worth that were written under every rule, and how varied they are
atlas-KIND-whole.csv    nats of whole texts, on all test rows, for kinds with published numbers of that
atlas-KIND-seen.json    the loss curve, TC, DTC and dependence

A table is of all rules: while some are not measured, none is written unless somebody asks for what there is. Nothing is
measured for a table, and no weights are needed: it is of the results that were recorded.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from experiments import common
from experiments.atlas import files, measuring, networks, owners, writing
from experiments.atlas.measuring import Cost
from experiments.atlas.networks import BOTH, NETWORKS
from experiments.atlas.parts import Atlas, say

from unmask import InputError, order
from unmask._atomic import replacing
from unmask.calibration.choice import TOLERANCE
from unmask.schedule import Schedule

COSTS = ("network", "order", "size", "evaluations", "passes", "bits", "error", "over", "over_error")
CHOICES = (
    "network", "budget", "evaluations", "schedule", "bits", "error",
    "best", "best_evaluations", "best_bits", "over", "over_error", "within",
)  # fmt: skip


def tables(atlas: Atlas, results: Path, *, partial: bool = False) -> None:
    """Write all that there is something for.

    Arguments:
        atlas: The kind.
        results: Where to.
        partial: Whether tables may lack rules that are not measured.

    Raises:
        InputError: if there are such rules otherwise, or weights that are not those of the results; the tables stay as
            they are then.
    """
    measure = f"python -m experiments.atlas {atlas.kind.name} --parts measure"
    if strange := [name for name in NETWORKS if owners.strange(atlas.folder, atlas.folder, name)]:
        named = ", ".join(f"'{name}'" for name in strange)
        detail = f"but those of {named} are different"
        remedy = f"Move these weights away, or measure them, which sets the results of the others aside: {measure}"
        raise InputError("folder", "hold the weights of its results", detail=detail, remedy=remedy)
    if without := unmeasured(atlas):
        if not partial:
            remedy = f"Measure them with: {measure}"
            some = ", ".join(without[:3]) + (", …" if without[3:] else "")
            detail = f"but {len(without)} {'are' if without[1:] else 'is'} missing: {some}"
            raise InputError("folder", "hold the costs of all rules", detail=detail, remedy=remedy)
        say(f"{atlas.kind.name}: not measured, and in no table: {', '.join(without)}")
    # Each order is a long list, and a figure has no use for it.
    kept = {"title": atlas.kind.title, **{key: value for key, value in atlas.seen().items() if key != "orders"}}
    kept["updates"] = updates(atlas)
    name = f"atlas-{atlas.kind.name}"
    common.write(results / f"{name}.csv", COSTS, costs(atlas))
    common.write(results / f"{name}-advised.csv", CHOICES, choices(atlas))
    with replacing(results / f"{name}-seen.json") as temporary:
        temporary.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    usual = measuring.random_order_of(atlas.count)
    found = {
        network: writing.scored(atlas.kind, atlas.data.test, path, atlas.kept_rules(network), usual)
        for network in NETWORKS
        if (path := atlas.folder / f"texts-{network}.npz").exists()
    }
    scores = [{"network": network, **row} for network, rows in found.items() for row in rows]
    if scores:
        columns = list(dict.fromkeys(key for row in scores for key in row))
        common.write(results / f"{name}-scores.csv", columns, [{**dict.fromkeys(columns, ""), **row} for row in scores])
    paths = [atlas.folder / f"whole-{network}.json" for network in NETWORKS]
    if whole := [row for path in paths if path.exists() for row in files.read_json(path)]:
        common.write(results / f"{name}-whole.csv", measuring.WHOLE, whole)


def unmeasured(atlas: Atlas) -> list[str]:
    """The rules without a cost, of every network that is there or was measured."""
    there = [name for name in NETWORKS if atlas.file(name).exists() or atlas.costs.found.get(name)]
    without = [
        f"{name} {rule.name}" for name in there for rule in atlas.wanted(name) if atlas.costs.get(name, rule) is None
    ]
    return without + (["both advised"] if "both" in there and atlas.calibrated("both") is None else [])


def updates(atlas: Atlas) -> dict[str, int]:
    """How many updates each network was trained for that was measured, as was kept then, or as its weights say.

    What the folder has of a run may be of another network. Those that ship with the library are left out: how they were
    trained is no part of the atlas.
    """
    found = {}
    for name in NETWORKS:
        if not atlas.costs.found.get(name) or name in atlas.kind.shipped:
            continue
        path = networks.recipe_file(atlas.folder, name)
        if path.exists():
            recipe = files.read_json(path)
        elif atlas.file(name).exists():  # it was measured when recipes were not kept
            path, recipe = atlas.file(name), files.network(atlas.file(name))[1].get("recipe")
        else:
            continue
        if recipe is not None:
            with files.intact(path):
                found[name] = int(recipe["steps"])
    return found


def costs(atlas: Atlas) -> Iterator[dict[str, object]]:
    """Every cost, and by how much it is over the anchor: left to right, or one by one in random order."""
    anchor = atlas.costs.get("left-to-right", measuring.left_to_right(atlas.count))
    anchor = anchor or atlas.costs.get("both", measuring.random_order_of(atlas.count))
    reads = float(atlas.test.counts.double().mean()) / atlas.kind.length
    for network in NETWORKS:
        for rule in atlas.wanted(network) if atlas.costs.found.get(network) else ():
            if (cost := atlas.costs.get(network, rule)) is None:
                continue
            which, _, how_many = rule.name.rpartition("/")
            over, over_error = (math.nan, math.nan) if anchor is None else paired(cost, anchor)
            spent = float(cost.evaluations.mean())
            looks = 1.0 if rule.schedule.blind else common.looked_at(spent, blocks(rule.schedule, atlas.kind.length))
            yield {
                "network": network,
                "order": which,
                "size": how_many,
                "evaluations": spent,
                # What is known is computed once by a network that is causal in the schedule, and anew by the others.
                "passes": common.passes(
                    networks.shape_of(atlas.kind, network), spent if network in BOTH else 1.0, reads=reads * looks
                ),
                "bits": float(cost.bits.mean()),
                "error": measuring.error(cost.bits),
                "over": over,
                "over_error": over_error,
            }


def blocks(schedule: Schedule, length: int) -> int:
    """In how many blocks a schedule fills a text of that length, one after the other."""
    return math.ceil(length / schedule.order.length) if isinstance(schedule.order, order.Blocks) else 1


def choices(atlas: Atlas) -> Iterator[dict[str, object]]:
    """At every budget, what `advise` picked against the best of all rules on the test rows."""
    network = "both"
    if not atlas.costs.found.get(network):
        return
    found = {rule.name: cost for rule in atlas.listed() if (cost := atlas.costs.get(network, rule)) is not None}
    for rule in atlas.advised(network):
        picked, steps = atlas.costs.get(network, rule), int(rule.size)
        allowed = {name: each for name, each in found.items() if each.evaluations.mean() <= steps * (1 + TOLERANCE)}
        if picked is None or not allowed:
            continue
        best = min(allowed, key=lambda name: float(allowed[name].bits.mean()))
        over, over_error = paired(picked, allowed[best])
        yield {
            "network": network,
            "budget": steps,
            "evaluations": float(picked.evaluations.mean()),
            "schedule": _described(rule.schedule),
            "bits": float(picked.bits.mean()),
            "error": measuring.error(picked.bits),
            "best": best,
            "best_evaluations": float(allowed[best].evaluations.mean()),
            "best_bits": float(allowed[best].bits.mean()),
            "over": over,
            "over_error": over_error,
            "within": "yes" if over <= 2 * over_error else "no",
        }


def paired(cost: Cost, other: Cost) -> tuple[float, float]:
    """The mean difference of two costs on the same texts, and its error."""
    difference = cost.bits - other.bits
    return float(difference.mean()), measuring.error(difference)


def _described(schedule) -> str:
    saved = schedule.to_json()
    return f"{saved['order']['name']}, {saved['size']['name']}"
