"""What a revision is, and what it may look at."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


class Asking(Enum):
    """What a revision asks the predictor about tokens that are already revealed."""

    NOTHING = "nothing: a step costs one evaluation, as without revision"
    VISIBLE = "their prediction in the same evaluation, which sees them: a step costs one evaluation"
    HIDDEN = "their prediction with each of them masked alone: one more evaluation for each"


@final
@dataclass(frozen=True, eq=False)
class Situation:
    """What a revision sees of a step, before anything is changed; tensors have the shape `(batch, length)`.

    Attributes:
        tokens: Token ids.
        held: Booleans: revealed by an earlier step of this block, so that they may be revised.
        candidates: Booleans: masked, and possible for this step.
        rank: The order's number for each candidate, larger first; −∞ elsewhere. Where tokens are drawn first, the
            log-probability of the token drawn.
        drawn: Log-probability of each held token when it was drawn.
        seen: Log-probability of each held token in this evaluation; `None` where nobody looked.
        best: The likeliest token of each held position in this evaluation; `None` likewise.
        best_probability: Its probability; `None` likewise.
        revealed: The step at which each position was revealed.
        step: Number of the step.
        before: Share of the block that is revealed before this step, shape `(batch, 1)`.
        after: Share that will be revealed after it; `None` where predictions decide.
        wanted: How many more tokens stand after this step than before it if none is taken back, shape `(batch,)`.
        most: How many may be taken back at most, shape `(batch,)`.
    """

    tokens: "Tensor"
    held: "Tensor"
    candidates: "Tensor"
    rank: "Tensor"
    drawn: "Tensor"
    revealed: "Tensor"
    step: int
    before: "Tensor"
    wanted: "Tensor"
    most: "Tensor"
    after: "Tensor | None" = None
    seen: "Tensor | None" = None
    best: "Tensor | None" = None
    best_probability: "Tensor | None" = None


class Revision(ABC):  # noqa: B024 - what is abstract differs between its three kinds
    """Which revealed tokens are taken back or changed: a `TakeBack`, a `Rewrite` or a `Redraw`."""

    @property
    def asks(self) -> Asking:
        """What it asks the predictor about revealed tokens."""
        return Asking.NOTHING

    @property
    def needs_sizes(self) -> bool:
        """Whether it must know beforehand how many tokens each step reveals."""
        return False

    @property
    def recalls(self) -> bool:
        """Whether it looks at the log-probability with which a token was drawn."""
        return False

    @property
    def extra(self) -> int:
        """Steps that it may take once nothing is masked any more."""
        return 0

    def paced(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The sizes of all steps of a block, steps of its own added, and which of them revise."""
        return sizes, np.ones(sizes.shape, dtype=np.bool_)


class TakeBack(Revision):
    """Returns revealed positions to the mask.

    A step that takes some back reveals as many more of the others, from the same evaluation, so that the number of
    tokens after it is what the size says. It can take back no more than there are others left to reveal.
    """

    @property
    def drafts(self) -> bool:
        """Whether tokens are drawn for all candidates first, and ranked by their probability."""
        return False

    @abstractmethod
    def chances(self, view: Situation) -> "Tensor":
        """The probability with which each held position is taken back, independently; shape `(batch, length)`.

        Where more are taken than may be, as many of them as may stay taken, at random.
        """

    @property
    def by_rate(self) -> bool:
        """Whether tokens can choose by themselves to be taken back, for sizes of that kind: it has a `rate`."""
        return False

    def rate(self, view: Situation) -> "Tensor":
        """`σ` of such a rule, shape `(batch, 1)`: masked ones are revealed at a rate of `(α' − (1−σ) α) / (1 − α)`."""
        return view.before.new_zeros(view.before.shape)


class Rewrite(Revision):
    """Gives revealed positions the likeliest token of the same evaluation."""

    @property
    def asks(self) -> Asking:
        return Asking.VISIBLE

    @abstractmethod
    def rewritten(self, view: Situation) -> "Tensor":
        """Booleans, shape `(batch, length)`: held positions that get `view.best`."""


class Redraw(Revision):
    """Hides revealed positions again and draws them anew, in evaluations of its own after the step's."""

    @abstractmethod
    def turns(self, held: int, *, finished: bool) -> list[int]:
        """How many of `held` positions each evaluation hides and draws anew.

        Arguments:
            held: Positions of a sequence revealed so far; those that are redrawn are chosen at random among them.
            finished: Whether nothing of it is masked any more.
        """
