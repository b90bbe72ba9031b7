"""A schedule, in whatever form another program hands it over.

Engines read their settings from strings and files. So a schedule is taken as it is, as the object that
`Schedule.to_json` makes, as the name of a file, or as the words for one (`unmask.words.rules`): 'comb/even:16'.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from unmask import _check as check
from unmask.schedule import Schedule
from unmask.words.inputs import read_schedule
from unmask.words.rules import rules_named

EXAMPLE = "comb/even:16"


def schedule_given(given: object, length: int = check.LONGEST) -> Schedule:
    """The schedule that was asked for.

    Arguments:
        given: A schedule, its JSON object, a file that holds it, or the words for it.
        length: Tokens to fill; words for more steps than that are refused.

    Raises:
        InputError: if it is nothing of the kind, or words for several.

    Example:
        >>> schedule_given("comb/even:16")
        Schedule(size=Even(steps=16), order=Comb(segments=None, shift=None), revision=None)
        >>> schedule_given("fast-dllm")
        Schedule(size=Threshold(threshold=0.9), order=Confidence(), revision=None)
    """
    if isinstance(given, Schedule):
        return given
    if isinstance(given, Mapping):
        return Schedule.from_json(dict(cast("Mapping[str, Any]", given)))
    remedy = f"Give a Schedule, a file that holds one, or words such as '{EXAMPLE}'."
    if not isinstance(given, str | Path) or not str(given):
        raise check.InputError(
            "schedule", "be a schedule", found=check.shown(given), remedy=remedy, empty=given is None
        )
    path = Path(given)
    if isinstance(given, Path) or path.suffix == ".json" or path.is_file():
        if not path.is_file():
            raise check.InputError("schedule", "be the name of an existing file", found=f"'{given}'", remedy=remedy)
        return read_schedule(path)
    try:
        with check.renamed("rule", "schedule"), check.renamed("size", "schedule"), check.renamed("order", "schedule"):
            found = list(rules_named([given], length).values())
    except check.InputError as error:
        if error.kind != "rule":
            raise
        raise check.InputError(
            "schedule", "be the name of a schedule, or a file", found=check.shown(given), remedy=remedy
        ) from None
    if len(found) != 1:
        detail = f"but {check.shown(given)} stands for {len(found)}"
        raise check.InputError("schedule", "be a single schedule", detail=detail, remedy=remedy)
    return found[0]
