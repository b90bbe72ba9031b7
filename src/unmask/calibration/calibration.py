"""What was measured of a model under several orders, kept in a file, and the schedules it implies."""

import json
import os
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask import _files, size
from unmask._atomic import replacing
from unmask.calibration.groups import Deviations, Fold
from unmask.calibration.losses import AGAIN, Losses, Predicted
from unmask.calibration.mixed import Mixed
from unmask.calibration.onelength import Curved, OneLength
from unmask.calibration.rules import MeasuredRule
from unmask.calibration.saved import decoded, encoded
from unmask.information.curve import Curve
from unmask.order import Random
from unmask.schedule import Schedule

SCHEMA = 1


@final
@dataclass(frozen=True, eq=False)
class Forecast:
    """A schedule that a calibration implies.

    Attributes:
        schedule: The schedule.
        nll: Its predicted negative log-likelihood in nats per sequence.
        error: Its standard error over texts that have as many tokens to fill on average: that of nats per token, times
            this average.
        exact_error: True if that is the spread of this very cost; False if it is only about so much, since the
            calibration has not kept how texts differ (see `unmask.calibration.onelength.OneLength.cost`).
        sizes: Its sizes for the largest number of tokens to fill.
    """

    schedule: Schedule
    nll: float
    error: float
    exact_error: bool = False
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def size(self) -> size.Planned:
        """How many tokens the schedule reveals at each step, for any number of them."""
        assert isinstance(self.schedule.size, size.Planned)
        return self.schedule.size


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """The measured losses of a model under several orders.

    Attributes:
        length: Tokens to fill in a text; in the one that has most, where they differ.
        model: A fingerprint of the model.
        texts: Number of texts.
        losses: What was measured, by the name of the order.
        source: A fingerprint of the texts and of the seed of the orders; empty if nobody needs to know.
        wanted: Names of all orders and rules that were to be measured; more than there are while that is going on.
        rules: What was measured schedule by schedule on the same texts, by name: rules that look at predictions, and
            all there is of a model that remembers.
    """

    length: int
    model: str
    texts: int
    losses: dict[str, Losses] = field(default_factory=dict[str, Losses])
    source: str = ""
    wanted: tuple[str, ...] = ()
    rules: dict[str, MeasuredRule] = field(default_factory=dict[str, MeasuredRule])

    @property
    def missing(self) -> list[str]:
        """Orders and rules that were to be measured and are not."""
        return [name for name in self.wanted if name not in self.losses and name not in self.rules]

    @property
    def random(self) -> Losses | None:
        """What was measured of the random order, if it was."""
        return next((each for each in self.losses.values() if isinstance(each.order, Random)), None)

    @property
    def curve(self) -> Curve | None:
        """The loss curve of the random order, on texts that all have as many tokens to fill; None otherwise."""
        return self.random.curve if isinstance(self.random, Curved) else None

    @property
    def tokens(self) -> float:
        """Tokens to fill in a text, on average."""
        if not self.losses and self.rules:
            return next(iter(self.rules.values())).filled
        mixed = next((each for each in self.losses.values() if isinstance(each, Mixed)), None)
        return float(self.length) if mixed is None else float(mixed.tokens.mean())

    def tokens_of(self, groups: int) -> NDArray[np.float64]:
        """The same, of each of so many groups of texts."""
        groups = check.integer("groups", groups, least=1, most=self.texts)
        if not self.losses and self.rules:
            rule = next(iter(self.rules.values()))
            return Deviations(self.texts, rule.tokens.astype(np.float64)).joined(groups)
        mixed = next((each for each in self.losses.values() if isinstance(each, Mixed)), None)
        if mixed is None:
            return np.full(groups, float(self.length))
        return Deviations(self.texts, mixed.tokens.astype(np.float64)).joined(groups)

    def predict(self, name: str, sizes: ArrayLike) -> Predicted:
        """What given sizes cost under a measured order, on texts that all have so many tokens to fill."""
        losses = self._named(name)
        if not isinstance(losses, OneLength):
            raise check.InputError(
                "sizes", "be for texts that all have the same number of tokens to fill",
                detail="but this calibration's texts have different numbers",
                remedy="Call unmask.calibration.forecast(calibration, schedule) instead.",
            )  # fmt: skip
        return losses.cost(sizes)

    def plan(self, name: str, steps: int) -> Forecast:
        """The best sizes with `steps` steps under a measured order."""
        losses = self._named(name)
        if check.integer("steps", steps, least=1, most=check.EXACT) > losses.most:
            raise check.InputError(
                "steps",
                f"be at most {losses.most}",
                found=f"{steps}",
                detail=f"because the order {name} was measured at {losses.most} places",
            )
        best = losses.best(steps)
        found = losses.forecast(best)
        assert found is not None  # the best sizes have their cuts where it was measured
        return Forecast(losses.schedule(steps), *found, best.sizes(losses.length))

    def costs(self, name: str) -> NDArray[np.float64]:
        """The predicted nats per sequence of the best sizes with 1, 2, … steps, as many as the order allows."""
        return self._named(name).costs

    def best(self, steps: int) -> list[tuple[str, Forecast]]:
        """The plans of all orders that allow `steps` steps, the best first."""
        steps = check.integer("steps", steps, least=1)
        able = (name for name, losses in self.losses.items() if steps <= losses.most)
        return sorted(((name, self.plan(name, steps)) for name in able), key=lambda pair: pair[1].nll)

    def merged(self, other: "Calibration") -> "Calibration":
        """The orders and rules of both, of which the other's count where both have one.

        Raises:
            InputError: if they are of different models, lengths or texts.
        """
        if not isinstance(other, Calibration):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise check.InputError("other", "be a Calibration", found=check.type_of(other))
        for what in ("model", "length", "texts", "source"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                kind = {"length": "sequences of another length", "model": "another model"}.get(what, "other texts")
                must = f"have {mine} texts" if what == "texts" else f"have the {what} {check.shown(mine)}"
                remedy = f"It was measured on {kind}."
                raise check.InputError("other", must, found=check.shown(theirs), remedy=remedy)
        wanted = dict.fromkeys([*self.wanted, *other.wanted])
        losses, rules = {**self.losses, **other.losses}, {**self.rules, **other.rules}
        return replace(self, losses=losses, wanted=tuple(wanted), rules=rules)

    def without(self, fold: Fold) -> "Calibration":
        """What the other texts would have given; it must be known how texts differ."""
        check.instance("fold", fold, Fold, "be a Fold")
        left = self.texts - int(fold.among(self.texts).sum())
        losses = {name: each.without(fold) for name, each in self.losses.items()}
        rules = {name: each.without(fold) for name, each in self.rules.items()}
        return replace(self, texts=left, losses=losses, rules=rules)

    def _named(self, name: str) -> Losses:
        return self.losses[check.known("order", name, self.losses)]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "schema": SCHEMA,
            "length": self.length,
            "model": self.model,
            "texts": self.texts,
            "source": self.source,
            "wanted": list(self.wanted),
            "losses": {name: encoded(losses) for name, losses in self.losses.items()},
            **({"rules": {name: rule.to_json() for name, rule in self.rules.items()}} if self.rules else {}),
        }

    @classmethod
    def from_json(cls, data: object) -> "Calibration":
        """What `to_json` described. Files come from strangers: what no `measure` makes is refused.

        Raises:
            InputError: if it is no calibration, or damaged.
        """
        if not isinstance(data, dict):
            _refuse_version()
        found = cast("dict[str, Any]", data)
        if type(found.get("schema")) is not int or found["schema"] != SCHEMA or "losses" not in found:
            _refuse_version()
        try:
            length = check.integer("length", found.get("length"), least=1, most=check.EXACT - 1)
            texts = check.integer("texts", found.get("texts"), least=1, most=check.EXACT - 1)
            model, source = _text("model", found.get("model")), _text("source", found.get("source", ""))
            names = found.get("wanted", [])
            if not isinstance(names, list):
                raise check.InputError("wanted", "be a list of names", found=check.shown(names))
            wanted = tuple(_text("wanted", name) for name in cast("list[object]", names))
            if not isinstance(found["losses"], dict):
                raise check.InputError("losses", "be an object", found=check.shown(found["losses"]))
            parts = cast("dict[str, Any]", found["losses"])
            if not isinstance(found.get("rules", {}), dict):
                raise check.InputError("rules", "be an object", found=check.shown(found["rules"]))
        except check.InputError as error:
            _refuse(error)
        losses: dict[str, Losses] = {}
        for name, part in parts.items():
            try:
                losses[name] = decoded(part, length, texts)
            except check.InputError as error:
                _refuse(error, f" of the order {check.shown(name)}")
        rules: dict[str, MeasuredRule] = {}
        for name, part in cast("dict[str, Any]", found.get("rules", {})).items():
            try:
                rules[name] = MeasuredRule.from_json(part, texts)
            except check.InputError as error:
                _refuse(error, f" of the rule {check.shown(name)}")
        return cls(length, model, texts, losses, source, wanted, rules)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        with replacing(check.path("path", path)) as file:
            file.write_text(json.dumps(self.to_json()) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Read what `save` wrote.

        Raises:
            InputError: if the file cannot be read, or holds anything else.
        """
        text = _files.read_text(path, "path", most=_files.CALIBRATION)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise check.InputError("path", "be a calibration file in valid JSON") from None
        return cls.from_json(data)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise check.InputError(key, "be text", found=check.shown(value))
    return value


def _refuse(error: check.InputError, where: str = "") -> NoReturn:
    reason = error.sentence(lambda name: f"'{name}'", lambda name: f"'{name}'{where}")
    raise check.InputError("", f"The calibration is damaged: {reason}") from None


def _refuse_version() -> NoReturn:
    raise check.InputError("", "The calibration was not written by this version of unmask", remedy=AGAIN)
