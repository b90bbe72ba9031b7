"""What must travel to a machine with a GPU: `python -m experiments.atlas.pack KIND ... [--networks]`.

Copies the data of the kinds, as small as they are kept, from runs/atlas to carried/atlas, which git ignores, and says
how large that is. With --networks the trained networks go too, and what was measured of them, so that a run can go on
on another machine. What was packed there before is removed. `experiments.atlas.together` puts it where it belongs.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from experiments.atlas import files, owners
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences

from unmask import InputError

CARRIED = Path("carried") / "atlas"
DATA = ("*.npy.bz2", "*.xz", "tokenizer.json", "about.json")
MEASURED = (
    "*.safetensors",
    "costs-*.npz",
    "seen.json",
    "whole-*.json",
    "calibration-*.json",
    "advised-*.json",
    "texts-*.npz",
    owners.RECORDS,
)
MOST = 33 << 20  # bytes to copy at once
MARK = ".packed"  # a file of every folder that was filled here, and may be emptied


def pack(kinds: Sequence[str], base: Path, carried: Path, *, networks: bool) -> int:
    """Copy what must travel; the number of its bytes.

    Raises:
        InputError: if data are missing, or there is something in the folder that was not packed; nothing is removed
            then.
    """
    if carried.exists() and any(carried.iterdir()) and not (carried / MARK).exists():
        remedy = "It would be emptied. Name another one, or remove it yourself."
        must = f"be a folder that is empty or was packed before, and '{carried}' is neither"
        raise InputError("carried", must, remedy=remedy)
    for kind in kinds:
        KINDS[kind]().read(base / kind)
    if carried.exists():
        shutil.rmtree(carried)
    carried.mkdir(parents=True)
    (carried / MARK).touch()
    for kind in kinds:
        (carried / kind).mkdir()
        for path in chosen(base / kind, DATA + MEASURED if networks else DATA):
            files.copied(path, carried / kind / path.name)
    sizes = {kind: sum(path.stat().st_size for path in (carried / kind).iterdir()) for kind in kinds}
    for kind, size in sizes.items():
        print(f"{kind}: {size / 2**20:.2f} MiB", flush=True)
    return sum(sizes.values())


def unpack(kind: str, carried: Path, base: Path) -> None:
    """Put what travelled where it belongs; what is there already stays.

    Of a network that has results there, nothing is taken that belongs to other weights of its name.
    """
    there, here = carried / kind, base / kind
    here.mkdir(parents=True, exist_ok=True)
    names = KINDS[kind].networks
    foreign = [path for name in names if owners.differ(there, here, name) for path in owners.kept(there, name)]
    foreign += [owners.weights(there, name) for name in names if owners.strange(there, here, name)]
    for path in owners.ordered(there.glob("*")):  # a pack that was killed left a folder
        if path not in foreign and not (here / path.name).exists():
            files.copied(path, here / path.name)


def chosen(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of a folder that fit one of the patterns."""
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.pack", description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--base", type=Path, default=Path("runs") / "atlas", help="has a folder for each kind")
    parser.add_argument("--carried", type=Path, default=CARRIED, help="where to")
    parser.add_argument("--networks", action="store_true", help="take trained networks along")
    options = parser.parse_args(arguments)
    with sentences({"folder": "--base"}):
        size = pack(options.kinds, options.base, options.carried, networks=options.networks)
    print(f"{size / 2**20:.2f} MiB in {options.carried}, of at most {MOST >> 20}", flush=True)
    if size > MOST:
        raise SystemExit("Error: that is too much. Pack fewer kinds, and the others for a later command.")


if __name__ == "__main__":
    main()
