"""The words for revisions: a name, and a number after a colon where it takes one."""

from dataclasses import replace

from unmask import _check as check
from unmask.names import REVISIONS
from unmask.order import Confidence
from unmask.revision import Revision, TakeBack
from unmask.schedule import Schedule
from unmask.size.reactive import Reactive
from unmask.words.schedules import order_title

# As the command line offers them: with a number to begin with where one must be given.
REVISION_WORDS = tuple(f"{name}:{entry.usual}" if entry.usual else name for name, entry in REVISIONS.items())


def revision_named(word: str) -> Revision:
    """The revision that a word stands for.

    Example:
        >>> revision_named("gibbs:4"), revision_named("planner")
        (Gibbs(count=4, together=1, finally_only=False), Planner(weight=1.0))
    """
    name, colon, number = word.partition(":")
    entry = REVISIONS[check.known("revision", name, REVISIONS)]
    if not colon:
        if entry.usual:
            raise check.InputError(
                "revision", f"have a number after a colon, {entry.number}", detail=f"but '{word}' has none",
                remedy=f"Try {name}:{entry.usual}.",
            )  # fmt: skip
        return entry.kind()
    if not entry.number:
        raise check.InputError("revision", f"be {name} without a number", found=f"'{word}'")
    try:
        given = int(number) if entry.whole else float(number)
    except ValueError:
        kind = "a whole number" if entry.whole else "a number"
        must, detail = f"have {kind} after the colon, {entry.number}", f"but '{word}' does not"
        raise check.InputError("revision", must, detail=detail) from None
    with check.within("revision", word):
        return entry.kind(given)  # pyright: ignore[reportCallIssue] - every kind with a number takes one first


def check_revision(word: str) -> None:
    """Refuse what stands for no revision."""
    revision_named(word)


def order_for(word: str | None) -> str | None:
    """The order that a revision brings along; None if any will do."""
    made = None if word is None else revision_named(word)
    return "confidence" if isinstance(made, TakeBack) and made.drafts else None


def revised(schedule: Schedule, word: str | None) -> Schedule:
    """The schedule with the revision that a word stands for; as it is without one."""
    if word is None:
        return schedule
    if schedule.revision is not None:
        raise check.InputError("", "The schedule file already has a revision", remedy="Leave out {revise}.")
    made = revision_named(word)
    # What the library says in names of classes.
    if isinstance(schedule.size, Reactive) and made.needs_sizes:
        raise check.InputError(
            "size",
            "not look at predictions with this revision",
            remedy="Only the revisions verify, edit and gibbs work with such a size.",
        )
    drafts = isinstance(made, TakeBack) and made.drafts
    if drafts and schedule.spaced is None and not isinstance(schedule.within, Confidence):
        raise check.InputError(
            "order",
            f"be confidence for the revision {word}",
            found=check.shown(order_title(schedule.order)),
            remedy="This revision ranks positions by the probability of the token drawn for them.",
        )
    return replace(schedule, revision=made)
