"""Characters of English: text8, the letters a to z and the space.

The split is that of `experiments/corpus.py`, and so are the windows: 70 million characters for training, the million
after them for validation, the next for test. The bidirectional network and the causal one are those of the library,
which learned from the same text for 39 minutes each; the others are trained here, for as long as those of other kinds.
"""

import lzma
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

from unmask import InputError
from unmask._atomic import replacing

SOURCE = "text8-72m.xz"
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def numbers(text: bytes) -> NDArray[np.uint8]:
    """The number of each character, as in `unmask.models.text.Alphabet(LETTERS)`."""
    table = np.full(256, 255, dtype=np.uint8)
    table[np.frombuffer(LETTERS.encode(), dtype=np.uint8)] = np.arange(len(LETTERS))
    found = table[np.frombuffer(text, dtype=np.uint8)]
    if found.max(initial=0) == 255:
        must = "hold a text8 of spaces and the letters a to z"
        raise InputError("shared", must, detail="but it has other characters")
    return found


@final
class Characters(Kind):
    name = "characters"
    title = KINDS[name].title
    length = 256
    vocab = 27
    seconds = 120
    networks = ("both", "causal", "left-to-right")  # masks of combs against uniform ones: masks.py
    shipped: ClassVar[Mapping[str, str]] = {"both": "builtin", "causal": "causal"}
    ends = (70_000_000, 71_000_000, 72_000_000)  # of training, validation and test text

    def make(self, folder: Path, shared: Path | None) -> None:
        path = folder / SOURCE
        if path.exists():
            print(f"{SOURCE}: there already", flush=True)
            return
        # It is as small as can be already: xz makes no smaller file of its numbers.
        with replacing(path) as temporary:
            shutil.copyfile(files.source(shared, SOURCE), temporary)
            self._read(temporary)
        print(f"{SOURCE}: {path.stat().st_size / 1e6:.2f} MB", flush=True)

    def read(self, folder: Path) -> Data:
        files.check_made(folder / SOURCE)
        train, valid, test = np.split(self._read(folder / SOURCE), self.ends)[:3]
        windows = (files.even_windows(part, self.length, self.rows) for part in (valid, test))
        return Data(train, *map(Rows.blank, windows))

    def _read(self, path: Path) -> NDArray[np.uint8]:
        try:
            with lzma.open(path) as file:
                found = numbers(file.read(self.ends[-1]))
        except (lzma.LZMAError, EOFError):
            raise InputError("shared", f"hold a complete file '{SOURCE}'", detail="but it is damaged") from None
        if len(found) < self.ends[-1]:
            raise InputError("shared", f"hold a text8 of at least {self.ends[-1]} characters", found=str(len(found)))
        return found

    def alphabet(self, folder: Path) -> dict[str, str]:
        return {"alphabet": LETTERS}

    def text(self, tokens: NDArray[np.int64]) -> str:
        return "".join(LETTERS[token] for token in tokens)
