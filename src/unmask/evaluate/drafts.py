"""How many evaluations verified sampling takes, predicted before it runs.

A draft is taken back with the probability of the total variation between the law it was drawn from, `q_j`, and the law
it is verified by, `p_j` (`unmask.sample.verified`). So with the tokens of given texts in place of drafts,

    evaluations = 1 + K + Σ_j TV(p_j, q_j),        less what the last step saves,

is what writing texts like these takes on average; exactly so if they are samples of the model's own one-by-one law.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.exact import Estimate
from unmask.evaluate.given import texts_of
from unmask.predict import MaskPredictor, Watched, predicting
from unmask.predict.prefixes import Prefixes
from unmask.sample import Seeds, seeds_of
from unmask.sample.agenda import agenda_of, sets_in
from unmask.sample.draw import Categorical, Draw
from unmask.sample.seeds import sources_of
from unmask.sample.verified import Verified, places_of
from unmask.schedule import Schedule
from unmask.sequences import Sequences, own_lengths, put_back, trimmed


@final
@dataclass(frozen=True, eq=False)
class Drafts:
    """What verification is expected to do on texts like these, text by text.

    Attributes:
        rejected: Drafts that will be taken back, on average over what is drafted.
        evaluations: Evaluations.
        steps: Steps of the schedule.
    """

    rejected: Tensor
    evaluations: Tensor
    steps: Tensor

    @property
    def expected(self) -> Estimate:
        """Mean evaluations of a text, with the standard error over texts."""
        return Estimate.of(self.evaluations.numpy())


def verified_evaluations(
    predictor: MaskPredictor,
    schedule: Schedule,
    tokens: Sequences | Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    draw: Draw | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Drafts:
    """Forecast what `unmask.sample.Verified` will take, from texts.

    Arguments:
        predictor: The model.
        schedule: What is drafted together; it must not look at predictions.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: Source of one seed for each text, or the seeds: they draw sizes and orders.
        masked: With token ids: positions to be filled, of the same shape; all by default. The others are given.
        draw: How tokens are drawn; from the predicted law itself by default.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.
    """
    check.function("progress", progress)
    verified = Verified(predictor, schedule, Categorical() if draw is None else draw)
    texts, order = texts_of(tokens, predictor, masked).by_length()
    given = seeds_of(rng, len(texts))
    numbers: list[int] = plain(order)
    seeds = tuple(given[number] for number in numbers)
    columns = (texts.tokens, texts.masked, texts.lengths, seeds)
    cuts = texts.cuts(batch, pad=predictor.pad, whole=predictor.whole)
    found = Job(engine, _Forecast(verified), columns, cuts)([()], lambda task, done: progress(done))[0]
    rejected, evaluations, steps = zip(*found, strict=True)
    return Drafts(put_back(rejected, order), put_back(evaluations, order), put_back(steps, order))


@final
@dataclass(frozen=True, eq=False)
class _Forecast:
    """Work on shards: texts, what is masked of them, their lengths, and their seeds."""

    verified: Verified

    @property
    def predictor(self) -> MaskPredictor:
        return self.verified.predictor

    @predicting
    def __call__(
        self, shard: tuple[Tensor, Tensor, Tensor, tuple[int, ...]], report: Report
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, hidden, lengths, seeds = shard
        tokens, hidden = trimmed(tokens, hidden, lengths, self.predictor.pad)
        predictor, draw = Watched(self.predictor, report), self.verified.draw
        count, length = tokens.shape
        blanked = tokens.masked_fill(hidden, predictor.mask)
        own = own_lengths(blanked, predictor.pad)
        sources, _ = sources_of(seeds, own, length)  # those of a sampler: the orders are then the ones it would have
        agenda = agenda_of(self.verified.schedule, hidden.cpu().numpy(), sources, own)
        rows = [sets_in(stretches) for stretches in agenda]
        most = max((len(steps) for steps in rows), default=0)
        empty = np.zeros(0, dtype=np.int64)
        places = [
            places_of([steps[k] if k < len(steps) else empty for steps in rows], length, tokens.device)
            for k in range(most + 1)
        ]
        memory = predictor.begin(blanked, hidden) or Prefixes(predictor, hidden)
        lost = torch.zeros((count, length), dtype=torch.float64, device=tokens.device)
        theirs: Tensor | None = None
        for now, after in zip([places[-1], *places[:-1]], places, strict=True):
            first, then, memory = memory.scan(tokens, now, after)
            if theirs is not None:
                mine = draw.law(first.log_probabilities())
                lost.view(-1)[now.rows] = (mine.exp() - theirs.exp()).abs().sum(dim=1).double() / 2
                memory = memory.accepted(now)
            theirs = draw.law(then.log_probabilities()) if len(after) else torch.zeros(())
        steps = torch.tensor([len(each) for each in rows], dtype=torch.float64)
        last = [number * length + int(each[-1][-1]) for number, each in enumerate(rows) if each]
        end = torch.zeros(count, dtype=torch.float64)
        end[steps > 0] = lost.view(-1)[torch.tensor(last, dtype=torch.int64, device=tokens.device)].cpu()
        lone = torch.tensor([float(bool(each) and len(each[-1]) == 1) for each in rows], dtype=torch.float64)
        rejected = lost.sum(dim=1).cpu()
        return rejected, torch.where(steps > 0, 1 + steps + rejected - end - lone, 0.0), steps
