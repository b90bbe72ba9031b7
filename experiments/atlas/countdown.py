"""Countdown: four numbers and a target; write an expression that uses each number once and has the target's value.

The task is that of `reasoning-gym`'s "countdown" with four numbers from 1 to 50 and targets from 100 to 999; its own
generator makes about a hundred rows a second, so that ours takes its place. A text is

    44,15,30,49:679=44*15+49-30$$$$$

with the prompt up to the equals sign, each number in two digits and the target in three, and then the answer, filled
up with end tokens `$`. Answers are written in a normal form: in a sum the added terms come first and the larger ones
before the smaller, in a product the factors come before the divisors, brackets only where they are needed. No division
leaves a remainder. Four numbers, whatever their order, and a target occur once in all splits together.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

LETTERS = "0123456789+-*/(),:=$"
PROMPT, ANSWER = 16, 16  # characters
NUMBERS, TARGETS = (1, 50), (100, 999)
SEED = 50


@final
@dataclass(frozen=True)
class Node:
    """A part of an expression in normal form: a number, a product or a sum.

    Attributes:
        value: Its value.
        level: 0 for a number, 1 for a product, 2 for a sum; a part of one has another level.
        direct: Parts that are added or multiplied.
        inverse: Parts that are subtracted or divided by.
    """

    value: int
    level: int = 0
    direct: tuple["Node", ...] = ()
    inverse: tuple["Node", ...] = ()

    def __str__(self) -> str:
        if self.level == 0:
            return str(self.value)
        join, less = ("*", "/") if self.level == 1 else ("+", "-")
        direct, inverse = (
            sorted(
                ((part.value, f"({part})" if part.level > self.level else f"{part}") for part in parts), reverse=True
            )
            for parts in (self.direct, self.inverse)
        )
        return join.join(text for _, text in direct) + "".join(less + text for _, text in inverse)

    def joined(self, other: "Node", level: int, value: int, *, inverse: bool) -> "Node":
        """The sum or product of two parts, or their difference or quotient."""
        ups, downs = (other.direct, other.inverse) if other.level == level else ((other,), ())
        if inverse:
            ups, downs = downs, ups
        own, less = (self.direct, self.inverse) if self.level == level else ((self,), ())
        return Node(value, level, own + ups, less + downs)


def combined(left: Node, right: Node, operation: int) -> Node | None:
    """Two parts made one, with a whole number above 0 as its value; None if there is none.

    Arguments:
        left, right: The parts; the larger is the one to subtract from or to divide.
        operation: 0 to add, 1 to subtract, 2 to multiply, 3 to divide.
    """
    if left.value < right.value:
        left, right = right, left
    if operation == 0:
        return left.joined(right, 2, left.value + right.value, inverse=False)
    if operation == 2:
        return left.joined(right, 1, left.value * right.value, inverse=False)
    if operation == 1:
        return None if left.value == right.value else left.joined(right, 2, left.value - right.value, inverse=True)
    return None if left.value % right.value else left.joined(right, 1, left.value // right.value, inverse=True)


def expression(numbers: Sequence[int], rng: random.Random) -> Node | None:
    """A random expression of all the numbers; None if a difference is 0 or a division leaves a remainder."""
    parts = [Node(number) for number in numbers]
    while len(parts) > 1:
        rng.shuffle(parts)
        made = combined(parts.pop(), parts.pop(), rng.randrange(4))
        if made is None:
            return None
        parts.append(made)
    return parts[0]


def written(numbers: Sequence[int], target: int, answer: str) -> str:
    """The text of a task and its answer."""
    prompt = ",".join(f"{number:02}" for number in numbers) + f":{target:03}="
    return prompt + answer.ljust(ANSWER, "$")


def tasks(count: int, seed: int) -> list[str]:
    """So many texts; no two have the same numbers and target."""
    rng = random.Random(seed)
    seen: set[tuple[int, ...]] = set()
    found: list[str] = []
    while len(found) < count:
        numbers = [rng.randint(*NUMBERS) for _ in range(4)]
        made = expression(numbers, rng)
        if made is None or not TARGETS[0] <= made.value <= TARGETS[1]:
            continue
        key = (made.value, *sorted(numbers))
        if key not in seen:
            seen.add(key)
            found.append(written(numbers, made.value, str(made)))
    return found


@final
class Reader:
    """Reads an expression of whole numbers, + - * / and brackets, and nothing else.

    Attributes:
        numbers: Those that were read.
    """

    def __init__(self, text: str) -> None:
        self.numbers: list[int] = []
        self._text = text
        self._place = 0

    def value(self) -> int:
        """The value of the whole text.

        Raises:
            ValueError: if it is not an expression, or a division leaves a remainder.
        """
        value = self._sum()
        if self._next():
            raise ValueError("more than an expression")
        return value

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _taken(self, wanted: str) -> str:
        """The next character if it is one of those; otherwise nothing."""
        found = self._next()
        if not found or found not in wanted:
            return ""
        self._place += 1
        return found

    def _sum(self) -> int:
        total = self._product()
        while sign := self._taken("+-"):
            part = self._product()
            total += part if sign == "+" else -part
        return total

    def _product(self) -> int:
        total = self._part()
        while sign := self._taken("*/"):
            part = self._part()
            if sign == "*":
                total *= part
            elif part == 0 or total % part:
                raise ValueError("a division that leaves a remainder")
            else:
                total //= part
        return total

    def _part(self) -> int:
        if self._taken("("):
            value = self._sum()
            if not self._taken(")"):
                raise ValueError("a bracket that is not closed")
            return value
        digits = ""
        while digit := self._taken("0123456789"):
            digits += digit
        if not digits or (digits[0] == "0" and len(digits) > 1):
            raise ValueError("no number")
        self.numbers.append(int(digits))
        return self.numbers[-1]


def right(text: str) -> bool:
    """Whether the answer of a text is one: any expression of all the numbers that has the value of the target.

    The answer ends before the first end token; whatever follows that is not looked at.
    """
    numbers, target = text[: PROMPT - 1].split(":")
    reader = Reader(text[PROMPT:].split("$")[0])
    try:
        value = reader.value()
    except ValueError:
        return False
    return value == int(target) and sorted(reader.numbers) == sorted(map(int, numbers.split(",")))


@final
class Countdown(Kind):
    name = "countdown"
    title = KINDS[name].title
    length = PROMPT + ANSWER
    vocab = len(LETTERS)
    tested = 1024
    judged = ("right",)
    seconds = 50
    answers = 500_000  # training texts

    def make(self, folder: Path, shared: Path | None) -> None:
        def texts() -> NDArray[np.uint8]:
            joined = "".join(tasks(self.answers + 2 * self.rows, SEED)).encode()
            table = np.zeros(256, dtype=np.uint8)
            table[np.frombuffer(LETTERS.encode(), dtype=np.uint8)] = np.arange(len(LETTERS))
            return table[np.frombuffer(joined, dtype=np.uint8)].reshape(-1, self.length)

        files.keep(folder, "texts", texts)

    def read(self, folder: Path) -> Data:
        train, *others = np.split(files.load(folder, "texts"), (self.answers, self.answers + self.rows))
        valid, test = (Rows(part.astype(np.int64), ~self.visible(len(part))) for part in others)
        return Data(train, valid, test)

    def visible(self, count: int, *, rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """The prompt, always."""
        return np.tile(np.arange(self.length) < PROMPT, (count, 1))

    def alphabet(self, folder: Path) -> dict[str, str]:
        return {"alphabet": LETTERS}

    def text(self, tokens: NDArray[np.int64]) -> str:
        return "".join(LETTERS[token] for token in tokens)

    def scores(self, tokens: NDArray[np.int64], rows: Rows) -> Mapping[str, NDArray[np.float64]]:
        """Whether the answer is right; the prompt is that of the rows, whatever was written over it."""
        texts = (self.text(each) for each in np.where(rows.hidden, tokens, rows.tokens))
        return {"right": np.array([right(text) for text in texts], dtype=np.float64)}
