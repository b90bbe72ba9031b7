"""Mask predictors: for every masked position, its distribution given the revealed tokens.

A predictor is called as `predictor(tokens, masked, rows)`. `rows` names the only positions whose predictions are
needed, as flat indices into `batch · length`; a model then computes hidden states everywhere and its output head on
those rows alone. The answer is a `Prediction`: logits as a means, read through what a sampler wants of them —
confidence, margin, entropy, log-probabilities — computed lazily, in chunks, in float32 or better whatever the model's
dtype, and never as a float64 array over the whole vocabulary.

    ExactPredictor     the conditional marginals of a known distribution: a perfect model
    Logits             any module or function that maps token ids to logits
    Headed             a body that gives hidden states and a head that gives logits

Wrappers are predictors too: `Guided` (classifier-free guidance), `Suppressed` (tokens that may not be drawn),
`Shifted` (models whose output at position `i` predicts `i+1`), `Framed` (fixed tokens around every sequence),
`Tempered` (a deliberately wrong predictor), `Counted`, `Watched`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from unmask import check
from unmask.backend import Tensor, torch
from unmask.distribution.base import Distribution
from unmask.prediction import Prediction, precise


class MaskPredictor(ABC):
    """Predicts every masked position from the revealed tokens.

    Attributes:
        vocab: Number of tokens.
        mask: The token id that stands at masked positions; it is never drawn.
        whole: True if every call needs all the sequences of the batch, because something is kept for each of them (a
            prompt, an attention mask). By default a call is given those sequences that reveal something, and no
            others.
    """

    vocab: int
    mask: int
    whole: bool = False

    @abstractmethod
    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        """Predict positions.

        Arguments:
            tokens: Token ids, shape `(batch, length)`, with `mask` at masked positions.
            masked: Booleans of the same shape.
            rows: Flat indices into `batch · length` of the positions wanted; all of them by default.

        Returns:
            A prediction with one row for each entry of `rows`.
        """


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
            raise TypeError(f"Argument 'model' must give logits, or an object with them, not {type(answer).__name__}.")
        if logits.shape != (*tokens.shape, self.vocab):
            raise ValueError(
                f"Argument 'model' must give logits of shape {(*tokens.shape, self.vocab)}, not {tuple(logits.shape)}."
            )
        flat = logits.flatten(0, 1)
        # The logits are there already: rows are picked a chunk at a time, not all of them copied at once.
        parts, head = ((flat,), _same) if rows is None else ((rows,), flat.__getitem__)
        prediction = Prediction(parts, head, self.vocab)
        return _without(prediction, [self.mask]) if self.mask < self.vocab else prediction


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
        return _without(prediction, [self.mask]) if self.mask < self.vocab else prediction

    def _logits(self, hidden: Tensor) -> Tensor:
        logits = self.head(hidden)
        if logits.shape != (hidden.shape[0], self.vocab):
            raise ValueError(
                f"Argument 'head' must give logits of shape {(hidden.shape[0], self.vocab)}, not {tuple(logits.shape)}."
            )
        return logits


class Wrapper(MaskPredictor):
    """A predictor made of another one."""

    predictor: MaskPredictor

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predictor.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predictor.mask

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predictor.whole


@dataclass(frozen=True, eq=False)
class Suppressed(Wrapper):
    """Gives some tokens probability zero."""

    predictor: MaskPredictor
    tokens: Sequence[int]

    def __post_init__(self):
        if not isinstance(self.tokens, Sequence):
            raise TypeError(f"Argument 'tokens' must be a list of token ids, not {type(self.tokens).__name__}.")
        for token in self.tokens:
            check.integer("tokens", token, least=0, most=self.vocab - 1)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        return _without(self.predictor(tokens, masked, rows), self.tokens)


@dataclass(frozen=True, eq=False)
class Tempered(Wrapper):
    """Divides the logits by a temperature: a predictor with a known error, for experiments.

    This changes the predictor itself; to sample at a temperature use `unmask.draw.Categorical`.
    """

    predictor: MaskPredictor
    temperature: float

    def __post_init__(self):
        check.real("temperature", self.temperature, above=0.0)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        inner = self.predictor(tokens, masked, rows)
        return Prediction(inner.parts, lambda *parts: precise(inner.head(*parts)) / self.temperature, inner.vocab)


@dataclass(frozen=True, eq=False)
class Shifted(Wrapper):
    """Reads the prediction of position `i` from the model's output at `i−1` (Dream); the first from its own."""

    predictor: MaskPredictor

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        if rows is None:
            rows = torch.arange(tokens.numel(), device=tokens.device)
        first = rows % tokens.shape[1] == 0
        return self.predictor(tokens, masked, torch.where(first, rows, rows - 1))


@dataclass(frozen=True, eq=False)
class Framed(Wrapper):
    """Puts fixed tokens around every sequence: the start and end that a model expects, and that no schedule sees.

    Arguments:
        predictor: The model.
        before, after: The tokens.
        pad: A token id that fills up sequences at their end: the tokens `after` then stand before it. By default there
            is none.
    """

    predictor: MaskPredictor
    before: Sequence[int]
    after: Sequence[int]
    pad: int | None = None

    def __post_init__(self):
        for name, tokens in (("before", self.before), ("after", self.after)):
            for token in tokens:
                check.integer(name, token, least=0, most=self.vocab - 1)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        batch, length = tokens.shape
        first, last = len(self.before), len(self.after)
        wide = first + length + last
        if rows is None:
            rows = torch.arange(tokens.numel(), device=tokens.device)
        frame = _index((*self.before, *self.after), tokens.device).expand(batch, -1).to(tokens.dtype)
        framed = torch.cat([frame[:, :first], tokens, frame[:, first:]], dim=1)
        hidden = torch.nn.functional.pad(masked, (first, last))
        if self.pad is not None and last:
            padded = (tokens == self.pad).flip(1).cumprod(dim=1).sum(dim=1, keepdim=True)
            place = torch.arange(wide, device=tokens.device)
            # What comes after moves to the left by as many tokens as the padding has, and the padding to its right.
            moved = torch.where(place < wide - padded, place + padded, place - last)
            framed = framed.gather(1, torch.where(place < first + length - padded, place, moved))
        return self.predictor(framed, hidden, rows // length * wide + first + rows % length)


@dataclass(frozen=True, eq=False)
class Guided(Wrapper):
    """Classifier-free guidance: `logits = conditional + scale (conditional − free)`.

    The free prediction sees the same tokens with the positions in `prompt` masked: each evaluation is two of the
    model.

    Arguments:
        predictor: The model.
        prompt: Booleans, shape `(length,)` or `(batch, length)`: positions hidden from the free prediction.
        scale: 0 is no guidance, and costs no second evaluation.
    """

    predictor: MaskPredictor
    prompt: Tensor
    scale: float

    def __post_init__(self):
        check.real("scale", self.scale)
        if self.prompt.dtype != torch.bool or self.prompt.ndim not in (1, 2):
            raise ValueError(
                f"Argument 'prompt' must hold booleans of shape (length,) or (batch, length), "
                f"not {self.prompt.dtype} of shape {tuple(self.prompt.shape)}."
            )

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.prompt.ndim == 2 or self.predictor.whole

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        if self.prompt.shape not in (tokens.shape, tokens.shape[1:]):
            raise ValueError(
                f"Argument 'prompt' must have the shape {tuple(tokens.shape)} or {tuple(tokens.shape[1:])} "
                f"of the tokens, not {tuple(self.prompt.shape)}."
            )
        given = self.predictor(tokens, masked, rows)
        if self.scale == 0:
            return given
        hidden = masked | self.prompt.to(masked.device)
        free = self.predictor(tokens.masked_fill(hidden, self.mask), hidden, rows)
        split, scale = len(given.parts), self.scale

        def head(*parts: Tensor) -> Tensor:
            # In float32 or better: differences of half-precision logits would be multiplied with their rounding.
            conditional, base = precise(given.head(*parts[:split])), precise(free.head(*parts[split:]))
            guided = conditional + scale * (conditional - base)
            # −∞ − (−∞): a token impossible for either stays impossible.
            return guided.masked_fill(torch.isinf(conditional) | torch.isinf(base), -torch.inf)

        return Prediction((*given.parts, *free.parts), head, self.vocab)


@dataclass(eq=False)
class Counted(Wrapper):
    """Counts what is asked of a predictor.

    Attributes:
        calls: Number of evaluations.
        sequences: Sequences evaluated, summed over the calls.
        rows: Positions whose prediction was asked for, summed over the calls.
    """

    predictor: MaskPredictor
    calls: int = field(default=0, init=False)
    sequences: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        self.calls += 1
        self.sequences += tokens.shape[0]
        self.rows += tokens.numel() if rows is None else rows.numel()
        return self.predictor(tokens, masked, rows)


@dataclass(frozen=True, eq=False)
class Watched(Wrapper):
    """Reports the number of sequences of every evaluation, to move a progress bar."""

    predictor: MaskPredictor
    report: Callable[[int], object]

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        prediction = self.predictor(tokens, masked, rows)
        self.report(tokens.shape[0])
        return prediction


def _same(logits: Tensor) -> Tensor:
    return logits


def _without(prediction: Prediction, ids: Sequence[int]) -> Prediction:
    if not ids:
        return prediction

    def head(*parts: Tensor) -> Tensor:
        logits = prediction.head(*parts)
        return logits.index_fill(-1, _index(tuple(ids), logits.device), -torch.inf)

    return Prediction(prediction.parts, head, prediction.vocab)


@lru_cache(maxsize=64)
def _index(ids: tuple[int, ...], device: torch.device) -> Tensor:
    """Token ids on the device, written there once and without a copy from the host: the loop would wait for it."""
    with torch.inference_mode(False):  # what is kept must be usable in training too
        return torch.cat([torch.full((1,), token, dtype=torch.int64, device=device) for token in (*ids, 0)])[:-1]


def _check_ids(vocab: int, mask: int) -> None:
    check.integer("vocab", vocab, least=1)
    check.integer("mask", mask, least=0)
