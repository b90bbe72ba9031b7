"""The names of revisions."""

from dataclasses import dataclass
from typing import final

from unmask import revision


@final
@dataclass(frozen=True)
class NamedRevision:
    """What the name of a revision stands for.

    Attributes:
        kind: The class. A number after a colon is its first argument.
        sentence: What it is.
        number: What that number is, in words; empty if it has none.
        whole: Whether it is a whole number.
        usual: A number to begin with, where one must be given.
    """

    kind: type[revision.Revision]
    sentence: str
    number: str = ""
    whole: bool = False
    usual: str = ""


REVISIONS: dict[str, NamedRevision] = {
    "cap": NamedRevision(
        revision.Cap, "Takes every token back with at most this probability (ReMDM-cap).", "the probability"
    ),
    "rescale": NamedRevision(
        revision.Rescale, "Takes every token back with this share of the largest possible probability (ReMDM-rescale).",
        "the share",
    ),
    "least-sure": NamedRevision(
        revision.LeastSure, "Takes back tokens that were unlikely when they were drawn (ReMDM-conf)."
    ),
    "loop": NamedRevision(
        revision.Loop, "Adds steps that take tokens back once nine tenths of the text are revealed (ReMDM-loop).",
        "the number of steps to add", True, "16",
    ),
    "planner": NamedRevision(
        revision.Planner, "Ranks old and new tokens together, and keeps the likeliest (P2).", "the weight of old ones"
    ),
    "likeliest": NamedRevision(
        revision.Likeliest, "Draws every token, then keeps the likeliest: LLaDA's remasking at temperatures above 0."
    ),
    "verify": NamedRevision(
        revision.Verify, "Takes back tokens that are unlikely given the others (WINO).",
        "the lowest probability that stays"
    ),
    "edit": NamedRevision(
        revision.Edit, "Changes a token if the model is confident of another (LLaDA 2.1).",
        "the probability above which a token is changed",
    ),
    "gibbs": NamedRevision(
        revision.Gibbs,
        "Redraws some tokens after every step, one at a time. With perfect predictions and a blind schedule, this "
        "never increases the error.",
        "the number of tokens to redraw after a step", True,
    ),
}  # fmt: skip
