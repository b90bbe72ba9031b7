"""Revision: which tokens are taken back after they have been revealed.

A third object of a schedule, beside how many (`unmask.size`) and which (`unmask.order`). Three kinds:

    TakeBack    a step returns some revealed positions to the mask, and reveals as many more of the others
        Cap             each with a probability of at most a given one                      ReMDM-cap
        Rescale         each with a share of the largest possible probability               ReMDM-rescale
        LeastSure       each by how unlikely its token was when it was drawn                ReMDM-conf
        Loop            for some steps in the middle, while the number revealed stands      ReMDM-loop
        Planner         all but the likeliest, old and new ranked together                  P2
        Likeliest       nothing; but tokens are drawn first, and the likeliest stay         LLaDA, MaskGIT
        Verify          those that the others make unlikely                                 WINO
    Rewrite     a step gives some revealed positions another token
        Edit            where the model is sure of another one                              LLaDA 2.1
    Redraw      positions are hidden again and drawn anew, in evaluations of their own
        Gibbs           some at random: keeps the law of the model

Given tokens, such as a prompt, are never touched. How many tokens stand after a step, and so the number of steps, is
what the size says: a step that takes five back reveals five more than it would have.

**A text then has no exact likelihood.** Several paths lead to it, and `unmask.evaluate.replay` refuses such a schedule.
What these rules do to the law is enumerated by `unmask.evaluate.revised_law`, for distributions that are small enough.
"""

from unmask.revision.base import Asking, Redraw, Revision, Rewrite, Situation, TakeBack
from unmask.revision.redraw import Edit, Gibbs
from unmask.revision.remdm import Cap, LeastSure, Loop, Rescale
from unmask.revision.scored import Likeliest, Planner, Verify

__all__ = [
    "Asking",
    "Cap",
    "Edit",
    "Gibbs",
    "LeastSure",
    "Likeliest",
    "Loop",
    "Planner",
    "Redraw",
    "Rescale",
    "Revision",
    "Rewrite",
    "Situation",
    "TakeBack",
    "Verify",
]
