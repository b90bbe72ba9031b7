"""What a sampler's step costs over its predictor, on the CPU. `make bench` prints it.

A small transformer with a vocabulary of 32,000 tokens fills 2 sequences of 1,024 in 64 steps. The floor is the
predictor alone, asked for the same rows: hidden states everywhere, log-probabilities on the rows of the step. The
fastest of several steps counts, in processor time on one thread, so that a busy machine measures nobody else.
"""

import time

import torch

from unmask import order, size
from unmask.nn import Config, Transformer
from unmask.sample import Sampler
from unmask.schedule import Schedule

VOCAB, LENGTH, BATCH, STEPS, TAKEN = 32_000, 1024, 2, 64, 6


@torch.no_grad()
def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    predictor = Transformer(Config(VOCAB, LENGTH, width=256, layers=4, heads=4, hidden=672)).eval().predictor()
    sampler = Sampler(predictor, Schedule(size.Even(STEPS), order.Random()))
    state = sampler.init((BATCH, LENGTH), rng=[0, 1])
    state, _ = sampler.step(state)  # warm up
    spent, floor = [], []
    for _ in range(TAKEN):
        start = time.process_time()
        following, step = sampler.step(state)
        spent.append(time.process_time() - start)
        start = time.process_time()
        predictor(state.tokens, state.masked, step.rows).log_probabilities()
        floor.append(time.process_time() - start)
        state = following
    ours, bare = min(spent), min(floor)
    name = f"sampler step L={LENGTH} V={VOCAB} K={STEPS}"
    print(f"{name:<44}{ours * 1e3:>19.1f} ms{f'predictor {bare * 1e3:.1f} ms':>26}{ours / bare:>10.3f}")


if __name__ == "__main__":
    main()
