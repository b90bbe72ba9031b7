"""The exact likelihood of the K-step sampler on given texts.

If the set revealed at each step depends only on tokens already revealed, or on randomness independent of the text,
then the sampler's path on a text `x` is determined: run it with the text's own tokens in place of the draws, and

    −log p(x | randomness) = Σ_k Σ_{i∈S_k} −log p̂_i(x_i | x_revealed)

is the sampler's exact negative log-likelihood. Its mean over held-out texts is the total K-step cost: the model's own
error in this order, plus what parallel steps ignore. Differences between schedules are differences of expected KL.
Every size and order of this library has that property; a rule that looks at the token just drawn has not, and none is
offered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.distribution.base import Distribution
from unmask.engine import LOCAL, Engine, Progress, Report, parts, unseen
from unmask.evaluate.exact import Estimate
from unmask.predict import ExactPredictor, MaskPredictor, Watched
from unmask.sample import Sampler, Seeds, booleans, seeds_of
from unmask.sample.draw import Replay
from unmask.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Replayed:
    """Likelihoods of texts under a sampler.

    Attributes:
        nll: Negative log-likelihood of each text in nats, float64.
        revealed: Number of tokens scored in each text.
        evaluations: Predictor evaluations spent on each text.
    """

    nll: Tensor
    revealed: Tensor
    evaluations: Tensor

    @property
    def per_sequence(self) -> Estimate:
        """Mean nats per sequence, with the standard error over texts."""
        return Estimate.of(self.nll.numpy())

    @property
    def per_token(self) -> Estimate:
        """Mean over texts of their nats per scored token, with its standard error; texts without any do not count."""
        scored = self.revealed > 0
        return Estimate.of((self.nll[scored] / self.revealed[scored]).numpy())

    @property
    def mean_evaluations(self) -> float:
        return float(self.evaluations.double().mean())


def replay(
    predictor: MaskPredictor,
    schedule: Schedule,
    tokens: Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Replayed:
    """Score texts exactly under the sampler with this predictor and schedule.

    Arguments:
        predictor: The model.
        schedule: Any schedule of the library.
        tokens: Texts, shape `(count, length)`, on the device of the model.
        rng: Source of one seed for each text, or the seeds: they draw sizes and orders. Use the same to compare
            schedules on common randomness.
        masked: Positions to score, of the same shape; all by default. The others are given.
        batch: Texts evaluated at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.
    """
    (result,) = replays(
        predictor,
        [schedule],
        tokens,
        rng=rng,
        masked=masked,
        batch=batch,
        engine=engine,
        progress=lambda number, done: progress(done),
    )
    return result


def replays(
    predictor: MaskPredictor,
    schedules: Sequence[Schedule],
    tokens: Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Progress = unseen,
) -> list[Replayed]:
    """Score texts under several schedules, on common randomness: for each, what `replay` gives.

    Arguments:
        schedules: The schedules. All batches of all of them are open to the engine at once.
        predictor, tokens, rng, masked, batch, engine: As for `replay`.
        progress: Called with the number of a schedule and of its sequences evaluated since the last call.
    """
    if not isinstance(tokens, Tensor):
        raise check.InputError("tokens", "be a tensor of token ids", found=f"{type(tokens).__name__}")
    if tokens.ndim != 2 or tokens.shape[0] == 0 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise check.InputError(
            "tokens",
            "hold token ids of shape (count, length), at least one text",
            found=f"{tokens.dtype} of shape {tuple(tokens.shape)}",
        )
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < predictor.vocab:
        raise check.InputError("tokens", f"hold token ids from 0 to {predictor.vocab - 1}")
    tokens = tokens.to(torch.int64)
    hidden = torch.ones_like(tokens, dtype=torch.bool) if masked is None else booleans("masked", masked, tokens)
    seeds = seeds_of(rng, tokens.shape[0])
    # A predictor that keeps something for each sequence must be given all of them at once.
    slices = parts(tokens.shape[0], tokens.shape[0] if predictor.whole else batch)
    # Copies, since a slice would travel with the whole it was cut from.
    texts = [(tokens[part].clone(), hidden[part].clone(), seeds[part]) for part in slices]
    shards = [(schedule, *text) for schedule in schedules for text in texts]
    found = engine.map(_Scored(predictor), shards, lambda shard, done: progress(shard // len(slices), done))
    results = []
    for first in range(0, len(found), len(slices)):
        nll, evaluations = zip(*found[first : first + len(slices)], strict=True)
        results.append(Replayed(torch.cat(nll), hidden.sum(dim=1).cpu(), torch.cat(evaluations)))
    return results


@dataclass(frozen=True, eq=False)
class _Scored:
    """Work on shards: a schedule, texts, what is masked of them, and their seeds."""

    predictor: MaskPredictor

    def __call__(
        self, shard: tuple[Schedule, Tensor, Tensor, tuple[int, ...]], report: Report
    ) -> tuple[Tensor, Tensor]:
        schedule, tokens, masked, seeds = shard
        sampler = Sampler(Watched(self.predictor, report), schedule, Replay(tokens))
        trace = sampler.run(tokens, masked, rng=seeds)
        return trace.nll, torch.from_numpy(trace.evaluations)


def replayed_kl(distribution: Distribution, schedule: Schedule, draws: int, *, rng: torch.Generator) -> Estimate:
    """Expected KL of the ideal sampler on a known distribution, estimated by replay of samples from it.

    Works for every order and size, where `expected_kl` is exact for random orders: a cross-check of it, and the only
    way for rules that look at predictions.
    """
    draws = check.integer("draws", draws, least=2)
    if not isinstance(rng, torch.Generator):
        raise check.InputError("rng", "be a torch.Generator", found=f"{type(rng).__name__}: it draws the texts too")
    source = np.random.default_rng(int(torch.randint(2**62, (1,), generator=rng, device=rng.device)))
    tokens = distribution.sample(draws, rng=source)
    result = replay(ExactPredictor(distribution), schedule, torch.from_numpy(tokens), rng=rng)
    return Estimate.of(result.nll.numpy() + distribution.log_probability(tokens))
