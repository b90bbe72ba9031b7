"""Measure a model once; then the best schedule for it is a computation.

For a blind order, one forward pass per text with the first `n` tokens of the order visible gives the loss of every
token after them. From some such `n`, fine where the losses change, the cost of any sizes is a sum and the best sizes
are a shortest path (`unmask.losses`).

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

from unmask import check, size
from unmask.atomic import replacing
from unmask.backend import Tensor, torch
from unmask.engine import LOCAL, Engine, Report, parts
from unmask.losses import Curved, Losses, losses_of
from unmask.order import BlindOrder, Comb
from unmask.predict import MaskPredictor
from unmask.schedule import ORDERS, Schedule, decode, encode

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule that a calibration implies.

    Attributes:
        schedule: The schedule.
        nll: Its predicted negative log-likelihood in nats per sequence.
        error: Its standard error, about (see `unmask.losses.Losses.cost`).
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

    @property
    def random(self) -> Curved | None:
        """What was measured of the random order, if it was."""
        return next((each for each in self.losses.values() if isinstance(each, Curved)), None)

    def predict(self, name: str, sizes: NDArray[np.int64]) -> tuple[float, float]:
        """Predicted nats per sequence of given sizes under a measured order, and its standard error (see `Plan`)."""
        return self._named(name).cost(sizes)

    def plan(self, name: str, steps: int) -> Plan:
        """The best sizes with `steps` steps under a measured order."""
        losses = self._named(name)
        nodes = losses.nodes
        if steps > nodes.size - 1:
            raise ValueError(
                f"Argument 'steps' must be at most {nodes.size - 1} for the order {name}, whose cuts were measured "
                f"at so many places, not {steps}."
            )
        best = np.diff(nodes[losses.paths(steps).cuts(steps)])
        return Plan(Schedule(size.Explicit(best), losses.order), *losses.cost(best))

    def costs(self, name: str) -> NDArray[np.float64]:
        """The predicted nats per sequence of the best sizes with 1, 2, … steps, as many as the order allows."""
        losses = self._named(name)
        return losses.paths(losses.nodes.size - 1).costs

    def best(self, steps: int) -> list[tuple[str, Plan]]:
        """The plans of all orders that allow `steps` steps, the best first."""
        able = (name for name, losses in self.losses.items() if steps < losses.nodes.size)
        return sorted(((name, self.plan(name, steps)) for name in able), key=lambda pair: pair[1].nll)

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
            raise ValueError("A calibration must be one that was written by this version of unmask, which this is not.")
        try:
            losses = {
                str(name): losses_of(
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
            if type(number) is not int or not 1 <= number < check.EXACT:
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
    return losses_of(
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
