"""Where predictions come from: a known distribution, any network that returns logits, or its body and head."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from unmask import _check as check
from unmask._memory import exhausted
from unmask._torch import Tensor, at_hand, torch
from unmask.distribution.base import Distribution
from unmask.predict.base import MaskPredictor, Prediction, called, without


@final
@dataclass(frozen=True, eq=False)
class ExactPredictor(MaskPredictor):
    """The conditional marginals of a known distribution, in float64.

    Arguments:
        distribution: The distribution; the mask is the first id beyond its vocabulary.

    References:
        Is your diffusion sampler actually correct? 2026 (arXiv 2602.19619): such an oracle from Markov chains.
    """

    distribution: Distribution

    def __post_init__(self):
        check.instance("distribution", self.distribution, Distribution, "be a distribution")

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - the distribution's, and fixed
        return self.distribution.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.distribution.vocab

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        marginals = self.distribution.marginals(tokens.cpu().numpy(), masked.cpu().numpy())
        logits = torch.as_tensor(marginals).to(tokens.device).log().flatten(0, 1)
        return Prediction((logits if rows is None else logits[rows],), _same, self.vocab)


@final
@dataclass(frozen=True, eq=False)
class Logits(MaskPredictor):
    """Any callable that maps token ids to logits `(batch, length, vocab)`, or to an object with `.logits`.

    Arguments:
        model: The callable. Where the head can be run apart, `Headed` saves most of the work.
        vocab: Number of logits of a position.
        mask: Token id that stands at masked positions; if it is below `vocab`, it is never drawn.
        whole: True if the model must be given all sequences at every call, because it keeps something for each of
            them (an attention mask, say).
        pad: Token id that may fill up sequences at their end, if the model hides it from all other positions: then
            sequences of different lengths share a batch. By default there is none.
        length: Longest sequence that the model takes, if it has one: a longer one is refused. Where it is not said,
            a model that fails at a sequence is tried with shorter ones, to say whether that is why.
    """

    model: Callable[[Tensor], Any]
    vocab: int
    mask: int
    whole: bool = False
    pad: int | None = None
    length: int | None = None

    def __post_init__(self):
        check.function("model", self.model, "be a function from token ids to logits")
        _check_ids(self.vocab, self.mask, self.whole, self.pad, self.length)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        answer = _answer(self.model, tokens, self.length)
        logits: object = getattr(answer, "logits", answer)
        if not isinstance(logits, Tensor):
            raise check.InputError("model", "return logits, or an object that has them", found=check.type_of(answer))
        _check_logits("model", logits, (*tokens.shape, self.vocab))
        flat = logits.flatten(0, 1)
        # The logits are there already: rows are picked a chunk at a time, not all of them copied at once.
        parts, head = ((flat,), _same) if rows is None else ((rows,), flat.__getitem__)
        prediction = Prediction(parts, head, self.vocab)
        return without(prediction, [self.mask]) if self.mask < self.vocab else prediction


@final
@dataclass(frozen=True, eq=False)
class Headed(MaskPredictor):
    """A body that maps token ids to hidden states `(batch, length, width)`, and a head from hidden states to logits.

    The head runs on the rows asked for and no others: with a vocabulary of 126,464 tokens that is most of the work
    saved.

    Arguments:
        body: Maps token ids to hidden states.
        head: Maps hidden states, shape `(rows, width)`, to logits, shape `(rows, vocab)`.
        vocab: Number of logits of a position.
        mask: Token id that stands at masked positions; if it is below `vocab`, it is never drawn.
        whole: True if the model must be given all sequences at every call, because it keeps something for each of
            them (an attention mask, say).
        pad: Token id that may fill up sequences at their end, if the model hides it from all other positions: then
            sequences of different lengths share a batch. By default there is none.
        length: Longest sequence that the model takes, if it has one: a longer one is refused. Where it is not said,
            a model that fails at a sequence is tried with shorter ones, to say whether that is why.
    """

    body: Callable[[Tensor], Tensor]
    head: Callable[[Tensor], Tensor]
    vocab: int
    mask: int
    whole: bool = False
    pad: int | None = None
    length: int | None = None

    def __post_init__(self):
        check.function("body", self.body, "be a function from token ids to hidden states")
        check.function("head", self.head, "be a function from hidden states to logits")
        _check_ids(self.vocab, self.mask, self.whole, self.pad, self.length)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        hidden = _answer(self.body, tokens, self.length)
        _check_tensor("body", "return hidden states", hidden)
        if hidden.ndim < 3 or hidden.shape[:2] != tokens.shape:
            batch, length = tokens.shape
            raise check.InputError(
                "body", f"return hidden states of shape ({batch}, {length}, width)", found=f"{tuple(hidden.shape)}"
            )
        hidden = hidden.flatten(0, 1)
        prediction = Prediction((hidden if rows is None else hidden[rows],), self._logits, self.vocab)
        return without(prediction, [self.mask]) if self.mask < self.vocab else prediction

    def _logits(self, hidden: Tensor) -> Tensor:
        logits = self.head(hidden)
        _check_tensor("head", "return logits", logits)
        _check_logits("head", logits, (hidden.shape[0], self.vocab))
        return logits


def _same(logits: Tensor) -> Tensor:
    return logits


def _check_tensor(name: str, must: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise check.InputError(name, must, found=check.type_of(given))


def _check_logits(name: str, logits: Tensor, shape: tuple[int, ...]) -> None:
    if logits.shape != shape or logits.is_complex():
        found = f"{tuple(logits.shape)}" if logits.shape != shape else f"{logits.dtype}"
        raise check.InputError(name, f"return logits of shape {shape}", found=found)


def _check_ids(vocab: int, mask: int, whole: object, pad: int | None, length: int | None) -> None:
    check.integer("vocab", vocab, least=1, most=check.EXACT)
    check.integer("mask", mask, least=0, most=check.EXACT)
    check.instance("whole", whole, bool, "be True or False")
    if pad is not None and check.integer("pad", pad, least=0, most=check.EXACT) == mask:
        raise check.InputError("pad", "be a different token from {mask}", found=f"{pad}")
    if length is not None:
        check.integer("length", length, least=1)


def _answer(model: Callable[[Tensor], Any], tokens: Tensor, length: int | None) -> Any:
    """What the model says of the tokens, if there are not too many of them for it."""
    if length is not None and tokens.shape[1] > length:
        raise _too_long(length, tokens.shape[1])
    try:
        return model(tokens)
    except (IndexError, RuntimeError) as error:
        longest = None if exhausted(error) or not at_hand(tokens) else _longest(model, tokens[:1])
        if longest is None:
            raise
        raise _too_long(longest, tokens.shape[1]) from error


def _too_long(longest: int, length: int) -> check.InputError:
    return check.InputError("tokens", f"have at most {longest} positions, the model's maximum", found=f"{length}")


def _longest(model: Callable[[Tensor], Any], tokens: Tensor) -> int | None:
    """How much of a sequence the model takes; None if it takes all of it, or nothing: its length is not to blame."""
    if not _takes(model, tokens[:, :1]) or _takes(model, tokens):
        return None
    least, most = 1, tokens.shape[1]
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if _takes(model, tokens[:, :middle]) else (least, middle)
    return least


def _takes(model: Callable[[Tensor], Any], tokens: Tensor) -> bool:
    try:
        answer = model(tokens)
    except (IndexError, RuntimeError):
        return False
    found = getattr(answer, "logits", answer)
    # One token can be stretched to the length of a table of positions, without any complaint.
    return isinstance(found, Tensor) and found.shape[:2] == tokens.shape
