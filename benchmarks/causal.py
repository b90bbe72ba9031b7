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
    """As many parameters as the other network, of which a layer has 12 width²: five eighths of the depth are layers."""
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


@torch.no_grad()
def measure(case: dict, device: str) -> dict:
    batch, length, steps = case["batch"], case["length"], case["steps"]
    schedule = Schedule(size.Even(steps), order.Comb(shift=0))
    torch.manual_seed(0)
    with torch.device(device):
        body = Body(case["vocab"], case["width"], case["layers"], case["heads"], length).bfloat16()
        head = nn.Linear(case["width"], case["vocab"], bias=False).bfloat16()
    head.weight = nn.Parameter(body.embed.weight[: case["vocab"]])
    tokens = torch.randint(case["vocab"], (batch, length), device=device)
    rows = {}

    def add(name, function, repeat=3):
        seconds, memory = once(function, repeat, device)
        rows[name] = {"seconds": seconds, "gib": memory}

    add("forward", lambda: body(tokens))
    both = Sampler(Headed(body, head, case["vocab"], case["vocab"]), schedule)
    add("blind", lambda: both.run((batch, length), rng=list(range(batch)), device=device))
    parameters = {"both ways": sum(p.numel() for p in body.parameters())}
    del body, head, both
    if device == "cuda":
        torch.cuda.empty_cache()
    shape = causal_shape(case)
    with torch.device(device):
        network = shape.network().bfloat16().eval()
    network.head.weight = nn.Parameter(network.embed.weight[: case["vocab"]])
    parameters["causal"] = sum(p.numel() for p in network.parameters()) - network.head.weight.numel()
    predictor = network.predictor()
    sampler = Sampler(predictor, schedule)
    add("causal", lambda: sampler.run((batch, length), rng=list(range(batch)), device=device))
    step = torch.arange(length, device=device) % steps
    chosen = torch.arange(0, batch * length, max(1, length // 16), device=device)
    add("once", lambda: predictor.stepped(tokens, step.expand(batch, -1), chosen).logits())
    for row in rows.values():
        row["passes"] = row["seconds"] / rows["forward"]["seconds"]
        row["memory_over_blind"] = row["gib"] / rows["blind"]["gib"] if rows["blind"]["gib"] else None
    return {
        **case,
        "parameters": parameters,
        "rows": rows,
        "faster": rows["blind"]["seconds"] / rows["causal"]["seconds"],
    }


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
    print(f"causal: {result['faster']:.1f} times faster than the blind sampler")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
