"""What was measured, text by text, in a file that outlasts the process; and the table of it.

`texts.csv` gets a line for each text of a cell as soon as it is known, so a run that was killed goes on behind the
last one. `run.json` says what was being measured, so that nothing else is added to it.
"""

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from unmask import InputError
from unmask._atomic import replacing
from unmask._files import read_text
from unmask.evaluate import Estimate

COLUMNS = (
    "data", "rule", "setting", "schedule", "texts", "tokens", "evaluations", "tokens_per_forward", "bits_per_token",
    "bits_error", "perplexity", "perplexity_error", "word_perplexity", "over_margin", "over_margin_error",
    "seconds_per_text",
)  # fmt: skip
MARGIN = "margin in blocks"  # the rule that DUEL recommends, and that the others are compared with


@final
@dataclass(frozen=True)
class Scored:
    """One text under one schedule.

    Attributes:
        data: Which texts it is of.
        rule: What the rule is called.
        setting: Evaluations of a text, or the number of a rule that decides them by itself.
        schedule: What that is, in words.
        text: Which of the texts.
        tokens: How many were scored.
        words: How many words they are.
        nats: Exact negative log-likelihood.
        evaluations: Forward passes that the sampler spends on it.
        seconds: How long that took, a batch of texts divided by their number.
    """

    data: str
    rule: str
    setting: str
    schedule: str
    text: int
    tokens: int
    words: int
    nats: float
    evaluations: int
    seconds: float


class Key(NamedTuple):
    """What a cell of the table is known by."""

    data: str
    rule: str
    setting: str
    schedule: str  # advice for a setting may change as more is calibrated: what it was before is another cell


_KINDS = {each.name: each.type for each in fields(Scored)}


@final
class Record:
    """What is known so far, and the files that it is in.

    Arguments:
        folder: Where the files are, or will be.
        task: What is being measured, as plain values by name; dictionaries in it may grow.

    Raises:
        InputError: if the folder has measurements of something else.
    """

    def __init__(self, folder: Path, task: Mapping[str, Any]):
        self.folder, self.known = folder, dict[Key, dict[int, Scored]]()
        folder.mkdir(parents=True, exist_ok=True)
        self._begin(json.loads(json.dumps(task)))
        self._read()

    @property
    def file(self) -> Path:
        return self.folder / "texts.csv"

    def missing(self, key: Key, count: int) -> list[int]:
        """Texts of a cell that are not yet known."""
        done = self.known.get(key, {})
        return [text for text in range(count) if text not in done]

    def add(self, found: Iterable[Scored]) -> None:
        """Keep more: when this returns, they are on the disk."""
        with self.file.open("a", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            if file.tell() == 0:
                table.writerow(_KINDS)
            for each in found:
                table.writerow([repr(cell) if isinstance(cell, float) else cell for cell in vars(each).values()])
                self._keep(each)
            file.flush()
            os.fsync(file.fileno())

    def _keep(self, each: Scored) -> None:
        self.known.setdefault(Key(each.data, each.rule, each.setting, each.schedule), {})[each.text] = each

    def _begin(self, task: dict[str, Any]) -> None:
        place = self.folder / "run.json"
        if place.exists():
            theirs = _described(place)
            for name, mine in task.items():
                other = theirs.get(name)
                both = isinstance(mine, dict) and isinstance(other, dict)
                if any(other[key] != mine[key] for key in mine.keys() & other.keys()) if both else other != mine:
                    raise InputError(
                        "output",
                        "be a folder of the same measurement",
                        detail=f"but the one in '{self.folder}' differs in its {name}",
                        remedy="Choose another {output}.",
                    )
                task[name] = {**other, **mine} if both else mine
        with replacing(place) as temporary:
            temporary.write_text(json.dumps(task, indent=1) + "\n", encoding="utf-8")

    def _read(self) -> None:
        if not self.file.exists():
            return
        raw = self.file.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:  # a line that broke off counts for nothing
            with self.file.open("rb+") as file:
                file.truncate(len(whole))
        for row in csv.DictReader(whole.decode("utf-8").splitlines()):
            self._keep(Scored(**{name: _KINDS[name](cell) for name, cell in row.items()}))


def _described(place: Path) -> dict[str, Any]:
    """What a file says was being measured."""
    try:
        found = json.loads(read_text(place, "output"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        found = None
    if not isinstance(found, dict):
        raise InputError(
            "output", "be a folder of a measurement", detail=f"but '{place}' is damaged",
            remedy="Choose another {output}.",
        )  # fmt: skip
    return found


def table(record: Record, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The finished cells, one row each.

    What a rule costs more than margin in blocks, DUEL's pick, is paired text by text, with those of its cells that
    takes about as many evaluations.

    Arguments:
        record: What was measured.
        counts: How many texts the data have.
    """
    whole = {key: _ordered(texts) for key, texts in record.known.items() if len(texts) == counts.get(key.data)}
    rows: list[dict[str, Any]] = []
    for key, texts in whole.items():
        picks = [each for other, each in whole.items() if (other.data, other.rule) == (key.data, MARGIN)]
        nearest = min(picks, key=lambda each: abs(math.log(_spent(each) / _spent(texts))), default=None)
        base = None if key.rule == MARGIN else nearest
        rows.append(key._asdict() | _row(texts, base))
    names = list(counts)
    return sorted(rows, key=lambda row: names.index(row["data"]))


def _row(texts: Sequence[Scored], base: Sequence[Scored] | None) -> dict[str, Any]:
    nats, tokens = np.array([each.nats for each in texts]), np.array([each.tokens for each in texts])
    cost = Estimate.ratio(nats, tokens)
    over = None if base is None else Estimate.ratio(nats - [each.nats for each in base], tokens)
    bit, words = math.log(2), sum(each.words for each in texts)
    perplexity = math.exp(cost.mean)
    return {
        "texts": len(texts),
        "tokens": int(tokens.sum()),
        "evaluations": _spent(texts),
        "tokens_per_forward": int(tokens.sum()) / sum(each.evaluations for each in texts),
        "bits_per_token": cost.mean / bit,
        "bits_error": cost.standard_error / bit,
        "perplexity": perplexity,
        "perplexity_error": perplexity * cost.standard_error,
        "word_perplexity": math.exp(min(700.0, nats.sum() / max(words, 1))),
        "over_margin": "" if over is None else over.mean / bit,
        "over_margin_error": "" if over is None else over.standard_error / bit,
        "seconds_per_text": sum(each.seconds for each in texts) / len(texts),
    }


def _ordered(texts: Mapping[int, Scored]) -> list[Scored]:
    return [texts[number] for number in sorted(texts)]


def _spent(texts: Sequence[Scored]) -> float:
    return sum(each.evaluations for each in texts) / len(texts)


def shown(rows: Sequence[Mapping[str, Any]], heading: Sequence[str]) -> str:
    """The table for people."""
    titles = (
        "data", "rule", "setting", "evaluations", "tokens per forward", "bits per token", "DUEL perplexity",
        "per word", "over margin in blocks, bits", "seconds",
    )  # fmt: skip
    lines = [*heading, "", f"| {' | '.join(titles)} |", f"|{' --- |' * 3}{' ---: |' * (len(titles) - 3)}"]
    for row in rows:
        over = "" if row["over_margin"] == "" else f"{row['over_margin']:+.3f} ± {row['over_margin_error']:.3f}"
        cells = (
            row["data"], row["schedule"], row["setting"], f"{row['evaluations']:.1f}",
            f"{row['tokens_per_forward']:.2f}", f"{row['bits_per_token']:.3f} ± {row['bits_error']:.3f}",
            f"{row['perplexity']:.2f} ± {row['perplexity_error']:.2f}", f"{row['word_perplexity']:.4g}", over,
            f"{row['seconds_per_text']:.3g}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
