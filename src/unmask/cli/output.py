"""How results leave the program: the terminal, bars of progress, and files that appear all at once or not at all."""

import csv
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from unmask import _check as check
from unmask._atomic import replacing

Row = dict[str, Any]
_BLOCKS = " ▁▂▃▄▅▆▇█"


def terminal(*, stderr: bool = False) -> Console:
    """Where people read: coloured on a terminal, plain elsewhere, and never failing on a letter it cannot show."""
    stream = sys.stderr if stderr else sys.stdout
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="replace")
    return Console(stderr=stderr, highlight=False)


class _Steady(Progress):
    """A progress bar that becomes a line of text now and then where there is no terminal, as in a log."""

    _EVERY = 30.0  # seconds; short work stays silent

    def __init__(self, *columns: ProgressColumn, console: Console):
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._said = time.monotonic()

    def update(self, task_id: TaskID, **fields: Any) -> None:
        super().update(task_id, **fields)
        self._say(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._say(task_id)

    def _say(self, task_id: TaskID) -> None:
        if self.disable and not self.console.is_terminal and time.monotonic() - self._said > self._EVERY:
            self._said = time.monotonic()
            task = self._tasks[task_id]
            self.console.print(f"{task.description}: {task.percentage:.0f} %", markup=False, soft_wrap=True)


def progress() -> Progress:
    """A progress bar on stderr, gone when it is done; where there is no terminal, a line every half minute."""
    console = terminal(stderr=True)
    return _Steady(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=console,
    )


def picture(values: NDArray[np.float64], *, width: int = 60, height: int = 6) -> list[str]:
    """A bar chart in block characters, one line of text per row, with the scale at its left.

    More values than columns are averaged. Values that differ by more than a factor of twenty are drawn on a
    logarithmic scale, whose bottom is half the smallest, and the last line says so.
    """
    columns = min(len(values), width)
    edges = np.arange(columns + 1) * len(values) // columns
    means = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    logarithmic = means.min() > 0 and means.max() > 20 * means.min()
    top, bottom = (means.max(), means.min() / 2) if logarithmic else (means.max(), 0.0)
    share = np.log(means / bottom) / np.log(top / bottom) if logarithmic else means / top
    eighths = np.maximum(np.rint(share * height * 8).astype(int), 1)
    each = width // columns
    labels = {0: f"{top:.3g}", height - 1: f"{bottom:.3g}"}
    margin = max(len(label) for label in labels.values())
    lines = []
    for row in range(height):
        filled = np.clip(eighths - 8 * (height - 1 - row), 0, 8)
        bars = "".join(_BLOCKS[level] * each for level in filled)
        lines.append(f"{labels.get(row, ''):>{margin}} ┤{bars}".rstrip())
    first, last = "step 1", f"step {len(values)}"
    gap = max(each * columns - len(first) - len(last), 1)
    lines.append(" " * (margin + 2) + first + " " * gap + last)
    what = "mean size of each step" if columns == len(values) else "mean size, averaged over the steps of a column"
    lines.append(" " * (margin + 2) + what + (", logarithmic scale" if logarithmic else ""))
    return lines


def check_place(option: str, path: Path | None, kinds: Sequence[str] = ()) -> None:
    """Refuse, before any work, a file that cannot be written, or whose ending is none of `kinds`, if there are any."""
    if path is None:
        return
    if path.is_dir():
        raise check.InputError(option, "be a file", found=f"the folder '{path}'")
    if not path.parent.is_dir():
        raise check.InputError(option, "be in a folder that exists", detail=f"which '{path.parent}' does not")
    if not os.access(path.parent, os.W_OK):
        raise check.InputError(option, "be in a folder to write to", detail=f"which '{path.parent}' is not")
    if kinds and path.suffix not in kinds:
        *others, last = kinds
        raise check.InputError(option, f"end in {', '.join(others)} or {last}", found=check.shown(str(path.name)))


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A temporary folder inside `folder`, whose files move into it together when the block ends well.

    Otherwise nothing remains: neither the files nor folders that did not exist before.

    Raises:
        ValueError: if `folder` is something else or cannot be made or written to. This comes before any work.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = tempfile.TemporaryDirectory(prefix=".unmask-", dir=folder)
    except FileExistsError:
        raise check.InputError("output", "be a folder", found=f"the file '{folder}'") from None
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError("output", "be a folder to write to", found=f"'{folder}': {reason}") from None
    complete = False
    try:
        with stage as name:
            yield Path(name)
            for file in sorted(Path(name).iterdir()):
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
