"""Rows of data from files of any size, a row at a time.

    .jsonl .json .ndjson       {"prompt": …, "answer": …} or {"text": …} in each line
    .fasta .fa .faa .fna       records
    .csv .tsv .parquet         a column of a table
    .txt and anything else     one sequence in each line

`.gz` and `.xz` may follow. Standard input, `-`, and pipes have no ending: `{` begins JSON lines, `>` FASTA; otherwise
they are a table if a column is asked for, and lines if not.
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath

from unmask import _check as check
from unmask.data import formats
from unmask.data.streams import lines, named, opened

_FORMATS: dict[str, formats.Format] = {
    **dict.fromkeys((".jsonl", ".json", ".ndjson"), formats.json_lines),
    **dict.fromkeys((".fasta", ".fa", ".faa", ".fna"), formats.fasta),
    ".csv": formats.comma,
    ".tsv": formats.tab,
}
_PACKED = (".gz", ".xz")


def rows(path: str | os.PathLike[str], *, column: str | None = None, write: bool = False) -> Iterator[formats.Row]:
    """The rows of a file, one at a time; the file is opened, and its first row read, at once.

    Blank lines are skipped. Whatever else is no row is refused when it is reached: rows before it have then been given.

    Arguments:
        path: The file; "-" for standard input.
        column: The column that holds the texts, which a table needs; in JSON lines the key, in place of "prompt",
            "answer" and "text".
        write: Whether answers are to be written: a prompt then needs none, and a line, a record or a cell is a prompt.

    Raises:
        InputError: if the file cannot be read, has no rows, or a row is not what it should be. The sentence names its
            line.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write('{"prompt": "2 + 2 =", "answer": " 4"}\\n')
        ...     file.flush()
        ...     found = list(rows(file.name))
        >>> found[0].prompt, found[0].answer, found[0].line
        ('2 + 2 =', ' 4', 1)
    """
    name = check.path("data", path)
    if column is not None:
        check.instance("column", column, str, "be the name of a column")
    wanted = formats.Wanted(name, column, bool(write))
    found = _rows(wanted)
    first = next(found, None)
    if first is None:
        raise check.InputError("data", "hold at least one row", detail=f"but {named(name)} holds none")
    return chain((first,), found)


def _rows(wanted: formats.Wanted) -> Iterator[formats.Row]:
    bare = PurePath(wanted.file)
    packed = bare.suffix.lower() in _PACKED
    ending = (bare.with_suffix("") if packed else bare).suffix.lower()
    if ending == ".parquet":
        if packed:
            remedy = "Parquet files are already compressed inside: decompress the file first."
            raise check.InputError("data", "be a Parquet file", found=named(wanted.file), remedy=remedy)
        yield from formats.parquet(wanted)
        return
    with opened(wanted.file) as source:
        numbered = lines(source)
        reader = _FORMATS.get(ending)
        if reader is None and (source.regular or ending == ".txt"):
            reader = formats.plain
        if reader is None:
            first = next((each for each in numbered if each[1].strip()), None)
            if first is None:
                return
            reader, numbered = _seen(first[1], wanted), chain((first,), numbered)
        yield from reader(numbered, wanted)


def _seen(first: str, wanted: formats.Wanted) -> formats.Format:
    """The format of what has no name, by its first line."""
    if first.lstrip().startswith("{"):
        return formats.json_lines
    if first.startswith(">"):
        return formats.fasta
    if wanted.column is None:
        return formats.plain
    return formats.tab if "\t" in first else formats.comma
