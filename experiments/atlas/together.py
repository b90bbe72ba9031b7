"""Several kinds at once on one GPU: all networks are trained beside each other, then all kinds measured.

    python -m experiments.atlas.together KIND ... --base runs/atlas --seconds 400 --output DIR

Compiling takes a minute of a CPU for each network, and a small network does not fill a GPU: so both are shared. The
data must have been made before. What is worth keeping of each kind goes into DIR: its networks, and one archive of
everything else but data and checkpoints. Run again with the same folders, it goes on where it was.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.atlas.kinds import KINDS
from experiments.atlas.networks import NETWORKS

KEPT = ("costs.npz", "seen.json", "calibration-*.json", "texts-*.npz", "*-run/log.csv", "*.log")
_THREADS = "2"  # of a CPU, for each process


def together(commands: dict[str, list[str]], logs: Path) -> list[str]:
    """Run commands beside each other, each with a log of its own; the names of those that failed."""
    environment = {**os.environ, "OMP_NUM_THREADS": _THREADS, "PYTHONUNBUFFERED": "1"}
    running = {}
    for name, command in commands.items():
        with (logs / f"{name}.log").open("a", encoding="utf-8") as log:
            running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return [name for name, process in running.items() if process.wait()]


def packed(kind: str, folder: Path, output: Path) -> None:
    """Copy the networks of a kind, and put the rest of what is worth keeping into one archive."""
    for network in folder.glob("*.safetensors"):
        shutil.copy(network, output / f"{kind}-{network.name}")
    with tarfile.open(output / f"{kind}.tar.xz", "w:xz") as archive:
        for pattern in KEPT:
            for path in sorted(folder.glob(pattern)):
                archive.add(path, path.relative_to(folder))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.together", description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--base", type=Path, default=Path("runs") / "atlas", help="has a folder for each kind")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS[:3])
    parser.add_argument("--seconds", type=float, default=400, help="to train all networks beside each other")
    parser.add_argument("--rows", default="512", help="test rows")
    parser.add_argument("--parts", nargs="+", default=("train", "see", "measure", "write"))
    parser.add_argument("--output", type=Path, help="where to put what is worth keeping")
    options = parser.parse_args(arguments)
    begin = time.monotonic()

    def command(kind: str, *more: str) -> list[str]:
        folder = str(options.base / kind)
        return [sys.executable, "-m", "experiments.atlas", kind, "--folder", folder, "--rows", options.rows, *more]

    if "train" in options.parts:
        jobs = {
            f"{kind}-{network}": command(
                kind, "--parts", "train", "--networks", network, "--seconds", str(options.seconds)
            )
            for kind in options.kinds
            for network in options.networks
        }
        print(f"failed: {together(jobs, options.base)} after {time.monotonic() - begin:.0f} s", flush=True)
    later = [part for part in options.parts if part != "train"]
    if later:
        jobs = {
            f"{kind}-measure": command(kind, "--parts", *later, "--networks", *options.networks)
            for kind in options.kinds
        }
        print(f"failed: {together(jobs, options.base)} after {time.monotonic() - begin:.0f} s", flush=True)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        for kind in options.kinds:
            packed(kind, options.base / kind, options.output)


if __name__ == "__main__":
    main()
