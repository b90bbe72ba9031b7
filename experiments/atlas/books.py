"""English books in the public domain, in 4,096 word pieces.

The pieces are learned from the training books by byte-pair encoding over bytes (the library `tokenizers`), so that
every text has one encoding that gives it back exactly. Line breaks are kept: each paragraph is one line. No book is in
two splits.
"""

import json
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

from unmask import InputError
from unmask._atomic import replacing

SPLITS = ("train", "valid", "test")
TOKENIZER, ABOUT = "tokenizer.json", "about.json"
ASCII = "\n" + "".join(map(chr, range(32, 127)))


def lines(path: Path) -> Iterator[str]:
    """The lines of a text, each with its end."""
    with lzma.open(path, "rt", encoding="ascii", newline="\n") as file:
        yield from file


def library() -> Any:
    """The library `tokenizers`."""
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "This needs tokenizers, which is not installed. Run: pip install tokenizers"
        ) from None
    return tokenizers


def learned(path: Path, vocab: int) -> Any:
    """A tokenizer of `vocab` pieces for a text."""
    parts = library()
    tokenizer = parts.Tokenizer(parts.models.BPE())
    tokenizer.pre_tokenizer = parts.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = parts.decoders.ByteLevel()
    # The texts are ASCII. Single characters are pieces even where the training books lack them.
    letters = [_shown(character) for character in ASCII]
    trainer = parts.trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(lines(path), trainer)
    return tokenizer


def _shown(character: str) -> str:
    """The letter that stands for a byte of ASCII inside a piece: its own, or one that is moved out of the way."""
    return character if character > " " else chr(256 + ord(character))


def _meant(letter: str) -> str:
    return letter if letter < "\u0100" else chr(ord(letter) - 256)


def encoded(path: Path, tokenizer: Any) -> NDArray[np.uint16]:
    """The numbers of the pieces of a text, line by line."""
    parts: list[NDArray[np.uint16]] = []
    every = lines(path)
    while batch := list(islice(every, 20_000)):
        found = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        parts += [np.array(line.ids, dtype=np.uint16) for line in found]
    return np.concatenate(parts)


@final
class Books(Kind):
    name = "books"
    title = KINDS[name].title
    length = 256
    vocab = 4096
    seconds = 80

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def make(self, folder: Path, shared: Path | None) -> None:
        path = folder / TOKENIZER
        if not path.exists():
            print(f"{TOKENIZER}: learning {self.vocab} pieces", flush=True)
            tokenizer = learned(files.source(shared, "books-train.txt.xz"), self.vocab)
            if tokenizer.get_vocab_size() != self.vocab:
                found = str(tokenizer.get_vocab_size())
                raise InputError("shared", f"hold a text with {self.vocab} different word pieces", found=found)
            with replacing(path) as temporary:
                tokenizer.save(str(temporary))
        for split in SPLITS:
            files.keep(folder, split, lambda split=split: self._encoded(folder, shared, split))
        if not (folder / ABOUT).exists():
            test = self.read(folder).test.tokens
            said = {"characters per token of the test rows": sum(map(len, map(self.text, test))) / test.size}
            with replacing(folder / ABOUT) as temporary:
                temporary.write_text(json.dumps(said) + "\n", encoding="utf-8")

    def _encoded(self, folder: Path, shared: Path | None, split: str) -> NDArray[np.uint16]:
        tokenizer = library().Tokenizer.from_file(str(folder / TOKENIZER))
        tokens = encoded(files.source(shared, f"books-{split}.txt.xz"), tokenizer)
        return tokens if split == "train" else files.even_windows(tokens, self.length, self.rows).astype(np.uint16)

    def read(self, folder: Path) -> Data:
        train, valid, test = (files.load(folder, split) for split in SPLITS)
        files.check_made(folder / TOKENIZER)
        tokenizer = files.read_json(folder / TOKENIZER)
        with files.intact(folder / TOKENIZER):
            numbered: dict[str, int] = tokenizer["model"]["vocab"]
            pieces = sorted(numbered, key=lambda piece: numbered[piece])
        self._pieces = ["".join(map(_meant, piece)) for piece in pieces]
        return Data(train, Rows.blank(valid), Rows.blank(test))

    def characters_per_token(self, folder: Path) -> float:
        """Characters per token of the test rows: what turns bits per token into bits per character."""
        files.check_made(folder / ABOUT)
        about = files.read_json(folder / ABOUT)
        with files.intact(folder / ABOUT):
            return float(about["characters per token of the test rows"])

    def alphabet(self, folder: Path) -> dict[str, str]:
        # Without the blanks of the file, which the file of every network would hold.
        tokenizer = files.read_json(folder / TOKENIZER)
        compact = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
        return {"alphabet": "tokenizer", "tokenizer": compact}

    def text(self, tokens: NDArray[np.int64]) -> str:
        return "".join(self._pieces[int(token)] for token in tokens)
