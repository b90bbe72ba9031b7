"""Training: the masked-diffusion objective of the paper, and a loop that can be killed at any moment.

An update of a network that looks both ways masks a random set of each sequence and predicts it; the loss of a sequence
with masked set `M` is

    (1/L) · L/|M| · Σ_{i∈M} −log p̂_i(x_i | x_{not M}),

whose mean is the paper's objective per token. A network that is causal in a schedule predicts every token from those of
earlier steps at once, which is the same mean with the step taken exactly (`unmask.train.masks`).

Everything random in step `t` comes from `(seed, t, rank)`, so a run that resumes from a checkpoint repeats, bit for
bit on a CPU, what an uninterrupted one does: weights, optimisers, and the lines of its log (`unmask.train.home`).
"""

import copy
import math
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models._layers import drop_out
from unmask.models.causal import CausalConfig
from unmask.models.shape import Network, Shape
from unmask.models.text import Store
from unmask.models.weights import LARGEST
from unmask.train.home import Home, Progress, Snapshot
from unmask.train.masks import Lessons, Masks, Steps, UniformMasks
from unmask.train.memory import check_fit
from unmask.train.muon import Muon
from unmask.train.update import Batch, Learner, Plain, Recorded

T = TypeVar("T")

_GLANCE = 5.0  # seconds after which whoever watches is told again, however slow the updates
_MAKERS = 4  # threads that make batches, at most
_KEPT = 60.0  # seconds after which a checkpoint is due


@final
@dataclass(frozen=True)
class Recipe:
    """How to train.

    Arguments:
        steps: Updates in all.
        batch: Sequences per update, over all devices.
        rate: Peak learning rate of AdamW; warmed up linearly, then a cosine down to zero.
        muon: Peak learning rate of Muon for the matrices inside the layers; AdamW trains them too if it is None.
        warmup: Updates of warm-up.
        decay: Weight decay of matrices.
        average: Decay of the exponential moving average of the weights that is kept as the result.
        clip: Largest gradient norm.
        dropout: Share of what every part of a layer adds that is left out at random, against overfitting.
        seed: Seeds the initial weights and every step.
    """

    steps: int
    batch: int = 256
    rate: float = 2e-3
    muon: float | None = None
    warmup: int = 500
    decay: float = 0.05
    average: float = 0.999
    clip: float = 1.0
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self):
        check.integer("steps", self.steps, least=1)
        check.integer("batch", self.batch, least=1)
        check.real("rate", self.rate, above=0.0)
        if self.muon is not None:
            check.real("muon", self.muon, above=0.0)
        check.integer("warmup", self.warmup, least=0)
        check.real("decay", self.decay, least=0.0)
        if check.real("average", self.average, least=0.0) >= 1:
            raise check.InputError("average", "be below 1", found=f"{self.average:g}")
        check.real("clip", self.clip, above=0.0)
        if check.real("dropout", self.dropout, least=0.0) >= 1:
            raise check.InputError("dropout", "be below 1", found=f"{self.dropout:g}")
        check.seed("seed", self.seed)


def train(
    config: Shape,
    store: Store,
    recipe: Recipe,
    *,
    lessons: Lessons | None = None,
    weights: Network | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    every: int = 500,
    minutes: float | None = None,
    stop: Callable[[], bool] | None = None,
    compile_model: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Network, Progress]:
    """Train a network; resume if `folder` holds a checkpoint of the same run.

    Arguments:
        config: Shape of the model.
        store: Training text.
        recipe: How to train.
        lessons: What is predicted from what: masks for a network that looks both ways, uniform ones by default; and
            every step of a schedule for one that is causal in it.
        weights: A model of the same shape to begin from; fresh weights by default.
        folder: Where to keep `checkpoint.pt` and `log.csv`; nothing is kept without it.
        device: Where to run. Under `torchrun` each process takes its share of the batch (DDP).
        every: Updates between log lines; checkpoints are ten times as rare, but at least one a minute.
        minutes: Stop after this long (with a checkpoint), to be resumed later.
        stop: Asked after every update whether to stop likewise.
        compile_model: Use `torch.compile`, and on one GPU replay recorded updates (`unmask.train.update`).
        watch: Called with every log line, and every few seconds where those are rare.

    Returns:
        The averaged model and where the run stands.

    Raises:
        InputError: if the run cannot fit into memory, another process trains in the folder, or it holds another run;
            or if the loss is not a number: the last checkpoint is kept.
    """
    lessons = _fitting(config, lessons)
    check.integer("every", every, least=1)
    world, rank = _world()
    if recipe.batch % world:
        raise check.InputError("batch", f"be a multiple of {world}, the number of processes", found=f"{recipe.batch}")
    device = torch.device(device)
    if weights is not None and weights.config != config:
        raise check.InputError("weights", f"have the shape {config}", found=f"{weights.config}")
    check_fit(config, recipe.batch, muon=recipe.muon is not None, device=device, processes=world)
    identity = {"config": [type(config).__name__, asdict(config)], "recipe": asdict(recipe), "lessons": repr(lessons)}
    home = Home(None if folder is None else Path(folder), identity, rank)
    with home.held():
        state = _fresh(config, recipe, weights, device)
        start, logged = home.restore(state)
        # Several processes exchange gradients in the midst of an update, which is not recorded.
        recorded = compile_model and device.type == "cuda" and world == 1
        _prepare(state.optimisers, recorded, device)
        learner = Learner(_runner(state.model, world, compile_model), state.optimisers, recipe.clip, state.total)
        update = Recorded(learner) if recorded else Plain(learner)

        def made(step: int) -> Batch:
            rng = np.random.default_rng([recipe.seed, step, rank])
            tokens = store.random_windows(config.length, recipe.batch // world, rng=rng)
            return lessons.batch(tokens, config.vocab, rng=rng)

        began = seen = kept = time.monotonic()
        progress = Progress(start, math.nan, 0.0, 0.0)
        state.model.train()
        with _stream(device, recorded):
            for step, batch in enumerate(_ahead(made, start, recipe.steps), start):
                share = rate_share(recipe, step)
                learner.set_rate(share)
                with _seeded([recipe.seed, step, rank], device, recipe.dropout > 0):
                    update(batch)
                _follow(state.average, state.model, min(recipe.average, (step + 1) / (step + 10)))
                done = step + 1
                last = done == recipe.steps
                now = time.monotonic()
                # Several processes must ask one another, which takes time itself.
                asked = (minutes is not None or stop is not None) and (world == 1 or done % 50 == 0)
                late = minutes is not None and now - began > 60 * minutes
                over = asked and _agreed(late or (stop is not None and stop()), device)
                # A stop is no reason for a line: the log is that of a run without one.
                due = done % every == 0 or last
                if due or over or now - seen > _GLANCE:
                    mean = float(state.total) / (done - logged)
                    progress = Progress(done, mean, share * recipe.rate, time.monotonic() - began)
                    if (due or over) and not math.isfinite(mean):
                        raise _broken(f"The loss is not a number at step {done}")
                    if due:
                        logged = done
                        state.total.zero_()
                        home.log(progress)
                    watch(progress)
                    seen = now
                if done % (10 * every) == 0 or last or over or now - kept > _KEPT:
                    kept = now
                    # The loss is that of the weights before the update, which may have broken them.
                    if not all(bool((parameter.abs() <= LARGEST).all()) for parameter in state.model.parameters()):
                        raise _broken(f"The weights are not numbers, or too large to save, after step {done}")
                    home.checkpoint(done, logged, state)
                if over:
                    break
        return state.average.eval(), progress


def _fitting(config: Shape, lessons: Lessons | None) -> Lessons:
    """The lessons of a run, if a network of this shape can be taught them."""
    if not isinstance(config, CausalConfig):
        lessons = lessons or UniformMasks()
        kind, must, why = Masks, "be Masks, such as UniformMasks", "this network looks both ways"
    else:
        kind, must, why = Steps, "be Steps, such as EveryStep", "this network is causal in the schedule"
    if not isinstance(lessons, kind):
        found = "" if lessons is None else check.shown(lessons)
        raise check.InputError("lessons", must, found=found, detail=f"because {why}")
    return lessons


def _fresh(config: Shape, recipe: Recipe, weights: Network | None, device: torch.device) -> Snapshot:
    """What a run begins with."""
    with torch.random.fork_rng(devices=[]):  # the caller's own generator is left as it was
        torch.default_generator.manual_seed(recipe.seed)
        model = config.network().to(device)
    if weights is not None:
        model.load_state_dict(weights.state_dict())
    drop_out(model, recipe.dropout)
    return Snapshot(model, copy.deepcopy(model), _optimisers(model, recipe), torch.zeros((), device=device))


def _runner(model: Network, world: int, compiled: bool) -> Any:
    """The model, or what runs it: compiled, or one of several processes."""
    runner: Any = model
    if world > 1:
        device = next(model.parameters()).device
        runner = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None
        )
    return torch.compile(runner) if compiled else runner


def _broken(what: str) -> check.InputError:
    return check.InputError("", what, remedy="Lower {rate}. The last checkpoint, if there is one, is intact.")


def rate_share(recipe: Recipe, step: int) -> float:
    """Share of the peak learning rate at a step: a linear warm-up, then half a cosine down to zero."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _ahead(make: Callable[[int], T], start: int, stop: int) -> Iterator[T]:
    """`make(start), …, make(stop − 1)` in this order, made by threads while earlier ones are in use."""
    # A small network on a large GPU learns faster than one core makes batches.
    count = max(1, min(_MAKERS, (os.cpu_count() or 1) // 4))
    steps = iter(range(start, stop))
    with ThreadPoolExecutor(count) as threads:
        coming = deque(threads.submit(make, step) for step in islice(steps, count))
        while coming:
            ready = coming.popleft().result()
            coming.extend(threads.submit(make, step) for step in islice(steps, 1))
            yield ready


def _optimisers(model: Network, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW, and Muon for the matrices inside the layers if the recipe says so; each group knows its peak rate."""
    named = list(model.named_parameters())
    inside = [p for name, p in named if p.ndim == 2 and not name.startswith(("embed", "head"))]
    outside = [p for name, p in named if p.ndim == 2 and name.startswith(("embed", "head"))]
    others = [p for _, p in named if p.ndim != 2]
    decayed = outside if recipe.muon else inside + outside
    groups = [
        {"params": decayed, "weight_decay": recipe.decay, "peak": recipe.rate},
        {"params": others, "weight_decay": 0.0, "peak": recipe.rate},
    ]
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), fused=named[0][1].is_cuda)
    ]
    if recipe.muon:
        group = {"params": inside, "weight_decay": recipe.decay, "peak": recipe.muon}
        optimisers.append(Muon([group], lr=recipe.muon))
    return optimisers


def _prepare(optimisers: Sequence[torch.optim.Optimizer], recorded: bool, device: torch.device) -> None:
    """Rates as tensors if updates are to be recorded, since a graph would keep a number for ever.

    To be called after a checkpoint is restored, which may come from a run of the other kind.
    """
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = torch.zeros((), device=device) if recorded else 0.0
            if "capturable" in group:
                group["capturable"] = recorded


@torch.no_grad()
def _follow(average: Network, model: Network, decay: float) -> None:
    mine: list[Tensor] = list(average.parameters())
    theirs: list[Tensor] = list(model.parameters())
    torch._foreach_lerp_(mine, theirs, 1 - decay)  # pyright: ignore[reportPrivateImportUsage]


@contextmanager
def _seeded(key: Sequence[int], device: torch.device, needed: bool) -> Generator[None]:
    """Torch's own randomness seeded by a key, and the caller's left as it was; nothing where none is needed."""
    if not needed:
        yield
        return
    cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if cuda else []):
        seed = int(np.random.default_rng(key).integers(2**62))
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed(seed)
        yield


@contextmanager
def _stream(device: torch.device, separate: bool) -> Generator[None]:
    """A stream of its own, on that GPU, for what is to be recorded; the caller's waits for it at the end."""
    if not separate:
        yield
        return
    with torch.cuda.device(device):
        caller, mine = torch.cuda.current_stream(), torch.cuda.Stream()
        mine.wait_stream(caller)
        try:
            with torch.cuda.stream(mine):
                yield
        finally:
            caller.wait_stream(mine)


def _world() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1, 0


def _agreed(over: bool, device: torch.device) -> bool:
    """Whether process 0 finds that it is over: clocks differ, and all must stop at the same step."""
    if _world()[0] == 1:
        return over
    flag = torch.tensor(over, device=device)
    torch.distributed.broadcast(flag, 0)
    return bool(flag)
