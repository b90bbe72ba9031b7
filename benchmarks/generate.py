"""How long it takes to write texts on a CPU: causal in the schedule against both ways. `make bench` prints it.

`unmask generate --count 16 --steps 16` with either built-in model, in turns: the whole command, and the sampler alone
(`Sampler.run`). The floor of the causal one is the matrix products of one pass over the texts, contents and queries,
and nothing else. The least of several counts: whatever else the machine does makes it longer.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from unmask import models
from unmask.models.causal import Causal
from unmask.sample import Sampler
from unmask.schedule import Schedule
from unmask.size import Even
from unmask.words.own import own_order

COUNT, STEPS, TIMES = 16, 16, 5
BAR = 5.0  # times as fast, the sampler alone


def least(work: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """The least seconds of each, all in turns."""
    spent: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(times + 1):
        for name, each in work.items():
            start = time.perf_counter()
            each()
            spent[name].append(time.perf_counter() - start)
    return {name: min(seconds[1:]) for name, seconds in spent.items()}  # the first one warms up


def command(name: str) -> None:
    words = ["generate", "--model", name, "--count", str(COUNT), "--steps", str(STEPS), "--device", "cpu", "--json"]
    subprocess.run([sys.executable, "-m", "unmask.cli", *words], check=True, capture_output=True)


def sampler(model: models.Model) -> Callable[[], object]:
    chosen = Sampler(model.predictor, Schedule(Even(STEPS), own_order(model)))
    return lambda: chosen.run((COUNT, model.length), rng=range(COUNT))


def products(network: Causal, length: int) -> Callable[[], object]:
    """The matrix products of a pass over all texts, as many rows at a time as a step reveals."""
    linear = [part for part in network.modules() if isinstance(part, torch.nn.Linear)]
    rows = {part.in_features: torch.randn(COUNT * length // STEPS, part.in_features) for part in linear}

    @torch.no_grad()
    def run() -> None:
        for _ in range(STEPS):
            for part in linear:
                part(rows[part.in_features])

    return run


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    options.add_argument("--threads", type=int, help="Threads of torch; as many as there are cores by default.")
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
        os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    both = {name: models.load(name) for name in ("builtin", "causal")}
    network = both["causal"].module
    assert isinstance(network, Causal)
    alone = least(
        {name: sampler(model) for name, model in both.items()}
        | {"floor": products(network, both["causal"].length)}, TIMES,
    )  # fmt: skip
    whole = least({name: lambda name=name: command(name) for name in both}, 2)
    ratio, bare = alone["builtin"] / alone["causal"], alone["causal"] / alone["floor"]
    commands = whole["builtin"] / whole["causal"]
    record = {
        "threads": torch.get_num_threads(),
        "count": COUNT,
        "steps": STEPS,
        "sampler": {"seconds": alone, "ratio": ratio, "floor_ratio": bare},
        "command": {"seconds": whole, "ratio": commands},
    }
    words = f"write {COUNT} texts in {STEPS} steps"
    for name, mine, other, share in (
        (f"{words}, causal", alone["causal"], f"products {alone['floor']:.2f} s", bare),
        (f"{words}, times as fast", alone["causal"], f"both ways {alone['builtin']:.2f} s", ratio),
        ("the whole command, times as fast", whole["causal"], f"both ways {whole['builtin']:.2f} s", commands),
    ):
        print(f"{name:<44}{mine:>19.2f} s {other + ' ':>26}{share:>10.2f}")
    if ratio < BAR:
        print(f"The causal model is to be {BAR:g} times as fast.")
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
