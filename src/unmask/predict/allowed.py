"""Slots: which tokens are allowed at which position.

A date has digits in some places and a dash in others, a board cell one of the numbers that its row still lacks. With

    p(x_i | …)  ∝  p̂_i(x_i | …)   if x_i is allowed at i, and 0 otherwise,

every prediction is that of the model given that the token is allowed, exactly: probabilities are divided by the mass
of what is allowed. So sampling, replay and their gradients are exact for the constrained sampler as for any other.

**What that is not.** Each token is conditioned on being allowed itself, not on those after it. One by one in an order,
the law is the product of these conditionals, and not the model's law given that the whole text is allowed: what was
drawn early did not know what will be allowed later. The two agree where a single position is constrained and comes
first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, final

from unmask import _check as check
from unmask._torch import Tensor, plain, seen, torch
from unmask.predict.base import MaskPredictor, Prediction
from unmask.predict.networks import device_of
from unmask.predict.wrappers import Altering, Question

_NONE = "allow at least one token at every position"


@final
@dataclass(frozen=True, eq=False)
class Allowed(Altering):
    """Gives probability zero to tokens that are not allowed at a position, and what they had to the others.

    Given tokens are untouched, whatever is allowed there. Positions are those of a sequence, its prompt included.

    Arguments:
        predictor: The model.
        allowed: Booleans of shape `(length, vocab)`, the same for all sequences, which may be shorter; or of shape
            `(batch, length, vocab)`, for batches of that shape. Or a function `allowed(tokens, rows)` of the token ids,
            shape `(batch, length)` with the mask at masked positions, and of flat indices into them: it gives booleans
            of shape `(rows, vocab)`, and must treat each sequence by itself, as it is given any of a batch.

    Raises:
        InputError: if there is a position without any allowed token; for a function, when it says so.

    Example:
        Letters and digits in turn.

        >>> from unmask import order, size
        >>> from unmask.distribution import Markov
        >>> from unmask.predict import ExactPredictor
        >>> from unmask.sample import Sampler
        >>> from unmask.schedule import Schedule
        >>> allowed = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]]).bool().repeat(3, 1)
        >>> model = Allowed(ExactPredictor(Markov.sticky(vocab=4, stay=0.7, length=6)), allowed)
        >>> trace = Sampler(model, Schedule(size.Even(3), order.Comb())).run((50, 6), rng=0)
        >>> (trace.tokens // 2).unique(dim=0).tolist()
        [[0, 1, 0, 1, 0, 1]]
    """

    predictor: MaskPredictor
    allowed: Tensor | Callable[[Tensor, Tensor], Tensor]

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.allowed, Tensor):
            check.function("allowed", cast("Any", self.allowed))
            return
        if self.allowed.dtype != torch.bool or self.allowed.ndim not in (2, 3) or self.allowed.shape[-1] != self.vocab:
            raise check.InputError(
                "allowed",
                f"hold booleans of shape (length, {self.vocab}) or (batch, length, {self.vocab})",
                found=f"{self.allowed.dtype} of shape {tuple(self.allowed.shape)}",
            )
        empty: list[list[int]] = plain(torch.nonzero(~self.allowed.any(dim=-1))[:1])
        if empty:
            where = f"position {empty[0][-1]}" + (f" of sequence {empty[0][0]}" if self.allowed.ndim == 3 else "")
            raise check.InputError("allowed", _NONE, detail=f"but it allows none at {where}")
        # Where it is needed, once: a table over a whole vocabulary is large.
        object.__setattr__(self, "allowed", self.allowed.to(device_of(self.predictor) or self.allowed.device))

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - follows from what is allowed
        return self.predictor.whole or self._by_sequence

    @property
    def pad(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        # Sequences of other lengths would be sorted, and no longer be those that the table is about.
        return None if self._by_sequence else self.predictor.pad

    @property
    def in_one_pass(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return isinstance(self.allowed, Tensor) and self.predictor.in_one_pass

    @property
    def _by_sequence(self) -> bool:
        return isinstance(self.allowed, Tensor) and self.allowed.ndim == 3

    def _altered(self, prediction: Prediction, question: Question) -> Prediction:
        index, head = question.index, prediction.head
        if isinstance(self.allowed, Tensor):
            self._check_fits(self.allowed, question.tokens)
            table = self.allowed.to(index.device).flatten(0, -2)
            place = index if self._by_sequence else index % max(question.tokens.shape[1], 1)

            def among(*parts: Tensor) -> Tensor:
                # Rows of the table are looked up with those of the logits, some at a time.
                return head(*parts[:-1]).masked_fill(~table[parts[-1]], -torch.inf)

            return Prediction((*prediction.parts, place), among, prediction.vocab)

        def told(*parts: Tensor) -> Tensor:
            return head(*parts[:-1]).masked_fill(~parts[-1], -torch.inf)

        return Prediction((*prediction.parts, self._asked(self.allowed, question)), told, prediction.vocab)

    def _check_fits(self, allowed: Tensor, tokens: Tensor) -> None:
        if self._by_sequence and allowed.shape[:2] != tokens.shape:
            shape = (*tokens.shape, self.vocab)
            raise check.InputError("allowed", f"have the shape {shape} of the batch", found=f"{tuple(allowed.shape)}")
        if tokens.shape[1] > allowed.shape[-2]:
            raise check.InputError(
                "allowed", f"have a row for each of the {tokens.shape[1]} positions", found=f"for {allowed.shape[-2]}"
            )

    def _asked(self, allowed: Callable[[Tensor, Tensor], Tensor], question: Question) -> Tensor:
        if not question.settled:
            raise check.InputError(
                "allowed", "be a table if drafts are verified",
                detail="because a function cannot be applied to all drafts at once",
            )  # fmt: skip
        index = question.index
        found: object = allowed(question.tokens, index)
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.shape != (len(index), self.vocab):
            shape = f"({len(index)}, {self.vocab})"
            got = f"{found.dtype} of shape {tuple(found.shape)}" if isinstance(found, Tensor) else check.type_of(found)
            raise check.InputError("allowed", f"return booleans of shape {shape}", found=got)
        if seen(found, lambda some: ~some.any(dim=-1)):
            raise check.InputError("allowed", _NONE, detail="but at some position this function allows none")
        return found.to(question.tokens.device)
