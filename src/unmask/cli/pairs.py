"""What `unmask calibrate --dependence` adds: how much positions tell of each other."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask import _check as check
from unmask import plot
from unmask._atomic import replacing
from unmask.calibration.dependence import ByDistance, Dependence
from unmask.cli.output import progress
from unmask.cli.report import Column, grid, title
from unmask.engine import Engine
from unmask.words.outputs import check_place

if TYPE_CHECKING:
    from unmask.models import Model
    from unmask.sequences import Sequences

_SHOWN = 12  # distances, or pairs


def check_pairs(dependence: Path | None, layout: str | None, figure: Path | None) -> tuple[int, int] | None:
    """Refuse, before any work, what does not go together; and say what the layout is.

    Arguments:
        dependence: Where to keep what is measured.
        layout: Rows and columns, as in 28x28.
        figure: Where to draw it.
    """
    for option, given in (("layout", layout), ("figure", figure)):
        if given is not None and dependence is None:
            raise check.lacking(option, "{dependence}")
    check_place("dependence", dependence)
    check_place("figure", figure, (".png", ".svg", ".pdf"))
    if figure is not None:
        plot.require()
    return sides(layout)


def sides(layout: str | None) -> tuple[int, int] | None:
    """Rows and columns of a layout, if there is one."""
    if layout is None:
        return None
    found = layout.lower().split("x")
    if len(found) != 2 or not all(side.isdecimal() and len(side) < 6 and int(side) > 0 for side in found):
        what = "be positive numbers of rows and columns with an x between them, as in 28x28"
        raise check.InputError("layout", what, found=check.shown(layout))
    return int(found[0]), int(found[1])


def wrong_cells(layout: tuple[int, int], length: int, remedy: str = "") -> check.InputError:
    """What is said of a layout that has another number of cells than sequences have positions.

    Arguments:
        layout: Its rows and columns.
        length: How many positions there are.
        remedy: The way out.
    """
    height, width = layout
    detail = f"but {height}x{width} has {height * width:,}"
    return check.InputError("layout", f"have {length:,} cells, one for each position", detail=detail, remedy=remedy)


def check_measurable_pairs(
    dependence: Path | None, model: "Model", layout: tuple[int, int] | None, rows: "Sequences"
) -> None:
    """Refuse a model of which no dependence can be measured, and a layout that the texts do not have."""
    if dependence is not None and model.predictor.remembers:
        must = "be measured on a model that looks both ways"
        raise check.InputError("dependence", must, remedy="Try {model} builtin.")
    if layout is None:
        return
    cells = layout[0] * layout[1]
    if not rows.equal:
        what = f"be used with sequences of {cells:,} tokens each, one for each cell"
        raise check.InputError("layout", what, found="with sequences of different lengths")
    if rows.tokens.shape[1] != cells:
        shorter = 1 < cells < rows.tokens.shape[1]
        remedy = f"Change the layout, or set {{length}} {cells}." if shorter else ""
        raise wrong_cells(layout, rows.tokens.shape[1], remedy)


def measured_pairs(
    model: "Model", rows: "Sequences", layout: tuple[int, int] | None, *, seed: int, engine: Engine
) -> Dependence | ByDistance:
    """Measure dependence with a bar: as a matrix for a layout, by distance otherwise."""
    from unmask.calibration.revealing import (
        REVEALS,
        SHARES,
        dependence_evaluations,
        measure_dependence,
        measure_distances,
    )  # fmt: skip

    measure = measure_distances if layout is None else measure_dependence
    with progress() as bar:
        total = dependence_evaluations(rows.counts.numpy(), SHARES, REVEALS)
        task = bar.add_task("dependence", total=total)
        return measure(
            model.predictor, rows, rng=seed, model=model.fingerprint, engine=engine,
            progress=lambda done: bar.advance(task, done),
        )  # fmt: skip


def pairs_record(found: Dependence | ByDistance) -> dict[str, Any]:
    """What is said of it: the nearest distances, or the pairs that depend most."""
    record: dict[str, Any] = {"texts": found.texts, "length": found.length, "shares": list(found.shares)}
    if isinstance(found, ByDistance):
        errors = _mean_error(found)
        far = [d for d in range(1, found.length) if found.counts[:, d].any()][:_SHOWN]
        rows = [{"distance": d, "nats": float(found.mean[d]), "error": float(errors[d])} for d in far]
        return {**record, "distances": rows, "pairs": None}
    matrix, errors = found.matrix, _mean_error(found)
    first = np.argsort(-matrix, axis=None, kind="stable")[:_SHOWN].tolist()
    places = [divmod(each, found.length) for each in first]
    rows = [{"of": i, "told_by": j, "nats": float(matrix[i, j]), "error": float(errors[i, j])} for i, j in places]
    return {**record, "distances": None, "pairs": rows}


def _mean_error(found: Dependence | ByDistance) -> Any:
    """The standard error of the mean over shares, as if these were independent."""
    there = found.counts > 0
    return np.sqrt((found.errors**2 * there).sum(axis=0)) / np.maximum(there.sum(axis=0), 1)


def shown_pairs(record: dict[str, Any]) -> list[Any]:
    """The same for people."""
    numbers = (Column("nats", lambda row: f"{row['nats']:.4f}"), Column("error", lambda row: f"{row['error']:.4f}"))
    if record["distances"] is not None:
        columns = (Column("distance", lambda row: str(row["distance"])), *numbers)
        return [title("What revealing one token tells you about another"), grid(columns, record["distances"])]
    places = (Column("position", lambda row: str(row["of"])), Column("told by", lambda row: str(row["told_by"])))
    return [title("Positions that tell you most about each other"), grid((*places, *numbers), record["pairs"])]


def draw_pairs(found: Dependence | ByDistance, figure: Path) -> None:
    """Draw it: a heat map, or a curve for each share."""
    with replacing(figure) as path:
        if isinstance(found, Dependence):
            plot.dependence({"mean over shares revealed": found.matrix}, [path])
            return
        names = [f"{share:.0%} revealed" if share < 1 else "all but two revealed" for share in found.shares]
        curves = {name: merged(found, share) for share, name in enumerate(names)}
        plot.distances({name: curve for name, curve in curves.items() if curve[0].size}, [path])


def merged(found: ByDistance, share: int) -> tuple[Any, Any, Any]:
    """A curve to draw: distances, nats and their errors. From 5 on, the distances of half an octave are one point.

    Few pairs of a text are far apart, so single distances would be mostly noise, and at some nothing is measured.
    """
    far, count = np.arange(1, found.length), found.counts[share, 1:]
    _, point = np.unique(np.where(far < 5, far, np.round(2 * np.log2(far))), return_inverse=True)
    several = np.bincount(point, weights=count)
    there, some = several > 0, np.maximum(several, 1)
    middle = np.exp(np.bincount(point, weights=np.log(far)) / np.bincount(point))
    values = np.bincount(point, weights=found.values[share, 1:] * count) / some
    errors = np.sqrt(np.bincount(point, weights=(found.errors[share, 1:] * count) ** 2)) / some
    return middle[there], values[there], errors[there]
