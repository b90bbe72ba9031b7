"""The distribution over partial sequences of a sampler that may take tokens back, followed from step to step."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.order import BlindOrder, Random, ReactiveOrder
from unmask.predict import MaskPredictor, Prediction, predicting
from unmask.revision import Asking, Redraw, Rewrite, Situation, TakeBack
from unmask.sample.ranking import Ranking, counted
from unmask.schedule import Schedule
from unmask.size import LogLinear
from unmask.size.base import Blind, Planned

MASKED = -1
_DIGITS = 12  # of log-probabilities that a rule recalls, so that states which differ by rounding alone are one
_STEPS = 64  # of a size that looks at predictions, before we say that it does not end


class Partial(NamedTuple):
    """A partial sequence, and whatever else decides how it goes on.

    Attributes:
        tokens: The tokens; −1 where masked.
        drawn: The log-probability with which each was drawn, for rules that recall it; else empty.
        fresh: Which positions the last step revealed, for sizes that look at predictions.
        order: The order in which it goes through its positions, for blind orders; empty where any set of them is
            equally likely at every step.
    """

    tokens: tuple[int, ...]
    drawn: tuple[float, ...]
    fresh: tuple[bool, ...]
    order: tuple[int, ...]


Law = dict[Partial, float]

# A way to go on: its probability, the tokens of the positions revealed, and the positions taken back.
_Way = tuple[float, dict[int, int], tuple[int, ...]]


@final
class Walk:
    """The distribution over partial sequences, step by step."""

    def __init__(self, predictor: MaskPredictor, schedule: Schedule, length: int, vocab: int):
        self.predictor, self.schedule, self.length, self.vocab = predictor, schedule, length, vocab
        self.revision = schedule.revision
        self.asks = Asking.NOTHING if self.revision is None else self.revision.asks
        self.recalls = self.revision is not None and self.revision.recalls
        self.known = isinstance(schedule.size, Blind)
        self.drafts = isinstance(self.revision, TakeBack) and self.revision.drafts
        # Once a position was taken back, its place in the order decides again; until then that of masked ones alone.
        self.whole_order = isinstance(self.revision, TakeBack)
        self.orders = self._orders()

    def __call__(self) -> tuple[Law, float]:
        """The law of the finished texts, and the evaluations of a sequence, on average."""
        drawn = (0.0,) * self.length if self.recalls else ()
        nothing = Partial((MASKED,) * self.length, drawn, (False,) * self.length, ())
        law: Law = {nothing._replace(order=order): 1 / len(self.orders) for order in self.orders}
        spent = 0.0
        for step, (wanted, active, share) in enumerate(self._turns()):
            if wanted is None and all(MASKED not in each.tokens for each in law):
                break
            law, more = self._step(law, step, wanted, active, share)
            spent += more
        if any(MASKED in each.tokens for each in law):
            raise check.InputError("schedule", f"end within {_STEPS} steps")
        return law, spent

    def _orders(self) -> list[tuple[int, ...]]:
        """The orders that are equally likely; one that is empty where none is needed."""
        within = self.schedule.within
        if isinstance(within, Random):
            # How many tokens a size that looks reveals depends on which comes next, and says something about it: every
            # order is followed by itself. Where numbers are known, any set of so many is equally likely.
            return [()] if self.known or self.drafts else list(permutations(range(self.length)))
        if isinstance(within, BlindOrder):
            steps = self.schedule.size.steps if isinstance(self.schedule.size, Blind) else None
            return [tuple(within.arrange(np.arange(self.length), length=self.length, steps=steps, rng=0).tolist())]
        return [()]

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
        self, law: Law, step: int, wanted: int | None, active: bool, share: tuple[float, float] | None
    ) -> tuple[Law, float]:
        keys = list(law)
        tokens = torch.tensor([key.tokens for key in keys])
        masked = tokens == MASKED
        blank = tokens.masked_fill(masked, self.predictor.mask)
        table = self._table(blank, masked)
        prediction = self.predictor(blank, masked)
        held = ~masked & active
        scores = self._scores(keys, prediction, masked)
        count, chosen = self._chosen(prediction, masked, scores, wanted)
        view = self._view(keys, table, blank, masked, held, count, step, share)
        chances = np.zeros(tuple(masked.shape))
        edits = np.zeros(tuple(masked.shape), dtype=bool)
        rate = None
        if isinstance(self.revision, TakeBack) and not self.drafts:
            chances = (self.revision.chances(view) * held).numpy()
            rate = self.revision.rate(view) * active
        if isinstance(self.revision, Rewrite):
            edits = (self.revision.rewritten(view) & held).numpy()
        after: Law = defaultdict(float)
        done: Law = {}
        spent = 0.0
        for row, key in enumerate(keys):
            if MASKED not in key.tokens and not wanted and share is None:
                done[key] = law[key]
                continue
            edited = (
                {} if view.best is None else {int(at): int(view.best[row, at]) for at in np.flatnonzero(edits[row])}
            )
            free = [at for at in range(self.length) if key.tokens[at] == MASKED]
            ranked = None if scores is None else scores[row]
            for chance, taken in self._takings(chances[row], int(view.most[row]), share is not None):
                if self.drafts:
                    ways = self._drafted(free, table[row], row, prediction, view)
                elif share is not None:
                    assert rate is not None
                    ways = self._independent(free, taken, table[row], float(rate[row]), share, ranked)
                elif self.known:
                    sets = self._sets(free, int(count[row]) + len(taken), ranked)
                    ways = self._drawn(sets, taken, table[row])
                else:
                    ways = self._drawn([(1.0, chosen[row])], taken, table[row])
                for part, new, gone in ways:
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

    def _scores(self, keys: list[Partial], prediction: Prediction, masked: Tensor) -> Tensor | None:
        """What ranks the positions of every state, larger first; `None` where any set of them is equally likely."""
        within = self.schedule.within
        if isinstance(within, ReactiveOrder):
            return within.score(prediction).view(masked.shape).double()
        if self.orders == [()]:
            return None
        scores = torch.full(masked.shape, -torch.inf, dtype=torch.float64)
        for row, key in enumerate(keys):
            scores[row, list(key.order)] = -torch.arange(len(key.order), dtype=torch.float64)
        return scores

    def _chosen(
        self, prediction: Prediction, masked: Tensor, scores: Tensor | None, wanted: int | None
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        """How many more tokens stand after the step, and which are revealed where predictions decide how many."""
        chosen: list[tuple[int, ...]] = [()] * len(masked)
        if self.known:
            return torch.full((len(masked),), wanted or 0).minimum(masked.sum(dim=1)), chosen
        count = torch.zeros(len(masked), dtype=torch.int64)
        some = torch.nonzero(masked.any(dim=1))[:, 0]
        if scores is not None and not self.drafts and len(some):
            rows = torch.nonzero(masked.flatten())[:, 0]
            ranking, found = self._counted(masked[some], prediction.take(rows), scores.flatten()[rows])
            count[some] = found
            for row, positions, number in zip(plain(some), plain(ranking.position), plain(found), strict=True):
                chosen[row] = tuple(positions[:number])
        return count, chosen

    def _counted(self, candidates: Tensor, prediction: Prediction, scores: Tensor) -> tuple[Ranking, Tensor]:
        size = self.schedule.size
        assert not isinstance(size, Blind)
        local = torch.nonzero(candidates.flatten())[:, 0]
        ranking, count = counted(size, Ranking.of(candidates, local, prediction, scores))
        return ranking, count.to(torch.int64)

    def _view(
        self, keys: list[Partial], table: NDArray[np.float64], tokens: Tensor, masked: Tensor, held: Tensor,
        count: Tensor, step: int, share: tuple[float, float] | None,
    ) -> Situation:  # fmt: skip
        fresh = torch.tensor([key.fresh for key in keys])
        left = masked.sum(dim=1)
        most = left - count if self.known else _fewer(count, fresh & held)
        stand = (~masked).sum(dim=1).double()
        shares = torch.stack([stand / self.length, (stand + count) / self.length], dim=1)
        if share is not None:
            shares = shares.new_tensor(share).expand(len(keys), 2)
        drawn = torch.tensor([key.drawn for key in keys]) if self.recalls else torch.zeros(masked.shape)
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

    def _independent(
        self, free: list[int], taken: tuple[int, ...], table: NDArray[np.float64], rate: float,
        share: tuple[float, float], scores: Tensor | None,
    ) -> Iterator[_Way]:  # fmt: skip
        """As many as if every position were revealed by itself, at the rate that makes up for those taken back."""
        q = (share[1] - (1 - rate) * share[0]) / max(1 - share[0], 1e-300)
        for number in range(len(free) + 1):
            weight = math.comb(len(free), number) * q**number * (1 - q) ** (len(free) - number)
            for part, new, gone in self._drawn(self._sets(free, number, scores), taken, table) if weight else ():
                yield weight * part, new, gone

    def _drawn(
        self, sets: Iterable[tuple[float, tuple[int, ...]]], taken: tuple[int, ...], table: NDArray[np.float64]
    ) -> Iterator[_Way]:
        """Every way to draw tokens at these sets of positions."""
        for part, chosen in sets:
            for tokens in product(range(self.vocab), repeat=len(chosen)):
                chance = math.prod(float(table[at, token]) for at, token in zip(chosen, tokens, strict=True))
                if chance:
                    yield part * chance, dict(zip(chosen, tokens, strict=True)), taken

    def _sets(self, free: list[int], count: int, scores: Tensor | None) -> Iterator[tuple[float, tuple[int, ...]]]:
        """The best positions by their scores, or every set of so many."""
        if scores is not None:
            yield 1.0, tuple(sorted(free, key=lambda at: (-float(scores[at]), at))[:count])
        else:
            every = list(combinations(free, count))
            yield from ((1 / len(every), each) for each in every)

    def _drafted(
        self, free: list[int], table: NDArray[np.float64], row: int, prediction: Prediction, view: Situation
    ) -> Iterator[_Way]:
        """Tokens first: every draft of all candidates, and what a rule keeps of it."""
        assert isinstance(self.revision, TakeBack)
        candidates = view.candidates[row : row + 1]
        for tokens in product(range(self.vocab), repeat=len(free)):
            chance = math.prod(float(table[at, token]) for at, token in zip(free, tokens, strict=True))
            if chance == 0:
                continue
            rank = torch.full((1, self.length), -torch.inf, dtype=torch.float64)
            for at, token in zip(free, tokens, strict=True):
                rank[0, at] = math.log(table[at, token])
            own = _one(view, row, rank)
            if not self.known and free:  # a size that looks ranks positions by what was drawn there
                rows = torch.tensor([row * self.length + at for at in free])
                count = self._counted(candidates, prediction.take(rows), rank[0, free])[1]
                own = replace(own, wanted=count, most=_fewer(count, own.held & (own.revealed == own.step - 1)))
            taken = tuple(np.flatnonzero((self.revision.chances(own) * own.held).numpy()[0] > 0).tolist())
            kept = sorted(range(len(free)), key=lambda at: (-float(rank[0, free[at]]), free[at]))
            kept = kept[: int(own.wanted) + (len(taken) if self.known else 0)]
            yield chance, {free[at]: tokens[at] for at in kept}, taken

    def _next(
        self, key: Partial, new: dict[int, int], gone: tuple[int, ...], edited: dict[int, int],
        table: NDArray[np.float64],
    ) -> Partial:  # fmt: skip
        tokens = list(key.tokens)
        drawn = list(key.drawn)
        for at, token in (*new.items(), *edited.items()):
            tokens[at] = token
            if self.recalls:
                drawn[at] = round(math.log(table[at, token]), _DIGITS)
        for at in gone:
            tokens[at] = MASKED
            if self.recalls:
                drawn[at] = 0.0
        fresh = tuple(at in new for at in range(self.length)) if not self.known else key.fresh
        order = key.order if self.whole_order else tuple(at for at in key.order if tokens[at] == MASKED)
        return Partial(tuple(tokens), tuple(drawn), fresh, order)

    def _redrawn(self, law: Law, revision: Redraw) -> tuple[Law, float]:
        """Positions at random, hidden and drawn anew: one linear map for each evaluation."""
        spent = 0.0
        number = 0
        while True:
            after: Law = defaultdict(float)
            done = True
            for key, weight in law.items():
                held = [at for at in range(self.length) if key.tokens[at] != MASKED]
                turns = revision.turns(len(held), finished=len(held) == self.length)
                if number >= len(turns):
                    after[key] += weight
                    continue
                done = False
                spent += weight
                every = list(combinations(held, turns[number]))
                hidden = torch.tensor([[key.tokens[at] == MASKED or at in each for at in range(self.length)]
                                       for each in every])  # fmt: skip
                tokens = torch.tensor(key.tokens).expand(len(every), -1).masked_fill(hidden, self.predictor.mask)
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


def _fewer(count: Tensor, last: Tensor) -> Tensor:
    """How many may be taken back with a size that looks: none if a step reveals one, else fewer than the last did."""
    return torch.where(count > 1, (last.sum(dim=1) - 1).clamp(min=0), 0)


def _one(view: Situation, row: int, rank: Tensor) -> Situation:
    """The view of one state alone, with a rank of its own."""
    own = {name: value[row : row + 1] for name, value in vars(view).items() if isinstance(value, Tensor)}
    return replace(view, **own | {"rank": rank})
