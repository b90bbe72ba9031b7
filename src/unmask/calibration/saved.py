"""What was measured of an order, as plain values of a file and back. Files come from strangers, and are checked."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.calibration.groups import Groups
from unmask.calibration.losses import Losses
from unmask.calibration.mixed import Mixed
from unmask.calibration.numbers import numbers_of, text_of
from unmask.calibration.onelength import OneLength, kind_of, losses_of
from unmask.order import BlindOrder, Random
from unmask.schedule import SAVED_ORDERS, decode, encode


def encoded(losses: Losses) -> dict[str, Any]:
    """A dictionary of plain values."""
    common = {"order": encode(losses.order, SAVED_ORDERS), "visible": losses.visible.tolist()}
    if isinstance(losses, Mixed):
        values = losses.cells.sum(axis=2) if isinstance(losses.order, Random) else losses.cells[:, *_above(losses)]
        return {**common, "unit": losses.unit, "tokens": losses.tokens.tolist(), "values": text_of(values)}
    assert isinstance(losses, OneLength)
    groups = {} if losses.groups is None else {"groups": losses.groups.to_json()}
    return {
        **common,
        "table": [[float(f"{value:.6g}") for value in row] for row in losses.table.tolist()],
        "error": losses.error.tolist(),
        **groups,
    }


def decoded(given: object, length: int, texts: int) -> Losses:
    """What `encoded` described.

    Raises:
        InputError: if it cannot have been that.
    """
    data = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    mixed = "tokens" in data
    for key in ("order", "visible", *(("unit", "values") if mixed else ("table", "error"))):
        if key not in data:
            raise check.InputError(key, "be present")
    unit = check.integer("unit", data["unit"], least=1, most=check.EXACT - 1) if mixed else length
    order, visible = _order(data["order"]), _places(data["visible"], unit)
    if mixed:
        return _mixed(order, visible, data, unit, length, texts)
    shapes = {"table": (visible.size, length), "error": (visible.size,)}
    values = {key: check.numbers(key, data[key]) for key in shapes}
    for key, shape in shapes.items():
        if values[key].shape != shape:
            raise check.InputError(key, f"have the shape {shape}", found=f"{values[key].shape}")
        if not np.all(np.isfinite(values[key]) & (values[key] >= 0)):
            raise check.InputError(key, "hold finite numbers, none of them negative")
    columns = kind_of(order).width(visible.size)
    groups = Groups.from_json(data["groups"], columns) if "groups" in data else None
    return losses_of(order, visible, values["table"], values["error"], groups)


def _order(data: object) -> BlindOrder:
    try:
        order = decode(data, "order", SAVED_ORDERS)
    except RecursionError:
        raise check.InputError("order", "be nested less deeply") from None
    if not isinstance(order, BlindOrder):
        raise check.InputError("order", "be a blind order", found=check.type_of(order))
    return order


def _places(data: object, length: int) -> NDArray[np.int64]:
    visible = check.array("visible", data)
    if visible.ndim != 1 or visible.size == 0 or visible.dtype.kind != "i":
        raise check.InputError("visible", "be a list of integers")
    if visible[0] != 0 or visible[-1] >= length or np.any(np.diff(visible) <= 0):
        raise check.InputError("visible", f"be ascending numbers that start at 0 and stay below {length}")
    return visible.astype(np.int64)


def _mixed(
    order: BlindOrder, visible: NDArray[np.int64], data: dict[str, Any], unit: int, length: int, texts: int
) -> Mixed:
    tokens = check.array("tokens", data["tokens"])
    if tokens.shape != (texts,) or tokens.dtype.kind != "i" or tokens.min() < 1 or tokens.max() != length:
        raise check.InputError("tokens", f"be {texts} integers from 1 to {length}, of which the largest is {length}")
    places = visible.size
    width = places if isinstance(order, Random) else places * (places + 1) // 2
    values = numbers_of("values", data["values"], texts * width).reshape(texts, width)
    blank = Mixed(
        order, visible, unit, length, tokens.astype(np.int64), np.zeros((texts, places, places), dtype=np.float32)
    )
    if isinstance(order, Random):
        cells = spread_evenly(values, blank.widths)
    else:
        cells = np.zeros((texts, places, places), dtype=np.float32)
        cells[:, *_above(blank)] = values
    return Mixed(order, visible, unit, length, blank.tokens, cells)


def spread_evenly(totals: NDArray[Any], widths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Cells of the random order, in which every masked token is as good as any other.

    Arguments:
        totals: Loss of all masked tokens of each text at each place, shape `(texts, places)`.
        widths: Tokens of each text between two places, of the same shape.
    """
    later = np.triu(np.ones((widths.shape[1], widths.shape[1])))
    each = later * widths[:, None, :]
    left = np.maximum(each.sum(axis=2), 1)
    return (each * (totals / left)[:, :, None]).astype(np.float32)


def _above(losses: Mixed) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(losses.visible.size)
