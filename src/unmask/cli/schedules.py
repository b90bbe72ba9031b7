"""The words for orders, sizes that look at predictions, and whole tables of schedules."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from unmask import _check as check
from unmask import order, size
from unmask.calibrate import Calibration
from unmask.calibrate.advice import measured_as
from unmask.cli.names import CURVE_SIZES, SIZES
from unmask.cli.options import Listed
from unmask.schedule import Schedule

BLIND: dict[str, order.BlindOrder] = {
    "random": order.Random(),
    "spread": order.Spread(),
    "comb": order.Comb(),
    "left-to-right": order.LeftToRight(),
    "dilated": order.Dilated(),
}
ORDERS: dict[str, order.BlindOrder | order.ReactiveOrder] = {
    **BLIND,
    "confidence": order.Confidence(),
    "margin": order.Margin(),
    "entropy": order.Entropy(),
}
# Written with their number: threshold:0.9.
REACTIVE: dict[str, Callable[[float], size.Reactive]] = {
    "threshold": size.Threshold,
    "factor": size.Factor,
    "entropy-bound": size.EntropyBound,
}
ORDER_HELP = f"Of {', '.join(ORDERS)}; comb-16 is a comb of 16 segments, comb alone has one tooth per step."
SIZE_HELP = f"Of {', '.join(SIZES)}, or {', '.join(f'{name}:NUMBER' for name in REACTIVE)}"


class _Order(click.ParamType):
    name = "order"
    words = (*ORDERS, "comb-16")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        order_named(value)
        return value


class _Size(click.ParamType):
    name = "size"
    words = (*SIZES, *CURVE_SIZES, "threshold:0.9", "factor:1", "entropy-bound:1")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        check_size(value)
        return value


ORDER, SIZE = _Order(), _Size()
ORDER_LIST, SIZE_LIST = Listed(ORDER), Listed(SIZE)


def order_named(name: str) -> order.BlindOrder | order.ReactiveOrder:
    """The order of that name; `comb-16` is a comb of 16 segments."""
    if not isinstance(name, str):
        raise check.InputError("order", "be a name", found=check.shown(name))
    if comb := re.fullmatch(r"comb-([0-9]+)", name):
        return order.Comb(int(comb[1]))
    return ORDERS[check.known("order", name, ORDERS)]


def fits(kind: order.Order, length: int) -> bool:
    """Whether a comb has a token for each of its segments; other orders are at home in any length."""
    return not isinstance(kind, order.Comb) or kind.segments is None or kind.segments <= length


def check_combs(names: Iterable[str], length: int) -> None:
    """Refuse combs with more segments than there are tokens."""
    for name in names:
        if not fits(order_named(name), length):
            raise check.InputError("order", f"be a comb of at most {length} segments", found=check.shown(str(name)))


def check_size(name: object, names: Iterable[str] = (*SIZES, *CURVE_SIZES)) -> None:
    """Refuse what is neither one of `names` nor a size that looks at predictions, with its number."""
    if isinstance(name, str) and ":" in name:
        reactive_named(name)
    else:
        check.known("size", name, [*names, *(f"{word}:NUMBER" for word in REACTIVE)])


def blind_named(name: str) -> order.BlindOrder:
    """The order of that name, if it can be measured: it must not look at predictions."""
    found = order_named(name)
    if not isinstance(found, order.BlindOrder) or found == order.Comb():
        raise check.InputError(
            "orders",
            f"hold orders that can be measured once for all, not '{name}': random, spread, left-to-right, dilated",
            detail="and combs with their segments, such as comb-16",
        )
    return found


def reactive_named(name: str) -> size.Reactive:
    """The size that looks at predictions, with its number: `threshold:0.9`."""
    word, _, value = name.partition(":")
    return REACTIVE[check.known("size", word, REACTIVE)](check.spelled(word, value))


@dataclass(frozen=True)
class Named:
    """A schedule and the words it was asked for with; no number of steps where predictions decide it."""

    order: str
    size: str
    steps: int | None
    schedule: Schedule


def build(order_name: str, size_name: str, steps: int, length: int, calibration: Calibration | None = None) -> Named:
    """The schedule of those names for sequences of `length` tokens.

    Arguments:
        order_name, size_name: Words of the command line.
        steps: Number of steps; of no use to sizes that look at predictions.
        length: Number of tokens.
        calibration: For the sizes 'optimal' and 'square-root'.
    """
    ranking = order_named(order_name)
    check_size(size_name)
    if ":" in size_name:
        return Named(order_name, size_name, None, Schedule(reactive_named(size_name), ranking))
    check.steps_and_length(steps, length)
    if size_name in SIZES:
        return Named(order_name, size_name, steps, Schedule(SIZES[size_name](steps), ranking))
    if calibration is None:
        raise check.InputError(
            "",
            f"Size '{size_name}' is made for a measured model",
            remedy="Give --calibration FILE, as `unmask calibrate` writes.",
        )
    if size_name == "square-root":
        if calibration.random is None:
            raise _unmeasured(size_name, "random", calibration)
        return Named(order_name, size_name, steps, Schedule(size.SquareRoot(steps, calibration.random.curve), ranking))
    wanted = measured_as(calibration, ranking, steps)
    if wanted is None:
        raise _unmeasured(size_name, order_name, calibration)
    return Named(order_name, size_name, steps, calibration.plan(wanted, steps).schedule)


def _unmeasured(size_name: str, order_name: str, calibration: Calibration) -> ValueError:
    known = ", ".join(calibration.losses)
    return check.InputError(
        "", f"Size '{size_name}' needs the order '{order_name}' among those that were measured: {known}"
    )


def table(
    orders: list[str], sizes: list[str], steps: list[int], length: int, calibration: Calibration | None
) -> list[Named]:
    """All schedules of these orders, sizes and numbers of steps; one row where predictions decide the steps."""
    check_combs(orders, length)
    rows = []
    for order_name in orders:
        for size_name in sizes:
            if ":" not in size_name and not steps:
                raise click.UsageError("Missing option '--steps'.")
            for count in steps if ":" not in size_name else [length]:
                rows.append(build(order_name, size_name, count, length, calibration))
    return rows


def order_title(kind: order.Order) -> str:
    """The word for an order."""
    if isinstance(kind, order.Comb) and kind.segments is not None:
        return f"comb-{kind.segments}"
    return next((name for name, known in ORDERS.items() if known == kind), type(kind).__name__.lower())


def described(schedule: Schedule) -> Named:
    """A schedule from a file, named as well as the command line can."""
    ranking = order_title(schedule.order)
    if isinstance(schedule.size, size.Blind):
        return Named(ranking, type(schedule.size).__name__.lower(), schedule.size.steps, schedule)
    return Named(ranking, type(schedule.size).__name__.lower(), None, schedule)
