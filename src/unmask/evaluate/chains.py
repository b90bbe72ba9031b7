"""The exact distribution of a sampler that takes tokens back, for distributions small enough to enumerate.

With a revision the sampler is a Markov chain on partial sequences, followed here from step to step whatever the rule.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.evaluate.enumeration import joint_of
from unmask.information.measures import kl
from unmask.order import BlindOrder, Blocks, Calibrated, Delimited, EndLater, Random, ReactiveOrder
from unmask.predict import MaskPredictor, Prediction, predicting
from unmask.predict.base import mask_predictor
from unmask.revision import Asking, Redraw, Rewrite, Situation, TakeBack
from unmask.sample.ranking import Ranking, counted
from unmask.schedule import Schedule
from unmask.size import LogLinear, Stable
from unmask.size.base import Blind, Planned

_MASKED = -1
_LARGEST = 4096  # partial sequences
_STEPS = 64  # of a size that looks at predictions, before we say that it does not end

# A partial sequence, what else decides about it, and its probability. The second is the log-probability with which
# each token was drawn, for rules that recall it; the third which positions the last step revealed, for sizes that look.
_Key = tuple[tuple[int, ...], tuple[float, ...], tuple[bool, ...]]
_Law = dict[_Key, float]


@final
@dataclass(frozen=True, eq=False)
class RevisedLaw:
    """What a sampler generates, and how far that is from a target.

    Attributes:
        output: The law of its texts, an array of shape `(vocab,) * length`.
        kl: `KL(p ‖ q)` from the target to it, in nats.
        total_variation: Half the sum of absolute differences.
        evaluations: Evaluations of a sequence, on average.
    """

    output: NDArray[np.float64]
    kl: float
    total_variation: float
    evaluations: float

    def __post_init__(self):
        check.numbers("output", self.output)
        for name in ("total_variation", "evaluations"):
            check.real(name, getattr(self, name), least=0.0)


def revised_law(predictor: MaskPredictor, schedule: Schedule, target: ArrayLike) -> RevisedLaw:
    """Enumerate a sampler with any revision, or none, from fully masked sequences at temperature 1.

    Arguments:
        predictor: The model; `ExactPredictor(distribution)` is the perfect one.
        schedule: Fixed sizes, `LogLinear`, or sizes that look at predictions; an order that is random, always the
            same, or looks at predictions; no blocks.
        target: The joint distribution to compare with, an array of shape `(vocab,) * length`.

    Example:
        >>> from unmask import order, revision, size
        >>> from unmask.distribution import Parity, Table
        >>> from unmask.predict import ExactPredictor
        >>> pair = Table.of(Parity(2)).probabilities  # two equal bits
        >>> one = Schedule(size.Even(1), order.Random())
        >>> fixed = Schedule(size.Even(1), order.Random(), revision.Gibbs(1))
        >>> [round(revised_law(ExactPredictor(Parity(2)), each, pair).total_variation, 3) for each in (one, fixed)]
        [0.5, 0.0]
    """
    mask_predictor(predictor)
    check.instance("schedule", schedule, Schedule, "be a Schedule")
    joint = joint_of(target)
    if (vocab := joint.shape[0]) != predictor.vocab:
        raise check.InputError("target", f"have {predictor.vocab} tokens, like the predictor", found=f"{vocab}")
    if (vocab + 1) ** (length := joint.ndim) > _LARGEST:
        raise check.InputError("target", "be small enough to enumerate", found=f"{vocab}^{length} sequences")
    _check_schedule(schedule)
    if predictor.remembers and schedule.revision is None:
        must = "have no memory if the schedule has no revision"
        raise check.InputError("predictor", must, remedy="Use evaluate.replay.")
    law, evaluations = _Chain(predictor, schedule, length, vocab)()
    output = np.zeros(joint.shape)
    for (tokens, _, _), chance in law.items():
        output[tokens] += chance
    return RevisedLaw(output, kl(joint.ravel(), output.ravel()), float(np.abs(joint - output).sum()) / 2, evaluations)


def _check_schedule(schedule: Schedule) -> None:
    order, size, rule = schedule.order, schedule.size, schedule.revision
    if isinstance(order, Blocks | Delimited):
        raise check.InputError("schedule", "have no blocks, because they cannot be enumerated")
    if schedule.spaced is not None or isinstance(order, Calibrated | EndLater) or isinstance(size, Stable):
        raise check.InputError("schedule", "not use Spaced, Calibrated, EndLater or Stable, which cannot be enumerated")
    if isinstance(order, BlindOrder) and not isinstance(order, Random) and not order.fixed:
        remedy = "Give it a shift." if hasattr(order, "shift") else ""
        raise check.InputError("schedule", "have a random or a fixed order", found=check.shown(order), remedy=remedy)
    if isinstance(size, Blind) and not isinstance(size, Planned | LogLinear):
        raise check.InputError("schedule", "have fixed or log-linear sizes", found=check.shown(size))
    if rule is not None and rule.extra:
        raise check.InputError("schedule", "have no extra steps after the last, because these cannot be enumerated")
    if isinstance(size, LogLinear) and not (isinstance(rule, TakeBack) and rule.by_rate):
        raise check.InputError("schedule", "have a revision that remasks at random if its sizes are log-linear")


@final
class _Chain:
    """The distribution over partial sequences, step by step."""

    def __init__(self, predictor: MaskPredictor, schedule: Schedule, length: int, vocab: int):
        self.predictor, self.schedule, self.length, self.vocab = predictor, schedule, length, vocab
        self.revision = schedule.revision
        self.asks = Asking.NOTHING if self.revision is None else self.revision.asks
        self.recalls = self.revision is not None and self.revision.recalls
        self.known = isinstance(schedule.size, Blind)
        self.drafts = isinstance(self.revision, TakeBack) and self.revision.drafts
        self.place: NDArray[np.int64] | None = None
        within = schedule.within
        if isinstance(within, BlindOrder) and not isinstance(within, Random):
            steps = schedule.size.steps if isinstance(schedule.size, Blind) else None
            ranked = within.arrange(np.arange(length), length=length, steps=steps, rng=0)
            self.place = np.argsort(ranked)

    def __call__(self) -> tuple[_Law, float]:
        nothing = ((_MASKED,) * self.length, (0.0,) * self.length if self.recalls else (), (False,) * self.length)
        law: _Law = {nothing: 1.0}
        spent = 0.0
        for step, (wanted, active, share) in enumerate(self._turns()):
            if wanted is None and all(_MASKED not in tokens for tokens, _, _ in law):
                break
            law, more = self._step(law, step, wanted, active, share)
            spent += more
        if any(_MASKED in tokens for tokens, _, _ in law):
            raise check.InputError("schedule", f"end within {_STEPS} steps")
        return law, spent

    def _turns(self) -> Iterator[tuple[int | None, bool, tuple[float, float] | None]]:
        """For each step how many more tokens stand after it, whether it revises, and shares where tokens choose."""
        size = self.schedule.size
        if not isinstance(size, Blind):
            yield from ((None, True, None) for _ in range(_STEPS))
            return
        own = isinstance(size, LogLinear)
        sizes = np.ones(size.steps, dtype=np.int64) if own else _positive(size, self.length)
        paced, active = (sizes, np.ones(sizes.size, bool)) if self.revision is None else self.revision.paced(sizes)
        ends = np.cumsum(paced) / sizes.sum()
        begins = ends - paced / sizes.sum()
        for count, revises, begin, end in zip(
            paced.tolist(), active.tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            yield (None if own else count), revises, (begin, end) if own else None

    @predicting
    def _step(
        self, law: _Law, step: int, wanted: int | None, active: bool, share: tuple[float, float] | None
    ) -> tuple[_Law, float]:
        keys = list(law)
        tokens = torch.tensor([key[0] for key in keys])
        masked = tokens == _MASKED
        blank = tokens.masked_fill(masked, self.predictor.mask)
        table = self._table(blank, masked)
        prediction = self.predictor(blank, masked)
        held = ~masked & active
        count = self._counts(prediction, masked, wanted)
        view = self._view(keys, table, blank, masked, held, count, step, share)
        chances = np.zeros(tuple(masked.shape))
        edits = np.zeros(tuple(masked.shape), dtype=bool)
        rate = None
        if isinstance(self.revision, TakeBack) and not self.drafts:
            chances = (self.revision.chances(view) * held).numpy()
            rate = self.revision.rate(view) * active
        if isinstance(self.revision, Rewrite):
            edits = (self.revision.rewritten(view) & held).numpy()
        score = self.schedule.within.score(prediction) if isinstance(self.schedule.within, ReactiveOrder) else None
        ranks = None if score is None else score.view(masked.shape).double().numpy()
        after: _Law = defaultdict(float)
        done: _Law = {}
        spent = 0.0
        for row, key in enumerate(keys):
            if _MASKED not in key[0] and not wanted and share is None:
                done[key] = law[key]
                continue
            edited = (
                {} if view.best is None else {int(at): int(view.best[row, at]) for at in np.flatnonzero(edits[row])}
            )
            free = [at for at in range(self.length) if key[0][at] == _MASKED]
            for chance, taken in self._takings(chances[row], int(view.most[row]), share is not None):
                for part, new, gone in self._revealed(
                    free, taken, table[row], ranks, row, int(count[row]), view, rate, share
                ):
                    weight = law[key] * chance * part
                    after[self._next(key, new, gone, edited, table[row])] += weight
                    spent += weight * (bool(new) or self.asks is Asking.VISIBLE)
            if self.asks is Asking.HIDDEN:
                spent += law[key] * int(held[row].sum())
        if isinstance(self.revision, Redraw):
            after, more = self._redrawn(after, self.revision)
            spent += more
        for key, weight in done.items():
            after[key] = after.get(key, 0.0) + weight
        return dict(after), spent

    def _table(self, tokens: Tensor, masked: Tensor) -> NDArray[np.float64]:
        """Probabilities at every position of every state, shape `(states, length, vocab)`."""
        # Probabilities in float32 sum to 1 within rounding alone.
        found = torch.softmax(self.predictor(tokens, masked).log_probabilities().double(), dim=-1)
        return found.view(*masked.shape, self.vocab).numpy()

    def _counts(self, prediction: Prediction, masked: Tensor, wanted: int | None) -> Tensor:
        if wanted is not None or self.known:
            return torch.full((len(masked),), wanted or 0).minimum(masked.sum(dim=1))
        size = self.schedule.size
        assert not isinstance(size, Blind)
        score = self.schedule.within.score(prediction) if isinstance(self.schedule.within, ReactiveOrder) else None
        dense = torch.zeros(masked.shape, dtype=torch.float64) if score is None else score.view(masked.shape).double()
        if self.place is not None:
            dense = -torch.as_tensor(self.place).expand(masked.shape).double()
        some = torch.nonzero(masked.any(dim=1))[:, 0]
        count = torch.zeros(len(masked), dtype=torch.int64)
        if len(some):
            rows = torch.nonzero(masked.flatten())[:, 0]
            local = torch.nonzero(masked[some].flatten())[:, 0]
            ranking = Ranking.of(masked[some], local, prediction.take(rows), dense.flatten()[rows])
            count[some] = counted(size, ranking)[1].to(torch.int64)
        return count

    def _view(
        self, keys: list[_Key], table: NDArray[np.float64], tokens: Tensor, masked: Tensor, held: Tensor,
        count: Tensor, step: int, share: tuple[float, float] | None,
    ) -> Situation:  # fmt: skip
        fresh = torch.tensor([key[2] for key in keys])
        left, last = masked.sum(dim=1), (fresh & held).sum(dim=1)
        most = left - count if self.known else torch.where(count > 1, (last - 1).clamp(min=0), 0)
        stand = (~masked).sum(dim=1).double()
        shares = torch.stack([stand / self.length, (stand + count) / self.length], dim=1)
        if share is not None:
            shares = shares.new_tensor(share).expand(len(keys), 2)
        drawn = torch.tensor([key[1] for key in keys]) if self.recalls else torch.zeros(masked.shape)
        revealed = torch.where(fresh, step - 1, step - 2)
        view = Situation(
            tokens, held, masked, torch.full(masked.shape, -torch.inf, dtype=torch.float64), drawn.double(), revealed,
            step, shares[:, :1], count, left if share is not None else most, shares[:, 1:] if self.known else None,
        )  # fmt: skip
        if self.asks is Asking.NOTHING:
            return view
        looked = torch.as_tensor(table)
        if self.asks is Asking.HIDDEN:
            looked = looked.clone()
            rows, places = torch.nonzero(held, as_tuple=True)
            if len(rows):
                alone = masked[rows].index_put((torch.arange(len(rows)), places), torch.tensor(True))
                copies = tokens[rows].masked_fill(alone, self.predictor.mask)
                wanted = torch.arange(len(rows)) * self.length + places
                looked[rows, places] = self.predictor(copies, alone, wanted).log_probabilities().double().exp()
        best = looked.max(dim=-1)
        seen = looked.gather(2, tokens.masked_fill(masked, 0)[..., None])[..., 0].log()
        return replace(view, seen=seen, best=best.indices, best_probability=best.values)

    def _takings(self, chances: NDArray[np.float64], most: int, own: bool) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Every set of positions that may be taken back, with its probability."""
        possible = [int(at) for at in np.flatnonzero(chances > 0)]
        for flags in product((False, True), repeat=len(possible)):
            chance = math.prod(
                float(chances[at]) if flag else 1 - float(chances[at]) for at, flag in zip(possible, flags, strict=True)
            )
            if chance == 0:
                continue
            chosen = [at for at, flag in zip(possible, flags, strict=True) if flag]
            if own or len(chosen) <= most:
                yield chance, tuple(chosen)
            else:  # as many as may be, at random
                every = list(combinations(chosen, most))
                yield from ((chance / len(every), each) for each in every)

    def _revealed(
        self, free: list[int], taken: tuple[int, ...], table: NDArray[np.float64],
        ranks: NDArray[np.float64] | None, row: int, count: int, view: Situation, rate: Tensor | None,
        share: tuple[float, float] | None,
    ) -> Iterator[tuple[float, dict[int, int], tuple[int, ...]]]:  # fmt: skip
        """Every way to reveal: its probability, the tokens of the positions revealed, and the positions taken back."""
        if self.drafts:
            yield from self._drafted(free, table, row, count, view)
            return
        count = count + len(taken) if self.known else count
        counts = [(1.0, count)]
        if share is not None:
            assert rate is not None
            q = (share[1] - (1 - float(rate[row])) * share[0]) / max(1 - share[0], 1e-300)
            counts = [(math.comb(len(free), k) * q**k * (1 - q) ** (len(free) - k), k) for k in range(len(free) + 1)]
        for weight, number in counts:
            if weight == 0:
                continue
            for part, chosen in self._sets(free, number, ranks, row):
                for tokens in product(range(self.vocab), repeat=len(chosen)):
                    chance = math.prod(float(table[at, token]) for at, token in zip(chosen, tokens, strict=True))
                    if chance:
                        yield weight * part * chance, dict(zip(chosen, tokens, strict=True)), taken

    def _sets(
        self, free: list[int], count: int, ranks: NDArray[np.float64] | None, row: int
    ) -> Iterator[tuple[float, tuple[int, ...]]]:
        if ranks is not None:
            yield 1.0, tuple(sorted(free, key=lambda at: (-ranks[row, at], at))[:count])
        elif self.place is not None:
            place = self.place
            yield 1.0, tuple(sorted(free, key=lambda at: int(place[at]))[:count])
        else:
            every = list(combinations(free, count))
            yield from ((1 / len(every), each) for each in every)

    def _drafted(
        self, free: list[int], table: NDArray[np.float64], row: int, count: int, view: Situation
    ) -> Iterator[tuple[float, dict[int, int], tuple[int, ...]]]:
        """Tokens first: every draft of all candidates, and what a rule keeps of it."""
        assert isinstance(self.revision, TakeBack)
        for tokens in product(range(self.vocab), repeat=len(free)):
            chance = math.prod(float(table[at, token]) for at, token in zip(free, tokens, strict=True))
            if chance == 0:
                continue
            rank = torch.full((1, self.length), -torch.inf, dtype=torch.float64)
            for at, token in zip(free, tokens, strict=True):
                rank[0, at] = math.log(table[at, token])
            own = _one(view, row, rank)
            taken = tuple(np.flatnonzero((self.revision.chances(own) * own.held).numpy()[0] > 0).tolist())
            kept = sorted(range(len(free)), key=lambda at: (-float(rank[0, free[at]]), free[at]))
            kept = kept[: count + len(taken)]
            yield chance, {free[at]: tokens[at] for at in kept}, taken

    def _next(
        self, key: _Key, new: dict[int, int], gone: tuple[int, ...], edited: dict[int, int],
        table: NDArray[np.float64],
    ) -> _Key:  # fmt: skip
        tokens = list(key[0])
        drawn = list(key[1])
        for at, token in (*new.items(), *edited.items()):
            tokens[at] = token
            if self.recalls:
                drawn[at] = round(math.log(table[at, token]), 12)
        for at in gone:
            tokens[at] = _MASKED
            if self.recalls:
                drawn[at] = 0.0
        fresh = tuple(at in new for at in range(self.length)) if not self.known else key[2]
        return tuple(tokens), tuple(drawn), fresh

    def _redrawn(self, law: _Law, revision: Redraw) -> tuple[_Law, float]:
        """Positions at random, hidden and drawn anew: one linear map for each evaluation."""
        spent = 0.0
        number = 0
        while True:
            after: _Law = defaultdict(float)
            done = True
            for key, weight in law.items():
                held = [at for at in range(self.length) if key[0][at] != _MASKED]
                turns = revision.turns(len(held), finished=len(held) == self.length)
                if number >= len(turns):
                    after[key] += weight
                    continue
                done = False
                spent += weight
                every = list(combinations(held, turns[number]))
                hidden = torch.tensor([[key[0][at] == _MASKED or at in each for at in range(self.length)]
                                       for each in every])  # fmt: skip
                tokens = torch.tensor(key[0]).expand(len(every), -1).masked_fill(hidden, self.predictor.mask)
                tables = self._table(tokens, hidden)
                for table, chosen in zip(tables, every, strict=True):
                    for new in product(range(self.vocab), repeat=len(chosen)):
                        chance = math.prod(float(table[at, token]) for at, token in zip(chosen, new, strict=True))
                        if chance:
                            drawn = dict(zip(chosen, new, strict=True))
                            after[self._next(key, drawn, (), {}, table)] += weight * chance / len(every)
            if done:
                return dict(law), spent
            law, number = after, number + 1


def _positive(size: Blind, length: int) -> NDArray[np.int64]:
    fitted = size.fitted(length)
    assert isinstance(fitted, Planned)
    sizes = fitted.sizes(length)
    return sizes[sizes > 0]


def _one(view: Situation, row: int, rank: Tensor) -> Situation:
    """The view of one state alone, with a rank of its own."""
    own = {name: value[row : row + 1] for name, value in vars(view).items() if isinstance(value, Tensor)}
    return replace(view, **own | {"rank": rank})
