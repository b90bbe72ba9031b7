"""Four commands in a row, each killed again and again, for test_cli_data: prints what differs from one that was not.

    python killed_commands.py FOLDER MODEL SEED

This process never runs torch itself, so that it can be copied (`fork`) for each attempt instead of being started anew.
An attempt dies at a random call of those functions between which something could be lost, before or after it.
"""

import importlib
import json
import os
import random
import signal
import sys
from pathlib import Path

from deadly import arm
from unmask.calibration import Calibration, series
from unmask.cli import main as unmask
from unmask.evaluate import comparison
from unmask.sample import Sampler
from unmask.words import answers
from unmask.words.unfinished import Unfinished

DEADLY = (
    (Sampler, "fill"), (Unfinished, "add"), (Unfinished, "remove"), (Calibration, "save"), (series, "measure"),
    (comparison, "compare"), (os, "fsync"), (os, "replace"),
)  # fmt: skip


def attempt(line: list[str], fatal: int | None = None, before: bool = False) -> int:
    """Run a command in a copy of this process; minus the number of the signal that ended it, or its exit code."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    import torch

    torch.set_num_threads(1)
    answers._CHUNK = 2
    arm(DEADLY, fatal, before)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        unmask(line, prog_name="unmask")
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    os._exit(99)


def finished(output: Path) -> list[str]:
    """What is on the disk of a file that may not be complete: its rows, or the orders of a calibration."""
    part = output.with_name(f".{output.name}.part")
    if part.exists():
        return [line for line in part.read_text().split("\n")[1:-1] if line]
    if not output.exists():
        return []
    return list(json.loads(output.read_text())["losses"]) if output.name == "c.json" else [output.read_text()]


def lines(folder: Path, model: str) -> dict[str, list[str]]:
    of = ["--model", model, "--device", "cpu"]
    rows, prompts = str(folder.parent / "rows.jsonl"), str(folder.parent / "prompts.jsonl")
    orders = ["--orders", "random,comb-2,spread", "--points", "5"]
    schedule = str(folder / "s.json")
    return {
        "c.json": ["calibrate", *of, "--data", rows, *orders],
        "s.json": ["advise", "--calibration", str(folder / "c.json"), "--steps", "3"],
        "out.jsonl": ["generate", *of, "--schedule", schedule, "--data", prompts, "--length", "6"],
        "costs.csv": ["evaluate", *of, "--schedule", schedule, "--data", rows, "--order", "random", "--size", "even",
                      "--steps", "2,4"],
    }  # fmt: skip


def main() -> None:
    folder, model, rng = Path(sys.argv[1]), sys.argv[2], random.Random(int(sys.argv[3]))
    whole, killed = folder / "whole", folder / "killed"
    if model.startswith("hf:"):  # the copies then need not load it, which takes seconds
        library = importlib.import_module("transformers")
        for name in ("AutoModelForMaskedLM", "AutoTokenizer", "BertForMaskedLM", "PreTrainedTokenizerFast"):
            getattr(library, name)
    whole.mkdir()
    killed.mkdir()
    kills = 0
    for name in lines(whole, model):
        option = "--save" if name == "s.json" else "--output"
        assert attempt([*lines(whole, model)[name], option, str(whole / name)]) == 0
        line, kept = [*lines(killed, model)[name], option, str(killed / name)], list[str]()
        for tried in range(100):
            before = rng.random() < 0.5
            fatal = 1 if not tried else rng.randrange(2, 9) if tried < 6 else None
            code = attempt(line, fatal, before)
            now = finished(killed / name)
            if code == 0:
                break
            assert code == -signal.SIGKILL, code
            kills += 1
            if now[: len(kept)] != kept and not (killed / name).exists():
                print(f"{name}: lost {kept} and has {now}")
            kept = now
        # Rows of costs name the file of their schedule.
        found = (killed / name).read_bytes().replace(os.fsencode(killed), os.fsencode(whole))
        if found != (whole / name).read_bytes():
            print(f"{name} differs")
    left = sorted(path.name for path in killed.iterdir())
    if left != sorted(lines(killed, model)):
        print(f"left: {left}")
    print(f"{kills} kills")


if __name__ == "__main__":
    main()
