"""Rows that are finished of a file that is not: what a process that is killed does not lose.

Beside the file that is to be written stands another one, `.NAME.part`. Its first line says what is being done: of which
model, data, schedule and seed, by which version of this library. Every other line is a finished row, written as soon as
it is known. The same command goes on from there, after any end; another one is refused. A line that broke off counts
for nothing, and a file without a row is nobody's.
"""

import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, final

from unmask import __version__
from unmask import _check as check
from unmask._atomic import locked

_OPTIONS = {"allow": "{allow}", "reference": "choice of {no-reference}"}  # parts of a task that no other word says


@final
class Unfinished:
    """The finished rows of a file.

    Attributes:
        path: Where they are.
        done: How many.
    """

    def __init__(self, path: Path, done: int, *, temporary: bool = False):
        self.path, self.done, self._temporary = path, done, temporary

    @property
    def outlasts(self) -> bool:
        """Whether there will be something to go on with if the process ends now."""
        return self.done > 0 and not self._temporary

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, one at a time."""
        with self.path.open("rb") as file:
            next(file)  # what is being done
            for line in file:
                yield json.loads(line)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep more of them: when this returns, they are on the disk."""
        lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
        with self.path.open("ab") as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
        self.done += len(lines)

    def remove(self) -> None:
        """Forget them: the file that they are for is complete."""
        self.path.unlink()


@contextmanager
def unfinished(output: Path, task: Mapping[str, Any]) -> Generator[Unfinished]:
    """The finished rows of a file, which no other process may write meanwhile.

    Arguments:
        output: The file. Of what is no file, such as a pipe, nothing outlasts the process.
        task: What is being done, as plain values: the rows of anything else are of no use.

    Raises:
        InputError: if there are rows of another task, or another process is at work.
    """
    target = Path(os.path.realpath(output))
    with ExitStack() as stack:
        temporary = target.exists() and not target.is_file()
        if temporary:
            target = Path(stack.enter_context(TemporaryDirectory(prefix="unmask-"))) / "rows"
        else:
            stack.enter_context(locked(output, "output", "written"))
        part = target.with_name(f".{target.name}.part")
        mine = json.loads(json.dumps({**task, "version": __version__}))
        done = _finished(part, mine)
        if done is None:
            part.write_bytes((json.dumps(mine) + "\n").encode())
        kept = Unfinished(part, done or 0, temporary=temporary)
        try:
            yield kept
        finally:
            if not kept.done:  # there is nothing to go on with
                part.unlink(missing_ok=True)


def _finished(part: Path, task: dict[str, Any]) -> int | None:
    """How many rows there are of that task, now without what broke off; None if there is no file to go on with."""
    try:
        with part.open("rb+") as file:
            head = file.readline()
            if not head.endswith(b"\n"):
                return None  # killed before anything was done
            done, end = 0, file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                done, end = done + 1, end + len(line)
            theirs = _task_in(head)
            if theirs and not done:
                return None  # whatever it was to be, nothing of it is lost
            _check_task(theirs, task, part)
            file.truncate(end)
            return done
    except FileNotFoundError:
        return None


def _task_in(head: bytes) -> dict[str, Any]:
    """What the first line says is being done; nothing if it is no such line."""
    with suppress(ValueError):
        found: object = json.loads(head)
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return {}


def _check_task(theirs: dict[str, Any], task: dict[str, Any], part: Path) -> None:
    if theirs == task:
        return
    differing = [name for name in {**task, "allow": None} if theirs.get(name) != task.get(name)]
    what = f"with another {_OPTIONS.get(differing[0], differing[0])}" if theirs and differing else "by another command"
    raise check.InputError(
        "output",
        "not belong to another run",
        detail=f"but '{part}' holds rows that were finished {what}",
        remedy="Run the earlier command again to finish it, delete this file, or choose another {output}.",
    )
