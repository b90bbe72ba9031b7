"""Several kinds on one GPU, in a limited time; the same command again goes on where it stopped.

    python -m experiments.atlas.together KIND ... --seconds 3600 --output DIR

First all networks are trained. A few processes run at a time: one of them uses the GPU, by turns, and the others
compile, which takes a minute of a CPU for each network. Then all kinds are measured beside each other, and their texts
written. When the time is over everything stops, wherever it is: a run keeps a checkpoint, and costs and texts are kept
one by one. What is worth having goes into DIR in the end: what was measured, and the networks, or as many of them as
may be copied back at once. The data must be in runs/atlas, or have travelled (`experiments.atlas.pack`).
"""

import argparse
import lzma
import math
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from experiments import common
from experiments.atlas import files, owners
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences
from experiments.atlas.pack import CARRIED, MIB, chosen, unpack

from unmask import InputError
from unmask import _check as check
from unmask._atomic import replacing, workplace

PARTS = ("train", "see", "measure", "whole", "write")
KEPT = (*owners.MEASURED, "*-run/log.csv", "*.log")
ARCHIVE = "measured.tar.xz"
_THREADS = "2"  # of a CPU, for each process
_BESIDE = 5  # processes at a time: more would not fit into memory
_LAST = 20.0  # seconds to end in


def together(commands: dict[str, list[str]], logs: Path, until: float) -> dict[str, str]:
    """Run commands, a few beside each other, each with a log of its own; what became of those that did not succeed."""
    environment = {
        **os.environ, "OMP_NUM_THREADS": _THREADS, "TORCHINDUCTOR_COMPILE_THREADS": _THREADS, "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    waiting, running, missed = dict(commands), {}, {}
    while waiting or running:
        while waiting and len(running) < _BESIDE and time.time() < until:
            name = next(iter(waiting))
            with (logs / f"{name}.log").open("a", encoding="utf-8") as log:
                running[name] = subprocess.Popen(
                    waiting.pop(name), stdout=log, stderr=subprocess.STDOUT, env=environment
                )
        for name, process in list(running.items()):
            if process.poll() is not None:
                if running.pop(name).returncode:
                    missed[name] = f"failed, see {name}.log"
            elif time.time() > until + _LAST / 2:  # it stops by itself a little before, if it can
                running.pop(name).kill()
                process.wait()
                missed[name] = "was stopped"
        if time.time() > until:
            missed |= dict.fromkeys(waiting, "was not begun")
            waiting.clear()
        time.sleep(0.2)
    return missed


@final
@dataclass(frozen=True)
class Room:
    """What may be copied back at once; without limits by default.

    Attributes:
        files: Files, the archive among them.
        file_mib: MiB of each file.
        all_mib: MiB of all files.
    """

    files: int | None = None
    file_mib: float | None = None
    all_mib: float | None = None

    def __post_init__(self) -> None:
        if self.files is not None:
            check.integer("files", self.files, least=1)
        for name in ("file_mib", "all_mib"):
            if (value := getattr(self, name)) is not None:
                check.real(name, value, above=0)

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether files of so many bytes may be copied at once."""
        return (
            (self.files is None or len(sizes) <= self.files)
            and (self.file_mib is None or max(sizes) <= self.file_mib * MIB)
            and (self.all_mib is None or sum(sizes) <= self.all_mib * MIB)
        )


def packed(
    kinds: Sequence[str], base: Path, output: Path, before: Sequence[str] = (), room: Room | None = None
) -> list[str]:
    """Put what is worth having where it comes back: one archive of all that was measured, and networks.

    Arguments:
        kinds: The kinds.
        base: Has a folder for each.
        output: Where to.
        before: Networks that came back before, as KIND-NETWORK: they stay behind.
        room: What may be copied back at once.

    Returns:
        What has no room: networks, which stay behind, and the name of the archive, which is written all the same.
    """
    room = room or Room()
    output.mkdir(parents=True, exist_ok=True)
    archive = output / ARCHIVE
    with replacing(archive) as temporary, tarfile.open(temporary, "w:xz") as file:
        for kind in kinds:
            for path in chosen(base / kind, KEPT):
                file.add(path, Path(kind) / path.relative_to(base / kind))
        for path in base.glob("*.log"):
            file.add(path, path.name)
    sizes = [archive.stat().st_size]
    stayed = [] if room.fits(sizes) else [ARCHIVE]
    for kind in kinds:
        for path in chosen(base / kind, ("*.safetensors",)):
            name, size = f"{kind}-{path.stem}", path.stat().st_size
            if name in before or path.stem in KINDS[kind].shipped:
                continue
            if room.fits([*sizes, size]):
                files.copied(path, owners.weights(output, name))
                sizes.append(size)
            else:
                stayed.append(name)
    return stayed


def brought(output: Path, base: Path) -> None:
    """Put what came back into the folders of the kinds: networks, and measurements in place of those that are there.

    All results of a network that is another one now are set aside: those that did not come back would join the new
    ones. So are weights that are not those of the results, or that others replace: these may be the only copy.

    Raises:
        InputError: if nothing came back, or something is damaged, there or here; nothing is changed then.
    """
    archive, weights = output / ARCHIVE, sorted(output.glob(owners.WEIGHTS.format("*")))
    if not archive.exists() and not weights:
        detail = f"but '{output}' has neither '{archive.name}' nor networks"
        raise InputError("bring", "be a folder that came back from another machine", detail=detail)
    base.mkdir(parents=True, exist_ok=True)
    with workplace(base) as place:
        back = place / "back"
        back.mkdir()
        prints: dict[tuple[str, str], str] = {}
        if archive.exists():
            _extracted(archive, back)
        for path in weights:
            kind, _, network = path.stem.partition("-")
            if kind not in KINDS or network not in KINDS[kind].networks:
                must = "hold networks that are called KIND-NETWORK"
                raise InputError("bring", must, detail=f"but '{path}' is none of these")
            prints[kind, network] = owners.fingerprint(path, "bring")
            (back / kind).mkdir(exist_ok=True)
            files.copied(path, owners.weights(back / kind, network))
        moves: dict[Path, Path] = {}
        for kind, each in KINDS.items():
            for network in each.networks:
                moves |= _giving_way(base / kind, back / kind, network, prints.get((kind, network)))
        owners.move(moves, lambda line: print(line, flush=True))  # nothing was changed until here
        for path in owners.ordered(back.rglob("*")):
            target = base / path.relative_to(back)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)


def _giving_way(here: Path, back: Path, network: str, fingerprint: str | None) -> dict[Path, Path]:
    """What is here of a network that others replace, and where it goes; nothing is moved.

    Arguments:
        here: The folder of a kind.
        back: What came back for it.
        network: The network.
        fingerprint: That of the weights that came back; None if none did.
    """
    moves = owners.leaving(here, network) if owners.differ(here, back, network) else {}
    path = owners.weights(here, network)
    other = fingerprint is not None and path.exists() and owners.fingerprint(path) != fingerprint
    if other or owners.strange(here, back, network):
        moves |= owners.weights_leaving(here, network)
    return moves


def _extracted(archive: Path, target: Path) -> None:
    try:
        with lzma.open(archive) as content, tarfile.open(fileobj=content) as file:
            file.extractall(target, filter="data")
            while content.read(1 << 20):  # to the end, where the sum of what was read stands
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError):
        raise InputError("bring", "hold an intact archive", detail=f"but '{archive}' is damaged") from None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.together", description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--base", type=Path, default=Path("runs") / "atlas", help="has a folder for each kind")
    parser.add_argument("--carried", type=Path, default=CARRIED, help="where data are that travelled")
    parser.add_argument("--networks", nargs="+", choices=sorted(common.NETWORKS), help="all of each kind by default")
    parser.add_argument("--seconds", type=float, help="for everything; no limit by default")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, help="where to put what is worth having")
    parser.add_argument("--files", type=int, help="how many files you may copy back at once; no limit by default")
    parser.add_argument("--file-mib", type=float, metavar="MIB", help="how large each may be; no limit by default")
    parser.add_argument("--all-mib", type=float, metavar="MIB", help="how large all may be; no limit by default")
    parser.add_argument("--before", nargs="*", default=(), help="networks that came back before, as KIND-NETWORK")
    parser.add_argument("--bring", type=Path, metavar="DIR", help="only take over what another machine put there")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further words for every process")
    options = parser.parse_args(arguments)
    with sentences({"folder": "--base"}):
        if options.bring is None:
            run(options)
        else:
            brought(options.bring, options.base)


def run(options: argparse.Namespace) -> None:
    """Train, measure and write what is missing, and put what is worth having where it comes back."""
    room = Room(options.files, options.file_mib, options.all_mib)
    if options.seconds is not None:
        check.real("seconds", options.seconds, above=_LAST)  # which it ends in
    begin = time.time()
    until = math.inf if options.seconds is None else begin + options.seconds - _LAST
    for kind in options.kinds:
        unpack(kind, options.carried, options.base)

    def command(kind: str, parts: Sequence[str], names: Sequence[str], *more: str) -> list[str]:
        words = [kind, "--folder", str(options.base / kind), "--parts", *parts, "--networks", *names, *more]
        return [sys.executable, "-m", "experiments.atlas", *words, *options.more]

    def networks(kind: str) -> list[str]:
        return [name for name in KINDS[kind].networks if name in (options.networks or KINDS[kind].networks)]

    def missing(kind: str, name: str) -> bool:
        return not (options.base / kind / f"{name}.safetensors").exists()

    turn = ("--turn", str(options.base / "turn.lock"), "--until", str(until))
    jobs = {
        f"{kind}-{name}": command(kind, ["train"], [name], *turn)
        for kind in options.kinds
        for name in networks(kind)
        if "train" in options.parts and missing(kind, name)
    }
    report(together(jobs, options.base, until), begin)
    later = [part for part in options.parts if part != "train"]
    jobs = {
        f"{kind}-measure": command(kind, later, networks(kind))
        for kind in options.kinds
        if later and not missing(kind, "both")
    }
    report(together(jobs, options.base, until), begin)
    if options.output is not None:
        stayed = packed(options.kinds, options.base, options.output, options.before, room)
        print(f"stayed behind: {', '.join(stayed) or 'nothing'}", flush=True)


def report(missed: dict[str, str], begin: float) -> None:
    """Say what became of processes."""
    for name, what in missed.items():
        print(f"{name} {what}", flush=True)
    print(f"after {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
