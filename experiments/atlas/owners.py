"""Whose results the folder of a kind keeps: for every network, a file with the fingerprint of its weights.

A network that is trained again, or comes from another machine, has the name of the one before, and so have its costs,
texts and calibration. Before any of them is used or made, the weights are compared with those that were recorded.
Results of weights that were replaced are removed; results of unknown weights are for their owner to remove.
"""

from collections.abc import Callable
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
    """Whether both have something of a network, the second one results, and not of the same weights."""
    there = bool(kept(folder, network)) or weights(folder, network).exists()
    return there and bool(kept(other, network)) and owner(folder, network) != owner(other, network)


def weights(folder: Path, network: str) -> Path:
    """The file with the weights of a network."""
    return folder / f"{network}.safetensors"


def _record(folder: Path, network: str) -> Path:
    return folder / RECORDS.replace("*", network)
