"""One exception for every mistake of a caller, in parts that each surface puts together in its own words.

Python says "Argument 'x' must …, not ….", the command line "--x must …", and the page puts the sentence at the field
`x`. Nobody takes a sentence apart: what a surface needs to know is a part.
"""

import re
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, final

_LETTERS = 160  # of what a user wrote, in a sentence
_CLAUSE = 400  # of a clause about it, which may name a file and say what another package found in it
# Names that begin with the sound of a vowel: an int, an ndarray and an UninitializedParameter, but a UniformMasks, a
# uint8 and a OneLength.
_VOWEL = re.compile("(?!uni(?!ni)|use|uint|ufunc|one)[aeiou]|nd", re.IGNORECASE)
# Other arguments in a sentence. What stands between quotes is what a user wrote, and is left as it is.
_NAME = re.compile(r"(?<!\w)'[^']*'(?!\w)|\{([a-z][a-z_-]*)\}")


@final
class Note(UserWarning):
    """What was given was used, though not as it stands. Python warns of it; the command line prints it on stderr."""

    __module__ = "unmask"


def note(sentence: str) -> None:
    """Warn whoever has called the library, from wherever in it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "unmask":
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, Note, stacklevel=level)


class InputError(ValueError):
    """What was given cannot be used. The one exception of this library for mistakes of its callers.

    `must`, `detail` and `remedy` may speak of other arguments as `{name}`: whoever shows the sentence puts its own word
    for that argument there.

    Attributes:
        argument: The argument at fault; empty if no single one is.
        must: What it must be or do, as in "be at least 1"; without an argument, all there is to say.
        found: What it is instead, as in "0"; empty if that needs no saying.
        detail: More on what was found, a clause such as "but 'a.csv' is empty".
        remedy: The way out, whole sentences.
        choices: The names to choose from, where an unknown one was given.
        kind: What these are names of, whatever the argument is called.
        close: The one of them that was probably meant.
        empty: Whether nothing was given at all.
        cause: The mistake inside the thing that the argument names, which ends the sentence.

    Example:
        >>> error = InputError("steps", "be at most {length}", found="9", remedy="Take fewer.")
        >>> str(error)
        "Argument 'steps' must be at most 'length', not 9. Take fewer."
        >>> error.sentence(lambda name: f"--{name}")
        '--steps must be at most --length, not 9. Take fewer.'
    """

    __module__ = "unmask"  # where users find it, and what a traceback says

    def __init__(
        self,
        argument: str,
        must: str,
        *,
        found: str = "",
        detail: str = "",
        remedy: str = "",
        choices: tuple[str, ...] = (),
        kind: str = "",
        close: str = "",
        empty: bool = False,
        cause: "InputError | None" = None,
    ):
        self.argument, self.must, self.remedy, self.choices = argument, must, remedy, choices
        self.kind, self.close, self.empty, self.cause = kind, close, empty, cause
        self.found, self.detail = clipped(found), clipped(detail, _CLAUSE)
        super().__init__(argument, must)

    def __str__(self) -> str:
        return self.sentence(lambda name: f"'{name}'", lambda name: f"Argument '{name}'")

    def sentence(self, named: Callable[[str], str], subject: Callable[[str], str] | None = None) -> str:
        """The whole sentence.

        Arguments:
            named: The surface's word for an argument.
            subject: The same at the beginning of a sentence; `named` by default.
        """
        begin = f"{(subject or named)(self.argument)} must " if self.argument else ""
        middle = _spoken(self.must, named) + (f", not {self.found}" if self.found else "")
        detail = f", {_spoken(self.detail, named)}" if self.detail else ""
        remedy = f" {_spoken(self.remedy, named)}" if self.remedy else ""
        whole = f"{begin}{middle}{detail}"
        if self.cause is not None:
            whole += f": {self.cause.sentence(named, lambda name: f'its {name}')}"
        return f"{whole}{'' if whole.endswith(('.', '?')) else '.'}{remedy}"

    @property
    def mentions(self) -> list[str]:
        """Other arguments that the sentence speaks of."""
        return [name for name in _NAME.findall(f"{self.must} {self.detail} {self.remedy}") if name]

    def about(self, argument: str) -> "InputError":
        """The same mistake, said of another argument: the one that the caller was given."""
        return self.changed(argument=argument)

    def changed(self, **parts: Any) -> "InputError":
        """The same mistake with some of its parts replaced."""
        kept: dict[str, Any] = {"argument": self.argument, "must": self.must, **self._more()}
        return InputError(**{**kept, **parts})

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker's mistake travels to the process that asked for the work.
        return _rebuilt, (self.argument, self.must, self._more())

    def _more(self) -> dict[str, Any]:
        return {
            "found": self.found, "detail": self.detail, "remedy": self.remedy, "choices": self.choices,
            "kind": self.kind, "close": self.close, "empty": self.empty, "cause": self.cause,
        }  # fmt: skip


def _rebuilt(argument: str, must: str, parts: dict[str, Any]) -> InputError:
    return InputError(argument, must, **parts)


def _spoken(words: str, named: Callable[[str], str]) -> str:
    return _NAME.sub(lambda found: named(found[1]) if found[1] else found[0], words)


def clipped(text: str, most: int = _LETTERS) -> str:
    """The text without its middle if it is long, and without what a terminal would obey.

    Example:
        >>> clipped("a" * 100, 10)
        'aaaa…aaaa'
    """
    text = "".join(letter if letter.isprintable() else "·" for letter in text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def shown(value: object) -> str:
    """What a sentence says of a value that is not what it should be.

    Example:
        >>> shown("a" * 1000), shown(None)
        ("'aaaaaaaaaaaaaaaaaa…aaaaaaaaaaaaaaaaaa'", 'None')
    """
    if isinstance(value, str):
        return f"'{clipped(value, 38)}'"
    try:
        return clipped(repr(value), 80)
    except Exception:  # a stranger's object may fail at anything
        return type_of(value)


def type_of(value: object) -> str:
    """What a sentence says of a value whose contents do not matter.

    Example:
        >>> type_of([]), type_of(1), type_of(None), type_of(list)
        ('a list', 'an int', 'None', 'the class list')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if _VOWEL.match(name) else 'a'} {name}"


@contextmanager
def renamed(theirs: str, mine: str) -> Generator[None]:
    """Let a mistake found further down speak of the argument that the caller was given.

    Example:
        >>> with renamed("path", "model"):
        ...     raise InputError("path", "be the name of a file")
        Traceback (most recent call last):
        unmask.InputError: Argument 'model' must be the name of a file.
    """
    try:
        yield
    except InputError as error:
        raise (error.about(mine) if error.argument == theirs else error) from None


@contextmanager
def blamed(argument: str, must: str, thing: str, *, parts: bool = True) -> Generator[None]:
    """Let whatever is wrong inside something be a mistake of the argument that named it.

    Arguments:
        argument: The argument.
        must: What the thing must be.
        thing: What was named.
        parts: Whether single arguments that a sentence speaks of are parts of the thing, as in a file.

    Example:
        >>> with blamed("model", "be usable", "a.safetensors"):
        ...     raise InputError("", "Weights are not numbers")
        Traceback (most recent call last):
        unmask.InputError: Argument 'model' must be usable, but 'a.safetensors' is not: Weights are not numbers.
    """
    try:
        yield
    except InputError as error:
        if error.argument == argument or (error.argument and not parts):
            raise
        raise InputError(argument, must, detail=f"but '{thing}' is not", cause=error) from None


@contextmanager
def within(argument: str, word: str) -> Generator[None]:
    """Let a mistake in a part of a word, such as the number of `threshold:2`, be one of the argument that holds it.

    Example:
        >>> with within("size", "threshold:2"):
        ...     raise InputError("threshold", "be at most 1", found="2")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        unmask.InputError: Argument 'size' must be valid, but 'threshold:2' is not: its threshold must be ...
    """
    try:
        yield
    except InputError as error:
        if error.argument in ("", argument):
            raise
        raise InputError(argument, "be valid", detail=f"but {shown(word)} is not", cause=error) from None
