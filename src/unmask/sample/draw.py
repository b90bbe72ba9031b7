"""How a chosen position gets its token: by a draw from its prediction.

    Categorical     at a temperature (1 is the law the guarantees are about)
    TopK, TopP      after cutting the tail
    Greedy          the most likely token: not sampling, whatever the order
    Replay          given tokens: turns the sampler into an exact evaluator (`unmask.evaluate.replay`)

A draw uses one uniform number per position, by inversion of the cumulative distribution. The number belongs to the
sequence and the position, so a row's result depends on neither its neighbours nor the size of the batch; and no noise
over the whole vocabulary is ever made. The inversion works in two stages, over blocks of the vocabulary and within
one: sums over a block in the precision of the logits, everything after that in float64.

What is not a number gives no token. On a CPU that is said at once; on a GPU, where looking would make the loop wait, by
the record of the run (`State.trace`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, integral, outside, seen, torch

_BLOCK = 512


class Draw(ABC):
    """Turns the predictions of chosen positions into tokens."""

    @abstractmethod
    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        """Draw tokens.

        Arguments:
            log_probabilities: Shape `(rows, vocab)`, float32 or float64.
            uniform: One number in `[0, 1)` for each row, shape `(rows,)`.
            rows: Flat indices of the positions into `batch · length`, shape `(rows,)`.

        Returns:
            Token ids, shape `(rows,)`.
        """

    def law(self, log_probabilities: Tensor) -> Tensor:
        """Log-probabilities of what is drawn, of the same shape: needed where draws are verified.

        Raises:
            InputError: if nobody has said what they are.
        """
        raise check.InputError(
            "draw", "have a known distribution if drafts are verified", detail=f"but {type(self).__name__} has none"
        )


@final
@dataclass(frozen=True)
class Categorical(Draw):
    """The predicted distribution at a temperature above zero.

    Arguments:
        temperature: Log-probabilities are divided by it; 1 is the predicted distribution itself.
    """

    temperature: float = 1.0

    def __post_init__(self):
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        _arguments(log_probabilities, uniform, rows)
        return invert(_tempered(log_probabilities, self.temperature), uniform)

    def law(self, log_probabilities: Tensor) -> Tensor:
        _table(log_probabilities)
        return torch.log_softmax(_tempered(log_probabilities, self.temperature), dim=-1)


@final
@dataclass(frozen=True)
class TopK(Draw):
    """The `count` most likely tokens, renormalised.

    Arguments:
        count: How many.
        temperature: As for `Categorical`.
    """

    count: int
    temperature: float = 1.0

    def __post_init__(self):
        check.integer("count", self.count, least=1)
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        _arguments(log_probabilities, uniform, rows)
        best, where = log_probabilities.topk(min(self.count, log_probabilities.shape[-1]), dim=-1)
        chosen = invert(_tempered(best, self.temperature), uniform)
        return where.gather(1, chosen[:, None])[:, 0]

    def law(self, log_probabilities: Tensor) -> Tensor:
        _table(log_probabilities)
        best, where = log_probabilities.topk(min(self.count, log_probabilities.shape[-1]), dim=-1)
        found = torch.log_softmax(_tempered(best, self.temperature), dim=-1)
        return torch.full_like(log_probabilities, -torch.inf).scatter(1, where, found)


@final
@dataclass(frozen=True)
class TopP(Draw):
    """The fewest most likely tokens whose probabilities reach `mass`, renormalised; all of them if it is 1.

    Arguments:
        mass: A probability above 0.
        temperature: As for `Categorical`; it comes first.
    """

    mass: float
    temperature: float = 1.0

    def __post_init__(self):
        if check.real("mass", self.mass, above=0.0) > 1:
            raise check.InputError("mass", "be at most 1", found=f"{self.mass:g}")
        _check_temperature(self.temperature)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        _arguments(log_probabilities, uniform, rows)
        if self.mass == 1:
            return invert(_tempered(log_probabilities, self.temperature), uniform)
        ordered, where = _tempered(log_probabilities, self.temperature).sort(dim=-1, descending=True, stable=True)
        weight = torch.softmax(ordered, dim=-1)
        before = weight.cumsum(dim=-1) - weight
        chosen = invert(ordered.masked_fill(before >= self.mass, -torch.inf), uniform)
        return where.gather(1, chosen[:, None])[:, 0]

    def law(self, log_probabilities: Tensor) -> Tensor:
        _table(log_probabilities)
        ordered, where = _tempered(log_probabilities, self.temperature).sort(dim=-1, descending=True, stable=True)
        weight = torch.softmax(ordered, dim=-1)
        cut = ordered.masked_fill((weight.cumsum(dim=-1) - weight >= self.mass) & (self.mass < 1), -torch.inf)
        return torch.full_like(ordered, -torch.inf).scatter(1, where, torch.log_softmax(cut, dim=-1))


@final
@dataclass(frozen=True)
class Greedy(Draw):
    """The most likely token."""

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        _arguments(log_probabilities, uniform, rows)
        if seen(log_probabilities, lambda found: ~torch.isfinite(found.amax(dim=-1))):
            raise impossible()
        return log_probabilities.argmax(dim=-1)

    def law(self, log_probabilities: Tensor) -> Tensor:
        _table(log_probabilities)
        best = log_probabilities.argmax(dim=-1, keepdim=True)
        return torch.full_like(log_probabilities, -torch.inf).scatter(1, best, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Replay(Draw):
    """The tokens of given sequences in place of draws.

    Arguments:
        tokens: Token ids, shape `(batch, length)`.
    """

    tokens: Tensor

    def __post_init__(self):
        check.instance("tokens", self.tokens, Tensor, "be a tensor of token ids")
        if self.tokens.ndim != 2 or not integral(self.tokens):
            found = f"{self.tokens.dtype} of shape {tuple(self.tokens.shape)}"
            raise check.InputError("tokens", "hold token ids of shape (batch, length)", found=found)

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        _arguments(log_probabilities, uniform, check.instance("rows", rows, Tensor, "be a tensor of indices"))
        if outside(rows, self.tokens.numel()):
            raise check.InputError("rows", f"hold indices from 0 to {self.tokens.numel() - 1}")
        return self.tokens.to(device=rows.device, dtype=torch.int64).flatten()[rows]


def invert(logits: Tensor, uniform: Tensor) -> Tensor:
    """Sample each row of `softmax(logits)` by inverting its cumulative distribution at `uniform`.

    A token of probability zero is never returned.

    Arguments:
        logits: Shape `(rows, vocab)`.
        uniform: One number in `[0, 1)` for each row, shape `(rows,)`.

    Returns:
        Token ids, shape `(rows,)`.

    Raises:
        InputError: on a CPU, if a row holds what is not a number, or no possible token.
    """
    _arguments(logits, uniform, None)
    count, vocab = logits.shape
    largest = logits.amax(dim=-1, keepdim=True)
    if seen(largest, lambda found: ~torch.isfinite(found)):
        raise impossible()
    # Whole blocks from the start: padding afterwards would copy all of it once more.
    weight = logits.new_empty((count, vocab + -vocab % _BLOCK))
    torch.sub(logits, largest, out=weight[:, :vocab]).exp_()
    weight[:, vocab:].zero_()
    blocks = weight.view(count, weight.shape[1] // _BLOCK, _BLOCK)
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


def impossible() -> check.InputError:
    """What is said of a prediction from which no token can be drawn."""
    return check.InputError(
        "", "The predictor returned logits that are not numbers, or ruled out every token at a position"
    )


def check_drawn(token: object, chances: Tensor) -> None:
    """Refuse what a draw of one's own must not give."""
    rows, vocab = chances.shape
    if not isinstance(token, Tensor) or token.dtype != torch.int64 or token.shape != (rows,) or outside(token, vocab):
        raise check.InputError("draw", f"return {rows} token ids from 0 to {vocab - 1} as int64")


def _table(log_probabilities: Tensor) -> Tensor:
    given = check.instance("log_probabilities", log_probabilities, Tensor, "be a tensor")
    if given.ndim != 2 or given.shape[1] == 0 or not given.is_floating_point():
        found = f"{given.dtype} of shape {tuple(given.shape)}"
        raise check.InputError("log_probabilities", "hold real numbers of shape (rows, vocab)", found=found)
    return given


def _arguments(log_probabilities: Tensor, uniform: Tensor, rows: Tensor | None) -> None:
    given = _table(log_probabilities)
    check.instance("uniform", uniform, Tensor, "be a tensor")
    if uniform.shape != given.shape[:1] or not uniform.is_floating_point():
        found = f"{uniform.dtype} of shape {tuple(uniform.shape)}"
        raise check.InputError("uniform", f"hold one number for each of the {len(given)} rows", found=found)
    if seen(uniform, lambda found: ~((found >= 0) & (found < 1))):
        raise check.InputError("uniform", "hold numbers that are at least 0 and less than 1")
    if rows is None:
        return
    check.instance("rows", rows, Tensor, "be a tensor of indices")
    if rows.shape != given.shape[:1] or not integral(rows):
        found = f"{rows.dtype} of shape {tuple(rows.shape)}"
        raise check.InputError("rows", f"hold one index for each of the {len(given)} rows", found=found)


def _tempered(log_probabilities: Tensor, temperature: float) -> Tensor:
    if temperature == 1.0:
        return log_probabilities
    # From the largest on: near temperature 0 every quotient would otherwise be −∞; and one below what a float32 can
    # hold would divide by zero.
    least = max(temperature, torch.finfo(log_probabilities.dtype).tiny)
    return (log_probabilities - log_probabilities.amax(dim=-1, keepdim=True)) / least


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
    top_p = None if top_p is None else check.real("top_p", top_p)
    top_k = None if top_k is None else check.integer("top_k", top_k)
    if temperature == 0:
        return Greedy()
    if top_p is not None and top_k is not None:
        raise check.InputError("top_p", "not be used with 'top_k'", remedy="Give only one of them.")
    if top_p is not None and top_p < 1:
        return TopP(top_p, temperature)
    if top_k is not None and top_k > 0:
        return TopK(top_k, temperature)
    return Categorical(temperature)
