"""Whose results the folder of a kind keeps: for every network, a file with the fingerprint of its weights.

A network that is trained again, or comes from another machine, has the name of the one before, and so have its costs,
texts and calibration. Before any of them is used or made, the weights are compared with those that were recorded.
"""

from collections.abc import Callable
from pathlib import Path

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
    """Record whose results are kept from now on. Those of another network are removed, and those of an unknown one."""
    if owner(folder, network) != fingerprint:
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


def foreign(folder: Path, network: str, other: Path) -> list[Path]:
    """What a folder keeps of a network, if another folder keeps results of other weights under the same name."""
    same = owner(folder, network) == owner(other, network)
    return [] if same or not kept(other, network) else kept(folder, network)


def _record(folder: Path, network: str) -> Path:
    return folder / RECORDS.replace("*", network)
