"""Slots as people say them: which characters, or words, may stand at which positions of a text.

    3:abc                   an a, a b or a c as the third token
    10-20:0123456789        digits from the tenth to the twentieth
    slots.json              a file: {"3": "abc", "10-20": ["one", "two"]}

Positions count from 1, as the sentences about texts count characters. What follows the colon is one token for each
character where a model has a token for each; where its tokens are longer, words separated by blanks. A list in a file
names tokens one by one.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from unmask import _check as check
from unmask._files import read_text

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models import Model
    from unmask.models.text import Codec
    from unmask.sequences import Sequences

_SAID = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")
_MUST = "be a rule such as 3:abc or 10-20:0123456789, or a .json file of them"


@final
@dataclass(frozen=True)
class Slot:
    """What may stand at some positions that follow each other.

    Attributes:
        first: The first of them, counted from 1.
        last: The last.
        tokens: What may stand there: one text for all tokens together, or one for each.
    """

    first: int
    last: int
    tokens: str | tuple[str, ...]

    @property
    def where(self) -> str:
        """The positions, as they are said."""
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


def slots_said(words: Sequence[str]) -> tuple[Slot, ...]:
    """The slots that a user said, one word or file after the other.

    Raises:
        InputError: if a word is none.

    Example:
        >>> slots_said(["3:abc", "10-20:0123456789"])[1]
        Slot(first=10, last=20, tokens='0123456789')
    """
    found: list[Slot] = []
    for word in words:
        where, colon, tokens = word.partition(":")
        if colon and _SAID.fullmatch(where):
            found.append(_slot(where, tokens))
        elif word.endswith(".json"):
            found += _read(Path(word))
        else:
            raise check.InputError("allow", _MUST, found=check.shown(word))
    return tuple(found)


def to_json(slots: Sequence[Slot]) -> dict[str, Any]:
    """The slots as a file of them has them; of those with the same positions the last, which is the one that counts."""
    found: dict[str, Any] = {}
    for slot in slots:
        found.pop(slot.where, None)  # it counts where it was said last
        found[slot.where] = slot.tokens if isinstance(slot.tokens, str) else list(slot.tokens)
    return found


def constrained(model: "Model", slots: Sequence[Slot], length: int, first: int = 0) -> "Model":
    """The model that gives probability zero to what is not allowed.

    Arguments:
        model: The model.
        slots: What is allowed; a later one takes the place of an earlier one, and elsewhere everything is.
        length: Tokens of a sequence.
        first: The token of a sequence that counts as the first: that of an answer.

    Raises:
        InputError: if a slot is beyond the sequence, or names what is no token of the model.
    """
    from unmask._torch import torch
    from unmask.predict import Allowed

    check.room("allow", length, model.predictor.vocab)
    allowed = torch.ones((length, model.predictor.vocab), dtype=torch.bool)
    for slot in slots:
        if slot.last > length - first:
            raise check.InputError("allow", f"have positions of at most {length - first}", found=slot.where)
        ids = torch.tensor(_ids(model.codec, slot))
        row = torch.zeros(model.predictor.vocab, dtype=torch.bool).index_fill(0, ids, True)
        allowed[first + slot.first - 1 : first + slot.last] = row
    return replace(model, predictor=Allowed(model.predictor, allowed))


def check_allowed(model: "Model", sequences: "Sequences") -> None:
    """Refuse texts that hold, where they are to be scored, what a constrained model does not allow."""
    from unmask._torch import Tensor, plain, torch
    from unmask.predict import Allowed

    predictor = model.predictor
    if not isinstance(predictor, Allowed) or not isinstance(predictor.allowed, Tensor):
        return
    tokens = sequences.tokens
    place = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    wrong = sequences.masked & ~predictor.allowed.to(tokens.device)[place, tokens]
    some: list[list[int]] = plain(torch.nonzero(wrong)[:1])
    if some:
        row, column = some[0]
        piece = check.shown(model.codec.piece(int(tokens[row, column])))
        raise check.InputError(
            "allow",
            "allow the tokens that the texts contain",
            detail=f"but sequence {row + 1} has {piece} at position {column + 1}",
        )


def _slot(where: str, tokens: str | tuple[str, ...]) -> Slot:
    said = _SAID.fullmatch(where)
    if said is None:
        detail = f"but the key {check.shown(where)} is not one"
        raise check.InputError("allow", "be a file in which every key is a position such as 3 or 10-20", detail=detail)
    first, last = int(said[1]), int(said[2] or said[1])
    if not 1 <= first <= last:
        raise check.InputError("allow", "have positions counted from 1, with the lower one first", found=where)
    if not tokens:
        raise _nothing(where)
    if not all(tokens):
        raise check.InputError("allow", "list single tokens of the model", detail=f"but position {where} has ''")
    return Slot(first, last, tokens)


def _nothing(where: str) -> check.InputError:
    return check.InputError("allow", f"allow at least one token at position{'s' if '-' in where else ''} {where}")


def _read(path: Path) -> list[Slot]:
    try:
        read: object = json.loads(read_text(path, "allow"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, check.InputError):
            raise
        read = None
    result: list[Slot] = []
    for where, tokens in cast("dict[str, object]", read).items() if isinstance(read, dict) else [("", None)]:
        if isinstance(tokens, list) and all(isinstance(each, str) for each in cast("list[object]", tokens)):
            tokens = tuple(cast("list[str]", tokens))
        if not isinstance(tokens, str | tuple):
            raise check.InputError(
                "allow",
                'hold an object such as {"3": "abc", "10-20": ["one", "two"]}',
                detail=f"but '{path}' does not",
            )
        result.append(_slot(where, cast("str | tuple[str, ...]", tokens)))
    return result


def _ids(codec: "Codec", slot: Slot) -> list[int]:
    """The tokens of a slot, each of which must be one."""
    from unmask.models.text import Alphabet, Bytes

    pieces = slot.tokens
    if isinstance(pieces, str):
        pieces = tuple(pieces) if isinstance(codec, Alphabet | Bytes) else tuple(pieces.split())
    if not pieces:
        raise _nothing(slot.where)
    ids: list[int] = []
    for piece in pieces:
        with check.renamed("text", "allow"):
            found = codec.encode(piece).tolist()
        if len(found) != 1:
            raise check.InputError(
                "allow", "list single tokens of the model", detail=f"but {check.shown(piece)} is {len(found)} tokens"
            )
        ids += found
    return ids
