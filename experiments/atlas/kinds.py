"""The kinds of the atlas by name."""

from experiments.atlas.books import Books
from experiments.atlas.characters import Characters
from experiments.atlas.countdown import Countdown
from experiments.atlas.digits import Digits
from experiments.atlas.kind import Kind
from experiments.atlas.molecules import Molecules
from experiments.atlas.sudoku import Sudoku

KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (Books, Characters, Sudoku, Countdown, Molecules, Digits)}
