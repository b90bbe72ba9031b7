"""Blocks whose ends the model decides: what is asked of it, and where the next one ends."""

from dataclasses import dataclass
from typing import final

from unmask._torch import Tensor, torch
from unmask.order import Delimited
from unmask.predict import Prediction


@final
@dataclass(frozen=True, eq=False)
class Bounds:
    """The block of each sequence that is being filled.

    Attributes:
        start: Its first position.
        end: The position after its last; 0 before the first block.
        window: How far ahead the end is looked for, in positions.
        last: The position after the last that is to be filled.
    """

    start: Tensor
    end: Tensor
    window: Tensor
    last: Tensor

    @staticmethod
    def none(order: Delimited, masked: Tensor) -> "Bounds":
        """No block yet, for what is to be filled."""
        place = torch.arange(masked.shape[1], device=masked.device)
        last = ((place + 1) * masked).amax(dim=1) if masked.shape[1] else masked.sum(dim=1)
        zero = torch.zeros_like(last)
        return Bounds(zero, zero, (order.window * masked.sum(dim=1)).long(), last)

    def candidates(self, order: Delimited, masked: Tensor) -> Tensor:
        """What is masked in the block of each sequence; where that is done, as far ahead as the next one may reach."""
        place = torch.arange(masked.shape[1], device=masked.device)
        inside = masked & (place < self.end[:, None])
        first = masked.to(torch.int8).argmax(dim=1)
        ahead = masked & (place < (first + self.window.clamp(min=order.length))[:, None])
        return torch.where(inside.any(dim=1, keepdim=True), inside, ahead)

    def after(self, order: Delimited, sequences: Tensor, candidates: Tensor, prediction: Prediction) -> "Bounds":
        """The blocks in which the step reveals something, given what is predicted of the candidates.

        Arguments:
            order: What ends a block.
            sequences: The sequences that were evaluated.
            candidates: Which positions of these were predicted.
            prediction: Their predictions.
        """
        end, window, last = self.end[sequences], self.window[sequences], self.last[sequences]
        place = torch.arange(candidates.shape[1], device=candidates.device)
        open_now = (candidates & (place < end[:, None])).any(dim=1) | ~candidates.any(dim=1)
        first = candidates.to(torch.int8).argmax(dim=1)
        best = prediction.best
        delimiting = (best[:, None] == best.new_tensor(order.delimiters)).any(dim=1)
        sure = torch.full(candidates.shape, -1.0, dtype=prediction.confidence.dtype, device=candidates.device)
        sure[candidates] = prediction.confidence.masked_fill(~delimiting, -1.0)
        sure = sure.masked_fill(place >= (first + window)[:, None], -1.0)
        most, where = sure.max(dim=1)
        found = torch.where((most >= order.threshold) & (most >= 0), where + 1, (first + order.length).minimum(last))
        start = self.start.index_put((sequences,), torch.where(open_now, self.start[sequences], first))
        return Bounds(
            start, self.end.index_put((sequences,), torch.where(open_now, end, found)), self.window, self.last
        )

    def inside(self, sequences: Tensor, local: Tensor, length: int) -> Tensor:
        """Which of the predicted positions are in their blocks."""
        return local % length < self.end[sequences][local // length]
