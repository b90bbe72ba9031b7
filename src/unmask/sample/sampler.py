"""The sampler: predict, rank, cut, draw.

`Sampler(predictor, schedule)` repeats four things until nothing is masked: ask the predictor, rank the masked
positions (the schedule's order), cut the ranking (its size), and draw a token for each position above the cut.
Positions first, tokens second: no rule here looks at a token before it decides to keep it.

If neither half of the schedule looks at predictions, everything but the tokens is decided before the model runs: the
sampler then asks for the chosen rows only, and its loop never waits for the device. Otherwise all masked positions
are predicted and the choice is made on the device.

**Rows are independent.** Each sequence has a seed of its own, from which come its sizes, its order and one uniform
number for each of its positions. The same sequence with the same seed gives the same result alone and in any batch,
if the predictor does; and the numbers at its positions do not depend on the schedule, so schedules can be compared on
common randomness.

References:
    Hayakawa, Takida, Imaizumi, Wakaki & Mitsufuji, Demystifying MaskGIT sampler and beyond, 2025 (arXiv 2510.04525):
        choose, then sample.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from unmask import _check as check
from unmask._torch import Tensor, outside, plain, seen, torch
from unmask.engine import LOCAL, SHARD, Engine, Job, Report
from unmask.predict import MaskPredictor, Places, evaluating, predicting
from unmask.predict.base import mask_predictor
from unmask.predict.memory import told
from unmask.sample.draw import Categorical, Draw, Replay, check_drawn, impossible
from unmask.sample.reaction import plan_for
from unmask.sample.revised import refused, revised_step
from unmask.sample.revising import RevisedPlan
from unmask.sample.seeds import Seeds, seeds_of, sources_of
from unmask.sample.start import start_of
from unmask.sample.state import State, Step, Stop, stopped
from unmask.sample.trace import GIVEN, PADDED, Trace
from unmask.schedule import Schedule
from unmask.sequences import Sequences, own_lengths, trimmed


@final
@dataclass(frozen=True, eq=False)
class Sampler:
    """Fills masked sequences with a predictor under a schedule.

    Arguments:
        predictor: Predicts masked positions.
        schedule: How many positions and which.
        draw: How a token is drawn from its prediction; the predicted law itself by default.
        stop: Ends sequences early; off by default.

    Example:
        >>> from unmask import order, size
        >>> from unmask.distribution import Parity
        >>> from unmask.predict import ExactPredictor
        >>> sampler = Sampler(ExactPredictor(Parity(6)), Schedule(size.Even(6), order.Random()))
        >>> trace = sampler.run((4, 6), rng=torch.Generator().manual_seed(0))
        >>> (trace.tokens.sum(dim=1) % 2).tolist(), trace.calls
        ([0, 0, 0, 0], 6)
    """

    predictor: MaskPredictor
    schedule: Schedule
    draw: Draw = field(default_factory=Categorical)
    stop: Stop | None = None

    def __post_init__(self):
        mask_predictor(self.predictor)
        check.instance("schedule", self.schedule, Schedule, "be a Schedule")
        check.instance("draw", self.draw, Draw, "be a Draw")
        if self.stop is not None:
            check.instance("stop", self.stop, Stop, "be a Stop")
            check.integer("end", self.stop.end, most=self.predictor.vocab - 1)
            check.integer("pad", self.stop.pad, most=self.predictor.vocab - 1)

    def init(
        self,
        start: tuple[int, int] | Tensor,
        masked: Tensor | None = None,
        *,
        rng: Seeds,
        device: torch.device | str | None = None,
    ) -> State:
        """Prepare a batch.

        Arguments:
            start: A shape `(batch, length)` of fully masked sequences, or token ids of that shape.
            masked: With token ids: which positions to fill. By default those that hold the predictor's mask.
            rng: A seed for the batch or a generator of torch or numpy, which draws a seed for each row; or a list of
                the rows' own seeds or generators (`unmask.sample.seeds`).
            device: Where to run; by default where the predictor's weights are, or else the token ids.
        """
        # Eight numbers are kept for every position, in the state and on the way to it.
        tokens, hidden = start_of(start, masked, self.predictor, device, each=8)
        if isinstance(self.draw, Replay):
            refused(self.schedule)
            _check_replayed(self.draw.tokens, tokens, hidden, self.predictor.vocab)
        seeds = seeds_of(rng, tokens.shape[0])
        blanked = tokens.masked_fill(hidden, self.predictor.mask)
        # Not before: what stands at a masked position, such as the answer to replay, may have the id of padding.
        lengths = own_lengths(blanked, self.predictor.pad)
        sources, uniform = sources_of(seeds, lengths, tokens.shape[1])
        plan = plan_for(self.schedule, hidden.cpu().numpy(), sources, tokens.device, lengths, seeds)
        revises = isinstance(plan, RevisedPlan)
        padding = torch.arange(tokens.shape[1]) >= torch.as_tensor(lengths)[:, None]
        return State(
            tokens=blanked,
            masked=hidden,
            uniform=torch.as_tensor(uniform).to(tokens.device),
            plan=plan,
            step=0,
            revealed=torch.full_like(tokens, GIVEN).masked_fill(padding.to(tokens.device), PADDED),
            log_probability=torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device),
            evaluations=np.zeros(tokens.shape[0], dtype=np.int64),
            calls=0,
            seeds=seeds,
            end=None if self.stop is None else self.stop.end,
            memory=None if revises else self.predictor.begin(blanked, hidden),
            versions=() if revises else None,
        )

    @predicting
    def step(self, state: State) -> tuple[State, Step | None]:
        """Take one step; `None` when nothing was left to reveal.

        Raises:
            InputError: if a prediction is not a number, wherever that can be seen without waiting for the device;
                otherwise `State.trace` says so.
        """
        check.instance("state", state, State, "be a State")
        if isinstance(state.plan, RevisedPlan):
            state, step = revised_step(self.predictor, self.draw, state)
            return (stopped(state, self.stop) if self.stop is not None and step is not None else state), step
        asked = state.plan.ask(state.step, state.masked, whole=self.predictor.whole)
        if asked is None:
            return state, None
        prediction, memory = told(self.predictor, state.memory, state.tokens, state.masked, asked.places)
        choice = state.plan.choose(asked, prediction)
        drawn: list[Tensor] = []
        scores: list[Tensor] = []
        uniform = state.uniform.flatten()[choice.rows]
        for start, stop in choice.prediction.chunks():
            chances = choice.prediction.log_probabilities(start, stop)
            token = self.draw(chances, uniform[start:stop], choice.rows[start:stop])
            check_drawn(token, chances)
            drawn.append(token)
            scores.append(chances.gather(1, token[:, None])[:, 0].double())
        token, score = torch.cat(drawn), torch.cat(scores)
        # A loop that waits for the device anyway loses nothing by looking.
        waits = self.stop is not None or not self.schedule.blind
        if (waits and bool(torch.isnan(score).any())) or seen(score, torch.isnan):
            raise impossible()
        evaluations = state.evaluations.copy()
        evaluations[asked.places.sequences] += 1
        if memory is not None:
            every = choice.rows is asked.places.rows
            memory = memory.revealed(asked.places if every else Places.of(choice.rows, state.tokens.shape[1]))
        state = replace(
            state,
            tokens=_put(state.tokens, choice.rows, token),
            masked=_put(state.masked, choice.rows, torch.zeros_like(choice.rows, dtype=torch.bool)),
            revealed=_put(state.revealed, choice.rows, torch.full_like(choice.rows, asked.index)),
            log_probability=_put(state.log_probability, choice.rows, score),
            plan=choice.plan or state.plan,
            step=asked.index + 1,
            evaluations=evaluations,
            calls=state.calls + 1,
            memory=memory,
        )
        if self.stop is not None:
            state = stopped(state, self.stop)
        return state, Step(asked.index, choice.rows, token, score)

    def steps(self, state: State) -> Iterator[tuple[State, Step]]:
        """All remaining steps, one after the other."""
        while True:
            state, step = self.step(state)
            if step is None:
                return
            yield state, step

    def run(
        self,
        start: tuple[int, int] | Tensor,
        masked: Tensor | None = None,
        *,
        rng: Seeds,
        device: torch.device | str | None = None,
        watch: Callable[[State, Step], None] | None = None,
        progress: bool = False,
    ) -> Trace:
        """Fill a batch and return its record.

        Arguments:
            start: A shape `(batch, length)` of fully masked sequences, or token ids of that shape.
            masked: With token ids: which positions to fill. By default those that hold the predictor's mask.
            rng: A seed, a generator, or a list of these for the rows, as for `init`.
            device: Where to run; by default where the predictor's weights are, or else the token ids.
            watch: Called after every step.
            progress: Show a progress bar on standard error.
        """
        if watch is not None:
            check.function("watch", watch)
        check.instance("progress", progress, bool, "be True or False")
        state = self.init(start, masked, rng=rng, device=device)
        with evaluating(self.predictor), _bar(state, progress) as advance:
            for state, step in self.steps(state):  # noqa: B020 - the last state is the result
                advance(step.gained)
                if watch is not None:
                    watch(state, step)
        return state.trace()

    def batches(
        self,
        start: tuple[int, int] | Tensor,
        masked: Tensor | None = None,
        *,
        rng: Seeds,
        device: torch.device | str | None = None,
        batch: int = SHARD,
        engine: Engine = LOCAL,
        progress: Callable[[int], object] = lambda done: None,
    ) -> list[Trace]:
        """Fill any number of sequences, a batch at a time; the records of the batches.

        Arguments:
            start: A shape `(count, length)` of fully masked sequences, or token ids of that shape.
            masked: With token ids: which positions to fill. By default those that hold the predictor's mask.
            rng: A seed, a generator, or a list of these for the rows, as for `init`.
            device: Where to run; by default where the predictor's weights are, or else the token ids.
            batch: Sequences at once.
            engine: Who does it. The result does not depend on it.
            progress: Called after every step with the number of tokens filled since the last call.
        """
        check.instance("engine", engine, Engine, "be an Engine")
        check.function("progress", progress)
        tokens, hidden = start_of(start, masked, self.predictor, device, each=2)
        return self._filled(Sequences.of(tokens, hidden), seeds_of(rng, len(tokens)), batch, engine, progress)

    def fill(
        self,
        sequences: Sequences,
        *,
        rng: Seeds,
        batch: int = SHARD,
        engine: Engine = LOCAL,
        progress: Callable[[int], object] = lambda done: None,
    ) -> Trace:
        """Fill sequences of any lengths; one record of all, in their order.

        Arguments:
            sequences: Token ids, and which of them to fill.
            rng: A seed, a generator, or a list of these for the sequences, as for `init`.
            batch: Sequences at once.
            engine: Who does it. The result does not depend on it.
            progress: Called after every step with the number of tokens filled since the last call.
        """
        check.instance("sequences", sequences, Sequences, "be Sequences")
        check.instance("engine", engine, Engine, "be an Engine")
        check.function("progress", progress)
        ordered, order = sequences.by_length()
        seeds = seeds_of(rng, len(sequences))
        numbers: list[int] = plain(order)
        own = tuple(seeds[number] for number in numbers)
        return Trace.joined(self._filled(ordered, own, batch, engine, progress), order)

    def _filled(
        self,
        sequences: Sequences,
        seeds: tuple[int, ...],
        batch: int,
        engine: Engine,
        progress: Callable[[int], object],
    ) -> list[Trace]:
        columns = (sequences.tokens, sequences.masked, sequences.lengths, seeds)
        cuts = sequences.cuts(batch, pad=self.predictor.pad, whole=self.predictor.whole)
        return Job(engine, _Filled(self), columns, cuts)([()], lambda task, done: progress(done))[0]


@final
@dataclass(frozen=True, eq=False)
class _Filled:
    """Work on shards: sequences, what is masked of them, their lengths, and their seeds."""

    sampler: Sampler

    def __call__(self, shard: tuple[Tensor, Tensor, Tensor, tuple[int, ...]], report: Report) -> Trace:
        tokens, masked, lengths, seeds = shard
        tokens, masked = trimmed(tokens, masked, lengths, self.sampler.predictor.pad)
        left = int(masked.sum())

        def watch(state: State, step: Step) -> None:
            nonlocal left
            left -= step.gained
            report(step.gained)

        trace = self.sampler.run(tokens, masked, rng=seeds, watch=watch)
        report(left)  # what an early end left out
        return trace


@contextmanager
def _bar(state: State, shown: bool) -> Generator[Callable[[int], None]]:
    """Something to tell how many more tokens are revealed: a bar, or nothing."""
    if not shown:
        yield lambda tokens: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Revealing tokens", total=int(state.masked.sum()))
        yield lambda tokens: bar.advance(task, tokens)


def _check_replayed(replayed: Tensor, tokens: Tensor, hidden: Tensor, vocab: int) -> None:
    if replayed.shape != tokens.shape:
        shapes = tuple(replayed.shape), tuple(tokens.shape)
        raise check.InputError(
            "", f"The tokens to replay must have the shape {shapes[1]} of the batch, not {shapes[0]}"
        )
    if outside(replayed[hidden.to(replayed.device)], vocab):
        raise check.InputError("", f"The tokens to replay must be token ids from 0 to {vocab - 1}")


def _put(values: Tensor, rows: Tensor, new: Tensor) -> Tensor:
    """A copy of `values` with `new` at the flat indices `rows`; states are never changed in place."""
    return values.flatten().index_put((rows,), new).view_as(values)
