"""Whose results the folder of a kind keeps: for every network, a file with the fingerprint of its weights.

A network that is trained again, or comes from another machine, has the name of the one before, and so have its costs,
texts and calibration. Before any of them is used or made, the weights are compared with those that were recorded.
Results of weights that were replaced are removed; results of unknown weights are for their owner to remove.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from unmask import InputError
from unmask._atomic import replacing

RECORDS = "fingerprint-*.txt"
_KEPT = ("costs-{}.npz", "texts-{}.npz", "whole-{}.json", "calibration-{}.json", "advised-{}.json")


def kept(folder: Path, network: str) -> list[Path]:
    """The results of a network that a folder keeps, and at the end the record of whose they are."""
    curves = ["seen.json"] if network == "both" else []
    names = [*(name.format(network) for name in _KEPT), *curves, _record(folder, network).name]
    return [path for name in names if (path := folder / name).exists()]


def owner(folder: Path, network: str) -> str | None:
    """The fingerprint of the network whose results are kept under this name; None if nobody recorded it."""
    path = _record(folder, network)
    return path.read_text(encoding="utf-8") if path.exists() else None


def claim(folder: Path, network: str, fingerprint: str, say: Callable[[str], object]) -> None:
    """Record whose results are kept from now on; those of another network are removed.

    Raises:
        InputError: if there are results that nobody recorded.
    """
    known = owner(folder, network)
    if known is None and (unknown := kept(folder, network)):
        names = ", ".join(path.name for path in unknown)
        detail = f"but nothing in '{folder}' says of which weights {names} are"
        raise InputError("folder", "say whose results it keeps", detail=detail, remedy="Move or remove these files.")
    if known != fingerprint:
        forget(folder, network, say)
        with replacing(_record(folder, network)) as temporary:
            temporary.write_text(fingerprint, encoding="utf-8")


def forget(folder: Path, network: str, say: Callable[[str], object]) -> None:
    """Remove the results of a network, the record last: after a kill it still says whose the rest is."""
    stale = kept(folder, network)
    for path in stale:
        path.unlink()
    if stale:
        names = ", ".join(path.name for path in stale)
        say(f"{folder.name} {network}: removed the results of another network of that name: {names}")


def differ(folder: Path, other: Path, network: str) -> bool:
    """Whether both keep results of a network, and not of the same weights."""
    return bool(kept(folder, network) and kept(other, network)) and owner(folder, network) != owner(other, network)


def strange(folder: Path, other: Path, network: str) -> bool:
    """Whether a folder has weights of a network, and another one results of other weights.

    The weights themselves are asked: they have no record before they are measured, and may be newer than the one there
    is. Of results that nobody recorded it cannot be said.
    """
    path, known = weights(folder, network), owner(other, network)
    return path.exists() and known is not None and bool(kept(other, network)) and fingerprint(path) != known


def fingerprint(path: Path) -> str:
    """The fingerprint of the weights in a file."""
    from unmask.models import base  # only here: packing data takes no torch
    from unmask.models.weights import load

    return base.fingerprint(load(path)[0])


def ordered(paths: Iterable[Path]) -> list[Path]:
    """The files among these in the order in which they must arrive: first whose results they are.

    After a kill, results without a record would be taken for those of another network.
    """
    return sorted((path for path in paths if path.is_file()), key=lambda path: (not path.match(RECORDS), path))


def weights(folder: Path, network: str) -> Path:
    """The file with the weights of a network."""
    return folder / f"{network}.safetensors"


def _record(folder: Path, network: str) -> Path:
    return folder / RECORDS.replace("*", network)
