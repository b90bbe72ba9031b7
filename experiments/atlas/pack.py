"""What must travel to a machine with a GPU: `python -m experiments.atlas.pack KIND ... [--networks]`.

Copies the data of the kinds, as small as they are kept, from runs/atlas to carried/atlas, which git ignores, and says
how large that is. With --networks the trained networks go too, and what was measured of them, so that a run can go on
on another machine. What was packed there before is removed, and nothing else. `experiments.atlas.together` puts it
where it belongs.
"""

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from experiments.atlas import files, owners
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences

from unmask import InputError
from unmask import _check as check
from unmask._atomic import replacing

MIB = 1 << 20
CARRIED = Path("carried") / "atlas"
DATA = ("*.npy.bz2", "*.xz", "tokenizer.json", "about.json")
NETWORKS = (owners.WEIGHTS.format("*"), *owners.MEASURED)
MARK = ".packed"  # a file of every folder that was filled here: the names of what was packed


def pack(kinds: Sequence[str], base: Path, carried: Path, *, networks: bool, most: float | None = None) -> int:
    """Copy what must travel; the number of its bytes.

    Arguments:
        kinds: The kinds.
        base: Has a folder for each.
        carried: Where to. Of what is there, that is removed which was packed before.
        networks: Whether trained networks go too, and what was measured of them.
        most: MiB at most; any number by default.

    Raises:
        InputError: if data are missing, or too large, or something that was not packed is in the way; nothing is
            removed then.
    """
    if most is not None:
        check.real("most_mib", most, above=0)
    for kind in kinds:
        KINDS[kind]().read(base / kind)
    found = {kind: chosen(base / kind, DATA + NETWORKS if networks else DATA) for kind in kinds}
    sizes = {kind: sum(path.stat().st_size for path in paths) for kind, paths in found.items()}
    size = sum(sizes.values())
    if most is not None and size > most * MIB:
        detail = f"but the files take {size / MIB:.2f} MiB"
        remedy = "Pack fewer kinds, and leave the others for a later command."
        raise InputError("most_mib", f"be enough for {', '.join(kinds)}", detail=detail, remedy=remedy)
    wanted = {f"{kind}/{path.name}": path for kind, paths in found.items() for path in paths}
    before = _before(carried, wanted)
    for name in before:
        (carried / name).unlink(missing_ok=True)
    for kind in {name.partition("/")[0] for name in before}:
        with suppress(OSError):  # it is gone, or somebody put something into it
            (carried / kind).rmdir()
    carried.mkdir(parents=True, exist_ok=True)
    with replacing(carried / MARK) as temporary:
        temporary.write_text(json.dumps(sorted(wanted)), encoding="utf-8")
    for name, path in wanted.items():
        (carried / name).parent.mkdir(exist_ok=True)
        files.copied(path, carried / name)
    for kind in kinds:
        print(f"{kind}: {sizes[kind] / MIB:.2f} MiB", flush=True)
    return size


def _before(carried: Path, wanted: Iterable[str]) -> list[str]:
    """What was packed before.

    Raises:
        InputError: if the folder was not packed, or something else has a name that is wanted.
    """
    if not carried.exists() or not any(carried.iterdir()):
        return []
    found: object = None
    with suppress(OSError, ValueError):  # it was not packed, or before names were kept
        found = json.loads((carried / MARK).read_text(encoding="utf-8"))
    if not isinstance(found, list):
        must, detail = "be a folder that is empty or was packed before", f"but '{carried}' is neither"
        raise InputError("carried", must, detail=detail, remedy="Name another one, or remove it yourself.")
    before = [name for name in found if isinstance(name, str) and re.fullmatch(r"\w+/[\w.-]+", name)]
    if other := next((name for name in wanted if name not in before and (carried / name).exists()), None):
        must, detail = "hold no other file that would be overwritten", f"but '{carried / other}' would be"
        raise InputError("carried", must, detail=detail, remedy="Move it, or name another folder.")
    return before


def unpack(kind: str, carried: Path, base: Path) -> None:
    """Put what travelled where it belongs; what is there already stays.

    Of a network that has results there, nothing is taken that belongs to other weights of its name.
    """
    there, here = carried / kind, base / kind
    here.mkdir(parents=True, exist_ok=True)
    names = KINDS[kind].networks
    foreign = [path for name in names if owners.differ(there, here, name) for path in owners.kept(there, name)]
    foreign += [owners.weights(there, name) for name in names if owners.strange(there, here, name, "carried")]
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
    parser.add_argument("--most-mib", type=float, metavar="MIB", help="what may be copied at once; no limit by default")
    options = parser.parse_args(arguments)
    with sentences({"folder": "--base"}):
        size = pack(options.kinds, options.base, options.carried, networks=options.networks, most=options.most_mib)
    print(f"{size / MIB:.2f} MiB in {options.carried}", flush=True)


if __name__ == "__main__":
    main()
