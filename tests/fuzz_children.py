"""Command lines in children of one process that has everything imported, with limits on time, memory and rights."""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz_files
import fuzz_values
import fuzz_words
from fuzz_line import Line
from unmask._memory import machine_memory

GIGABYTE = 2**30
ROOM = 4 * GIGABYTE  # for what a command line needs beyond what is imported already
PATIENCE = 30  # seconds
NOBODY = 65534
PLACES = ("work", "home", "tmp")  # of a child: where it runs, and what it takes for the user's own folder


@dataclass
class Outcome:
    """How a command line ended."""

    line: Line
    mode: str
    code: int
    out: bytes
    err: str
    stuck: str
    seconds: float
    memory: int
    changed: list[str]


class Fuzzer:
    """Runs command lines in forked children.

    Arguments:
        folder: Where the files are, and where the children run.

    Attributes:
        files: The files that lines name.
        grammar: What lines are made of.
        guarded: Whether children are nobody who could do harm.
    """

    def __init__(self, folder: Path):
        import numpy  # noqa: F401 - whose place must be readable too

        from unmask.cli import main

        self.folder, self.main = folder, main
        self.started = 0
        folder.chmod(0o755)
        self.guarded = os.geteuid() != 0 or _can_give_up_rights(folder)
        self.size, self.resident = _pages()
        store = folder / "files"
        store.mkdir()
        self.files = fuzz_files.make(store, self._prepare)
        self.grammar = fuzz_words.Grammar(main, self.files, guarded=self.guarded)

    def warm(self) -> None:
        """Run some good lines here, so that what is loaded and compiled on first use is there for every child."""
        with contextlib.suppress(ImportError):
            import torch

            importlib.import_module("torch._dynamo")
            torch.set_num_threads(1)
        place = self.folder / "warm"
        shutil.copytree(self.files.folder, place, symlinks=True)
        with _inside(place):
            for name in self.grammar.commands:
                for number in range(0 if name in ("train", "explore", *fuzz_words.HEAVY) else 25):
                    sys.argv = ["unmask", *self.grammar.good(0, number, name).words]
                    with _silence(), contextlib.suppress(BaseException):
                        self.main()
        gc.collect()
        gc.freeze()
        self.size, self.resident = _pages()

    def start(self, line: Line, mode: str, patience: int = PATIENCE) -> tuple[int, Path]:
        """Fork a child for a line; its number, and the folder in which it leaves what it said."""
        self.started += 1
        place = self.folder / f"run-{self.started}"
        for name in PLACES:
            (place / name).mkdir(parents=True)
            if self.guarded and os.geteuid() == 0:
                os.chown(place / name, NOBODY, NOBODY)
        child = os.fork()
        if child:
            return child, place
        try:
            self._child(line, mode, place, patience)
        except BaseException:  # of the fuzzer, not of the command
            os.write(2, f"FUZZER {traceback.format_exc()}".encode())
        os._exit(99)

    def end(self, line: Line, mode: str, place: Path, status: int, usage: Any, seconds: float) -> Outcome:
        """What a child left."""
        before = json.loads((place / "before").read_text() or "{}")
        after = _listing(place)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        with (place / "out").open("rb") as file:
            out = file.read(64 * 2**20)
        err = (place / "err").read_text(encoding="utf-8", errors="replace")
        stuck = (place / "stuck").read_text(errors="replace")
        memory = max(0, usage.ru_maxrss * 1024 - self.resident)
        shutil.rmtree(place, ignore_errors=True)
        return Outcome(line, mode, os.waitstatus_to_exitcode(status), out, err, stuck, seconds, memory, changed)

    def run(self, line: Line, mode: str = "file", patience: int = PATIENCE) -> Outcome:
        """One line, waited for."""
        begin = time.monotonic()
        child, place = self.start(line, mode, patience)
        _, status, usage = os.wait4(child, 0)
        return self.end(line, mode, place, status, usage, time.monotonic() - begin)

    def _prepare(self, words: list[str], folder: Path) -> None:
        child = os.fork()
        if not child:
            os.chdir(folder)
            out = os.open(self.folder / "prepared", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os._exit(_called(self.main, words))
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            said = (self.folder / "prepared").read_text()
            raise RuntimeError(f"Without its files nothing can be tried: unmask {' '.join(words)}: {said}")

    def _child(self, line: Line, mode: str, place: Path, patience: int) -> None:
        names = ("out", "err", "stuck", "before")
        out, err, stuck, before = (os.open(place / name, os.O_CREAT | os.O_WRONLY, 0o600) for name in names)
        work = place / "work"
        if self.guarded and os.geteuid() == 0:
            _give_up_rights()
            with contextlib.suppress(ImportError):  # what numba compiles it would keep in a folder of root's choice
                importlib.import_module("numba.core.caching").Cache.save_overload = lambda *kept: None
        os.chdir(work)
        for name in sorted(_named(line.words, self.files.names)):
            source = self.files.folder / name
            if source.is_dir():
                shutil.copytree(source, name, symlinks=True)
            else:
                shutil.copy(source, name, follow_symlinks=False)
        os.write(before, json.dumps(_listing(place)).encode())
        os.close(before)
        home = {name: str(place / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        os.environ.update(home | {"TMPDIR": str(place / "tmp"), "COLUMNS": "80", "TERM": "xterm", "LINES": "24"})
        tempfile.tempdir = None
        sys.modules["ray"] = None  # pyright: ignore[reportArgumentType] - as if not installed: it would start a cluster
        os.dup2(err, 2)
        os.close(0)
        sys.stdin = None
        waited = _redirect(out, mode)
        if fuzz_values.PIPED in line.words:
            _feed((self.files.folder / "curve.csv").read_bytes())
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (GIGABYTE, GIGABYTE))
        resource.setrlimit(resource.RLIMIT_AS, (self.size + ROOM, self.size + ROOM))
        machine_memory.cache_clear()  # of the process that this was forked from
        # Of its own time: the machine may be busy. Who only waits has five times as long.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        faulthandler.register(signal.SIGPROF, stuck, chain=True)
        signal.setitimer(signal.ITIMER_PROF, patience)
        faulthandler.dump_traceback_later(5 * patience, exit=True, file=stuck)
        if mode == "terminal":
            time.sleep = lambda seconds: None  # what is shown to people takes its time
        code = _called(self.main, _asked(line))
        if waited:
            for number in (1, 2):
                os.close(number)
            os.waitpid(waited, 0)
        os._exit(code)


def _called(main: Any, words: list[str]) -> int:
    """The exit code with which the interpreter would end."""
    sys.argv = ["unmask", *words]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    try:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    except OSError:
        sys.stdout = None
    sys.__stdout__ = sys.stdout
    code: object
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except Exception as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    sys.stderr.flush()
    return (code or 0) & 255


def _asked(line: Line) -> list[str]:
    """The words of a line; none if a shell only asks how they could go on."""
    if not line.complete:
        return line.words
    words = ["unmask", *line.words]
    fish = line.complete == "fish"
    os.environ["_UNMASK_COMPLETE"] = f"{line.complete}_complete"
    os.environ["COMP_WORDS"] = shlex.join(words[:-1] if fish else words)
    os.environ["COMP_CWORD"] = words[-1] if fish else str(len(words) - 1)
    return []


def _redirect(out: int, mode: str) -> int:
    """Send standard output where the mode says; the number of a process that reads it, or 0."""
    if mode == "file":
        os.dup2(out, 1)
    elif mode == "closed":
        os.close(1)
    elif mode == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    else:
        read, write = os.openpty() if mode == "terminal" else os.pipe()
        reader = os.fork() if mode != "gone" else 0
        if mode != "gone" and not reader:
            os.close(write)
            with contextlib.suppress(OSError):
                while (some := os.read(read, 4096)) and os.write(out, some):
                    if mode == "head" and b"\n" in some:
                        break
            os._exit(0)
        os.close(read)
        os.dup2(write, 1)
        if mode == "terminal":
            os.dup2(write, 2)
        os.close(write)
        return reader
    return 0


def _feed(content: bytes) -> None:
    """A pipe with a small file in it, as `<(…)` of a shell gives."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    os.dup2(read, 9)


def _give_up_rights() -> None:
    """Become nobody, who may still read everything: the interpreter may lie in a folder of root."""
    system = ctypes.CDLL(None)
    system.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    read = 1 << 2  # CAP_DAC_READ_SEARCH; where there is no such right to keep, none is kept
    version = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if system.capset(version, (ctypes.c_uint32 * 6)(read, read, 0, 0, 0, 0)):
        system.capset(version, (ctypes.c_uint32 * 6)())
    system.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: or /proc/self would still belong to root


def _can_give_up_rights(folder: Path) -> bool:
    """Whether a child without rights could still read what it imports."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        _give_up_rights()
        for name in (__file__, os.__file__, sys.modules["unmask"].__file__, sys.modules["numpy"].__file__):
            Path(str(name)).read_bytes()
        os._exit(0 if not os.access("/dev", os.W_OK) and not os.access(folder, os.W_OK) else 1)
    finally:
        os._exit(1)


def _pages() -> tuple[int, int]:
    """Bytes that this process has reserved, and that it uses."""
    size, resident = (int(word) * resource.getpagesize() for word in Path("/proc/self/statm").read_text().split()[:2])
    return size, resident


def _listing(place: Path) -> dict[str, list[int]]:
    """Every file where a child works, with its size and its time; of folders the name."""
    found: dict[str, list[int]] = {}
    for part in ("work", "tmp"):
        for root, folders, names in os.walk(place / part):
            for name in (*folders, *names):
                path = os.path.join(root, name)
                status = os.lstat(path)
                shown = os.path.relpath(path, place).encode("utf-8", "backslashreplace").decode()
                found[shown] = [] if name in folders else [status.st_size, status.st_mtime_ns]
    return found


def _named(words: list[str], names: set[str]) -> set[str]:
    """The files that a line speaks of."""
    found = set()
    for word in words:
        for part in word.split("="):
            found.add(part.removeprefix("hf:").removeprefix("./").split("/")[0])
    return found & names


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    here = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
