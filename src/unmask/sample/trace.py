"""The record of a run: what evaluation, plots, the command line and the page read.

For every position it says which token it holds, at which step it was revealed and with what log-probability; for every
sequence, how many evaluations it took.

**What counts.** A model that answers draws the end of its answer like any other token, and after it more tokens that
nobody reads. They count nowhere, so that

    tokens per evaluation = valid tokens / evaluations,

each summed over all sequences before one is divided by the other, as the leaderboard of dllm has it under the name
tokens per forward pass (TPF). Valid is what was drawn before the end: neither the prompt, nor padding, nor the end
itself, nor anything after it. Evaluations all count, whatever they revealed. The negative log-likelihood is that of the
answer with its end, since to end there was a choice too.

References:
    dLLM Diffusion Leaderboard, evaluation protocol, "TPF and throughput" (ZHZisZZ/dllm, branch leaderboard, 2026).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, plain, torch
from unmask.sample.versions import MASKED, Versions
from unmask.sequences import put_back

GIVEN = -1  # the step of a position that was not masked
PADDED = -2  # the step of a position filled with padding after an early stop
OPEN = -3  # the step of a position that is still masked, in the record of an unfinished run


@final
@dataclass(frozen=True)
class Counts:
    """Tokens that count, the evaluations and the seconds they took, of any number of sequences.

    Those of several batches are added: a mean of ratios would be another number.

    Attributes:
        valid_tokens: Tokens drawn before the end of their answer.
        evaluations: Evaluations of single sequences.
        seconds: Time that passed, where somebody held a clock to it; 0 elsewhere. Equal counts may differ in it.

    Example:
        >>> (Counts(12, 4) + Counts(2, 3)).tokens_per_evaluation
        2.0
        >>> print(Counts(12, 4, 1.5))
        12 valid tokens in 4 evaluations: 3 tokens per evaluation, 1.5 s
    """

    valid_tokens: int = 0
    evaluations: int = 0
    seconds: float = field(default=0.0, compare=False)

    def __post_init__(self):
        check.integer("valid_tokens", self.valid_tokens, least=0)
        check.integer("evaluations", self.evaluations, least=0)
        check.real("seconds", self.seconds, least=0.0)

    def __add__(self, other: "Counts") -> "Counts":
        check.instance("other", other, Counts, "be Counts")
        return Counts(
            self.valid_tokens + other.valid_tokens,
            self.evaluations + other.evaluations,
            self.seconds + other.seconds,
        )

    @staticmethod
    def total(counts: "Sequence[Counts]") -> "Counts":
        """The sum of any number of them."""
        return sum(check.listed("counts", counts, "be a list of Counts"), Counts())

    @property
    def tokens_per_evaluation(self) -> float:
        """Valid tokens for each evaluation; 0 where there was none."""
        return self.valid_tokens / self.evaluations if self.evaluations else 0.0

    def __str__(self) -> str:
        """A line for people; the time where it was taken."""
        words = _counted(self.valid_tokens, "valid token"), _counted(self.evaluations, "evaluation")
        time = f", {self.seconds:.1f} s" if self.seconds else ""
        return f"{words[0]} in {words[1]}: {self.tokens_per_evaluation:.4g} tokens per evaluation{time}"

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {
            "valid_tokens": self.valid_tokens,
            "evaluations": self.evaluations,
            "tokens_per_evaluation": self.tokens_per_evaluation,
            "seconds": self.seconds,
        }


def answered(tokens: Tensor, drawn: Tensor, end: int | None) -> Tensor:
    """Which positions belong to an answer: those drawn up to the first end among them, that one included.

    Arguments:
        tokens: Token ids, shape `(batch, length)`.
        drawn: Booleans of the same shape, true where a token was drawn. An end elsewhere, in a prompt, ends nothing.
        end: The token id that ends an answer; `None` if nothing does.

    Example:
        >>> tokens = torch.tensor([[9, 1, 2, 9, 3]])
        >>> answered(tokens, torch.tensor([[False, True, True, True, True]]), end=9).tolist()
        [[False, True, True, True, False]]
    """
    if end is None:
        return drawn
    ends = drawn & (tokens == end)
    return drawn & (ends.cumsum(dim=1) - ends.long() == 0)


@final
@dataclass(frozen=True, eq=False)
class Verification:
    """What became of drafts, by sequence (`unmask.sample.verified`).

    Attributes:
        verified: Drafts that were scored one by one until they stayed or were taken back: as many as tokens.
        rejected: Those that were taken back.
        sequences: Sequences that the predictor evaluated: for one that remembers, its evaluations; for others, copies
            for the prefixes of drafts.
    """

    verified: NDArray[np.int64]
    rejected: NDArray[np.int64]
    sequences: NDArray[np.int64]

    @staticmethod
    def joined(parts: "Sequence[Verification]", order: Tensor) -> "Verification":
        """That of all sequences of these, which have the given numbers."""
        columns = [
            np.concatenate([getattr(part, name) for part in parts]) for name in ("verified", "rejected", "sequences")
        ]
        return Verification(*(put_back([torch.as_tensor(each)], order).numpy() for each in columns))

    @property
    def acceptance(self) -> float:
        """Share of all drafts that stayed; 1 where there was none."""
        total = int(self.verified.sum())
        return 1 - int(self.rejected.sum()) / total if total else 1.0


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """What a sampler did, on the CPU.

    Attributes:
        tokens: Token ids, shape `(batch, length)`.
        revealed: The step at which each position was revealed, from 0; `GIVEN`, `PADDED` or `OPEN` otherwise. A
            sequence's steps are counted by what it reveals: a size of zero is no step.
        log_probability: Log-probability at reveal under the prediction, in float64; 0 where nothing was drawn.
        evaluations: Evaluations that revealed something of each sequence, shape `(batch,)`; all of them where drafts
            were verified.
        calls: Predictor calls for the whole batch.
        seeds: The seed of each sequence; `Sampler.run(…, rng=[seed])` repeats it.
        end: The token id that ended an answer, known where the sampler was to stop there; `until` says it otherwise.
        verification: What became of drafts, where tokens were drafted and verified; None otherwise. Steps then count
            how often tokens of a sequence were settled.
        versions: Every version of every token, where a revision could take them back; None otherwise. What is said
            above is then of the last version, and there is no likelihood of the text.
    """

    tokens: Tensor
    revealed: Tensor
    log_probability: Tensor
    evaluations: NDArray[np.int64]
    calls: int
    seeds: tuple[int, ...]
    end: int | None = None
    verification: Verification | None = None
    versions: Versions | None = None

    def until(self, end: int | None) -> "Trace":
        """The same record, of answers that are over once this token was drawn; `None` for answers without an end."""
        return replace(self, end=None if end is None else check.integer("end", end, least=0))

    @staticmethod
    def joined(traces: "Sequence[Trace]", order: Tensor) -> "Trace":
        """One record of all, in which the sequences of these have the given numbers; shorter ones are padded."""
        for each in check.listed("traces", traces, "be a list of Trace objects"):
            check.instance("traces", each, Trace, "hold Trace objects")
        check.instance("order", order, Tensor, "be a tensor")
        if sorted(plain(order.flatten())) != list(range(sum(len(trace.seeds) for trace in traces))):
            raise check.InputError("order", "hold the number of each sequence exactly once")
        width = max((trace.tokens.shape[1] for trace in traces), default=0)

        def whole(part: str, filling: float) -> Tensor:
            wide = [torch.nn.functional.pad(getattr(trace, part), (0, width - trace.tokens.shape[1]), value=filling)
                    for trace in traces]  # fmt: skip
            return put_back(wide, order)

        evaluations = np.zeros(len(order), dtype=np.int64)
        seeds = np.zeros(len(order), dtype=object)
        if traces:
            evaluations[order.numpy()] = np.concatenate([trace.evaluations for trace in traces])
            seeds[order.numpy()] = [seed for trace in traces for seed in trace.seeds]
        calls = sum(trace.calls for trace in traces)
        tokens, revealed, score = whole("tokens", 0), whole("revealed", PADDED), whole("log_probability", 0.0)
        end = traces[0].end if traces else None
        checks = [trace.verification for trace in traces if trace.verification is not None]
        verification = Verification.joined(checks, order) if traces and len(checks) == len(traces) else None
        every = [trace.versions for trace in traces if trace.versions is not None]
        numbers = np.split(order.numpy(), np.cumsum([len(trace.seeds) for trace in traces])[:-1])
        versions = Versions.joined(every, numbers) if traces and len(every) == len(traces) else None
        return Trace(tokens, revealed, score, evaluations, calls, tuple(seeds.tolist()), end, verification, versions)

    @property
    def steps(self) -> int:
        """Number of steps of the longest sequence."""
        if self.versions is not None:
            return int(self.versions.step.max(initial=-1)) + 1
        return max(int(self.revealed.max()) + 1, 0) if self.revealed.numel() else 0

    @property
    def sizes(self) -> Tensor:
        """How many positions each step revealed, shape `(batch, steps)`; those taken back later included."""
        if self.versions is not None:
            return torch.as_tensor(self.versions.sizes(len(self.tokens), self.steps))
        counts = torch.zeros((self.revealed.shape[0], self.steps - OPEN), dtype=torch.int64)
        return counts.scatter_add_(1, self.revealed - OPEN, torch.ones_like(self.revealed))[:, -OPEN:]

    @property
    def scored(self) -> Tensor:
        """Which positions are part of an answer, its end included; shape `(batch, length)`."""
        return answered(self.tokens, self.revealed >= 0, self.end)

    @property
    def valid(self) -> Tensor:
        """Which positions hold a token that counts: part of an answer, and not its end; shape `(batch, length)`."""
        return self.scored if self.end is None else self.scored & (self.tokens != self.end)

    @property
    def nll(self) -> Tensor:
        """Negative log-probability of what was drawn, its end included and nothing after it, per sequence, in nats.

        Raises:
            InputError: if tokens could be taken back: several paths then lead to a text, and nobody has summed them.
        """
        if self.versions is not None:
            raise check.InputError("", "A text whose tokens could be taken back has no exact likelihood")
        return -self.log_probability.masked_fill(~self.scored, 0.0).sum(dim=1)

    @property
    def bits_per_token(self) -> Tensor:
        """The same in bits for each token that was drawn, its end included; 0 where nothing was."""
        return self.nll / math.log(2) / self.scored.sum(dim=1).clamp(min=1)

    @property
    def valid_tokens(self) -> NDArray[np.int64]:
        """How many tokens of each sequence count, shape `(batch,)`."""
        return self.valid.sum(dim=1).numpy()

    @property
    def counts(self) -> Counts:
        """Valid tokens and evaluations of all sequences together."""
        return Counts(int(self.valid.sum()), int(self.evaluations.sum()))

    @property
    def tokens_per_evaluation(self) -> float:
        """Valid tokens per evaluation of a sequence; prompt, padding, the end and what follows it do not count."""
        return self.counts.tokens_per_evaluation

    def written(self, first: int | Sequence[int] = 0) -> list[list[int]]:
        """Token ids of each sequence to be decoded: without padding and ends, and nothing after the first end drawn.

        An end that was given, between the turns of a prompt say, is left out and ends nothing.

        Arguments:
            first: Where to begin, such as after a prompt; one number for all, or one for each.
        """
        must = "be an integer or a list of integers"
        listed = [first] * len(self.tokens) if isinstance(first, int) else check.listed("first", first, must)
        firsts = [check.integer("first", each, least=0) for each in listed]
        if len(firsts) != len(self.tokens):
            raise check.InputError("first", f"have {len(self.tokens)} numbers", found=f"{len(firsts)}")
        kept = self.revealed != PADDED
        if self.end is not None:
            ended = ((self.revealed >= 0) & (self.tokens == self.end)).cumsum(dim=1) > 0
            kept &= ~ended & (self.tokens != self.end)
        return [
            [token for token, stays in zip(row[begin:], flags[begin:], strict=True) if stays]
            for row, flags, begin in zip(plain(self.tokens), plain(kept), firsts, strict=True)
        ]

    def __str__(self) -> str:
        """A few lines for people."""
        batch, length = self.tokens.shape
        scored = int(self.scored.sum())
        lines = [
            f"{_counted(batch, 'sequence')} of {_counted(length, 'token')}",
            str(self.counts),
        ]
        if self.end is not None:
            ended = int(((self.revealed >= 0) & (self.tokens == self.end)).any(dim=1).sum())
            lines[0] += f", {ended:,} of them ended by token {self.end}"
        if left := int((self.revealed == OPEN).sum()):
            lines.append(f"{_counted(left, 'token')} still masked")
        if self.verification is not None:
            lines.append(f"{self.verification.acceptance:.1%} of drafts accepted: the law of one token at a time")
        if self.versions is not None:
            taken, rewritten = self.versions.taken, self.versions.rewritten
            lines.append(f"{_counted(taken, 'token')} taken back, {rewritten:,} written again")
        elif scored:
            each = float(self.nll.sum()) / scored
            lines.append(f"{each / math.log(2):.3f} bits per token")
        return "\n".join(lines)

    def frames(self, decode: Callable[[list[int]], str], blank: str = "_") -> Iterator[list[str]]:
        """The sequences as text before the first step and after each: one list of lines per frame.

        Arguments:
            decode: Maps a list of token ids to text.
            blank: Stands for a masked position.
        """
        check.function("decode", decode)
        check.instance("blank", blank, str, "be text")
        if self.versions is not None:
            given = np.where(self.revealed.numpy() == GIVEN, self.tokens.numpy(), MASKED)
            for state in self.versions.states(given, self.steps):
                yield [
                    "".join(blank if token == MASKED else decode([token]) for token in row) for row in state.tolist()
                ]
            return
        drawn = plain(self.revealed != OPEN)
        words = [
            [decode([token]) if known else blank for token, known in zip(row, mask, strict=True)]
            for row, mask in zip(plain(self.tokens), drawn, strict=True)
        ]
        for step in range(-1, self.steps):
            shown = (self.revealed <= step) & (self.revealed >= GIVEN)
            if step == self.steps - 1:  # when padding was written is not recorded
                shown |= self.revealed == PADDED
            yield [
                "".join(word if visible else blank for word, visible in zip(row, mask, strict=True))
                for row, mask in zip(words, plain(shown), strict=True)
            ]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values; `None` for the logarithm of zero, which JSON cannot write."""
        return {
            "tokens": plain(self.tokens),
            "revealed": plain(self.revealed),
            "log_probability": [[_finite(round(value, 9)) for value in row] for row in plain(self.log_probability)],
            "sizes": plain(self.sizes),
            **({"nll": [_finite(value) for value in plain(self.nll)]} if self.versions is None else {}),
            "valid_tokens": self.valid_tokens.tolist(),
            "evaluations": self.evaluations.tolist(),
            "calls": self.calls,
            "tokens_per_evaluation": self.tokens_per_evaluation,
            "seeds": list(self.seeds),
            "end": self.end,
            **({} if self.verification is None else {"rejected": self.verification.rejected.tolist()}),
            **({} if self.versions is None else {"versions": self.versions.to_json(len(self.tokens))}),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
