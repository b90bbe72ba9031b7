"""What a model predicts at some positions, in the form that a sampler needs.

Logits are a means: confidence, margin, entropy and log-probabilities are computed lazily, a chunk of rows at a time, in
float32 or better whatever the model's dtype, and never as a float64 array over the whole vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, final

from unmask import _check as check
from unmask._torch import Tensor, integral, outside, torch
from unmask.predict import _fused as fused

if TYPE_CHECKING:
    from unmask.predict.memory import Memory

_special: Any = torch.special  # torch has no types for it
_ELEMENTS = 1 << 25  # logits held at once while reducing over the vocabulary: 128 MiB in float32
_BYTES = 1 << 28  # of logits held at once while a GPU reads them in the model's own dtype
_TILE = 256  # rows of a matrix product, and of a reduction, that fill a GPU evenly


@final
class Prediction:
    """Predictions for some positions: `head(*parts)` gives their logits, a chunk of rows at a time.

    Arguments:
        parts: Tensors with one row for each position (hidden states, or logits themselves).
        head: Maps such rows to logits, shape `(rows, vocab)`.
        vocab: Number of tokens.
    """

    _places: Tensor | Callable[[], Tensor] | None = None
    _progress: Tensor | Callable[[], Tensor] | None = None

    def __init__(self, parts: tuple[Tensor, ...], head: Callable[..., Tensor], vocab: int):
        check.function("head", head)
        check.instance("parts", parts, tuple, "be a tuple of tensors")
        for part in parts:
            check.instance("parts", part, Tensor, "be a tuple of tensors")
        if not parts or any(part.ndim == 0 or len(part) != len(parts[0]) for part in parts):
            raise check.InputError("parts", "be one or more tensors with the same number of rows")
        self.parts, self.head, self.vocab = parts, head, check.integer("vocab", vocab, least=1)

    def __len__(self) -> int:
        return self.parts[0].shape[0]

    def take(self, index: Tensor) -> "Prediction":
        """The predictions of the given rows, by their indices or by one boolean for each."""
        check.instance("index", index, Tensor, "be a tensor of indices")
        fits = index.shape == (len(self),) if index.dtype == torch.bool else index.ndim == 1 and integral(index)
        if not fits or (index.dtype != torch.bool and outside(index, len(self))):
            raise check.InputError("index", f"hold indices from 0 to {len(self) - 1}, or {len(self)} booleans")
        return Prediction(tuple(part[index] for part in self.parts), self.head, self.vocab)

    def at(self, places: Tensor | Callable[[], Tensor], progress: Tensor | Callable[[], Tensor]) -> "Prediction":
        """The same predictions, with the place of each and how far its block is: what some orders look at too.

        Arguments:
            places: Integers, shape `(rows,)`; or a function that gives them, which is called once, when they are first
                read: most orders look at neither, and a step should not compute what nobody reads.
            progress: Numbers from 0 to 1 of that shape, or a function that gives them.
        """
        same = Prediction(self.parts, self.head, self.vocab)
        same._places = places if callable(places) else self._checked_places(places)
        same._progress = progress if callable(progress) else self._checked_progress(progress)
        return same

    @cached_property
    def places(self) -> Tensor | None:
        """Where each position is, counted from the first that its block has to fill; `None` where nobody said."""
        return self._checked_places(self._places()) if callable(self._places) else self._places

    @cached_property
    def progress(self) -> Tensor | None:
        """How far the filling of its block is, from 0 to 1; `None` where nobody said."""
        return self._checked_progress(self._progress()) if callable(self._progress) else self._progress

    def _checked_places(self, places: Tensor) -> Tensor:
        check.instance("places", places, Tensor, "be a tensor of integers")
        if places.shape != (len(self),) or not integral(places):
            found = f"{places.dtype} of shape {tuple(places.shape)}"
            raise check.InputError("places", f"hold one integer for each of the {len(self)} rows", found=found)
        return places

    def _checked_progress(self, progress: Tensor) -> Tensor:
        check.instance("progress", progress, Tensor, "be a tensor of numbers")
        if progress.shape != (len(self),):
            raise check.InputError("progress", f"hold one number for each of the {len(self)} rows")
        return progress

    def logits(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Logits of rows `start … stop−1`, shape `(rows, vocab)`, in float32 or better."""
        return precise(self._head(start, stop))

    def _head(self, start: int, stop: int | None) -> Tensor:
        first = check.integer("start", start, least=0)
        last = None if stop is None else check.integer("stop", stop, least=0)
        return self.head(*(part[first:last] for part in self.parts))

    def chunks(self) -> list[tuple[int, int]]:
        """Row ranges small enough to hold their logits at once."""
        return self._ranges(_ELEMENTS // self.vocab)

    def _ranges(self, rows: int) -> list[tuple[int, int]]:
        rows = max(1, rows if rows < _TILE else rows // _TILE * _TILE)
        return [(start, min(start + rows, len(self))) for start in range(0, len(self), rows)]

    def log_probabilities(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Log-probabilities of rows `start … stop−1`, shape `(rows, vocab)`, in float32 or better."""
        values = self._head(start, stop)
        # One fused pass from the model's dtype: converting first would double the memory traffic.
        return torch.log_softmax(values, dim=-1, dtype=better(values.dtype))

    def losses(self, tokens: Tensor) -> Tensor:
        """Minus the log-probability of one token for each row, shape `(rows,)`, in float64.

        Arguments:
            tokens: Token ids, shape `(rows,)`.
        """
        check.instance("tokens", tokens, Tensor, "be a tensor of token ids")
        if tokens.shape != (len(self),) or not integral(tokens):
            raise check.InputError(
                "tokens",
                f"hold one token id for each of the {len(self)} rows",
                found=f"{tokens.dtype} of shape {tuple(tokens.shape)}",
            )
        if outside(tokens, self.vocab):
            raise check.InputError("tokens", f"hold token ids from 0 to {self.vocab - 1}")
        tokens = tokens.long()
        parts = [
            -self.log_probabilities(start, stop).gather(1, tokens[start:stop, None])[:, 0].double()
            for start, stop in self.chunks() or [(0, 0)]
        ]
        return torch.cat(parts)

    @cached_property
    def confidence(self) -> Tensor:
        """The largest probability of each row, shape `(rows,)`."""
        return self._reduce(_confidence) if self._fused is None else self._fused[0]

    @cached_property
    def margin(self) -> Tensor:
        """The gap between the two largest probabilities of each row, shape `(rows,)`."""
        return self._reduce(_margin) if self._fused is None else self._fused[1]

    @cached_property
    def entropy(self) -> Tensor:
        """The entropy of each row, in nats, shape `(rows,)`."""
        return self._reduce(_entropy) if self._fused is None else self._fused[2]

    @cached_property
    def best(self) -> Tensor:
        """The most likely token of each row, the first of equals, shape `(rows,)`."""
        return torch.cat([self._head(start, stop).argmax(dim=-1) for start, stop in self.chunks() or [(0, 0)]])

    @cached_property
    def _fused(self) -> Tensor | None:
        """All three from one pass over the vocabulary, where the machine has a kernel for it."""
        parts: list[Tensor] = []
        # The head reads its weights once for each range, which takes as long as the product of 256 rows with a large
        # vocabulary: so ranges are as long as memory allows.
        rows = _BYTES // (self.vocab * self.parts[0].element_size())
        for start, stop in self._ranges(rows) if self.parts[0].is_cuda else []:
            logits = self._head(start, stop)
            if not fused.usable(logits):
                return None
            parts.append(fused.statistics(logits))
        return torch.cat(parts, dim=1) if parts else None

    def _reduce(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        parts: list[Tensor] = []
        for start, stop in self.chunks() or [(0, 0)]:
            logits = self._head(start, stop)
            # One fused pass from the model's dtype to probabilities in float32 or better.
            parts.append(function(torch.softmax(logits, dim=-1, dtype=better(logits.dtype))))
        return torch.cat(parts)


class MaskPredictor(ABC):
    """Predicts every masked position from the revealed tokens.

    Attributes:
        vocab: Number of tokens.
        mask: The token id that stands at masked positions; it is never drawn.
        whole: True if every call needs all the sequences of the batch, because something is kept for each of them (a
            prompt, an attention mask). By default a call is given those sequences that reveal something, and no
            others.
        pad: A token id that may fill up sequences at their end, where no prediction is ever asked for, and that no
            other position sees: what a sequence is told is what it would be told alone. `None` if there is no such
            token: then all sequences of a call have one length.
        remembers: True if it has a memory (`begin`), and what it says depends on the steps in which tokens came.
        in_one_pass: True if it tells all steps of a text at once (`stepped`).
    """

    vocab: int
    mask: int
    whole: bool = False
    pad: int | None = None
    remembers: bool = False
    in_one_pass: bool = False

    @abstractmethod
    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        """Predict positions.

        A predictor of your own may take it that its arguments fit together; `called` checks that they do.

        Arguments:
            tokens: Token ids, shape `(batch, length)`, with `mask` at masked positions.
            masked: Booleans of the same shape.
            rows: Flat indices into `batch · length` of the positions wanted; all of them by default.

        Returns:
            A prediction with one row for each entry of `rows`.
        """

    def begin(self, tokens: Tensor, masked: Tensor) -> "Memory | None":
        """What this predictor remembers of a batch as it starts; `None`, as it remembers nothing.

        See `unmask.predict.memory` for those that do.
        """
        return None

    def stepped(self, tokens: Tensor, step: Tensor, rows: Tensor) -> Prediction:
        """Predictions of positions given all earlier steps of their sequence, in one pass, if it can (`in_one_pass`).

        Arguments:
            tokens: Token ids, shape `(batch, length)`, filled up at the end as for a call.
            step: The step of each, −1 where it is given; of the same shape.
            rows: Flat indices of the positions wanted.

        Raises:
            InputError: as it cannot.
        """
        raise check.InputError(
            "predictor", "predict all steps of a text in one pass", detail=f"but {type(self).__name__} cannot"
        )


def called(tokens: Tensor, masked: Tensor, rows: Tensor | None) -> None:
    """Refuse what no predictor can be called with.

    Raises:
        InputError: if the tokens are not integers of shape `(batch, length)`, the mask not booleans of that shape, or
            the rows not a list of indices into `batch · length`.
    """
    check.instance("tokens", tokens, Tensor, "be a tensor of token ids")
    check.instance("masked", masked, Tensor, "be a tensor of booleans")
    if tokens.ndim != 2 or not integral(tokens):
        found = f"{tokens.dtype} of shape {tuple(tokens.shape)}"
        raise check.InputError("tokens", "hold token ids of shape (batch, length)", found=found)
    if masked.shape != tokens.shape or masked.dtype != torch.bool:
        found = f"{masked.dtype} of shape {tuple(masked.shape)}"
        raise check.InputError("masked", f"hold booleans of shape {tuple(tokens.shape)}", found=found)
    if rows is None:
        return
    check.instance("rows", rows, Tensor, "be a tensor of indices")
    if rows.ndim != 1 or not integral(rows) or outside(rows, tokens.numel()):
        raise check.InputError("rows", f"hold indices from 0 to {tokens.numel() - 1}, one for each position to predict")


# Each reduction owns the probabilities it is given and may overwrite them.


def _confidence(probabilities: Tensor) -> Tensor:
    return probabilities.amax(dim=-1)


def _margin(probabilities: Tensor) -> Tensor:
    best, where = probabilities.max(dim=-1, keepdim=True)
    # A second pass for the maximum beats a sort or a top-k over the vocabulary.
    return best[:, 0] - probabilities.scatter_(-1, where, 0.0).amax(dim=-1)


def _entropy(probabilities: Tensor) -> Tensor:
    terms: Tensor = _special.entr(probabilities)
    # A lone long row would be added up in another order than a row among others: give it company.
    terms = terms if len(terms) != 1 else terms.expand(2, -1)
    return terms.sum(dim=-1)[: len(probabilities)]


def better(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which to compute with values of `dtype`: float32 or better."""
    return torch.promote_types(dtype, torch.float32)


def precise(logits: Tensor) -> Tensor:
    """The logits in float32 or better."""
    return logits.to(better(logits.dtype))


def without(prediction: Prediction, ids: Sequence[int]) -> Prediction:
    """The prediction with some tokens made impossible."""
    if not ids:
        return prediction

    def head(*parts: Tensor) -> Tensor:
        logits = prediction.head(*parts)
        return logits.index_fill(-1, token_index(tuple(ids), logits.device), -torch.inf)

    return Prediction(prediction.parts, head, prediction.vocab)


@lru_cache(maxsize=64)
def token_index(ids: tuple[int, ...], device: torch.device) -> Tensor:
    """Token ids on the device, written there once and without a copy from the host: the loop would wait for it."""
    with torch.inference_mode(False):  # what is kept must be usable in training too
        return torch.cat([torch.full((1,), token, dtype=torch.int64, device=device) for token in (*ids, 0)])[:-1]


def mask_predictor(value: object) -> MaskPredictor:
    """Return `value` if it is a mask predictor.

    Raises:
        InputError: if it is something else, most often a network that still has to be wrapped.
    """
    if not isinstance(value, MaskPredictor):
        remedy = "Wrap a model that returns logits in unmask.predict.Logits."
        raise check.InputError("predictor", "be a mask predictor", found=check.type_of(value), remedy=remedy)
    return value
