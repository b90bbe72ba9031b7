"""The losses of a model under several orders, and the costs of rules, measured in turn; earlier results are kept."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from unmask import _check as check
from unmask import order, size
from unmask._torch import Tensor, torch
from unmask.calibration.calibration import Calibration
from unmask.calibration.losses import Losses
from unmask.calibration.measurement import check_measurable, measure
from unmask.calibration.rules import MeasuredRule
from unmask.calibration.shards import finite
from unmask.engine import LOCAL, SHARD, Engine
from unmask.evaluate.given import Randomness, check_ids, seed_of, texts_of
from unmask.evaluate.likelihood import replay
from unmask.predict import MaskPredictor
from unmask.schedule import Schedule
from unmask.sequences import Sequences

POINTS = 33


def blank(fingerprint: str, tokens: Sequences | Tensor, rng: Randomness) -> Calibration:
    """A calibration without any order.

    Arguments:
        fingerprint: The model's.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: A seed, or a generator that gives one: that of the orders to be measured.
    """
    check.instance("fingerprint", fingerprint, str, "be text")
    check_ids(tokens)
    seed, texts = seed_of(rng), Sequences.of(tokens)
    parts = [texts.tokens.cpu().numpy().tobytes(), str(seed).encode()]
    if not bool(texts.masked.all()):  # what is given, and where texts end
        parts += [texts.masked.cpu().numpy().tobytes(), texts.lengths.numpy().tobytes()]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    return Calibration(int(texts.counts.max()), fingerprint, len(texts), {}, digest)


def measure_orders(
    predictor: MaskPredictor,
    orders: Mapping[str, order.BlindOrder],
    tokens: Sequences | Tensor,
    kept: Calibration,
    *,
    rng: Randomness,
    points: int = POINTS,
    batch: int = SHARD,
    engine: Engine = LOCAL,
    save: Callable[[Calibration], Calibration] = lambda found: found,
    progress: Callable[[str, int], object] = lambda name, done: None,
) -> Calibration:
    """Measure the orders that are missing from `kept`.

    Arguments:
        predictor: The model.
        orders: Orders by name.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        kept: What is known already, such as nothing (`blank`).
        rng: A seed, or a generator that gives one: the orders come from it, and must be those of `kept`.
        points: Places to measure; left to right is measured at all of them.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        save: Called with everything known after each order; what it returns is what is known from then on.
        progress: Called with the name of an order and the number of texts finished since the last call.

    Raises:
        InputError: if the predictor remembers: measure schedules then (`measure_rules`).
    """
    check.instance("orders", orders, Mapping, "be a mapping from names to orders")
    check.instance("kept", kept, Calibration, "be a Calibration")
    texts_of(tokens, predictor, least=2)
    if orders:
        check_measurable(predictor)
    check.function("save", save)
    check.function("progress", progress)
    seed, points = seed_of(rng), check.integer("points", points, least=1)
    for name, kind in orders.items():
        if name in kept.losses:
            continue
        found = _measured(
            predictor, kind, tokens, seed, points, batch, engine, lambda done, name=name: progress(name, done)
        )
        losses = {**kept.losses, name: found}
        kept = save(replace(kept, losses=losses, wanted=tuple(dict.fromkeys([*losses, *kept.wanted, *orders]))))
    return kept


def measure_rules(
    predictor: MaskPredictor,
    rules: Mapping[str, Schedule],
    tokens: Sequences | Tensor,
    kept: Calibration,
    *,
    rng: Randomness,
    batch: int = SHARD,
    engine: Engine = LOCAL,
    save: Callable[[Calibration], Calibration] = lambda found: found,
    progress: Callable[[str, int], object] = lambda name, done: None,
) -> Calibration:
    """Measure the rules that are missing from `kept` on its texts: by replay, or in one pass where that can be.

    Arguments:
        predictor: The model.
        rules: Schedules by name, of any kind: those that look at predictions cannot be known otherwise.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        kept: What is known already; a rule of that name that is another schedule is measured again.
        rng: A seed, or a generator that gives one: what is random in a rule comes from it, and is common to all.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        save: Called with everything known after each rule; what it returns is what is known from then on.
        progress: Called with the name of a rule and the number of sequences evaluated since the last call.

    Raises:
        InputError: if the texts are not as many as those of `kept`, or the model gives losses that are not finite.
    """
    check.instance("rules", rules, Mapping, "be a mapping from names to schedules")
    check.instance("kept", kept, Calibration, "be a Calibration")
    check.function("save", save)
    check.function("progress", progress)
    texts = texts_of(tokens, predictor, least=2)
    if len(texts) != kept.texts:
        raise check.InputError("tokens", f"be the {kept.texts} texts of the calibration", found=f"{len(texts)}")
    seed = seed_of(rng)
    for name, schedule in rules.items():
        check.instance("rules", schedule, Schedule, "hold schedules")
        if name in kept.rules and kept.rules[name].schedule.to_json() == schedule.to_json():
            continue
        found = replay(
            predictor, schedule, tokens, rng=torch.Generator().manual_seed(seed), batch=batch, engine=engine,
            progress=partial(progress, name),
        )  # fmt: skip
        finite(found.nll)
        nll = found.nll.clamp(min=0.0)  # the logarithm of a certainty may be a rounding error above zero
        known = {
            **kept.rules,
            name: MeasuredRule.of(schedule, nll.numpy(), found.evaluations.numpy(), texts.counts.cpu().numpy()),
        }
        wanted = dict.fromkeys([*kept.losses, *known, *kept.wanted, *rules])
        kept = save(replace(kept, rules=known, wanted=tuple(wanted)))
    return kept


def _measured(
    predictor: MaskPredictor,
    kind: order.BlindOrder,
    tokens: Sequences | Tensor,
    seed: int,
    points: int,
    batch: int,
    engine: Engine,
    report: Callable[[int], object],
) -> Losses:
    counts = Sequences.of(tokens).counts
    length = int(counts.max())
    places: tuple[int, ...] = ()
    if isinstance(kind, order.LeftToRight):
        points, places = length, tuple(range(length))
    elif not isinstance(kind, order.Random):  # also a comb's, where texts differ
        # Where the cuts of even sizes fall, so that those can be predicted in orders that have no curve.
        steps = min(length, 1 << max(0, (points - 1).bit_length() - 1))
        places = tuple(np.cumsum(size.Even(steps).sizes(length))[:-1].tolist())
    return measure(
        predictor, kind, tokens, rng=seed, points=points, places=places, batch=batch, engine=engine, progress=report
    )


def evaluations(kind: order.BlindOrder, length: int, points: int = POINTS) -> int:
    """How many evaluations of each text an order takes."""
    if isinstance(kind, order.Comb):
        return -(-length // min(kind.segments or length, length))
    return length if isinstance(kind, order.LeftToRight) else min(points, length)
