"""Lines of a file, one at a time: however long the file is, one line of it is in memory.

A file that a user names may be a folder, a device without an end, half of a download, a picture, or one line of
gigabytes. Each is answered in one sentence, which says after how many lines. Files packed by gzip or xz are unpacked as
they are read, whether their names say so or their first bytes.
"""

import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast, final

from unmask import _check as check
from unmask._files import MEBIBYTE, unreadable

STANDARD = "-"  # the name of standard input
LINE = 16 * MEBIBYTE  # bytes of the longest line: as many as a sequence may have tokens
_DEVICE = MEBIBYTE  # of what may have no end
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"  # no text in UTF-8 begins like this
_BROKEN = (zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """A file that is open.

    Attributes:
        stream: Its bytes, unpacked.
        name: What a sentence calls it.
        regular: Whether it is a file on a disk, whose name says what it is; pipes and standard input are not.
        endless: Whether it is a device that may have no end.
    """

    stream: BinaryIO
    name: str
    regular: bool
    endless: bool


def named(path: str) -> str:
    """What a sentence calls a file."""
    return "standard input" if path == STANDARD else f"'{path}'"


@contextmanager
def opened(path: str) -> Generator[Stream]:
    """Open a file, or standard input, which stays open afterwards.

    Raises:
        InputError: if there is no such file, or it cannot be read.
    """
    with _raw(path) as raw:
        mode = _mode(raw)
        # A person who types into a terminal comes to an end; other devices mostly do not.
        endless = (stat.S_ISCHR(mode) and not raw.isatty()) or stat.S_ISBLK(mode)
        try:
            stream = _unpacked(raw, path)
        except OSError as error:
            raise unreadable(path, "data", error) from None
        yield Stream(stream, named(path), path != STANDARD and stat.S_ISREG(mode), endless)


def lines(source: Stream) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1 on, and with what ends them.

    Raises:
        InputError: if a line is no text in UTF-8, or too long, or the file breaks off or does not end.
    """
    number, total, most = 0, 0, _DEVICE if source.endless else LINE
    try:
        while data := source.stream.readline(most + 1):
            number += 1
            total += len(data)
            if source.endless and total > most:
                raise check.InputError("data", "be a file of finite length", found=f"the device {source.name}")
            if len(data) > most:
                detail = f"but line {number} of {source.name} is longer"
                raise check.InputError("data", f"have lines of at most {most // MEBIBYTE} MiB", detail=detail)
            text = data.decode()
            yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError:
        detail = f"but line {number} of {source.name} is not"
        raise check.InputError("data", "be text in UTF-8", detail=detail) from None
    except EOFError:
        detail = f"but {source.name} breaks off{_after(number)}"
        raise check.InputError("data", "be a complete file", detail=detail) from None
    except _BROKEN:
        detail = f"but {source.name} cannot be decompressed{_after(number)}"
        raise check.InputError("data", "be an intact file", detail=detail) from None
    except OSError as error:
        raise unreadable(source.name.strip("'"), "data", error) from None


def _after(number: int) -> str:
    """Where in a file, for a sentence: after which line, if one was read."""
    return f" after line {number}" if number else ""


@contextmanager
def _raw(path: str) -> Generator[io.BufferedReader]:
    if path == STANDARD:
        inner: Any = getattr(sys.stdin, "buffer", None)
        if inner is None:
            raise check.InputError("data", "be a file that can be read", found="standard input, which is closed")
        if isinstance(inner, io.BufferedReader):
            yield inner
            return
        wrapped = io.BufferedReader(inner)
        try:
            yield wrapped
        finally:
            wrapped.detach()  # it would close what it wraps
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise unreadable(path, "data", error) from None
    except ValueError as error:  # a name with a null character
        raise check.InputError("data", "be a file that can be read", found=f"{check.shown(path)} ({error})") from None
    with file:
        yield file


def _mode(file: BinaryIO) -> int:
    try:
        return os.fstat(file.fileno()).st_mode
    except OSError:  # something in memory in place of standard input
        return 0


def _unpacked(raw: io.BufferedReader, path: str) -> BinaryIO:
    ending, head = os.path.splitext(path)[1].lower(), raw.peek(len(_XZ))
    packed: Any = None
    if ending == ".gz" or (ending != ".xz" and head.startswith(_GZIP)):
        packed = gzip.GzipFile(fileobj=raw)
    elif ending == ".xz" or head.startswith(_XZ):
        packed = lzma.LZMAFile(raw)  # noqa: SIM115 - `raw` is what is to be closed
    return raw if packed is None else cast(BinaryIO, io.BufferedReader(packed))
