"""Published samplers, rewritten from their formulas for one sequence, and the (order, size) pairs that equal them.

Each rewrite is a plain loop over numpy arrays. Deterministic rules must reveal the same sets with the same tokens at
each step; random ones must have the same sizes and the same law.
"""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from reference import chi_square  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.predict import Logits, Shifted  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LENGTH, VOCAB, MASK = 16, 5, 5
SEEDS = range(6)


def toy(seed, scale=1.0):
    return table_model(VOCAB, LENGTH, seed, torch.float64, scale)


def probabilities(model, tokens):
    logits = model(torch.from_numpy(tokens)[None])[0].numpy()
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def entropies(p):
    return -(p * np.log(p)).sum(axis=-1)


def margins(p):
    ordered = np.sort(p, axis=-1)
    return ordered[:, -1] - ordered[:, -2]


class Path:
    """A sequence being filled with the most likely tokens, and the sets revealed on the way."""

    def __init__(self, model, prompt=(), shifted=False):
        self.model, self.shifted, self.sets = model, shifted, []
        self.tokens = np.full(LENGTH, MASK)
        self.tokens[: len(prompt)] = prompt

    @property
    def masked(self):
        return np.flatnonzero(self.tokens == MASK)

    def predict(self):
        p = probabilities(self.model, self.tokens)
        return np.concatenate([p[:1], p[:-1]]) if self.shifted else p

    def reveal(self, positions, p):
        self.tokens[positions] = p[positions].argmax(axis=-1)
        self.sets.append(sorted(int(i) for i in positions))


def same(path, schedule, model, prompt=(), shifted=False):
    """Our sampler, greedy, against a finished path."""
    predictor = Logits(model, VOCAB, MASK)
    start = torch.full((1, LENGTH), MASK)
    start[0, : len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
    trace = Sampler(Shifted(predictor) if shifted else predictor, schedule, Greedy()).run(start, rng=[0])
    mine = [torch.nonzero(trace.revealed[0] == step)[:, 0].tolist() for step in range(trace.steps)]
    assert mine == path.sets
    assert trace.tokens[0].tolist() == path.tokens.tolist()


def largest(score, candidates, count):
    return candidates[np.argsort(-score[candidates], kind="stable")[:count]]


def even_split(masked, steps):
    """How many tokens LLaDA transfers at each step: an even split, the remainder to the first steps."""
    base, rest = divmod(masked, steps)
    return [base + 1] * rest + [base] * (steps - rest)


@pytest.mark.parametrize("seed", SEEDS)
def test_autoregressive_decoding_is_left_to_right_one_by_one(seed):
    model = toy(seed)
    path = Path(model)
    for position in range(LENGTH):
        path.reveal(np.array([position]), path.predict())
    same(path, Schedule(size.Even(LENGTH), order.LeftToRight()), model)


@pytest.mark.parametrize("prompt", [(), (1, 0, 3)], ids=["no prompt", "prompt"])
@pytest.mark.parametrize("steps", [3, 4, 7])
@pytest.mark.parametrize("seed", SEEDS)
def test_llada_low_confidence_is_confidence_with_even_sizes(seed, steps, prompt):
    model = toy(seed)
    path = Path(model, prompt)
    for count in even_split(LENGTH - len(prompt), steps):
        p = path.predict()
        path.reveal(largest(p.max(axis=-1), path.masked, count), p)
    same(path, Schedule(size.Even(steps), order.Confidence()), model, prompt)


@pytest.mark.parametrize("prompt", [(), (1, 0, 3, 2)], ids=["no prompt", "prompt"])
@pytest.mark.parametrize("seed", SEEDS)
def test_llada_with_blocks_is_the_same_within_blocks(seed, prompt):
    """Block length 4, 2 steps in each block; blocks begin after the prompt."""
    model = toy(seed)
    path = Path(model, prompt)
    for start in range(len(prompt), LENGTH, 4):
        for count in even_split(4, 2):
            p = path.predict()
            candidates = path.masked[(path.masked >= start) & (path.masked < start + 4)]
            path.reveal(largest(p.max(axis=-1), candidates, count), p)
    same(path, Schedule(size.Even(2), order.Blocks(order.Confidence(), 4)), model, prompt)


@pytest.mark.parametrize("blocks", [False, True])
def test_llada_random_is_random_order_with_even_sizes(blocks):
    """Ranks by uniform noise: sizes equal, and the first set of 2 among 4 uniform (chi-square, 3,000 rows, 1e-6)."""
    model = Logits(lambda tokens: torch.zeros((*tokens.shape, 2)), 2, 2)
    which = order.Blocks(order.Random(), 4) if blocks else order.Random()
    length = 8 if blocks else 4
    trace = Sampler(model, Schedule(size.Even(2), which)).run((3000, length), rng=torch.Generator().manual_seed(1))
    assert torch.equal(trace.sizes, torch.tensor(even_split(4, 2) * (length // 4)).expand(3000, -1))
    rng = np.random.default_rng(2)
    for start in range(0, length, 4):
        first = trace.revealed[:, start : start + 4].numpy() == start // 2
        mine = np.bincount(first @ (1 << np.arange(4)), minlength=16)
        noise = rng.random((3000, 4)).argsort(axis=1) < 2  # LLaDA: the two largest of four uniform numbers
        theirs = np.bincount(noise @ (1 << np.arange(4)), minlength=16)
        uniform = np.array([bin(code).count("1") == 2 for code in range(16)]) / 6
        assert chi_square(mine, uniform) > 1e-6
        assert chi_square(theirs, uniform) > 1e-6


@pytest.mark.parametrize("steps", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_maskgit_is_confidence_with_cosine_sizes(seed, steps):
    """After step `k` of `K` the `⌊L cos(π/2 · k/K)⌋` least confident stay masked: at least one, and one fewer."""
    model = toy(seed)
    path = Path(model)
    for k in range(1, steps + 1):
        p, unknown = path.predict(), path.masked.size
        stay = int(np.floor(LENGTH * np.cos(np.pi / 2 * k / steps)))
        stay = 0 if k == steps else max(1, min(unknown - 1, stay))
        path.reveal(largest(p.max(axis=-1), path.masked, unknown - stay), p)
    same(path, Schedule(size.Cosine(steps), order.Confidence()), model)


def ancestral_steps(rows, length, steps, rng, floor=0.0):
    """The step at which each token is revealed: at times `t → s` every masked one with probability `1 − s/t`.

    Times fall from 1 to `floor` on a uniform grid; the last step reveals what is left.
    """
    times = np.linspace(1, floor, steps + 1)
    result = np.full((rows, length), -1)
    for k in range(steps):
        chance = 1.0 if k == steps - 1 else 1 - times[k + 1] / times[k]
        result[(result < 0) & (rng.random((rows, length)) < chance)] = k
    return result


@pytest.mark.parametrize(("name", "floor"), [("MDLM", 0.0), ("Dream origin", 1e-3)])
def test_ancestral_sampling_is_random_order_with_log_linear_sizes(name, floor):
    """Each token's step is uniform on the `K` steps, independently: `3^3` cells, chi-square at level 1e-6.

    Ours counts the steps at which a sequence reveals something; so do we in the rewrite and in the `3^3` cells. 5,000
    rows each. Dream stops its times at 1e-3, which shifts each cell by less than 0.3 %.
    """

    def counted(steps):
        return np.unique(steps, return_inverse=True)[1]

    chances = np.zeros(27)
    for cell in itertools.product(range(3), repeat=3):
        chances[counted(cell) @ np.array([9, 3, 1])] += 1 / 27
    model = Logits(lambda tokens: torch.zeros((*tokens.shape, 2)), 2, 2)
    sampler = Sampler(model, Schedule(size.LogLinear(3), order.Random()))
    mine = sampler.run((5000, 3), rng=torch.Generator().manual_seed(3)).revealed.numpy()
    theirs = ancestral_steps(5000, 3, 3, np.random.default_rng(4), floor)
    for found in (mine, np.array([counted(row) for row in theirs])):
        counts = np.bincount(found @ np.array([9, 3, 1]), minlength=27)
        assert chi_square(counts, chances) > 1e-6


def dream_sizes(length, steps, floor=1e-3):
    """Tokens per step in Dream's ranked algorithms: the mean number of `origin`, rounded down, and the rest at last."""
    times, left, sizes = np.linspace(1, floor, steps + 1), length, []
    for k in range(steps):
        sizes.append(left if k == steps - 1 else int(left * (1 - times[k + 1] / times[k])))
        left -= sizes[-1]
    return sizes


@pytest.mark.parametrize(
    ("which", "score"),
    [
        (order.Confidence(), lambda p: p.max(axis=-1)),
        (order.Margin(), margins),
        (order.Entropy(), lambda p: -entropies(p)),
    ],
    ids=["maskgit_plus", "topk_margin", "entropy"],
)
@pytest.mark.parametrize("steps", [3, 4, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_dream_is_a_ranked_order_on_shifted_logits(seed, steps, which, score):
    model = toy(seed)
    path = Path(model, shifted=True)
    sizes = dream_sizes(LENGTH, steps)
    for count in sizes:
        p = path.predict()
        path.reveal(largest(score(p), path.masked, count), p)
    same(path, Schedule(size.Explicit(sizes), which), model, shifted=True)


def test_dream_sizes_are_even_but_for_rounding():
    assert dream_sizes(16, 4, floor=0.0) == [4, 4, 4, 4] == size.Even(4).sizes(16).tolist()
    assert dream_sizes(16, 4) == [3, 4, 4, 5]


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", SEEDS)
def test_fast_dllm_threshold_is_confidence_with_a_threshold(seed, threshold):
    """All masked positions with confidence at least the threshold; the most confident one in any case."""
    model = toy(seed, scale=0.7)
    path = Path(model)
    while path.masked.size:
        p = path.predict()
        confidence = p.max(axis=-1)
        chosen = path.masked[confidence[path.masked] >= threshold]
        path.reveal(chosen if chosen.size else largest(confidence, path.masked, 1), p)
    same(path, Schedule(size.Threshold(threshold), order.Confidence()), model)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_fast_dllm_factor_is_confidence_with_a_factor(seed, factor):
    """Sorted confidences: rank `r` is accepted while `c_(r) ≥ 1 − f/(r+1)`, the first always."""
    model = toy(seed, scale=0.7)
    path = Path(model)
    while path.masked.size:
        p = path.predict()
        ranking = largest(p.max(axis=-1), path.masked, LENGTH)
        count = 1
        while count < ranking.size and p[ranking[count]].max() >= 1 - factor / (count + 2):
            count += 1
        path.reveal(ranking[: 1 if p[ranking[0]].max() < 1 - factor / 2 else count], p)
    same(path, Schedule(size.Factor(factor), order.Confidence()), model)


@pytest.mark.parametrize("bound", [0.01, 0.5, 1.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_entropy_bounded_unmasking_is_entropy_order_with_an_entropy_bound(seed, bound):
    """The largest `U` among the prefixes of rising entropy with `Σ_U H − max_U H ≤ γ`."""
    model = toy(seed, scale=0.7)
    path = Path(model)
    while path.masked.size:
        p = path.predict()
        h = entropies(p)
        ranking = largest(-h, path.masked, LENGTH)
        fits = [n for n in range(1, ranking.size + 1) if h[ranking[:n]].sum() - h[ranking[:n]].max() <= bound]
        path.reveal(ranking[: max(fits)], p)
    same(path, Schedule(size.EntropyBound(bound), order.Entropy()), model)


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("seed", SEEDS)
def test_dilated_unmasking_is_dilated_order_with_its_own_rounds(seed, block):
    """Within a block of `B`, round `t` of `log2 B` reveals the unrevealed `k` with `(k−1) mod ⌊B/2^t⌋ = 0`."""
    model = toy(seed)
    path = Path(model)
    for start in range(0, LENGTH, block):
        for t in range(1, int(np.log2(block)) + 1):
            now = [start + k - 1 for k in range(1, block + 1) if (k - 1) % (block // 2**t) == 0]
            path.reveal(np.array([i for i in now if i in path.masked]), path.predict())
    how_many = size.Explicit(order.Dilated.rounds(block))
    same(path, Schedule(how_many, order.Blocks(order.Dilated(), block)), model)
