"""The networks of a kind, and how they are trained.

    both             looks both ways, on uniform masks: the usual masked diffusion model
    both-comb        the same, half of every batch on the masks that combs visit
    causal           causal in the schedule: combs, and a share of random order
    left-to-right    causal in left-to-right order, one token at a time: the ordinary language model

All have about 6 million parameters, those of word pieces 8 million. A run is cut to the time it is given: its first
updates tell how many there will be. Several runs share a GPU by turns (`experiments.atlas.turns`): each compiles while
another learns, so that nobody waits for a compiler, and the time of an update is that of a GPU of its own.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
import torch
from experiments.atlas import files, owners
from experiments.atlas.kind import Data, Kind
from experiments.atlas.lessons import Combination, CombMasks, UniformAnswers
from experiments.atlas.measuring import causal_rules, compared, left_to_right
from experiments.atlas.rules import Rule, comb
from experiments.atlas.turns import ALONE, Turns

from unmask import InputError, order, size
from unmask import _check as check
from unmask import load as load_model
from unmask._atomic import replacing
from unmask.models import CHECKPOINT
from unmask.models.base import fingerprint
from unmask.models.causal import CausalConfig
from unmask.models.shape import Network, Shape
from unmask.models.text import Store
from unmask.models.transformer import Config
from unmask.models.weights import save
from unmask.schedule import Schedule
from unmask.train import Lessons, Progress, Recipe, train

_TOKENS = 131_072  # of a batch
_WARM = 20  # updates in which everything is compiled and recorded
_TRIED = 80  # updates to find out how long one takes, those included
_SPARE = 0.95  # of the time: the first updates may be faster than the rest
_PATIENCE = 1.15  # a run that is slower than it was tried stops after so much of its time, to be resumed


def _both_ways(kind: Kind) -> Shape:
    width = kind.width
    return Config(kind.vocab, kind.length, width, hidden=2 * width, reader_hidden=29 * width // 8)


def _in_the_schedule(kind: Kind) -> Shape:
    width, hidden = kind.width, 5 * kind.width // 2
    return CausalConfig(kind.vocab, kind.length, width, layers=5, readers=3, hidden=hidden, reader_hidden=hidden)


def _combs_and_random(kind: Kind, budgets: Sequence[int]) -> Lessons:
    parts = [(comb(kind, shift=0), steps, 1.0) for steps in budgets]
    random = [(order.Random(), steps, 0.25) for steps in budgets]
    return Combination(kind, (*parts, *random))


@final
@dataclass(frozen=True)
class Taught:
    """One network: how it is made, and what is measured of it.

    Attributes:
        name: As on the command line; `experiments.common` has what readers call it.
        shape: Its shape for a kind.
        lessons: What it learns of a kind, in schedules of so many steps.
        rules: What is measured of it, for a kind and so many tokens to fill at most. None for the network of which all
            rules are measured: those of the list, and those that are chosen from its own curves and calibration.
    """

    name: str
    shape: Callable[[Kind], Shape]
    lessons: Callable[[Kind, Sequence[int]], Lessons]
    rules: Callable[[Kind, int], list[Rule]] | None

    @property
    def both_ways(self) -> bool:
        """Whether it looks both ways."""
        return self.shape is _both_ways


# In the order in which they are trained, and stand in the files of results.
TAUGHT = {
    each.name: each
    for each in (
        Taught("both", _both_ways, lambda kind, budgets: UniformAnswers(kind), rules=None),
        Taught(
            "causal", _in_the_schedule, _combs_and_random,
            lambda kind, count: [*causal_rules(kind, count), left_to_right(count)],
        ),
        Taught(
            "left-to-right", _in_the_schedule,
            lambda kind, budgets: Combination(kind, ((order.LeftToRight(), kind.length, 1.0),)),
            lambda kind, count: [left_to_right(count)],
        ),
        Taught("both-comb", _both_ways, lambda kind, budgets: CombMasks(kind, tuple(budgets)), compared),
    )
}  # fmt: skip
NETWORKS = tuple(TAUGHT)
BOTH = tuple(name for name, each in TAUGHT.items() if each.both_ways)  # those that look both ways


def shape_of(kind: Kind, network: str) -> Shape:
    """The shape of a network of that name."""
    return TAUGHT[network].shape(kind)


def lessons_of(kind: Kind, network: str, count: int) -> Lessons:
    """What it learns, for texts with so many tokens to fill at most."""
    return TAUGHT[network].lessons(kind, kind.settings.budgets(count))


def recipe_of(kind: Kind, updates: int, tokens: int = _TOKENS) -> Recipe:
    """How to train, in so many updates of about so many tokens.

    Raises:
        InputError: if a number is below 1.
    """
    check.integer("updates", updates, least=1)
    check.integer("tokens", tokens, least=1)
    batch = tokens // kind.length
    batch = batch // 64 * 64 if batch >= 64 else max(2, batch)  # multiples of 64 for a GPU; few to try things
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
    tokens: int = _TOKENS, turns: Turns = ALONE, compiled: bool = False, say: Callable[[str], object] = print,
) -> Path:  # fmt: skip
    """Train a network, unless its file is there; the file, which is missing if the time was over before the end.

    Arguments:
        kind: The kind.
        network: One of `NETWORKS`.
        data: Its data.
        folder: Where the run and its result are kept.
        seconds: How long it may learn; compiling takes a minute more.
        updates: How many updates; as many as the time allows by default.
        tokens: Tokens of an update.
        turns: When it may use the GPU.
        compiled: Whether a CPU compiles it too.
        say: Takes a line now and then.
    """
    result = owners.weights(folder, network)
    if result.exists():
        return result
    if network in kind.shipped and updates is None:
        model = load_model(kind.shipped[network])
        save(model.module, result, about={**model.about, "kind": kind.name})  # pyright: ignore[reportArgumentType]
        return result
    begin = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    lessons = lessons_of(kind, network, int(data.valid.hidden.sum(axis=1).max()))
    home = folder / f"{network}-run"
    learn = partial(
        train, shape_of(kind, network), store_of(data),
        lessons=lessons, device=device, compile_model=compiled or device == "cuda",
    )  # fmt: skip
    kept = home / "updates.txt"  # a run that goes on has as many as it began with
    if updates is None and kept.exists():
        with files.intact(kept):
            updates = check.integer("updates", int(kept.read_text(encoding="utf-8")), least=1)
    if updates is None:
        each = _seconds_of_an_update(learn, recipe_of(kind, _TRIED, tokens), turns)
        if each is None:
            say(f"{kind.name} {network}: its turn did not come; run it again.")
            return result
        updates = max(_TRIED, int(_SPARE * seconds / each))
        say(f"{kind.name} {network}: {1e3 * each:.1f} ms an update, {updates} updates")
    recipe = recipe_of(kind, updates, tokens)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / CHECKPOINT).exists():  # with another number than it began with, a run is refused, and goes on later
        with replacing(kept) as temporary:
            temporary.write_text(str(updates), encoding="utf-8")

    def watched(progress: Progress) -> None:
        bits = progress.loss / math.log(2)
        say(f"{kind.name} {network} {progress.step:>6} of {updates}  {bits:.4f} bits  {progress.seconds:.0f} s")

    with turns.turn(after=min(_WARM, updates), most=_PATIENCE * seconds) as over:
        model, progress = learn(recipe, folder=home, stop=over, every=max(1, updates // 20), watch=watched)
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
    return result


def _seconds_of_an_update(learn: Callable[..., object], recipe: Recipe, turns: Turns) -> float | None:
    """How long an update takes once everything is compiled and recorded; None if the turn did not come."""
    marks: list[float] = []
    with turns.turn(after=_WARM) as over:

        def stop() -> bool:
            ended = over()
            if over.begun is not None:
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                marks.append(time.monotonic())
            return ended

        learn(recipe, stop=stop, every=_TRIED)
    return (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else None


def loaded(path: Path, device: str) -> Network:
    """A trained network there."""
    return files.network(path)[0].to(device)


def owning(kind: Kind, folder: Path, network: str, device: str, say: Callable[[str], object]) -> Network:
    """A trained network, to be measured: from now on the results of its name in its folder are its own.

    Those of other weights are set aside. How it was trained is kept with its results, for whoever has them alone.

    Raises:
        InputError: if it is not there, or there are results that nobody recorded.
    """
    path = owners.weights(folder, network)
    if not path.exists():
        raise untrained(kind, folder, network)
    model, about = files.network(path)
    owners.claim(folder, network, fingerprint(model), say)
    kept = recipe_file(folder, network)
    if "recipe" in about and not kept.exists():
        with replacing(kept) as temporary:
            temporary.write_text(json.dumps(about["recipe"]), encoding="utf-8")
    return model.to(device)


def recipe_file(folder: Path, network: str) -> Path:
    """The file that says how a network was trained that was measured."""
    return folder / f"recipe-{network}.json"


def untrained(kind: Kind, folder: Path, network: str) -> InputError:
    """What is said of a network whose weights are needed and missing."""
    train = f"python -m experiments.atlas {kind.name} --parts train --networks {network}"
    remedy = f"Train it with: {train}."
    if owners.kept(folder, network):
        again = "Once new weights are measured, the results of the old ones are set aside."
        remedy = f"Bring its weights back, or train it again: {train}. {again}"
    detail = f"but there is no '{owners.weights(folder, network)}'"
    return InputError("folder", f"hold the network '{network}'", detail=detail, remedy=remedy)
