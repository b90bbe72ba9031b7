"""Train networks that are causal in the schedule, on characters a–z and space, 256 of them at a time.

    python experiments/causal.py TEXT MIXTURE --folder runs/comb --output DIR --steps 12000 [--minutes 9]

TEXT is text8 (see corpus.py for its splits). MIXTURE says which schedules share every batch (`MIXTURES`):
`left-to-right` is the ordinary autoregressive model, `comb` the built-in one. Writes the model and, at the end of the
run, its bits per character on validation text under each of its schedules, `scores.csv`. Run it again to resume.
"""

import argparse
import math
import time
from dataclasses import asdict, replace
from pathlib import Path

import common
import numpy as np
import torch
from corpus import ALPHABET, LENGTH, splits

from unmask import order, size
from unmask.models.causal import Causal, CausalConfig
from unmask.models.weights import load, save
from unmask.schedule import Schedule
from unmask.train import EveryStep, Recipe, train
from unmask.train.masks import steps_of


def comb(steps: int) -> Schedule:
    return Schedule(size.Even(steps), order.Comb(shift=0))


def periodic(residues: list[int]) -> Schedule:
    return Schedule(size.Even(len(residues)), order.Periodic(residues))


def uneven(segments: int, steps: int) -> Schedule:
    """A comb of more teeth than steps: the last ones, which are easy, two at a time."""
    teeth = size.Even(-(-LENGTH // segments)).sizes(LENGTH).tolist()
    single = 2 * steps - len(teeth)
    pairs = [sum(teeth[at : at + 2]) for at in range(single, len(teeth), 2)]
    return Schedule(size.Explicit(teeth[:single] + pairs), order.Comb(segments, shift=0))


_TRIED = 400  # updates to find out how long one takes

ONE_BY_ONE = Schedule(size.Even(LENGTH), order.Comb(16, shift=0))
LEFT_TO_RIGHT = Schedule(size.Even(LENGTH), order.LeftToRight())
RANDOM = {f"random {steps}": Schedule(size.Even(steps), order.Random()) for steps in (16, 32, 64, LENGTH)}
COMBS = {f"comb {steps}": comb(steps) for steps in (8, 16, 32, 64, 128, 256)}
# Name -> name of a schedule -> the schedule and its share.
MIXTURES: dict[str, dict[str, tuple[Schedule, float]]] = {
    "left-to-right": {"left to right": (LEFT_TO_RIGHT, 1)},
    "three": {name: (COMBS[name], 1) for name in ("comb 16", "comb 32", "comb 64")},
    "comb": {
        "comb 8": (COMBS["comb 8"], 0.3),
        "comb 16": (COMBS["comb 16"], 12),
        "comb 32": (COMBS["comb 32"], 2.5),
        "comb 64": (COMBS["comb 64"], 2.5),
        "comb 128": (COMBS["comb 128"], 0.3),
        "comb 256": (COMBS["comb 256"], 0.3),
        "comb of 16 teeth, one by one": (ONE_BY_ONE, 0.4),
    },
    "random": {name: (schedule, 1) for name, schedule in RANDOM.items()},
    "orders": {
        "comb 16": (COMBS["comb 16"], 1),
        "comb from the right": (periodic(list(range(15, -1, -1))), 1),
        "comb from both sides": (periodic([at // 2 if at % 2 == 0 else 15 - at // 2 for at in range(16)]), 1),
        "spread": (Schedule(size.Even(16), order.Spread()), 1),
        "comb of 20 teeth, the last in pairs": (uneven(13, 16), 1),
        "comb of 24 teeth, the last in pairs": (uneven(11, 16), 1),
    },
}


@torch.no_grad()
def bits(model: Causal, schedule: Schedule, texts: torch.Tensor, batch: int = 256) -> torch.Tensor:
    """Bits per character of each text under a schedule, in one pass."""
    rng = np.random.default_rng(0)
    found = []
    for part in texts.split(batch):
        step = torch.from_numpy(steps_of(schedule, np.ones(part.shape, dtype=np.bool_), rng)).to(part.device)
        loss = torch.nn.functional.cross_entropy(model(part, step).float(), part.flatten(), reduction="none")
        found.append(loss.view(part.shape).double().mean(dim=1) / math.log(2))
    return torch.cat(found).cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("mixture", choices=MIXTURES)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, help="as many updates as fit, in place of --steps")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=2.5e-3)
    parser.add_argument("--muon", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--average", type=float, default=0.999)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--given", type=float, default=0.0, help="share of texts that begin with something given")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--weights", type=Path, help="begin from a trained model")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=640)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    begin = time.monotonic()
    store, valid, _ = splits(options.text)
    print(f"read {len(store):,} characters in {time.monotonic() - begin:.0f} s on {device}", flush=True)
    mixture = MIXTURES[options.mixture]
    schedules, weights = zip(*mixture.values(), strict=True)
    lessons = EveryStep(schedules, weights, options.given)
    recipe = Recipe(
        steps=options.steps, batch=options.batch, rate=options.rate, muon=options.muon, warmup=options.warmup,
        average=options.average, dropout=options.dropout, decay=options.decay,
    )  # fmt: skip
    config = CausalConfig(
        ALPHABET.vocab, LENGTH, layers=options.layers, readers=options.readers, hidden=options.hidden,
        reader_hidden=options.hidden,
    )  # fmt: skip
    if options.seconds:
        # The first updates are compiled and recorded; those after them tell the speed.
        seen: dict[int, float] = {}
        train(
            config, store, replace(recipe, steps=_TRIED), lessons=lessons, device=device,
            compile_model=device == "cuda", every=_TRIED // 4, watch=lambda p: seen.update({p.step: p.seconds}),
        )  # fmt: skip
        each = (seen[_TRIED] - seen[_TRIED // 2]) / (_TRIED // 2)
        recipe = replace(recipe, steps=int((options.seconds - (time.monotonic() - begin)) / each))
        print(f"{1e3 * each:.1f} ms an update: {recipe.steps} updates", flush=True)
    model, progress = train(
        config,
        store,
        recipe,
        lessons=lessons,
        weights=load(options.weights)[0] if options.weights else None,
        folder=options.folder,
        device=device,
        minutes=options.minutes,
        compile_model=device == "cuda",
        every=min(200, max(1, recipe.steps // 10)),
        watch=lambda p: print(
            f"{p.step:>7} {p.loss / math.log(2):.4f} bits  {p.rate:.2e}  {p.seconds:.0f} s", flush=True
        ),
    )
    assert isinstance(model, Causal)
    about = {
        "alphabet": ALPHABET.characters,
        "recipe": asdict(recipe),
        "schedules": {name: [schedule.to_json(), weight] for name, (schedule, weight) in mixture.items()},
        "given": options.given,
        "steps": progress.step,
        "data": "first 70,000,000 characters of text8 (English Wikipedia of 2006, CC BY-SA 3.0 / GFDL)",
    }
    options.output.mkdir(parents=True, exist_ok=True)
    save(model, options.output / f"{options.mixture}.safetensors", about=about)
    if progress.step < recipe.steps:
        return
    texts, learned = (torch.from_numpy(part.even_windows(LENGTH, 1024)).to(device) for part in (valid, store))
    with torch.autocast(device, torch.bfloat16, enabled=False):
        scores = {name: bits(model, schedule, texts) for name, (schedule, _) in mixture.items()}
        for name, (schedule, _) in mixture.items():
            print(f"{name}: {float(bits(model, schedule, learned).mean()):.4f} bits on training text", flush=True)
    rows = [
        {"schedule": name, "bits": float(each.mean()), "error": float(each.std() / len(each) ** 0.5)}
        for name, each in scores.items()
    ]
    for row in rows:
        print(*row.values(), flush=True)
    common.write(options.output / f"{options.mixture}-scores.csv", ("schedule", "bits", "error"), rows)
    print(f"{config.parameters:,} parameters, {progress.step} updates, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
