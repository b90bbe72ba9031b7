"""Rows as token ids, and which of them are to be filled.

    prompt and answer     the prompt is given; the answer is to be filled, and so is the model's end token after it,
                          where it has one
    prompt alone          what is written `_`, or as the model's mask token, is to be filled; where nothing is, and of
                          a message, as many tokens after it as the caller says
    text                  all of it is to be filled, but for what is given

Prompt and answer are turned into tokens each on its own, as they are when the answer is not known: a blank between them
belongs to one of the two. A prompt that has its answer is given whole, so that `_` is a character like others there.
Models with a chat template get prompts as messages, in which `_` is one too.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.data.formats import Row

if TYPE_CHECKING:
    from unmask.models.base import Model


@final
@dataclass(frozen=True, eq=False)
class Encoded:
    """A row as a model takes it.

    Attributes:
        tokens: Token ids; the model's mask where nobody knows what is to be filled.
        masked: Booleans, true where a token is to be filled.
        first: The first token to show: that after a message, and 0 otherwise.
    """

    tokens: NDArray[np.int64]
    masked: NDArray[np.bool_]
    first: int = 0


def encode(model: "Model", row: Row, *, answer: int | None = None, chat: bool | None = None) -> Encoded:
    """A row as token ids, however many: whether the model takes so many is for the caller to see.

    Arguments:
        model: The model, whose alphabet or tokenizer is used.
        row: The row.
        answer: Tokens to fill after a prompt that has no answer; `None` where all that is to be filled must be known.
        chat: Whether a prompt is a message, written by the model's chat template; where it has one by default.

    Raises:
        InputError: if the row has what the model does not know, nothing to fill, or no answer where one is needed; or
            a message is wanted of a model that takes none.

    Example:
        >>> import unmask
        >>> found = encode(unmask.load("builtin"), Row("a.jsonl", 1, prompt="ab", answer="c"))
        >>> found.tokens.tolist(), found.masked.tolist()
        ([0, 1, 2], [False, False, True])
    """
    check.instance("row", row, Row, "be a Row")
    if answer is not None:
        answer = check.integer("answer", answer, least=1, most=model.length)
    if row.text is not None:
        return _of_text(model, row)
    if row.prompt is None:
        raise _bad(row, "have a prompt or a text in each row", "has neither")
    talks = model.codec.chats if chat is None else chat
    if row.answer is None:
        return _open(model, row, answer, talks)
    with _naming(row, "prompt"):
        given = model.codec.chat(row.prompt) if talks else model.codec.given(row.prompt)
    end = [] if model.codec.end is None else [model.codec.end]
    filled = [*_encoded(model, row, "answer", row.answer), *end]
    tokens = np.array([*given, *filled], dtype=np.int64)
    return _checked(model, row, Encoded(tokens, np.arange(tokens.size) >= len(given), len(given) if talks else 0))


def _of_text(model: "Model", row: Row) -> Encoded:
    text = cast(str, row.text)
    tokens = _encoded(model, row, "text", text)
    masked = np.ones(tokens.size, dtype=np.bool_)
    if isinstance(row.given, str):
        mask = model.predictor.mask
        with _naming(row, "text with gaps"):
            shown = np.array(model.codec.prompt(row.given, mask), dtype=np.int64)
        if shown.size != tokens.size:
            must = "have the same number of tokens in a text and in its version with gaps"
            raise _bad(row, must, f"has {tokens.size} and {shown.size}")
        masked = shown == mask
        if np.any(other := (shown != tokens) & ~masked):
            must = "have the same tokens in a text and in its version with gaps, except at the gaps"
            raise _bad(row, must, f"has {_piece(model, shown[other][0])} instead of {_piece(model, tokens[other][0])}")
    elif row.given is not None:
        with _naming(row, "given position"):  # positions from 0 on, each once
            masked[check.positions("given", sorted(set(row.given)), tokens.size)] = False
    return _checked(model, row, Encoded(tokens, masked))


def _open(model: "Model", row: Row, answer: int | None, talks: bool) -> Encoded:
    """A prompt that nobody knows the answer to."""
    if answer is None:
        raise _bad(row, "have an answer to each prompt", "has none")
    mask, prompt = model.predictor.mask, cast(str, row.prompt)
    with _naming(row, "prompt"):
        found = model.codec.chat(prompt) if talks else model.codec.prompt(prompt, mask)
    if talks or mask not in found:
        tokens = np.array([*found, *[mask] * answer], dtype=np.int64)
        masked = np.arange(tokens.size) >= len(found)
    else:
        tokens = np.array(found, dtype=np.int64)
        masked = tokens == mask
    return _checked(model, row, Encoded(tokens, masked, len(found) if talks else 0))


def _encoded(model: "Model", row: Row, part: str, text: str) -> NDArray[np.int64]:
    with _naming(row, part):
        return np.asarray(model.codec.encode(text), dtype=np.int64).reshape(-1)


def _checked(model: "Model", row: Row, found: Encoded) -> Encoded:
    if not found.masked.any():
        raise _bad(row, "have at least one token to fill in each row", "has none")
    known = found.tokens[found.tokens != model.predictor.mask]
    if known.size and not (known.min() >= 0 and known.max() < model.predictor.vocab):
        raise _bad(row, f"contain only the {model.predictor.vocab} tokens of the model", "has others")
    return found


def _piece(model: "Model", token: Any) -> str:
    return check.shown(model.codec.piece(int(token)))


@contextmanager
def _naming(row: Row, part: str) -> Generator[None]:
    """Let what a codec refuses be a mistake of a row."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:  # a codec of one's own need not know our exception
        if isinstance(error, check.InputError) and error.argument == "model":
            raise
        known = isinstance(error, check.InputError)
        cause = error.about(part) if known else check.InputError(part, "contain only what the model can encode")
        raise _bad(row, "fit the model", "does not").changed(cause=cause) from None


def _bad(row: Row, must: str, why: str) -> check.InputError:
    return check.InputError("data", must, detail=f"but {row.where} {why}")
