"""What a step of a block-causal network costs, as a ratio to a full pass: 4,096 tokens in blocks of 32, batch 1.

    python benchmarks/blocks.py [--rounds 5] [--output benchmarks/results/blocks.json] [--tiny]

Both run the same weights, in turns, and the median counts:

    full       one pass over all 4,096 positions without a mask in its attention, the fastest there is: what a step of a
               network that looks both ways costs
    masked     the same with the blocks' mask, as the block-causal network computes a text without a memory
    step       a step in the last block, all blocks before it kept: the longest that a step attends to
    first      the first step of the last block, which also computes the block just finished
    answer     the mean step of a whole answer with 4 steps a block, by the sampler, everything included

A step is what the sampler does: predict, draw, put. On a CPU, and on a GPU if there is one.
"""

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median

import torch

from unmask import order, size
from unmask.models.blocks import BlockCausal, BlockConfig
from unmask.models.transformer import Config, Transformer
from unmask.sample import Sampler
from unmask.schedule import Schedule

WANTED = 0.03
STEPS = 4
REAL = {"vocab": 256, "length": 4096, "width": 256, "heads": 4, "layers": 3, "readers": 1, "hidden": 768, "block": 32}
ON_GPU = {"width": 2048, "heads": 16, "layers": 18, "readers": 6, "hidden": 5632}
TINY = {"vocab": 16, "length": 64, "width": 32, "heads": 2, "layers": 2, "readers": 1, "hidden": 64, "block": 8}


def networks(shape: dict[str, int], device: str) -> tuple[BlockCausal, Transformer]:
    """A block-causal network, and one that looks both ways with the same weights."""
    torch.manual_seed(0)
    shape = shape | {"reader_hidden": shape["hidden"]}
    ours = BlockConfig(**shape).network().eval()
    other = Config(**{name: value for name, value in shape.items() if name != "block"}).network().eval()
    other.load_state_dict(ours.state_dict())
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    return ours.to(device, dtype), other.to(device, dtype)


def now(device: str) -> float:
    """The time at which all work so far is done."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@torch.no_grad()
def measured(shape: dict[str, int], device: str, rounds: int) -> dict[str, float]:
    ours, other = networks(shape, device)
    length, block = shape["length"], shape["block"]
    sampler = Sampler(ours.predictor(), Schedule(size.Even(STEPS), order.Blocks(order.Comb(shift=0), block, start=0)))
    tokens = torch.randint(shape["vocab"], (1, length), device=device)
    last = torch.arange(length, device=device) >= length - block
    rows = torch.arange(length - block // STEPS, length, device=device)
    # All but the last two blocks are given: first the one before the last is written, and then the last.
    open_ = torch.arange(length, device=device) >= length - 2 * block
    blanked = tokens.masked_fill(last[None], ours.config.vocab)
    found: dict[str, list[float]] = {name: [] for name in ("full", "masked", "step", "first")}
    kinds = {
        "full": lambda: other.predictor()(blanked, last[None], rows).logits(),
        "masked": lambda: ours.predictor()(blanked, last[None], rows).logits(),
    }
    for number in range(rounds + 1):
        for name, function in kinds.items():
            start = now(device)
            function()
            if number:
                found[name].append(now(device) - start)
        state = sampler.init(tokens, open_[None], rng=[number])
        for index in range(2 * STEPS):
            start = now(device)
            state, _ = sampler.step(state)
            seconds = now(device) - start
            if number and index >= STEPS:
                found["first" if index == STEPS else "step"].append(seconds)
    result = {name: median(values) for name, values in found.items()}
    start = now(device)
    sampler.run((1, length), rng=[0])
    result["answer"] = (now(device) - start) / (length // block * STEPS)
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5, help="How often each is measured.")
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    options.add_argument("--tiny", action="store_true", help="A small case, to see that it runs.")
    chosen = options.parse_args()
    record: dict[str, object] = {"steps a block": STEPS, "rounds": chosen.rounds}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        shape = TINY if chosen.tiny else REAL | (ON_GPU if device == "cuda" else {})
        machine = torch.cuda.get_device_name() if device == "cuda" else f"{len(os.sched_getaffinity(0))} CPU cores"
        seconds = measured(shape, device, chosen.rounds)
        ratios = {name: round(value / seconds["full"], 5) for name, value in seconds.items()}
        record[device] = {
            "machine": machine, "shape": shape, "load": round(os.getloadavg()[0], 1),
            "seconds": {name: round(value, 6) for name, value in seconds.items()}, "ratios": ratios,
        }  # fmt: skip
        print(f"{machine}, {shape['length']} tokens in blocks of {shape['block']}; full pass: {seconds['full']:.3f} s")
        for name, ratio in ratios.items():
            print(f"  {name:8} {100 * ratio:7.2f} % of it")
        if not chosen.tiny and max(ratios[name] for name in ("step", "answer")) > WANTED:
            print(f"  a step is to cost at most {100 * WANTED:.0f} %")
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
