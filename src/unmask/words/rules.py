"""The words for rules that are to be measured: each stands for one schedule, or for a rule at a few settings.

confidence/threshold:0.9               an order and a size that looks at predictions, with its number
confidence/even:16                     an order and a size with its number of steps
confidence/even                        the same at 4, 8, 16 and 32 steps
blocks-32/confidence/threshold:0.9     the same in one block of 32 tokens after the other, from the first masked one on;
                                       steps are those of a block
blocks-32/confidence/even              the same at 2, 4, 8 and 16 steps a block, fewer than it has tokens
blocks-32                              inside blocks whole combs, spread, random and margin order in as many steps, and
                                       left to right one by one
whole-blocks-32/comb/even:8            likewise, with blocks from the beginning of the text, as block-causal models have
confidence                             an order that looks at predictions: even sizes, and thresholds 0.5, 0.7 and 0.9
entropy-bound                          entropy bounds of 0.1, 0.5, 1 and 2 nats
fast-dllm                              a rule that was published under a name
all                                    a small set of all kinds
planned                                schedules that look at nothing: whole combs with 4, 8, 16, … steps, left to right
                                       one by one, and random order with 16 and 64 steps and one by one
"""

import re
from collections.abc import Iterable

from unmask import _check as check
from unmask import order
from unmask.names import ORDERS, RULES, SIZES
from unmask.schedule import Schedule
from unmask.words.schedules import FREE_SIZES, fits, order_named, reactive_named

STEPS = (4, 8, 16, 32)
PLANNED = "planned"  # what is measured of a model that remembers, where nobody says
_THRESHOLDS = ("threshold:0.5", "threshold:0.7", "threshold:0.9")
_BOUNDS = ("0.1", "0.5", "1", "2")
_STEPS_INSIDE = (2, 4, 8, 16)  # of a block
_INSIDE = ("whole-comb", "spread", "random", "margin")
_REACTIVE = tuple(name for name, entry in ORDERS.items() if entry.alone and issubclass(entry.kind, order.ReactiveOrder))
_EXAMPLES = ("confidence/threshold:0.9", "confidence/even:16", "blocks-32/confidence/threshold:0.9")
# What the shell proposes, and a sentence about a wrong one.
RULE_WORDS = ("all", PLANNED, *_REACTIVE, "entropy-bound", *RULES, "blocks-32", *_EXAMPLES)
_ALL = (
    *(f"confidence/{each}" for each in ("even:8", "even:16", "even:32", *_THRESHOLDS)),
    "margin/even:16",
    "entropy/even:16",
    *(f"entropy/entropy-bound:{each}" for each in _BOUNDS[1:]),
    "spread/entropy-bound:1",
)
_BLOCKS = re.compile("(?P<whole>whole-)?blocks-(?P<length>[0-9]{1,18})(?:/(?P<order>.*))?", re.DOTALL)


def rules_named(words: Iterable[str], length: int) -> dict[str, Schedule]:
    """The schedules that words stand for, each under the word for it alone.

    Arguments:
        words: The words.
        length: Number of tokens. Where a word leaves the number of steps open, those that do not fit are left out.

    Example:
        >>> list(rules_named(["fast-dllm", "margin/even"], 8))
        ['confidence/threshold:0.9', 'margin/even:4', 'margin/even:8']
        >>> list(rules_named(["blocks-4"], 8))[-2:]
        ['blocks-4/margin/even:2', 'blocks-4/left-to-right/even:4']
    """
    names = (name for word in words for name in _spelled_out(word, length))
    return {name: _schedule(name, length) for name in dict.fromkeys(names)}


def check_rule(word: str) -> None:
    """Refuse what stands for no rule, of whatever length."""
    rules_named([word], check.LONGEST)


def _spelled_out(word: str, length: int) -> list[str]:
    """The words for a single schedule that a word stands for."""
    if word == "all":
        return [name for name in _ALL if _fits(name, length)]
    if word == PLANNED:
        combs = [f"whole-comb/even:{1 << power}" for power in range(2, length.bit_length()) if 1 << power < length]
        random = [f"random/even:{steps}" for steps in (16, 64) if steps < length]
        return [*combs, f"left-to-right/even:{length}", *random, f"random/even:{length}"]
    if word in RULES:
        word = f"{RULES[word].order}/{RULES[word].size}"
    elif word in _REACTIVE:
        return [*_spelled_out(f"{word}/even", length), *(f"{word}/{each}" for each in _THRESHOLDS)]
    elif word == "entropy-bound":
        return [f"entropy/entropy-bound:{each}" for each in _BOUNDS]
    elif (blocks := _BLOCKS.fullmatch(word)) and blocks["order"] is None:
        inside = [name for each in _INSIDE for name in _spelled_out(f"{word}/{each}/even", length)]
        # One by one is what all are compared with; it is the same in blocks of any length.
        longest = _longest(blocks["length"], length)
        return list(dict.fromkeys([*inside, f"{word}/left-to-right/even:{longest}"]))
    before, slash, size = word.rpartition("/")
    if not slash:
        check.known("rule", word, RULE_WORDS)
    if ":" in size:
        return [word]
    check.known("size", size, FREE_SIZES)
    if blocks := _BLOCKS.fullmatch(before):
        longest = _longest(blocks["length"], length)
        inside = [steps for steps in _STEPS_INSIDE if steps < longest] or [longest]
        return [f"{before}/{size}:{steps}" for steps in inside]
    return [f"{before}/{size}:{steps}" for steps in STEPS if steps <= length] or [f"{before}/{size}:{length}"]


def _longest(blocks: str, length: int) -> int:
    """Tokens of the longest block: a text may be shorter than a block is long."""
    return max(1, min(int(blocks), length))


def _fits(name: str, length: int) -> bool:
    _, _, number = name.partition("/even:")
    return not number or int(number) <= length


def _schedule(name: str, length: int) -> Schedule:
    before, _, size_word = name.rpartition("/")
    blocks = _BLOCKS.fullmatch(before)
    with check.within("rule", name):
        ranking = order_named((blocks["order"] or "") if blocks else before)
        if not fits(ranking, length):
            raise check.InputError("order", f"be a comb of at most {length} segments", found=check.shown(before))
        kind, _, number = size_word.partition(":")
        if kind in FREE_SIZES:
            steps = int(number) if re.fullmatch("[0-9]{1,18}", number) else number
            steps, _ = check.steps_and_length(steps, length)
            sizes = SIZES[kind].make(steps)
        else:
            sizes = reactive_named(size_word)
        start = 0 if blocks and blocks["whole"] else None  # whole blocks are those of the text, whatever is given of it
        return Schedule(sizes, order.Blocks(ranking, int(blocks["length"]), start) if blocks else ranking)


def inside_blocks(length: int, *, whole: bool = False) -> str:
    """The word for what is usually wanted inside blocks of a length.

    Arguments:
        length: Tokens of a block.
        whole: Whether blocks are counted from the beginning of the text, and not from the first masked position.

    Raises:
        InputError: if there are no such blocks.

    Example:
        >>> inside_blocks(32), inside_blocks(32, whole=True)
        ('blocks-32', 'whole-blocks-32')
    """
    return f"{'whole-' if whole else ''}blocks-{check.integer('blocks', length, least=1, most=check.LONGEST)}"


def order_and_size(name: str, schedule: Schedule) -> tuple[str, str]:
    """The words for the order and the size of a measured rule.

    Arguments:
        name: The name it was measured under.
        schedule: What it is, where the name does not say.

    Example:
        >>> rule = Schedule(reactive_named("threshold:0.9"), order.Confidence())
        >>> order_and_size("blocks-32/confidence/threshold:0.9", rule), order_and_size("mine", rule)
        (('blocks-32/confidence', 'threshold:0.9'), ('mine', 'threshold'))
    """
    before, slash, after = name.rpartition("/")
    return (before, after) if slash else (name, type(schedule.size).__name__.lower())
