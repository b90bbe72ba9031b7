"""Text files from strangers: read whole, up to as much as a real one can need, or refused in one sentence.

A file that a user names may be a folder, a device without an end, a picture, or larger than the memory. None of them is
worth a traceback or a machine that stands still.
"""

import os
import stat
from typing import BinaryIO

from unmask import _check as check

MEBIBYTE = 1 << 20
NUMBERS = 64 * MEBIBYTE  # a curve, a gauge, a schedule: a million numbers take 25 MB
CALIBRATION = 256 * MEBIBYTE  # every token of 4,096 measured at 4,096 places takes 150 MB
TEXT = 1024 * MEBIBYTE  # a billion letters
_DEVICE = MEBIBYTE  # of what has no size of its own and may have no end
_CHUNK = MEBIBYTE


def read_text(path: str | os.PathLike[str], argument: str, *, most: int = NUMBERS) -> str:
    """The text of a file in UTF-8, without the mark that some programs put at its beginning.

    Arguments:
        path: The file; a pipe will do.
        argument: The argument that a sentence is about.
        most: The most bytes that such a file may have.

    Raises:
        InputError: if it cannot be read, has more bytes, or is no text.
    """
    data = read_bytes(path, argument, most=most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise check.InputError(argument, "be text in UTF-8", detail=f"but '{os.fspath(path)}' is not") from None


def read_bytes(path: str | os.PathLike[str], argument: str, *, most: int) -> bytes:
    """The same without decoding it."""
    name = check.path(argument, path)
    try:
        with open(name, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            # A person who types into a terminal comes to an end; other devices mostly do not.
            endless = (stat.S_ISCHR(mode) and not file.isatty()) or stat.S_ISBLK(mode)
            data = _up_to(file, min(most, _DEVICE) if endless else most)
    except OSError as error:
        raise unreadable(name, argument, error) from None
    except ValueError as error:  # a name with a null character
        raise check.InputError(argument, "be a file that can be read", found=f"{check.shown(name)} ({error})") from None
    if data is None and endless:
        raise check.InputError(argument, "be a file of finite length", found=f"the device '{name}'")
    if data is None:
        raise check.InputError(
            argument, f"be a file of at most {most // MEBIBYTE} MiB", detail=f"but '{name}' is larger"
        )
    return data


def check_file(path: str | os.PathLike[str], argument: str) -> None:
    """Refuse what is no file that can be read: for those who give its name to a library that reads it.

    Raises:
        InputError: if it does not exist, is a folder, a pipe or a device, or may not be read.
    """
    name = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):  # to open a pipe would be to wait for someone who writes into it
            with open(path, "rb"):
                return
        if stat.S_ISDIR(mode):
            raise check.InputError(argument, "be a file", found=f"the folder {check.shown(name)}")
        reason = "not a regular file"
    except OSError as error:
        raise unreadable(name, argument, error) from None
    except ValueError as error:
        reason = str(error)
    raise check.InputError(argument, "be a file that can be read", found=f"{check.shown(name)} ({reason})")


def unreadable(path: str | os.PathLike[str], argument: str, error: OSError) -> check.InputError:
    """The sentence for a file that the system does not let us read."""
    name = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        return check.InputError(argument, "be the name of an existing file", found=f"'{name}'")
    if isinstance(error, IsADirectoryError):
        return check.InputError(argument, "be a file", found=f"the folder '{name}'")
    reason = (error.strerror or "it failed").lower()
    return check.InputError(argument, "be a file that can be read", found=f"'{name}' ({reason})")


def _up_to(file: BinaryIO, most: int) -> bytes | None:
    """All of a file, unless that is more than `most` bytes; a size that is known is believed without reading."""
    if os.fstat(file.fileno()).st_size > most:
        return None
    data = bytearray()
    while chunk := file.read(_CHUNK):
        data += chunk
        if len(data) > most:
            return None
    return bytes(data)
