"""What a command found out: one object, printed for people or as JSON for programs.

The record is what programs get. What people see is made from the same record: titles, facts and sentences, and tables
whose columns say how a row of the record is shown.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]


@final
@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: What stands above it.
        cell: What it shows of a row, in rich's markup.
        left: Whether it holds words, which begin at the left; numbers end at the right.
    """

    heading: str
    cell: Callable[[Row], str]
    left: bool = False


def words(heading: str, key: str | None = None) -> Column:
    """A column of words: what the row has under that key."""
    return Column(heading, lambda row: escape(str(row[key or heading])), left=True)


def grid(columns: Sequence[Column], rows: Iterable[Row], *, section: str | None = None, tight: bool = False) -> Table:
    """A table of rows.

    Arguments:
        columns: What to show of each.
        rows: The rows.
        section: A key; where its value changes, a line is drawn.
        tight: Whether columns are close together, so that many fit.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=not tight, padding=(0, 1, 0, 0) if tight else (0, 1))
    for column in columns:
        table.add_column(column.heading, justify="left" if column.left else "right")
    before: Any = None
    for number, row in enumerate(rows):
        if section is not None and number and row[section] != before:
            table.add_section()
        before = None if section is None else row[section]
        table.add_row(*(column.cell(row) for column in columns))
    return table


def fitted(table: Table, screen: Console) -> Table:
    """The table, without a cell that a narrow screen would cut: what has spaces is broken first.

    Arguments:
        table: The table, which is changed.
        screen: Where it goes.
    """
    free = screen.options.update(width=1000)
    if Measurement.get(screen, free, table).maximum <= screen.width:
        return table
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    least = Measurement.get(screen, free, table).minimum
    for column in table.columns:
        one = all(" " not in str(cell) for cell in (column.header, *column.cells))
        column.overflow, column.no_wrap = "fold", least <= screen.width and (one or column.justify == "left")
    return table


def facts(*rows: Sequence[str], gap: int = 2) -> Table:
    """Lines of a few words each, set below one another."""
    table = Table.grid(padding=(0, gap))
    for row in rows:
        table.add_row(*row)
    return table


def title(line: str) -> Text:
    """A heading, whatever letters it has."""
    return Text(line, style="bold")


def plain(line: object) -> Text:
    """A line that is shown letter by letter: a path, or what a user wrote."""
    return Text(str(line))


@final
@dataclass(frozen=True)
class Verbatim:
    """A text that a model wrote, letter by letter: rich would widen its tabs and break its lines."""

    text: str


def dim(line: str) -> Text:
    """A remark."""
    return Text(line, style="dim")


def best(shown: str, wins: bool) -> str:
    """A number, marked if it is the best of its kind; all take the same room."""
    return f"[bold green]{shown} *[/bold green]" if wins else f"{shown}  "


@final
@dataclass(frozen=True)
class Report:
    """What a command found out.

    Attributes:
        record: The whole, for programs.
        shown: The same for people: whatever rich can print, and None for what is left out this time.
        written: Files that were written, which people are told of.
        next: A command that people might give next.
        note: What people are told beside the output: on stderr, so that a file or a pipe does not get it.
        code: The exit code.
    """

    record: Mapping[str, Any]
    shown: Sequence[Any] = ()
    written: Sequence[object] = field(default=())
    next: str = ""
    note: str = ""
    code: int = 0

    def print(self, screen: Console) -> None:
        """Print it for people."""
        for part in self.shown:
            if isinstance(part, Verbatim):
                click.echo(part.text)
            elif part is not None:
                # A path or a command is copied: it must not be broken into lines.
                whole = fitted(part, screen) if isinstance(part, Table) and part.box is not None else part
                screen.print(whole, soft_wrap=isinstance(part, Text))
        for path in self.written:
            if path is not None:
                screen.print(plain(f"Written: {path}"), soft_wrap=True)
        if self.next:
            screen.print(plain(f"Next: {self.next}"), soft_wrap=True)
        if self.note:
            Console(stderr=True, highlight=False).print(dim(self.note), soft_wrap=True)


def print_json(record: Mapping[str, object]) -> None:
    """Print one JSON object: a line per key, a line per row of a list of objects, and no NaN."""
    lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in record.items()]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.flush()


def _value(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in value)
        return f"[\n{rows}\n  ]"
    return json.dumps(value, allow_nan=False)
