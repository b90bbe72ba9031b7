"""Revisions that change tokens: edits and redraws."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.revision.base import Redraw, Rewrite, Situation

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass(frozen=True)
class Edit(Rewrite):
    """Gives a revealed position another token if the model gives that token a probability above a threshold.

    Arguments:
        threshold: The probability.
        afterwards: Steps that may go on editing once nothing is masked; one that changes nothing is the last.

    References:
        LLaDA 2.1, 2026: token-to-token edits; JointThreshold in SGLang.
    """

    threshold: float = 0.9
    afterwards: int = 0

    def __post_init__(self):
        if check.real("threshold", self.threshold, least=0.0) > 1:
            raise check.InputError("threshold", "be a probability between 0 and 1", found=f"{self.threshold:g}")
        check.integer("afterwards", self.afterwards, least=0, most=check.LONGEST)

    @property
    def extra(self) -> int:
        return self.afterwards

    def rewritten(self, view: Situation) -> "Tensor":
        assert view.best is not None
        assert view.best_probability is not None
        return view.held & (view.best != view.tokens) & (view.best_probability > self.threshold)


@final
@dataclass(frozen=True)
class Gibbs(Redraw):
    """Hides random revealed positions and draws them again, given all that is visible.

    One at a time, `X_A` keeps its law if the predictions are the conditionals of one, and neither order nor size looks
    at them; with those that look, once nothing is masked (`finally_only`). A perfect predictor's error is then never
    made larger, and errors of parallel steps before are made smaller. Several at once are cheaper, and do not keep it.

    Arguments:
        count: Positions drawn anew after each step.
        together: How many of them are hidden at once, in one evaluation.
        finally_only: Whether to do so only once nothing is masked any more, and not after every step.

    References:
        Zhao et al., Informed correctors for discrete diffusion models, 2024 (arXiv 2407.21243).
    """

    count: int = 1
    together: int = 1
    finally_only: bool = False

    def __post_init__(self):
        check.integer("count", self.count, least=1, most=check.LONGEST)
        check.integer("together", self.together, least=1, most=check.LONGEST)
        check.instance("finally_only", self.finally_only, bool, "be True or False")

    def turns(self, held: int, *, finished: bool) -> list[int]:
        if self.finally_only and not finished:
            return []
        count = self.count if held else 0
        whole, rest = divmod(count, self.together)
        return [min(each, held) for each in [self.together] * whole + [rest] * (rest > 0)]
