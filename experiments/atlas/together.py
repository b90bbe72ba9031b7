"""Several kinds on one GPU, in a limited time; the same command again goes on where it stopped.

    python -m experiments.atlas.together KIND ... --seconds 560 --output DIR

First all networks are trained. A few processes run at a time: one of them uses the GPU, by turns, and the others
compile, which takes a minute of a CPU for each network. Then all kinds are measured beside each other, and their texts
written. When the time is over everything stops, wherever it is: a run keeps a checkpoint, and costs and texts are kept
one by one. What is worth having goes into DIR in the end: what was measured, and as many networks as
are wanted back. The data must be in runs/atlas, or have travelled (`experiments.atlas.pack`).
"""

import argparse
import lzma
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments import common
from experiments.atlas import files, owners
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences
from experiments.atlas.pack import CARRIED, MEASURED, chosen, unpack

from unmask import InputError
from unmask._atomic import replacing, workplace

PARTS = ("train", "see", "measure", "whole", "write")
KEPT = (*MEASURED[1:], "*-run/log.csv", "*.log")
FILES, LARGEST, ROOM = 8, 16 << 20, 63 << 20  # copied back at once: files, bytes of each, and of all
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


def packed(kinds: Sequence[str], base: Path, output: Path, before: Sequence[str] = ()) -> list[str]:
    """Put what is worth having where it comes back: one archive of all that was measured, and networks.

    Arguments:
        kinds: The kinds.
        base: Has a folder for each.
        output: Where to.
        before: Networks that came back before, as KIND-NETWORK: they stay behind.

    Returns:
        The networks for which there was no room.
    """
    output.mkdir(parents=True, exist_ok=True)
    archive = output / "measured.tar.xz"
    with replacing(archive) as temporary, tarfile.open(temporary, "w:xz") as file:
        for kind in kinds:
            for path in chosen(base / kind, KEPT):
                file.add(path, Path(kind) / path.relative_to(base / kind))
        for path in base.glob("*.log"):
            file.add(path, path.name)
    left, most = ROOM - archive.stat().st_size, FILES - 1
    stayed = []
    for kind in kinds:
        for path in chosen(base / kind, ("*.safetensors",)):
            name, size = f"{kind}-{path.stem}", path.stat().st_size
            if name in before or path.stem in KINDS[kind].shipped:
                continue
            if most and size <= min(left, LARGEST):
                files.copied(path, output / f"{name}.safetensors")
                left, most = left - size, most - 1
            else:
                stayed.append(name)
    return stayed


def brought(output: Path, base: Path) -> None:
    """Put what came back into the folders of the kinds: networks, and measurements in place of those that are there.

    All results of a network that is another one now make way: those that did not come back would join the new ones. So
    do weights that are not those of the results: the right ones may have stayed on the other machine.

    Raises:
        InputError: if nothing came back, or the archive is damaged; nothing is replaced then.
    """
    archive, weights = output / "measured.tar.xz", sorted(output.glob("*.safetensors"))
    if not archive.exists() and not weights:
        detail = f"but '{output}' has neither '{archive.name}' nor networks"
        raise InputError("bring", "be a folder that came back from another machine", detail=detail)
    base.mkdir(parents=True, exist_ok=True)
    if archive.exists():
        with workplace(base) as place:
            back = place / "back"
            try:
                with lzma.open(archive) as content, tarfile.open(fileobj=content) as file:
                    file.extractall(back, filter="data")
                    while content.read(1 << 20):  # to the end, where the sum of what was read stands
                        pass
            except (tarfile.TarError, lzma.LZMAError, EOFError):
                raise InputError("bring", "hold an intact archive", detail=f"but '{archive}' is damaged") from None
            for kind, each in KINDS.items():
                for network in each.networks:
                    if owners.differ(base / kind, back / kind, network):
                        owners.forget(base / kind, network, print)
                    if owners.strange(base / kind, back / kind, network):
                        owners.weights(base / kind, network).unlink()
                        print(f"{kind} {network}: removed the weights, which are not those of the results", flush=True)
            for path in owners.ordered(back.rglob("*")):
                target = base / path.relative_to(back)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    for path in weights:
        kind, _, network = path.stem.partition("-")
        (base / kind).mkdir(parents=True, exist_ok=True)
        files.copied(path, base / kind / f"{network}.safetensors")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.together", description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--base", type=Path, default=Path("runs") / "atlas", help="has a folder for each kind")
    parser.add_argument("--carried", type=Path, default=CARRIED, help="where data are that travelled")
    parser.add_argument("--networks", nargs="+", choices=sorted(common.NETWORKS), help="all of each kind by default")
    parser.add_argument("--seconds", type=float, default=560, help="for everything")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, help="where to put what is worth having")
    parser.add_argument("--before", nargs="*", default=(), help="networks that came back before, as KIND-NETWORK")
    parser.add_argument("--bring", type=Path, metavar="DIR", help="only take over what another machine put there")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further words for every process")
    options = parser.parse_args(arguments)
    with sentences():
        if options.bring is None:
            run(options)
        else:
            brought(options.bring, options.base)


def run(options: argparse.Namespace) -> None:
    """Train, measure and write what is missing, and put what is worth having where it comes back."""
    begin = time.time()
    until = begin + options.seconds - _LAST
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
        stayed = packed(options.kinds, options.base, options.output, options.before)
        print(f"stayed behind: {', '.join(stayed) or 'nothing'}", flush=True)


def report(missed: dict[str, str], begin: float) -> None:
    """Say what became of processes."""
    for name, what in missed.items():
        print(f"{name} {what}", flush=True)
    print(f"after {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
