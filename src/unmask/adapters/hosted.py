# pyright: basic
"""A sampler whose loop belongs to someone else.

An engine runs its model itself and then asks, at every step, what to reveal. `Hosted` answers with the sampler of
this library: the same plan, the same draws and the same seed for each row as in `unmask.sample`, only that the logits
arrive from outside. So a schedule means the same in every engine: sizes of zero are no steps, rows do not depend on
their neighbours, positions are chosen before tokens are drawn.

Other engines leave the loop to us and bring a network alone: `predictor_of` makes a predictor of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import Logits, MaskPredictor, Shifted, Suppressed
from unmask.sample import Sampler, Seeds, State
from unmask.sample.draw import Categorical, Draw, impossible
from unmask.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Reveal:
    """What one step reveals.

    Attributes:
        state: What the next step needs.
        chosen: Booleans, shape `(batch, length)`: the positions revealed.
        tokens: The tokens given, with the new ones in their places.
        probability: The predicted probability of each new token; 0 elsewhere.
    """

    state: State
    chosen: Tensor
    tokens: Tensor
    probability: Tensor


@dataclass(frozen=True, eq=False)
class Hosted:
    """Fills masked sequences step by step with logits that someone else computes.

    Arguments:
        schedule: How many positions and which.
        mask: The token id that stands at masked positions; it is never drawn.
        draw: How a token is drawn from its prediction; the predicted law itself by default.

    Example:
        >>> from unmask import order, size
        >>> from unmask.sample import Greedy
        >>> hosted = Hosted(Schedule(size.Even(2), order.LeftToRight()), mask=3, draw=Greedy())
        >>> tokens, logits = torch.tensor([[1, 3, 3, 3]]), torch.tensor([0.0, 0.0, 1.0]).expand(1, 4, 3)
        >>> reveal = hosted.step(hosted.begin(tokens, vocab=3, rng=[0]), tokens, logits)
        >>> reveal.tokens.tolist(), hosted.step(reveal.state, reveal.tokens, logits).tokens.tolist()
        ([[1, 2, 2, 3]], [[1, 2, 2, 2]])
    """

    schedule: Schedule
    mask: int
    draw: Draw = field(default_factory=Categorical)

    def __post_init__(self):
        check.integer("mask", self.mask, least=0)
        if not isinstance(self.schedule, Schedule):
            raise check.InputError("schedule", "be a Schedule", found=check.shown(self.schedule))
        if self.schedule.revision is not None:
            raise check.InputError(
                "schedule", "have no revision inside another engine, because the engine can only reveal tokens",
                remedy="Run this schedule with unmask.sample.Sampler.",
            )  # fmt: skip

    def begin(self, tokens: Tensor, masked: Tensor | None = None, *, vocab: int, rng: Seeds) -> State:
        """Prepare a batch.

        Arguments:
            tokens: Token ids, shape `(batch, length)`.
            masked: Which positions to fill. By default those that hold the mask.
            vocab: Number of logits of a position.
            rng: A seed, a generator, or a list of these for the rows, as for `Sampler.init`.
        """
        hidden = tokens == self.mask if masked is None else masked
        # Ids beyond the logits (special tokens of a prompt) are the host's business: only masked positions are ours.
        return self._sampler(None, vocab).init(tokens.masked_fill(~hidden, 0), hidden, rng=rng)

    @torch.no_grad()
    def step(self, state: State, tokens: Tensor, logits: Tensor) -> Reveal:
        """Reveal the next positions, or none when nothing is left.

        Arguments:
            state: What the last step, or `begin`, returned.
            tokens: The token ids as the host has them now. What it filled itself is taken out of the plan.
            logits: Logits of every position, shape `(batch, length, vocab)`.
        """
        state = closed(state, tokens != self.mask)
        state, step = self._sampler(logits, logits.shape[-1]).step(replace(state, tokens=tokens))
        chosen = torch.zeros_like(state.masked)
        probability = torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
        if step is not None:
            if bool(torch.isnan(step.log_probability).any()):  # the host has no record that would say so later
                raise impossible()
            chosen.view(-1)[step.rows] = True
            probability.view(-1)[step.rows] = step.log_probability.exp().float()
        return Reveal(state, chosen, state.tokens, probability)

    def _sampler(self, logits: Tensor | None, vocab: int) -> Sampler:
        return Sampler(Logits(lambda _: logits, vocab, self.mask, whole=True), self.schedule, self.draw)


def closed(state: State, where: Tensor) -> State:
    """The state without what is still masked there: the host fills it itself, or nobody does."""
    taken = state.masked & where
    if not bool(taken.any()):
        return state
    return replace(state, masked=state.masked & ~taken, plan=state.plan.without(taken))


def predictor_of(
    network: Callable[[Tensor, Tensor | None], Any],
    tokens: Tensor,
    visible: Tensor | None,
    mask: int,
    *,
    known: int | None = None,
    never: Iterable[int] = (),
    shifted: bool = False,
) -> MaskPredictor:
    """The predictor of an engine's network, for one batch.

    Arguments:
        network: From token ids, and from booleans for those that are no padding, to an output that has `logits`.
        tokens: Token ids of the batch, shape `(batch, length)`.
        visible: Those booleans; None if nothing is padding.
        mask: Token id of the mask.
        known: How many tokens there are: outputs beyond are never drawn. By default all outputs are tokens.
        never: Token ids that are not drawn either.
        shifted: True where the output at a position predicts the next one.
    """
    # How wide the output is, no configuration says for sure: it can be padded. One token tells.
    one = tokens[:1, :1]
    width = network(one, None if visible is None else torch.ones_like(one, dtype=torch.bool)).logits.shape[-1]
    predictor: MaskPredictor = Logits(lambda given: network(given, visible), width, mask, whole=visible is not None)
    predictor = Shifted(predictor) if shifted else predictor
    left_out = {*range(width if known is None else known, width), *never}
    return Suppressed(predictor, sorted(left_out)) if left_out else predictor
