"""Measure a model once; then the best schedule for it is a computation.

For a blind order, one forward pass per text with the first `n` tokens of the order visible gives the loss of every
token after them. From some such `n`, fine where the losses change, the cost of any sizes is a sum and the best sizes
are a shortest path (`unmask.calibrate.losses`).

The numbers include the model's own error, so they are the total cost of a schedule on texts like those measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask._torch import Tensor, torch
from unmask.calibrate.losses import Losses, losses_of
from unmask.engine import LOCAL, Engine, Report, parts
from unmask.order import BlindOrder, Comb
from unmask.predict import MaskPredictor


def measure(
    predictor: MaskPredictor,
    order: BlindOrder,
    tokens: Tensor,
    *,
    seed: int,
    masked: Tensor | None = None,
    points: int = 33,
    steps: int | None = None,
    places: Sequence[int] = (),
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Losses:
    """Measure the losses of one order.

    Arguments:
        predictor: The model.
        order: A blind order. For `Comb` every start of a tooth is measured, and no other place.
        tokens: Texts, shape `(count, length)`, at least 2.
        seed: Seeds the orders: each text has one order, the same for every number of visible tokens.
        masked: Positions to be revealed, of the same shape and as many in each text; all by default. The others are
            given, and the result is that of sequences of so many tokens.
        points: How many numbers of visible tokens to measure for other orders.
        steps: Number of steps the order is told (for a comb without a number of segments).
        places: Numbers of visible tokens that must be among the points.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of texts finished since the last call.
    """
    check.integer("count", tokens.shape[0], least=2)
    hidden = (torch.ones_like(tokens, dtype=torch.bool) if masked is None else masked).cpu().numpy()
    length = _common(hidden, tokens)
    ranks = np.full(tokens.shape, -1, dtype=np.int64)
    for row, positions in enumerate(map(np.flatnonzero, hidden)):
        rng = np.random.default_rng([seed, row])
        arranged = order.arrange(positions, length=tokens.shape[1], steps=steps or length, rng=rng)
        ranks[row, arranged] = np.arange(length)
    rank = torch.from_numpy(ranks).to(tokens.device)
    rows: dict[int, tuple[NDArray[np.float64], float]] = {}

    # Copies, since a slice would travel with the whole it was cut from.
    texts = [(tokens[part].clone(), rank[part].clone()) for part in parts(len(tokens), batch)]
    run = engine.prepare(_Measured(predictor, length))

    def visit(*wanted: int) -> None:
        shards = [(visible, *text) for visible in wanted for text in texts]
        found = run(shards, lambda shard, done: progress(done))
        for number, visible in enumerate(wanted):
            rows[visible] = _row(found[number * len(texts) : (number + 1) * len(texts)], len(tokens))

    if isinstance(order, Comb):
        # Teeth differ by one token where they cannot be equal, the longer ones first, as even sizes do.
        teeth = size.Even(order.teeth(length, steps or length)).sizes(length)
        visit(*(np.cumsum(teeth) - teeth).tolist())
    else:
        visit(*sorted({0, length // 2, length - 1, *places}))
        while len(rows) < min(points, length):
            visit(_next_place(rows, length))
    places = sorted(rows)
    return losses_of(
        order,
        np.array(places),
        np.stack([rows[place][0] for place in places]),
        np.array([rows[place][1] for place in places]),
    )


def _common(hidden: NDArray[np.bool_], tokens: Tensor) -> int:
    """How many positions are masked, in every text."""
    if hidden.dtype != np.bool_ or hidden.shape != tuple(tokens.shape):
        raise check.InputError(
            "masked", f"hold booleans of shape {tuple(tokens.shape)}", found=f"{hidden.dtype} of shape {hidden.shape}"
        )
    counts = hidden.sum(axis=1)
    if counts.min() != counts.max() or counts.min() == 0:
        raise check.InputError(
            "masked", "have as many positions in each text, at least 1", found=f"{counts.min()} to {counts.max()}"
        )
    return int(counts[0])


def _next_place(rows: dict[int, tuple[NDArray[np.float64], float]], length: int) -> int:
    """The middle of the gap over which the mean loss is least certain: the largest drop times width."""
    places = sorted(rows)
    mean = {place: rows[place][0].sum() / (length - place) for place in places}
    gaps = [(a, b) for a, b in pairwise(places) if b - a > 1]
    low, high = max(gaps, key=lambda gap: (abs(mean[gap[0]] - mean[gap[1]]) + 1e-3) * (gap[1] - gap[0]))
    return (low + high) // 2


@dataclass(frozen=True, eq=False)
class _Measured:
    """Work on shards: a number of visible tokens, texts, and the rank of each position, −1 where it is given.

    Its result is the losses by rank, summed over the texts, and the mean loss of each text.
    """

    predictor: MaskPredictor
    length: int

    @torch.no_grad()
    def __call__(self, shard: tuple[int, Tensor, Tensor], report: Report) -> tuple[Tensor, Tensor]:
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
        return losses.sum(dim=0).cpu(), loss.view(count, self.length - visible).mean(dim=1).cpu()


def _row(found: list[tuple[Tensor, Tensor]], count: int) -> tuple[NDArray[np.float64], float]:
    """Mean loss by rank, and the standard error over texts of a masked token's, from all shards in their order."""
    total = torch.zeros_like(found[0][0])
    for part, _ in found:
        total += part
    spread = torch.cat([means for _, means in found])
    if not bool(torch.isfinite(spread).all()):
        raise check.InputError("", "The model gives losses that are not numbers; nothing can be measured with it")
    return (total / count).numpy(), float(spread.std() / spread.numel() ** 0.5)
