# pyright: basic
"""Dream: a tokens hook that replaces its reveal.

Dream's `diffusion_generate` calls `generation_tokens_hook_func(step, tokens, logits)` once before its loop, with
`None` for step and logits, and once after each step, with the logits already moved to the positions they predict.
What the hook returns is what the next step sees. `TokensHook` keeps the tokens as they were before the engine's own
reveal, takes the step of the schedule from them, and returns that.

The engine runs as many steps as it is told and knows nothing of the schedule: tell it `hook.steps(new)`. Its own
algorithm, temperature and top-p decide nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import Hosted
from unmask.sample import Counts, State
from unmask.sample.draw import Categorical, Draw
from unmask.schedule import Schedule
from unmask.size.base import Blind


@dataclass(eq=False)
class TokensHook:
    """A hook for `diffusion_generate(…, generation_tokens_hook_func=hook)`. It starts anew with every call of that.

    Arguments:
        schedule: How many positions and which.
        mask: Token id of the mask, `model.config.mask_token_id`.
        rng: Source of one seed for each sequence, or the seeds.
        draw: How tokens are drawn.
        end: The token id that ends an answer, for `counts` alone; without it all tokens count.
    """

    schedule: Schedule
    mask: int
    rng: torch.Generator | Sequence[int]
    draw: Draw = field(default_factory=Categorical)
    end: int | None = None
    _tokens: Tensor | None = field(default=None, init=False, repr=False)
    _state: State | None = field(default=None, init=False, repr=False)

    def __post_init__(self):
        self._hosted = Hosted(self.schedule, self.mask, self.draw)
        if self.end is not None:
            check.integer("end", self.end, least=0)
        self._begun, self._seconds = perf_counter(), 0.0

    def steps(self, new: int) -> int:
        """The number of steps to run for `new` masked tokens in one stretch: enough, and no more if that is known."""
        new = check.integer("new", new, least=1)
        if not isinstance(self.schedule.size, Blind):
            return new
        blocks = self.schedule.order.blocks(torch.arange(new).numpy())
        return sum(min(self.schedule.size.steps, block.size) for block in blocks)

    @property
    def counts(self) -> Counts:
        """Valid tokens, evaluations and seconds of the last generation; `end` says which token ends an answer."""
        counts = Counts() if self._state is None else self._state.trace().until(self.end).counts
        return counts + Counts(seconds=self._seconds)

    def __call__(self, step: int | None, x: Tensor, logits: Tensor | None) -> Tensor:
        if step is None or logits is None:
            # The engine writes into what it is given: keep a copy.
            self._tokens, self._state = x.clone(), None
            self._begun, self._seconds = perf_counter(), 0.0
            return x
        if self._tokens is None:
            raise check.InputError("step", "be None at the first call, which comes before the first step")
        if self._state is None:
            self._state = self._hosted.begin(self._tokens, vocab=logits.shape[-1], rng=self.rng)
        reveal = self._hosted.step(self._state, self._tokens, logits)
        self._tokens, self._state = reveal.tokens, reveal.state
        self._seconds = perf_counter() - self._begun
        return self._tokens.clone()
