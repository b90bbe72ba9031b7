"""What was predicted at the steps before, for sizes that ask how far predictions have moved since."""

from dataclasses import dataclass
from typing import final

from unmask._torch import Tensor, torch
from unmask.predict import Prediction


@final
@dataclass(frozen=True, eq=False)
class Past:
    """The predictions of the step before, and how far those of the last steps were from each other.

    Attributes:
        number: For each position of the batch its row in `log_probabilities`, −1 where it was not predicted.
        log_probabilities: What was predicted, shape `(rows, vocab)`; `None` before the first step.
        moved: For each position, its divergence at each of the last steps; infinite where there is none.
    """

    number: Tensor
    log_probabilities: Tensor | None
    moved: Tensor

    @staticmethod
    def none(positions: int, steps: int, device: torch.device) -> "Past":
        """Nothing yet, for a number of positions and of steps to look back."""
        number = torch.full((positions,), -1, dtype=torch.int64, device=device)
        return Past(number, None, torch.full((positions, steps), torch.inf, dtype=torch.float64, device=device))

    def then(self, rows: Tensor, prediction: Prediction) -> "Past":
        """The past of the next step.

        Arguments:
            rows: The positions predicted now, as flat indices into `batch · length`.
            prediction: Their predictions.
        """
        parts = [prediction.log_probabilities(start, stop) for start, stop in prediction.chunks()]
        now = torch.cat(parts) if parts else prediction.log_probabilities()
        far = torch.full((rows.numel(),), torch.inf, dtype=torch.float64, device=rows.device)
        if self.log_probabilities is not None:
            before = self.number[rows]
            for start, stop in prediction.chunks():
                known = torch.nonzero(before[start:stop] >= 0)[:, 0] + start
                far[known] = _divergence(now[known], self.log_probabilities[before[known]])
        number = torch.full_like(self.number, -1)
        number[rows] = torch.arange(rows.numel(), device=rows.device)
        moved = self.moved.index_put((rows,), torch.cat([self.moved[rows, 1:], far[:, None]], dim=1))
        return Past(number, now, moved)

    def movement(self, rows: Tensor) -> Tensor:
        """The largest divergence of each position over the last steps."""
        return self.moved[rows].amax(dim=1)


def _divergence(now: Tensor, before: Tensor) -> Tensor:
    """`Σ p log(p / q)` of each row, infinite where `q` excludes what `p` allows."""
    terms = now.exp() * (now - before)
    return terms.masked_fill(torch.isneginf(now), 0.0).sum(dim=-1).double()
