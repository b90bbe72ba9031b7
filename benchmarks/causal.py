"""A network that is causal in the schedule against one that looks both ways: a whole generation, on one GPU.

    python benchmarks/causal.py [--output FILE] [--tiny]

Both have random weights in bfloat16 and about 1.3B parameters, with 8 sequences of 1,024 tokens in 64 steps. Compared
are

    forward    the bare pass of the network that looks both ways over the batch: the floor of one of its steps
    blind      today's blind sampler on it, a whole run
    causal     the same run of the causal network, from an empty memory to the finished tokens
    once       one pass of the causal network over finished texts: the exact likelihood under all 64 steps

in seconds and peak memory, as ratios to the bare pass and to the blind sampler. `--tiny` is a small case for any
machine, to see that it runs.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from gpu import CASES, Body, timed
from torch import nn

from unmask import order, size
from unmask.models.causal import CausalConfig
from unmask.predict import Headed
from unmask.sample import Sampler
from unmask.schedule import Schedule

TINY = {"vocab": 50, "width": 32, "layers": 2, "heads": 2, "batch": 2, "length": 64, "steps": 8}


def causal_shape(case: dict) -> CausalConfig:
    """About as many parameters as the other network, whose layers have 12 width² each."""
    readers = max(1, case["layers"] * 3 // 8)
    width = case["width"]
    hidden = width * 11 // 4 // 16 * 16
    return CausalConfig(
        case["vocab"], case["length"], width=width, layers=case["layers"] - readers, readers=readers,
        heads=case["heads"], hidden=hidden, reader_hidden=hidden,
    )  # fmt: skip


def once(function, repeat: int, device: str) -> tuple[float, float]:
    if device == "cuda":
        return timed(function, repeat)
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start, 0.0


def measured(function, device: str) -> dict:
    seconds, memory = once(function, 3, device)
    return {"seconds": seconds, "gib": memory}


def both_ways(case: dict, schedule: Schedule, tokens: torch.Tensor, device: str) -> tuple[dict, int]:
    """The bare pass and the blind sampler of a network that looks both ways, and its parameters."""
    with torch.device(device):
        body = Body(case["vocab"], case["width"], case["layers"], case["heads"], case["length"]).bfloat16()
        head = nn.Linear(case["width"], case["vocab"], bias=False).bfloat16()
    head.weight = nn.Parameter(body.embed.weight[: case["vocab"]])
    sampler = Sampler(Headed(body, head, case["vocab"], case["vocab"]), schedule)
    rows = {
        "forward": measured(lambda: body(tokens), device),
        "blind": measured(
            lambda: sampler.run(tuple(tokens.shape), rng=list(range(len(tokens))), device=device), device
        ),
    }
    return rows, sum(p.numel() for p in body.parameters())


def causal(case: dict, schedule: Schedule, tokens: torch.Tensor, device: str) -> tuple[dict, int]:
    """A whole generation and one pass of scoring of a causal network, and its parameters."""
    with torch.device(device):
        network = causal_shape(case).network().bfloat16().eval()
    network.head.weight = nn.Parameter(network.embed.weight[: case["vocab"]])
    predictor = network.predictor()
    sampler = Sampler(predictor, schedule)
    step = (torch.arange(case["length"], device=device) % case["steps"]).expand(tokens.shape)
    some = torch.arange(0, tokens.numel(), max(1, case["length"] // 16), device=device)
    rows = {
        "causal": measured(
            lambda: sampler.run(tuple(tokens.shape), rng=list(range(len(tokens))), device=device), device
        ),
        "once": measured(lambda: predictor.stepped(tokens, step, some).logits(), device),
    }
    return rows, sum(p.numel() for p in network.parameters()) - network.head.weight.numel()


@torch.no_grad()
def measure(case: dict, device: str) -> dict:
    schedule = Schedule(size.Even(case["steps"]), order.Comb(shift=0))
    torch.manual_seed(0)
    tokens = torch.randint(case["vocab"], (case["batch"], case["length"]), device=device)
    rows, parameters = {}, {}
    for name, function in (("both ways", both_ways), ("causal", causal)):
        found, parameters[name] = function(case, schedule, tokens, device)
        rows |= found
        if device == "cuda":
            torch.cuda.empty_cache()
    for row in rows.values():
        row["passes"] = row["seconds"] / rows["forward"]["seconds"]
        row["memory_over_blind"] = row["gib"] / rows["blind"]["gib"] if rows["blind"]["gib"] else None
    faster = rows["blind"]["seconds"] / rows["causal"]["seconds"]
    return {**case, "parameters": parameters, "rows": rows, "faster": faster}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = measure(TINY if options.tiny else CASES["large"], device)
    result["machine"] = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    for name, row in result["rows"].items():
        print(f"{name:<10} {row['seconds'] * 1e3:9.1f} ms {row['passes']:7.2f} bare passes {row['gib']:7.2f} GiB")
    print(f"causal: {result['faster']:.1f} times as fast as the blind sampler")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
