"""Measure a model once; then the best schedule for it is a computation.

For a blind order, one forward pass per text with the first `n` tokens of the order visible gives the loss of every
token after them. From some such `n`, fine where the losses change, the cost of any sizes is a sum and the best sizes
are a shortest path (`unmask.calibrate.losses`). How groups of texts deviate is kept too, so that a cost has a standard
error (`unmask.calibrate.groups`).

The numbers include the model's own error, so they are the total cost of a schedule on texts like those measured.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask._torch import Tensor, torch
from unmask.calibrate.groups import Groups, how_many
from unmask.calibrate.losses import Curved, Losses, Tabled, kind_of, losses_of
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.given import NOT_NUMBERS, Randomness, seed_of, texts_of
from unmask.order import BlindOrder, Comb
from unmask.predict import MaskPredictor, predicting
from unmask.sample import booleans


def measure(
    predictor: MaskPredictor,
    order: BlindOrder,
    tokens: Tensor,
    *,
    rng: Randomness,
    masked: Tensor | None = None,
    points: int = 33,
    steps: int | None = None,
    places: Iterable[int] = (),
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Losses:
    """Measure the losses of one order.

    Arguments:
        predictor: The model.
        order: A blind order. For `Comb` every start of a tooth is measured, and no other place.
        tokens: Texts, shape `(count, length)`, at least 2.
        rng: A seed, or a generator that gives one. The orders come from it: each text has one order, the same for every
            number of visible tokens.
        masked: Positions to be revealed, of the same shape and as many in each text; all by default. The others are
            given, and the result is that of sequences of so many tokens.
        points: How many numbers of visible tokens to measure for other orders.
        steps: Number of steps the order is told (for a comb without a number of segments).
        places: Numbers of visible tokens that must be among the points.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of texts finished since the last call.

    Raises:
        InputError: if an argument is not what it should be, or the model gives losses that are not finite numbers.
    """
    tokens, seed = texts_of(tokens, predictor, least=2), seed_of(rng)
    check.function("progress", progress)
    if not isinstance(order, BlindOrder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise check.InputError("order", "be an order that is drawn beforehand", found=check.shown(order))
    hidden = torch.ones_like(tokens, dtype=torch.bool) if masked is None else booleans("masked", masked, tokens)
    length = _common(hidden)
    points = min(check.integer("points", points, least=1), length)
    told = length if steps is None else check.integer("steps", steps, least=1)
    first = _first_places(order, length, told, _wanted(places, length))
    count = len(first) if isinstance(order, Comb) else max(len(first), points)

    ranks = _ranks(order, hidden.cpu().numpy(), length, told, seed)
    kind = kind_of(order)
    held = count if kind is Curved else count * length
    rows = _Rows(length, len(tokens), how_many(len(tokens), kind.width(count), held), kind is Tabled)
    job = Job(
        engine,
        _Measured(predictor, length, rows.by_rank),
        (tokens, torch.as_tensor(ranks).to(tokens.device)),
        batch=batch,
        whole=predictor.whole,
    )

    def visit(*wanted: int) -> None:
        found = job([(visible,) for visible in wanted], lambda task, done: progress(done))
        for visible, parts in zip(wanted, found, strict=True):
            rows.add(visible, parts)

    visit(*first)
    while len(rows.found) < count:
        visit(rows.next_place())
    return rows.losses(order)


def _wanted(places: Iterable[int], length: int) -> list[int]:
    try:
        given = list(places)
    except TypeError:
        raise check.InputError("places", "be a list of integers", found=check.shown(places)) from None
    return [check.integer("places", place, least=0, most=length - 1) for place in given]


def _first_places(order: BlindOrder, length: int, steps: int, places: list[int]) -> list[int]:
    """What is measured at once: all there is of a comb, the ends, the middle and what was asked for of other orders."""
    if isinstance(order, Comb):
        # Teeth differ by one token where they cannot be equal, the longer ones first, as even sizes do.
        teeth = size.Even(order.teeth(length, steps)).sizes(length)
        return (np.cumsum(teeth) - teeth).tolist()
    return sorted({0, length // 2, length - 1, *places})


def _common(hidden: Tensor) -> int:
    """How many positions are masked, in every text."""
    counts = hidden.sum(dim=1)
    least, most = int(counts.min()), int(counts.max())
    if least != most or least == 0:
        raise check.InputError("masked", "have as many positions in each text, at least 1", found=f"{least} to {most}")
    return least


def _ranks(order: BlindOrder, hidden: NDArray[np.bool_], length: int, steps: int, seed: int) -> NDArray[np.int64]:
    """The rank of each position in the order of its text, −1 where it is given."""
    ranks = np.full(hidden.shape, -1, dtype=np.int64)
    for row, positions in enumerate(map(np.flatnonzero, hidden)):
        source = np.random.default_rng([seed, row])
        ranks[row, order.arrange(positions, length=hidden.shape[1], steps=steps, rng=source)] = np.arange(length)
    return ranks


@final
@dataclass(frozen=True, eq=False)
class _Row:
    """What was found with some number of tokens visible.

    Attributes:
        loss: Mean loss by rank.
        error: Standard error over texts of the mean loss of a masked token.
        groups: How groups of texts deviate, shape `(groups, length)` by rank or `(groups, 1)` of the mean loss.
    """

    loss: NDArray[np.float64]
    error: float
    groups: NDArray[np.float32]


_Part = tuple[Tensor, Tensor, Tensor | None]


@final
class _Rows:
    """What was found so far.

    Arguments:
        length: Tokens to be revealed of each text.
        texts: Number of texts.
        groups: Number of groups of texts; 0 keeps none.
        by_rank: Whether groups are kept by rank, not as means over ranks.
    """

    def __init__(self, length: int, texts: int, groups: int, by_rank: bool):
        self.length, self.texts, self.groups = length, texts, groups
        self.by_rank = by_rank and groups > 0
        self.found: dict[int, _Row] = {}

    def add(self, visible: int, parts: list[_Part]) -> None:
        """Add what all shards gave, in their order."""
        total = torch.zeros_like(parts[0][0])
        for part, _, _ in parts:
            total += part
        spread = torch.cat([means for _, means, _ in parts])
        _finite(spread)
        by_rank = [losses for _, _, losses in parts if losses is not None]
        each = torch.cat(by_rank).numpy() if by_rank else spread[:, None].numpy()
        self.found[visible] = _Row(
            (total / self.texts).numpy(), float(spread.std() / spread.numel() ** 0.5), self._deviations(each)
        )

    def _deviations(self, each: NDArray[np.float64]) -> NDArray[np.float32]:
        if not self.groups:
            return np.empty((0, each.shape[1]), dtype=np.float32)
        bounds = Groups.bounds(self.texts, self.groups)
        means = np.add.reduceat(each, bounds[:-1], axis=0) / np.diff(bounds)[:, None]
        return (means - each.mean(axis=0)).astype(np.float32)

    def next_place(self) -> int:
        """The middle of the gap over which the mean loss is least certain: the largest drop times width."""
        places = sorted(self.found)
        mean = {place: self.found[place].loss.sum() / (self.length - place) for place in places}
        gaps = [(a, b) for a, b in pairwise(places) if b - a > 1]
        low, high = max(gaps, key=lambda gap: (abs(mean[gap[0]] - mean[gap[1]]) + 1e-3) * (gap[1] - gap[0]))
        return (low + high) // 2

    def losses(self, order: BlindOrder) -> Losses:
        """All of it, as losses of the order."""
        visible = np.array(sorted(self.found), dtype=np.int64)
        rows = [self.found[place] for place in visible.tolist()]
        groups = None
        if self.groups:
            parts = [row.groups for row in rows]
            if self.by_rank:
                parts = [Tabled.sums(number, visible, part) for number, part in enumerate(parts)]
            groups = Groups(self.texts, np.concatenate(parts, axis=1))
        table, error = np.stack([row.loss for row in rows]), np.array([row.error for row in rows])
        return losses_of(order, visible, table, error, groups)


def _finite(losses: Tensor) -> None:
    """Refuse losses that nothing can be computed from."""
    if bool(torch.isnan(losses).any()):
        raise check.InputError("", NOT_NUMBERS)
    if bool(torch.isinf(losses).any()):
        raise check.InputError("", "The model excludes a token of the texts, whose loss is infinite")


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    """Work on shards: a number of visible tokens, texts, and the rank of each position, −1 where it is given.

    Its result is the losses by rank, summed over the texts, the mean loss of each text, and each text's losses by rank
    if these are wanted.
    """

    predictor: MaskPredictor
    length: int
    by_rank: bool

    @predicting
    def __call__(self, shard: tuple[int, Tensor, Tensor], report: Report) -> _Part:
        visible, tokens, rank = shard
        masked = rank >= visible
        rows = torch.nonzero(masked.flatten())[:, 0]
        prediction = self.predictor(tokens.masked_fill(masked, self.predictor.mask), masked, rows)
        loss = prediction.losses(tokens.flatten()[rows])
        count = len(tokens)
        # Written to places of their own and then summed: adding up in place has no fixed order on a GPU.
        losses = torch.zeros((count, self.length), dtype=torch.float64, device=tokens.device)
        losses[rows // tokens.shape[1], rank.flatten()[rows]] = loss
        report(count)
        means = loss.view(count, self.length - visible).mean(dim=1).cpu()
        return losses.sum(dim=0).cpu(), means, losses.cpu() if self.by_rank else None
