"""Rows that are finished of a file that is not: what a process that is killed does not lose.

Beside the file that is to be written stands another one, `.NAME.part`. Its first line says what is being done: of which
model, data, schedule and seed. Every other line is a finished row, written as soon as it is known. The same command
goes on from there, after any end; another one is refused. A line that broke off counts for nothing.
"""

import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, final

from unmask import _check as check
from unmask._atomic import locked


@final
class Unfinished:
    """The finished rows of a file.

    Attributes:
        path: Where they are.
        done: How many.
    """

    def __init__(self, path: Path, done: int):
        self.path, self.done = path, done

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
        if target.exists() and not target.is_file():
            target = Path(stack.enter_context(TemporaryDirectory(prefix="unmask-"))) / "rows"
        else:
            stack.enter_context(locked(output, "output", "written"))
        part = target.with_name(f".{target.name}.part")
        mine = json.loads(json.dumps(task))
        done = _finished(part, mine)
        if done is None:
            part.write_bytes((json.dumps(mine) + "\n").encode())
        yield Unfinished(part, done or 0)


def _finished(part: Path, task: dict[str, Any]) -> int | None:
    """How many rows there are of that task, now without what broke off; None if there is no file to go on with."""
    try:
        with part.open("rb+") as file:
            head = file.readline()
            if not head.endswith(b"\n"):
                return None  # killed before anything was done
            _check_task(head, task, part)
            done, end = 0, file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                done, end = done + 1, end + len(line)
            file.truncate(end)
            return done
    except FileNotFoundError:
        return None


def _check_task(head: bytes, task: dict[str, Any], part: Path) -> None:
    found: object = None
    with suppress(ValueError):
        found = json.loads(head)
    if found == task:
        return
    theirs = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    differing = [name for name, value in task.items() if theirs.get(name) != value]
    what = f"with another {differing[0]}" if theirs else "of another command"
    raise check.InputError(
        "output",
        "be free",
        detail=f"but '{part}' holds rows that were finished {what}",
        remedy="Give that command again to finish it, remove that file, or choose another {output}.",
    )
