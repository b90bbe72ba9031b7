"""Where predictions come from: a known distribution, any network that gives logits, or its two parts apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.distribution.base import Distribution
from unmask.predict.base import MaskPredictor, Prediction, without


@dataclass(frozen=True, eq=False)
class ExactPredictor(MaskPredictor):
    """The conditional marginals of a known distribution, in float64."""

    distribution: Distribution

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.distribution.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.distribution.vocab

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        marginals = self.distribution.marginals(tokens.cpu().numpy(), masked.cpu().numpy())
        logits = torch.from_numpy(marginals).to(tokens.device).log().flatten(0, 1)
        return Prediction((logits if rows is None else logits[rows],), _same, self.vocab)


@dataclass(frozen=True, eq=False)
class Logits(MaskPredictor):
    """Any callable that maps token ids to logits `(batch, length, vocab)`, or to an object with `.logits`.

    Arguments:
        model: The callable. Where the head can be run apart, `Headed` saves most of the work.
        vocab: Number of logits of a position.
        mask: Token id that stands at masked positions; if it is below `vocab`, it is never drawn.
        whole: True if the model must be given all sequences at every call, because it keeps something for each of
            them (an attention mask, say).
    """

    model: Callable[[Tensor], Any]
    vocab: int
    mask: int
    whole: bool = False

    def __post_init__(self):
        _check_ids(self.vocab, self.mask)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        answer = self.model(tokens)
        logits = getattr(answer, "logits", answer)
        if not isinstance(logits, Tensor):
            raise check.InputError("model", "give logits, or an object with them", found=f"{type(answer).__name__}")
        if logits.shape != (*tokens.shape, self.vocab):
            raise check.InputError(
                "model", f"give logits of shape {(*tokens.shape, self.vocab)}", found=f"{tuple(logits.shape)}"
            )
        flat = logits.flatten(0, 1)
        # The logits are there already: rows are picked a chunk at a time, not all of them copied at once.
        parts, head = ((flat,), _same) if rows is None else ((rows,), flat.__getitem__)
        prediction = Prediction(parts, head, self.vocab)
        return without(prediction, [self.mask]) if self.mask < self.vocab else prediction


@dataclass(frozen=True, eq=False)
class Headed(MaskPredictor):
    """A body that maps token ids to hidden states `(batch, length, width)`, and a head from hidden states to logits.

    The head runs on the rows asked for and no others: with a vocabulary of 126,464 tokens that is most of the work
    saved.

    Arguments:
        body, head: The two parts of the model.
        vocab, mask, whole: As for `Logits`.
    """

    body: Callable[[Tensor], Tensor]
    head: Callable[[Tensor], Tensor]
    vocab: int
    mask: int
    whole: bool = False

    def __post_init__(self):
        _check_ids(self.vocab, self.mask)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        hidden = self.body(tokens).flatten(0, 1)
        prediction = Prediction((hidden if rows is None else hidden[rows],), self._logits, self.vocab)
        return without(prediction, [self.mask]) if self.mask < self.vocab else prediction

    def _logits(self, hidden: Tensor) -> Tensor:
        logits = self.head(hidden)
        if logits.shape != (hidden.shape[0], self.vocab):
            raise check.InputError(
                "head", f"give logits of shape {(hidden.shape[0], self.vocab)}", found=f"{tuple(logits.shape)}"
            )
        return logits


def _same(logits: Tensor) -> Tensor:
    return logits


def _check_ids(vocab: int, mask: int) -> None:
    check.integer("vocab", vocab, least=1)
    check.integer("mask", mask, least=0)
