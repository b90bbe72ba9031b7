"""Molecules as SMILES: those of MOSES, from the package `molsets`, which is read as data and not installed.

A token is an atom, a bond, a bracket or the number of a ring: "Cl", "Br", "[nH]" and "[H]" are one each. Texts are
filled up with end tokens to 48 tokens, of which at least one is an end; molecules that do not fit (0.05 %) are left
out. The training molecules are MOSES's own, and those to measure on are drawn from its test molecules. Training
molecules are kept sorted, which makes the file smaller; `read` shuffles them.
"""

import csv
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

from unmask import InputError

PACKAGE = "molsets-0.3.1-py3-none-any.whl"
DIGEST = "7f4450e3ebecebe79c3a2a55950c93daddee071120daf64a163d03481e811d34"
COMMAND = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "molsets==0.3.1")
PIECE = re.compile(r"\[[^\]]*\]|Br|Cl|.", flags=re.S)
PIECES = (*"CFNOScnos()=#-123456", "Cl", "Br", "[nH]", "[H]")
SEED = 48


def molecules(package: Path, split: str) -> list[str]:
    """The SMILES of "train" or "test"."""
    with zipfile.ZipFile(package) as archive:
        content = gzip.decompress(archive.read(f"moses/dataset/data/{split}.csv.gz")).decode()
    return [row["SMILES"] for row in csv.DictReader(io.StringIO(content))]


def encoded(texts: Iterable[str], most: int) -> NDArray[np.uint8]:
    """The tokens of all texts that have at most so many, one text after the other, each followed by an end token."""
    table = {piece: number for number, piece in enumerate(PIECES)}
    found = bytearray()
    for text in texts:
        try:
            tokens = [table[piece] for piece in PIECE.findall(text)]
        except KeyError as error:
            raise InputError("texts", f"be made of {' '.join(PIECES)}", detail=f"but one has {error}") from None
        if len(tokens) <= most:
            found += bytes(tokens) + bytes([len(PIECES)])
    return np.frombuffer(bytes(found), dtype=np.uint8)


def filled(tokens: NDArray[np.uint8], length: int) -> NDArray[np.uint8]:
    """What `encoded` gives as rows of one length, filled up with end tokens."""
    ends = np.flatnonzero(tokens == len(PIECES))
    lengths = np.diff(ends, prepend=-1) - 1
    rows = np.full((len(ends), length), len(PIECES), dtype=np.uint8)
    rows[np.arange(length) < lengths[:, None]] = tokens[tokens != len(PIECES)]
    return rows


@final
class Molecules(Kind):
    name = "molecules"
    title = KINDS[name].title
    length = 48
    vocab = len(PIECES) + 1
    tested = 1024
    judged = ("valid", "unique", "new")
    seconds = 40

    def __init__(self) -> None:
        self._known: NDArray[np.bytes_] = np.zeros(0, dtype="S1")  # training molecules, sorted

    def make(self, folder: Path, shared: Path | None) -> None:
        def split(name: str) -> list[str]:
            return molecules(files.fetch(folder, PACKAGE, DIGEST, COMMAND), name)

        def held() -> NDArray[np.uint8]:
            tokens = filled(encoded(split("test"), self.length - 1), self.length)
            return np.random.default_rng(SEED).permutation(tokens)[: 2 * self.rows]

        files.keep(folder, "train", lambda: encoded(sorted(split("train")), self.length - 1))
        files.keep(folder, "held", held)
        files.discard(folder)

    def read(self, folder: Path) -> Data:
        train = filled(files.load(folder, "train"), self.length)
        # One more than the number of a token: a string of bytes cannot end in zeros.
        self._known = np.sort((train + 1).view(f"S{self.length}")[:, 0])
        held = files.load(folder, "held")
        rng = np.random.default_rng(SEED + 1)
        return Data(rng.permutation(train), Rows.blank(held[: self.rows]), Rows.blank(held[self.rows :]))

    def text(self, tokens: NDArray[np.int64]) -> str:
        """The SMILES; it ends before the first end token."""
        ends = np.flatnonzero(tokens == len(PIECES))
        return "".join(PIECES[int(token)] for token in tokens[: ends[0] if len(ends) else None])

    def canonical(self, tokens: NDArray[np.int64]) -> str | None:
        """The one SMILES that all ways of writing this molecule share; None if it is no molecule.

        Raises:
            ModuleNotFoundError: if RDKit is not installed.
        """
        chemistry = rdkit()
        text = self.text(tokens)
        molecule = chemistry.MolFromSmiles(text) if text else None
        return None if molecule is None else chemistry.MolToSmiles(molecule)

    def scores(self, tokens: NDArray[np.int64], rows: Rows) -> Mapping[str, NDArray[np.float64]]:
        """Whether the text is a molecule ("valid"), none that an earlier text is ("unique"), nor training had ("new").

        Each asks for the one before, so that their means are shares of all texts.
        """
        found = [self.canonical(each) for each in tokens]
        valid = np.array([each is not None for each in found], dtype=np.bool_)
        unique = np.zeros_like(valid)
        unique[list({text: place for place, text in reversed(list(enumerate(found))) if text is not None}.values())] = (
            True
        )
        new = unique & ~self.known(found)
        return {name: each.astype(np.float64) for name, each in zip(self.judged, (valid, unique, new), strict=True)}

    def known(self, texts: Iterable[str | None]) -> NDArray[np.bool_]:
        """Whether each of these canonical SMILES is a training molecule, which MOSES keeps in that form."""
        return np.array([text is not None and self._is_known(text) for text in texts], dtype=np.bool_)

    def _is_known(self, text: str) -> bool:
        try:
            tokens = encoded([text], self.length - 1)
        except InputError:  # an atom that no training molecule has
            return False
        if not len(tokens):
            return False
        wanted = (filled(tokens, self.length) + 1).tobytes()
        place = int(np.searchsorted(self._known, np.bytes_(wanted)))
        return place < len(self._known) and bool(self._known[place] == wanted)


def rdkit() -> Any:
    """RDKit's module of molecules, silent about those that are none."""
    try:
        chemistry, log = (import_module(f"rdkit.{name}") for name in ("Chem", "RDLogger"))
    except ModuleNotFoundError:
        raise ModuleNotFoundError("This needs RDKit, which is not installed. Run: pip install rdkit") from None
    log.DisableLog("rdApp.*")
    return chemistry
