"""Whose results the folder of a kind keeps: for every network, a file with the fingerprint of its weights.

A network that is trained again, or comes from another machine, has the name of the one before, and so have its costs,
texts and calibration. Before anything is measured, the weights are compared with those that were recorded. Results of
other weights are set aside, in a folder `set-aside/NETWORK-FINGERPRINT`, and return once their weights are measured
again. Nothing is removed. Whoever reads results needs no weights, and sets nothing aside. Results of unknown weights
are for their owner to move.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from experiments.atlas import files

from unmask import InputError
from unmask._atomic import replacing

WEIGHTS = "{}.safetensors"
RECORD = "fingerprint-{}.txt"
SEEN = "seen.json"  # of the network `both`
RESULTS = (
    "costs-{}.npz", "texts-{}.npz", "whole-{}.json", "calibration-{}.json", "advised-{}.json", "recipe-{}.json",
)  # fmt: skip
ASIDE = "set-aside"  # the folder, within that of a kind, for results of other weights
# Patterns of all that travels of networks that were measured, but for their weights.
MEASURED = tuple(name.replace("{}", "*") for name in (*RESULTS, SEEN, RECORD))


def weights(folder: Path, network: str) -> Path:
    """The file with the weights of a network."""
    return folder / WEIGHTS.format(network)


def kept(folder: Path, network: str) -> list[Path]:
    """The results of a network that a folder keeps, and at the end the record of whose they are."""
    names = [*RESULTS, *([SEEN] if network == "both" else []), RECORD]
    return [path for name in names if (path := folder / name.format(network)).exists()]


def owner(folder: Path, network: str) -> str | None:
    """The fingerprint of the network whose results are kept under this name; None if nobody recorded it."""
    path = folder / RECORD.format(network)
    if not path.exists():
        return None
    with files.intact(path):
        found = path.read_text(encoding="utf-8")
        if not re.fullmatch(r"[\w-]+", found):  # a folder will be named by it
            raise ValueError
    return found


def claim(folder: Path, network: str, fingerprint: str, say: Callable[[str], object]) -> None:
    """Record whose results are kept from now on; those of other weights are set aside, and these weights' own return.

    Raises:
        InputError: if there are results that nobody recorded, or those that are set aside have no room.
    """
    if owner(folder, network) != fingerprint:
        move(leaving(folder, network), say)
        with replacing(folder / RECORD.format(network)) as temporary:
            temporary.write_text(fingerprint, encoding="utf-8")
    place = _aside(folder, network, fingerprint)  # also after a kill between the record and the files
    own = [path for path in kept(place, network) if not (folder / path.name).exists()]
    for path in own:
        path.replace(folder / path.name)
    if own:
        say(f"brought back from '{place}', because they are of these weights: {_listed(own)}")
    with suppress(OSError):  # whatever else is there stays
        (place / RECORD.format(network)).unlink(missing_ok=True)
        place.rmdir()


def leaving(folder: Path, network: str) -> dict[Path, Path]:
    """Where the results of a network go if others take their place, the record last; nothing is moved.

    After a kill the record still says whose the rest is.

    Raises:
        InputError: if nobody recorded whose they are, or they have no room there.
    """
    found, known = kept(folder, network), owner(folder, network)
    if not found:
        return {}
    if known is None:
        detail = f"but nothing in '{folder}' says so for {_listed(found)}"
        must, remedy = "say which weights its results are from", "Move or remove these files."
        raise InputError("folder", must, detail=detail, remedy=remedy)
    place = _aside(folder, network, known)
    if twice := [path for path in found[:-1] if (place / path.name).exists()]:
        detail, remedy = f"but '{place}' also has {_listed(twice)}", "Move or remove one of the two."
        raise InputError("folder", "hold every result only once", detail=detail, remedy=remedy)
    return {path: place / path.name for path in found}


def weights_leaving(folder: Path, network: str) -> dict[Path, Path]:
    """Where the weights of a network go if others take their place; nothing is moved."""
    path = weights(folder, network)
    return {path: _aside(folder, network, fingerprint(path)) / path.name}


def move(moves: Mapping[Path, Path], say: Callable[[str], object]) -> None:
    """Set files aside, one after the other."""
    for path, target in moves.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    for place in dict.fromkeys(target.parent for target in moves.values()):
        names = [path for path in moves if moves[path].parent == place and not path.match(RECORD.format("*"))]
        if names:
            say(f"set aside in '{place}', because other weights took their place: {_listed(names)}")


def differ(folder: Path, other: Path, network: str) -> bool:
    """Whether both keep results of a network, and not of the same weights."""
    return bool(kept(folder, network) and kept(other, network)) and owner(folder, network) != owner(other, network)


def strange(folder: Path, other: Path, network: str, argument: str = "folder") -> bool:
    """Whether a folder has weights of a network, and another one results of other weights.

    The weights themselves are asked: they have no record before they are measured, and may be newer than the one there
    is. Of results that nobody recorded it cannot be said.

    Raises:
        InputError: if the weights are damaged.
    """
    path, known = weights(folder, network), owner(other, network)
    if not path.exists() or known is None or not kept(other, network):
        return False
    return fingerprint(path, argument) != known


def fingerprint(path: Path, argument: str = "folder") -> str:
    """The fingerprint of the weights in a file.

    Raises:
        InputError: if it is damaged.
    """
    from unmask.models import base  # only here: packing data takes no torch

    return base.fingerprint(files.network(path, argument)[0])


def ordered(paths: Iterable[Path]) -> list[Path]:
    """The files among these in the order in which they must arrive: first whose results they are.

    After a kill, results without a record would be taken for those of another network.
    """
    first = RECORD.format("*")
    return sorted((path for path in paths if path.is_file()), key=lambda path: (not path.match(first), path))


def _aside(folder: Path, network: str, fingerprint: str) -> Path:
    return folder / ASIDE / f"{network}-{fingerprint}"


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)
