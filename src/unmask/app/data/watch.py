"""The tab *Watch*: a model fills one text under two schedules, from one seed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from unmask import _check as check
from unmask import models
from unmask.cli import schedules
from unmask.cli.generate import start_of
from unmask.cli.names import CURVE_SIZES, SIZES
from unmask.cli.watch import visible
from unmask.models.text import Codec
from unmask.sample import Sampler
from unmask.sample.trace import OPEN, Trace
from unmask.size import Blind

# Numbers that are typed as a part of a name, by the field that holds it.
_PARTS = {"segments": "order", "bound": "size", **dict.fromkeys(schedules.REACTIVE, "size")}


@dataclass(frozen=True)
class Choice:
    """The words for one schedule."""

    order: str
    size: str
    steps: int


@dataclass(frozen=True)
class Run:
    """What one schedule has done so far.

    Attributes:
        title: The schedule in words.
        pieces: The text of each position; empty where it is still masked.
        revealed: The step that revealed each position, from 0; `GIVEN` or `OPEN` otherwise.
        sizes: Tokens revealed by each step taken.
        nll: Negative log-probability of what was drawn up to each step, in nats.
        planned: How many steps there will be, where that is known.
    """

    title: str
    pieces: tuple[str, ...]
    revealed: tuple[int, ...]
    sizes: tuple[int, ...]
    nll: tuple[float, ...]
    planned: int | None

    @property
    def steps(self) -> int:
        """Steps taken, which is the number of evaluations."""
        return len(self.sizes)

    @property
    def finished(self) -> bool:
        return OPEN not in self.revealed


def watch(model: models.Model, text: str, choices: tuple[Choice, Choice], *, seed: object) -> Iterator[tuple[Run, ...]]:
    """Both runs, step by step; first as they start.

    Arguments:
        model: The model.
        text: What to fill: `_` is a masked token. If empty, everything is masked.
        choices: The two schedules.
        seed: Seeds both: positions have the same random numbers under either.

    Raises:
        ValueError: if the text or a schedule is not possible, before the model runs.
    """
    seed = check.integer("seed", seed, least=0, most=check.EXACT)
    try:
        start, _ = start_of(model, text or None, None, chat=False)
    except ValueError as error:
        # The command line has another way out, which is no field of the page.
        raise ValueError(str(error).replace(" Or give a --length beyond it.", "")) from None
    masked = int((start == model.predictor.mask).sum())
    named = [_built(side, choice, masked, bool(text)) for side, choice in zip(("left", "right"), choices, strict=True)]
    samplers = [Sampler(model.predictor, each.schedule) for each in named]
    states = [sampler.init(start, rng=[seed]) for sampler in samplers]
    titles = [title(each) for each in named]
    planned = [
        min(each.schedule.size.steps, masked) if isinstance(each.schedule.size, Blind) else None for each in named
    ]
    runs = [
        _run(words, state.trace(), model.codec, steps)
        for words, state, steps in zip(titles, states, planned, strict=True)
    ]
    yield tuple(runs)
    ways = [sampler.steps(state) for sampler, state in zip(samplers, states, strict=True)]
    for both in zip_longest(*ways):
        for side, taken in enumerate(both):
            if taken is not None:
                runs[side] = _run(titles[side], taken[0].trace(), model.codec, planned[side])
        yield tuple(runs)


def title(named: schedules.Named) -> str:
    """The schedule in a few words."""
    return f"{named.order} order, {named.size} sizes" + ("" if named.steps is None else f", {named.steps} steps")


def _built(side: str, choice: Choice, masked: int, prompted: bool) -> schedules.Named:
    try:
        steps = check.integer("steps", choice.steps, least=1)
        if choice.size in CURVE_SIZES:
            raise check.InputError("size", "need no calibration here; the command line takes those")
        schedules.check_size(choice.size, SIZES)
        if not prompted:
            schedules.check_combs([choice.order], masked)
        # A text with few gaps is filled in as many steps at most, as on the command line.
        return schedules.build(choice.order, choice.size, min(steps, masked) if prompted else steps, masked)
    except (ValueError, TypeError) as error:
        words = re.sub(r" Choose from .*", " The list has them all.", str(error))
        raise ValueError(re.sub("^Argument '([^']+)'", lambda found: _of(side, found[1]), words)) from None


def _of(side: str, name: str) -> str:
    """The argument as a field: the page has the same ones twice, and the sentence must find the right one."""
    whole = _PARTS.get(name)
    return f"Argument '{side} {name}'" if whole is None else f"Argument '{side} {whole}' is refused: its {name}"


def _run(words: str, trace: Trace, codec: Codec, planned: int | None) -> Run:
    revealed = trace.revealed[0].tolist()
    scores = trace.log_probability[0].numpy()
    when = np.array(revealed)
    nll = -np.bincount(when[when >= 0], weights=scores[when >= 0], minlength=trace.steps)
    return Run(
        words,
        tuple(
            "" if step == OPEN else visible(codec, token)
            for token, step in zip(trace.tokens[0].tolist(), revealed, strict=True)
        ),
        tuple(revealed),
        tuple(trace.sizes[0].tolist()),
        tuple(np.cumsum(nll).tolist()),
        planned,
    )
