"""Lossless steps: tokens are drafted together and verified one by one.

A step of a schedule draws its tokens as if the others of the step did not exist. Verified, it is only a draft: with the
positions of a step in their order, each token was drawn from `q_j`, its prediction given the earlier steps, and is
scored by `p_j`, its prediction given those *and the tokens of the step before it*, all in one evaluation. A draft `x_j`
stays with probability `min(1, p_j(x_j)/q_j(x_j))`. At the first that does not, a token is drawn from the residual law

    (p_j − q_j)⁺ / Σ (p_j − q_j)⁺,

and the drafts after it, which were drawn independently of it, are verified anew behind the new token. So every token
has the law `p_j`: the result is exactly that of revealing one by one in this order, whatever the sizes
(`docs/theory.md`).

The evaluation that verifies a step also drafts the next one, for the case that all of it stays. Hence a sequence of `K`
steps takes `1 + K` evaluations and one more for each token that was taken back; one less if the last step has a single
token, or if its last token was taken back. Taken back are, on average, as many as the sum over tokens of the total
variation between `p_j` and `q_j`: what depends little is free.

For predictors that remember an evaluation is one pass over the drafts. For others it is a batch of all their prefixes
(`unmask.predict.prefixes`): one evaluation of many sequences, which `Verification.sequences` counts.

References:
    Leviathan, Kalman & Matias, Fast inference from transformers via speculative decoding, 2023.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.predict import MaskPredictor, Memory, Places, Prediction, evaluating
from unmask.predict.base import mask_predictor
from unmask.predict.prefixes import Prefixes
from unmask.sample.agenda import agenda_of, sets_in
from unmask.sample.draw import Categorical, Draw, Replay, impossible, invert
from unmask.sample.seeds import Seeds, seeds_of, sources_of
from unmask.sample.start import start_of
from unmask.sample.trace import GIVEN, PADDED, Trace, Verification
from unmask.schedule import Schedule
from unmask.sequences import own_lengths


@final
@dataclass(frozen=True, eq=False)
class Verified:
    """Fills masked sequences with the one-by-one law of a predictor, a step of a blind schedule at a time.

    Arguments:
        predictor: Predicts masked positions.
        schedule: How many positions are drafted together and which; it must not look at predictions.
        draw: How a token is drawn from its prediction; the predicted law itself by default.

    Example:
        >>> from unmask import order, size
        >>> from unmask.distribution import Parity
        >>> from unmask.predict import ExactPredictor
        >>> verified = Verified(ExactPredictor(Parity(6)), Schedule(size.Even(1), order.Random()))
        >>> trace = verified.run((4, 6), rng=0)
        >>> (trace.tokens.sum(dim=1) % 2).tolist()
        [0, 0, 0, 0]
    """

    predictor: MaskPredictor
    schedule: Schedule
    draw: Draw = field(default_factory=Categorical)

    def __post_init__(self):
        mask_predictor(self.predictor)
        check.instance("schedule", self.schedule, Schedule, "be a Schedule")
        check.instance("draw", self.draw, Draw, "be a Draw")
        if not self.schedule.blind:
            must = "not look at predictions, because verified sampling plans its drafts in advance"
            raise check.InputError("schedule", must)
        if isinstance(self.draw, Replay):
            raise check.InputError("draw", "draw tokens, because replayed tokens cannot be verified")

    @torch.no_grad()
    def run(
        self,
        start: tuple[int, int] | Tensor,
        masked: Tensor | None = None,
        *,
        rng: Seeds,
        device: torch.device | str | None = None,
        watch: Callable[[Tensor, Tensor], None] | None = None,
    ) -> Trace:
        """Fill a batch and return its record; `Trace.verification` says what was drafted and taken back.

        Arguments:
            start: A shape `(batch, length)` of fully masked sequences, or token ids of that shape.
            masked: With token ids: which positions to fill. By default those that hold the predictor's mask.
            rng: A seed, a generator, or a list of these for the rows, as for `Sampler.init`.
            device: Where to run; by default where the predictor's weights are, or else the token ids.
            watch: Called after every evaluation with the tokens and what is still masked.
        """
        if watch is not None:
            check.function("watch", watch)
        tokens, hidden = start_of(start, masked, self.predictor, device, each=12)
        with evaluating(self.predictor):
            run = _Run.of(self, tokens, hidden, seeds_of(rng, tokens.shape[0]))
            while run.advance():
                if watch is not None:
                    watch(run.tokens.masked_fill(run.masked, self.predictor.mask), run.masked)
        return run.trace()


@final
class _Row:
    """One sequence: its positions by step, and how far it is.

    Attributes:
        steps: Positions of each step, in their order.
        step: The step whose drafts are being verified.
        done: How many of its positions are settled.
        drafted: Whether the rest of them is drafted.
    """

    def __init__(self, steps: list[NDArray[np.int64]]):
        self.steps: list[NDArray[np.int64]] = steps
        self.step, self.done, self.drafted = 0, 0, False

    @property
    def over(self) -> bool:
        return self.step == len(self.steps)

    @property
    def drafts(self) -> NDArray[np.int64]:
        """Positions to be verified now."""
        return self.steps[self.step][self.done :] if self.drafted and not self.over else _NONE

    @property
    def after(self) -> NDArray[np.int64]:
        """Positions to be drafted now: those of the next step, or of this one if it has yet to be drafted."""
        if self.over:
            return _NONE
        if not self.drafted:
            return self.steps[self.step]
        return self.steps[self.step + 1] if self.step + 1 < len(self.steps) else _NONE

    def settle(self, count: int) -> bool:
        """Take so many more positions for settled; whether that ends a step."""
        self.done += count
        if self.done < len(self.steps[self.step]):
            return False
        self.step, self.done = self.step + 1, 0
        return True


_NONE = np.zeros(0, dtype=np.int64)


def places_of(positions: Sequence[NDArray[np.int64]], length: int, device: torch.device) -> Places:
    """Positions of each sequence of a batch."""
    rows = [number * length + each for number, each in enumerate(positions)]
    return Places.of(torch.as_tensor(np.concatenate([_NONE, *rows])).to(device), length)


@final
@dataclass(eq=False)
class _Run:
    """A batch on its way; changed in place, as nobody else sees it."""

    sampler: Verified
    rows: list[_Row]
    tokens: Tensor
    masked: Tensor
    memory: Memory
    numbers: Tensor  # uniform ones: for the draft, for its acceptance and for what replaces it, (3, batch · length)
    laws: Tensor  # of the drafts that are to be verified, by sequence and in their order
    revealed: Tensor
    score: Tensor
    evaluations: NDArray[np.int64]
    counts: NDArray[np.int64]  # verified, taken back, sequences evaluated: (3, batch)
    rounds: NDArray[np.int64]
    seeds: tuple[int, ...]
    calls: int = 0

    @staticmethod
    def of(sampler: Verified, tokens: Tensor, hidden: Tensor, seeds: tuple[int, ...]) -> "_Run":
        predictor, (batch, length) = sampler.predictor, tokens.shape
        blanked = tokens.masked_fill(hidden, predictor.mask)
        lengths = own_lengths(blanked, predictor.pad)
        numbers = np.zeros((3, batch, length))
        sources, numbers[0] = sources_of(seeds, lengths, length)
        agenda = agenda_of(sampler.schedule, hidden.cpu().numpy(), sources, lengths)
        for row, (source, own) in enumerate(zip(sources, lengths.tolist(), strict=True)):
            numbers[1:, row, :own] = source.random((2, own))
        rows = [_Row(sets_in(stretches)) for stretches in agenda]
        memory = predictor.begin(blanked, hidden) or Prefixes(predictor, hidden)
        padding = torch.arange(length) >= torch.as_tensor(lengths)[:, None]
        return _Run(
            sampler, rows, blanked.clone(), hidden.clone(), memory,
            numbers=torch.as_tensor(numbers).flatten(1).to(tokens.device),
            laws=torch.zeros((0, predictor.vocab), device=tokens.device),
            revealed=torch.full_like(tokens, GIVEN).masked_fill(padding.to(tokens.device), PADDED),
            score=torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device),
            evaluations=np.zeros(batch, dtype=np.int64), counts=np.zeros((3, batch), dtype=np.int64),
            rounds=np.zeros(batch, dtype=np.int64), seeds=seeds,
        )  # fmt: skip

    def advance(self) -> bool:
        """One evaluation of all sequences that are not over; false if all are."""
        drafted = self._places([row.drafts for row in self.rows])
        after = self._places([row.after for row in self.rows])
        if not len(drafted) and not len(after):
            return False
        # Whoever has no drafts gets some now, and so does whoever loses none.
        ready = {number for number, row in enumerate(self.rows) if not row.drafted}
        first, then, self.memory = self.memory.scan(self.tokens, drafted, after)
        self._count(drafted, after)
        left = dict[int, Tensor]()
        if len(drafted):
            ready |= self._verify(drafted, first, left)
        self._draft(after, then, left, ready)
        return True

    def _verify(self, drafted: Places, prediction: Prediction, left: dict[int, Tensor]) -> set[int]:
        """Settle drafts up to the first that is taken back; note the laws of those after it.

        Returns:
            The sequences that lost none.
        """
        raw, law = self._laws(prediction)
        token = self.tokens.flatten()[drafted.rows]
        mine, theirs = (each.gather(1, token[:, None])[:, 0].double() for each in (law, self.laws))
        stays: NDArray[np.bool_] = (self.numbers[1][drafted.rows].log() < mine - theirs).cpu().numpy()
        gap = (law.exp() - self.laws.exp()).clamp(min=0)
        # Where rounding has left nothing of the residual, both laws are the same.
        residual = torch.where(gap.sum(dim=1, keepdim=True) > 0, gap.log(), law)
        kept, lost, rounds = list[int](), list[int](), list[int]()
        whole = set[int]()
        begin = 0
        for number, count in zip(drafted.sequences.tolist(), drafted.counts.tolist(), strict=True):
            good = count if stays[begin : begin + count].all() else int(stays[begin : begin + count].argmin())
            kept += range(begin, begin + good)
            lost += [begin + good] if good < count else []
            taken = min(good + 1, count)
            rounds += [int(self.rounds[number])] * taken
            self.rounds[number] += 1
            self.counts[:2, number] += taken, good < count
            if not self.rows[number].settle(taken):
                left[number] = self.laws[begin + taken : begin + count]
            elif good == count:
                whole.add(number)
            else:
                self.rows[number].drafted = False  # what was drafted for the next step has not seen the new token
            begin += count
        good_ones, bad_ones, settled = (self._index(each) for each in (kept, lost, sorted([*kept, *lost])))
        if lost:
            self._put(drafted.rows[bad_ones], invert(residual[bad_ones], self.numbers[2][drafted.rows[bad_ones]]))
        self._settle(drafted.rows[settled], raw[settled], rounds)
        self.memory = self.memory.accepted(Places.of(drafted.rows[good_ones], self.length))
        if lost:
            self.memory = self.memory.revealed(Places.of(drafted.rows[bad_ones], self.length))
        return whole

    def _draft(self, after: Places, prediction: Prediction, left: dict[int, Tensor], ready: set[int]) -> None:
        """Draft the next step of those that are ready for it; keep the laws of all drafts, by sequence."""
        raw, law = self._laws(prediction)
        begin = 0
        pairs: list[tuple[int, int]] = list(zip(after.sequences.tolist(), after.counts.tolist(), strict=True))
        for number, count in pairs:
            row = self.rows[number]
            part = slice(begin, begin + count)
            begin += count
            if number not in ready:
                continue
            self._put(after.rows[part], invert(law[part], self.numbers[0][after.rows[part]]))
            row.drafted = True
            if count == 1 and row.step + 1 == len(row.steps):
                # A lone token has nothing of its step before it: its draft has its law, and here nothing comes after.
                self._settle(after.rows[part], raw[part], [int(self.rounds[number])])
                self.counts[0, number] += row.settle(1)
            else:
                left[number] = law[part]
        self.laws = torch.cat([left[number] for number in sorted(left)]) if left else law[:0]

    def _count(self, drafted: Places, after: Places) -> None:
        some = np.union1d(drafted.sequences, after.sequences)
        self.evaluations[some] += 1
        self.calls += 1
        if self.memory.copies:  # a copy for each draft, and one with all of them
            self.counts[2, drafted.sequences] += drafted.counts
            self.counts[2, after.sequences] += 1
        else:
            self.counts[2, some] += 1

    def _laws(self, prediction: Prediction) -> tuple[Tensor, Tensor]:
        """Log-probabilities as predicted, and as they are drawn from."""
        raw = prediction.log_probabilities()
        return raw, self.sampler.draw.law(raw)

    def _settle(self, rows: Tensor, raw: Tensor, rounds: list[int]) -> None:
        """Take the tokens at these rows for what they are."""
        score = raw.gather(1, self.tokens.flatten()[rows][:, None])[:, 0].double()
        if bool(torch.isnan(score).any()):
            raise impossible()
        self.score.view(-1)[rows] = score
        self.revealed.view(-1)[rows] = self._index(rounds)
        self.masked.view(-1)[rows] = False

    def _index(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.tokens.device)

    def _put(self, rows: Tensor, tokens: Tensor) -> None:
        self.tokens.view(-1)[rows] = tokens

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    def _places(self, positions: list[NDArray[np.int64]]) -> Places:
        return places_of(positions, self.length, self.tokens.device)

    def trace(self) -> Trace:
        drafted, rejected, sequences = self.counts
        return Trace(
            self.tokens.cpu(), self.revealed.cpu(), self.score.cpu(), self.evaluations, self.calls, self.seeds,
            verification=Verification(drafted, rejected, sequences),
        )  # fmt: skip
