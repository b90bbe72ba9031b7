"""What a sampler's step costs over the bare forward pass, on one GPU.

    python benchmarks/gpu.py [--output FILE]

Two models with random weights in bfloat16: the large case (1.3B parameters, vocabulary 126,464, 8 sequences of 1,024
tokens, 64 steps) and the small one (12 layers of 768, vocabulary 50,258, 32 sequences). For each, seconds and peak
memory of

    forward       the bare pass to hidden states, over the states of a whole run: the floor
    blind         a step of the blind sampler: forward, head on the revealed rows, draw
    generate      the same of a whole call, from seeds to the finished texts on the host
    confidence    a step with an order that reads every masked position (margin and entropy likewise), averaged over the
                  run from all masked to none
    published     head on all positions, float64 noise over everything, one loop per row: how it is commonly written

as ratios to the floor. What the orders read of the logits is first compared with its definition in float64. The blind
loop also runs under torch's synchronisation check, which raises at any wait: with all
masked, and with prompts of different lengths for a model whose mask is a token of its vocabulary.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

from unmask import order, size
from unmask.predict import Headed
from unmask.sample import Sampler
from unmask.schedule import Schedule


class Block(nn.Module):
    """A plain bidirectional transformer layer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).unbind(2)
        mixed = nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Body(nn.Module):
    def __init__(self, vocab: int, width: int, layers: int, heads: int, length: int):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab + 1, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place.weight
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


CASES = {
    "large": {"vocab": 126_464, "width": 2048, "layers": 20, "heads": 16, "batch": 8, "length": 1024, "steps": 64},
    "small": {"vocab": 50_258, "width": 768, "layers": 12, "heads": 12, "batch": 32, "length": 1024, "steps": 64},
}


def timed(function, repeat: int) -> tuple[float, float]:
    """Median seconds over the repeats, and peak memory in GiB of one call."""
    function()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    memory = torch.cuda.max_memory_allocated() / 2**30
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2], memory


def published_step(body, head, tokens, mask, count):
    """The common way to write a step: everything everywhere, in float64, row by row."""
    logits = head(body(tokens))
    noise = torch.rand_like(logits, dtype=torch.float64)
    drawn = torch.argmax(logits.double().exp() / (-torch.log(noise)), dim=-1)
    chance = torch.softmax(logits.double(), dim=-1)
    confidence = torch.gather(chance, -1, drawn[..., None])[..., 0].masked_fill(tokens != mask, -torch.inf)
    for row in range(tokens.shape[0]):
        where = confidence[row].topk(count).indices
        tokens[row, where] = drawn[row, where]
    return tokens


@torch.no_grad()
def measure(name: str) -> dict:
    case = CASES[name]
    vocab, batch, length, steps = (case[key] for key in ("vocab", "batch", "length", "steps"))
    torch.manual_seed(0)
    with torch.device("cuda"):
        body = Body(vocab, case["width"], case["layers"], case["heads"], length).bfloat16()
        head = nn.Linear(case["width"], vocab, bias=False).bfloat16()
    head.weight = nn.Parameter(body.embed.weight[:vocab])  # tied, as in most models of this size
    predictor = Headed(body, head, vocab, vocab)
    parameters = sum(p.numel() for p in body.parameters())
    mixed = torch.randint(vocab, (batch, length), device="cuda")
    # The states of a run, as they come: on equal tokens the arithmetic units toggle less and the clock runs higher, and
    # to wait after every pass would slow down the floor alone.
    sampler = Sampler(predictor, Schedule(size.Even(steps), order.Random()))
    state = sampler.init((batch, length), rng=list(range(batch)), device="cuda")
    states = [state.tokens, *(after.tokens for after, _ in sampler.steps(state))][:steps]

    def passes():
        for tokens in states:
            body(tokens)

    floor, floor_memory = timed(passes, 3)
    floor /= steps

    def row_of(seconds, memory):
        return {"seconds": seconds, "gib": memory, "ratio": seconds / floor, "memory_ratio": memory / floor_memory}

    rows = {"forward": row_of(floor, floor_memory)}

    def whole_run(schedule):
        """Seconds per step of a whole run: the plan is drawn and moved before, as a user's call does."""
        sampler = Sampler(predictor, schedule)
        state = sampler.init((batch, length), rng=list(range(batch)), device="cuda")

        def go():
            for _ in sampler.steps(state):
                pass

        seconds, memory = timed(go, 3)
        return row_of(seconds / steps, memory)

    sample = predictor(mixed, mixed >= 0, torch.arange(0, mixed.numel(), 97, device="cuda"))
    chance = torch.softmax(sample.logits().double(), dim=-1)
    top = chance.topk(2, dim=-1).values
    for mine, exact in (
        (sample.confidence, top[:, 0]),
        (sample.margin, top[:, 0] - top[:, 1]),
        (sample.entropy, torch.special.entr(chance).sum(dim=-1)),
    ):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=1e-5)
    del sample, chance, top
    rows["blind"] = whole_run(Schedule(size.Even(steps), order.Random()))
    rows["blind minimax"] = whole_run(Schedule(size.Universal(steps), order.Spread()))
    seconds, memory = timed(lambda: sampler.run((batch, length), rng=list(range(batch)), device="cuda").tokens.cpu(), 3)
    rows["generate"] = row_of(seconds / steps, memory)
    prompts = torch.arange(length, device="cuda") < length // (batch + 1) * torch.arange(batch, device="cuda")[:, None]
    inside = Headed(body, head, vocab, vocab - 1)
    for model, start in (
        (predictor, (batch, length)),
        (inside, torch.full_like(mixed, vocab - 1).masked_fill(prompts, 0)),
    ):
        sampler = Sampler(model, Schedule(size.Even(steps), order.Random()))
        state = sampler.init(start, rng=list(range(batch)), device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        for _ in sampler.steps(state):
            pass
        torch.cuda.set_sync_debug_mode("default")
    for label, kind in (("confidence", order.Confidence()), ("entropy", order.Entropy()), ("margin", order.Margin())):
        rows[label] = whole_run(Schedule(size.Even(steps), kind))
    half = mixed.masked_fill(torch.rand(mixed.shape, device="cuda") < 0.5, vocab)
    try:
        seconds, memory = timed(lambda: published_step(body, head, half.clone(), vocab, length // steps), 3)
        rows["published"] = row_of(seconds, memory)
    except torch.cuda.OutOfMemoryError:
        rows["published"] = {"seconds": None, "gib": None, "ratio": None, "memory_ratio": None}
    return {"case": name, **case, "parameters": parameters, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    result = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": []}
    for name in options.cases:
        case = measure(name)
        torch.cuda.empty_cache()
        result["cases"].append(case)
        print(
            f"{name}: {case['parameters'] / 1e9:.2f}B parameters, vocabulary {case['vocab']}, no wait in the blind loop"
        )
        for label, row in case["rows"].items():
            if row["seconds"] is None:
                print(f"  {label:<16} out of memory")
                continue
            time_part = f"{row['seconds'] * 1e3:9.2f} ms {row['ratio']:7.3f} x"
            print(f"  {label:<16}{time_part} {row['gib']:8.2f} GiB {row['memory_ratio']:7.2f} x")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
