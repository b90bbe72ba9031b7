"""How long `unmask generate` takes alone and beside other work, by how its threads wait for one another.

The other work is as many busy processes as there are cores, as another program that computes would be. Both ways of
waiting are measured in turns, so that a change of the machine's load meets both alike, and the median counts.

    python benchmarks/threads.py [--rounds 5] [--output benchmarks/results/threads.json]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

# What is set for each way: nothing is what the library chooses by itself.
WAYS = {
    "ours: look, then sleep": {},
    "sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
    "torch's: look for long": {"GOMP_SPINCOUNT": "300000"},  # what GNU's OpenMP does where nothing is set
}
COMMAND = ("generate", "--count", "2", "--steps", "16", "--device", "cpu", "--json")
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # it ends with this program


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that do nothing but compute."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def timed(way: str) -> dict[str, float]:
    """Seconds and seconds of processors that one command takes."""
    bare = {name: value for name, value in os.environ.items() if name.split("_")[0] not in ("OMP", "GOMP", "KMP")}
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "unmask.cli", *COMMAND],
        env=bare | WAYS[way],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": time.perf_counter() - start, "cpu": spent}


def measured(rounds: int) -> dict[str, dict[str, float]]:
    found = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            found[way].append(timed(way))
    return {
        way: {key: round(median(each[key] for each in runs), 2) for key in ("seconds", "cpu")}
        for way, runs in found.items()
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5, help="Runs of each kind.")
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    cores = len(os.sched_getaffinity(0))
    timed(next(iter(WAYS)))  # files are read into the cache of the system
    record: dict[str, object] = {"cores": cores, "load": round(os.getloadavg()[0], 1), "rounds": chosen.rounds}
    record["command"] = " ".join(("unmask", *COMMAND))
    for beside in (0, cores):
        with busy(beside):
            found = measured(chosen.rounds)
        name = "alone" if beside == 0 else f"beside {beside} busy processes"
        record[name] = found
        for way, numbers in found.items():
            ratio = numbers["seconds"] / next(iter(found.values()))["seconds"]
            print(f"{name:<28}{way:<26}{numbers['seconds']:>8.2f} s {numbers['cpu']:>8.2f} s of CPU {ratio:>8.2f}")
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
