"""Training: the masked-diffusion objective of the paper, and a loop that can be killed at any moment.

A step masks a random set of each sequence and predicts it; the loss of a sequence with masked set `M` is

    (1/L) · L/|M| · Σ_{i∈M} −log p̂_i(x_i | x_{not M}),

whose mean is the paper's objective per token. Where the sets come from is a `Masks`: `UniformMasks` draws the number
of masked tokens uniformly, stratified over the batch (then the mean loss is the one-by-one likelihood in random
order); `ScheduleMasks` draws the sets that a schedule visits, step by step in proportion to its size: the objective
under `S ~ π`.

Everything random in step `t` comes from `(seed, t, rank)`, so a run that resumes from a checkpoint repeats, bit for
bit on a CPU, what an uninterrupted one does. Checkpoints are written to a temporary name, synced and renamed.
"""

import csv
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import check
from unmask.backend import Tensor, torch
from unmask.nn import Config, Transformer
from unmask.pace import PlannedPace, pace_for
from unmask.schedule import Schedule
from unmask.text import Store


class Masks(ABC):
    """Where the masked sets of training come from."""

    @abstractmethod
    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Masked positions, shape `(batch, length)`, at least one in each sequence."""


@dataclass(frozen=True)
class UniformMasks(Masks):
    """The number of masked tokens uniform on `1 … length` and stratified over the batch, the set uniform given it."""

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        phase = (rng.random() + np.arange(batch) / batch) % 1.0
        masked = 1 + np.floor(phase * length).astype(np.int64)
        # The masked tokens are those of the smallest random keys.
        keys = rng.random((batch, length))
        threshold = np.take_along_axis(np.sort(keys, axis=1), masked[:, None] - 1, axis=1)
        return keys <= threshold


@dataclass(frozen=True)
class ScheduleMasks(Masks):
    """What a blind schedule leaves masked before a step, the step drawn in proportion to its size."""

    schedule: Schedule

    def __post_init__(self):
        if not self.schedule.blind:
            raise ValueError(
                "Argument 'schedule' must not look at predictions: its masks are drawn before the model runs."
            )

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        everything = np.ones((batch, length), dtype=np.bool_)
        # The plan a sampler would follow, so that every order means the same here and there.
        pace = pace_for(self.schedule, everything, [rng] * batch, torch.device("cpu"))
        assert isinstance(pace, PlannedPace)
        step = np.empty(batch * length, dtype=np.int64)
        step[pace.row] = pace.step
        step = step.reshape(batch, length)
        # The step that holds a uniformly random position is drawn in proportion to its size.
        now = np.take_along_axis(step, rng.integers(length, size=(batch, 1)), axis=1)
        return step >= now


@dataclass(frozen=True)
class MixedMasks(Masks):
    """An equal share of every batch from each of several kinds."""

    parts: tuple[Masks, ...]

    def draw(self, batch: int, length: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        edges = np.arange(len(self.parts) + 1) * batch // len(self.parts)
        counts = zip(self.parts, np.diff(edges).tolist(), strict=True)
        return np.concatenate([part.draw(count, length, rng=rng) for part, count in counts if count])


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Arguments:
        steps: Updates in all.
        batch: Sequences per update, over all devices.
        rate: Peak learning rate; warmed up linearly, then a cosine down to zero.
        warmup: Updates of warm-up.
        decay: Weight decay of matrices.
        average: Decay of the exponential moving average of the weights that is kept as the result.
        clip: Largest gradient norm.
        seed: Seeds the initial weights and every step.
    """

    steps: int
    batch: int = 256
    rate: float = 2e-3
    warmup: int = 500
    decay: float = 0.05
    average: float = 0.999
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self):
        check.integer("steps", self.steps, least=1)
        check.integer("batch", self.batch, least=1)
        check.real("rate", self.rate, above=0.0)


@dataclass
class Progress:
    """Where a run stands: what `train` returns and what its callback sees."""

    step: int
    loss: float
    rate: float
    seconds: float


def masked_loss(logits: Tensor, tokens: Tensor, masked: Tensor) -> Tensor:
    """Mean over sequences of the mean cross-entropy over their masked tokens, in nats per token."""
    entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="none")
    weight = masked / masked.sum(dim=1, keepdim=True)
    return (entropy.view_as(weight) * weight).sum(dim=1).mean()


def train(
    config: Config,
    store: Store,
    recipe: Recipe,
    *,
    masks: Masks | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    every: int = 500,
    minutes: float | None = None,
    compile_model: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Transformer, Progress]:
    """Train a transformer; resume if `folder` holds a checkpoint of the same run.

    Arguments:
        config: Shape of the model.
        store: Training text.
        recipe: How to train.
        masks: Where masked sets come from; uniform levels by default.
        folder: Where to keep `checkpoint.pt` and `log.csv`; nothing is kept without it.
        device: Where to run. Under `torchrun` each process takes its share of the batch (DDP).
        every: Updates between log lines; checkpoints are ten times as rare.
        minutes: Stop after this long (with a checkpoint), to be resumed later.
        compile_model: Use `torch.compile`.
        watch: Called with every log line.

    Returns:
        The averaged model and where the run stands.

    Raises:
        FloatingPointError: if the loss is not a number; the last checkpoint is kept.
    """
    masks = masks or UniformMasks()
    world, rank = _world()
    share = recipe.batch // world
    if share * world != recipe.batch:
        raise ValueError(f"Argument 'batch' must be a multiple of the {world} processes, not {recipe.batch}.")
    device = torch.device(device)
    with torch.random.fork_rng(devices=[]):  # the caller's own generator is left as it was
        torch.manual_seed(recipe.seed)
        model = Transformer(config).to(device)
    average = Transformer(config).to(device)
    average.load_state_dict(model.state_dict())
    optimiser = _optimiser(model, recipe)
    home = _Home.of(folder, {"config": asdict(config), "recipe": asdict(recipe), "masks": repr(masks)}, rank)
    start = home.restore(model, average, optimiser, device)
    runner: Any = model
    if world > 1:
        runner = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.index else None)
    if compile_model:
        runner = torch.compile(runner)
    began, step, shown = time.monotonic(), start, torch.zeros((), device=device)
    progress = Progress(start, math.nan, 0.0, 0.0)
    model.train()
    for step in range(start, recipe.steps):
        tokens, masked = _batch(store, config.length, share, masks, recipe.seed, step, rank)
        tokens, masked = _to(tokens, device), _to(masked, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = runner(tokens.masked_fill(masked, config.vocab))
        loss = masked_loss(logits, tokens, masked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        rate = learning_rate(recipe, step)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        _follow(average, model, min(recipe.average, (step + 1) / (step + 10)))
        shown += loss.detach()
        done = step + 1
        last = done == recipe.steps
        over = minutes is not None and done % 50 == 0 and _agreed(time.monotonic() - began > 60 * minutes, device)
        if done % every == 0 or last or over:
            mean = float(shown) / max(done - progress.step, 1)
            progress = Progress(done, mean, rate, time.monotonic() - began)
            if not math.isfinite(mean):
                raise FloatingPointError(
                    f"The loss is not a number at step {done}. Lower the learning rate; the last checkpoint is intact."
                )
            shown.zero_()
            home.log(progress)
            watch(progress)
        if done % (10 * every) == 0 or last or over:
            home.checkpoint(done, model, average, optimiser)
        if over:
            break
    return average.eval(), progress


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then half a cosine down to zero."""
    if step < recipe.warmup:
        return recipe.rate * (step + 1) / recipe.warmup
    share = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def _batch(
    store: Store, length: int, share: int, masks: Masks, seed: int, step: int, rank: int
) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([seed, step, rank])
    tokens = store.random_windows(length, share, rng=rng)
    return torch.from_numpy(tokens), torch.from_numpy(masks.draw(share, length, rng=rng))


def _to(values: Tensor, device: torch.device) -> Tensor:
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


def _optimiser(model: Transformer, recipe: Recipe) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), fused=next(model.parameters()).is_cuda)


@torch.no_grad()
def _follow(average: Transformer, model: Transformer, decay: float) -> None:
    mine: list[Tensor] = list(average.parameters())
    theirs: list[Tensor] = list(model.parameters())
    torch._foreach_lerp_(mine, theirs, 1 - decay)  # pyright: ignore[reportPrivateImportUsage]


def _world() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1, 0


def _agreed(over: bool, device: torch.device) -> bool:
    """Whether process 0 finds that time is over: clocks differ, and all must stop at the same step."""
    if _world()[0] == 1:
        return over
    flag = torch.tensor(over, device=device)
    torch.distributed.broadcast(flag, 0)
    return bool(flag)


@dataclass(frozen=True, eq=False)
class _Home:
    """The folder of a run; process 0 writes it, all read it."""

    folder: Path | None
    identity: dict[str, Any]
    rank: int

    @classmethod
    def of(cls, folder: str | os.PathLike[str] | None, identity: dict[str, Any], rank: int) -> "_Home":
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return cls(None if folder is None else Path(folder), identity, rank)

    def restore(
        self, model: Transformer, average: Transformer, optimiser: torch.optim.AdamW, device: torch.device
    ) -> int:
        path = None if self.folder is None else self.folder / "checkpoint.pt"
        if path is None or not path.exists():
            return 0
        saved = torch.load(path, map_location=device, weights_only=True)
        if saved["identity"] != self.identity:
            raise ValueError(
                f"Argument 'folder' must be empty or hold the same run, but {self.folder} holds another. "
                "Choose another folder, or remove its checkpoint."
            )
        model.load_state_dict(saved["model"])
        average.load_state_dict(saved["average"])
        optimiser.load_state_dict(saved["optimiser"])
        return int(saved["step"])

    def checkpoint(self, step: int, model: Transformer, average: Transformer, optimiser: torch.optim.AdamW) -> None:
        if self.folder is None or self.rank:
            return
        # One fixed name: a run that is killed again and again leaves one half-written file, not many.
        temporary = self.folder / ".checkpoint.pt"
        with temporary.open("wb") as file:
            torch.save(
                {
                    "identity": self.identity,
                    "step": step,
                    "model": model.state_dict(),
                    "average": average.state_dict(),
                    "optimiser": optimiser.state_dict(),
                },
                file,
            )
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / "checkpoint.pt")

    def log(self, progress: Progress) -> None:
        if self.folder is None or self.rank:
            return
        path = self.folder / "log.csv"
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["step", "loss", "rate", "seconds"])
            writer.writerow([progress.step, f"{progress.loss:.6f}", f"{progress.rate:.3e}", f"{progress.seconds:.1f}"])
