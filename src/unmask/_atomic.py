"""Files that appear complete or not at all, and files that one process at a time may work on.

What is being written stands in a folder of its own beside its place, `.unmask-…`, and is renamed when it is complete. A
process that is killed leaves that folder behind, and the next one to write there removes it. Whether somebody still
works in such a folder is asked of the file system: a file inside is locked (`flock`) for as long as its process lives.
Locks may not reach from one machine to another, so the name of the folder tells the machine: what another one left, or
this one before it was started again, is removed only if it is unlocked and has not changed for a week.
"""

import errno
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from unmask import _check as check

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

_LOCK = ".lock"  # in a folder: held by whoever works there
_WEEK = 7 * 24 * 3600.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """A temporary file; when the block ends well it is synced and takes the place of `path`.

    Otherwise it is removed, and whatever stood at `path` is as it was. A link is followed: the file it leads to is
    replaced, and the link stays. What is neither a file nor a folder, such as a pipe or a device, cannot be replaced:
    it is written into, when everything is ready.
    """
    given = Path(path)
    if _is_stream(given):
        with TemporaryDirectory(prefix="unmask-") as elsewhere:
            temporary = Path(elsewhere, given.name)
            temporary.touch()
            yield temporary
            mine = _opened(given)
            with temporary.open("rb") as ready, open(given if mine is None else os.dup(mine), "ab") as stream:
                shutil.copyfileobj(ready, stream)
        return
    target = Path(os.path.realpath(given))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(given))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(given))
    with workplace(target.parent) as folder:
        temporary = folder / target.name
        try:
            temporary.touch()
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # some libraries make files that only their owner may read
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            if error.filename == str(temporary):  # nobody has heard of that one
                error.filename, error.filename2 = str(given), None
            raise


def _is_stream(path: Path) -> bool:
    """Whether that is to be written into: it is no file or folder, or is one that this process has open already."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    # The standard output may have been sent to a file; one in its place would not hold what else is printed.
    return _opened(path) is not None or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _opened(path: Path) -> int | None:
    """The number of the open file that a path such as `/dev/stdout` stands for."""
    named = re.fullmatch(r"/dev/(?:(stdout)|(stderr)|fd/(\d+))|/proc/self/fd/(\d+)", os.path.abspath(path))
    return None if named is None else 1 if named[1] else 2 if named[2] else int(named[3] or named[4])


@contextmanager
def workplace(folder: str | os.PathLike[str]) -> Generator[Path]:
    """A temporary folder inside `folder`, which must exist; it is gone at the end, with all that is left in it.

    What killed processes left in `folder` is removed first.
    """
    place = Path(folder)
    sweep(place)
    mine, lock = _claimed(place)
    try:
        yield mine
    finally:
        os.close(lock)
        shutil.rmtree(mine, ignore_errors=True)


def _claimed(place: Path) -> tuple[Path, int]:
    """A new temporary folder, and the file in it that is open and locked."""
    while True:
        mine = place / f".unmask-{_machine()}-{uuid.uuid4().hex[:12]}"
        try:
            mine.mkdir(mode=0o700)
        except OSError as error:
            error.filename = str(place)
            raise
        try:
            lock = os.open(mine / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # someone swept it away in this very moment
        _flock(lock)
        if _still_there(mine / _LOCK, lock):
            return mine, lock
        os.close(lock)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary folders that killed processes left in `folder`."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if (name := re.fullmatch(r"\.unmask-([0-9a-f]{8})-[0-9a-f]{12}", entry.name)) is not None:
                _remove_if_left(Path(entry.path), ours=name[1] == _machine())


def _remove_if_left(place: Path, *, ours: bool) -> None:
    with suppress(OSError):  # it belongs to someone else, or is gone already
        if fcntl is None or (not ours and time.time() - place.stat().st_mtime < _WEEK):
            return
        try:
            lock = os.open(place / _LOCK, os.O_RDWR)
        except FileNotFoundError:
            place.rmdir()  # killed before it had begun
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
        finally:
            os.close(lock)


@cache
def _machine() -> str:
    """A short name of this machine since it was started; containers that share its kernel, and its locks, share it."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except (OSError, ValueError):
        started = f"{uuid.getnode()}"
    return sha256(started.encode()).hexdigest()[:8]


@contextmanager
def locked(path: str | os.PathLike[str], argument: str, doing: str, *, wait: bool = False) -> Generator[None]:
    """Hold `path` for this process alone, among those that ask for it in this way.

    The lock is a file beside `path`, which need not exist itself, or inside it if it is a folder. It is released when
    the process ends, however it ends. Where the system or its files know no locks, nothing is held.

    Arguments:
        path: What to hold: a file or a folder.
        argument: The argument that a sentence is about.
        doing: What others do to it meanwhile, as in "trained".
        wait: Whether to wait for others, in place of a sentence.

    Raises:
        InputError: if another process holds it.
    """
    given = Path(path)
    held = Path(os.path.realpath(given))  # whoever comes by a link holds the same
    beside = held / _LOCK if held.is_dir() else held.with_name(f".{held.name}.lock")
    lock = _acquired(beside, wait)
    if lock is None:
        raise check.InputError(
            argument,
            "not be in use",
            detail=f"but '{given}' is being {doing} by another process",
            remedy="Wait until that process ends, or choose a different path.",
        )
    try:
        yield
    finally:
        # Removed while it is held: whoever waits for it then finds that it is gone, and makes a new one.
        with suppress(OSError):
            beside.unlink()
        os.close(lock)


def _acquired(path: Path, wait: bool) -> int | None:
    """The file of a lock, open and locked; None if someone else has it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            free = _flock(lock, wait=wait)
        except BaseException:
            os.close(lock)
            raise
        if free and _still_there(path, lock):
            return lock
        os.close(lock)
        if not free:
            return None


def _flock(lock: int, *, wait: bool = True) -> bool:
    """Lock an open file, if there is such a thing here; whether nobody else has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _still_there(path: Path, lock: int) -> bool:
    """Whether the open file is the one at the path: it may have been removed before it was locked."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(lock))
    except FileNotFoundError:
        return False
