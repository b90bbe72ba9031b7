"""Files that results go to: refused before any work if they cannot be written, complete or not at all."""

import csv
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from unmask import _check as check
from unmask._atomic import replacing, workplace

Row = dict[str, Any]
_GROUP = 4096  # rows of a Parquet file at a time
_FILES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".csv", ".json", ".jsonl", ".txt")  # what nobody calls a folder


def check_place(option: str, path: Path | None, kinds: Sequence[str] = ()) -> None:
    """Refuse, before any work, a file that cannot be written, or whose ending is none of `kinds`, if there are any."""
    if path is None:
        return
    if path.is_dir():
        raise check.InputError(option, "be a file", found=f"the folder '{path}'")
    if path.exists() and not path.is_file():  # a device or a pipe, which is written to as it is
        if not os.access(path, os.W_OK):
            raise check.InputError(option, "be writable", detail=f"but '{path}' is not")
    elif not path.parent.is_dir():
        raise check.InputError(option, "be in a folder that exists", detail=f"but '{path.parent}' does not")
    elif not os.access(Path(os.path.realpath(path)).parent, os.W_OK):
        raise check.InputError(option, "be in a writable folder", detail=f"but '{path.parent}' is not writable")
    if kinds and path.suffix not in kinds:
        *others, last = kinds
        raise check.InputError(option, f"end in {', '.join(others)} or {last}", found=check.shown(str(path.name)))


def unwritable(folder: Path, error: OSError) -> check.InputError:
    """What is said of a folder that cannot be made or written to."""
    reason = (error.strerror or "it failed").lower()
    if isinstance(error, NotADirectoryError):
        reason = "part of its path is a file"
    return check.InputError("output", "be a writable folder", found=f"'{folder}' ({reason})")


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A temporary folder inside `folder`, whose files move into it together when the block ends well.

    Otherwise nothing remains: neither the files nor folders that did not exist before.

    Raises:
        ValueError: if `folder` is something else, would be new and has the name of a file, or cannot be made or
            written to. This comes before any work.
    """
    if folder.suffix.lower() in _FILES and not folder.exists():
        raise check.InputError("output", "be a folder", found=f"the file name '{folder}'")
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.listdir(folder)
    except FileExistsError:
        raise check.InputError("output", "be a folder", found=f"the file '{folder}'") from None
    except OSError as error:
        raise unwritable(folder, error) from None
    complete = False
    try:
        with workplace(folder) as stage:
            yield stage
            for file in sorted(stage.iterdir()):
                if not file.name.startswith("."):
                    os.replace(file, folder / file.name)
        complete = True
    finally:
        for place in [] if complete else missing:
            place.rmdir()


def check_rows(path: Path | None, kinds: Sequence[str]) -> None:
    """Refuse, before any work, a file that cannot be written, or whose name does not say which kind it is.

    Arguments:
        path: The file, or None.
        kinds: Endings to choose from.
    """
    if path is None:
        return
    check_place("output", path, kinds)
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or use a .jsonl file.'
        )


def write_rows(rows: Iterable[Row], path: Path, texts: Sequence[str] = ()) -> None:
    """Write rows of the same columns, in the way the file's ending says, in memory for some of them.

    Arguments:
        rows: The rows.
        path: The file.
        texts: Columns that hold text even where the first rows have none.
    """
    with replacing(path) as temporary:
        _WRITERS[path.suffix](rows, temporary, texts)


def _jsonl(rows: Iterable[Row], path: Path, texts: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _parquet(rows: Iterable[Row], path: Path, texts: Sequence[str]) -> None:
    arrow: Any = import_module("pyarrow")  # it has no types
    parquet: Any = import_module("pyarrow.parquet")
    rest = iter(rows)
    first = arrow.Table.from_pylist(list(islice(rest, _GROUP)))
    schema = first.schema
    for name in texts:
        schema = schema.set(schema.get_field_index(name), arrow.field(name, arrow.string()))
    with parquet.ParquetWriter(path, schema) as file:
        file.write_table(first.cast(schema))
        while group := list(islice(rest, _GROUP)):
            file.write_table(arrow.Table.from_pylist(group, schema=schema))


def _csv(rows: Iterable[Row], path: Path, texts: Sequence[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table, begun = csv.writer(file), False
        for row in rows:
            if not begun:
                table.writerow(row)
            table.writerow(row.values())
            begun = True


_WRITERS: dict[str, Callable[[Iterable[Row], Path, Sequence[str]], None]] = {
    ".jsonl": _jsonl,
    ".parquet": _parquet,
    ".csv": _csv,
}
