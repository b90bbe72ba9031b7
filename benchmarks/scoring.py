"""How long it takes to score texts under 64 steps: in one pass, by cached steps, and by replay. `make bench` prints it.

Texts of 256 tokens are scored under a comb with even sizes, exactly, in three ways, side by side in one run:

    one pass    a network that is causal in the schedule, all steps at once (`Remembering.stepped`)
    cached      the same network through the sampler, step by step with its cache
    replay      the built-in shape that looks both ways, run anew at every step: what scoring cost before

The networks have the built-in shapes and random weights, on which no speed depends. The ways take turns, a few texts at
a time. On a CPU processor time on one thread counts, so that a busy machine measures nobody else; on a GPU the time on
the clock, which has nobody else on it. The costs of the first two must agree to 1e-4 nats a text. The bar is replay
over one pass: at least 20.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from unmask import order, size
from unmask.evaluate import replay
from unmask.models.causal import CausalConfig
from unmask.models.transformer import Config
from unmask.predict import Counted
from unmask.schedule import Schedule

LENGTH, VOCAB, TURN, BAR = 256, 27, 64, 20.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--texts", type=int, default=8, help="How many texts; 8 by default.")
    options.add_argument("--steps", type=int, default=64)
    options.add_argument("--device", default="cpu")
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    on_gpu = torch.device(chosen.device).type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    if not on_gpu:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    causal = CausalConfig(vocab=VOCAB, length=LENGTH).network().eval().to(chosen.device).predictor()
    both = Config(vocab=VOCAB, length=LENGTH).network().eval().to(chosen.device).predictor()
    # One that alters nothing is still run step by step.
    ways = {"one pass": causal, "cached": Counted(causal), "replay": both}
    schedule = Schedule(size.Even(chosen.steps), order.Comb(shift=0))
    tokens = torch.randint(VOCAB, (chosen.texts, LENGTH), generator=torch.Generator().manual_seed(0))
    for predictor in ways.values():  # the first call of each is slower
        replay(predictor, Schedule(size.Even(2), order.Comb(shift=0)), tokens[:2], rng=0)
    spent, costs, passes = dict.fromkeys(ways, 0.0), {name: list[torch.Tensor]() for name in ways}, {}
    for first in range(0, chosen.texts, TURN):
        some = tokens[first : first + TURN]
        for name, predictor in ways.items():
            start = clock()
            found = replay(predictor, schedule, some, rng=list(range(first, first + len(some))))
            spent[name] += clock() - start  # what it gives is on the host: a GPU is done by then
            costs[name].append(found.nll)
            passes[name] = found.mean_passes
    apart = float((torch.cat(costs["one pass"]) - torch.cat(costs["cached"])).abs().max())
    assert apart < 1e-4, apart
    print(f"{chosen.texts} texts of {LENGTH} tokens at {chosen.steps} steps, {chosen.device}")
    for name, seconds in spent.items():
        ratio = seconds / spent["one pass"]
        counted = f"{passes[name]:.0f} evaluation{'' if passes[name] == 1 else 's'} a text"
        print(f"{name:<12}{counted:<24}{seconds:>10.2f} s {ratio:>10.1f} times one pass")
    print(f"one pass and cached agree to {apart:.1e} nats a text; bar: replay at least {BAR:g} times one pass")
    if chosen.output is not None:
        record = {
            "texts": chosen.texts, "length": LENGTH, "steps": chosen.steps,
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "time": "on the clock" if on_gpu else "of the processor, one thread", "torch": torch.__version__,
            "seconds": {name: round(seconds, 3) for name, seconds in spent.items()},
            "evaluations": passes,
            "replay_over_one_pass": round(spent["replay"] / spent["one pass"], 2),
            "cached_over_one_pass": round(spent["cached"] / spent["one pass"], 2),
            "largest_difference_in_nats": apart,
        }  # fmt: skip
        chosen.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
