"""How lines are read: JSON objects, plain sequences, FASTA records, cells of a table.

Each format is a function from lines to rows. What is wrong with a row is one sentence that names its line; extra keys
and columns are nobody's mistake, and blank lines are no rows.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

from unmask import _check as check
from unmask._files import check_file
from unmask.data.streams import LINE, named

Numbered = Iterator[tuple[int, str]]
_KEYS = ("prompt", "answer", "text", "given")  # those that a row of JSON lines may have
_BATCH = 1024  # rows of a Parquet file at a time
_BUFFER = 1 << 20  # bytes of it


@final
@dataclass(frozen=True, slots=True)
class Row:
    """A row as it was written: a prompt, with or without its answer, or a text.

    Attributes:
        file: The file it stands in; "-" for standard input.
        line: In which line it begins, from 1 on.
        prompt: What is given.
        answer: What is to be filled after the prompt.
        text: What is to be filled, but for what is given of it.
        given: Which tokens of the text are given: their positions, from 0 on, or the text with `_` or the model's mask
            token in place of every token that is not.
        unit: What `line` counts: lines, or rows where a file has no lines.

    Example:
        >>> Row("answers.jsonl", 7, prompt="2 + 2 =", answer=" 4").where
        "line 7 of 'answers.jsonl'"
    """

    file: str
    line: int
    prompt: str | None = None
    answer: str | None = None
    text: str | None = None
    given: str | tuple[int, ...] | None = None
    unit: str = "line"

    @property
    def where(self) -> str:
        """Where it stands, for a sentence."""
        return f"{self.unit} {self.line} of {named(self.file)}"


@final
@dataclass(frozen=True)
class Wanted:
    """What a reader is asked for.

    Attributes:
        file: The file, "-" for standard input.
        column: The column or key that holds the texts; `None` where nobody said.
        write: Whether answers are to be written: a prompt needs none, and a sequence alone is a prompt.
        unit: What its rows are counted by.
    """

    file: str
    column: str | None
    write: bool
    unit: str = "line"

    def row(self, line: int, value: object) -> Row:
        """A row of one sequence."""
        text = self.text(line, "text", value)
        if self.write:
            return Row(self.file, line, text, unit=self.unit)
        return Row(self.file, line, None, None, text, unit=self.unit)

    def text(self, line: int, part: str, value: object, *, empty: bool = False) -> str:
        """A part of a row, if it is text."""
        if not isinstance(value, str):
            shown = "missing" if value is None else check.shown(value)
            raise self.bad(line, "hold text in each row", f"is {shown}", part)
        if not value and not empty:
            raise self.bad(line, "have something in each row", "is empty", part)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # JSON can write them
                raise self.bad(line, "be valid Unicode", "has an unpaired surrogate", part) from None
        return value

    def bad(self, line: int, must: str, why: str, part: str = "") -> check.InputError:
        """The sentence for a row, or a part of it, that is not what it must be."""
        inside = "on" if self.unit == "line" else "in"
        where = f"the {part} {inside} {self.place(line)}" if part else self.place(line)
        return check.InputError("data", must, detail=f"but {where} {why}")

    def place(self, line: int) -> str:
        """A line, for a sentence."""
        return f"{self.unit} {line} of {named(self.file)}"

    def no_column(self) -> None:
        """Refuse a column for what has none."""
        if self.column is not None:
            detail = f"since {named(self.file)} has no columns"
            raise check.InputError("column", "be left out", detail=detail)


Format = Callable[[Numbered, Wanted], Iterator[Row]]


def plain(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """One sequence in each line."""
    wanted.no_column()
    for number, line in lines:
        if line.strip():
            yield wanted.row(number, line.removesuffix("\n").removesuffix("\r"))


def fasta(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """FASTA: after each line that begins with `>`, the lines of one sequence; its letters stay as they are."""
    wanted.no_column()
    start, parts, size = 0, list[str](), 0
    for number, line in lines:
        line = line.strip()
        if line.startswith(">"):
            if start:
                yield wanted.row(start, "".join(parts))
            start, parts, size = number, [], 0
        elif line and not line.startswith(";"):  # a comment, in old files
            if not start:
                raise wanted.bad(
                    number,
                    "consist of records, each with a first line that begins with '>'",
                    "comes before the first such line",
                )
            parts.append(line)
            size += len(line)
            if size > LINE:
                raise wanted.bad(start, f"have records of at most {LINE} letters", "has more", "record")
    if start:
        yield wanted.row(start, "".join(parts))


def json_lines(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """A JSON object in each line: a prompt and its answer, or a text, with what is given of it."""
    for number, line in lines:
        if not line.strip():
            continue
        found = _object(line, number, wanted)
        if wanted.column is None:
            yield _written(found, number, wanted)
        elif wanted.column in found:
            yield wanted.row(number, found[wanted.column])
        else:
            raise _no_column(wanted.column, f"key on {wanted.place(number)}", list(found))


def comma(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """A column of a table whose cells are separated by commas (CSV)."""
    return _table(lines, wanted, ",")


def tab(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """A column of a table whose cells are separated by tabs (TSV)."""
    return _table(lines, wanted, "\t")


def parquet(wanted: Wanted) -> Iterator[Row]:
    """A column of a Parquet file, which has no lines: its rows are counted."""
    try:
        import pyarrow
        from pyarrow import parquet as library
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or use a .jsonl file.'
        ) from None
    check_file(wanted.file, "data")
    wanted, number, opener = replace(wanted, unit="row"), 0, _untyped(library.ParquetFile)
    try:
        with opener(wanted.file, buffer_size=_BUFFER, pre_buffer=False) as file:
            place = _column(wanted.column, list(file.schema_arrow.names), named(wanted.file))
            column = file.schema_arrow.names[place]
            for batch in file.iter_batches(batch_size=_BATCH, columns=[column]):
                for value in batch.column(0).to_pylist():
                    number += 1
                    yield wanted.row(number, value)
    except (_untyped(pyarrow).ArrowException, OSError):
        detail = f"but {named(wanted.file)} is not" + (f", after row {number}" if number else "")
        raise check.InputError("data", "be an intact Parquet file", detail=detail) from None


def _untyped(value: Any) -> Any:
    return value  # pyarrow has no types


def _object(text: str, line: int, wanted: Wanted) -> dict[str, Any]:
    must = "hold a JSON object in each line"
    try:
        found: Any = json.loads(text.rstrip("\r\n"))  # what is missing at the end is missing in this line
    except json.JSONDecodeError as error:
        found = list[Any]() if text.lstrip().startswith("[") else None
        if found is None:
            why = f"{error.msg[0].lower()}{error.msg[1:]} at character {error.colno}"
            raise wanted.bad(line, must, f"is not one: {why}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets without end
        raise wanted.bad(line, must, "is not one") from None
    if isinstance(found, list):
        remedy = "To split an array of objects into lines, run: jq -c '.[]' OLD.json > NEW.jsonl"
        raise wanted.bad(line, must, "begins an array").changed(remedy=remedy)
    if not isinstance(found, dict):
        raise wanted.bad(line, must, f"is {check.shown(found)}")
    return found  # pyright: ignore[reportUnknownVariableType] - its keys are texts, its values anything


def _written(found: dict[str, Any], line: int, wanted: Wanted) -> Row:
    """The row that an object describes; a value of null is none."""
    prompt, answer, text, given = map(found.get, ("prompt", "answer", "text", "given"))
    if prompt is None and answer is None and text is not None:
        return Row(wanted.file, line, None, None, wanted.text(line, "text", text), _given(given, line, wanted))
    if prompt is None or text is not None or given is not None:
        raise _neither(found, line, wanted)
    prompt = wanted.text(line, "prompt", prompt, empty=True)
    if answer is None:
        if not wanted.write:
            raise wanted.bad(line, "have an answer to each prompt", "has none")
        return Row(wanted.file, line, prompt)
    return Row(wanted.file, line, prompt, wanted.text(line, "answer", answer))


def _neither(found: dict[str, Any], line: int, wanted: Wanted) -> check.InputError:
    """The sentence for an object that describes no row."""
    must = "hold a prompt and its answer, or a text, in each line"
    has = [key for key in _KEYS if found.get(key) is not None]
    if has == ["answer"] or len(has) > 1:
        return wanted.bad(line, must, f"has {'only ' if len(has) == 1 else ''}{_together(has)}")
    if nulls := [key for key in _KEYS if key in found and not has]:
        return wanted.bad(line, must, f"has null for {_together(nulls)}")
    remedy = "Name the key of the text with {column}." if set(found) - set(_KEYS) else ""
    has_no_more = f"has only {_together(list(found))}" if found else "is an empty object"
    return wanted.bad(line, must, has_no_more).changed(remedy=remedy)


def _together(keys: Sequence[str]) -> str:
    *others, last = keys
    return f"{', '.join(others)} and {last}" if others else last


def _given(value: Any, line: int, wanted: Wanted) -> str | tuple[int, ...] | None:
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, list):
        places = cast(list[Any], value)
        if all(type(place) is int and place >= 0 for place in places):
            return tuple(places)
    must = "hold, in 'given', a list of positions or the text with '_' for each token to fill"
    raise wanted.bad(line, must, f"has {json.dumps(value)}")


def _table(lines: Numbered, wanted: Wanted, delimiter: str) -> Iterator[Row]:
    last = 0

    def counted() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            yield line

    reader = csv.reader(counted(), delimiter=delimiter, strict=True)
    names, place, start = list[str](), 0, 1
    while True:
        start = last + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise wanted.bad(start, "be a valid table", f"is not valid: {error}", "row that begins") from None
        if cells is None:
            return
        if not cells or (len(cells) == 1 and not cells[0].strip() and len(names) != 1):
            continue  # a blank line
        if not names:
            names = cells
            place = _column(wanted.column, names, named(wanted.file))
            continue
        if len(cells) != len(names):
            must = f"have {len(names)} cells in each line, like the first line"
            raise wanted.bad(start, must, f"has {len(cells)}")
        yield wanted.row(start, cells[place])


def _column(column: str | None, names: Sequence[str], where: str) -> int:
    """Where the column stands among those of a table."""
    if column is None:
        raise check.InputError("column", "be given", detail=f"since {where} has the columns {', '.join(names)}")
    if names.count(column) > 1:
        detail = f"but {where} has {check.shown(column)} more than once"
        raise check.InputError("column", "be the name of one column", detail=detail)
    if column not in names:
        raise _no_column(column, f"column of {where}", names)
    return names.index(column)


def _no_column(column: str, where: str, names: Sequence[str]) -> check.InputError:
    remedy = f"Choose from {', '.join(names)}." if names else "There is none."
    return check.InputError("column", f"be the name of a {where}", found=check.shown(column), remedy=remedy)
