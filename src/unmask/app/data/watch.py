"""The tab *Watch*: one text is filled twice from one seed, by one model or two, under two schedules."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple, final

import numpy as np

from unmask import _check as check
from unmask import models
from unmask.calibration import Calibration, measured_as
from unmask.models.start import start_of
from unmask.models.text import Codec
from unmask.names import REVISIONS
from unmask.sample import Draw, Sampler, State, draw_for
from unmask.sample.revising import RevisedPlan
from unmask.sample.trace import GIVEN, OPEN, PADDED, Trace
from unmask.sample.versions import MASKED
from unmask.schedule import Schedule
from unmask.size import Blind
from unmask.words.revisions import order_for, revised
from unmask.words.schedules import CURVE_SIZES, FREE_SIZES, NamedSchedule, build, check_combs, check_size, order_named
from unmask.words.sentences import counted, visible

MEASURED_SIZE = "optimal"  # the one size that is made from a calibration and fits any number of tokens
_HOTTEST = 10.0  # beyond it every token is as likely as any other
_MOST_BITS = 99.0  # shown of a token that was all but impossible


@dataclass(frozen=True)
class Side:
    """The words for the schedule of one side, and who writes.

    Attributes:
        order: The order.
        size: The size.
        steps: Number of steps.
        writer: The model; the one that both have in common by default.
        revision: Which tokens are taken back; None if none are.
        calibration: What was measured of the model, for sizes that are made from it; None if nothing was.
    """

    order: str
    size: str
    steps: int
    writer: models.Model | None = None
    revision: str | None = None
    calibration: Calibration | None = None


class Standing(NamedTuple):
    """How things stand after a step of a run that may take tokens back.

    Attributes:
        evaluations: Evaluations so far: a step may take several.
        valid: Tokens that stand and count.
        scored: The same with the end of the answer.
        taken: How often a token was taken back so far.
        rewritten: How often a position was given a token after its first one.
    """

    evaluations: int = 0
    valid: int = 0
    scored: int = 0
    taken: int = 0
    rewritten: int = 0


@final
@dataclass(frozen=True)
class Revised:
    """What else there is to know of a run that may take tokens back.

    Attributes:
        word: The word for its revision.
        sentence: What that is.
        versions: For each position all its changes, in their order: the step, and the text it was given; None where it
            was taken back.
        standings: How things stand after each step.
        over: Whether no step will follow: also a text without a gap may still be changed.
    """

    word: str
    sentence: str
    versions: tuple[tuple[tuple[int, str | None], ...], ...]
    standings: tuple[Standing, ...]
    over: bool = False


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
        nll: Negative log-probability of these, in nats; empty where tokens may be taken back, which leaves none.
        planned: How many steps there will be, where that is known.
        revised: What else there is to know where tokens may be taken back; what is said above of positions is then of
            their last versions. None elsewhere.
        surprise: For each position the bits of every token it was given, when that was drawn; 0 where it was taken
            back, and nothing where it was given or is still masked.
        note: What was done differently from what was asked for, in a sentence; empty if nothing was.
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
    revised: Revised | None = None
    surprise: tuple[tuple[float, ...], ...] = ()
    note: str = ""

    @property
    def steps(self) -> int:
        """Steps taken, which is the number of evaluations unless tokens may be taken back."""
        return len(self.sizes)

    @property
    def evaluations(self) -> int:
        """Evaluations so far."""
        if self.revised is None:
            return self.steps
        return self.revised.standings[-1].evaluations if self.revised.standings else 0

    @property
    def finished(self) -> bool:
        return OPEN not in self.revealed if self.revised is None else self.revised.over


def watch(
    model: models.Model,
    text: str,
    choices: tuple[Side, Side],
    *,
    seed: object,
    temperature: object = 1.0,
    top_p: object = 1.0,
) -> Iterator[tuple[Run, ...]]:
    """Both runs, step by step; first as they start.

    Arguments:
        model: The model of sides that have none of their own.
        text: What to fill: `_` is a masked token. If empty, everything is masked.
        choices: The two schedules.
        seed: Seeds both: positions have the same random numbers under either.
        temperature: Of both draws; 0 takes the most likely token.
        top_p: Both draw among the likeliest tokens of this total probability.

    Raises:
        ValueError: if the text or a schedule is not possible, before the model runs.
    """
    seed = check.integer("seed", seed, least=0, most=check.EXACT)
    draw = _draw(temperature, top_p)
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
        Sampler(writer.predictor, each.schedule, draw, stop=writer.stop)
        for writer, each in zip(writers, named, strict=True)
    ]
    states = [sampler.init(start, rng=[seed]) for sampler, start in zip(samplers, starts, strict=True)]
    several = writers[0] is not writers[1]
    before = [f"{writer.name}: " if several else "" for writer in writers]
    words = [choice.revision for choice in choices]
    after = ["" if word is None else f", revision {word}" for word in words]
    titles = [f"{name}{each.title}{word}" for name, each, word in zip(before, named, after, strict=True)]
    planned = [_planned(each.schedule, state, count) for each, state, count in zip(named, states, masked, strict=True)]
    notes = [_clamped(choice, count) for choice, count in zip(choices, masked, strict=True)]
    runs = [
        replace(_run(title, state, writer.codec, steps, word, None), note=said)
        for title, state, writer, steps, word, said in zip(titles, states, writers, planned, words, notes, strict=True)
    ]
    yield tuple(runs)
    ways = [sampler.steps(state) for sampler, state in zip(samplers, states, strict=True)]
    for both in zip_longest(*ways):
        for side, taken in enumerate(both):
            if taken is None:
                runs[side] = _over(runs[side])
                continue
            made = _run(titles[side], taken[0], writers[side].codec, planned[side], words[side], runs[side].revised)
            runs[side] = replace(made, note=notes[side])
        yield tuple(runs)
    if not all(run.finished for run in runs):  # whether a step would follow was not known before
        yield tuple(map(_over, runs))


def _draw(temperature: object, top_p: object) -> Draw:
    heat, mass = check.real("temperature", temperature, least=0.0), check.real("top_p", top_p, above=0.0)
    for name, value, most in (("temperature", heat, _HOTTEST), ("top_p", mass, 1.0)):
        if value > most:
            raise check.InputError(name, f"be at most {most:g}", found=f"{value:g}")
    return draw_for(heat, top_p=mass)


def _built(side: str, choice: Side, masked: int, prompted: bool) -> NamedSchedule:
    try:
        # There is no point in more steps than tokens: a step reveals one at least.
        steps = min(check.integer("steps", choice.steps, least=1), masked)
        order_named(choice.order)  # an empty field has no name
        if choice.size in CURVE_SIZES:
            _check_measured(choice, steps)
        check_size(choice.size, (*FREE_SIZES, MEASURED_SIZE))
        if not prompted:
            check_combs([choice.order], masked)
        named = build(choice.order, choice.size, steps, masked, choice.calibration)
        return replace(named, schedule=_revised(named.schedule, choice))
    except check.InputError as error:
        # The page has the same fields twice, and the sentence must find the right one.
        raise error.about(f"{side} {error.argument}") from None


def _check_measured(choice: Side, steps: int) -> None:
    """Refuse a size that is made from a calibration where there is none of it."""
    if choice.calibration is None or choice.size != MEASURED_SIZE:
        raise check.InputError(
            "size", "be one that needs no calibration", remedy="For a size that needs one, use the command line."
        )
    if measured_as(choice.calibration, order_named(choice.order), steps) is None:
        known = ", ".join(choice.calibration.losses)
        which = f": {known}" if known else ", and none was"
        remedy = f"'{choice.size}' is for orders that were measured on this model{which}."
        unsuited = f"but '{choice.size}' does not"
        raise check.InputError("size", f"suit the order {choice.order}", detail=unsuited, remedy=remedy)


def _clamped(choice: Side, masked: int) -> str:
    if choice.steps <= masked or ":" in choice.size:
        return ""
    there = "There is" if masked == 1 else "There are"
    return f"{there} only {counted(masked, 'token')} to fill, so {choice.steps:,} steps became {masked:,}."


def _revised(schedule: Schedule, choice: Side) -> Schedule:
    """The schedule with the revision that was chosen; where they do not go together, in the words of the page."""
    wanted = order_for(choice.revision)
    if wanted is not None and choice.order != wanted and schedule.spaced is None:
        raise check.InputError(
            "order", f"be {wanted} for the revision {choice.revision}", found=check.shown(choice.order)
        )
    try:
        return revised(schedule, choice.revision)
    except check.InputError as error:
        words = {"order": choice.order, "size": choice.size, "revision": choice.revision}
        theirs = error.found and error.argument in words
        raise (error.changed(found=check.shown(words[error.argument])) if theirs else error) from None


def _planned(schedule: Schedule, state: State, masked: int) -> int | None:
    if isinstance(state.plan, RevisedPlan):
        return state.plan.steps
    return min(schedule.size.steps, masked) if isinstance(schedule.size, Blind) else None


def _over(run: Run) -> Run:
    """The run, to which no step will be added."""
    return run if run.revised is None else replace(run, revised=replace(run.revised, over=True))


def _run(title: str, state: State, codec: Codec, planned: int | None, word: str | None, before: Revised | None) -> Run:
    trace = state.trace()
    revealed = trace.revealed[0].tolist()
    when, valid, scored = trace.revealed[0].numpy(), trace.valid[0].numpy(), trace.scored[0].numpy()
    pieces = tuple(
        "" if step in (OPEN, PADDED) else visible(codec.piece(token))
        for token, step in zip(trace.tokens[0].tolist(), revealed, strict=True)
    )
    beyond = tuple((~scored & (when != GIVEN) & (when != OPEN)).tolist())
    sizes = tuple(trace.sizes[0].tolist())
    if word is not None:
        standings = _standings(() if before is None else before.standings, state.step, trace)
        more = Revised(word, REVISIONS[word.partition(":")[0]].sentence, _versions(trace, codec), standings)
        # The last steps may have changed nothing, which the record of changes does not know.
        sizes += (0,) * (state.step - len(sizes))
        counts = (tuple(each.valid for each in standings), tuple(each.scored for each in standings))
        return Run(
            title, pieces, tuple(revealed), beyond, sizes, *counts, (), planned, more, _changed(trace, len(pieces))
        )  # fmt: skip
    nll = -np.bincount(when[scored], weights=trace.log_probability[0].numpy()[scored], minlength=trace.steps)
    return Run(
        title,
        pieces,
        tuple(revealed),
        beyond,
        sizes,
        tuple(np.cumsum(np.bincount(when[valid], minlength=trace.steps)).tolist()),
        tuple(np.cumsum(np.bincount(when[scored], minlength=trace.steps)).tolist()),
        tuple(np.cumsum(nll).tolist()),
        planned,
        surprise=tuple(
            (_bits(score),) if step >= 0 else ()
            for step, score in zip(revealed, trace.log_probability[0].tolist(), strict=True)
        ),
    )


def _bits(log_probability: float) -> float:
    return min(-log_probability / math.log(2), _MOST_BITS)


def _changed(trace: Trace, length: int) -> tuple[tuple[float, ...], ...]:
    """The bits of every version of every position."""
    found: list[list[float]] = [[] for _ in range(length)]
    if trace.versions is not None:
        made = trace.versions
        for place, score in zip(made.position.tolist(), made.log_probability.tolist(), strict=True):
            found[place].append(_bits(score))
    return tuple(map(tuple, found))


def _standings(before: tuple[Standing, ...], steps: int, trace: Trace) -> tuple[Standing, ...]:
    """How things stand after each step, the newest included; after those that had nothing to do, as before them."""
    if not steps or trace.versions is None:
        return ()
    now = Standing(
        int(trace.evaluations[0]), int(trace.valid[0].sum()), int(trace.scored[0].sum()),
        trace.versions.taken, trace.versions.rewritten,
    )  # fmt: skip
    return before + (before[-1] if before else Standing(),) * (steps - 1 - len(before)) + (now,)


def _versions(trace: Trace, codec: Codec) -> tuple[tuple[tuple[int, str | None], ...], ...]:
    found: list[list[tuple[int, str | None]]] = [[] for _ in range(trace.tokens.shape[1])]
    if trace.versions is not None:
        made = trace.versions
        for step, place, token in zip(made.step.tolist(), made.position.tolist(), made.token.tolist(), strict=True):
            found[place].append((step, None if token == MASKED else visible(codec.piece(token))))
    return tuple(map(tuple, found))
