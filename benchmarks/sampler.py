"""What a sampler's step costs over its predictor, on the CPU. `make bench` prints it.

A small transformer with a vocabulary of 32,000 tokens fills 2 sequences of 1,024 in 64 steps. The floor is the
predictor alone, asked for the same rows: hidden states everywhere, log-probabilities on the rows of the step. The
fastest of several steps counts, in processor time on one thread, so that a busy machine measures nobody else.

Then the built-in model writes 16 texts of 256 characters in 16 comb steps on two threads. The floor is the time of its
matrix products alone, each position once per step: their number over the rate of a product of its own shape.

After that, it predicts a third of the characters of texts of mixed lengths in one padded batch. The floor is the same
network on the same batch with letters in place of the padding; beside it, what the texts take one by one.

Last, how many operations of torch a step dispatches beside its predictor (`operations.py`), blind and reactive.
"""

import time

import operations
import torch

from unmask import models, order, size
from unmask.models.transformer import Config, Transformer
from unmask.sample import Sampler
from unmask.schedule import Schedule

VOCAB, LENGTH, BATCH, STEPS, TAKEN = 32_000, 1024, 2, 64, 6


def products(config: Config, positions: int, rows: int) -> float:
    """Multiplications and additions of the matrix products and of attention."""
    width, attention = config.width, 2 * config.length * config.width
    layer = 4 * width**2 + 3 * width * config.hidden + attention
    reader = 2 * width**2 + 3 * width * config.reader_hidden + attention
    return 2.0 * (positions * (config.layers * layer + 2 * width**2) + rows * config.readers * reader)


@torch.no_grad()
def writing(count: int = 16, steps: int = 16) -> None:
    torch.set_num_threads(2)
    model = models.load("builtin")
    config = model.module.config
    sampler = Sampler(model.predictor, Schedule(size.Even(steps), order.Comb()))
    states, weight = torch.randn(1024, config.width), torch.randn(2 * config.hidden, config.width)
    spent, rate = [], []
    for _ in range(3):
        start = time.perf_counter()
        sampler.run((count, config.length), rng=list(range(count)))
        spent.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(50):
            states @ weight.T
        rate.append(50 * 2 * states.numel() * len(weight) / (time.perf_counter() - start))
    # Before the first step all texts are equal, and one is enough.
    positions = ((steps - 1) * count + 1) * config.length
    floor = products(config, positions, count * config.length) / max(rate)
    name = f"{count} texts in {steps} steps, built-in model"
    print(f"{name:<44}{min(spent):>19.2f} s {f'products {floor:.2f} s ':>26}{min(spent) / floor:>10.3f}")


@torch.no_grad()
def mixed(count: int = 32, shortest: int = 20, longest: int = 60, taken: int = 5) -> None:
    torch.set_num_threads(1)
    predictor = models.load("builtin").predictor
    assert predictor.pad is not None
    source = torch.Generator().manual_seed(0)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=source).tolist()
    texts = [torch.randint(predictor.vocab, (length,), generator=source) for length in lengths]
    for text in texts:
        text[::3] = predictor.mask
    padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=predictor.pad)

    def predicted(tokens: torch.Tensor) -> None:
        masked = tokens == predictor.mask
        predictor(tokens, masked, torch.nonzero(masked.flatten())[:, 0]).log_probabilities()

    def one_by_one() -> None:
        for text in texts:
            predicted(text[None])

    full = padded.masked_fill(padded == predictor.pad, 0)
    spent: list[list[float]] = [[], [], []]
    for _ in range(taken):
        for times, work in zip(spent, (lambda: predicted(padded), lambda: predicted(full), one_by_one), strict=True):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
    ours, bare, single = (min(times) * 1e3 for times in spent)
    name = f"{count} texts of {shortest} to {longest} in one batch"
    print(f"{name:<44}{ours:>19.1f} ms{f'unpadded {bare:.1f} ms':>26}{ours / bare:>10.3f}   one by one {single:.1f} ms")


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
    writing()
    mixed()
    operations.main()
