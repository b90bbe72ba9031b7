"""Who may use the GPU: several processes, one at a time.

A process begins without a turn, to compile, and asks for one after some updates. It gives the turn back when it is
done. A file is locked meanwhile, which the system unlocks for a process that dies.
"""

import fcntl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, final

_LOOK = 0.1  # seconds between two looks at the file


@final
@dataclass(eq=False)
class Over:
    """Asked after every update whether to stop: it waits for the turn when that is due.

    Attributes:
        turns: Whose turns they are.
        after: Updates before a turn is needed.
        most: Seconds that a turn may last.
        begun: When the turn began; None before.
    """

    turns: "Turns"
    after: int
    most: float
    begun: float | None = None
    _asked: int = 0
    _file: IO[bytes] | None = None

    def __call__(self) -> bool:
        self._asked += 1
        if self._asked < self.after:
            return self.turns.late
        if self.begun is None:
            if not self._taken():
                return True
            self.begun = time.monotonic()
        return self.turns.late or time.monotonic() - self.begun > self.most

    def _taken(self) -> bool:
        """Wait for the file to be free; False if that takes too long."""
        if self.turns.path is None:
            return not self.turns.late
        self._file = self.turns.path.open("ab")
        while not self.turns.late:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(_LOOK)
        return False

    def close(self) -> None:
        """Give the turn back."""
        if self._file is not None:
            self._file.close()


@final
@dataclass(frozen=True)
class Turns:
    """Turns of processes that share a GPU.

    Attributes:
        path: The file that is locked; None for a process that is alone.
        until: When all must be over, in seconds as `time.time` counts them; None for never.
    """

    path: Path | None = None
    until: float | None = None

    @property
    def late(self) -> bool:
        return self.until is not None and time.time() > self.until

    @contextmanager
    def turn(self, after: int, most: float = float("inf")) -> Generator[Over]:
        """A turn that is asked for after so many updates, and lasts so many seconds at most."""
        over = Over(self, after, most)
        try:
            yield over
        finally:
            over.close()


ALONE = Turns()
