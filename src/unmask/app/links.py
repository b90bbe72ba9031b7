"""A view as a link, and a link as a view; and what can be downloaded of it.

The query of a link has the tab and the fields of that tab, by their names: `?tab=schedules&length=256&size=even,tc`. A
value that is not possible is left out with a sentence, since nobody should meet a page that fails by following a link.
Values that are possible but do not go together are for the tab to answer, next to its fields.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from unmask import _check as check

Parser = Callable[[str, str], Any]

_LETTERS = 4096


def whole(*, least: int = -check.EXACT, most: int = check.EXACT) -> Parser:
    """An integer of a link, if it can be the value of its field."""

    def parse(name: str, text: str) -> int:
        try:
            number = int(text[:40])
        except ValueError:
            raise check.InputError(name, "be an integer", found=check.shown(text[:40])) from None
        return check.integer(name, number, least=least, most=most)

    return parse


def real(*, least: float | None = None) -> Parser:
    """A number of a link."""
    return lambda name, text: check.real(name, check.spelled(name, text[:40]), least=least)


def optional(parse: Parser) -> Parser:
    """A field that may be empty."""
    return lambda name, text: parse(name, text) if text else None


def words(name: str, text: str) -> str:
    """Any text of a link."""
    if len(text) > _LETTERS:
        raise check.InputError(name, f"have at most {_LETTERS} characters in a link", found=f"{len(text)}")
    return text


def one_of(names: Sequence[str]) -> Parser:
    """One of several names."""
    return lambda name, text: check.known(name, text[:40], names)


def some_of(names: Sequence[str], noun: str = "schedule") -> Parser:
    """Several names of such things, separated by commas; one at least."""

    def parse(name: str, text: str) -> list[str]:
        found = [check.known(name, word[:40], names) for word in text.split(",") if word]
        if not found:
            raise check.InputError(name, f"be at least one {noun}")
        return found

    return parse


@dataclass(frozen=True)
class View:
    """What a link says: values by field for one tab, and a sentence for each that was left out."""

    tab: str
    values: dict[str, Any]
    problems: tuple[str, ...]


def link(tab: str, values: Mapping[str, Any]) -> str:
    """The link to a view. A field that is empty is so in the link too: without it the field would have its usual value.

    Example:
        >>> link("model", {"target": None, "steps": 8}), link("schedules", {"length": 256, "size": ["even", "tc"]})
        ('?tab=model&target=&steps=8', '?tab=schedules&length=256&size=even,tc')
    """
    shown = {name: ",".join(value) if isinstance(value, list) else value for name, value in values.items()}
    query = {"tab": tab, **{name: "" if value is None else value for name, value in shown.items()}}
    return "?" + urlencode(query, safe=",:")


def read(query: Mapping[str, str], tabs: Mapping[str, Mapping[str, Parser]]) -> View:
    """The view that a link asks for.

    Arguments:
        query: The query parameters.
        tabs: For each tab its fields, and how each is read. The first tab is shown where none is named.
    """
    problems = []
    tab = query.get("tab") or next(iter(tabs))
    if tab not in tabs:
        problems.append(f"The link names no tab of this page: '{tab[:40]}'.")
        tab = next(iter(tabs))
    values = {}
    for name, parse in tabs[tab].items():
        if name not in query:
            continue
        try:
            values[name] = parse(name, query[name])
        except check.InputError as error:
            problems.append(f"This part of the link was ignored: {error}")
    return View(tab, values, tuple(problems))


def as_json(record: Mapping[str, Any]) -> str:
    """The text of a JSON file."""
    return json.dumps(record, allow_nan=False, indent=1) + "\n"


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
