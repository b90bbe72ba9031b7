"""What a kind of data is, for the atlas: rows of tokens to learn, rows to measure on, and what makes a text right.

A kind is made once, where packages can be had (`make`), and kept as small files of numbers; from then on numpy reads
them (`read`), so that training and measuring need nothing but torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Texts of one length.

    Attributes:
        tokens: Token ids, shape `(count, length)`.
        hidden: Which of them are to be filled; the others are given. Of the same shape.
    """

    tokens: NDArray[np.int64]
    hidden: NDArray[np.bool_]

    @classmethod
    def blank(cls, tokens: NDArray[Any]) -> "Rows":
        """Texts of which nothing is given."""
        return cls(tokens.astype(np.int64), np.ones(tokens.shape, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.tokens)

    def spread(self, count: int) -> "Rows":
        """So many of them, spread evenly: neighbours are alike, such as windows of one book, so the first will not do.

        Example:
            >>> Rows.blank(np.arange(6).reshape(6, 1)).spread(3).tokens.ravel().tolist()
            [0, 2, 4]
        """
        chosen = np.arange(min(count, len(self))) * len(self) // min(count, len(self))
        return Rows(self.tokens[chosen], self.hidden[chosen])


@final
@dataclass(frozen=True)
class Settings:
    """At which settings rules are measured.

    Attributes:
        divisors: A budget is the number of tokens to fill, divided by one of these.
        thresholds: Probabilities of a token from which on a rule reveals it.
        bounds: Nats that the tokens of a step may know of each other, at most.
    """

    divisors: tuple[int, ...] = (32, 16, 8, 4, 2)
    thresholds: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9, 0.97)
    bounds: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)

    def budgets(self, count: int) -> list[int]:
        """Numbers of evaluations for so many tokens to fill.

        Example:
            >>> Settings().budgets(256), Settings().budgets(16)
            ([8, 16, 32, 64, 128], [1, 2, 4, 8])
        """
        return sorted({max(1, round(count / divisor)) for divisor in self.divisors})


@final
@dataclass(frozen=True, eq=False)
class Data:
    """All that is read of a kind.

    Attributes:
        train: Token ids to learn, of shape `(count, length)`; or one long sequence of them, of which windows are taken.
        valid: Rows on which schedules are chosen and models compared while they are made.
        test: Rows for the numbers that are reported.
    """

    train: NDArray[np.unsignedinteger]
    valid: Rows
    test: Rows


class Kind(ABC):
    """One kind of data.

    Attributes:
        name: One word, as on the command line.
        title: A few words, as over a panel of the figure.
        length: Tokens of a text.
        vocab: Number of tokens.
        layout: Height and width, where texts are grids row by row; None elsewhere.
        rows: Texts that are made for each of the two splits that are measured.
        tested: Texts of the test split that are measured unless somebody says otherwise; half as many for validation.
        judged: The scores that tell whether a text is right, the most telling one first; none for most kinds.
        width: Width of its networks.
        settings: At which settings rules are measured. To try something, other ones, and another width, are set on an
            instance.
        seconds: How long each of its networks learns, on an H200: as long as each other, so that they compare.
        networks: Those that are trained or shipped.
        shipped: Networks that need no training, as the library has them: name of a network -> name of a model.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    length: ClassVar[int]
    vocab: ClassVar[int]
    layout: ClassVar[tuple[int, int] | None] = None
    rows: ClassVar[int] = 1024
    tested: ClassVar[int] = 512
    judged: ClassVar[tuple[str, ...]] = ()
    width: int = 256
    settings: Settings = Settings()
    seconds: ClassVar[float] = 100
    networks: ClassVar[tuple[str, ...]] = ("both", "causal", "left-to-right", "both-comb")
    shipped: ClassVar[Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # a run of training knows its lessons by it

    @abstractmethod
    def make(self, folder: Path, shared: Path | None) -> None:
        """Make or fetch the data, and write what `read` needs into the folder; a part that is there stays.

        Arguments:
            folder: Where to; it exists.
            shared: Where texts lie that no package has; None if there is no such place.

        Raises:
            InputError: if something is missing.
            ModuleNotFoundError: if a package is not installed.
        """

    @abstractmethod
    def read(self, folder: Path) -> Data:
        """The data that `make` wrote; needs numpy alone.

        A kind remembers what its `text` and `scores` need of the folder, so that this comes before them.

        Raises:
            InputError: if the folder does not hold all of it.
        """

    def whole(self, folder: Path) -> Rows | None:
        """All rows of the test split, where published likelihoods are of all; None by default."""
        return None

    def visible(self, count: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """What is given of so many texts of training, shape `(count, length)`; nothing by default."""
        return np.zeros((count, self.length), dtype=np.bool_)

    def alphabet(self, folder: Path) -> dict[str, str]:
        """What a file of weights must know so that `unmask.load` can use it; nothing where it cannot."""
        return {}

    def alike(self) -> NDArray[np.int64]:
        """Which pairs of cells of a grid are measured as one: the same number where they are, shape `(cells, cells)`.

        Those that are as far apart, in rows and in columns, by default.
        """
        assert self.layout is not None
        height, width = self.layout
        row, column = np.divmod(np.arange(height * width), width)
        return (row[:, None] - row + height) * (2 * width) + (column[:, None] - column + width)

    @abstractmethod
    def text(self, tokens: NDArray[np.int64]) -> str:
        """One text as people read it."""

    def scores(self, tokens: NDArray[np.int64], rows: Rows) -> Mapping[str, NDArray[np.float64]]:
        """What texts that were written are worth: name of a score -> one number for each; none by default.

        Arguments:
            tokens: The texts, shape `(count, length)`.
            rows: The rows that they were written for: as many, with what was given.
        """
        return {}
