"""Why an order wins on a kind: its loss curve, its total correlations, and how much positions tell of each other.

All are those of a network that looks both ways, on validation rows, with what a row has given: a network that learned
to fill boards from clues says nothing sensible about a board without any. Where rows differ in how many tokens they
have to fill, the curve needs one number, and random ones of the others are given too.

Dependence is pooled over pairs that are alike: as far apart in a text; on a grid by what the kind says (`Kind.alike`).
From it comes the order that is learned, so that this too is chosen on validation rows.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments.atlas import files
from experiments.atlas.kind import Kind
from experiments.atlas.measuring import check_rows
from experiments.atlas.rules import Rule
from numpy.typing import NDArray

from unmask import order, size
from unmask._atomic import replacing
from unmask.calibration import ByDistance, Dependence, learned_order, measure, measure_dependence, measure_distances
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

_SHOWN = 65  # distances that are kept
_LARGE = 400  # positions whose order is learned as a whole


def seen(kind: Kind, predictor: MaskPredictor, texts: Sequences, path: Path, batch: int) -> dict[str, Any]:
    """The curve, TC and DTC in bits per token to fill, and dependence by distance or on a grid; kept as JSON.

    Raises:
        InputError: if they are there from another number of texts.
    """
    if (before := kept(path, len(texts))) is not None:
        return before
    same = equalised(texts)
    curve = measure(predictor, order.Random(), same, rng=0, points=33, batch=batch).curve  # pyright: ignore[reportAttributeAccessIssue]
    per = 1 / (curve.length * math.log(2))
    found: dict[str, Any] = {
        "kind": kind.name,
        "texts": len(texts),
        "tokens": curve.length,
        "entropy": curve.entropy * per,
        "tc": curve.total_correlation * per,
        "dtc": curve.dual_total_correlation * per,
        "loss": [round(float(each) / math.log(2), 5) for each in curve.loss],
    }
    hidden = np.arange(kind.length)
    pairs: Dependence | ByDistance
    if kind.layout is None:
        hidden = np.flatnonzero(texts.masked.any(dim=0).cpu().numpy())
        pairs = measure_distances(predictor, texts, rng=0, batch=batch)
        found["distance"] = [round(float(each), 6) for each in pairs.mean[: min(_SHOWN, hidden.size)]]
    else:
        pairs = pooled(measure_dependence(predictor, texts, rng=0, batch=batch), kind.alike())
        found["layout"] = list(kind.layout)
        found["map"] = _map(pairs, kind.layout)
    learn = _learned if hidden.size <= _LARGE else _learned_in_quarters
    few = _few(kind.settings.budgets(int(texts.counts.max())), hidden.size)
    found["orders"] = {str(steps): learn(kind, pairs, hidden, steps) for steps in few}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")
    return found


def kept(path: Path, texts: int) -> dict[str, Any] | None:
    """What was kept there; None if nothing was.

    Raises:
        InputError: if it is from another number of texts, or damaged.
    """
    if not path.exists():
        return None
    found = files.read_json(path)
    with files.intact(path):
        before = int(found["texts"])
    check_rows(path, 2 * before, 2 * texts)  # validation rows are half as many as test rows
    return found


def equalised(texts: Sequences) -> Sequences:
    """The same texts, with random tokens given in addition until all have as many to fill."""
    counts = texts.counts
    least = int(counts.min())
    if least == int(counts.max()):
        return texts
    masked = texts.masked.cpu().numpy()
    keys = np.where(masked, np.random.default_rng(0).random(masked.shape), 2.0)
    kept = np.zeros_like(masked)
    np.put_along_axis(kept, np.argsort(keys, axis=1)[:, :least], True, axis=1)
    return Sequences(texts.tokens, torch.from_numpy(kept).to(texts.masked.device), texts.lengths)


def learned(found: dict[str, Any], *, equal: bool) -> list[Rule]:
    """The learned orders as rules; where texts differ in what is given, cut evenly."""
    rules = []
    for steps, sets in found["orders"].items():
        sizes = [len(part) for part in sets]
        given = sum(sizes) - found["tokens"]
        # A prompt is given of every text, and stands in the first list; the clues of a board are anywhere.
        fixed = equal and (given == 0 or "layout" not in found)
        how_many = size.Explicit([sizes[0] - given, *sizes[1:]]) if fixed else size.Even(int(steps))
        rules.append(Rule("learned", f"even:{steps}", Schedule(how_many, order.Sets(sets))))
    return rules


def pooled(pairs: Dependence, alike: NDArray[np.int64]) -> Dependence:
    """The same with all pairs that are alike taken as one measurement."""
    values, errors, counts = (np.empty_like(each) for each in (pairs.values, pairs.errors, pairs.counts))
    others = ~np.eye(len(alike), dtype=np.bool_)  # a cell tells nothing of itself, and is like no pair
    for share in range(len(pairs.values)):
        weight = pairs.counts[share] * others

        def total(of: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(alike.ravel(), of.ravel())[alike]

        counts[share] = total(weight) * others
        some = np.maximum(counts[share], 1)
        values[share] = total(weight * pairs.values[share]) / some * others
        errors[share] = np.sqrt(total((weight * pairs.errors[share]) ** 2)) / some * others
    return Dependence(pairs.shares, values, errors, counts, pairs.texts, pairs.model)


def _map(pairs: Dependence, layout: tuple[int, int]) -> list[list[float]]:
    """The mean dependence on the cell in the middle of a map, of every cell around it."""
    height, width = layout
    matrix: NDArray[np.float64] = pairs.matrix
    middle = height // 2 * width + width // 2
    return [[round(float(each), 6) for each in line] for line in matrix[middle].reshape(height, width)]


def _learned(kind: Kind, pairs: Dependence | ByDistance, hidden: NDArray[np.int64], steps: int) -> list[list[int]]:
    """The positions of each step: learned for those that are to be filled in some text, the others in the first."""
    if isinstance(pairs, ByDistance):  # of a stretch of text that is shorter than the whole, after a prompt
        count = hidden.size
        pairs = ByDistance(
            pairs.shares, *(each[:, :count] for each in (pairs.values, pairs.errors, pairs.counts)), pairs.texts
        )
    sizes = size.Even(min(steps, hidden.size)).sizes(hidden.size).tolist()
    found = learned_order(pairs, sizes, layout=kind.layout, starts=4, rng=0)
    sets = [[int(hidden[place]) for place in part] for part in found.sets]
    sets[0] += np.setdiff1d(np.arange(kind.length), hidden).tolist()
    return sets


def _learned_in_quarters(kind: Kind, pairs: Dependence, hidden: NDArray[np.int64], steps: int) -> list[list[int]]:
    """The same for a large grid: one of every four cells in a learned order, then the other three in the same one.

    The search looks at all pairs of cells again and again, which takes minutes for hundreds of them.
    """
    assert kind.layout is not None
    height, width = kind.layout
    row, column = np.divmod(hidden, width)
    quarter = hidden[(row % 2 == 0) & (column % 2 == 0)]
    some = [each[:, quarter][:, :, quarter] for each in (pairs.values, pairs.errors, pairs.counts)]
    sizes = size.Even(steps // 4).sizes(quarter.size).tolist()
    layout = (height // 2, width // 2)
    found = learned_order(Dependence(pairs.shares, *some, pairs.texts), sizes, layout=layout, starts=4, rng=0)
    corners = (0, width + 1, 1, width)  # the second is the farthest from the first
    return [[int(quarter[place]) + corner for place in part] for corner in corners for part in found.sets]


def _few(budgets: Sequence[int], length: int) -> list[int]:
    """Budgets at which an order is learned: more steps would take the search too long on long texts."""
    if length > _LARGE:
        return [steps for steps in budgets if steps % 4 == 0]
    return [steps for steps in budgets if steps * length**2 <= 1 << 21]
