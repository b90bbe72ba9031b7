"""Schedules to begin with in the tab *Watch*: each fills the fields of one side, and has a sentence."""

import math
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import final

from unmask.app.data.watch import MEASURED_SIZE
from unmask.calibration import Calibration, advise
from unmask.words.rules import order_and_size
from unmask.words.sentences import evaluated

TARGET = 0.05  # bits per token above the best one-by-one likelihood: what the advice allows
ADVISED = "advised for this model"  # the name of the preset that a calibration makes
_ALONE = Lock()


@final
@dataclass(frozen=True)
class Preset:
    """A schedule to begin with.

    Attributes:
        order: The word for its order.
        size: The word for its size.
        steps: Number of steps; of no use to sizes that look at predictions.
        sentence: What it is.
        revision: The word for which tokens are taken back; None if none are.
    """

    order: str
    size: str
    steps: int
    sentence: str
    revision: str | None = None


_FIXED: dict[str, Preset] = {
    "comb, 16 steps": Preset(
        "comb", "even", 16, "Each step reveals 16 tokens that are far apart, so they depend little on each other.",
    ),
    "whole comb, 16 steps": Preset(
        "whole-comb", "even", 16, "A comb whose segments are all whole: the schedule that the causal model knows best.",
    ),
    "random, 16 steps": Preset(
        "random", "even", 16,
        "Each step reveals 16 tokens at random positions. The guarantees hold for such schedules.",
    ),
    "confidence threshold 0.9": Preset(
        "confidence", "threshold:0.9", 16,
        "Each step reveals every token that the model gives a probability of at least 90% (Fast-dLLM). Predictions "
        "decide the number of steps.",
    ),
    "few first (MaskGIT)": Preset(
        "confidence", "cosine", 16,
        "Each step reveals the tokens that the model is surest of: a few at the beginning, many at the end.",
    ),
    "left to right, one by one": Preset(
        "left-to-right", "even", 256, "One token per evaluation: slow, and with no error from parallel steps.",
    ),
    "second thoughts (ReMDM)": Preset(
        "random", "even", 32, "Random order. Each step also takes some earlier tokens back, to be drawn again.",
        "cap:0.1",
    ),
}  # fmt: skip


def presets(calibration: Calibration | None) -> tuple[str, ...]:
    """The names to choose from, for a model with or without a calibration."""
    return (*(() if calibration is None else (ADVISED,)), *_FIXED)


def preset(name: str, calibration: Calibration | None) -> Preset | None:
    """The preset of that name; None if there is none for this model."""
    if name == ADVISED:
        return None if calibration is None else advised(calibration)
    return _FIXED.get(name)


def matching(
    order: object, size: object, steps: object, revision: str | None, calibration: Calibration | None
) -> str | None:
    """The name of the preset that the fields of a side spell out; None if they are somebody's own."""
    fixed = next((name for name, each in _FIXED.items() if _spelled(each, order, size, steps, revision)), None)
    # Advice takes a second, and can be what the fields say only where they name such a size; that of a model which
    # remembers is quick.
    if calibration is None or (calibration.losses and size != MEASURED_SIZE):
        return fixed
    return ADVISED if _spelled(advised(calibration), order, size, steps, revision) else fixed


def _spelled(each: Preset, order: object, size: object, steps: object, revision: str | None) -> bool:
    timed = ":" in each.size or each.steps == steps
    return (each.order, each.size, each.revision) == (order, size, revision) and timed


def advised(calibration: Calibration) -> Preset:
    """What the calibration of a model advises, in the words of the fields."""
    with _ALONE:  # it takes a second, which several changes at once should not each take
        return _advised(calibration)


@lru_cache(maxsize=8)
def _advised(calibration: Calibration) -> Preset:
    found = advise(calibration, target=TARGET)
    cost = found.cost / found.tokens / math.log(2)
    sentence = (
        f"The fewest evaluations that cost at most {TARGET} bits per token more than one token at a time: "
        f"{evaluated(found.evaluations)}, and {cost:.3f} bits per token on texts like those measured."
    )
    if found.measured:
        order, size = order_and_size(found.order, found.schedule)
        word, _, steps = size.partition(":")
        # The number after a fixed size is its steps; after one that looks at predictions, it belongs to the size.
        return Preset(order, word if steps.isdigit() else size, int(steps) if steps.isdigit() else 1, sentence)
    return Preset(found.order, MEASURED_SIZE, found.steps, sentence)
