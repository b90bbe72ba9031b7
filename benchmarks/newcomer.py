"""How long a newcomer waits: from a clone to a text that moves, to a text of one's own measured, to a model calibrated.

Every line is typed into a shell in a fresh clone, one after the other, as a person would who follows the README (the
two lines about a model of one's own are those of `docs/start.md`, with a small model). What `make demo` takes is mostly
torch being fetched and unpacked.
"""

import argparse
import json
import os
import pty
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
LETTERS = "tr A-Z a-z < README.md | tr -cs a-z ' ' > mine.txt"
LINES = {
    "clone": f"git clone --quiet {ROOT} .",
    "make demo": "make demo",
    "watch a text": "unmask generate --steps 16 --watch",
    "measure a text": f"{LETTERS} && unmask calibrate --text mine.txt --output mine.json",
    "ask for advice": "unmask advise --calibration mine.json --target 0.05",
    "train a model": "unmask train --text mine.txt --output run --length 64 --width 64 --layers 2 --steps 200",
    "calibrate it": "unmask calibrate --model run --text mine.txt --output run.json",
}


def typed(line: str, folder: str) -> float:
    """Seconds that a line takes in a terminal, where progress and moving texts are drawn."""
    start = time.perf_counter()
    inside, outside = pty.openpty()
    # The environment of the clone, if it has one, comes first; nothing of this one is seen.
    path = f"{folder}/.venv/bin:{os.defpath}:{os.environ['PATH']}"
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.Popen(
        ["sh", "-c", line], cwd=folder, env=environment | {"PATH": path, "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=outside, stderr=outside,
    )  # fmt: skip
    os.close(outside)
    shown = b""
    while True:
        try:
            part = os.read(inside, 65536)
        except OSError:  # nobody writes any more
            break
        shown = (shown + part)[-4000:]
        if not part:
            break
    if done.wait():
        raise SystemExit(f"{line}\n{shown.decode(errors='replace')}")
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    seconds, total = {}, 0.0
    with TemporaryDirectory() as folder:
        for name, line in LINES.items():
            seconds[name] = round(typed(line, folder), 1)
            total += seconds[name]
            print(f"{name:28} {seconds[name]:6.1f} s   {total:6.1f} s since the beginning", flush=True)
    if chosen.output:
        about = {"machine": f"{len(os.sched_getaffinity(0))} CPU cores", "load": round(os.getloadavg()[0], 1)}
        chosen.output.write_text(json.dumps({**about, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
