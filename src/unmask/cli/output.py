"""The terminal, and bars of progress."""

import sys
import time
from typing import Any

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


def terminal(*, stderr: bool = False) -> Console:
    """Where people read: coloured on a terminal, plain elsewhere, and never failing on a letter it cannot show."""
    stream = sys.stderr if stderr else sys.stdout
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="replace")
    return _Quiet(stderr=stderr, highlight=False)


class _Quiet(Console):
    """A console that leaves it to the command what happens when its reader goes away; rich would end with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


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


def said(sentence: str) -> None:
    """A sentence that is no part of the answer: on stderr, so that it is seen and in nobody's way. Nothing if empty."""
    if sentence:
        terminal(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


def noted(sentence: str) -> None:
    """The same for a note."""
    said(sentence and f"Note: {sentence}")
