"""The exact likelihood of the K-step sampler on given texts.

If the set revealed at each step depends only on tokens already revealed, or on randomness independent of the text,
then the sampler's path on a text `x` is determined: run it with the text's own tokens in place of the draws, and

    −log p(x | randomness) = Σ_k Σ_{i∈S_k} −log p̂_i(x_i | x_revealed)

is the sampler's exact negative log-likelihood. Its mean over held-out texts is the total K-step cost: the model's own
error in this order, plus what parallel steps ignore. Differences between schedules are differences of expected KL.
Every size and order of this library has that property; a rule that looks at the token just drawn has not, and none is
offered.

A predictor that remembers (`unmask.predict.memory`) tells all steps of a text at once. Where the path is known before
the model runs, the whole sum is then **one pass**, whatever the number of steps: the steps are those that the sampler
would take with the same seed, and what each text costs is the same to rounding.

Where texts have an end, what follows it is replayed but not scored, and a text is over once its end is revealed with
nothing masked before it: evaluations are those of the sampler that stops there (`unmask.sample.Stop`).

References:
    Turok, De Sa & Kuleshov, DUEL: exact likelihood for masked diffusion via deterministic unmasking, 2026 (arXiv
        2603.01367): the same for rules that choose positions deterministically.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.distribution.base import Distribution
from unmask.engine import LOCAL, Engine, Job, Progress, Report, unseen
from unmask.evaluate.exact import Estimate
from unmask.evaluate.given import Randomness, generator_of, texts_of
from unmask.predict import ExactPredictor, MaskPredictor, Watched, predicting
from unmask.sample import Counts, Sampler, Seeds, Stop, seeds_of
from unmask.sample.agenda import planned_steps
from unmask.sample.draw import Replay, impossible
from unmask.sample.trace import answered
from unmask.schedule import Schedule
from unmask.sequences import Sequences, own_lengths, put_back, trimmed


@final
@dataclass(frozen=True, eq=False)
class Replayed:
    """Likelihoods of texts under a sampler.

    Attributes:
        nll: Negative log-likelihood of each text in nats, float64; up to its end, where it has one.
        revealed: Number of tokens scored in each text, its end included.
        evaluations: Predictor evaluations that the sampler spends on each text.
        ends: Which texts have an end, as 0 or 1; `None` if none has.
        in_one_pass: Whether they were scored in one pass, and not step by step.
    """

    nll: Tensor
    revealed: Tensor
    evaluations: Tensor
    ends: Tensor | None = None
    in_one_pass: bool = False

    @property
    def passes(self) -> Tensor:
        """Predictor evaluations that it took to score each text: 1 in one pass, as many as the sampler's by replay."""
        return self.evaluations.clamp(max=1) if self.in_one_pass else self.evaluations

    @property
    def counts(self) -> Counts:
        """Valid tokens, those scored before the ends, and evaluations of all texts together."""
        ends = 0 if self.ends is None else int(self.ends.sum())
        return Counts(int(self.revealed.sum()) - ends, int(self.evaluations.sum()))

    @property
    def per_sequence(self) -> Estimate:
        """Mean nats per sequence, with the standard error over texts."""
        return Estimate.of(self.nll.numpy())

    @property
    def per_token(self) -> Estimate:
        """Mean over texts of their nats per scored token, with its standard error; texts without any do not count."""
        scored = self.revealed > 0
        return Estimate.of((self.nll[scored] / self.revealed[scored]).numpy())

    def over(self, other: "Replayed") -> Estimate:
        """Mean nats per sequence more than another schedule took, paired: on the same texts with the same seeds.

        Without bias if both were named beforehand. Against whichever of several was best *on these texts* it is too
        large, by up to about one standard error between near ties: that one was chosen for its luck too.

        Raises:
            InputError: if the other has another number of texts.
        """
        check.instance("other", other, Replayed, "be the result of a replay")
        if other.nll.shape != self.nll.shape:
            raise check.InputError("other", f"have {len(self.nll)} texts", found=f"{len(other.nll)}")
        return Estimate.of((self.nll - other.nll).numpy())

    @property
    def mean_evaluations(self) -> float:
        """Mean predictor evaluations of a text that is written."""
        return float(self.evaluations.double().mean())

    @property
    def mean_passes(self) -> float:
        """Mean predictor evaluations of a text that was scored."""
        return float(self.passes.double().mean())


def at_once(predictor: MaskPredictor, schedule: Schedule) -> bool:
    """Whether texts are scored in one pass: the predictor can, and the schedule does not look at predictions."""
    return predictor.in_one_pass and schedule.blind


def replay(
    predictor: MaskPredictor,
    schedule: Schedule,
    tokens: Sequences | Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    end: int | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Replayed:
    """Score texts exactly under the sampler with this predictor and schedule, in one pass where that can be.

    Arguments:
        predictor: The model.
        schedule: Any schedule of the library.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: Source of one seed for each text, or the seeds: they draw sizes and orders. Use the same to compare
            schedules on common randomness.
        masked: With token ids: positions to score, of the same shape; all by default. The others are given.
        end: The token id after which a text is over: what follows it among masked positions is not scored.
        batch: Texts evaluated at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    References:
        Turok, De Sa & Kuleshov, DUEL: exact likelihood for masked diffusion via deterministic unmasking, 2026.
    """
    check.function("progress", progress)
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    (result,) = replays(
        predictor,
        [schedule],
        tokens,
        rng=rng,
        masked=masked,
        end=end,
        batch=batch,
        engine=engine,
        progress=lambda number, done: progress(done),
    )
    return result


def replays(
    predictor: MaskPredictor,
    schedules: Sequence[Schedule],
    tokens: Sequences | Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    end: int | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Progress = unseen,
) -> list[Replayed]:
    """Score texts under several schedules, on common randomness: for each, what `replay` gives.

    Arguments:
        predictor: As for `replay`.
        schedules: The schedules. All batches of all of them are open to the engine at once.
        tokens: As for `replay`.
        rng: As for `replay`.
        masked: As for `replay`.
        end: As for `replay`.
        batch: As for `replay`.
        engine: As for `replay`.
        progress: Called with the number of a schedule and of its sequences evaluated since the last call.
    """
    check.function("progress", progress)
    texts, order = texts_of(tokens, predictor, masked).by_length()
    given = seeds_of(rng, len(texts))
    numbers: list[int] = plain(order)
    seeds = tuple(given[number] for number in numbers)
    for schedule in check.listed("schedules", schedules, "be a list of schedules"):
        check.instance("schedules", schedule, Schedule, "hold schedules")
    if end is not None:
        end = check.integer("end", end, least=0, most=predictor.vocab - 1)
    columns = (texts.tokens, texts.masked, texts.lengths, seeds)
    cuts = texts.cuts(batch, pad=predictor.pad, whole=predictor.whole)
    job = Job(engine, _Scored(predictor, end), columns, cuts)
    valid = answered(texts.tokens, texts.masked, end)
    scored = put_back([valid.sum(dim=1).cpu()], order)
    ends = None if end is None else put_back([(valid & (texts.tokens == end)).sum(dim=1).cpu()], order)
    results: list[Replayed] = []
    for schedule, found in zip(schedules, job([(schedule,) for schedule in schedules], progress), strict=True):
        nll, evaluations = (put_back(part, order) for part in zip(*found, strict=True))
        results.append(Replayed(nll, scored, evaluations, ends, at_once(predictor, schedule)))
    return results


@final
@dataclass(frozen=True, eq=False)
class _Scored:
    """Work on shards: a schedule, texts, what is masked of them, their lengths, and their seeds."""

    predictor: MaskPredictor
    end: int | None

    def __call__(
        self, shard: tuple[Schedule, Tensor, Tensor, Tensor, tuple[int, ...]], report: Report
    ) -> tuple[Tensor, Tensor]:
        schedule, tokens, masked, lengths, seeds = shard
        tokens, masked = trimmed(tokens, masked, lengths, self.predictor.pad)
        if at_once(self.predictor, schedule):
            own = own_lengths(tokens.masked_fill(masked, self.predictor.mask), self.predictor.pad)
            step = planned_steps(schedule, masked.cpu().numpy(), seeds, own)
            found = _OnePass(self.predictor, self.end)(tokens, masked, torch.as_tensor(step).to(tokens.device))
            report(len(tokens))
            return found
        stop = None if self.end is None else Stop(self.end, self.end)
        sampler = Sampler(Watched(self.predictor, report), schedule, Replay(tokens), stop)
        trace = sampler.run(tokens, masked, rng=seeds)
        return trace.nll, torch.as_tensor(trace.evaluations)


@final
@dataclass(frozen=True, eq=False)
class _OnePass:
    """Scores texts whose steps are known; `tokens` and `masked` and `step` of shape `(batch, length)`."""

    predictor: MaskPredictor
    end: int | None

    @predicting
    def __call__(self, tokens: Tensor, masked: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.nonzero(answered(tokens, masked, self.end).flatten())[:, 0]
        losses = torch.zeros(tokens.numel(), dtype=torch.float64, device=tokens.device)
        if len(rows):
            losses[rows] = self.predictor.stepped(tokens, step, rows).losses(tokens.flatten()[rows])
        nll = losses.view_as(tokens).sum(dim=1).cpu()
        if bool(nll.isnan().any()):
            raise impossible()
        return nll, self._evaluations(tokens, masked, step).cpu()

    def _evaluations(self, tokens: Tensor, masked: Tensor, step: Tensor) -> Tensor:
        """What the sampler would spend: a step of a sequence reveals something of it, and none comes after its end."""
        if step.shape[1] == 0:
            return step.sum(dim=1)
        # The last step of anything up to a position: once it is taken, nothing is masked so far.
        complete = step.cummax(dim=1).values
        ends = masked & (tokens == (-1 if self.end is None else self.end))
        return torch.where(ends, complete, complete[:, -1:]).amin(dim=1) + 1


def replayed_kl(schedule: Schedule, distribution: Distribution, draws: int, *, rng: Randomness) -> Estimate:
    """Expected KL of the ideal sampler on a known distribution, estimated by replay of samples from it.

    Works for every order and size, where `expected_kl` is exact for random orders: a cross-check of it, and the only
    way for rules that look at predictions.

    Arguments:
        schedule: Any schedule of the library.
        distribution: The distribution.
        draws: Number of texts drawn, at least 2.
        rng: Draws the texts, sizes and orders.
    """
    check.instance("distribution", distribution, Distribution, "be a distribution")
    draws = check.integer("draws", draws, least=2)
    randomness = generator_of(rng)
    source = np.random.default_rng(int(torch.randint(2**62, (1,), generator=randomness, device=randomness.device)))
    with check.renamed("count", "draws"):
        tokens = distribution.sample(draws, rng=source)
    result = replay(ExactPredictor(distribution), schedule, torch.as_tensor(tokens), rng=randomness)
    return Estimate.of(result.nll.numpy() + distribution.log_probability(tokens))
