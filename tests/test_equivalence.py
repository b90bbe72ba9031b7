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


def spaced(positions, distance):
    """DUS's filter: positions in the order of their score, each at least the distance from those accepted before."""
    accepted = []
    for position in positions:
        if all(abs(position - other) >= distance for other in accepted):
            accepted.append(position)
    return np.array(accepted)


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("stride", [4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_spacing_filter_behind_a_threshold_is_a_spaced_order(seed, stride, block):
    """DUS's CB-Sampler: confidence at least 0.3, or the largest; then a distance of `max(2, ⌊M g / B⌋)`, `M` masked."""
    model = toy(seed, scale=0.7)
    path = Path(model)
    for start in range(0, LENGTH, block):
        while (inside := path.masked[(path.masked >= start) & (path.masked < start + block)]).size:
            p = path.predict()
            ranking = largest(p.max(axis=-1), inside, block)
            chosen = [i for number, i in enumerate(ranking) if number == 0 or p[i].max() >= 0.3]
            path.reveal(spaced(chosen, max(2, inside.size * stride // block)), p)
    which = order.Blocks(order.Spaced(order.Confidence(), stride, fading=True), block)
    same(path, Schedule(size.Threshold(0.3), which), model)


@pytest.mark.parametrize("stride", [4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_spacing_filter_behind_an_entropy_bound_is_a_spaced_order(seed, stride):
    """DUS's EB-Sampler: the bound, in bits there, chooses a prefix of rising entropy, and the filter thins it out."""
    model = toy(seed, scale=0.7)
    path = Path(model)
    while path.masked.size:
        p = path.predict()
        h = entropies(p) / np.log(2)
        ranking = largest(-h, path.masked, LENGTH)
        fits = np.cumsum(h[ranking]) - np.maximum.accumulate(h[ranking]) <= 3.0
        chosen = ranking[: max(1, int(fits.sum()))]
        path.reveal(spaced(chosen, max(2, path.masked.size * stride // LENGTH)), p)
    which = order.Spaced(order.Entropy(), stride, fading=True)
    same(path, Schedule(size.EntropyBound(3.0 * np.log(2)), which), model)


def halton_mask(side, points):
    """Besnier et al.: points of the Halton sequences of bases 2 and 3, in single precision, without repetitions."""

    def sequence(base):
        numerator, denominator, found = 0, 1, []
        for _ in range(points):
            rest = denominator - numerator
            if rest == 1:
                numerator, denominator = 1, denominator * base
            else:
                step = denominator // base
                while rest <= step:
                    step //= base
                numerator = (base + 1) * step - rest
            found.append(numerator / denominator)
        return np.array(found, dtype=np.float32)

    cells = np.floor(np.stack([sequence(2), sequence(3)], axis=1) * side).astype(np.int64)
    return list(dict.fromkeys(map(tuple, cells.tolist())))


@pytest.mark.parametrize("side", [4, 8, 16, 32])
def test_the_halton_scheduler_is_halton_order(side):
    """All cells of a square grid, with the 10,000 points of the published code; and rolled by any number of them."""
    cells = [row * side + column for row, column in halton_mask(side, 10_000)]
    positions = np.arange(side * side)
    arranged = order.Halton(side, side).arrange(positions, length=side * side, steps=8, rng=0)
    assert arranged.tolist() == cells
    rolled = order.Halton(side, side, rolled=True).arrange(positions, length=side * side, steps=8, rng=1)
    turn = cells.index(int(rolled[0]))
    assert rolled.tolist() == cells[turn:] + cells[:turn]


@pytest.mark.parametrize("steps", [3, 4, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_halton_scheduler_reveals_arccosine_shares_of_its_walk(seed, steps):
    """After step `k` of `K` the first `max(k, ⌊L (1 − arccos(k/K) / (π/2))⌋)` cells of a 4 × 4 grid are revealed."""
    model = toy(seed)
    path, cells, done = Path(model), [4 * row + column for row, column in halton_mask(4, 10_000)], [0]
    for k in range(1, steps + 1):
        done.append(max(k, int((1 - np.arccos(k / steps) / (np.pi / 2)) * LENGTH)))
        path.reveal(np.array(cells[done[-2] : done[-1]]), path.predict())
    same(path, Schedule(size.Explicit(np.diff(done)), order.Halton(4, 4)), model)


@pytest.mark.parametrize("prompt", [(), (1, 0, 3, 2)], ids=["no prompt", "prompt"])
@pytest.mark.parametrize(("decay", "most"), [(0.25, 10.0), (0.0, 10.0), (0.05, 0.8)])
@pytest.mark.parametrize("block", [4, 16])
@pytest.mark.parametrize("seed", SEEDS)
def test_pc_sampler_is_calibrated_order_with_even_sizes(seed, block, decay, most, prompt):
    """The score `exp(−λ i) · min(α, −p log(f + 1e-9))`, with `i` from the beginning of the block, in blocks."""
    model = toy(seed)
    path = Path(model, prompt)
    text = np.random.default_rng(seed).choice(VOCAB, size=50, p=[0.6, 0.2, 0.1, 0.1, 0.0])
    frequency = np.full(VOCAB, 1 / text.size)
    for token, count in zip(*np.unique(text, return_counts=True), strict=True):
        frequency[token] = count / text.size
    for start in range(len(prompt), LENGTH, block):
        inside = np.arange(start, min(start + block, LENGTH))
        for count in even_split(inside.size, 4):
            p = path.predict()
            told = np.minimum(most, -p.max(axis=-1) * np.log(frequency[p.argmax(axis=-1)] + 1e-9))
            score = np.full(LENGTH, -np.inf)
            score[inside] = np.exp(-decay * np.arange(inside.size)) * told[inside]
            path.reveal(largest(score, np.intersect1d(path.masked, inside), count), p)
    which = order.Calibrated(order.Calibrated.counted(text.tolist(), VOCAB), decay, most)
    same(path, Schedule(size.Even(4), order.Blocks(which, block)), model, prompt)


@pytest.mark.parametrize("history", [1, 2, 3])
@pytest.mark.parametrize(("threshold", "divergence"), [(0.9, 0.01), (0.4, 0.05), (0.3, 0.3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_klass_is_confidence_with_a_stable_size(seed, threshold, divergence, history):
    """All sure and still positions, else the most confident: as many steps as tokens, and one block.

    KLASS asks the model about the whole sequence at every step, and so has seen the positions of its second block
    before it comes to them; ours begins each block anew, as no more than the block is predicted.
    """
    model = toy(seed, scale=0.12)
    path = Path(model)
    moved, before = np.zeros((LENGTH, history)), np.zeros((LENGTH, VOCAB))
    for step in range(LENGTH):
        if not path.masked.size:
            break
        p = path.predict()
        divergences = (p * (np.log(p + 1e-12) - np.log(before + 1e-12))).sum(axis=-1)
        moved, before = np.concatenate([moved[:, 1:], divergences[:, None]], axis=1), p
        still = (moved < divergence).all(axis=1) & (step >= history - 1)
        ready = path.masked[(still & (p.max(axis=-1) > threshold))[path.masked]]
        path.reveal(ready if ready.size else largest(p.max(axis=-1), path.masked, 1), p)
    same(path, Schedule(size.Stable(threshold, divergence, history), order.Confidence()), model)
    assert threshold > 0.3 or len(path.sets) < LENGTH  # where little is asked for, steps are saved


@pytest.mark.parametrize("weight", [0.01, 0.4])
@pytest.mark.parametrize("steps", [2, 4, 8, 16])
@pytest.mark.parametrize("seed", SEEDS)
def test_early_rejection_of_ends_is_the_order_that_puts_them_later(seed, steps, weight):
    """EOSER: the confidence of an end counts with `γ + (1 − γ) i / (K − 1)` at step `i` of `K`."""
    model = toy(seed)
    path = Path(model)
    for i, count in enumerate(even_split(LENGTH, steps)):
        p = path.predict()
        ends = p.argmax(axis=-1) == 2
        path.reveal(
            largest(p.max(axis=-1) * np.where(ends, weight + (1 - weight) * i / (steps - 1), 1), path.masked, count), p
        )
    same(path, Schedule(size.Even(steps), order.EndLater([2], weight)), model)


@pytest.mark.parametrize("prompt", [(), (1, 0, 3)], ids=["no prompt", "prompt"])
@pytest.mark.parametrize(("least", "delimiters"), [(0.3, [1]), (0.5, [1, 2]), (0.9, [0])])
@pytest.mark.parametrize("seed", SEEDS)
def test_adaptive_block_lengths_are_a_delimited_order(seed, least, delimiters, prompt):
    """AdaBlock: a block ends at the surest delimiter in a quarter of the answer, or else has three positions."""
    model = toy(seed, scale=0.5)
    path, answer = Path(model, prompt), LENGTH - len(prompt)
    done, lengths = 0, []
    while done < answer:
        begin, p = len(prompt) + done, path.predict()
        window = range(begin, begin + min(int(0.25 * answer), answer - done))
        found = [i for i in window if p[i].argmax() in delimiters]
        best = max(found, key=lambda i: p[i].max(), default=None)
        sure = best is not None and p[best].max() >= least
        lengths.append(best - begin + 1 if sure else min(3, answer - done))
        done += lengths[-1]
        while (inside := path.masked[path.masked < len(prompt) + done]).size:
            p = path.predict()
            chosen = inside[p[inside].max(axis=-1) >= 0.6]
            path.reveal(chosen if chosen.size else largest(p.max(axis=-1), inside, 1), p)
    which = order.Delimited(order.Confidence(), 3, delimiters, least)
    same(path, Schedule(size.Threshold(0.6), which), model, prompt)
    assert least > 0.3 or any(length != 3 for length in lengths[:-1])
