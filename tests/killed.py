"""A run that is killed again and again, for test_train: prints in what it differs from an uninterrupted one.

    python killed.py FOLDER SEED [causal]

This process never runs torch itself, so that it can be copied (`fork`) for each attempt instead of being started anew.
An attempt dies at a random call of those functions between which something could be lost, before or after it.
"""

import os
import random
import signal
import sys
from pathlib import Path

import torch

from deadly import arm
from unmask import order, size
from unmask.models import transformer as nn
from unmask.models.causal import CausalConfig
from unmask.models.text import Alphabet, Store
from unmask.schedule import Schedule
from unmask.train import EveryStep, Recipe, loop, train
from unmask.train.home import Home
from unmask.train.update import Learner

CONFIG = nn.Config(vocab=3, length=12, width=16, layers=1, readers=1, heads=2, hidden=16, reader_hidden=16)
CAUSAL = CausalConfig(vocab=3, length=12, width=16, layers=1, readers=1, heads=2, hidden=16, reader_hidden=16)
SCHEDULES = tuple(Schedule(size.Even(steps), order.Comb(shift=0)) for steps in (3, 4))
RECIPE = Recipe(steps=30, batch=4, rate=3e-3, muon=5e-3, warmup=5)
EVERY = 7
DEADLY = (
    (Learner, "learn"), (Home, "log"), (Home, "checkpoint"), (torch, "save"), (os, "fsync"), (os, "rename"),
    (os, "replace"),
)  # fmt: skip


def attempt(folder: Path, rng: random.Random | None, causal: bool) -> int:
    """Train in a copy of this process; minus the number of the signal that ended it, or zero."""
    fatal, before = (rng.randrange(1, 50), rng.random() < 0.5) if rng else (None, False)
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    loop._KEPT = 0.02
    arm(DEADLY, fatal, before)
    try:
        config, lessons = (CAUSAL, EveryStep(SCHEDULES, given=0.5)) if causal else (CONFIG, None)
        store = Store.of("ab ba " * 500, Alphabet("ab "))
        model, _ = train(config, store, RECIPE, lessons=lessons, folder=folder, every=EVERY)
        torch.save(model.state_dict(), folder / "result.pt")
        os._exit(0)
    except BaseException as error:
        print(repr(error))
        os._exit(1)


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def main() -> None:
    folder, rng = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    causal = "causal" in sys.argv[3:]
    torch.set_num_threads(1)
    assert attempt(folder / "whole", None, causal) == 0
    kills = 0
    while (code := attempt(folder / "killed", rng if kills < 12 else None, causal)) != 0:
        assert code == -signal.SIGKILL, code
        kills += 1
    # Nothing of torch runs before this point.
    for name in ("result.pt", "checkpoint.pt"):
        one, other = (torch.load(folder / run / name, weights_only=True) for run in ("whole", "killed"))
        for key in one:
            if not same(one[key], other[key]):
                print(f"{name}: {key} differs")
    lines = [
        [line.rsplit(",", 1)[0] for line in (folder / run / "log.csv").read_text().splitlines()]
        for run in ("whole", "killed")
    ]
    if lines[0] != lines[1]:
        print(f"log: {lines}")
    left = sorted(path.name for path in (folder / "killed").iterdir())
    if left != ["checkpoint.pt", "log.csv", "result.pt"]:
        print(f"left: {left}")
    print(f"{kills} kills")


if __name__ == "__main__":
    main()
