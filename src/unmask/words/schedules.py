"""The words for an order and a size become a schedule.

comb-16          an order with its number
spaced-4/margin  an order that keeps the positions of a step apart, so far at least
threshold:0.9    a size that looks at predictions, with its number
fast-dllm        a rule that was published under a name: its order and its size
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, final

from unmask import _check as check
from unmask import order, size
from unmask.calibration import Calibration, measured_as
from unmask.information.curve import Curve
from unmask.names import ORDERS, RULES, SIZES, NamedOrder, NamedSize, Need, sizes_that_need
from unmask.schedule import Schedule, Within

Family = Callable[[int], size.Blind]

FREE_SIZES = sizes_that_need(Need.STEPS)
CURVE_SIZES = sizes_that_need(Need.CURVE)
BLIND_SIZES = sizes_that_need(Need.STEPS, Need.CURVE)
REACTIVE_SIZES = sizes_that_need(Need.NUMBER)
ORDER_WORDS = tuple(name for name, entry in ORDERS.items() if entry.alone)
# Those that do not look at predictions, and need no number of steps to be what they are.
MEASURABLE = tuple(
    name for name in ORDER_WORDS if issubclass(ORDERS[name].kind, order.BlindOrder) and not ORDERS[name].numbered
)
USUAL_ORDERS = ("random", "spread", "comb-4", "comb-8", "comb-16", "comb-32")  # measured where nobody says which
NUMBERED = re.compile(f"({'|'.join(name for name, entry in ORDERS.items() if entry.numbered)})-([0-9]{{1,18}})")
_NO_HYPHEN = re.compile(NUMBERED.pattern.replace("-([0-9]{1,18})", "[ _:]?([1-9][0-9]{0,17})"), re.IGNORECASE)
# No order is spaced twice. The order inside is never spaced, so that no word, however long, is read in a recursion.
SPACED = re.compile(r"spaced-([0-9]{1,18})/((?!spaced\b).+)", re.DOTALL)
_SPACED_TWICE = re.compile(r"spaced-([0-9]{1,18})/spaced\b.*", re.DOTALL)
_SPACED_ALONE = re.compile("spaced(?:-([0-9]{1,18}))?(?:/|/[a-z-]*)?")  # without the distance, or without the order
NUMBERED_SIZES = tuple(f"{name}:NUMBER" for name in REACTIVE_SIZES)
# What the shell and the page propose: a number is only an example.
SIZE_WORDS = (*BLIND_SIZES, *(f"{name}:{SIZES[name].usual}" for name in REACTIVE_SIZES))


def size_family(name: str, curve: Curve | None = None) -> Family:
    """The size schedule of that name, still without its number of steps.

    Arguments:
        name: One of `BLIND_SIZES`.
        curve: The loss curve, for those that are made for one.
    """
    entry = SIZES[check.known("size", name, BLIND_SIZES)]
    if entry.needs is Need.STEPS:
        return entry.make
    if curve is None:
        raise check.InputError(
            "", f"Size '{name}' needs a loss curve", remedy="Give one with {curve}, or name a {distribution}."
        )
    return lambda steps: entry.make(steps, curve)


def reactive_named(word: str) -> size.Reactive:
    """The size that looks at predictions, with its number: `threshold:0.9`."""
    name, _, value = word.partition(":")
    if name in BLIND_SIZES:
        must = f"be {name} without a number"
        raise check.InputError("size", must, found=check.shown(word), remedy="Give the number of steps with {steps}.")
    with check.within("size", word):
        return SIZES[check.known("size", name, REACTIVE_SIZES)].make(check.spelled(name, value))


def check_size(word: object, names: Iterable[str] = BLIND_SIZES) -> None:
    """Refuse what is neither one of `names` nor a size that looks at predictions, with its number."""
    if isinstance(word, str) and ":" in word:
        reactive_named(word)
    else:
        check.known("size", word, [*names, *NUMBERED_SIZES])


def order_named(word: object) -> Within | order.Spaced:
    """The order of that name; `comb-16` is a comb of 16 segments, and `spaced-4/margin` keeps positions 4 apart."""
    if not isinstance(word, str):
        raise check.InputError("order", "be a name", found=check.shown(word))
    if spaced := SPACED.fullmatch(word):
        with check.within("order", word):
            return order.Spaced(cast(Within, order_named(spaced[2])), int(spaced[1]))
    twice = _SPACED_TWICE.fullmatch(word)
    if begun := twice or _SPACED_ALONE.fullmatch(word):
        number, named = int(begun[1] or 0), word.rpartition("/")[2] if "/" in word else ""
        number = number if 1 <= number <= check.LONGEST else 8
        numbered = NUMBERED.fullmatch(named)
        known = named if named in ORDER_WORDS or (numbered and int(numbered[2])) else "confidence"
        what = "be spaced only once" if twice else "be spaced-DISTANCE/ORDER"
        raise check.InputError("order", what, found=check.shown(word), remedy=f"Try spaced-{number}/{known}.")
    if numbered := NUMBERED.fullmatch(word):
        with check.within("order", word):
            return ORDERS[numbered[1]].make(int(numbered[2]))
    found = ORDERS[check.known("order", word, (*ORDER_WORDS, *_numbered(word)))].make()
    assert isinstance(found, order.BlindOrder | order.ReactiveOrder)
    return found


def _numbered(word: str) -> list[str]:
    """The order with its number that somebody meant who wrote `comb16`."""
    meant = _NO_HYPHEN.fullmatch(word)
    return [f"{meant[1].lower()}-{meant[2]}"] if meant else []


def fits(kind: order.Order, length: int) -> bool:
    """Whether a comb has a token for each of its segments; other orders are at home in any length."""
    if isinstance(kind, order.Spaced):
        return fits(kind.order, length)
    return not isinstance(kind, order.Comb) or kind.segments is None or kind.segments <= length


def check_combs(words: Iterable[str], length: int) -> None:
    """Refuse combs with more segments than there are tokens."""
    for word in words:
        if not fits(order_named(word), length):
            raise check.InputError("order", f"be a comb of at most {length} segments", found=check.shown(word))


def measurable(word: str) -> order.BlindOrder:
    """The order of that name, if it can be measured: it must not look at predictions."""
    if word in ORDER_WORDS and word not in MEASURABLE:
        raise check.InputError(
            "order",
            "be random, spread, halton, left-to-right, dilated, or a comb with a number such as comb-16",
            found=check.shown(word),
        )
    if not NUMBERED.fullmatch(word):
        check.known("order", word, (*MEASURABLE, *(_numbered(word) or ["comb-16"])))
    found = order_named(word)
    assert isinstance(found, order.BlindOrder)
    return found


@final
@dataclass(frozen=True)
class NamedSchedule:
    """A schedule and the words it was asked for with.

    Attributes:
        order: The word for its order.
        size: The word for its size.
        steps: Number of steps; None where predictions decide it.
        schedule: The schedule.
        file: Where it was found, if it comes from a file.
    """

    order: str
    size: str
    steps: int | None
    schedule: Schedule
    file: Path | None = None

    @property
    def title(self) -> str:
        """The schedule in a few words."""
        taken = "" if self.steps is None else f", {self.steps} step{'' if self.steps == 1 else 's'}"
        return f"{self.order} order, {self.size} sizes{taken}"


def build(
    which: str | Within | order.Spaced,
    size_word: str,
    steps: int,
    length: int,
    calibration: Calibration | None = None,
) -> NamedSchedule:
    """The schedule of those words for sequences of `length` tokens.

    Arguments:
        which: The order; or an order itself, where it is nobody's word.
        size_word: The size.
        steps: Number of steps; of no use to sizes that look at predictions.
        length: Number of tokens.
        calibration: For sizes that are made for a measured model.
    """
    ranking = order_named(which) if isinstance(which, str) else which
    order_word = which if isinstance(which, str) else order_title(ranking)
    check_size(size_word)
    if ":" in size_word:
        return NamedSchedule(order_word, size_word, None, Schedule(reactive_named(size_word), ranking))
    check.steps_and_length(steps, length)
    if size_word in FREE_SIZES:
        return NamedSchedule(order_word, size_word, steps, Schedule(SIZES[size_word].make(steps), ranking))
    if calibration is None:
        raise check.InputError(
            "",
            f"Size '{size_word}' needs a measured model",
            remedy="Add {calibration} with a file written by `unmask calibrate`.",
        )
    return NamedSchedule(order_word, size_word, steps, _measured(size_word, ranking, order_word, steps, calibration))


def _measured(size_word: str, ranking: order.Order, order_word: str, steps: int, calibration: Calibration) -> Schedule:
    """The schedule of a size that is made for a measured model."""
    if SIZES[size_word].kind is size.SquareRoot:
        if calibration.curve is None:
            if calibration.random is not None:
                must = f"Size '{size_word}' needs texts that all have the same number of tokens to fill"
                raise check.InputError(
                    "", must, remedy="The texts of {calibration} have different numbers. Use {size} optimal."
                )
            raise _unmeasured(size_word, "random", calibration)
        assert isinstance(ranking, order.BlindOrder | order.ReactiveOrder | order.Spaced)
        return Schedule(size.SquareRoot(steps, calibration.curve), ranking)
    name = measured_as(calibration, ranking, steps)
    if name is None:
        raise _unmeasured(size_word, order_word, calibration)
    return calibration.plan(name, steps).schedule


def _unmeasured(size_word: str, order_word: str, calibration: Calibration) -> check.InputError:
    known = ", ".join(calibration.losses) or "none"
    return check.InputError(
        "", f"Size '{size_word}' needs a calibration of the order '{order_word}', but this one has {known}"
    )


def table(
    orders: list[str], sizes: list[str], steps: list[int], length: int, calibration: Calibration | None
) -> list[NamedSchedule]:
    """All schedules of these orders, sizes and numbers of steps; one row where predictions decide the steps."""
    check_combs(orders, length)
    rows: list[NamedSchedule] = []
    for order_word in orders:
        for size_word in sizes:
            if ":" not in size_word and not steps:
                raise check.InputError("steps", "be given", remedy=f"Size '{size_word}' needs a number of steps.")
            for count in steps if ":" not in size_word else [length]:
                rows.append(build(order_word, size_word, count, length, calibration))
    return rows


def order_title(kind: order.Order) -> str:
    """The word for an order."""
    if isinstance(kind, order.Spaced):
        return f"spaced-{kind.distance}/{order_title(kind.order)}"
    named = _named(ORDERS, kind)
    return f"{named}-{kind.segments}" if isinstance(kind, order.Comb) and kind.segments is not None else named


def described(schedule: Schedule) -> NamedSchedule:
    """A schedule from a file, named as well as words can."""
    steps = schedule.size.steps if isinstance(schedule.size, size.Blind) else None
    name = _named(SIZES, schedule.size)
    if name in REACTIVE_SIZES:  # the word for it has its number
        number = next(value for key, value in schedule.to_json()["size"].items() if key != "name")
        whole = SIZES[name].make(number) == schedule.size  # nothing else was said that no word can say
        name = f"{name}:{number:g}" if whole else name
    return NamedSchedule(order_title(schedule.order), name, steps, schedule)


def _named(table: Mapping[str, NamedSize] | Mapping[str, NamedOrder], thing: object) -> str:
    """The name of a size or an order; that of its class if it has no other."""
    named = [name for name, entry in table.items() if _is_of(entry, thing)]
    # A name that settles more says more: minimax-tc before minimax.
    return max(named, key=lambda name: len(table[name].settled), default=type(thing).__name__.lower())


def _is_of(entry: NamedSize | NamedOrder, thing: object) -> bool:
    return entry.kind is type(thing) and all(getattr(thing, part) is value for part, value in entry.settled.items())


def words_for(
    rule: str | None, schedule: Path | None, order: str | None, size: str | None, steps: int | None
) -> tuple[str | None, str]:
    """The words for order and size, given what was said of a schedule: even where nothing was, and no order."""
    if rule is not None and (order or size or schedule):
        raise check.InputError(
            "", "{rule} sets the order and the size", remedy="Leave out {order}, {size} and {schedule}."
        )
    if schedule is not None and (order or size or steps is not None):
        remedy = "Leave out {order}, {size} and {steps}."
        raise check.InputError("", "{schedule} sets the order, the sizes and the steps", remedy=remedy)
    if rule is not None:
        order, size = RULES[rule].order, RULES[rule].size
    if steps is not None and size is not None and ":" in size:
        raise check.InputError("", f"Size '{size}' chooses the number of steps itself", remedy="Leave out {steps}.")
    if size in CURVE_SIZES:
        advise = "unmask advise --calibration FILE --steps K --save schedule.json"
        remedy = f"Run `{advise}`, and then use {{schedule}} schedule.json."
        raise check.InputError("", f"Size '{size}' needs a measured model", remedy=remedy)
    return order, size or "even"


def check_fits(chosen: Schedule, file: Path, masked: Iterable[int]) -> None:
    """Refuse sizes that were made for another number of tokens, before anything is run.

    Most sizes fit any number of them, and so does what `unmask advise` saves from a calibration; a list of sizes, a
    learned order, or the optimum of a curve does not. Blocks have their own numbers of tokens, of which the sampler
    knows.
    """
    made = None if isinstance(chosen.order, order.Blocks) else _made_for(chosen.size)
    other = next((count for count in masked if count != made), None)
    if made is not None and other is not None:
        raise check.InputError(
            "schedule",
            f"fit the {other} tokens to fill",
            detail=f"but '{file}' was made for {made}",
            remedy=f"Use the {{model}} it was made for, or {{length}} {made}.",
        )


def _made_for(chosen: size.Size) -> int | None:
    """The one number of tokens that sizes are for; None if they fit any."""
    if isinstance(chosen, size.Explicit):
        return sum(chosen.values)
    if isinstance(chosen, size.Optimal | size.SquareRoot):
        return chosen.curve.length
    return chosen.table.shape[0] if isinstance(chosen, size.OptimalTable) else None
