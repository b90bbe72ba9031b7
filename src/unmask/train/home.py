"""The folder of a run: a checkpoint, a log, and a lock that keeps other processes out during training.

A checkpoint holds all that the rest of a run depends on, the sum of losses since the last line of the log among it. So
a run that was killed and resumed ends, on a CPU, with the weights of an uninterrupted one bit for bit and with the
lines of its log, but for the seconds. Process 0 writes; the others read the checkpoint.
"""

import pickle
import re
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from unmask import _check as check
from unmask._atomic import locked, replacing
from unmask._memory import exhausted
from unmask._torch import Tensor, torch
from unmask.models import CHECKPOINT
from unmask.models.shape import Network

LOG = "log.csv"
_FORMAT = "unmask-checkpoint-2"
_COLUMNS = ("step", "loss", "rate", "seconds")  # of the log; seconds since the command was given


@final
@dataclass
class Progress:
    """Where a run stands: what `train` returns and what its callback sees.

    Attributes:
        step: Updates done.
        loss: Mean loss in nats per token, of the updates since the last line of the log.
        rate: Learning rate of the last update.
        seconds: Time since training began, or went on.
    """

    step: int
    loss: float
    rate: float
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class Snapshot:
    """What an update changes, and a checkpoint keeps.

    Attributes:
        model: The model that is trained.
        average: The moving average of its weights.
        optimisers: Its optimisers.
        total: The sum of losses since the last line of the log, a scalar.
    """

    model: Network
    average: Network
    optimisers: Sequence[torch.optim.Optimizer]
    total: Tensor


@final
@dataclass(frozen=True, eq=False)
class Home:
    """The folder of a run; process 0 writes it, all read it.

    Attributes:
        folder: The folder; None if nothing is kept.
        identity: What makes the run this one and no other.
        rank: The number of this process.
    """

    folder: Path | None
    identity: dict[str, Any]
    rank: int

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other runs out of the folder, which is made if it does not exist.

        Raises:
            InputError: if it is no folder, or another process trains there.
        """
        if self.folder is None:
            yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise check.InputError("folder", "be a folder", found=f"the file '{self.folder}'") from None
        if self.rank:
            yield
            return
        with locked(self.folder, "folder", "trained"):
            yield

    def restore(self, state: Snapshot) -> tuple[int, int]:
        """Bring the state to where the checkpoint is, if there is one.

        Returns:
            The updates done, and those done at the last line of the log.

        Raises:
            InputError: if the checkpoint cannot be read, is damaged, or is that of another run or version.
        """
        if self.folder is None:
            return 0, 0
        path = self.folder / CHECKPOINT
        if not path.exists():
            self._cut_log(0)
            return 0, 0
        device = state.total.device
        saved = _loaded(path, device)
        if saved["identity"] != self.identity:
            raise check.InputError(
                "folder",
                "be empty or hold the same run",
                detail=f"but '{self.folder}' holds another run",
                remedy=f"Delete its {CHECKPOINT}, or choose another folder.",
            )
        try:
            state.model.load_state_dict(saved["model"])
            state.average.load_state_dict(saved["average"])
            for optimiser, kept in zip(state.optimisers, saved["optimisers"], strict=True):
                optimiser.load_state_dict(kept)
            state.total.copy_(saved["total"])
            step, logged = int(saved["step"]), int(saved["logged"])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            if exhausted(error):
                raise
            raise _foreign(path) from None
        self._cut_log(step)
        return step, logged

    def checkpoint(self, step: int, logged: int, state: Snapshot) -> None:
        """Keep the state after `step` updates."""
        if self.folder is None or self.rank:
            return
        kept = {
            "format": _FORMAT,
            "identity": self.identity,
            "step": step,
            "logged": logged,
            "total": state.total,
            "model": state.model.state_dict(),
            "average": state.average.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in state.optimisers],
        }
        with replacing(self.folder / CHECKPOINT) as temporary, temporary.open("wb") as file:
            torch.save(kept, file)

    def log(self, progress: Progress) -> None:
        """Add a line to the log."""
        if self.folder is None or self.rank:
            return
        path = self.folder / LOG
        head = "" if path.exists() else ",".join(_COLUMNS) + "\n"
        line = f"{progress.step},{progress.loss:.6f},{progress.rate:.3e},{progress.seconds:.1f}\n"
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(head + line)

    def _cut_log(self, step: int) -> None:
        """Drop what was logged after the checkpoint, which will be logged again, and a line cut short by a kill."""
        if self.folder is None or self.rank or not (self.folder / LOG).exists():
            return
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if re.fullmatch(r"\d+(,[^,]+){3}\n", line) and int(line.split(",")[0]) <= step]
        with replacing(path) as temporary:
            temporary.write_text("".join([",".join(_COLUMNS) + "\n", *kept]), encoding="utf-8")


def _loaded(path: Path, device: torch.device) -> dict[str, Any]:
    """What a checkpoint holds.

    Raises:
        InputError: if it cannot be read, which is no reason to remove it; or is another's; or is damaged.
    """
    try:
        saved: Any = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # a damaged file can end in anything
        if exhausted(error):
            raise
        _read_through(path)
        if isinstance(error, pickle.UnpicklingError) and _is_intact(path):
            raise _foreign(path) from None
        raise check.InputError(
            "", f"The checkpoint '{path}' is damaged", remedy="Delete it to start the run again."
        ) from None
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT or "identity" not in saved:  # pyright: ignore[reportUnknownMemberType]
        raise _foreign(path)
    return saved  # pyright: ignore[reportUnknownVariableType]


def _read_through(path: Path) -> None:
    """Make sure that all of a file can be read."""
    try:
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        raise check.InputError(
            "",
            f"The checkpoint '{path}' cannot be read: {reason}",
            remedy="The file may be intact. Make it readable, and run the same command again to continue.",
        ) from None


def _is_intact(path: Path) -> bool:
    """Whether an archive is as it was written, by its own sums."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _foreign(path: Path) -> check.InputError:
    return check.InputError(
        "",
        f"The checkpoint '{path}' was not written by this version of unmask",
        remedy="Continue with the version that wrote it, or choose another folder.",
    )
