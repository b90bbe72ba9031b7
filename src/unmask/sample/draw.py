"""What becomes of a position once it is chosen: a token is drawn from its prediction.

    Categorical     at a temperature (1 is the law the guarantees are about)
    TopK, TopP      after cutting the tail
    Greedy          the most likely token: not sampling, whatever the order
    Replay          given tokens: turns the sampler into an exact evaluator (`unmask.evaluate.replay`)

A draw uses one uniform number per position, by inversion of the cumulative distribution. The number belongs to the
sequence and the position, so a row's result depends on neither its neighbours nor the size of the batch; and no noise
over the whole vocabulary is ever made. The inversion works in two stages, over blocks of the vocabulary and within
one: sums over a block in the precision of the logits, everything after that in float64.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from unmask import _check as check
from unmask._torch import Tensor, torch

_BLOCK = 512


class Draw(ABC):
    """Turns the predictions of chosen positions into tokens."""

    @abstractmethod
    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        """Draw tokens.

        Arguments:
            log_probabilities: Shape `(rows, vocab)`, float32 or float64.
            uniform: One number in `[0, 1)` for each row.
            rows: Flat indices of the positions into `batch · length`.

        Returns:
            Token ids, shape `(rows,)`.
        """


@dataclass(frozen=True)
class Categorical(Draw):
    """The predicted distribution at a temperature above zero."""

    temperature: float = 1.0

    def __post_init__(self):
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        return invert(_tempered(log_probabilities, self.temperature), uniform)


@dataclass(frozen=True)
class TopK(Draw):
    """The `count` most likely tokens, renormalised."""

    count: int
    temperature: float = 1.0

    def __post_init__(self):
        check.integer("count", self.count, least=1)
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        best, where = log_probabilities.topk(min(self.count, log_probabilities.shape[-1]), dim=-1)
        chosen = invert(_tempered(best, self.temperature), uniform)
        return where.gather(1, chosen[:, None])[:, 0]


@dataclass(frozen=True)
class TopP(Draw):
    """The fewest most likely tokens whose probabilities reach `mass`, renormalised; all of them if it is 1."""

    mass: float
    temperature: float = 1.0

    def __post_init__(self):
        if check.real("mass", self.mass, above=0.0) > 1:
            raise check.InputError("mass", "be at most 1", found=f"{self.mass:g}")
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        if self.mass == 1:
            return invert(_tempered(log_probabilities, self.temperature), uniform)
        ordered, where = _tempered(log_probabilities, self.temperature).sort(dim=-1, descending=True, stable=True)
        weight = torch.softmax(ordered, dim=-1)
        before = weight.cumsum(dim=-1) - weight
        chosen = invert(ordered.masked_fill(before >= self.mass, -torch.inf), uniform)
        return where.gather(1, chosen[:, None])[:, 0]


@dataclass(frozen=True)
class Greedy(Draw):
    """The most likely token."""

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        return log_probabilities.argmax(dim=-1)


@dataclass(frozen=True, eq=False)
class Replay(Draw):
    """The tokens of given sequences, shape `(batch, length)`, in place of draws."""

    tokens: Tensor

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        return self.tokens.to(rows.device).flatten()[rows]


def invert(logits: Tensor, uniform: Tensor) -> Tensor:
    """Sample each row of `softmax(logits)` by inverting its cumulative distribution at `uniform`.

    A token of probability zero is never returned.
    """
    count, vocab = logits.shape
    # Whole blocks from the start: padding afterwards would copy all of it once more.
    weight = logits.new_empty((count, vocab + -vocab % _BLOCK))
    torch.sub(logits, logits.amax(dim=-1, keepdim=True), out=weight[:, :vocab]).exp_()
    weight[:, vocab:].zero_()
    blocks = weight.view(count, -1, _BLOCK)
    sums = blocks.sum(dim=-1).to(torch.float64)
    ends = sums.cumsum(dim=-1)
    # Keep the target strictly below the total, where rounding could otherwise put it past the last token.
    target = uniform.to(torch.float64)[:, None] * ends[:, -1:] * (1 - 2**-52)
    block = torch.searchsorted(ends, target, right=True).clamp_(max=ends.shape[1] - 1)
    inside = blocks.gather(1, block[..., None].expand(-1, -1, _BLOCK))[:, 0].to(torch.float64)
    inner = inside.cumsum(dim=-1)
    # How far into the block, as a fraction: the sums of the two stages differ in the last digits of the weights.
    part = (target - (ends - sums).gather(1, block)) / sums.gather(1, block)
    token = torch.searchsorted(inner, part.clamp_(0, 1) * inner[:, -1:], right=True)[:, 0]
    positive = torch.arange(_BLOCK, device=logits.device) * (inside > 0)
    return block[:, 0] * _BLOCK + torch.minimum(token, positive.amax(dim=-1))


def _tempered(log_probabilities: Tensor, temperature: float) -> Tensor:
    if temperature == 1.0:
        return log_probabilities
    # From the largest on: near temperature 0 every quotient would otherwise be −∞.
    return (log_probabilities - log_probabilities.amax(dim=-1, keepdim=True)) / temperature


def _check_temperature(temperature: float) -> None:
    if check.real("temperature", temperature, least=0.0) == 0.0:
        raise check.InputError(
            "temperature", "be greater than 0", found="0", remedy="Use Greedy for the most likely token."
        )


def draw_for(temperature: float, *, top_p: float | None = None, top_k: int | None = None) -> Draw:
    """The draw that an engine's sampling options describe; a temperature of 0 is its word for greedy.

    Example:
        >>> draw_for(0.0), draw_for(0.7), draw_for(1.0, top_p=0.9)
        (Greedy(), Categorical(temperature=0.7), TopP(mass=0.9, temperature=1.0))
    """
    temperature = check.real("temperature", temperature, least=0.0)
    if temperature == 0:
        return Greedy()
    if top_p is not None and top_k is not None:
        raise check.InputError("top_p", "not go with 'top_k'", remedy="Give one of them.")
    if top_p is not None and top_p < 1:
        return TopP(top_p, temperature)
    if top_k is not None and top_k > 0:
        return TopK(top_k, temperature)
    return Categorical(temperature)
