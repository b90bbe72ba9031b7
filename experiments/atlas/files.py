"""The files of a kind: arrays of numbers, compressed, that appear complete or not at all; and what is fetched for them.

Whatever is read of them is read here, so that a damaged file is one sentence with its name.

An array is kept in numpy's own format inside bzip2, which the standard library reads. Of these arrays xz makes
files that are at most 12 % smaller, and it takes several times as long.
"""

import bz2
import json
import shutil
import struct
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmask import InputError
from unmask._atomic import replacing

if TYPE_CHECKING:
    from unmask.models.shape import Network

SUFFIX = ".npy.bz2"
# What libraries raise that read half a file, or another one.
_DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error,
    struct.error,
)  # fmt: skip
FETCHED = "fetched"  # the folder, within that of a kind, for what was fetched and is not needed in the end


def keep(folder: Path, name: str, produce: Callable[[], NDArray[Any]]) -> None:
    """Write an array into the folder, unless it is there already.

    Arguments:
        folder: Where to.
        name: What it is called there.
        produce: Makes the array.
    """
    path = folder / f"{name}{SUFFIX}"
    if path.exists():
        print(f"{name}: there already", flush=True)
        return
    begin = time.monotonic()
    array = produce()
    with replacing(path) as temporary, bz2.open(temporary, "wb") as file:
        np.save(file, array)
    seconds = time.monotonic() - begin
    print(f"{name}: {array.shape}, {path.stat().st_size / 1e6:.2f} MB, {seconds:.0f} s", flush=True)


def load(folder: Path, name: str) -> NDArray[Any]:
    """An array that `keep` wrote.

    Raises:
        InputError: if it is not there, or is something else.
    """
    path = folder / f"{name}{SUFFIX}"
    check_made(path)
    try:
        with bz2.open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # it cannot be read at all
            raise
        raise InputError("folder", "hold arrays", detail=f"but '{path.name}' is not one") from None


@contextmanager
def intact(path: Path) -> Generator[None]:
    """Whatever fails on the contents of a file, while it is read inside, is one sentence.

    Raises:
        InputError: if its contents are not what they should be.
    """
    try:
        yield
    except (*_DAMAGED, OSError) as error:  # among them what the library refuses, which does not know the file
        if isinstance(error, OSError) and error.errno is not None:  # it cannot be read at all
            raise
        remedy = "Replace it with an intact file, or remove it and run the command again."
        detail = f"but '{path}' cannot be used"
        raise InputError("folder", "hold intact files", detail=detail, remedy=remedy) from None


def read_json(path: Path) -> Any:
    """What a file of JSON holds.

    Raises:
        InputError: if it is damaged.
    """
    with intact(path):
        return json.loads(path.read_text(encoding="utf-8"))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name.

    Raises:
        InputError: if it is damaged.
    """
    with intact(path), np.load(path, allow_pickle=False) as kept:
        return {name: kept[name] for name in kept.files}


def network(path: Path, argument: str = "folder") -> "tuple[Network, dict[str, Any]]":
    """A trained network, and what its file says of it.

    Arguments:
        path: The file.
        argument: What named the folder that it is in.

    Raises:
        InputError: if it is damaged.
    """
    from unmask.models.weights import load  # only here: packing data takes no torch

    try:
        return load(path)
    except InputError as error:
        detail = error.detail or f"but '{path}' cannot be loaded"
        must, remedy = "be a folder in which every network is intact", "Replace it with an intact file, or remove it."
        raise InputError(argument, must, detail=detail, remedy=remedy) from None


def check_made(path: Path) -> None:
    """Refuse a folder in which a file of a kind is missing."""
    if not path.is_file():
        remedy = "Make it with: python -m experiments.atlas.make"
        raise InputError("folder", "hold the data of the kind", detail=f"but it has no '{path.name}'", remedy=remedy)


def source(shared: Path | None, name: str) -> Path:
    """A file of the shared texts.

    Raises:
        InputError: if there is none.
    """
    path = Path() if shared is None else shared / "data" / name
    if not path.is_file():
        found = "but no folder was given" if shared is None else f"but '{shared}' does not have it"
        raise InputError("shared", f"be a folder with the file 'data/{name}'", detail=found)
    return path


def fetch(folder: Path, name: str, digest: str, command: Sequence[str]) -> Path:
    """A package of somebody else, as a file; fetched unless it is there.

    Arguments:
        folder: The folder of the kind.
        name: Name of the file.
        digest: Its SHA-256, in hexadecimal digits.
        command: What writes it into the folder that it runs in.

    Raises:
        InputError: if it cannot be had, or is another one.
    """
    place = folder / FETCHED
    place.mkdir(exist_ok=True)
    path = place / name
    if not path.exists():
        print(f"{name}: fetching", flush=True)
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        except FileNotFoundError:
            detail = f"but '{command[0]}' is not"
            raise InputError("kind", "be one whose tools are installed", detail=detail) from None
        if done.returncode or not path.exists():
            last = (done.stderr.strip().splitlines() or ["nothing was written"])[-1]
            raise InputError("kind", "be one whose package can be fetched", detail=f"but {name} cannot: {last[:200]}")
    if sha256(path.read_bytes()).hexdigest() != digest:
        raise InputError("folder", f"hold the {name} that was published", detail=f"but '{path}' is a different file")
    return path


def copied(source: Path, target: Path) -> None:
    """Copy a file, which appears complete or not at all."""
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def discard(folder: Path) -> None:
    """Remove what was fetched, once everything is made of it."""
    shutil.rmtree(folder / FETCHED, ignore_errors=True)


def even_windows(tokens: NDArray[Any], length: int, count: int) -> NDArray[np.int64]:
    """Disjoint windows spread evenly over a text: those of `unmask.models.text.Store.even_windows`."""
    most = len(tokens) // length
    if count > most:
        raise InputError("shared", f"hold texts of at least {count * length} tokens", found=str(len(tokens)))
    starts = np.arange(count) * most // count * length
    return tokens[starts[:, None] + np.arange(length)].astype(np.int64)
