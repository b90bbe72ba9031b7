"""Texts as token ids: alphabets, tokenizers, and a memory-mapped store.

An `Alphabet` is a list of characters; byte-level text is the alphabet of all 256 bytes. A `tokenizers` file gives any
other vocabulary. `Store` keeps the ids of a long text in a file and hands out windows of it without reading the rest.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._atomic import replacing
from unmask._errors import note
from unmask._files import check_file, read_text

_TOKENIZER = 256 << 20  # bytes of a tokenizer file; 250,000 tokens take 20 MB
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_NAMED = 40  # characters of an alphabet that a sentence can name
_OTHERS = "Replace or delete such characters, or train a model that reads any text (`unmask train --alphabet bytes`)."
_SMALLER = "Capital letters are converted to lower case, because the model's alphabet has no capitals."


def printable(text: str) -> str:
    """The text as a terminal may be given it: what it would obey rather than show is replaced by "\ufffd".

    That is control characters but line breaks and tabs, halves of characters, and marks that turn the direction of
    what follows. An alphabet is a list of any characters, and a stranger's may hold those.

    Example:
        >>> printable("a\\x1b[2Jb\\n")
        'a\ufffd[2Jb\\n'
    """
    return _OBEYED.sub("\ufffd", text)


class Codec(ABC):
    """Maps text to token ids and back.

    Attributes:
        vocab: Number of tokens.
        end: The token id after which a text is over; `None` where texts have no end.
    """

    vocab: int
    end: int | None = None

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int64]:
        """Token ids of a text."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids."""

    def prompt(self, text: str, mask: int) -> list[int]:
        """Token ids of a text in which `_` stands for a masked token.

        Arguments:
            text: The text.
            mask: The token id to put at masked tokens.
        """
        tokens: list[int] = []
        for part in re.split("(_)", text):
            tokens += [mask] if part == "_" else self.encode(part).tolist()
        return tokens

    def given(self, text: str) -> list[int]:
        """Token ids of a text that is given whole: nothing in it stands for a masked token."""
        return [int(token) for token in self.encode(text)]

    @property
    def chats(self) -> bool:
        """Whether there is a way to write messages that are to be answered."""
        return False

    def chat(self, message: str) -> list[int]:
        """Token ids of a message to be answered, for those models that answer.

        Raises:
            InputError: if this one does not.
        """
        raise check.InputError("model", "have a chat template", detail="but this one has none")

    def piece(self, token: int) -> str:
        """The text of one token among others."""
        return self.decode([token])


@final
@dataclass(frozen=True)
class Alphabet(Codec):
    """One token per character, numbered in the order given.

    A capital that is not in the alphabet is read as its small letter if that is, with a warning.

    Example:
        >>> Alphabet("abc").encode("cab").tolist()
        [2, 0, 1]
    """

    characters: str

    def __post_init__(self):
        if not self.characters or len(set(self.characters)) != len(self.characters):
            raise check.InputError("characters", "be a string of one or more different characters")

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.characters)

    def encode(self, text: str) -> NDArray[np.int64]:
        return self._numbers("text", text, {})

    def prompt(self, text: str, mask: int) -> list[int]:
        return self._numbers("prompt", text, {"_": mask}).tolist()

    def _numbers(self, name: str, text: str, more: dict[str, int]) -> NDArray[np.int64]:
        table = {character: number for number, character in enumerate(self.characters)} | more
        try:
            return _looked_up(table, text)
        except KeyError:
            smaller = {each: each.lower() for each in set(text) - set(table) if each.lower() in table}
            table |= {capital: table[small] for capital, small in smaller.items()}
        try:
            found = _looked_up(table, text)
        except KeyError as error:
            where = text.index(error.args[0])
            named = f" {self.characters!r}" if self.vocab <= _NAMED else ""
            raise check.InputError(
                name,
                f"use only the {self.vocab} characters of the alphabet{named}",
                detail=f"but it has {error.args[0]!r} at character {where + 1}",
                remedy=_OTHERS,
            ) from None
        note(_SMALLER)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.characters[token] for token in tokens)


def _looked_up(table: dict[str, int], text: str) -> NDArray[np.int64]:
    return np.fromiter((table[character] for character in text), dtype=np.int64, count=len(text))


@final
@dataclass(frozen=True)
class Bytes(Codec):
    """One token per byte of UTF-8."""

    vocab: int = 256

    def encode(self, text: str) -> NDArray[np.int64]:
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode(errors="replace")


@final
@dataclass(frozen=True, eq=False)
class Tokenizer(Codec):
    """A tokenizer file of the `tokenizers` library."""

    inner: Any

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Read a tokenizer file."""
        text = read_text(path, "path", most=_TOKENIZER)
        try:
            return cls.of(text)
        except check.InputError:
            raise check.InputError("path", "be a tokenizer file", detail=f"but '{path}' is not") from None

    @classmethod
    def of(cls, text: str) -> "Tokenizer":
        """The tokenizer that the text of such a file describes."""
        try:
            import tokenizers
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'This needs tokenizers, which is not installed. Run: pip install "unmask[torch]" tokenizers'
            ) from None
        try:
            return cls(tokenizers.Tokenizer.from_str(text))
        except Exception as error:  # the library raises nothing more special
            raise check.InputError("text", "describe a tokenizer", detail=f"but it does not: {error}") from None

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return int(self.inner.get_vocab_size())

    def encode(self, text: str) -> NDArray[np.int64]:
        # A text is cut into windows and prompts into parts: marks of its ends belong to neither.
        return np.array(self.inner.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        return self.inner.decode(list(tokens))


@final
@dataclass(frozen=True, eq=False)
class Store:
    """A long sequence of token ids, in memory or mapped from a file; or several, one after the other.

    Attributes:
        tokens: The token ids.
        ends: Where each of several sequences ends: random windows lie within one. None if it is one.

    Example:
        >>> store = Store.of_rows([np.array([0, 1, 2]), np.array([5, 6])], vocab=7)
        >>> np.unique(store.random_windows(2, 100, rng=np.random.default_rng(0)), axis=0).tolist()
        [[0, 1], [1, 2], [5, 6]]
    """

    tokens: NDArray[Any]
    ends: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, text: str, codec: Codec) -> "Store":
        return cls(codec.encode(text).astype(_smallest(codec.vocab)))

    @classmethod
    def of_rows(cls, rows: Sequence[NDArray[Any]], vocab: int) -> "Store":
        """Several sequences of token ids below `vocab`."""
        ends = np.cumsum([row.size for row in rows], dtype=np.int64)
        return cls(np.concatenate([row.astype(_smallest(vocab)) for row in rows]), ends)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as a `.npy` file; it appears complete or not at all."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, self.tokens)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Store":
        """Map a file written by `save`; nothing is read until it is asked for.

        Raises:
            InputError: if the file cannot be read, or is not such a file.
        """
        check_file(path, "path")
        try:
            loaded: Any = np.load(path, mmap_mode="r")
        except (ValueError, OSError, EOFError, SyntaxError):  # whatever a header can be
            raise check.InputError("path", "be a file of tokens", detail=f"but '{path}' is not") from None
        if loaded.ndim != 1 or loaded.dtype.kind != "u":
            found = f"{loaded.dtype} of shape {loaded.shape}"
            raise check.InputError("path", "be a file of tokens", detail=f"but '{path}' holds {found}")
        return cls(loaded)

    def __len__(self) -> int:
        return self.tokens.size

    def windows(self, length: int, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The windows of `length` tokens that begin at `starts`, shape `(count, length)`."""
        return self.tokens[np.asarray(starts)[:, None] + np.arange(length)].astype(np.int64)

    def random_windows(self, length: int, count: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` windows at uniformly random places."""
        self._at_least(length)
        if self.ends is None:
            return self.windows(length, rng.integers(len(self) - length + 1, size=count))
        begins = np.concatenate([[0], self.ends[:-1]])
        up_to = np.cumsum(np.maximum(self.ends - begins - length + 1, 0))  # places in all sequences up to each
        if not up_to[-1]:
            raise check.InputError("text", f"have at least one sequence of {length} tokens")
        place = rng.integers(up_to[-1], size=count)
        row = np.searchsorted(up_to, place, side="right")
        return self.windows(length, self.ends[row] - length - (up_to[row] - 1 - place))

    def even_windows(self, length: int, count: int | None = None) -> NDArray[np.int64]:
        """Disjoint windows spread evenly over the text: as many as asked for, or all."""
        self._at_least(length)
        most = len(self) // length
        count = most if count is None else check.integer("count", count, least=1, most=most)
        return self.windows(length, np.arange(count) * most // count * length)

    def _at_least(self, length: int) -> None:
        if len(self) < length:
            raise check.InputError("text", f"have at least {length} tokens", found=f"{len(self)}")


def _smallest(vocab: int) -> type[np.uint8 | np.uint16 | np.uint32]:
    return np.uint8 if vocab <= 256 else np.uint16 if vocab <= 65536 else np.uint32
