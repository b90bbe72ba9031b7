"""`unmask generate --data`: what a model writes for each row of a file."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from unmask import _check as check
from unmask.cli.output import noted, progress, terminal
from unmask.cli.report import Report, Verbatim
from unmask.engine import Engine
from unmask.order import BlindOrder, ReactiveOrder, Spaced
from unmask.schedule import Schedule
from unmask.words.answers import TEXTS, Prompts, prompts
from unmask.words.outputs import write_rows
from unmask.words.own import own_steps, shortened, unfamiliar
from unmask.words.revisions import revised
from unmask.words.schedules import build, check_fits
from unmask.words.sentences import counted, per_evaluation
from unmask.words.unfinished import unfinished
from unmask.words.workers import working

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models import Model
    from unmask.sample import Draw, Sampler


@final
@dataclass(frozen=True)
class Filling:
    """How rows are to be filled, as a user said it.

    Attributes:
        model: The word for the model.
        steps: Number of steps; None where nobody said.
        order: The order, or the word for it.
        size: The word for the size.
        file: Where the schedule was found, if it comes from a file.
        schedule: That schedule.
        revision: The word for a revision, if there is one.
        draw: How a token is drawn.
        seed: The seed of the first row.
    """

    model: str
    steps: int | None
    order: str | BlindOrder | ReactiveOrder | Spaced
    size: str
    file: Path | None
    schedule: Schedule | None
    revision: str | None
    draw: "Draw"
    seed: int

    def chosen(self, rows: Prompts) -> Schedule:
        """The schedule, for as many tokens as there are to fill in these rows."""
        most = max(rows.masked)
        if self.schedule is None or self.file is None:
            # A row with less to fill than there are steps takes fewer of them.
            made = build(self.order, self.size, min(self.steps or own_steps(rows.model), most), most).schedule
            return revised(made, self.revision)
        check_fits(self.schedule, self.file, rows.masked)
        return revised(self.schedule, self.revision)


def answered(
    model: "Model",
    data: Path,
    column: str | None,
    length: int | None,
    chat: bool | None,
    how: Filling,
    output: Path | None,
    engine: Engine,
) -> Report:
    """Fill every row of a file, and say what came of it.

    Arguments:
        model: The model.
        data: The file.
        column: The column or key that holds the prompts.
        length: Tokens of an answer.
        chat: Whether prompts are messages; None where that is up to the model.
        how: How they are filled.
        output: Where the rows go; None for the screen.
        engine: Who does it.
    """
    from unmask.models.text import printable
    from unmask.sample import Counts, Sampler

    with prompts(model, data, column, answer=length, chat=chat) as rows:
        chosen = how.chosen(rows)
        noted(unfamiliar(model, chosen))
        noted(shortened(chosen, min(rows.masked)))
        begin = time.perf_counter()
        sampler = Sampler(model.predictor, chosen, how.draw, model.stop)
        shown: list[dict[str, Any]] = []
        if output is None:
            for some in _filled(rows, sampler, how, engine, 0):
                shown += some
            continued, counts = 0, Counts.total([_counts(row) for row in shown])
        else:
            continued, counts = _written(rows, sampler, how, engine, output)
    seconds = time.perf_counter() - begin
    record = {
        "model": how.model,
        "schedule": chosen.to_json(),
        "seconds": round(seconds, 3),
        "count": rows.count,
        "continued": continued,
        **counts.to_json(),
        "output": None if output is None else str(output),
    }
    if output is None:
        record["rows"] = shown
    going_on = f", {continued:,} of them finished earlier" if continued else ""
    note = f"{counted(rows.count, 'row')}{going_on}, {per_evaluation(counts.tokens_per_evaluation)}, {seconds:.1f} s"
    safe = printable if terminal().is_terminal else str
    between = [line for row in shown for line in ("", safe(row["text"]))][1:]
    return Report(record, [Verbatim(line) for line in between], written=[output], note=note)


def _filled(rows: Prompts, sampler: "Sampler", how: Filling, engine: Engine, first: int) -> Any:
    """What is written for the rows from the first on, some at a time, with a bar."""
    with check.blamed("model", "be usable", how.model, parts=False), ExitStack() as stack:
        bar = stack.enter_context(progress())
        task = bar.add_task("Generating", total=rows.count, completed=first)
        stack.enter_context(working(engine))
        yield from rows.filled(
            sampler, seed=how.seed, first=first, engine=engine, progress=lambda done: bar.advance(task, done)
        )


def _written(rows: Prompts, sampler: "Sampler", how: Filling, engine: Engine, output: Path) -> Any:
    """Fill what is not finished yet, and put all of it into a file; how many were, and the counts of all."""
    from unmask.sample import Counts

    task = {
        "command": "generate",
        "model": rows.model.fingerprint,
        "data or length": rows.digest,
        "schedule": sampler.schedule.to_json(),
        "temperature or top-p": repr(how.draw),
        "seed": how.seed,
    }
    counts = Counts()

    def counting(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal counts
        counts += _counts(row)
        return row

    with unfinished(output, task) as kept:
        continued = kept.done
        try:
            for some in _filled(rows, sampler, how, engine, continued):
                kept.add(some)
        except KeyboardInterrupt:
            left = f"'{output}' was not written"
            if kept.outlasts:
                left = f"'{kept.path}' has the rows that were finished. Run the same command again to continue"
            raise click.Abort(f"Stopped: {left}.") from None
        write_rows(map(counting, kept.rows()), output, TEXTS)
        kept.remove()
    return continued, counts


def _counts(row: dict[str, Any]) -> Any:
    from unmask.sample import Counts

    return Counts(row["valid_tokens"], row["evaluations"])
