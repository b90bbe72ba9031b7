"""Predictors made of other predictors: guidance, tokens that may not be drawn, shifted and framed sequences, counts.

Tokens that may be drawn at some positions alone are in `unmask.predict.allowed`.

One that alters predictions remembers what its predictor remembers. `Guided`, `Framed` and `Shifted` change what goes
into it, and take all that is visible for given at every step.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict.base import MaskPredictor, Prediction, called, mask_predictor, precise, token_index, without
from unmask.predict.memory import Memory, Places


class Wrapper(MaskPredictor):
    """A predictor made of another one.

    Attributes:
        predictor: The other one, whose vocabulary and mask this one has.
    """

    predictor: MaskPredictor

    def __post_init__(self):
        mask_predictor(self.predictor)

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - the other's, and fixed
        return self.predictor.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.predictor.mask

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.predictor.whole

    @property
    def pad(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.predictor.pad


@final
@dataclass(frozen=True, eq=False)
class Question:
    """What a predictor was asked.

    Attributes:
        tokens: Token ids, shape `(batch, length)`.
        rows: Flat indices into them of the positions asked for; `None` for all.
        sequences: How many sequences were evaluated for it.
        settled: Whether all positions were told of the same tokens, with the mask at all others. Else there are drafts
            or later steps among them, and each position was told of what comes before it.
    """

    tokens: Tensor
    rows: Tensor | None
    sequences: int
    settled: bool = True

    @property
    def index(self) -> Tensor:
        """The flat indices."""
        return torch.arange(self.tokens.numel(), device=self.tokens.device) if self.rows is None else self.rows


class Altering(Wrapper):
    """A predictor that says what another one says, altered: it remembers what that one remembers."""

    @abstractmethod
    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        """What becomes of the answer to a question."""

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        return self._altered(self.predictor(tokens, masked, rows), Question(tokens, rows, tokens.shape[0]))

    @property
    def remembers(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.predictor.remembers

    @property
    def in_one_pass(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.predictor.in_one_pass

    def stepped(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Prediction:
        prediction = self.predictor.stepped(tokens, step, rows)
        return self._altered(prediction, Question(tokens, rows, tokens.shape[0], settled=False))

    def begin(self, tokens: Tensor, masked: Tensor) -> Memory | None:
        memory = self.predictor.begin(tokens, masked)
        return None if memory is None else _Altered(self, memory)


@final
@dataclass(frozen=True, eq=False)
class _Altered(Memory):
    """What a predictor remembers whose predictions are altered."""

    wrapper: Altering
    memory: Memory

    @property
    def copies(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - the other's, and fixed
        return self.memory.copies

    def read(self, tokens: Tensor, places: Places) -> tuple[Prediction, Memory]:
        prediction, memory = self.memory.read(tokens, places)
        question = Question(tokens, places.rows, places.sequences.size)
        return self.wrapper._altered(prediction, question), _Altered(self.wrapper, memory)

    def revealed(self, places: Places) -> Memory:
        return _Altered(self.wrapper, self.memory.revealed(places))

    def scan(self, tokens: Tensor, drafted: Places, after: Places) -> tuple[Prediction, Prediction, Memory]:
        first, then, memory = self.memory.scan(tokens, drafted, after)
        sequences = np.union1d(drafted.sequences, after.sequences).size
        # One evaluation has told both.
        one, other = Question(tokens, drafted.rows, sequences, settled=False), Question(tokens, after.rows, 0, False)
        altered = self.wrapper._altered(first, one), self.wrapper._altered(then, other)
        return *altered, _Altered(self.wrapper, memory)

    def accepted(self, places: Places) -> Memory:
        return _Altered(self.wrapper, self.memory.accepted(places))


@final
@dataclass(frozen=True, eq=False)
class Suppressed(Altering):
    """Gives some tokens probability zero.

    Arguments:
        predictor: The model.
        tokens: Ids of the tokens.
    """

    predictor: MaskPredictor
    tokens: Sequence[int]

    def __post_init__(self):
        super().__post_init__()
        for token in check.listed("tokens", self.tokens, "be a list of token ids"):
            check.integer("tokens", token, least=0, most=self.vocab - 1)

    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        return without(prediction, self.tokens)


@final
@dataclass(frozen=True, eq=False)
class Tempered(Altering):
    """Divides the logits by a temperature: a predictor with a known error, for experiments.

    This changes the predictor itself; to sample at a temperature use `unmask.sample.draw.Categorical`.

    Arguments:
        predictor: The model.
        temperature: What its logits are divided by, above 0.
    """

    predictor: MaskPredictor
    temperature: float

    def __post_init__(self):
        super().__post_init__()
        check.real("temperature", self.temperature, above=0.0)

    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        head = prediction.head
        return Prediction(prediction.parts, lambda *parts: precise(head(*parts)) / self.temperature, prediction.vocab)


@final
@dataclass(frozen=True, eq=False)
class Shifted(Wrapper):
    """Reads the prediction of position `i` from the model's output at `i−1` (Dream); the first from its own.

    Arguments:
        predictor: The model.
    """

    predictor: MaskPredictor

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        if rows is None:
            rows = torch.arange(tokens.numel(), device=tokens.device)
        first = rows % tokens.shape[1] == 0
        return self.predictor(tokens, masked, torch.where(first, rows, rows - 1))


@final
@dataclass(frozen=True, eq=False)
class Framed(Wrapper):
    """Puts fixed tokens around every sequence: the start and end that a model expects, and that no schedule sees.

    Arguments:
        predictor: The model.
        before: The tokens before a sequence.
        after: The tokens after it.
        pad: A token id that fills up sequences at their end: the tokens `after` then stand before it. By default the
            predictor's own, if it has one.
    """

    predictor: MaskPredictor
    before: Sequence[int]
    after: Sequence[int]
    pad: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride] - a property of others, a field here

    def __post_init__(self):
        super().__post_init__()
        for name, tokens in (("before", self.before), ("after", self.after)):
            for token in check.listed(name, tokens, "be a list of token ids"):
                check.integer(name, token, least=0, most=self.vocab - 1)
        if self.pad is None:
            object.__setattr__(self, "pad", self.predictor.pad)
        else:
            check.integer("pad", self.pad, least=0, most=check.EXACT)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        batch, length = tokens.shape
        first, last = len(self.before), len(self.after)
        wide = first + length + last
        if rows is None:
            rows = torch.arange(tokens.numel(), device=tokens.device)
        frame = token_index((*self.before, *self.after), tokens.device).expand(batch, -1).to(tokens.dtype)
        framed = torch.cat([frame[:, :first], tokens, frame[:, first:]], dim=1)
        hidden = torch.nn.functional.pad(masked, (first, last))
        if self.pad is not None and last:
            padded = (tokens == self.pad).flip(1).cumprod(dim=1).sum(dim=1, keepdim=True)
            place = torch.arange(wide, device=tokens.device)
            # What comes after moves to the left by as many tokens as the padding has, and the padding to its right.
            moved = torch.where(place < wide - padded, place + padded, place - last)
            framed = framed.gather(1, torch.where(place < first + length - padded, place, moved))
        return self.predictor(framed, hidden, rows // length * wide + first + rows % length)


@final
@dataclass(frozen=True, eq=False)
class Guided(Wrapper):
    """Classifier-free guidance: `logits = conditional + scale (conditional − free)`.

    The free prediction sees the same tokens with the positions in `prompt` masked: each evaluation is two of the
    model.

    Arguments:
        predictor: The model.
        prompt: Booleans, shape `(length,)` or `(batch, length)`: positions hidden from the free prediction.
        scale: How strong it is; 0 is no guidance, and costs no second evaluation.
    """

    predictor: MaskPredictor
    prompt: Tensor
    scale: float

    def __post_init__(self):
        super().__post_init__()
        check.real("scale", self.scale)
        check.instance("prompt", self.prompt, Tensor, "be a tensor of booleans")
        if self.prompt.dtype != torch.bool or self.prompt.ndim not in (1, 2):
            raise check.InputError(
                "prompt",
                "hold booleans of shape (length,) or (batch, length)",
                found=f"{self.prompt.dtype} of shape {tuple(self.prompt.shape)}",
            )

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - follows from the prompt
        return self.prompt.ndim == 2 or self.predictor.whole

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        if self.prompt.shape not in (tokens.shape, tokens.shape[1:]):
            raise check.InputError(
                "prompt",
                f"have the shape {tuple(tokens.shape)} or {tuple(tokens.shape[1:])} of the tokens",
                found=f"{tuple(self.prompt.shape)}",
            )
        given = self.predictor(tokens, masked, rows)
        if self.scale == 0:
            return given
        hidden = masked | self.prompt.to(masked.device)
        if self.pad is not None:
            hidden &= tokens != self.pad  # a prompt may reach beyond the end of a sequence, where nothing is to be seen
        free = self.predictor(tokens.masked_fill(hidden, self.mask), hidden, rows)
        split, scale = len(given.parts), self.scale

        def head(*parts: Tensor) -> Tensor:
            # In float32 or better: differences of half-precision logits would be multiplied with their rounding.
            conditional, base = precise(given.head(*parts[:split])), precise(free.head(*parts[split:]))
            guided = conditional + scale * (conditional - base)
            # −∞ − (−∞): a token impossible for either stays impossible.
            return guided.masked_fill(torch.isinf(conditional) | torch.isinf(base), -torch.inf)

        return Prediction((*given.parts, *free.parts), head, self.vocab)


@final
@dataclass(eq=False)
class Counted(Altering):
    """Counts what is asked of a predictor.

    Attributes:
        predictor: The model.
        calls: Number of evaluations.
        sequences: Sequences evaluated, summed over the calls.
        rows: Positions whose prediction was asked for, summed over the calls.
    """

    predictor: MaskPredictor
    calls: int = field(default=0, init=False)
    sequences: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        called(tokens, masked, rows)
        return super().__call__(tokens, masked, rows)

    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        self.calls += question.sequences > 0
        self.sequences += question.sequences
        self.rows += len(prediction)
        return prediction


@final
@dataclass(frozen=True, eq=False)
class Watched(Altering):
    """Reports the number of sequences of every evaluation, to move a progress bar.

    Arguments:
        predictor: The model.
        report: Called with that number after each evaluation.
    """

    predictor: MaskPredictor
    report: Callable[[int], object]

    def __post_init__(self):
        super().__post_init__()
        check.function("report", self.report)

    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        self.report(question.sequences)
        return prediction
