"""Which texts a model is measured on: windows of one long text, or rows of a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask.words.models import windows
from unmask.words.sentences import counted

if TYPE_CHECKING:
    from unmask.data import Collected
    from unmask.models import Model

_USUAL = 32  # texts, where nobody says how many


@final
@dataclass(frozen=True)
class Texts:
    """Where texts come from, as a user said it: a text, or data with one sequence in each row.

    Attributes:
        text: A file with one long text.
        data: A file of rows; "-" for standard input.
        column: The column or key of the data that holds the texts.
        count: How many to take.
    """

    text: Path | None = None
    data: Path | None = None
    column: str | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.text is not None and self.data is not None:
            raise check.InputError("", "Give either {text} or {data}, not both")
        check_column(self.data, self.column)
        if self.count is not None:
            check.integer("texts", self.count, least=2)

    @property
    def none(self) -> bool:
        """Whether nothing was said of any."""
        return self.text is None and self.data is None

    def required(self) -> "Texts":
        """The same, unless there are none."""
        if self.none:
            raise check.InputError("", "Either {text} or {data} must be given")
        return self

    def collected(self, model: "Model", seed: int, usual: int = _USUAL) -> "Collected":
        """The texts as a model takes them: windows spread evenly over the text, or rows drawn from the data.

        Arguments:
            model: The model; windows have its length, and no row more than that.
            seed: Draws the rows.
            usual: How many to take where nobody said it; or all if there are fewer.

        Raises:
            InputError: if there are fewer than two, or a row cannot be used.
        """
        from unmask.data import Collected, collect, rows
        from unmask.sequences import Sequences

        self.required()
        if self.text is not None:
            sequences = Sequences.of(windows(model, self.text, self.count, usual))
            count = len(sequences)
            return Collected(sequences, tuple(range(count)), (0,) * count, count, 0, None, 0, model.length)
        assert self.data is not None
        found = collect(model, rows(self.data, column=self.column), most=self.count or usual, rng=seed).required()
        if len(found) < 2:
            left = f" that fits the model; {found.note[:1].lower()}{found.note[1:-1]}" if found.long else ""
            raise check.InputError("data", "have at least two rows", detail=f"but it has only one{left}")
        if self.count is not None and self.count > len(found):
            rows_of = f"since '{self.data}' has no more rows" + (" that fit the model" if found.long else "")
            raise check.InputError("texts", f"be at most {len(found)}", found=f"{self.count}", detail=rows_of)
        return found


def check_column(data: Path | None, column: str | None) -> None:
    """Refuse a column of nothing."""
    if column is not None and data is None:
        raise check.lacking("column", "{data}")


def about(found: "Collected") -> str:
    """How many texts of how many tokens, for a heading."""
    counts, lengths = found.sequences.counts, found.sequences.lengths
    least, most = int(counts.min()), int(counts.max())
    number = counted(len(found), "sequence")
    if found.read > len(found):
        number = f"{len(found):,} of {counted(found.read, 'row')}"
    if least == most == int(lengths.max()) == int(lengths.min()):
        return f"{number} of {counted(most, 'token')}"
    return f"{number} with {f'{least} to {most:,} tokens' if least < most else counted(most, 'token')} to fill"
