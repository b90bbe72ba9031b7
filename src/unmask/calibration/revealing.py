"""Measure the dependence of positions, from few evaluations.

For a text and a random set `A` of visible positions one evaluation gives the losses of all others, and one more with
`A ∪ {j}` visible the differences `ℓ_i(A) − ℓ_i(A ∪ {j})` for *every* `i` at once. Both have the same text and the same
`A`, so that what differs between texts and sets, which is most of the spread of a loss, cancels. `m` further positions
one at a time share the first evaluation: `m + 1` evaluations give `m` differences at each position, and a given number
of evaluations the least variance for large `m`, half of what `m = 1` has; with `m = 8` an eighth above the limit. More
texts are better than a still larger `m`, since they also differ.

Revealing several `j` at once would give no more numbers, one for each position and evaluation, and their sum at that;
who of them told is then a matter of more evaluations, or of assumptions. Comparing sets with and without `j` that
differ elsewhere too is unbiased, and uses every evaluation for every `j`, but nothing cancels. One at a time is
therefore what is done.

Which number is taken at a position is a `Gain`. `OnTexts` is the difference of losses, the model's errors included, and
spreads by about `√(2D)` around a small mean `D`: ten times the mean for `D = 0.02`. `OwnPredictions` takes the mean of
that difference over tokens drawn from the later prediction, a divergence that spreads by about its mean. For a perfect
predictor both have the same mean; of another one it says what the model itself believes.

Every text has one order of its positions, and the visible sets of all shares are beginnings of it. So the further
positions differ from share to share, and over the texts all are as likely.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.calibration.dependence import ByDistance, Dependence, check_shares
from unmask.calibration.measurement import check_measurable
from unmask.calibration.shards import finite
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.given import Randomness, seed_of, texts_of
from unmask.predict import MaskPredictor, Prediction, Watched, predicting
from unmask.sequences import Sequences, trimmed

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
REVEALS = 8
_LONGEST = 2048  # positions of a layout: its pairs are counted in every batch


class Gain(ABC):
    """By how much one prediction of a token is better than another, in nats."""

    @abstractmethod
    def __call__(self, before: Prediction, after: Prediction, tokens: Tensor) -> Tensor:
        """One number for each row.

        Arguments:
            before: Predictions, one row for each position.
            after: Predictions of the same positions when more is known.
            tokens: The text's own token of each row.
        """


@final
@dataclass(frozen=True)
class OnTexts(Gain):
    """How much smaller the loss of the text's own token is."""

    def __call__(self, before: Prediction, after: Prediction, tokens: Tensor) -> Tensor:
        return before.losses(tokens) - after.losses(tokens)


@final
@dataclass(frozen=True)
class OwnPredictions(Gain):
    """The same on average over tokens drawn from the later prediction: its divergence from the earlier one."""

    def __call__(self, before: Prediction, after: Prediction, tokens: Tensor) -> Tensor:
        parts: list[Tensor] = []
        for start, stop in after.chunks() or [(0, 0)]:
            late, early = after.log_probabilities(start, stop), before.log_probabilities(start, stop)
            weight = late.exp()
            parts.append(torch.where(weight > 0, weight * (late - early), 0.0).sum(dim=-1).double())
        return torch.cat(parts)


ON_TEXTS = OnTexts()


def measure_dependence(
    predictor: MaskPredictor,
    tokens: Sequences | Tensor,
    *,
    rng: Randomness,
    shares: Sequence[float] = SHARES,
    reveals: int = REVEALS,
    gain: Gain = ON_TEXTS,
    model: str = "",
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Dependence:
    """Measure the dependence of every position on every other, on texts of one layout.

    Arguments:
        predictor: The model.
        tokens: Texts, at least 2, all of one length: `Sequences`, or token ids of shape `(count, length)`.
        rng: A seed, or a generator that gives one. The visible sets come from it, for each text its own.
        shares: Shares of the positions to be visible, of those that can be: 0 is none, 1 all but two.
        reveals: Further positions to reveal, one at a time, for each text and share.
        gain: What is taken at each position.
        model: A fingerprint of the model, to be kept with the numbers.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Raises:
        InputError: if an argument is not what it should be, texts differ in length, the model gives losses that are
            not finite numbers, or it remembers.

    Example:
        >>> from unmask.distribution import Parity
        >>> from unmask.predict import ExactPredictor
        >>> texts = torch.from_numpy(Parity(4).sample(64, rng=0))
        >>> found = measure_dependence(ExactPredictor(Parity(4)), texts, rng=0)
        >>> [round(abs(float(found.values[k, 0, 1])), 4) for k in (0, 2, 4)]  # nothing until all but two are known
        [0.0, 0.0, 0.6931]
    """
    texts = texts_of(tokens, predictor, least=2)
    if not texts.equal or texts.tokens.shape[1] > _LONGEST:
        raise check.InputError(
            "tokens",
            f"be texts of the same length, at most {_LONGEST} tokens each",
            remedy="For other texts, pool pairs by their distance with `measure_distances`.",
        )
    found = _measured(predictor, texts, rng, shares, reveals, gain, batch, engine, progress, pooled=False)
    length = texts.tokens.shape[1]
    values, errors, counts = (each.reshape(-1, length, length) for each in found)
    return Dependence(check_shares(shares), values, errors, counts, len(texts), model)


def measure_distances(
    predictor: MaskPredictor,
    tokens: Sequences | Tensor,
    *,
    rng: Randomness,
    shares: Sequence[float] = SHARES,
    reveals: int = REVEALS,
    gain: Gain = ON_TEXTS,
    model: str = "",
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> ByDistance:
    """Measure the dependence of positions by their distance, on texts of any lengths.

    Arguments:
        predictor: As for `measure_dependence`.
        tokens: Texts, at least 2.
        rng: As for `measure_dependence`.
        shares: As for `measure_dependence`, of each text's own positions.
        reveals: As for `measure_dependence`.
        gain: As for `measure_dependence`.
        model: As for `measure_dependence`.
        batch: As for `measure_dependence`.
        engine: As for `measure_dependence`.
        progress: As for `measure_dependence`.
    """
    texts = texts_of(tokens, predictor, least=2)
    found = _measured(predictor, texts, rng, shares, reveals, gain, batch, engine, progress, pooled=True)
    values, errors, counts = found
    return ByDistance(check_shares(shares), values, errors, counts, len(texts), model)


def dependence_evaluations(counts: NDArray[np.int64], shares: Sequence[float], reveals: int) -> int:
    """How many evaluations of all texts together a measurement takes, of texts with so many tokens to fill."""
    reveals = check.integer("reveals", reveals, least=1)
    most = [int((counts - np.rint(share * (counts - 2))).max()) for share in check_shares(shares)]
    return counts.size * sum(1 + min(reveals, each) for each in most)


def _measured(
    predictor: MaskPredictor,
    given: Sequences,
    rng: Randomness,
    shares: Sequence[float],
    reveals: int,
    gain: Gain,
    batch: int,
    engine: Engine,
    progress: Callable[[int], object],
    *,
    pooled: bool,
) -> tuple[NDArray[np.float64], ...]:
    texts, order = given.by_length()
    check_measurable(predictor)
    seed, shares = seed_of(rng), check_shares(shares)
    reveals = check.integer("reveals", reveals, least=1)
    check.function("progress", progress)
    check.instance("gain", gain, Gain, "be a Gain, such as OnTexts()")
    hidden: NDArray[np.bool_] = texts.masked.cpu().numpy()
    counts = hidden.sum(axis=1)
    if counts.min() < 2:
        raise check.InputError("tokens", "have at least two positions to fill in each text")
    rank = np.full(hidden.shape, -1, dtype=np.int64)
    for row, number in enumerate(plain(order)):
        rank[row, hidden[row]] = np.random.default_rng([seed, number]).permutation(int(counts[row]))
    columns = (texts.tokens, texts.masked, texts.lengths, torch.as_tensor(rank).to(texts.tokens.device))
    width = texts.tokens.shape[1]
    job = Job(
        engine,
        _Differences(predictor, gain, reveals, width, pooled),
        columns,
        texts.cuts(batch, pad=predictor.pad, whole=predictor.whole),
    )
    found = job([(share,) for share in shares], lambda task, done: progress(done))
    sums = [torch.stack(parts).sum(dim=0) for parts in found]
    finite(torch.stack(sums))
    values, errors, pairs = zip(*(_estimates(each.numpy()) for each in sums), strict=True)
    return np.stack(values), np.stack(errors), np.stack(pairs)


def _estimates(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Ratios of sums over texts, their standard errors, and the numbers of pairs."""
    total, count, squares, mixed, counts, texts = sums
    values = total / np.maximum(count, 1)
    rest = np.maximum(squares - 2 * values * mixed + values**2 * counts, 0.0)
    enough = texts > 1
    spread = np.where(enough, rest * texts / np.maximum(texts - 1, 1), 0.0)
    # A pair that a single text has says nothing of its spread: it is taken to be that of the others.
    usual = spread[enough].sum() / max(count[enough].sum(), 1)
    spread = np.where(enough, spread, usual * count)
    return values, np.sqrt(spread) / np.maximum(count, 1), count


@final
@dataclass(frozen=True, eq=False)
class _Differences:
    """Work on shards: a share, texts, and the rank of each position, −1 where it is given.

    Its result is a table of six sums over the texts of `S` and `C`, the differences of a text and how many there are,
    for each pair of positions or for each distance: of `S`, `C`, `S²`, `S·C`, `C²`, and of texts that have any.

    Arguments:
        predictor: The model.
        gain: What is taken at each position.
        reveals: Further positions to reveal, one at a time.
        width: Positions of the longest text.
        pooled: Whether pairs that are as far apart count as one.
    """

    predictor: MaskPredictor
    gain: Gain
    reveals: int
    width: int
    pooled: bool

    @predicting
    def __call__(self, shard: tuple[float, Tensor, Tensor, Tensor, Tensor], report: Report) -> Tensor:
        share, tokens, hidden, lengths, rank = shard
        tokens, hidden = trimmed(tokens, hidden, lengths, self.predictor.pad)
        rank = rank[:, : tokens.shape[1]]
        counts = hidden.sum(dim=1)
        seen = torch.round(share * (counts - 2).double()).long()
        predictor = Watched(self.predictor, report)
        before = hidden & (rank >= seen[:, None])
        first, place_of = self._predicted(predictor, tokens, before)
        cells = self.width if self.pooled else self.width**2
        # On the CPU, since adding up in place has no fixed order on a GPU.
        sums = torch.zeros((6, cells), dtype=torch.float64)
        each = torch.zeros((2, len(tokens), self.width), dtype=torch.float64)
        for number in range(min(self.reveals, int((counts - seen).max()))):
            new = hidden & (rank == seen[:, None] + number)
            after = before & ~new
            later, rows = self._predicted(predictor, tokens, after & new.any(dim=1, keepdim=True))
            if not len(rows):
                continue
            # The earlier prediction of the same positions, which are those of its rows that are still masked.
            same = torch.searchsorted(place_of, rows)
            value = self.gain(first.take(same), later, tokens.flatten()[rows]).cpu()
            row, place = torch.div(rows, tokens.shape[1], rounding_mode="floor").cpu(), (rows % tokens.shape[1]).cpu()
            told = new.long().argmax(dim=1).cpu()[row]
            if self.pooled:
                index = (row, (place - told).abs())
                each[0].index_put_(index, value, accumulate=True)
                each[1].index_put_(index, torch.ones_like(value), accumulate=True)
            else:
                pair = place * self.width + told
                sums[0].index_put_((pair,), value, accumulate=True)
                sums[1].index_put_((pair,), torch.ones_like(value), accumulate=True)
                sums[2].index_put_((pair,), value**2, accumulate=True)
        if not self.pooled:  # a text has each pair once, or not at all
            sums[3], sums[4], sums[5] = sums[0], sums[1], sums[1]
            return sums
        total, count = each
        parts = (total, count, total**2, total * count, count**2, (count > 0).double())
        return torch.stack([part.sum(dim=0) for part in parts])

    def _predicted(self, predictor: MaskPredictor, tokens: Tensor, masked: Tensor) -> tuple[Prediction, Tensor]:
        """The predictions of all masked positions, and which these are, ascending."""
        rows = torch.nonzero(masked.flatten())[:, 0]
        return predictor(tokens.masked_fill(masked, predictor.mask), masked, rows), rows
