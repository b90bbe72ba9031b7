# pyright: basic
"""Benchmarks under several schedules: accuracy against tokens per forward pass, as one table.

    unmask-lm-eval compare --model_args model=builtin --tasks … --schedule comb/even:4 --schedule s.json

The model is loaded once. lm-evaluation-harness runs the same tasks on it under each schedule, and a row of the table
has what it measured, with standard errors; evaluations, and valid tokens for each of them, which others call tokens per
forward pass, by the rule of `unmask.sample.trace`; and the sampler's seconds. They are those of what was written or,
where the tasks only score given texts, of what was scored.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import click

from unmask import _check as check
from unmask import models
from unmask.adapters.harness import UnmaskLM
from unmask.sample import Counts
from unmask.schedule import Schedule
from unmask.words.given import schedule_given

SCHEDULE = ("schedule", "steps", "order", "size")  # arguments of the model that --schedule stands for
MODEL = ("model", "seed", "length", "max_gen_toks", "trust_remote_code", "allow_pickle")


@final
@dataclass(frozen=True)
class Reached:
    """What one schedule reached.

    Attributes:
        words: The schedule, as it was given.
        schedule: The schedule itself.
        scores: The value and the standard error of each metric of each task; the error is None where there is none.
        generated: Counts of what was written.
        scored: Counts of what was scored.
    """

    words: str
    schedule: Schedule
    scores: dict[str, tuple[float, float | None]]
    generated: Counts
    scored: Counts

    @property
    def counts(self) -> Counts:
        """Those of what was written, or of what was scored where nothing was."""
        return self.generated if self.generated.evaluations else self.scored

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "words": self.words,
            "schedule": self.schedule.to_json(),
            "scores": {name: {"value": value, "error": error} for name, (value, error) in self.scores.items()},
            **self.counts.to_json(),
            "generated": self.generated.to_json(),
            "scored": self.scored.to_json(),
        }


def compare(
    model: models.Model,
    tasks: Sequence[str],
    schedules: dict[str, Schedule],
    *,
    options: dict[str, Any] | None = None,
    **evaluation: Any,
) -> list[Reached]:
    """Run the harness once for each schedule.

    Arguments:
        model: The model.
        tasks: Names of tasks.
        schedules: The schedules by the words that the table has for them.
        options: Further arguments of `UnmaskLM`, such as a seed.
        evaluation: Arguments of the harness's `simple_evaluate`, such as `limit`.
    """
    from lm_eval.evaluator import simple_evaluate  # pyright: ignore[reportMissingImports]

    found = []
    for words, schedule in schedules.items():
        lm = UnmaskLM(model, schedule=schedule, **(options or {}))
        results: Any = simple_evaluate(model=lm, tasks=list(tasks), log_samples=False, **evaluation)
        if results is None:  # another process of several has them
            continue
        found.append(Reached(words, schedule, _scores(results["results"], tasks), lm.generated, lm.scored))
    return found


def table(rows: Sequence[Reached]) -> str:
    """The rows as a table of Markdown.

    Example:
        >>> from unmask import order, size
        >>> even = Schedule(size.Even(4), order.Comb())
        >>> print(table([Reached("comb/even:4", even, {"a task acc": (0.5, 0.1)}, Counts(32, 16, 1.25), Counts())]))
        | schedule    | a task acc    | evaluations | tokens per forward | seconds |
        | ----------- | ------------: | ----------: | -----------------: | ------: |
        | comb/even:4 | 0.500 ± 0.100 |          16 |               2.00 |     1.2 |
    """
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    head = ["schedule", *names, "evaluations", "tokens per forward", "seconds"]
    lines = [[
        row.words, *(_shown(row.scores.get(name)) for name in names), f"{row.counts.evaluations:,}",
        f"{row.counts.tokens_per_evaluation:.2f}", f"{row.counts.seconds:.1f}",
    ] for row in rows]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        [_line(head, widths, str.ljust), _line(rule, widths, str.ljust)]
        + [_line(line, widths, str.rjust) for line in lines]
    )


def _line(cells: list[str], widths: list[int], just: Any) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "| " + " | ".join([str.ljust(*first), *(just(cell, width) for cell, width in rest)]) + " |"


def _shown(score: tuple[float, float | None] | None) -> str:
    if score is None:
        return ""
    value, error = score
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


def _scores(results: dict[str, dict[str, Any]], tasks: Sequence[str]) -> dict[str, tuple[float, float | None]]:
    """Value and standard error of each metric, from the harness's keys 'metric,filter' and 'metric_stderr,filter'.

    A group that was asked for stands for its tasks.
    """
    asked = {name: results[name] for name in tasks if name in results}
    scores = {}
    for task, entries in (asked or results).items():
        for key, value in entries.items():
            metric, comma, chosen = key.partition(",")
            if not comma or metric.endswith("_stderr"):
                continue
            error = entries.get(f"{metric}_stderr,{chosen}")
            name = f"{task} {metric}" if chosen == "none" else f"{task} {metric} ({chosen})"
            scores[name] = float(value), float(error) if isinstance(error, int | float) else None
    return scores


def _schedules(given: Sequence[str], length: int) -> dict[str, Schedule]:
    """The schedules by their words, or by the names of their files."""
    found = {}
    for words in given:
        if words in found:
            raise check.InputError("schedule", "be different each time", detail=f"but '{words}' is given twice")
        found[words] = schedule_given(words, length)
    return found


@click.command(name="compare")
@click.option("--model_args", default="", help="As for --model unmask, without the schedule: model=NAME,length=N …")
@click.option("--tasks", required=True, help="Names of tasks, with commas between them.")
@click.option(
    "--schedule", "given", multiple=True, required=True, help="Words such as comb/even:8, or a file; once for each."
)
@click.option("--include_path", help="A folder with tasks of your own.")
@click.option("--num_fewshot", type=int, help="Examples in the prompt.")
@click.option("--limit", type=float, help="So many requests of each task, or this part of them.")
@click.option("--gen_kwargs", help="Options of generation, such as do_sample=true,temperature=0.7.")
@click.option("--apply_chat_template", is_flag=True, help="Write prompts with the tokenizer's chat template.")
@click.option("--batch_size", help="Sequences evaluated at once.")
@click.option("--device", help="cpu, cuda …; a GPU where there is one by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of the table.")
def command(
    model_args: str, tasks: str, given: tuple[str, ...], include_path: str | None, num_fewshot: int | None,
    limit: float | None, gen_kwargs: str | None, apply_chat_template: bool, batch_size: str | None, device: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Accuracy against tokens per forward pass: the same tasks under several schedules.

    \b
    unmask-lm-eval compare --model_args model=builtin --tasks unmask_choices --include_path tests/tasks \\
                           --schedule comb/even:4 --schedule confidence/threshold:0.9
    """
    from lm_eval.tasks import TaskManager  # pyright: ignore[reportMissingImports]
    from lm_eval.utils import simple_parse_args_string  # pyright: ignore[reportMissingImports]

    try:
        options = dict(simple_parse_args_string(model_args))
        for name in options:
            if name in SCHEDULE:
                raise check.InputError("model_args", f"not contain '{name}'", remedy="Use --schedule for that.")
            check.known("model_args", name, MODEL)
        first = UnmaskLM(**options, batch_size=batch_size, device=device)
        schedules = _schedules(given, first.model.length)
        names = [name.strip() for name in tasks.split(",") if name.strip()]
        manager = TaskManager(include_path=include_path)
        matches = {name: manager.match_tasks([name]) for name in names}  # a pattern stands for several
        for name, matched in matches.items():
            if not matched:
                remedy = "To list all tasks, run 'unmask-lm-eval ls tasks'. To add a folder, use --include_path."
                must, detail = "be tasks of lm-evaluation-harness", f"but '{name}' is not one"
                raise check.InputError("tasks", must, detail=detail, remedy=remedy)
        names = list(dict.fromkeys(task for matched in matches.values() for task in matched))
        kept = {"seed": first.seed, "max_gen_toks": first.new, "batch_size": first.batch}
        rows = compare(
            first.model, names, schedules, options=kept, task_manager=manager, num_fewshot=num_fewshot, limit=limit,
            gen_kwargs=gen_kwargs, apply_chat_template=apply_chat_template,
        )  # fmt: skip
    except check.InputError as error:
        click.echo(error, err=True)
        raise SystemExit(2) from None
    click.echo(json.dumps([row.to_json() for row in rows], indent=1) if as_json else table(rows))
