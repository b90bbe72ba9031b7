"""What a rule costs, measured text by text: a schedule that looks at predictions, or any of a model that remembers.

Such a rule cannot be forecast: which tokens it reveals, and after how many evaluations it is done, depends on what the
model says. So it is run on the texts, each with its own tokens in place of the draws (`unmask.evaluate.likelihood`),
and what it cost and spent on each of them is kept. The texts are those on which the blind orders were measured, and the
difference between a rule and a forecast is therefore paired.

A model that remembers (`unmask.predict.memory`) says what it says because of the steps so far, not of the number of
tokens they gave. Of such a model nothing can be forecast either, and its planned schedules are measured, one pass each.
"""

import math
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask.calibration.groups import Deviations, Fold, Groups
from unmask.calibration.numbers import LARGEST, numbers_of, text_of
from unmask.schedule import Schedule

_KEPT = 4096  # a multiple of the number of groups of an order, so that these are made of whole groups of a rule
_COLUMNS = ("nll", "evaluations", "tokens")


@final
@dataclass(frozen=True, eq=False)
class MeasuredRule:
    """What a schedule cost on each text. Of more than 4,096 texts, means of so many groups of neighbours are kept.

    Attributes:
        schedule: The schedule.
        texts: Number of texts.
        nll: Nats of each text, or of each group on average.
        evaluations: Evaluations of the model spent on each.
        tokens: Tokens to fill in each.
    """

    schedule: Schedule
    texts: int
    nll: NDArray[np.float32] = field(repr=False)
    evaluations: NDArray[np.float32] = field(repr=False)
    tokens: NDArray[np.float32] = field(repr=False)

    @classmethod
    def of(cls, schedule: Schedule, nll: ArrayLike, evaluations: ArrayLike, tokens: ArrayLike) -> "MeasuredRule":
        """From what each text cost.

        Arguments:
            schedule: The schedule.
            nll: Nats of each text.
            evaluations: Evaluations spent on each.
            tokens: Tokens to fill in each.

        Example:
            >>> from unmask import order, size
            >>> rule = MeasuredRule.of(Schedule(size.Threshold(0.9), order.Confidence()), [3.0, 5.0], [2, 3], [8, 8])
            >>> rule.cost, rule.error, rule.spent
            (4.0, 1.0, 2.5)
        """
        check.instance("schedule", schedule, Schedule, "be a Schedule")
        given = {"nll": nll, "evaluations": evaluations, "tokens": tokens}
        columns = [check.numbers(name, values) for name, values in given.items()]
        texts = columns[0].size
        for name, each in zip(given, columns, strict=True):
            if each.ndim != 1 or texts < 2 or each.size != texts:
                raise check.InputError(name, "hold one number for each of at least 2 texts")
            if not np.all((each >= 0) & (each <= LARGEST)):
                raise check.InputError(name, "hold finite numbers, none of them negative")
        _check_tokens(columns[-1])
        each = Groups(texts, np.empty((texts, 0), dtype=np.float32))
        kept = (each.joined_values(values, min(texts, _KEPT)).astype(np.float32) for values in columns)
        return cls(schedule, texts, *kept)

    @property
    def cost(self) -> float:
        """Nats per sequence."""
        return float(self._sizes @ self.nll) / self.texts

    @property
    def spent(self) -> float:
        """Evaluations of a sequence, on average."""
        return float(self._sizes @ self.evaluations) / self.texts

    @property
    def filled(self) -> float:
        """Tokens to fill in a text, on average."""
        return float(self._sizes @ self.tokens) / self.texts

    @property
    def one_by_one(self) -> bool:
        """Whether it reveals one token at each step, in an order that was fixed beforehand."""
        return self.schedule.blind and bool(np.allclose(self.evaluations, self.tokens))

    @property
    def error(self) -> float:
        """Standard error of the cost over texts that have as many tokens to fill on average.

        That is the one of nats per token, times this average: texts that cost more only for being longer do not add to
        it. Not a number where a single mean is left of them.

        Example:
            >>> from unmask import order, size
            >>> schedule = Schedule(size.Threshold(0.9), order.Confidence())
            >>> longer = MeasuredRule.of(schedule, [10.0, 20.0, 30.0], [1, 1, 1], [10, 20, 30])
            >>> longer.cost, longer.error  # one nat for each token
            (20.0, 0.0)
        """
        return self.differences.error if self.nll.size > 1 else math.nan

    @property
    def differences(self) -> Deviations:
        """By how much texts deviate from what their tokens cost on average."""
        return Deviations.of(self.texts, self.nll, self.tokens)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """Texts of each group."""
        return np.diff(Groups.bounds(self.texts, self.nll.size))

    def without(self, fold: Fold) -> "MeasuredRule":
        """The means over the other texts."""
        bounds = Groups.bounds(self.texts, self.nll.size)
        weights = np.diff(bounds) * ~fold.among(self.texts)[bounds[:-1]]
        columns = (self.nll, self.evaluations, self.tokens)
        means = [np.array([weights @ each / weights.sum()], np.float32) for each in columns]
        return MeasuredRule(self.schedule, int(weights.sum()), *means)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "schedule": self.schedule.to_json(),
            "nll": text_of(self.nll),
            "evaluations": text_of(self.evaluations),
            "tokens": text_of(self.tokens),
        }

    @classmethod
    def from_json(cls, data: object, texts: int) -> "MeasuredRule":
        """What `to_json` described, on so many texts.

        Raises:
            InputError: if it cannot have been that.
        """
        given = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        if not {"schedule", *_COLUMNS} <= given.keys():
            raise check.InputError("rules", f"be objects with schedule, {', '.join(_COLUMNS[:-1])} and {_COLUMNS[-1]}")
        check.integer("texts", texts, least=2)
        columns = [numbers_of(key, given[key], min(texts, _KEPT)) for key in _COLUMNS]
        _check_tokens(columns[-1])
        return cls(Schedule.from_json(given["schedule"]), texts, *columns)


def _check_tokens(tokens: NDArray[Any]) -> None:
    if not np.all(tokens >= 1):  # costs are divided by them
        raise check.InputError("tokens", "be at least 1 for each text", found=f"{tokens.min():g}")
