"""Chains of text, their perfect predictors, and the exact law of any sampler that does not look at predictions.

**Costs.** Let sets of positions be revealed one after the other. Given what is revealed, the stretches between known
positions are independent, and two positions `i < j` of a step that are neighbours in one stretch `(a, b)` lose

    I(X_i; X_j | X_a, X_b) = I(j−i) + I(b−a) − I(j−a) − I(b−i),

with `I(d)` the information of two tokens `d` apart, and 0 where an end is missing. By the chain rule the KL from the
chain to the sampler is their sum. So **a step with at most one position in every stretch loses nothing**.

**Rates.** Under the sampler, too, the tokens within a stretch depend on those at its ends alone. The joint law of the
ends of a stretch follows from that of the stretch which it was cut from, and in the end the stretches are the pairs of
neighbours. Their law `q` gives the rates of "Is your diffusion sampler actually correct?" (2026, arXiv 2602.19619),

    tv_rate = Σ_v w_v TV(q(·|v), P(·|v))          kl_rate = Σ_v w_v KL(q(·|v) ‖ P(·|v)),

where `q(·|v)` is how the sampler's texts go on after the token `v`, and `w_v` how often it occurs in them.
"""

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.distribution import Markov
from unmask.predict import MaskPredictor, Prediction

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LETTERS = "abcdefghijklmnopqrstuvwxyz "
TRAIN = 70_000_000  # characters; the split of experiments/corpus.py


def counted(path: Path) -> Integers:
    """How often every three characters follow one another in the training text, shape `(27, 27, 27)`."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        raw = file.read(TRAIN)
    number = np.full(256, -1, dtype=np.int64)
    number[[ord(letter) for letter in LETTERS]] = np.arange(len(LETTERS))
    result, vocab = np.zeros(len(LETTERS) ** 3, dtype=np.int64), len(LETTERS)
    for start in range(0, len(raw) - 2, 1 << 22):
        tokens = number[np.frombuffer(raw[start : start + (1 << 22) + 2], dtype=np.uint8)]
        if tokens.min() < 0:
            raise SystemExit(f"{path} must hold only spaces and the letters a to z.")
        codes = (tokens[:-2] * vocab + tokens[1:-1]) * vocab + tokens[2:]
        result += np.bincount(codes, minlength=result.size)
    return result.reshape(vocab, vocab, vocab)


def first_order(counts: Integers, length: int) -> Markov:
    """The chain in which a character depends on the one before it."""
    pairs = counts.sum(axis=0) + 1.0
    return Markov(pairs / pairs.sum(axis=1, keepdims=True), length)


@final
@dataclass(frozen=True, eq=False)
class Bridges(MaskPredictor):
    """What `ExactPredictor` says of a chain, from its powers: a masked token depends on the nearest known ones alone.

        p(x_i | x_a, x_b) ∝ P^{i−a}(x_a, x_i) P^{b−i}(x_i, x_b)

    A batch is looked up in a table at once, some twenty times as fast as a walk along every text.
    """

    powers: torch.Tensor  # P^0 … P^length, and the stationary law at the end, for an end that is missing
    back: torch.Tensor  # each of them transposed
    vocab: int
    mask: int

    @staticmethod
    def of(chain: Markov) -> "Bridges":
        table = torch.as_tensor(powers(chain))
        return Bridges(table, table.transpose(1, 2).contiguous(), chain.vocab, chain.vocab)

    def __call__(self, tokens: torch.Tensor, masked: torch.Tensor, rows: torch.Tensor | None = None) -> Prediction:
        length = tokens.shape[1]
        place, none = torch.arange(length), len(self.powers) - 1
        before = torch.where(masked, -1, place).cummax(dim=1).values
        after = torch.where(masked, length, place).flip(1).cummin(dim=1).values.flip(1)
        known = tokens.masked_fill(masked, 0)
        left, right = (known.gather(1, end.clamp(0, length - 1)) for end in (before, after))
        ahead = torch.where(before < 0, none, place - before)
        behind = torch.where(after == length, none, after - place)
        ends = [each.flatten() if rows is None else each.flatten()[rows] for each in (ahead, left, behind, right)]
        law = self.powers[ends[0], ends[1]] * self.back[ends[2], ends[3]]
        return Prediction(((law / law.sum(dim=1, keepdim=True)).log(),), lambda part: part, self.vocab)


@final
@dataclass(frozen=True, eq=False)
class Scattered(MaskPredictor):
    """The same predictions, but sharper by up to one part in ten million: ties are then broken at random.

    Arguments:
        predictor: What predicts.
    """

    predictor: MaskPredictor

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predictor.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predictor.mask

    def __call__(self, tokens: torch.Tensor, masked: torch.Tensor, rows: torch.Tensor | None = None) -> Prediction:
        source = torch.Generator().manual_seed(0)
        sharper = 1 + 1e-7 * torch.rand(tokens.numel(), generator=source, dtype=torch.float64)
        logits = self.predictor(tokens, masked, rows).logits()
        # What is impossible stays so.
        return Prediction(
            (logits * (sharper if rows is None else sharper[rows])[:, None],), lambda part: part, self.vocab
        )


def powers(chain: Markov) -> Floats:
    """`P^0 … P^length`, and the stationary law once more, shape `(length + 2, vocab, vocab)`."""
    result = [np.eye(chain.vocab), chain.transition]
    stationary = np.tile(chain.stationary, (chain.vocab, 1))
    while len(result) <= chain.length:
        power = result[-1] @ chain.transition
        # Once it is stationary to rounding it is so exactly: noise would rank positions that are alike.
        result.append(stationary if np.abs(power - stationary).max() < 1e-14 else power)
    return np.stack([*result, stationary])


@final
@dataclass(frozen=True, eq=False)
class SecondOrder(MaskPredictor):
    """The perfect predictor of a chain in which a token depends on the two before it.

        α_t(u, v) = p(x_{t−1} = u, x_t = v, known up to t)          β_t(u, v) = p(known after t | u, v)

    Arguments:
        pairs: The law of the first two tokens, shape `(vocab, vocab)`.
        step: `p(w | u, v)`, shape `(vocab, vocab, vocab)`.
    """

    pairs: torch.Tensor
    step: torch.Tensor

    @staticmethod
    def of(counts: Integers) -> "SecondOrder":
        seen = torch.as_tensor(counts + 1.0, dtype=torch.float64)
        pairs = seen.sum(dim=2)
        return SecondOrder(pairs / pairs.sum(), seen / seen.sum(dim=2, keepdim=True))

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.pairs)

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.pairs)

    def __call__(self, tokens: torch.Tensor, masked: torch.Tensor, rows: torch.Tensor | None = None) -> Prediction:
        law = self._marginals(tokens, masked).log().flatten(0, 1)
        return Prediction((law if rows is None else law[rows],), lambda part: part, self.vocab)

    def _marginals(self, tokens: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        known = torch.nn.functional.one_hot(tokens.masked_fill(masked, 0), self.vocab).double()
        seen = torch.where(masked[..., None], 1.0, known)  # what may stand at each position
        # Laws of two tokens are kept as (v, batch, u), so that a step is a product of matrices for every v.
        ahead, behind = self.step.transpose(0, 1).contiguous(), self.step.permute(1, 2, 0).contiguous()
        alpha = [(self.pairs.T[:, None, :] * seen[None, :, 0]) * seen[:, 1].T[..., None]]
        for position in range(2, length):
            law = (alpha[-1] @ ahead).permute(2, 1, 0) * seen[:, position].T[..., None]
            alpha.append(law / law.sum(dim=(0, 2), keepdim=True))
        result = torch.empty((*tokens.shape, self.vocab), dtype=torch.float64)
        message = torch.ones_like(alpha[0])
        for position in range(length - 1, 0, -1):
            both = alpha[position - 1] * message
            result[:, position] = both.sum(dim=2).T
            if position == 1:
                result[:, 0] = both.sum(dim=0)
                break
            # β(u, v) = Σ_w p(w | u, v) seen(w) β(v, w): for every v a product over w.
            inner = (message * seen[:, position].T[..., None]).permute(2, 1, 0)
            message = inner @ behind
            message = message / message.amax(dim=(0, 2), keepdim=True)
        return result / result.sum(dim=2, keepdim=True)

    def sample(self, count: int, length: int, rng: np.random.Generator) -> torch.Tensor:
        """Texts of the chain, shape `(count, length)`."""
        vocab, sums = self.vocab, self.step.numpy().cumsum(axis=2)
        tokens = np.empty((count, length), dtype=np.int64)
        first = rng.choice(vocab**2, size=count, p=self.pairs.numpy().ravel())
        tokens[:, 0], tokens[:, 1] = np.divmod(first, vocab)
        for position in range(2, length):
            law = sums[tokens[:, position - 2], tokens[:, position - 1]]
            tokens[:, position] = (law <= rng.random((count, 1)) * law[:, -1:]).sum(axis=1)
        return torch.as_tensor(tokens)

    def log_probability(self, tokens: torch.Tensor) -> Floats:
        """`log p(x)` of each text."""
        three = self.step[tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]].log().sum(dim=1)
        return (self.pairs[tokens[:, 0], tokens[:, 1]].log() + three).numpy()


def steps_of(positions: Integers, sizes: Integers) -> Integers:
    """The step at which each position is revealed, if they are taken in this order."""
    result = np.empty(positions.size, dtype=np.int64)
    result[positions] = np.repeat(np.arange(sizes.size), sizes)
    return result


def stretches(step: Integers) -> Iterator[tuple[int, int, list[int]]]:
    """Every stretch that is cut: its ends, −1 and the length where there is none, and the positions revealed in it."""
    known = np.array([-1, step.size])
    for number in range(int(step.max()) + 1):
        new = np.flatnonzero(step == number)
        stretch = np.searchsorted(known, new)
        for index in np.unique(stretch):
            yield int(known[index - 1]), int(known[index]), new[stretch == index].tolist()
        known = np.sort(np.concatenate([known, new]))


def excess(informations: Floats, step: Integers) -> float:
    """The exact KL in nats from a chain to the sampler that reveals each position at its step."""
    known = np.zeros(step.size + 2)
    known[1 : informations.size + 1] = informations
    total = 0.0
    for a, b, inside in stretches(step):
        left, right = a >= 0, b < step.size  # what is not there tells nothing
        for i, j in pairwise(inside):
            both = known[b - a] if left and right else 0.0
            total += known[j - i] + both - left * known[j - a] - right * known[b - i]
    return max(total, 0.0)


def pair_law(table: Floats, stationary: Floats, step: Integers) -> Floats:
    """The exact law of two neighbouring tokens that the sampler writes, the mean over all places."""
    length = step.size

    def inside(a: int, i: int, b: int) -> Floats:
        """`p(x_i | x_a, x_b)`, with axes for `x_a`, `x_i` and `x_b`; an end that is missing has one value."""
        left = stationary[None, :] if a < 0 else table[i - a]
        if b == length:
            return left[:, :, None]
        whole = stationary[None, :] if a < 0 else table[b - a]
        return left[:, :, None] * table[b - i][None] / whole[:, None, :]

    ends: dict[tuple[int, int], Floats] = {(-1, length): np.ones((1, 1))}
    for a, b, group in stretches(step):
        joint = ends.pop((a, b))
        laws = [inside(a, i, b) for i in group]
        ends[a, group[0]] = np.einsum("ab,axb->ax", joint, laws[0])
        ends[group[-1], b] = np.einsum("ab,axb->xb", joint, laws[-1])
        for (i, here), (j, there) in pairwise(zip(group, laws, strict=True)):
            vocab = here.shape[1]
            weighed = (joint[:, None, :] * here).transpose(1, 0, 2).reshape(vocab, -1)
            ends[i, j] = weighed @ there.transpose(0, 2, 1).reshape(-1, vocab)
    return np.mean([ends[i, i + 1] for i in range(length - 1)], axis=0)


def rates(pairs: Floats, transition: Floats) -> dict[str, float]:
    """The error rates of a law of two neighbouring tokens; counts will do."""
    law = pairs / pairs.sum()
    right = law.sum(axis=1, keepdims=True) * transition
    some = law > 0
    return {
        "tv_rate": float(np.abs(law - right).sum() / 2),
        "kl_rate": max(float((law[some] * np.log(law[some] / right[some])).sum()), 0.0),
    }


def neighbours(tokens: Integers, vocab: int) -> Floats:
    """How often every two tokens follow one another in texts."""
    codes = tokens[:, :-1] * vocab + tokens[:, 1:]
    return np.bincount(codes.ravel(), minlength=vocab**2).reshape(vocab, vocab).astype(np.float64)
