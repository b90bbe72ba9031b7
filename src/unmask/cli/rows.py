"""Rows in files: JSON lines, Parquet or CSV, complete or not at all."""

import csv
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unmask._atomic import replacing
from unmask.cli.output import check_place

Row = dict[str, Any]


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
            'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or take a .jsonl file.'
        )


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows of the same columns, in the way the file's ending says."""
    with replacing(path) as temporary:
        _WRITERS[path.suffix](rows, temporary)


def _jsonl(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _parquet(rows: Sequence[Row], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)


def _csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(rows[0])
        table.writerows(row.values() for row in rows)


_WRITERS: dict[str, Callable[[Sequence[Row], Path], None]] = {".jsonl": _jsonl, ".parquet": _parquet, ".csv": _csv}
