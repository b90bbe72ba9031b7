"""The networks of a kind, and how they are trained.

    both             looks both ways, on uniform masks: the usual masked diffusion model
    both-comb        the same, half of every batch on the masks that combs visit
    causal           causal in the schedule: combs, and a share of random order
    left-to-right    causal in left-to-right order, one token at a time: the ordinary language model

All have about 6 million parameters and are trained for as long as each other. A run is cut to the time it is given:
its first updates tell how many there will be.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from experiments.atlas.kind import Data, Kind
from experiments.atlas.lessons import Combination, CombMasks, UniformAnswers
from experiments.atlas.rules import budgets, comb

from unmask import order, size
from unmask.models.causal import CausalConfig
from unmask.models.shape import Network, Shape
from unmask.models.text import Store
from unmask.models.transformer import Config
from unmask.models.weights import load, save
from unmask.schedule import Schedule
from unmask.train import Lessons, Progress, Recipe, train

NETWORKS = ("both", "causal", "left-to-right", "both-comb")
_TOKENS = 131_072  # of a batch
_TRIED = 200  # updates to find out how long one takes
_SPARE = 0.92  # of the time: the first updates may be faster than the rest


def shape_of(kind: Kind, network: str) -> Shape:
    """The shape of a network of that name."""
    width = kind.width
    if network.startswith("both"):
        return Config(kind.vocab, kind.length, width, hidden=2 * width, reader_hidden=29 * width // 8)
    hidden = 5 * width // 2
    return CausalConfig(kind.vocab, kind.length, width, layers=5, readers=3, hidden=hidden, reader_hidden=hidden)


def lessons_of(kind: Kind, network: str, count: int) -> Lessons:
    """What it learns, for texts with so many tokens to fill at most."""
    steps = budgets(count)
    if network == "both":
        return UniformAnswers(kind)
    if network == "both-comb":
        return CombMasks(kind, tuple(steps))
    if network == "left-to-right":
        return Combination(kind, ((order.LeftToRight(), kind.length, 1.0),))
    parts = [(comb(kind, shift=0), each, 1.0) for each in steps]
    random = [(order.Random(), each, 0.25) for each in steps]
    return Combination(kind, (*parts, *random))


def recipe_of(kind: Kind, updates: int, tokens: int = _TOKENS) -> Recipe:
    """How to train, in so many updates of about so many tokens."""
    batch = max(64, tokens // kind.length // 64 * 64)
    warmup = min(300, max(1, updates // 10))
    return Recipe(steps=updates, batch=batch, rate=3e-3, muon=5e-3, warmup=warmup, average=0.998)


def store_of(data: Data) -> Store:
    """What is learned, as training takes it."""
    if data.train.ndim == 1:
        return Store(data.train)
    count, length = data.train.shape
    return Store(data.train.reshape(-1), np.arange(1, count + 1, dtype=np.int64) * length)


def trained(
    kind: Kind, network: str, data: Data, folder: Path, *, seconds: float, updates: int | None = None,
    tokens: int = _TOKENS, say: Callable[[str], object] = print,
) -> Path:  # fmt: skip
    """Train a network, unless its file is there; the file, which is missing if the time was over before the end.

    Arguments:
        kind: The kind.
        network: One of `NETWORKS`.
        data: Its data.
        folder: Where the run and its result are kept.
        seconds: How long it may take.
        updates: How many updates; as many as the time allows by default.
        tokens: Tokens of an update.
        say: Takes a line now and then.
    """
    result = folder / f"{network}.safetensors"
    if result.exists():
        return result
    begin = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    lessons = lessons_of(kind, network, int(data.valid.hidden.sum(axis=1).max()))
    home = folder / f"{network}-run"
    home.mkdir(parents=True, exist_ok=True)
    learn = partial(
        train, shape_of(kind, network), store_of(data), lessons=lessons, device=device, compile_model=device == "cuda"
    )
    kept = home / "updates.txt"  # a run that goes on has as many as it began with
    if updates is None and kept.exists():
        updates = int(kept.read_text())
    if updates is None:
        each = _seconds_of_an_update(learn, recipe_of(kind, _TRIED, tokens))
        spent = time.monotonic() - begin
        updates = max(_TRIED, int(_SPARE * (seconds - 1.5 * spent) / each))
        say(f"{kind.name} {network}: {1e3 * each:.1f} ms an update, {spent:.0f} s so far, {updates} updates")
    kept.write_text(str(updates))

    def watched(progress: Progress) -> None:
        bits = progress.loss / math.log(2)
        say(f"{kind.name} {network} {progress.step:>6} of {updates}  {bits:.4f} bits  {progress.seconds:.0f} s")

    left = max(1.0, 1.1 * seconds - (time.monotonic() - begin))
    recipe = recipe_of(kind, updates, tokens)
    model, progress = learn(recipe, folder=home, minutes=left / 60, every=max(1, updates // 20), watch=watched)
    if progress.step < updates:
        say(f"{kind.name} {network}: the time was over after {progress.step} of {updates} updates; run it again.")
        return result
    about: dict[str, object] = {"kind": kind.name, **kind.alphabet(folder), "recipe": asdict(recipe)}
    if isinstance(lessons, Combination):
        about["schedules"] = {
            f"{type(which).__name__} {steps}": [Schedule(size.Even(steps), which).to_json(), share]
            for which, steps, share in lessons.parts
        }
    about |= {
        "seconds": round(time.monotonic() - begin),
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
    }
    save(model, result, about=about)
    for stale in ("costs.npz", "seen.json", f"calibration-{network}.json", f"texts-{network}.npz"):
        (folder / stale).unlink(missing_ok=True)  # of a network that was here before
    return result


def _seconds_of_an_update(learn: Callable[..., object], recipe: Recipe) -> float:
    """How long an update takes once everything is compiled and recorded."""
    seen: dict[int, float] = {}
    learn(recipe, every=_TRIED // 4, watch=lambda progress: seen.update({progress.step: progress.seconds}))
    return (seen[_TRIED] - seen[_TRIED // 2]) / (_TRIED // 2)


def loaded(path: Path, device: str) -> Network:
    """A trained network there."""
    return load(path)[0].to(device)
