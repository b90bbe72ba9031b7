"""Several schedules on the same texts, with the errors of their differences.

All schedules see the same texts and seeds, so that what a text costs more than another cancels in their differences:
those are paired, and have small standard errors. Two references are at hand. One by one in random order is what the
model does when nothing is revealed in parallel, in the order that most models are trained for. The best schedule is
the one that is best *on these texts*; choosing it makes schedules that are truly as good look worse, by up to about one
standard error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import order, size
from unmask._torch import Tensor, torch
from unmask.engine import LOCAL, SHARD, Engine
from unmask.evaluate.exact import Estimate
from unmask.evaluate.given import Randomness, seed_of, texts_of
from unmask.evaluate.levels import random_order
from unmask.evaluate.likelihood import at_once, replays
from unmask.predict import MaskPredictor
from unmask.sample import Counts
from unmask.schedule import Schedule
from unmask.sequences import Sequences

POINTS = 32  # evaluations of each text for the reference


@final
@dataclass(frozen=True)
class Cost:
    """What one schedule costs, in nats per token: of all texts together, over the tokens scored in them.

    Attributes:
        nll: Its negative log-likelihood.
        excess: By how much that is above one by one in random order, paired; None if that was not measured.
        difference: By how much it is above the schedule that is best on these texts, paired.
        evaluations: Evaluations of a sequence that is written, on average.
        passes: Evaluations of a sequence that was scored, on average.
        counts: Valid tokens and evaluations of all sequences together.
    """

    nll: Estimate
    excess: Estimate | None
    difference: Estimate
    evaluations: float
    passes: float
    counts: Counts


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """What several schedules cost on the same texts.

    Attributes:
        nll: Nats of every text under every schedule, shape `(schedules, texts)`.
        evaluations: Evaluations of a text under each, on average.
        reference: Nats of every text one by one in random order; None if that was not measured.
        counts: Valid tokens and evaluations under each, of all texts together.
        tokens: Tokens scored of every text, its end included.
        passes: Evaluations that scoring a text under each took, on average: 1 where that was one pass.
    """

    nll: NDArray[np.float64]
    evaluations: NDArray[np.float64]
    reference: NDArray[np.float64] | None
    counts: tuple[Counts, ...]
    tokens: NDArray[np.int64]
    passes: NDArray[np.float64]

    @staticmethod
    def joined(parts: "Sequence[Comparison]") -> "Comparison":
        """One of several that were measured on the same texts with the same seed; the first has the reference."""
        first = parts[0]
        return Comparison(
            np.concatenate([part.nll for part in parts]),
            np.concatenate([part.evaluations for part in parts]),
            first.reference,
            tuple(counts for part in parts for counts in part.counts),
            first.tokens,
            np.concatenate([part.passes for part in parts]),
        )

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "nll": self.nll.tolist(),
            "evaluations": self.evaluations.tolist(),
            "reference": None if self.reference is None else self.reference.tolist(),
            "counts": [[each.valid_tokens, each.evaluations] for each in self.counts],
            "tokens": self.tokens.tolist(),
            "passes": self.passes.tolist(),
        }

    @staticmethod
    def from_json(found: dict[str, Any]) -> "Comparison":
        """What `to_json` described."""
        reference = found["reference"]
        return Comparison(
            np.array(found["nll"], dtype=np.float64),
            np.array(found["evaluations"], dtype=np.float64),
            None if reference is None else np.array(reference, dtype=np.float64),
            tuple(Counts(*each) for each in found["counts"]),
            np.array(found["tokens"], dtype=np.int64),
            np.array(found.get("passes", found["evaluations"]), dtype=np.float64),  # of earlier versions: by replay
        )

    @property
    def one_by_one(self) -> Estimate | None:
        """Nats per token one by one in random order; None if that was not measured."""
        return None if self.reference is None else Estimate.ratio(self.reference, self.tokens)

    @property
    def costs(self) -> list[Cost]:
        """One for each schedule."""
        best = self.nll[np.argmin(self.nll.mean(axis=1))]
        return [
            Cost(
                Estimate.ratio(nll, self.tokens),
                None if self.reference is None else Estimate.ratio(nll - self.reference, self.tokens),
                Estimate.ratio(nll - best, self.tokens),
                float(spent),
                float(passes),
                counts,
            )
            for nll, spent, passes, counts in zip(self.nll, self.evaluations, self.passes, self.counts, strict=True)
        ]


def compare(
    predictor: MaskPredictor,
    schedules: Sequence[Schedule],
    tokens: Sequences | Tensor,
    *,
    rng: Randomness,
    reference: bool = True,
    end: int | None = None,
    batch: int = SHARD,
    engine: Engine = LOCAL,
    progress: Callable[[int, int], object] = lambda number, done: None,
) -> Comparison:
    """Measure what schedules cost on texts, by replay, or in one pass where that can be.

    Arguments:
        predictor: The model.
        schedules: The schedules.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: A seed, or a generator that gives one: sizes, orders and the reference come from it.
        reference: Whether to measure one by one in random order too: from a few evaluations of each text, or for one
            that remembers in one order drawn for each.
        end: The token id after which a text is over: what follows it is scored nowhere.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of a schedule, −1 for the reference, and of its sequences evaluated since the
            last call.
    """
    check.instance("reference", reference, bool, "be True or False")
    check.function("progress", progress)
    if not schedules:
        raise check.InputError("schedules", "hold at least one schedule")
    seed, base = seed_of(rng), None
    texts_of(tokens, predictor)
    # One that remembers has a likelihood one by one only along the steps of an order: the reference is a schedule too.
    first = [_one_by_one(tokens)] if reference and predictor.remembers else []
    if reference and not first:
        base, _ = random_order(
            predictor, tokens, rng=seed, points=POINTS, end=end, batch=batch, engine=engine,
            progress=lambda done: progress(-1, done),
        )  # fmt: skip
    results = replays(
        predictor,
        [*first, *schedules],
        tokens,
        rng=torch.Generator().manual_seed(seed),
        end=end,
        batch=batch,
        engine=engine,
        progress=lambda number, done: progress(number - len(first), done),
    )
    if first:
        base, results = results[0].nll, results[1:]
    return Comparison(
        np.array([result.nll.numpy() for result in results]),
        np.array([result.mean_evaluations for result in results]),
        None if base is None else base.numpy(),
        tuple(result.counts for result in results),
        results[0].revealed.numpy(),
        np.array([result.mean_passes for result in results]),
    )


def _one_by_one(tokens: Sequences | Tensor) -> Schedule:
    """The schedule that reveals these texts one token at a time, in random order."""
    return Schedule(size.Even(max(1, int(Sequences.of(tokens).counts.max()))), order.Random())


def reference_passes(predictor: MaskPredictor, tokens: Sequences | Tensor) -> int:
    """How many evaluations of a text the reference takes, of one that has most to fill."""
    schedule = _one_by_one(tokens)
    if at_once(predictor, schedule):
        return 1
    most = int(Sequences.of(tokens).counts.max())
    return most if predictor.remembers else min(POINTS, most)
