"""The tokenizers of Hugging Face as codecs.

Ordinary text never becomes a special token: what the tokenizer would read as one, or does not know, is refused. A
prompt may hold special tokens, and its masked tokens are written in one of two ways:

    the cat [MASK] on     the tokenizer's own mask token; then `_` is an ordinary character
    the cat _ on          otherwise each `_` is one masked token, with the blanks of the mask token
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask.models.text import Codec


def first_sentence(error: BaseException) -> str:
    """The first sentence of an error of another library."""
    words = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[\w')\"])[.!?](?:\s|$)", words)[0]


@final
@dataclass(frozen=True, eq=False)
class Pretrained(Codec):
    """A tokenizer of transformers.

    Arguments:
        inner: The tokenizer.
        vocab: Number of tokens of the model.
        mask: The token id that stands at masked positions.
        end: The token id after which a text is over; `None` if there is none.
        before: Token ids that stand before every sequence, so that a chat template need not repeat them.
    """

    inner: Any
    vocab: int
    mask: int
    end: int | None = None
    before: Sequence[int] = ()

    def encode(self, text: str) -> NDArray[np.int64]:
        tokens = self._ids(text)
        special = {*self.inner.all_special_ids, self.mask}
        where = next((place for place, token in enumerate(tokens) if token in special or token >= self.vocab), None)
        if where is not None:
            raise check.InputError(
                "text", "contain only ordinary tokens of the model", detail=f"but it has {self._seen(text, where)}"
            )
        return np.array(tokens, dtype=np.int64)

    def prompt(self, text: str, mask: int) -> list[int]:
        text = text if self.word in text else text.replace("_", self.word)
        tokens = self._ids(text)
        if self.inner.unk_token_id in tokens:
            seen = self._seen(text, tokens.index(self.inner.unk_token_id))
            raise check.InputError("prompt", "contain only tokens of the model", detail=f"but it has {seen}")
        return tokens

    def given(self, text: str) -> list[int]:
        tokens = self._ids(text)
        self._check_given(text, tokens)
        return tokens

    @property
    def chats(self) -> bool:
        return bool(getattr(self.inner, "chat_template", None))

    def chat(self, message: str) -> list[int]:
        if not self.chats:
            return super().chat(message)
        turns = [{"role": "user", "content": message}]
        try:
            written = self.inner.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # a template is a program, and can fail at anything
            raise check.InputError(
                "model", "have a chat template that works", detail=f"but this one fails: {first_sentence(error)}"
            ) from None
        tokens = self._ids(written)
        self._check_given(message, self._ids(message))
        first = list(self.before)
        return tokens[len(first) :] if tokens[: len(first)] == first else tokens

    def decode(self, tokens: Sequence[int]) -> str:
        tokens = list(tokens)
        if self.end is not None:
            # After its end a text is filled up with more ends, and what else is special is not part of it.
            tokens = tokens[: tokens.index(self.end)] if self.end in tokens else tokens
            return self.inner.decode(tokens, skip_special_tokens=True)
        return self.inner.decode(tokens)

    def piece(self, token: int) -> str:
        raw, text = str(self.inner.convert_ids_to_tokens(token)), self.inner.decode([token])
        if raw.startswith("##"):
            return raw[2:]
        begins = raw.startswith(("▁", "Ġ")) or self._continues
        return f" {text.strip()}" if begins else text

    @cached_property
    def _continues(self) -> bool:
        """Whether tokens that continue a word are marked by '##', so that all others begin one."""
        return any(word.startswith("##") for word in self.inner.get_vocab())

    @property
    def word(self) -> str:
        """The text of the mask token."""
        return str(self.inner.convert_ids_to_tokens(self.mask))

    def _ids(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _check_given(self, text: str, tokens: list[int]) -> None:
        # Special tokens of a prompt are meant; the mask token would have to be filled.
        bad = {self.mask, self.inner.unk_token_id}
        where = next((place for place, token in enumerate(tokens) if token in bad or token >= self.vocab), None)
        if where is not None:
            must, seen = "contain only tokens of the model other than its mask token", self._seen(text, where)
            raise check.InputError("prompt", must, detail=f"but it has {seen}")

    def _seen(self, text: str, where: int) -> str:
        """What stands at a token that is not an ordinary one."""
        if not self.inner.is_fast:
            return f"'{self.inner.convert_ids_to_tokens(self._ids(text)[where])}' at token {where}"
        found = self.inner(text, add_special_tokens=False, verbose=False, return_offsets_mapping=True)
        first, last = found["offset_mapping"][where]
        return f"{text[first:last][:40]!r} at character {first + 1}"
