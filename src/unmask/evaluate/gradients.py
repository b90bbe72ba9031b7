"""The exact log-likelihood of the K-step sampler as a differentiable function of a model's weights.

The path of the sampler on a text is determined (`unmask.evaluate.likelihood`), so that

    ∇ log p(x | randomness) = Σ_k Σ_{i∈S_k} ∇ log p̂_i(x_i | x_revealed)

is a sum over its steps. For fine-tuning the mean over texts is ascended; for distillation the texts are a teacher's;
for policy gradients they are the sampler's own, with the seeds of their trace:

    ∇ E[r(x)] = E[(r(x) − baseline) ∇ log p(x | randomness)],

whatever the schedule, since neither sizes nor orders are drawn from what the weights say. Where the schedule looks at
predictions, the sets `S_k` change with the weights by jumps: the gradient is that of the path that is taken, which is
the gradient of the likelihood wherever it has one. It has none where two positions tie.

**Memory.** Only the texts are kept of a step, and the step is computed again when its gradient is asked for. So the
activations that are held at any time are those of one step of one batch, whatever the number of steps, for a third more
time. A model that tells all steps at once (`unmask.predict.Remembering`) needs one pass for all of them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.evaluate.given import texts_of
from unmask.predict import MaskPredictor, Prediction, evaluating
from unmask.predict.memory import told
from unmask.sample import Sampler, Seeds, Stop, seeds_of
from unmask.sample.agenda import planned_steps
from unmask.sample.draw import Replay, impossible
from unmask.sample.plan import Asked, BlindPlan
from unmask.sample.trace import GIVEN, answered
from unmask.schedule import Schedule
from unmask.sequences import Sequences, own_lengths, trimmed

_checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint  # torch has no types for it
_NEVER = 1 << 40  # the step of what comes after the end of a text and is never revealed


def log_likelihood(
    predictor: MaskPredictor,
    schedule: Schedule,
    tokens: Sequences | Tensor,
    *,
    rng: Seeds,
    masked: Tensor | None = None,
    end: int | None = None,
    batch: int = 64,
    recompute: bool = True,
) -> Tensor:
    """Log-likelihoods of texts under the sampler with this predictor and schedule, with gradients.

    They are minus the `nll` that `unmask.evaluate.replay` gives with the same seeds, as a tensor that can be
    differentiated with respect to the weights behind the predictor. Networks are run in evaluation mode, as they are
    when they are sampled. Weights must stay as they are until `backward` has been called: with `recompute` nothing
    would notice a change in between.

    Arguments:
        predictor: The model.
        schedule: Any schedule of the library.
        tokens: Texts: `Sequences`, or token ids of shape `(count, length)`.
        rng: Source of one seed for each text, or the seeds: they draw sizes and orders. For texts that a sampler
            wrote, the seeds of its trace.
        masked: With token ids: positions to score, of the same shape; all by default. The others are given.
        end: The token id after which a text is over: what follows it among masked positions is not scored.
        batch: Texts evaluated at once.
        recompute: Whether steps are computed again for their gradients, so that memory does not grow with their number.

    Returns:
        One number for each text in nats, float64, shape `(count,)`.

    Raises:
        InputError: if the predictor remembers and cannot tell all steps in one pass, as approximate caches; or as for
            `replay`.

    Example:
        >>> from unmask import order, size
        >>> from unmask.predict import Logits
        >>> weight = torch.zeros(3, requires_grad=True)  # one law for every position
        >>> model = Logits(lambda tokens: weight.expand(*tokens.shape, 3), vocab=3, mask=3)
        >>> texts = torch.tensor([[0, 1, 1, 1]])
        >>> value = log_likelihood(model, Schedule(size.Even(2), order.Comb()), texts, rng=0)
        >>> value.sum().backward()
        >>> [round(each, 3) for each in weight.grad.tolist()]
        [-0.333, 1.667, -1.333]
    """
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    check.instance("recompute", recompute, bool, "be True or False")
    texts, order = texts_of(tokens, predictor, masked).by_length()
    if predictor.remembers and not predictor.in_one_pass:
        raise check.InputError(
            "predictor", "predict all steps of a text in one pass, or have no memory",
            detail="because a memory has no gradients",
        )  # fmt: skip
    if end is not None:
        end = check.integer("end", end, least=0, most=predictor.vocab - 1)
    given = seeds_of(rng, len(texts))
    numbers: list[int] = plain(order)
    work: list[list[Callable[[], Tensor]]] = []
    for cut in texts.cuts(batch, pad=predictor.pad, whole=predictor.whole):
        own, hidden = trimmed(texts.tokens[cut], texts.masked[cut], texts.lengths[cut], predictor.pad)
        seeds = [given[number] for number in numbers[cut]]
        step = _path(predictor, schedule, own, hidden, seeds, end)
        work.append(_parts(predictor, own, step, answered(own, hidden, end)))
    # What is alone is computed once: to forget it would save nothing.
    again = recompute and sum(map(len, work)) > 1
    sums = [sum((_computed(part, again) for part in parts[1:]), _computed(parts[0], again)) for parts in work]
    result = torch.cat(sums)[torch.argsort(order).to(texts.tokens.device)]
    if bool(result.isnan().any()):
        raise impossible()
    return result


def _path(
    predictor: MaskPredictor,
    schedule: Schedule,
    tokens: Tensor,
    masked: Tensor,
    seeds: Sequence[int],
    end: int | None,
) -> NDArray[np.int64]:
    """The step at which the sampler reveals each position of texts: drawn, or found by running it on them."""
    hidden = masked.cpu().numpy()
    if schedule.blind:
        lengths = own_lengths(tokens.masked_fill(masked, predictor.mask), predictor.pad)
        return planned_steps(schedule, hidden, seeds, lengths)
    stop = None if end is None else Stop(end, end)
    trace = Sampler(predictor, schedule, Replay(tokens), stop).run(tokens, masked, rng=list(seeds))
    revealed = trace.revealed.numpy()
    return np.where(hidden, np.where(revealed < 0, _NEVER, revealed), GIVEN)


def _parts(
    predictor: MaskPredictor, tokens: Tensor, step: NDArray[np.int64], scored: Tensor
) -> list[Callable[[], Tensor]]:
    """What to compute, each in one evaluation: log-likelihoods of the texts, to be summed."""
    when = torch.as_tensor(step).to(tokens.device)
    counted = np.where(scored.cpu().numpy(), step, GIVEN)
    if predictor.in_one_pass:
        rows = torch.as_tensor(np.flatnonzero(counted >= 0)).to(tokens.device)
        return [partial(_every_step, predictor, tokens, when, rows)]
    plan = BlindPlan.known(counted, tokens.device)
    result: list[Callable[[], Tensor]] = []
    asked = plan.ask(0, scored, whole=predictor.whole)
    while asked is not None:
        result.append(partial(_one_step, predictor, tokens, when, asked))
        asked = plan.ask(asked.index + 1, scored, whole=predictor.whole)
    return result or [partial(tokens.new_zeros, len(tokens), dtype=torch.float64)]


def _every_step(predictor: MaskPredictor, tokens: Tensor, step: Tensor, rows: Tensor) -> Tensor:
    with evaluating(predictor):
        return _summed(predictor.stepped(tokens, step, rows), tokens, rows)


def _one_step(predictor: MaskPredictor, tokens: Tensor, step: Tensor, asked: Asked) -> Tensor:
    # All here, for it is here again when the gradient is computed: the mode of the networks, and what is masked.
    with evaluating(predictor):
        masked = step >= asked.index
        hidden = tokens.masked_fill(masked, predictor.mask)
        prediction, _ = told(predictor, None, hidden, masked, asked.places)
        return _summed(prediction, tokens, asked.places.rows)


def _summed(prediction: Prediction, tokens: Tensor, rows: Tensor) -> Tensor:
    """Log-probabilities of the tokens at the rows, summed for each text."""
    none = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    return none.index_add(0, rows // max(tokens.shape[1], 1), -prediction.losses(tokens.flatten()[rows]))


def _computed(part: Callable[[], Tensor], again: bool) -> Tensor:
    """What a part gives; its activations are kept for the gradient, or computed again."""
    # Nothing random happens inside.
    return _checkpoint(part, use_reentrant=False, preserve_rng_state=False) if again else part()
