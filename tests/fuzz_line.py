"""A command line in parts, and the slips of a hand that types one."""

import random
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuzz_values import STRINGS, UNKNOWN


@dataclass(frozen=True)
class Line:
    """A command line.

    Arguments:
        command: Its first word; may be empty.
        parts: The others, those together that belong together.
        plain: Whether every option has the value that was meant for it.
        complete: The shell that asks how the last word could go on, if one does.
    """

    command: str
    parts: tuple[tuple[str, ...], ...]
    plain: bool = True
    complete: str = ""

    @property
    def words(self) -> list[str]:
        return ([self.command] if self.command else []) + [word for part in self.parts for word in part]

    @property
    def json(self) -> bool:
        """Whether the answer must be JSON."""
        return self.plain and not self.complete and ("--json",) in self.parts and ("--help",) not in self.parts

    def without(self, number: int) -> "Line":
        return replace(self, parts=self.parts[:number] + self.parts[number + 1 :])

    def __str__(self) -> str:
        words = [word if len(word) <= 60 else f"{word[:20]}…{len(word)} letters…{word[-10:]}" for word in self.words]
        shown = " ".join(shlex.quote(word) if word.isprintable() else f"$'{_escaped(word)}'" for word in words)
        return f"[{self.complete} asks] unmask {shown}" if self.complete else f"unmask {shown}"


def _escaped(word: str) -> str:
    return word.encode("unicode_escape", "surrogatepass").decode().replace("'", "\\'")


def typo(word: str, rng: random.Random) -> str:
    if not word:
        return "x"
    place = rng.randrange(len(word))
    changes = (
        word[:place] + word[place + 1 :],
        word[:place] + "q" + word[place:],
        word.upper(),
        word + "s",
        word[: place + 1],
        f" {word}",
        f"{word}\n",
    )
    return rng.choice(changes)


def bent(line: Line, rng: random.Random) -> Line:
    """The same line with a slip of the hand."""
    parts = list(line.parts)
    if not parts:
        return replace(line, parts=((rng.choice(STRINGS),),), plain=False)
    place = rng.randrange(len(parts))
    part, before, after = parts[place], parts[:place], parts[place + 1 :]
    first, *rest = part
    other = rng.choice(STRINGS)

    def slips() -> Iterator[list[tuple[str, ...]]]:
        yield [*before, (first,), *after]  # the value is missing
        yield [*parts, part]  # twice
        yield [*parts, (first, other) if rest else part, part]
        yield [*parts, (rng.choice(UNKNOWN),)]
        yield [*before, (typo(first, rng), *rest), *after]
        yield [*before, (first[: rng.randrange(3, 8)], *rest), *after]  # the beginning of a name
        yield [*before, ("=".join(part),), *after]
        yield [*before, (f"{first}=",), *after]
        yield [*before, ("--",), part, *after]
        yield [*before, (other,), part, *after]  # a word too many
        yield [*before, (*rest, first), *after]
        yield [*parts, ("--help",)]

    return replace(line, parts=tuple(rng.choice(list(slips()))), plain=False)
