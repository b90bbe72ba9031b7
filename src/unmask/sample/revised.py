"""One step of a schedule whose tokens may be revised.

A step is one evaluation of what is visible: it says what to reveal, and, to a rule that looks, what it thinks of tokens
that are already there. Rules that score tokens with each of them masked, and draws anew, take evaluations of their own.
Every one is counted.

A position that is drawn again uses a new random number, from its sequence's seed and the step. So rows are independent
of each other, and a rule that takes nothing back gives the texts of the schedule without it.

A predictor that remembers cannot forget: it is run anew at every step, with all that is visible given.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.order import ReactiveOrder
from unmask.predict import MaskPredictor, Places, Prediction
from unmask.predict.memory import told
from unmask.revision import Asking, Redraw, Rewrite, Situation, TakeBack
from unmask.sample.draw import Draw, check_drawn, impossible
from unmask.sample.ranking import Ranking, counted
from unmask.sample.reaction import places_of, scored
from unmask.sample.revising import RevisedPlan, Turn
from unmask.sample.state import State, Step
from unmask.sample.trace import OPEN
from unmask.sample.versions import Version
from unmask.schedule import Schedule
from unmask.size.base import Blind

_DRAW, _TAKE, _KEY, _REDRAW = range(4)  # what new random numbers are for
_COPIES = 64  # copies of sequences evaluated at once, at least


def revised_step(predictor: MaskPredictor, draw: Draw, state: State) -> tuple[State, Step | None]:
    """The next step of a plan with a revision; `None` when nothing was left to do."""
    plan = state.plan
    assert isinstance(plan, RevisedPlan)
    index = state.step
    while True:
        turn = plan.turn(index, state.masked)
        if turn is None:
            return state, None
        done = _Revised(predictor, draw, state, plan, turn)()
        if done is not None:
            return done
        index += 1  # nothing was taken back, and nothing was to be revealed


@final
@dataclass(frozen=True, eq=False)
class _Seen:
    """One evaluation of a batch, and the positions it was asked for.

    Attributes:
        prediction: The predictions.
        rows: Flat indices of the positions, one for each.
        number: The row of the prediction for each flat index of the batch; any where nobody asked.
        places: The same positions, by sequence.
    """

    prediction: Prediction
    rows: Tensor
    number: Tensor
    places: Places

    def of(self, wanted: Tensor) -> tuple[Prediction, Tensor]:
        """The predictions of some of them, and their flat indices; `wanted` are booleans, shape `(batch, length)`."""
        rows = torch.nonzero(wanted.flatten())[:, 0]
        return self.prediction.take(self.number[rows]), rows


@final
class _Revised:
    """The work of one step."""

    def __init__(self, predictor: MaskPredictor, draw: Draw, state: State, plan: RevisedPlan, turn: Turn):
        self.predictor, self.draw, self.state, self.plan, self.turn = predictor, draw, state, plan, turn
        self.revision, self.schedule = plan.revision, plan.schedule
        self.evaluations: NDArray[np.int64] = state.evaluations.copy()
        self.calls = state.calls
        # A position that was taken back is drawn with a new number.
        self.uniform = state.uniform
        if bool(plan.again.any()):
            self.uniform = torch.where(plan.again, plan.numbers(turn.index, _DRAW), state.uniform)

    def __call__(self) -> tuple[State, Step] | None:
        state, turn, revision = self.state, self.turn, self.revision
        candidates, held = turn.candidates, turn.held
        known = isinstance(self.schedule.size, Blind)
        early = known and revision.asks is Asking.NOTHING and not _drafts(revision)
        taken, count = torch.zeros_like(held), turn.wanted
        if early:  # what is taken back needs no evaluation, and without it there may be nothing to evaluate for
            taken, count = self._taken(None, None, turn.wanted)
            candidates = candidates & (count > 0)[:, None]
        asked = candidates | held if revision.asks is Asking.VISIBLE else candidates
        if not bool(asked.any()):
            return self._hidden_alone(taken) if bool(taken.any()) else None
        seen = self._evaluated(state.tokens, state.masked, asked)
        rank, tokens, scores = self._ranked(seen, candidates)
        if not early:
            if not known:
                rank, count = self._counted(seen, candidates, rank)
            taken, count = self._taken(seen, rank, count)
        shown = _first(rank, candidates, count)
        prediction, rows = seen.of(shown)
        if tokens is None or scores is None:
            token, score = self._drawn(prediction, rows, self.uniform)
        else:
            token, score = tokens.flatten()[rows], scores.flatten()[rows]
        edited = self._edited(seen)
        plan = (
            self.plan.revised(shown, taken, self.plan.numbers(turn.index, _KEY))
            if known
            else replace(self.plan, again=self.plan.again | taken)
        )
        if edited is not None:
            rows, token, score = (torch.cat(pair) for pair in zip((rows, token, score), edited, strict=True))
            if turn.afterwards is not None:  # one that changes nothing is the last
                changed = torch.zeros_like(turn.afterwards).index_fill(0, edited[0] // state.tokens.shape[1], True)
                left = torch.where(changed, plan.extra - 1, 0)
                plan = replace(plan, extra=torch.where(turn.afterwards, left, plan.extra))
        return self._settled(plan, rows, token, score, torch.nonzero(taken.flatten())[:, 0])

    def _hidden_alone(self, taken: Tensor) -> tuple[State, Step]:
        """A step that takes tokens back and reveals none, for which there is nothing to evaluate."""
        rows, numbers = torch.zeros_like(taken.flatten()[:0], dtype=torch.int64), self.state.log_probability
        plan = self.plan.revised(torch.zeros_like(taken), taken, self.plan.numbers(self.turn.index, _KEY))
        return self._settled(plan, rows, rows, numbers.flatten()[:0], torch.nonzero(taken.flatten())[:, 0])

    def _evaluated(self, tokens: Tensor, masked: Tensor, asked: Tensor) -> _Seen:
        places = places_of(asked, whole=self.predictor.whole)
        prediction, _ = told(self.predictor, None, tokens, masked, places)
        self.evaluations[places.sequences] += 1
        self.calls += 1
        number = torch.zeros(tokens.numel(), dtype=torch.int64, device=tokens.device)
        number[places.rows] = torch.arange(len(places), device=tokens.device)
        return _Seen(prediction, places.rows, number, places)

    def _ranked(self, seen: _Seen, candidates: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The order's numbers, larger first; and tokens and log-probabilities, where those are drawn first."""
        rank = torch.full(candidates.shape, -torch.inf, dtype=torch.float64, device=candidates.device)
        within = self.schedule.within
        if _drafts(self.revision):
            prediction, rows = seen.of(candidates)
            token, score = self._drawn(prediction, rows, self.plan.numbers(self.turn.index, _DRAW))
            flat = rank.flatten().index_put((rows,), score)
            tokens = self.state.tokens.flatten().index_put((rows,), token).view_as(rank)
            return flat.view_as(rank), tokens, flat.view_as(rank)
        if isinstance(within, ReactiveOrder):
            prediction, rows = seen.of(candidates)
            score = scored(within, prediction, rows).double()
            return rank.flatten().index_put((rows,), score).view_as(rank), None, None
        return torch.where(candidates, -self.plan.key, rank), None, None

    def _counted(self, seen: _Seen, candidates: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
        """How many a size that looks at predictions reveals, and the ranking as it wants it."""
        size = self.schedule.size
        assert not isinstance(size, Blind)
        prediction, rows = seen.of(candidates)
        some = candidates.any(dim=1)
        count = torch.zeros_like(self.turn.wanted)
        index = torch.nonzero(some)[:, 0]
        if len(index) == 0:  # all that is left is to edit
            return rank, count
        compact = candidates[index]
        local = torch.nonzero(compact.flatten())[:, 0]
        ranking, found = counted(size, Ranking.of(compact, local, prediction, rank.flatten()[rows]))
        count[index] = found.to(count.dtype)
        if _drafts(self.revision):
            return rank, count  # by the tokens that were drawn, whatever the size prefers
        place = -torch.arange(ranking.valid.shape[1], device=rank.device, dtype=rank.dtype).expand(ranking.valid.shape)
        by_size = rank.flatten().index_put((rows[ranking.order[ranking.valid]],), place[ranking.valid])
        return by_size.view_as(rank), count

    def _taken(self, seen: _Seen | None, rank: Tensor | None, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """What is taken back, and how many are revealed."""
        held, state, turn = self.turn.held, self.state, self.turn
        nothing = torch.zeros_like(held)
        if not isinstance(self.revision, TakeBack):
            return nothing, wanted
        known = isinstance(self.schedule.size, Blind)
        left = turn.candidates.sum(dim=1)
        # With sizes that look, fewer than the last step revealed: what stands grows by one a step at least, on average.
        last = (held & (state.revealed == turn.index - 1)).sum(dim=1)
        most = left - wanted if known else torch.where(wanted > 1, (last - 1).clamp(min=0), 0)
        view = self._view(seen, rank, wanted, left if turn.shares else most)
        chance = self.revision.chances(view) * held
        number = self.plan.numbers(turn.index, _TAKE) if bool((chance > 0).any()) else chance
        taken = held & (number < chance)
        if turn.shares:  # tokens choose by themselves
            before, after, revises = turn.shares
            sigma = self.revision.rate(view) * revises
            rate = (after - (1 - sigma) * before) / max(1 - before, 1e-300)
            own = self.plan.numbers(turn.index, _REDRAW) < rate
            return taken, (own & turn.candidates).sum(dim=1)
        # As many as may be, at random: each is equally far below its chance.
        depth = (number / chance).masked_fill(~taken, torch.inf)
        taken &= depth.argsort(dim=1, stable=True).argsort(dim=1) < view.most[:, None]
        return taken, wanted + taken.sum(dim=1) if known else wanted

    def _view(self, seen: _Seen | None, rank: Tensor | None, wanted: Tensor, most: Tensor) -> Situation:
        state, turn, held = self.state, self.turn, self.turn.held
        total = turn.block.clamp(min=1).double()
        stand = turn.block - turn.candidates.sum(dim=1)
        share = torch.stack([stand / total, (stand + wanted) / total], dim=1)
        if turn.shares:
            share = share.new_tensor(turn.shares[:2]).expand(len(share), 2)
        view = Situation(
            state.tokens, held, turn.candidates,
            torch.full(held.shape, -torch.inf, dtype=torch.float64, device=held.device) if rank is None else rank,
            state.log_probability, state.revealed, turn.index, share[:, :1], wanted, most,
            share[:, 1:] if isinstance(self.schedule.size, Blind) else None,
        )  # fmt: skip
        if self.revision.asks is Asking.NOTHING:
            return view
        if not bool(held.any()):
            nothing = torch.zeros_like(view.rank)
            return replace(view, seen=nothing, best=state.tokens, best_probability=nothing)
        if self.revision.asks is Asking.HIDDEN:
            rows, score, best, chance = self._hidden(held)
        else:
            assert seen is not None
            prediction, rows = seen.of(held)
            score, best, chance = _looked(prediction, state.tokens.flatten()[rows])
        zeros = torch.zeros(held.numel(), dtype=torch.float64, device=held.device)
        return replace(
            view,
            seen=zeros.index_put((rows,), score).view_as(held),
            best=state.tokens.flatten().index_put((rows,), best).view_as(held),
            best_probability=zeros.index_put((rows,), chance).view_as(held),
        )

    def _hidden(self, held: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Held positions, and what is thought of their tokens with each masked alone: a copy of its sequence each."""
        if self.predictor.whole:
            raise check.InputError(
                "",
                "This revision scores tokens in copies of their sequence, which this predictor does not accept",
            )
        every = torch.nonzero(held.flatten())[:, 0]
        found: list[tuple[Tensor, ...]] = []
        # As many copies at once as there are sequences, for which there is memory.
        length, most = held.shape[1], max(len(held), _COPIES)
        for start in range(0, len(every), most):
            rows = every[start : start + most]
            sequence, place = rows // length, rows % length
            count = torch.arange(len(rows), device=rows.device)
            masked = self.state.masked[sequence].index_put((count, place), torch.ones_like(rows, dtype=torch.bool))
            tokens = self.state.tokens[sequence].masked_fill(masked, self.predictor.mask)
            prediction = self.predictor(tokens, masked, count * length + place)
            found.append(_looked(prediction, self.state.tokens.flatten()[rows]))
            np.add.at(self.evaluations, np.array(plain(sequence), dtype=np.int64), 1)
            self.calls += 1
        score, best, chance = (torch.cat(part) for part in zip(*found, strict=True))
        return every, score, best, chance

    def _drawn(self, prediction: Prediction, rows: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        numbers = uniform.flatten()[rows]
        token, score = [rows.new_zeros(0)], [numbers.new_zeros(0)]
        for start, stop in prediction.chunks():
            chances = prediction.log_probabilities(start, stop)
            drawn = self.draw(chances, numbers[start:stop], rows[start:stop])
            check_drawn(drawn, chances)
            token.append(drawn)
            score.append(chances.gather(1, token[-1][:, None])[:, 0].double())
        scores = torch.cat(score)
        if bool(torch.isnan(scores).any()):
            raise impossible()
        return torch.cat(token), scores

    def _edited(self, seen: _Seen) -> tuple[Tensor, Tensor, Tensor] | None:
        if not isinstance(self.revision, Rewrite):
            return None
        wanted = self.turn.wanted
        view = self._view(seen, None, wanted, torch.zeros_like(wanted))
        changed = self.revision.rewritten(view) & self.turn.held
        assert view.best is not None
        assert view.best_probability is not None
        rows = torch.nonzero(changed.flatten())[:, 0]
        return rows, view.best.flatten()[rows], view.best_probability.flatten()[rows].log()

    def _settled(
        self, plan: RevisedPlan, rows: Tensor, token: Tensor, score: Tensor, taken: Tensor
    ) -> tuple[State, Step]:
        state, index = self.state, self.turn.index
        state = _written(state, rows, token, score, index)
        state = _hid(state, taken, self.predictor.mask)
        versions = (Version(index, rows, token, score, taken),)
        if isinstance(self.revision, Redraw):
            state, more = self._redrawn(state, self.revision)
            versions += more
        state = replace(
            state, plan=plan, step=index + 1, evaluations=self.evaluations, calls=self.calls,
            versions=(*(state.versions or ()), *versions),
        )  # fmt: skip
        gained = int(self.state.masked.sum()) - int(state.masked.sum())
        return state, Step(index, rows, token, score, taken, gained)

    def _redrawn(self, state: State, revision: Redraw) -> tuple[State, tuple[Version, ...]]:
        """Positions at random, hidden and drawn anew, in evaluations of their own."""
        active = self.turn.candidates.any(dim=1)
        here = (self.plan.block >= 0) & ~state.masked & active[:, None]
        finished = plain(~state.masked.any(dim=1))
        turns = [
            revision.turns(int(held), finished=done) if some else []
            for held, done, some in zip(plain(here.sum(dim=1)), finished, plain(active), strict=True)
        ]
        found: list[Version] = []
        for number in range(max((len(each) for each in turns), default=0)):
            wanted = torch.as_tensor([each[number] if number < len(each) else 0 for each in turns]).to(here.device)
            numbers = self.plan.numbers(self.turn.index, _REDRAW + 1 + 2 * number)
            place = numbers.masked_fill(~here, 2.0).argsort(dim=1, stable=True).argsort(dim=1)
            chosen = here & (place < wanted[:, None])
            hidden = state.masked | chosen
            seen = self._evaluated(state.tokens.masked_fill(hidden, self.predictor.mask), hidden, chosen)
            prediction, rows = seen.of(chosen)
            token, score = self._drawn(prediction, rows, self.plan.numbers(self.turn.index, _REDRAW + 2 + 2 * number))
            state = _written(state, rows, token, score, self.turn.index)
            found.append(Version(self.turn.index, rows, token, score, rows[:0]))
        return state, tuple(found)


def _drafts(revision: object) -> bool:
    return isinstance(revision, TakeBack) and revision.drafts


def _first(rank: Tensor, candidates: Tensor, count: Tensor) -> Tensor:
    """The first `count` candidates of each sequence by their rank; ties keep the order of positions."""
    # Others must come after candidates even where a rank is −∞: sort by rank, then stably by being a candidate.
    by_rank = rank.masked_fill(~candidates, -torch.inf).argsort(dim=1, descending=True, stable=True)
    order = by_rank.gather(1, (~candidates).gather(1, by_rank).to(torch.int8).argsort(dim=1, stable=True))
    return candidates & (order.argsort(dim=1) < count[:, None])


def _looked(prediction: Prediction, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability of a token for each row, the likeliest token, and its probability."""
    score: list[Tensor] = []
    best: list[Tensor] = []
    chance: list[Tensor] = []
    for start, stop in prediction.chunks():
        found = prediction.log_probabilities(start, stop)
        score.append(found.gather(1, tokens[start:stop, None])[:, 0].double())
        most = found.max(dim=-1)
        best.append(most.indices)
        chance.append(most.values.double().exp())
    return torch.cat(score), torch.cat(best), torch.cat(chance)


def _written(state: State, rows: Tensor, token: Tensor, score: Tensor, index: int) -> State:
    def put(values: Tensor, new: Tensor) -> Tensor:
        return values.flatten().index_put((rows,), new).view_as(values)

    return replace(
        state,
        tokens=put(state.tokens, token),
        masked=put(state.masked, torch.zeros_like(rows, dtype=torch.bool)),
        revealed=put(state.revealed, torch.full_like(rows, index)),
        log_probability=put(state.log_probability, score),
    )


def _hid(state: State, rows: Tensor, mask: int) -> State:
    def put(values: Tensor, new: float) -> Tensor:
        return values.flatten().index_fill(0, rows, new).view_as(values)

    return replace(
        state,
        tokens=put(state.tokens, mask),
        masked=put(state.masked, True),
        revealed=put(state.revealed, OPEN),
        log_probability=put(state.log_probability, 0.0),
    )


def refused(schedule: Schedule) -> None:
    """Refuse a schedule whose texts have no exact likelihood."""
    if schedule.revision is not None:
        raise check.InputError(
            "schedule",
            "have no revision if you need an exact likelihood",
            detail="because several paths lead to one text",
            remedy="Use unmask.evaluate.revised_law for small distributions, or score the samples.",
        )
