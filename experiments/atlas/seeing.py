"""Why an order wins on a kind: its loss curve, its total correlations, and how much positions tell of each other.

The curve and both total correlations are those of a network that looks both ways, on whole texts with nothing given.
Dependence is pooled by what is common to many pairs: by distance in a text, by how far apart in rows and columns on a
grid. From it comes the order that is learned.
"""

import json
import math
from pathlib import Path

import numpy as np
from experiments.atlas.kind import Kind
from experiments.atlas.rules import Rule, budgets
from numpy.typing import NDArray

from unmask import order, size
from unmask._atomic import replacing
from unmask.calibration import ByDistance, Dependence, learned_order, measure, measure_dependence, measure_distances
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences


def seen(kind: Kind, predictor: MaskPredictor, texts: Sequences, path: Path, batch: int) -> dict[str, object]:
    """The curve, TC and DTC in bits per token, and dependence by distance or displacement; kept as JSON."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    whole = texts.tokens
    losses = measure(predictor, order.Random(), whole, rng=0, points=33, batch=batch)
    curve = losses.curve
    per = 1 / (kind.length * math.log(2))
    found: dict[str, object] = {
        "kind": kind.name,
        "texts": len(whole),
        "entropy": curve.entropy * per,
        "tc": curve.total_correlation * per,
        "dtc": curve.dual_total_correlation * per,
        "loss": [round(float(each) / math.log(2), 5) for each in curve.loss],
    }
    if kind.layout is None:
        pairs = measure_distances(predictor, whole, rng=0, batch=batch)
        found["distance"] = [round(float(each), 6) for each in pairs.mean[:65]]
    else:
        pairs = displaced(measure_dependence(predictor, whole, rng=0, batch=batch), kind.layout)
        found["layout"] = list(kind.layout)
        found["displacement"] = _map(pairs, kind.layout)
    found["orders"] = {
        str(steps): [list(part) for part in _learned(kind, pairs, steps).sets] for steps in _few(kind.length)
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")
    return found


def learned(found: dict[str, object], count: int, *, equal: bool) -> list[Rule]:
    """The learned orders as rules; where texts differ in what is given, cut evenly."""
    rules = []
    for steps, sets in dict(found["orders"]).items():  # pyright: ignore[reportArgumentType]
        which = order.Sets(sets)
        whole = equal and sum(map(len, sets)) == count
        sizes = size.Explicit([len(part) for part in sets]) if whole else size.Even(int(steps))
        rules.append(Rule("learned", f"even:{steps}", Schedule(sizes, which)))
    return rules


def displaced(pairs: Dependence, layout: tuple[int, int]) -> Dependence:
    """The same with all pairs of cells that are as far apart, in rows and in columns, taken as one measurement."""
    height, width = layout
    row, column = np.divmod(np.arange(height * width), width)
    apart = (row[:, None] - row + height) * (2 * width) + (column[:, None] - column + width)
    values, errors = np.empty_like(pairs.values), np.empty_like(pairs.errors)
    counts = np.empty_like(pairs.counts)
    for share in range(len(pairs.values)):
        weight = pairs.counts[share].ravel()
        total = np.bincount(apart.ravel(), weight)[apart]
        mean = np.bincount(apart.ravel(), weight * pairs.values[share].ravel())[apart] / np.maximum(total, 1)
        spread = np.bincount(apart.ravel(), (weight * pairs.errors[share].ravel()) ** 2)[apart]
        values[share], counts[share] = mean, total
        errors[share] = np.sqrt(spread) / np.maximum(total, 1)
    return Dependence(pairs.shares, values, errors, counts, pairs.texts, pairs.model)


def _map(pairs: Dependence, layout: tuple[int, int]) -> list[list[float]]:
    """The mean dependence on the cell in the middle of a map, of every cell around it."""
    height, width = layout
    matrix: NDArray[np.float64] = pairs.matrix
    middle = height // 2 * width + width // 2
    return [[round(float(each), 6) for each in line] for line in matrix[middle].reshape(height, width)]


def _learned(kind: Kind, pairs: Dependence | ByDistance, steps: int) -> order.Sets:
    sizes = size.Even(steps).sizes(kind.length).tolist()
    return learned_order(pairs, sizes, layout=kind.layout, starts=4, rng=0)


def _few(length: int) -> list[int]:
    """Budgets at which an order is learned: more steps would take the search too long on long texts."""
    return [steps for steps in budgets(length) if steps * length**2 <= 1 << 24]
