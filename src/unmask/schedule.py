"""A schedule is a size and an order: how many tokens each step reveals, and which. It may have a revision, too.

Any size of the core works with any order. The guarantees and exact errors of `unmask.evaluate` are about
`order.Random`.

A schedule is saved as JSON with a version number. What is read back is checked: an unknown name, an unknown or
missing field, or a value that the class itself refuses is answered in one sentence.
"""

import json
import os
from collections.abc import Callable, Set
from dataclasses import dataclass, fields
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import gauge, names, order, size
from unmask._atomic import replacing
from unmask._files import read_text
from unmask.information.curve import Curve
from unmask.order import Spaced
from unmask.revision import Redraw, Revision, Rewrite, TakeBack

SCHEMA = 1

# The classes behind the names in a file. A name that settles arguments is a word for people: the file says them.
SAVED_SIZES: dict[str, type] = {name: entry.kind for name, entry in names.SIZES.items() if not entry.settled}
SAVED_REVISIONS: dict[str, type] = {name: entry.kind for name, entry in names.REVISIONS.items()}
SAVED_ORDERS: dict[str, type] = {name: entry.kind for name, entry in names.ORDERS.items() if not entry.settled}

# Arguments that came later: files of earlier versions do not have them, and mean their defaults.
_LATER: dict[type, set[str]] = {order.Comb: {"shift"}, order.Blocks: {"start"}}

Within = order.BlindOrder | order.ReactiveOrder
Inside = Within | order.Spaced


@final
@dataclass(frozen=True)
class Schedule:
    """How many tokens to reveal at each step, and which.

    Arguments:
        size: Any size of `unmask.size`.
        order: Any order of `unmask.order`.
        revision: Which tokens are taken back, of `unmask.revision`; none by default.

    Example:
        >>> schedule = Schedule(size.Minimax(16, gauge.tc), order.Comb())
        >>> schedule.to_json()["size"]
        {'name': 'minimax', 'steps': 16, 'gauge': 'tc'}
        >>> Schedule.from_json(schedule.to_json()) == schedule
        True
    """

    size: size.Blind | size.Reactive
    order: order.BlindOrder | order.ReactiveOrder | order.Spaced | order.Blocks | order.Delimited
    revision: Revision | None = None

    def __post_init__(self):
        if not isinstance(self.size, size.Blind | size.Reactive):
            raise check.InputError("size", "be a size from unmask.size, such as Even(16)", found=check.shown(self.size))
        kinds = order.BlindOrder | order.ReactiveOrder | order.Spaced | order.Blocks | order.Delimited
        if not isinstance(self.order, kinds):
            raise check.InputError(
                "order", "be an order from unmask.order, such as Comb()", found=check.shown(self.order)
            )
        if isinstance(self.order, order.Delimited) and not isinstance(self.size, size.Reactive):
            raise check.InputError(
                "size",
                "be a size that looks at predictions",
                found=check.shown(self.size),
                remedy="The length of the blocks of a Delimited order is not known in advance.",
            )
        if self.revision is not None:
            self._check_revision(self.revision)

    def _check_revision(self, taking: object) -> None:
        if not isinstance(taking, TakeBack | Rewrite | Redraw):
            raise check.InputError("revision", "be a revision of unmask.revision", found=check.shown(taking))
        if self._revises_not:
            raise check.InputError(
                "revision", f"not be used with {self._revises_not}", remedy="Leave out one of the two."
            )
        if taking.needs_sizes and not isinstance(self.size, size.Blind):
            raise check.InputError(
                "size", "be a blind size", found=check.shown(self.size),
                remedy=f"{check.BLIND_SIZE} Only the revisions Verify, Edit and Gibbs work with other sizes.",
            )  # fmt: skip
        if isinstance(self.size, size.LogLinear) and isinstance(self.order, order.Blocks) and taking.needs_sizes:
            raise check.InputError("order", "have no blocks if this revision is used with log-linear sizes")
        if isinstance(taking, TakeBack) and taking.drafts and not isinstance(self.within, order.Confidence):
            raise check.InputError(
                "order", "be Confidence for this revision", found=check.shown(self.order),
                remedy="This revision ranks positions by the probability of the token drawn for them.",
            )  # fmt: skip

    @property
    def _revises_not(self) -> str:
        """What this schedule has that no revision goes with: rules whose past is that of tokens that stay."""
        if self.spaced is not None:
            return "an order that keeps positions apart"
        if isinstance(self.order, order.Delimited):
            return "blocks that end at delimiters"
        if isinstance(self.within, order.Calibrated | order.EndLater):
            return "an order whose weights depend on position or progress"
        if isinstance(self.size, size.Reactive) and self.size.looks_back:
            return "a size that compares two steps"
        return ""

    @property
    def within(self) -> Within:
        """The order that ranks within a block, or within the whole sequence if there are none."""
        inside = self._inside
        return inside.order if isinstance(inside, Spaced) else inside

    @property
    def spaced(self) -> Spaced | None:
        """What keeps the positions of a step apart; `None` if nothing does."""
        inside = self._inside
        return inside if isinstance(inside, Spaced) else None

    @property
    def _inside(self) -> Inside:
        return self.order.order if isinstance(self.order, order.Blocks | order.Delimited) else self.order

    @property
    def blind(self) -> bool:
        """True if no part looks at predictions, so that everything but the tokens is decided beforehand."""
        return self.revision is None and isinstance(self.size, size.Blind) and isinstance(self.within, order.BlindOrder)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        parts = {"schema": SCHEMA, "size": encode(self.size, SAVED_SIZES), "order": encode(self.order, SAVED_ORDERS)}
        return parts if self.revision is None else {**parts, "revision": encode(self.revision, SAVED_REVISIONS)}

    @classmethod
    def from_json(cls, data: object) -> "Schedule":
        """The schedule that `to_json` described."""
        data = _object(data, "schedule", {"schema", "size", "order", "revision"}, {"revision"})
        if type(data["schema"]) is not int or data["schema"] != SCHEMA:
            raise check.InputError(
                "schema",
                f"be {SCHEMA}",
                found=check.shown(data["schema"]),
                remedy="The schedule comes from another version of unmask.",
            )
        try:
            return cls(
                decode(data["size"], "size", SAVED_SIZES),
                decode(data["order"], "order", SAVED_ORDERS),
                decode(data["revision"], "revision", SAVED_REVISIONS) if "revision" in data else None,
            )
        except RecursionError:
            raise check.InputError("", "The schedule has sizes or orders nested too deeply") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        with replacing(check.path("path", path)) as file:
            file.write_text(json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Schedule":
        """Read what `save` wrote."""
        text = read_text(path, "path")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):  # not JSON, or nothing that a schedule would hold
            raise check.InputError("path", "be valid JSON", detail=f"but '{path}' is not") from None
        return cls.from_json(data)


def encode(thing: object, kinds: dict[str, type]) -> dict[str, Any]:
    """A size or an order as a dictionary of plain values."""
    found = next((pair for pair in kinds.items() if type(thing) is pair[1]), None)
    if found is None:
        raise check.InputError(
            "",
            f"Your own {type(thing).__name__} cannot be saved; only unmask's own sizes, orders and revisions can",
        )
    name, kind = found
    parts = {part: _plain(getattr(thing, part)) for part in _saved(kind)}
    for part, value in parts.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:  # JSON has no NaN and no infinity
            raise check.InputError(part, f"be finite, so that '{name}' can be saved") from None
    return {"name": name, **parts}


def _plain(value: Any) -> Any:
    if isinstance(value, Curve):
        return value.loss.tolist()
    if isinstance(value, gauge.Vector):
        return value.values.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return cast(NDArray[Any], value).tolist()
    if isinstance(value, tuple):
        return [_plain(each) for each in cast(tuple[Any, ...], value)]
    if isinstance(value, size.Reactive):
        return encode(value, SAVED_SIZES)
    if isinstance(value, order.Order):
        return encode(value, SAVED_ORDERS)
    if callable(value):
        name = next((name for name, entry in names.GAUGES.items() if entry.make is value), None)
        if name is None:
            raise check.InputError(
                "", "Your own gauge function cannot be saved", remedy="Use gauge.Vector with its values."
            )
        return name
    return value


def decode(data: object, role: str, kinds: dict[str, type]) -> Any:
    """The size or order that `encode` described."""
    if not isinstance(data, dict) or "name" not in data:
        raise check.InputError(role, "be an object with a name", found=check.shown(cast(object, data)))
    name = check.known(role, cast(dict[str, object], data)["name"], kinds)
    wanted, later = _saved(kinds[name]), _LATER.get(kinds[name], set[str]())
    parts = _object(cast(object, data), f"{role} '{name}'", {"name", *wanted}, later)
    return kinds[name](**{part: _READERS.get(part, _unchanged)(parts[part]) for part in wanted if part in parts})


def _saved(kind: type) -> list[str]:
    """The arguments a class is made from; the steps of explicit sizes follow from the sizes."""
    return ["values"] if kind is size.Explicit else [part.name for part in fields(kind) if part.init]


def _object(data: object, role: str, wanted: set[str], later: Set[str] = frozenset()) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise check.InputError("", f"The {role} must be a JSON object, not {check.type_of(data)}")
    data = cast(dict[str, Any], data)
    if unknown := sorted(set(data) - wanted):
        raise check.InputError(
            "",
            f"The {role} must not have the field '{unknown[0]}'",
            remedy=f"Its fields are {', '.join(sorted(wanted))}.",
        )
    if missing := sorted(wanted - set(data) - later):
        raise check.InputError("", f"The {role} must have the field '{missing[0]}'")
    return data


def _gauge(value: Any) -> Any:
    if isinstance(value, str):
        return names.GAUGES[check.known("gauge", value, names.GAUGES)].make
    return gauge.Vector(_numbers("gauge", value))


def _numbers(name: str, value: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise check.InputError(name, "be a list of numbers") from None


def _unchanged(value: Any) -> Any:
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "gauge": _gauge,
    "curve": lambda value: Curve(_numbers("curve", value)),
    "table": lambda value: _numbers("table", value),
    "rates": lambda value: _numbers("rates", value),
    "size": lambda value: decode(value, "size", SAVED_SIZES),
    "order": lambda value: decode(value, "order", SAVED_ORDERS),
}
