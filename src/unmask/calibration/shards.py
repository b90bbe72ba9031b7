"""One measurement, shard by shard, and what all of them give together.

With some number of tokens visible, every text is evaluated once. Texts that differ in their number of tokens to fill
are measured at the same shares (`unmask.size.stretched.nodes_at`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.calibration.groups import Groups, how_many
from unmask.calibration.losses import Losses
from unmask.calibration.mixed import Mixed
from unmask.calibration.onelength import Curved, Tabled, kind_of, losses_of
from unmask.calibration.saved import spread_evenly
from unmask.engine import Report
from unmask.evaluate.given import NOT_NUMBERS
from unmask.order import BlindOrder, Comb, Random
from unmask.predict import MaskPredictor, predicting
from unmask.sequences import trimmed

_CELLS = 1 << 27  # numbers held of texts that differ: 512 MB
_STORED = 45_000_000  # numbers of an order in a file: 240 MB, and what is larger than 256 MiB is not read again

Part = tuple[Tensor, Tensor, Tensor | None]


@final
@dataclass(frozen=True, eq=False)
class Measured:
    """Work on shards: a number of visible tokens, texts, and the rank of each position, −1 where it is given.

    Its result is the losses by rank, summed over the texts, the mean loss of each text, and each text's losses by rank
    if these are wanted.

    Arguments:
        predictor: The model.
        length: Tokens to fill of the text that has most.
        by_rank: Whether each text's losses are wanted.
        unit: What the numbers of visible tokens are counted in.
        segments: Of a comb whose teeth are counted, if it is one.
        absolute: Whether visible tokens are counted as they are, and not as a share.
    """

    predictor: MaskPredictor
    length: int
    by_rank: bool
    unit: int
    segments: int | None
    absolute: bool

    @predicting
    def __call__(self, shard: tuple[int, Tensor, Tensor, Tensor, Tensor], report: Report) -> Part:
        visible, tokens, hidden, lengths, rank = shard
        tokens, hidden = trimmed(tokens, hidden, lengths, self.predictor.pad)
        rank = rank[:, : tokens.shape[1]]
        counts = hidden.sum(dim=1)
        teeth = counts if self.segments is None else -(-counts // counts.clamp(max=self.segments))
        tooth = -(-teeth * visible // self.unit)
        seen = tooth * (counts // teeth) + torch.minimum(tooth, counts % teeth)
        seen = counts.clamp(max=visible) if self.absolute else seen
        masked = rank >= seen[:, None]
        masked &= hidden
        rows = torch.nonzero(masked.flatten())[:, 0]
        prediction = self.predictor(tokens.masked_fill(masked, self.predictor.mask), masked, rows)
        loss = prediction.losses(tokens.flatten()[rows])
        count = len(tokens)
        # Written to places of their own and then summed: adding up in place has no fixed order on a GPU.
        losses = torch.zeros((count, self.length), dtype=torch.float64, device=tokens.device)
        losses[rows // tokens.shape[1], rank.flatten()[rows]] = loss
        report(count)
        means = (losses.sum(dim=1) / (counts - seen).clamp(min=1)).cpu()
        return losses.sum(dim=0).cpu(), means, losses.cpu() if self.by_rank else None


class Tally(ABC):
    """What was found so far, by the number of visible tokens.

    Attributes:
        order: The order.
        length: Tokens to fill of the text that has most.
        by_rank: Whether each text's losses are needed, not their means alone.
        found: Mean loss of a masked token, by the number of visible tokens.
    """

    order: BlindOrder
    length: int
    by_rank: bool
    found: dict[int, float]

    @abstractmethod
    def add(self, visible: int, parts: list[Part]) -> None:
        """Add what all shards gave, in their order."""

    @abstractmethod
    def losses(self) -> Losses:
        """All of it."""

    def next_place(self) -> int:
        """The middle of the gap over which the mean loss is least certain: the largest drop times width."""
        places = sorted(self.found)
        gaps = [(a, b) for a, b in pairwise(places) if b - a > 1]
        low, high = max(gaps, key=lambda gap: (abs(self.found[gap[0]] - self.found[gap[1]]) + 1e-3) * (gap[1] - gap[0]))
        return (low + high) // 2


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


@final
class EqualTally(Tally):
    """Of texts that all have as many tokens to fill.

    Arguments:
        order: The order.
        texts: Number of texts.
        length: Tokens to fill of each.
        places: Numbers of visible tokens that will be measured.
    """

    def __init__(self, order: BlindOrder, texts: int, length: int, places: int):
        kind = kind_of(order)
        self.order, self.length, self.texts = order, length, texts
        self.groups = how_many(texts, kind.width(places), places if kind is Curved else places * length)
        self.by_rank = kind is Tabled and self.groups > 0
        self.found, self._rows = {}, dict[int, _Row]()

    def add(self, visible: int, parts: list[Part]) -> None:
        total = torch.zeros_like(parts[0][0])
        for part, _, _ in parts:
            total += part
        spread = torch.cat([means for _, means, _ in parts])
        finite(spread)
        by_rank = [losses for _, _, losses in parts if losses is not None]
        each = torch.cat(by_rank).numpy() if by_rank else spread[:, None].numpy()
        loss = (total / self.texts).numpy()
        error = float(spread.std() / spread.numel() ** 0.5)
        self._rows[visible] = _Row(loss, error, self._deviations(each))
        self.found[visible] = loss.sum() / (self.length - visible)

    def _deviations(self, each: NDArray[np.float64]) -> NDArray[np.float32]:
        if not self.groups:
            return np.empty((0, each.shape[1]), dtype=np.float32)
        bounds = Groups.bounds(self.texts, self.groups)
        means = np.add.reduceat(each, bounds[:-1], axis=0) / np.diff(bounds)[:, None]
        return (means - each.mean(axis=0)).astype(np.float32)

    def losses(self) -> Losses:
        visible = np.array(sorted(self._rows), dtype=np.int64)
        rows = [self._rows[place] for place in visible.tolist()]
        groups = None
        if self.groups:
            parts = [row.groups for row in rows]
            if self.by_rank:
                parts = [Tabled.sums(number, visible, part) for number, part in enumerate(parts)]
            groups = Groups(self.texts, np.concatenate(parts, axis=1))
        table, error = np.stack([row.loss for row in rows]), np.array([row.error for row in rows])
        return losses_of(self.order, visible, table, error, groups)


@final
class MixedTally(Tally):
    """Of texts that differ in their number of tokens to fill.

    Arguments:
        order: The order.
        counts: Tokens to fill of each text, from the shortest text to the longest.
        unit: What places are counted in.
        places: How many will be measured.
        among: The number of each text among those that were given.
    """

    def __init__(self, order: BlindOrder, counts: NDArray[np.int64], unit: int, places: int, among: Tensor):
        self.order, self.length, self.counts, self.among = order, int(counts.max()), counts, among
        self.unit, self.by_rank, length = unit, not isinstance(order, Random), int(counts.max())
        held = counts.size * places * (length if self.by_rank else places)
        stored = counts.size * places * (places + 1) // 2 if self.by_rank else counts.size * places
        if held > _CELLS or stored > _STORED:
            raise check.InputError(
                "tokens",
                f"hold fewer texts, because {counts.size} texts of up to {length} tokens are too many to measure at "
                f"{places} places",
                remedy="Measure fewer texts, or at fewer places.",
            )
        self.found, self._each = {}, dict[int, NDArray[np.float32]]()

    def add(self, visible: int, parts: list[Part]) -> None:
        means = torch.cat([means for _, means, _ in parts])
        finite(means)
        left = self._blank(np.array([visible])).widths[:, 0]
        totals = means.numpy() * left
        self.found[visible] = float(totals.sum() / max(left.sum(), 1))
        by_rank = [losses for _, _, losses in parts if losses is not None]
        self._each[visible] = (torch.cat(by_rank).numpy() if by_rank else totals).astype(np.float32)

    def _blank(self, visible: NDArray[np.int64]) -> Mixed:
        """The texts without any losses: what lies between places is known beforehand."""
        none = np.zeros((self.counts.size, 0, 0), dtype=np.float32)
        return Mixed(self.order, visible, self.unit, self.length, self.counts, none)

    def losses(self) -> Losses:
        visible = np.array(sorted(self._each), dtype=np.int64)
        places = visible.size
        blank = self._blank(visible)
        if self.by_rank:
            cells = np.zeros((self.counts.size, places, places), dtype=np.float32)
            for number, place in enumerate(visible.tolist()):
                sums = np.cumsum(self._each[place], axis=1, dtype=np.float64)
                sums = np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)
                ends = np.cumsum(blank.widths, axis=1)
                cells[:, number] = np.diff(np.take_along_axis(sums, ends, axis=1), axis=1, prepend=0.0)
            cells *= np.triu(np.ones((places, places), dtype=np.float32))
        else:
            cells = spread_evenly(np.stack([self._each[place] for place in visible.tolist()], axis=1), blank.widths)
        order = self.among.numpy()
        tokens, kept = np.empty_like(self.counts), np.empty_like(cells)
        tokens[order], kept[order] = self.counts, cells
        return Mixed(self.order, visible, self.unit, self.length, tokens, np.maximum(kept, 0.0))


def finite(losses: Tensor | NDArray[np.float64]) -> None:
    """Refuse losses that nothing can be computed from."""
    given = torch.as_tensor(losses)
    if bool(torch.isnan(given).any()):
        raise check.InputError("", NOT_NUMBERS)
    if bool(torch.isinf(given).any()):
        raise check.InputError("", "The model gives probability 0 to a token of the texts, so its loss is infinite")


def segments_of(order: BlindOrder) -> int | None:
    """The segments of a comb that has a number of them."""
    return order.segments if isinstance(order, Comb) else None
