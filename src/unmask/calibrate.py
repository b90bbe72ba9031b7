"""Measure a model once; then the best schedule for it is a computation.

For a blind order, let `ℓ(n, j)` be the model's cross-entropy on the token of rank `j` when the first `n` of the order
are visible. One forward pass per text with `n` visible gives the whole row `ℓ(n, ·)`. The negative log-likelihood of
the K-step sampler with cuts `0 = N_0 < … < N_K = L` is then

    Σ_k Σ_{j=N_{k−1}+1}^{N_k} ℓ(N_{k−1}, j)

and the best cuts among the measured `n` are a shortest path. Nothing between measured rows is made up, except for the
random order: there the row is one number, the loss curve `ℓ(n)`, measured on a grid that is fine where the curve
bends, made non-increasing by isotonic regression and interpolated.

The numbers include the model's own error, so they are the total cost of a schedule on texts like those measured.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from unmask import check, size
from unmask.atomic import replacing
from unmask.backend import Tensor, torch
from unmask.curve import Curve
from unmask.engine import LOCAL, Engine, Report, parts
from unmask.order import BlindOrder, Comb, Random
from unmask.predict import MaskPredictor
from unmask.schedule import ORDERS, Schedule, decode, encode

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Losses:
    """What was measured of one order.

    Attributes:
        order: The order. visible: Numbers of visible tokens that were measured, ascending from 0. table: Shape
        `(len(visible), length)`: mean loss in nats of the token of rank `j+1` in column `j`; 0 where it is visible.
        error: Standard error over texts of the mean loss of a masked token, for each row.
    """

    order: BlindOrder
    visible: NDArray[np.int64]
    table: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def length(self) -> int:
        return self.table.shape[1]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean loss of a masked token, for each row."""
        return self.table.sum(axis=1) / (self.length - self.visible)

    def curve(self) -> Curve:
        """The loss curve of the random order: isotonic where measured, linear in between."""
        if not isinstance(self.order, Random):
            raise ValueError("Only the random order has a loss curve; other orders have a table.")
        weight = 1 / np.maximum(self.error, 1e-12) ** 2
        fitted = isotonic_regression(self.mean, weights=weight / weight.max(), increasing=False).x
        return Curve(np.interp(np.arange(self.length), self.visible, fitted))

    def rows(self) -> NDArray[np.float64]:
        """The table for every number of visible tokens that a cut may use: measured, or interpolated for `Random`."""
        if isinstance(self.order, Random):
            return np.repeat(self.curve().loss[:, None], self.length, axis=1)
        return self.table


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule that a calibration implies.

    Attributes:
        schedule: The schedule.
        nll: Its predicted negative log-likelihood in nats per sequence.
        error: Its standard error, about: the errors of the rows' means, added up. For the random order that is a bound;
            under other orders the tokens of a step may vary more or less than those of the whole row.
    """

    schedule: Schedule
    nll: float
    error: float

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The sizes of the schedule."""
        assert isinstance(self.schedule.size, size.Explicit)
        return np.array(self.schedule.size.values)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The measured losses of a model under several orders, on texts of one length.

    Attributes:
        length: Tokens per text.
        model: A fingerprint of the model.
        texts: Number of texts.
        losses: What was measured, by the name of the order.
        source: A fingerprint of the texts and of the seed of the orders; empty if nobody needs to know.
        wanted: Names of all orders that were to be measured; more than there are losses while that is going on.
    """

    length: int
    model: str
    texts: int
    losses: dict[str, Losses] = field(default_factory=dict)
    source: str = ""
    wanted: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Orders that were to be measured and are not."""
        return [name for name in self.wanted if name not in self.losses]

    def predict(self, name: str, sizes: NDArray[np.int64]) -> tuple[float, float]:
        """Predicted nats per sequence of given sizes under a measured order, and its standard error (see `Plan`)."""
        losses = self.losses[check.known("order", name, self.losses)]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        index = self._rows_at(losses, starts)
        rows = losses.rows()
        nll = sum(rows[i, n : n + s].sum() for i, n, s in zip(index, starts, sizes, strict=True))
        error = np.interp(starts, losses.visible, losses.error)
        return float(nll), float(error @ sizes)

    def plan(self, name: str, steps: int) -> Plan:
        """The best sizes with `steps` steps under a measured order."""
        losses = self.losses[check.known("order", name, self.losses)]
        nodes, paths = self._paths(losses)
        if steps > nodes.size - 1:
            raise ValueError(
                f"Argument 'steps' must be at most {nodes.size - 1} for the order {name}, whose cuts were measured "
                f"at so many places, not {steps}."
            )
        best = np.diff(nodes[paths(steps).cuts(steps)])
        nll, error = self.predict(name, best)
        return Plan(Schedule(size.Explicit(best), losses.order), nll, error)

    def costs(self, name: str) -> NDArray[np.float64]:
        """The predicted nats per sequence of the best sizes with 1, 2, … steps, as many as the order allows."""
        nodes, paths = self._paths(self.losses[check.known("order", name, self.losses)])
        return paths(nodes.size - 1).costs

    def best(self, steps: int) -> list[tuple[str, Plan]]:
        """The plans of all orders that allow `steps` steps, the best first."""
        plans = []
        for name, losses in self.losses.items():
            if steps <= (self.length if isinstance(losses.order, Random) else losses.visible.size):
                plans.append((name, self.plan(name, steps)))
        return sorted(plans, key=lambda pair: pair[1].nll)

    def _paths(self, losses: Losses) -> tuple[NDArray[np.int64], Callable[[int], size.Paths]]:
        """Where cuts may fall, both ends included, and the best paths through them for up to some number of steps."""
        if isinstance(losses.order, Random):
            curve = losses.curve()
            return np.arange(self.length + 1), lambda steps: size.best_paths(curve, steps)
        nodes = np.append(losses.visible, self.length)
        total = np.concatenate([np.zeros((losses.visible.size, 1)), np.cumsum(losses.table, axis=1)], axis=1)
        reach = total[:, nodes[1:]] - np.take_along_axis(total, losses.visible[:, None], axis=1)
        return nodes, lambda steps: size.table_paths(reach, steps)

    def _rows_at(self, losses: Losses, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        if isinstance(losses.order, Random):
            return starts
        index = np.searchsorted(losses.visible, starts)
        missing = starts[
            (index == losses.visible.size) | (losses.visible[np.minimum(index, losses.visible.size - 1)] != starts)
        ]
        if missing.size:
            raise ValueError(
                f"A cut at {int(missing[0])} visible tokens was not measured for this order. "
                f"It was measured at {', '.join(map(str, losses.visible[:12].tolist()))} …"
            )
        return index

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "schema": SCHEMA,
            "length": self.length,
            "model": self.model,
            "texts": self.texts,
            "source": self.source,
            "wanted": list(self.wanted),
            "losses": {
                name: {
                    "order": encode(losses.order, ORDERS),
                    "visible": losses.visible.tolist(),
                    "table": [[float(f"{value:.6g}") for value in row] for row in losses.table.tolist()],
                    "error": losses.error.tolist(),
                }
                for name, losses in self.losses.items()
            },
        }

    @classmethod
    def from_json(cls, data: Any) -> "Calibration":
        """What `to_json` described."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or "losses" not in data:
            raise ValueError("The file must be a calibration written by this version of unmask.")
        try:
            losses = {
                str(name): Losses(
                    decode(part["order"], "order", ORDERS),
                    np.array(part["visible"], dtype=np.int64),
                    np.array(part["table"], dtype=np.float64),
                    np.array(part["error"], dtype=np.float64),
                )
                for name, part in data["losses"].items()
            }
            result = cls(data["length"], data["model"], data["texts"], losses, data.get("source", ""))
            result = replace(result, wanted=tuple(str(name) for name in data.get("wanted", ())))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"The calibration is damaged: {error!r}.") from None
        result._check()
        return result

    def _check(self) -> None:
        """Refuse what no `measure` makes: files come from strangers, and what they say is computed with and shown."""
        for key, number in (("length", self.length), ("texts", self.texts)):
            if type(number) is not int or not 1 <= number < 2**53:
                found = repr(number)[:40]
                raise ValueError(f"The calibration is damaged: '{key}' must be a positive integer, not {found}.")
        for key, text in (("model", self.model), ("source", self.source)):
            if not isinstance(text, str):
                raise ValueError(f"The calibration is damaged: '{key}' must be text, not {repr(text)[:40]}.")
        for name, part in self.losses.items():
            fits = part.table.shape == (part.visible.size, self.length) and part.error.shape == part.visible.shape
            if not fits or not part.visible.size:
                raise ValueError(f"The calibration is damaged: the numbers of the order {name} do not fit together.")
            if part.visible[0] != 0 or part.visible[-1] >= self.length or np.any(np.diff(part.visible) <= 0):
                raise ValueError(f"The calibration is damaged: 'visible' of the order {name} must ascend from 0.")
            if not all(np.all(np.isfinite(values) & (values >= 0)) for values in (part.table, part.error)):
                raise ValueError(f"The calibration is damaged: a loss or error of the order {name} is not possible.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON; the file appears complete or not at all."""
        with replacing(path) as file:
            file.write_text(json.dumps(self.to_json()) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Read what `save` wrote."""
        try:
            data = json.loads(Path(path).read_text())
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError(f"Argument 'path' must name a calibration in JSON, which {path} is not.") from None
        return cls.from_json(data)


def fingerprint(model: torch.nn.Module) -> str:
    """A short name for the weights of a model."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().to(torch.float16).numpy().tobytes())
    return digest.hexdigest()[:16]


def measure(
    predictor: MaskPredictor,
    order: BlindOrder,
    tokens: Tensor,
    *,
    seed: int,
    masked: Tensor | None = None,
    points: int = 33,
    steps: int | None = None,
    places: Sequence[int] = (),
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> Losses:
    """Measure the losses of one order.

    Arguments:
        predictor: The model.
        order: A blind order. For `Comb` every start of a tooth is measured, and no other place.
        tokens: Texts, shape `(count, length)`, at least 2.
        seed: Seeds the orders: each text has one order, the same for every number of visible tokens.
        masked: Positions to be revealed, of the same shape and as many in each text; all by default. The others are
            given, and the result is that of sequences of so many tokens.
        points: How many numbers of visible tokens to measure for other orders.
        steps: Number of steps the order is told (for a comb without a number of segments).
        places: Numbers of visible tokens that must be among the points.
        batch: Texts at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of texts finished since the last call.
    """
    check.integer("count", tokens.shape[0], least=2)
    hidden = (torch.ones_like(tokens, dtype=torch.bool) if masked is None else masked).cpu().numpy()
    length = _common(hidden, tokens)
    ranks = np.full(tokens.shape, -1, dtype=np.int64)
    for row, positions in enumerate(map(np.flatnonzero, hidden)):
        rng = np.random.default_rng([seed, row])
        arranged = order.arrange(positions, length=tokens.shape[1], steps=steps or length, rng=rng)
        ranks[row, arranged] = np.arange(length)
    rank = torch.from_numpy(ranks).to(tokens.device)
    rows: dict[int, tuple[NDArray[np.float64], float]] = {}

    # Copies, since a slice would travel with the whole it was cut from.
    texts = [(tokens[part].clone(), rank[part].clone()) for part in parts(len(tokens), batch)]
    run = engine.prepare(_Measured(predictor, length))

    def visit(*wanted: int) -> None:
        shards = [(visible, *text) for visible in wanted for text in texts]
        found = run(shards, lambda shard, done: progress(done))
        for number, visible in enumerate(wanted):
            rows[visible] = _row(found[number * len(texts) : (number + 1) * len(texts)], len(tokens))

    if isinstance(order, Comb):
        # Teeth differ by one token where they cannot be equal, the longer ones first, as even sizes do.
        teeth = size.Even(order.teeth(length, steps or length)).sizes(length)
        visit(*(np.cumsum(teeth) - teeth).tolist())
    else:
        visit(*sorted({0, length // 2, length - 1, *places}))
        while len(rows) < min(points, length):
            visit(_next_place(rows, length))
    places = sorted(rows)
    return Losses(
        order,
        np.array(places),
        np.stack([rows[place][0] for place in places]),
        np.array([rows[place][1] for place in places]),
    )


def _common(hidden: NDArray[np.bool_], tokens: Tensor) -> int:
    """How many positions are masked, in every text."""
    if hidden.dtype != np.bool_ or hidden.shape != tuple(tokens.shape):
        raise ValueError(
            f"Argument 'masked' must hold booleans of shape {tuple(tokens.shape)}, "
            f"not {hidden.dtype} of shape {hidden.shape}."
        )
    counts = hidden.sum(axis=1)
    if counts.min() != counts.max() or counts.min() == 0:
        raise ValueError(
            f"Argument 'masked' must have as many positions in each text, at least 1, not {counts.min()} to "
            f"{counts.max()}."
        )
    return int(counts[0])


def _next_place(rows: dict[int, tuple[NDArray[np.float64], float]], length: int) -> int:
    """The middle of the gap over which the mean loss is least certain: the largest drop times width."""
    places = sorted(rows)
    mean = {place: rows[place][0].sum() / (length - place) for place in places}
    gaps = [(a, b) for a, b in pairwise(places) if b - a > 1]
    low, high = max(gaps, key=lambda gap: (abs(mean[gap[0]] - mean[gap[1]]) + 1e-3) * (gap[1] - gap[0]))
    return (low + high) // 2


@dataclass(frozen=True, eq=False)
class _Measured:
    """Work on shards: a number of visible tokens, texts, and the rank of each position, −1 where it is given.

    Its result is the losses by rank, summed over the texts, and the mean loss of each text.
    """

    predictor: MaskPredictor
    length: int

    @torch.no_grad()
    def __call__(self, shard: tuple[int, Tensor, Tensor], report: Report) -> tuple[Tensor, Tensor]:
        visible, tokens, rank = shard
        masked = rank >= visible
        rows = torch.nonzero(masked.flatten())[:, 0]
        prediction = self.predictor(tokens.masked_fill(masked, self.predictor.mask), masked, rows)
        loss = prediction.losses(tokens.flatten()[rows])
        count = len(tokens)
        # Written to places of their own and then summed: adding up in place has no fixed order on a GPU.
        losses = torch.zeros((count, self.length), dtype=torch.float64, device=tokens.device)
        losses[rows // tokens.shape[1], rank.flatten()[rows]] = loss
        report(count)
        return losses.sum(dim=0).cpu(), loss.view(count, self.length - visible).mean(dim=1).cpu()


def _row(found: list[tuple[Tensor, Tensor]], count: int) -> tuple[NDArray[np.float64], float]:
    """Mean loss by rank, and the standard error over texts of a masked token's, from all shards in their order."""
    total = torch.zeros_like(found[0][0])
    for part, _ in found:
        total += part
    spread = torch.cat([means for _, means in found])
    if not bool(torch.isfinite(spread).all()):
        raise FloatingPointError("The model gives losses that are not numbers; nothing can be measured with it.")
    return (total / count).numpy(), float(spread.std() / spread.numel() ** 0.5)
