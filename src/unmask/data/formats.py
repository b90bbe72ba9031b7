"""What lines say: JSON objects, plain sequences, FASTA records, cells of a table.

Each format is a function from lines to rows. What is wrong with a row is one sentence that names its line; extra keys
and columns are nobody's mistake, and blank lines are no rows.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from unmask import _check as check
from unmask._files import check_file
from unmask.data.streams import LINE, named

Numbered = Iterator[tuple[int, str]]
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
    """

    file: str
    column: str | None
    write: bool

    def row(self, line: int, value: object, unit: str = "line") -> Row:
        """A row of one sequence."""
        text = _text("text", value, f"{unit} {line} of {named(self.file)}")
        if self.write:
            return Row(self.file, line, prompt=text, unit=unit)
        return Row(self.file, line, text=text, unit=unit)

    def place(self, line: int) -> str:
        """A line, for a sentence."""
        return f"line {line} of {named(self.file)}"

    def no_column(self) -> None:
        """Refuse a column for what has none."""
        if self.column is not None:
            detail = f"for {named(self.file)} has no columns"
            raise check.InputError("column", "be left out", detail=detail)


Format = Callable[[Numbered, Wanted], Iterator[Row]]


def plain(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """One sequence in each line."""
    wanted.no_column()
    for number, line in lines:
        if not line.isspace():
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
                raise _bad("begin with a line that begins with '>'", wanted.place(number), "comes before the first one")
            parts.append(line)
            size += len(line)
            if size > LINE:
                raise _bad(f"have records of at most {LINE} letters", f"the one at {wanted.place(start)}", "has more")
    if start:
        yield wanted.row(start, "".join(parts))


def json_lines(lines: Numbered, wanted: Wanted) -> Iterator[Row]:
    """A JSON object in each line: a prompt and its answer, or a text, with what is given of it."""
    for number, line in lines:
        if line.isspace():
            continue
        found = _object(line, wanted.place(number))
        if wanted.column is None:
            yield _written(found, number, wanted)
        elif wanted.column in found:
            yield wanted.row(number, found[wanted.column])
        else:
            raise _no_column(wanted.column, wanted.place(number), list(found))


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
            'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or take a .jsonl file.'
        ) from None
    check_file(wanted.file, "data")
    number, opener = 0, _untyped(library.ParquetFile)
    try:
        with opener(wanted.file, buffer_size=_BUFFER, pre_buffer=False) as file:
            place = _column(wanted.column, list(file.schema_arrow.names), named(wanted.file))
            column = file.schema_arrow.names[place]
            for batch in file.iter_batches(batch_size=_BATCH, columns=[column]):
                for value in batch.column(0).to_pylist():
                    number += 1
                    yield wanted.row(number, value, "row")
    except (_untyped(pyarrow).ArrowException, OSError):
        detail = f"which {named(wanted.file)} is not" + (f", after row {number}" if number else "")
        raise check.InputError("data", "be an intact Parquet file", detail=detail) from None


def _untyped(value: Any) -> Any:
    return value  # pyarrow has no types


def _object(line: str, where: str) -> dict[str, Any]:
    must = "hold a JSON object in each line"
    try:
        found: Any = json.loads(line)
    except json.JSONDecodeError as error:
        if line.lstrip().startswith("["):
            raise _array(must, where) from None
        why = f"{error.msg[0].lower()}{error.msg[1:]} at character {error.colno}"
        raise _bad(must, where, f"is none: {why}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets without end
        raise _bad(must, where, "is none") from None
    if isinstance(found, list):
        raise _array(must, where)
    if not isinstance(found, dict):
        raise _bad(must, where, f"is {check.shown(found)}")
    return found  # pyright: ignore[reportUnknownVariableType] - its keys are texts, its values anything


def _array(must: str, where: str) -> check.InputError:
    remedy = "An array of objects is taken apart by: jq -c '.[]' OLD.json > NEW.jsonl"
    return _bad(must, where, "begins an array").changed(remedy=remedy)


def _written(found: dict[str, Any], line: int, wanted: Wanted) -> Row:
    """The row that an object describes; a value of null is none."""
    where = wanted.place(line)
    prompt, answer, text, given = (found.get(key) for key in ("prompt", "answer", "text", "given"))
    must = "hold a prompt and its answer, or a text, in each line"
    if text is not None:
        if prompt is not None or answer is not None:
            raise _bad(must, where, f"has a text and {'a prompt' if prompt is not None else 'an answer'}")
        return Row(wanted.file, line, text=_text("text", text, where), given=_given(given, where))
    if prompt is None:
        keys = ", ".join(map(str, found))
        remedy = "Name the key of the text by {column}." if found and answer is None else ""
        why = "has an answer alone" if answer is not None else f"has only {keys}" if keys else "has nothing"
        raise _bad(must, where, why).changed(remedy=remedy)
    if given is not None:
        raise _bad(must, where, "has a prompt and 'given', which goes with a text")
    prompt = _text("prompt", prompt, where, empty=True)
    if answer is None:
        if not wanted.write:
            raise _bad("have an answer to each prompt", where, "has none")
        return Row(wanted.file, line, prompt=prompt)
    return Row(wanted.file, line, prompt=prompt, answer=_text("answer", answer, where))


def _given(value: Any, where: str) -> str | tuple[int, ...] | None:
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, list):
        places = cast(list[Any], value)
        if all(type(place) is int and place >= 0 for place in places):
            return tuple(places)
    must = "say what is given by positions, or by the text with '_' for what is to be filled"
    raise _bad(must, where, f"says {json.dumps(value)}")


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
            raise _bad("be a table", wanted.place(start), f"begins no row of one: {error}") from None
        if cells is None:
            return
        if not cells or (len(cells) == 1 and not cells[0].strip() and len(names) != 1):
            continue  # a blank line
        if not names:
            names = cells
            place = _column(wanted.column, names, named(wanted.file))
            continue
        if len(cells) != len(names):
            must = f"have {len(names)} cells in each line, as the first one has"
            raise _bad(must, wanted.place(start), f"has {len(cells)}")
        yield wanted.row(start, cells[place])


def _column(column: str | None, names: Sequence[str], where: str) -> int:
    """Where the column stands among those of a table."""
    if column is None:
        raise check.InputError("column", "be given", detail=f"for {where} has the columns {', '.join(names)}")
    if names.count(column) > 1:
        raise check.InputError("column", "name one column", detail=f"and {where} has {check.shown(column)} twice")
    if column not in names:
        raise _no_column(column, where, names)
    return names.index(column)


def _no_column(column: str, where: str, names: Iterable[str]) -> check.InputError:
    found, detail = check.shown(column), f"and {where} has {', '.join(names) or 'none'}"
    return check.InputError("column", "name a column", found=found, detail=detail)


def _text(part: str, value: object, where: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        shown = "missing" if value is None else check.shown(value)
        raise _bad("hold text in each row", f"the {part} in {where}", f"is {shown}")
    if not value and not empty:
        raise _bad("have something in each row", f"the {part} in {where}", "is empty")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can write them
            raise _bad("be made of whole characters", f"the {part} in {where}", "has half of one") from None
    return value


def _bad(must: str, where: str, why: str) -> check.InputError:
    return check.InputError("data", must, detail=f"but {where} {why}")
