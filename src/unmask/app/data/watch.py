"""The tab *Watch*: one text is filled twice from one seed, by one model or two, under two schedules."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from unmask import _check as check
from unmask import models
from unmask.models.start import start_of
from unmask.models.text import Codec
from unmask.sample import Sampler
from unmask.sample.trace import GIVEN, OPEN, PADDED, Trace
from unmask.size import Blind
from unmask.words.schedules import CURVE_SIZES, FREE_SIZES, NamedSchedule, build, check_combs, check_size
from unmask.words.sentences import visible


@dataclass(frozen=True)
class Side:
    """The words for the schedule of one side, and who writes.

    Attributes:
        order: The order.
        size: The size.
        steps: Number of steps.
        writer: The model; the one that both have in common by default.
    """

    order: str
    size: str
    steps: int
    writer: models.Model | None = None


@dataclass(frozen=True)
class Run:
    """What one schedule has done so far.

    Attributes:
        title: The schedule in words.
        pieces: The text of each position; empty where it is still masked.
        revealed: The step that revealed each position, from 0; `GIVEN`, `OPEN` or `PADDED` otherwise.
        beyond: Whether each position is beyond the end of the answer, where nothing counts.
        sizes: Tokens revealed by each step taken.
        valid: Tokens that count up to each step: before the end of the answer.
        scored: The same with the end.
        nll: Negative log-probability of these, in nats.
        planned: How many steps there will be, where that is known.
    """

    title: str
    pieces: tuple[str, ...]
    revealed: tuple[int, ...]
    beyond: tuple[bool, ...]
    sizes: tuple[int, ...]
    valid: tuple[int, ...]
    scored: tuple[int, ...]
    nll: tuple[float, ...]
    planned: int | None

    @property
    def steps(self) -> int:
        """Steps taken, which is the number of evaluations."""
        return len(self.sizes)

    @property
    def finished(self) -> bool:
        return OPEN not in self.revealed


def watch(model: models.Model, text: str, choices: tuple[Side, Side], *, seed: object) -> Iterator[tuple[Run, ...]]:
    """Both runs, step by step; first as they start.

    Arguments:
        model: The model of sides that have none of their own.
        text: What to fill: `_` is a masked token. If empty, everything is masked.
        choices: The two schedules.
        seed: Seeds both: positions have the same random numbers under either.

    Raises:
        ValueError: if the text or a schedule is not possible, before the model runs.
    """
    seed = check.integer("seed", seed, least=0, most=check.EXACT)
    writers = [choice.writer or model for choice in choices]
    try:
        starts = [start_of(writer, text or None, None)[0] for writer in writers]
    except check.InputError as error:
        # Elsewhere a length beyond the prompt is a way out, which is no field of the page.
        raise error.changed(remedy="") from None
    masked = [int((start == each.predictor.mask).sum()) for start, each in zip(starts, writers, strict=True)]
    named = [
        _built(side, choice, count, bool(text))
        for side, choice, count in zip(("left", "right"), choices, masked, strict=True)
    ]
    samplers = [
        Sampler(writer.predictor, each.schedule, stop=writer.stop) for writer, each in zip(writers, named, strict=True)
    ]
    states = [sampler.init(start, rng=[seed]) for sampler, start in zip(samplers, starts, strict=True)]
    several = writers[0] is not writers[1]
    before = [f"{writer.name}: " if several else "" for writer in writers]
    titles = [f"{name}{each.title}" for name, each in zip(before, named, strict=True)]
    planned = [
        min(each.schedule.size.steps, count) if isinstance(each.schedule.size, Blind) else None
        for each, count in zip(named, masked, strict=True)
    ]
    runs = [
        _run(words, state.trace(), writer.codec, steps)
        for words, state, writer, steps in zip(titles, states, writers, planned, strict=True)
    ]
    yield tuple(runs)
    ways = [sampler.steps(state) for sampler, state in zip(samplers, states, strict=True)]
    for both in zip_longest(*ways):
        for side, taken in enumerate(both):
            if taken is not None:
                runs[side] = _run(titles[side], taken[0].trace(), writers[side].codec, planned[side])
        yield tuple(runs)


def _built(side: str, choice: Side, masked: int, prompted: bool) -> NamedSchedule:
    try:
        steps = check.integer("steps", choice.steps, least=1)
        if choice.size in CURVE_SIZES:
            raise check.InputError("size", "need no calibration here; the command line takes those")
        check_size(choice.size, FREE_SIZES)
        if not prompted:
            check_combs([choice.order], masked)
        # A text with few gaps is filled in as many steps at most, as on the command line.
        return build(choice.order, choice.size, min(steps, masked) if prompted else steps, masked)
    except check.InputError as error:
        # The page has the same fields twice, and the sentence must find the right one.
        raise error.about(f"{side} {error.argument}") from None


def _run(words: str, trace: Trace, codec: Codec, planned: int | None) -> Run:
    revealed = trace.revealed[0].tolist()
    when, valid, scored = trace.revealed[0].numpy(), trace.valid[0].numpy(), trace.scored[0].numpy()
    nll = -np.bincount(when[scored], weights=trace.log_probability[0].numpy()[scored], minlength=trace.steps)
    return Run(
        words,
        tuple(
            "" if step in (OPEN, PADDED) else visible(codec.piece(token))
            for token, step in zip(trace.tokens[0].tolist(), revealed, strict=True)
        ),
        tuple(revealed),
        tuple((~scored & (when != GIVEN) & (when != OPEN)).tolist()),
        tuple(trace.sizes[0].tolist()),
        tuple(np.cumsum(np.bincount(when[valid], minlength=trace.steps)).tolist()),
        tuple(np.cumsum(np.bincount(when[scored], minlength=trace.steps)).tolist()),
        tuple(np.cumsum(nll).tolist()),
        planned,
    )
