"""The tab *Results*: what was measured, as the tables of the repository have it.

`results.json` is part of the package. `experiments/shipped.py` makes it from the committed tables, and a test compares
the two.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, final

from unmask import _check as check

AXES = {"evaluations": "evaluations", "passes": "passes over the text"}
WHICH = {"main": "the main ones", "all": "all"}


@final
@dataclass(frozen=True)
class Value:
    """What was measured under one setting of a rule.

    Attributes:
        setting: The sizes, as the table has them.
        evaluations: Evaluations of the model per text. passes: The same as passes over the text, if that was counted.
        cost: What it costs. error: Its standard error, if there is one.
    """

    setting: str
    evaluations: float
    passes: float | None
    cost: float
    error: float | None

    def along(self, axis: str) -> float | None:
        """How much work it was, in the unit of a key of `AXES`."""
        return {"evaluations": self.evaluations, "passes": self.passes}[axis]


@final
@dataclass(frozen=True)
class Series:
    """One rule of one model.

    Attributes:
        model: The model; empty if a collection has only one. rule: The order and the kind of sizes.
        main: Whether it is among those that are shown first.
        values: By ascending evaluations.
    """

    model: str
    rule: str
    main: bool
    values: tuple[Value, ...]

    @property
    def name(self) -> str:
        return f"{self.model}: {self.rule}" if self.model else self.rule


@final
@dataclass(frozen=True)
class Collection:
    """Results that belong together: one table.

    Attributes:
        key: Its word in a link. title: What it is called. source: The file it is from. unit: What a cost is counted in.
        sees: What there is to be seen, in a sentence. takes: What to take from it.
        logarithmic: Whether costs span decades.
        reference: The name and the cost of what everything is compared with, if there is such a thing.
        series: One for each rule, those that are shown first at the front.
    """

    key: str
    title: str
    source: str
    unit: str
    sees: str
    takes: str
    logarithmic: bool
    reference: tuple[str, float] | None
    series: tuple[Series, ...]

    def counted(self, axis: str) -> bool:
        """Whether work was counted in this unit."""
        return all(value.along(axis) is not None for each in self.series for value in each.values)

    def chosen(self, which: str) -> tuple[Series, ...]:
        """The rules to show."""
        return tuple(each for each in self.series if each.main or which == "all")


@final
@dataclass(frozen=True)
class Compared:
    """What the tab shows.

    Attributes:
        collections: The collections, in the order of the file. axis: A key of `AXES`. which: A key of `WHICH`.
    """

    collections: tuple[Collection, ...]
    axis: str
    which: str

    def rows(self) -> list[dict[str, Any]]:
        """Every number that is shown."""
        return [
            {
                "collection": each.key,
                "model": series.model,
                "rule": series.rule,
                "setting": value.setting,
                "evaluations": value.evaluations,
                "passes": value.passes,
                "cost": value.cost,
                "error": value.error,
            }
            for each in self.collections
            for series in each.chosen(self.which)
            for value in series.values
        ]

    def record(self) -> dict[str, Any]:
        """The same with the titles, units and sources, for programs."""
        heads = [
            {
                "collection": each.key,
                "title": each.title,
                "unit": each.unit,
                "source": f"experiments/results/{each.source}",
            }
            for each in self.collections
        ]
        return {"collections": heads, "rows": self.rows()}


@lru_cache(maxsize=1)
def collections() -> dict[str, Collection]:
    """All that is shipped, by key."""
    text = resources.files("unmask.app.data").joinpath("results.json").read_text(encoding="utf-8")
    return {each["key"]: _collection(each) for each in json.loads(text)["collections"]}


def _collection(record: dict[str, Any]) -> Collection:
    reference = record.get("reference")
    return Collection(
        **{name: record[name] for name in ("key", "title", "source", "unit", "sees", "takes")},
        logarithmic=record.get("logarithmic", False),
        reference=None if reference is None else (reference["name"], reference["cost"]),
        series=tuple(
            Series(each["model"], each["rule"], each["main"], tuple(_value(value) for value in each["values"]))
            for each in record["rules"]
        ),
    )


def _value(record: dict[str, Any]) -> Value:
    return Value(
        record["setting"], record["evaluations"], record.get("passes"), record["cost"], record.get("error")
    )  # fmt: skip


def compare(keys: Iterable[str], axis: str, which: str) -> Compared:
    """What to show.

    Arguments:
        keys: Collections. axis: A key of `AXES`. which: A key of `WHICH`.

    Raises:
        ValueError: if a word is not known, or nothing was chosen.
    """
    known = collections()
    wanted = {check.known("results", key, list(known)) for key in keys}
    if not wanted:
        remedy = "Choose the collection that you want to see."
        raise check.InputError("results", "be at least one collection", remedy=remedy)
    check.known("against", axis, list(AXES))
    check.known("rules", which, list(WHICH))
    return Compared(tuple(each for key, each in known.items() if key in wanted), axis, which)
