"""Measure a model once; then compute the best schedule for it.

For a blind order, one forward pass per text with the first `n` tokens of the order visible gives the loss of every
token after them. From some such `n`, fine where the losses change, the cost of any sizes is a sum and the best sizes
are a shortest path (`unmask.calibration.losses`). How groups of texts deviate is kept too, so that a cost has a
standard error (`unmask.calibration.groups`).

The numbers include the model's own error, so they are the total cost of a schedule on texts like those measured.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import size
from unmask._torch import Tensor, plain, torch
from unmask.calibration.losses import Losses
from unmask.calibration.shards import EqualTally, Measured, MixedTally, Tally, segments_of
from unmask.engine import LOCAL, Engine, Job
from unmask.evaluate.given import Randomness, seed_of, texts_of
from unmask.order import BlindOrder, Comb, Spread
from unmask.predict import MaskPredictor
from unmask.sequences import Sequences


def measure(
    predictor: MaskPredictor,
    order: BlindOrder,
    tokens: Sequences | Tensor,
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
        order: A blind order. For `Comb` every start of a tooth is measured, and no other place; where texts differ,
            starts of teeth at so many shares as there are `points`.
        tokens: Texts, at least 2: `Sequences`, or token ids of shape `(count, length)`.
        rng: A seed, or a generator that gives one. The orders come from it: each text has one order, the same for every
            number of visible tokens.
        masked: With token ids: positions to be revealed, of the same shape; all by default. The others are given, and
            the result is that of sequences of so many tokens as are masked; `Mixed` where texts differ in that.
        points: How many numbers of visible tokens to measure for other orders.
        steps: Number of steps the order is told (for a comb without a number of segments).
        places: Numbers of visible tokens that must be among the points. Where texts differ in their number of tokens to
            fill, shares are measured, and these have no use.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of texts finished since the last call.

    Raises:
        InputError: if an argument is not what it should be, the model gives losses that are not finite numbers, or it
            remembers (`check_measurable`).
    """
    texts, among = texts_of(tokens, predictor, masked, least=2).by_length()
    check_measurable(predictor)
    seed = seed_of(rng)
    check.function("progress", progress)
    if not isinstance(order, BlindOrder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise check.InputError("order", "be a blind order", found=check.shown(order), remedy=check.BLIND_ORDER)
    counts = texts.counts.numpy()
    if counts.min() == 0:
        raise check.InputError("tokens", "have at least one position to fill in each text")
    length = int(counts.max())
    points = min(check.integer("points", points, least=1), length)
    told = None if steps is None else check.integer("steps", steps, least=1)
    wanted = _wanted(places, length)
    equal = int(counts.min()) == length
    if equal:
        unit, segments, absolute = length, None, False
        first = _first_places(order, length, told or length, wanted)
    else:
        unit, segments, absolute = _unit(order, length), segments_of(order), isinstance(order, Spread)
        first = _counts(length, points) if absolute else _shares(unit, points, points >= length)
    fixed = not equal or isinstance(order, Comb)
    count = len(first) if fixed else max(len(first), points)
    ranks = torch.as_tensor(_ranks(order, texts, told, seed, plain(among))).to(texts.tokens.device)
    tally: Tally = (
        EqualTally(order, counts.size, length, count) if equal else MixedTally(order, counts, unit, count, among)
    )
    job = Job(
        engine,
        Measured(predictor, length, tally.by_rank, unit, segments, absolute),
        (texts.tokens, texts.masked, texts.lengths, ranks),
        texts.cuts(batch, pad=predictor.pad, whole=predictor.whole),
    )

    def visit(*wanted: int) -> None:
        found = job([(visible,) for visible in wanted], lambda task, done: progress(done))
        for visible, parts in zip(wanted, found, strict=True):
            tally.add(visible, parts)

    visit(*first)
    while len(tally.found) < count:
        visit(tally.next_place())
    return tally.losses()


def check_measurable(predictor: MaskPredictor) -> None:
    """Refuse a predictor that remembers: what it loses depends on the steps so far, not on the number of tokens."""
    if predictor.remembers:
        raise check.InputError(
            "predictor",
            "predict from the visible tokens only",
            detail="but this one remembers the steps in which they were revealed, "
            "so an order alone does not determine the losses",
            remedy="Measure planned schedules with `measure_rules`, one pass each.",
        )


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


def _unit(order: BlindOrder, length: int) -> int:
    """What shares are counted in where texts differ: a power of two, so that halves are halves of all of them."""
    segments = segments_of(order)
    most = length if segments is None else _teeth(length, segments)
    return 1 << (most - 1).bit_length()


def _teeth(length: int, segments: int) -> int:
    """Teeth of a comb of so many segments."""
    return -(-length // min(segments, length))


def _shares(unit: int, points: int, everything: bool) -> list[int]:
    """Even shares, as many as fit, and the smallest ones; or all there are."""
    if everything or unit <= points:
        return list(range(unit))
    step = unit >> (points.bit_length() - 1)
    return sorted({*range(0, unit, step), *(unit >> power for power in range(1, unit.bit_length()))})


def _counts(length: int, points: int) -> list[int]:
    """Numbers of tokens from 0 on, as many from each power of two to the next, and all if they fit."""
    if points >= length:
        return list(range(length))
    found, parts = [0], 1
    while True:
        ends = [1 << power for power in range(length.bit_length())]
        more = {0, *(end + part * end // parts for end in ends for part in range(min(parts, end)))}
        more = {place for place in more if place < length}
        if len(more) > points:
            return found
        found, parts = sorted(more), 2 * parts


def _ranks(order: BlindOrder, texts: Sequences, steps: int | None, seed: int, numbers: list[int]) -> NDArray[np.int64]:
    """The rank of each position in the order of its text, −1 where it is given."""
    hidden = texts.masked.cpu().numpy()
    ranks = np.full(hidden.shape, -1, dtype=np.int64)
    for row, (number, length) in enumerate(zip(numbers, plain(texts.lengths), strict=True)):
        positions = np.flatnonzero(hidden[row])
        source = np.random.default_rng([seed, number])
        told = positions.size if steps is None else steps
        ranks[row, order.arrange(positions, length=length, steps=told, rng=source)] = np.arange(positions.size)
    return ranks
