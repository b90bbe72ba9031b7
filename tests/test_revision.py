"""Tokens that are taken back: laws by enumeration, published loops rewritten, and what every rule keeps to."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

torch = pytest.importorskip("torch")

from unmask import InputError, order, revision, size  # noqa: E402
from unmask.distribution import Markov, Table  # noqa: E402
from unmask.evaluate import replay, revised_law  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Counted, ExactPredictor, Logits, Tempered  # noqa: E402
from unmask.sample import Categorical, Greedy, Sampler, Stop  # noqa: E402
from unmask.sample.trace import GIVEN, PADDED  # noqa: E402
from unmask.sample.versions import MASKED  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

RANDOM, SURE = order.Random(), order.Confidence()
# Every rule with sizes and orders that can be enumerated.
LAWS = {
    "none": Schedule(size.Even(2), RANDOM),
    "cap": Schedule(size.Even(3), RANDOM, revision.Cap(0.5)),
    "cap, more than can be": Schedule(size.Explicit([2, 1, 1]), RANDOM, revision.Cap(1.0)),
    "cap, comb": Schedule(size.Even(3), order.Comb(shift=0), revision.Cap(0.5)),
    "cap, confidence": Schedule(size.Even(3), SURE, revision.Cap(0.5)),
    "rescale": Schedule(size.Even(3), RANDOM, revision.Rescale(0.7)),
    "rescale, by themselves": Schedule(size.LogLinear(3), RANDOM, revision.Rescale(0.7)),
    "least sure": Schedule(size.Even(3), RANDOM, revision.LeastSure()),
    "least sure, by themselves": Schedule(size.LogLinear(3), RANDOM, revision.LeastSure()),
    "loop": Schedule(size.Even(2), RANDOM, revision.Loop(2, 0.4, 0.5)),
    "planner": Schedule(size.Even(3), SURE, revision.Planner(2.0)),
    "likeliest": Schedule(size.Even(2), SURE, revision.Likeliest()),
    "verify": Schedule(size.Even(2), order.LeftToRight(), revision.Verify(0.5)),
    "verify, threshold": Schedule(size.AtLeast(size.Threshold(0.7), 2), SURE, revision.Verify(0.9)),
    "verify, threshold, random": Schedule(size.AtLeast(size.Threshold(0.7), 2), RANDOM, revision.Verify(0.9)),
    "threshold, random": Schedule(size.Threshold(0.7), RANDOM),
    "entropy bound, random": Schedule(size.EntropyBound(0.4), RANDOM),
    "entropy bound, comb": Schedule(size.EntropyBound(0.4), order.Comb(shift=0)),
    "likeliest, threshold": Schedule(size.Threshold(0.7), SURE, revision.Likeliest()),
    "likeliest, factor": Schedule(size.Factor(1.0), SURE, revision.Likeliest()),
    "likeliest, entropy bound": Schedule(size.EntropyBound(0.4), SURE, revision.Likeliest()),
    "gibbs, threshold, random": Schedule(size.Threshold(0.7), RANDOM, revision.Gibbs(2)),
    "edit": Schedule(size.Even(2), RANDOM, revision.Edit(0.4)),
    "gibbs": Schedule(size.Even(2), RANDOM, revision.Gibbs(2)),
    "gibbs, two at once, at the end": Schedule(size.Even(2), SURE, revision.Gibbs(2, 2, True)),
}


def table(length=4, vocab=2, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(vocab**length, 0.5)).reshape((vocab,) * length)


class Mixing(torch.nn.Module):
    """A small network that looks both ways, in float64 so that nothing is decided by rounding."""

    def __init__(self, vocab=5, width=8, length=12, sharp=4.0, seed=0):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.embed = torch.randn(vocab + 1, width, generator=draw, dtype=torch.float64)
        self.mix = torch.randn(length, length, generator=draw, dtype=torch.float64) / length**0.5
        self.head = sharp * torch.randn(width, vocab, generator=draw, dtype=torch.float64) / width**0.5

    def forward(self, tokens):
        x = self.embed[tokens]
        size = tokens.shape[1]
        return torch.tanh(x + self.mix[:size, :size] @ x) @ self.head


def network(**shape):
    vocab = shape.get("vocab", 5)
    return Logits(Mixing(**shape), vocab=vocab, mask=vocab)


def probabilities(predictor, tokens):
    """What the bare network says, shape `(length, vocab)`; tokens of −1 are masked."""
    given = torch.tensor(tokens)[None]
    given = given.masked_fill(given < 0, predictor.mask)
    return torch.softmax(predictor.model(given)[0], dim=-1).numpy()


# Laws


@pytest.mark.parametrize("name", LAWS)
def test_what_is_generated_has_the_enumerated_law(name):
    """Chi-squared on 8,000 texts with a predictor that is wrong: fails by chance once in a million runs of each."""
    schedule, joint, count = LAWS[name], table(), 8_000
    predictor = Tempered(ExactPredictor(Table(joint)), 1.3)
    law = revised_law(predictor, schedule, joint)
    assert law.output.sum() == pytest.approx(1, abs=1e-12)
    trace = Sampler(predictor, schedule).run((count, 4), rng=7)
    found = np.zeros(joint.shape)
    np.add.at(found, tuple(trace.tokens.numpy().T), 1)
    expected = law.output * count
    likely = expected > 5
    distance = ((found - expected) ** 2 / np.maximum(expected, 1e-300))[likely].sum()
    distance += (found[~likely].sum() - expected[~likely].sum()) ** 2 / max(expected[~likely].sum(), 1)
    assert chi2.sf(distance, int(likely.sum())) > 1e-6
    error = trace.evaluations.std() / count**0.5
    assert abs(trace.evaluations.mean() - law.evaluations) <= 5 * error + 1e-9


def test_where_a_size_looks_every_random_order_is_followed_by_itself():
    """By hand over the six orders of three tokens, of which the middle one is a fair coin by itself.

    With a threshold of 0.8 a step reveals the middle alone, and the ends together if one follows the other in the
    order. Where a step stopped says what comes next, so an order must not be drawn again at every step.
    """
    joint = np.zeros((2, 2, 2))
    joint[0, :, 0], joint[0, :, 1], joint[1, :, 0] = 0.4, 0.05, 0.05
    law = revised_law(ExactPredictor(Table(joint)), Schedule(size.Threshold(0.8), RANDOM), joint)
    # In four of the six orders the ends are drawn together, and both are 1 in 1 % of these texts; else never.
    assert law.output[1, :, 1].sum() == pytest.approx(4 / 6 * 0.01, abs=1e-12)
    assert law.evaluations == pytest.approx(14 / 6, abs=1e-12)


def test_with_a_random_order_and_a_size_that_looks_only_short_texts_are_enumerated():
    predictor, joint = ExactPredictor(Markov.sticky(2, 0.8, 7)), np.full((2,) * 7, 2**-7)
    with pytest.raises(InputError, match="at most 6 tokens, not 7, because the order is random"):
        revised_law(predictor, Schedule(size.Threshold(0.8), RANDOM), joint)


def remasked(joint, rates, kind):
    """The law of ReMDM's published transition, each position by itself, on all partial sequences.

    `rates` has the shares revealed before and after each step and whether it remasks.
    """
    length, vocab = joint.ndim, joint.shape[0]
    distribution = Table(joint)
    # A state is a partial sequence with the probability at which each token was drawn.
    law = {(((MASKED, 0.0),) * length): 1.0}
    for before, after, active in rates:
        most = min(1.0, (1 - after) / before) if before else 1.0
        result = {}
        for state, weight in law.items():
            tokens = np.array([[max(token, 0) for token, _ in state]])
            masked = np.array([[token == MASKED for token, _ in state]])
            chance = distribution.marginals(tokens, masked)[0]
            shown = [np.exp(-kept) if token != MASKED else 0.0 for token, kept in state]
            moves = []
            for place, (token, kept) in enumerate(state):
                sigma = 0.0 if not active else kind(most, shown[place] / max(sum(shown), 1e-300))
                if token != MASKED:
                    moves.append([((token, kept), 1 - sigma), ((MASKED, 0.0), sigma)])
                    continue
                sigma = 0.0 if not active else kind(most, 0.0)
                rate = (after - (1 - sigma) * before) / (1 - before)
                drawn = [((new, round(chance[place, new], 12)), rate * chance[place, new]) for new in range(vocab)]
                moves.append([*drawn, ((MASKED, 0.0), 1 - rate)])
            for each in itertools.product(*moves):
                part = weight * math.prod(move[1] for move in each)
                if part > 0:
                    key = tuple(move[0] for move in each)
                    result[key] = result.get(key, 0.0) + part
        law = result
    output = np.zeros(joint.shape)
    for state, weight in law.items():
        output[tuple(token for token, _ in state)] += weight
    return output


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (revision.Cap(0.3), lambda most, part: min(0.3, most)),
        (revision.Rescale(0.6), lambda most, part: 0.6 * most),
        (revision.LeastSure(), lambda most, part: part * most),
    ],
)
def test_tokens_that_choose_by_themselves_are_remasked_as_published(rule, kind):
    joint, steps = table(3, 2, seed=3), 3
    rates = [(k / steps, (k + 1) / steps, True) for k in range(steps)]
    law = revised_law(ExactPredictor(Table(joint)), Schedule(size.LogLinear(steps), RANDOM, rule), joint)
    np.testing.assert_allclose(law.output, remasked(joint, rates, kind), atol=1e-12)


def test_the_loop_remasks_as_published_while_the_share_stands():
    joint = table(3, 2, seed=4)
    rates = [(0, 1 / 3, False), (1 / 3, 2 / 3, False), (2 / 3, 2 / 3, True), (2 / 3, 2 / 3, True), (2 / 3, 1, False)]
    rule = revision.Loop(2, 0.2, 0.6)
    law = revised_law(ExactPredictor(Table(joint)), Schedule(size.LogLinear(3), RANDOM, rule), joint)
    np.testing.assert_allclose(law.output, remasked(joint, rates, lambda most, part: min(0.2, most)), atol=1e-12)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_drawing_anew_one_at_a_time_leaves_the_models_law_unchanged(count, seed):
    joint = table(4, 2, seed)
    law = revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(4), RANDOM, revision.Gibbs(count)), joint)
    np.testing.assert_allclose(law.output, joint, atol=1e-12)
    assert law.evaluations == pytest.approx(4 + 4 * count)


@pytest.mark.parametrize("which", [SURE, order.Margin()])
def test_with_orders_that_look_drawing_anew_keeps_the_law_only_at_the_end(which):
    joint = table(4, 2)
    early, late = (
        revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(4), which, rule), joint)
        for rule in (revision.Gibbs(1), revision.Gibbs(3, finally_only=True))
    )
    assert early.kl > 1e-4
    np.testing.assert_allclose(late.output, joint, atol=1e-12)


def test_drawing_two_anew_at_once_does_not_keep_the_law():
    joint = table(4, 2)
    law = revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(4), RANDOM, revision.Gibbs(2, 2)), joint)
    assert law.total_variation > 0.01


def test_drawing_anew_mends_what_parallel_steps_lose():
    joint = table(4, 2)
    found = [
        revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(1), RANDOM, rule), joint).kl
        for rule in (None, revision.Gibbs(2), revision.Gibbs(6), revision.Gibbs(12))
    ]
    assert all(first > then for first, then in itertools.pairwise(found))
    assert found[-1] < found[0] / 20


def test_keeping_the_likeliest_drafts_distorts_even_one_token_a_step():
    """Two independent bits with P(1) = 0.6 come out as 11 with probability 0.504, and positions first with 0.36."""
    joint = np.outer([0.4, 0.6], [0.4, 0.6])
    drafted = revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(2), SURE, revision.Likeliest()), joint)
    assert drafted.output[1, 1] == pytest.approx(0.504)
    assert revised_law(ExactPredictor(Table(joint)), Schedule(size.Even(2), SURE), joint).output[1, 1] == pytest.approx(
        0.36
    )


@pytest.mark.parametrize("rule", [revision.Cap(0.5), revision.Rescale(0.9)], ids=str)
def test_a_step_that_only_takes_tokens_back_counts_for_a_sequence_alone_too(rule):
    """Nobody else reveals anything then, and there is nothing to evaluate: 3 tokens in 6 steps have many such steps."""
    predictor = ExactPredictor(Markov.sticky(vocab=2, stay=0.8, length=3))
    sampler = Sampler(predictor, Schedule(size.LogLinear(6), RANDOM, rule))
    together = sampler.run((80, 3), rng=list(range(80)))
    alone = [sampler.run((1, 3), rng=[seed]) for seed in range(80)]
    assert torch.equal(together.tokens, torch.cat([each.tokens for each in alone]))
    assert together.evaluations.tolist() == [int(each.evaluations[0]) for each in alone]
    assert together.versions.taken == sum(each.versions.taken for each in alone) > 50


def test_a_predictor_that_remembers_is_not_enumerated_where_nothing_is_revised():
    network = CausalConfig(2, 2, 8, layers=1, readers=1, heads=2, hidden=8, reader_hidden=8).network()
    with pytest.raises(InputError, match="have no memory"):
        revised_law(network.predictor(), Schedule(size.Even(2), order.LeftToRight()), np.full((2, 2), 0.25))


def test_a_network_in_float32_is_enumerated():
    network = torch.nn.Sequential(torch.nn.Embedding(3, 8), torch.nn.Linear(8, 2))
    with torch.no_grad():
        found = revised_law(
            Logits(network, 2, 2), Schedule(size.Even(2), RANDOM, revision.Gibbs(1)), np.full((2, 2), 0.25)
        )
    assert found.output.sum() == pytest.approx(1, abs=1e-12)


def test_what_is_too_large_or_drawn_otherwise_is_not_enumerated():
    predictor, joint = ExactPredictor(Table(table())), table()
    for schedule, words in [
        (Schedule(size.Even(2), order.Spread()), "a random or a fixed order"),
        (Schedule(size.Even(2), order.Spaced(order.LeftToRight(), 2)), "not use Spaced"),
        (Schedule(size.Stable(0.9), SURE), "not use Spaced"),
        (Schedule(size.AtLeast(size.Stable(0.9), 2), SURE), "not use Spaced"),
        (
            Schedule(size.LogLinear(2), SURE, revision.Planner()),
            "have a revision that remasks at random if its sizes are log-linear",
        ),
        (Schedule(size.Even(2), order.Blocks(RANDOM, 2)), "no blocks"),
        (Schedule(size.TC(2), RANDOM), "fixed or log-linear"),
        (Schedule(size.LogLinear(2), RANDOM), "have a revision that remasks at random if its sizes are log-linear"),
        (Schedule(size.Even(2), RANDOM, revision.Edit(0.5, 3)), "no extra steps after the last"),
    ]:
        with pytest.raises(InputError, match=words):
            revised_law(predictor, schedule, joint)
    with pytest.raises(InputError, match="small enough"):
        revised_law(ExactPredictor(Markov.sticky(2, 0.8, 9)), Schedule(size.Even(2), RANDOM), np.full((2,) * 9, 2**-9))
    with pytest.raises(InputError, match="like the predictor"):
        revised_law(predictor, Schedule(size.Even(2), RANDOM), np.full((3, 3), 1 / 9))


# Published loops, rewritten: token by token


def numbers(sampler, seed, length, step, kind=0):
    """The random numbers of a step, as documented: from the seed and the step alone."""
    return np.random.default_rng([seed, 1 + step, 1 + kind]).random(length)


def draw(chances, number):
    return int(np.searchsorted(np.cumsum(chances), number * chances.sum(), side="right"))


@pytest.mark.parametrize("seed", range(5))
def test_drafts_of_which_the_likeliest_stay_are_lladas_loop(seed):
    predictor, length, steps = network(), 12, 4
    schedule = Schedule(size.Even(steps), SURE, revision.Likeliest())
    trace = Sampler(predictor, schedule).run((1, length), rng=[seed])
    x = [-1] * length
    for step in range(steps):
        p, u = probabilities(predictor, x), numbers(None, seed, length, step)
        drafted = [draw(p[at], u[at]) for at in range(length)]
        confidence = [p[at, drafted[at]] if x[at] < 0 else -np.inf for at in range(length)]
        for at in np.argsort(confidence)[::-1][: length // steps]:
            x[at] = drafted[at]
    assert trace.tokens[0].tolist() == x
    assert trace.evaluations.tolist() == [steps]


@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("greedy", [False, True])
def test_the_planner_is_p2(weight, greedy):
    predictor, length, steps, seed = network(sharp=6.0), 12, 6, 3
    schedule = Schedule(size.Even(steps), SURE, revision.Planner(weight))
    trace = Sampler(predictor, schedule, Greedy() if greedy else Categorical()).run((1, length), rng=[seed])
    x, taken = [-1] * length, 0
    for step in range(steps):
        p, u = probabilities(predictor, x), numbers(None, seed, length, step)
        clean = [int(p[at].argmax()) if greedy else draw(p[at], u[at]) for at in range(length)]
        clean = [token if token >= 0 else clean[at] for at, token in enumerate(x)]
        score = [math.log(p[at, clean[at]]) * (weight if x[at] >= 0 else 1) for at in range(length)]
        keep = set(np.argsort(score)[::-1][: (step + 1) * length // steps].tolist())
        taken += sum(x[at] >= 0 and at not in keep for at in range(length))
        x = [clean[at] if at in keep else -1 for at in range(length)]
    assert trace.tokens[0].tolist() == x
    assert trace.versions.taken == taken
    assert trace.evaluations.tolist() == [steps]


def test_a_planner_takes_tokens_back():
    trace = Sampler(network(sharp=6.0), Schedule(size.Even(6), SURE, revision.Planner(3.0))).run((8, 12), rng=0)
    assert trace.versions.taken > 0


@pytest.mark.parametrize("seed", range(4))
def test_drafts_that_are_verified_are_winos_loop(seed):
    predictor, length, wide, narrow = network(sharp=4.0, seed=seed), 12, 0.5, 0.9
    schedule = Schedule(size.Threshold(wide), SURE, revision.Verify(narrow))
    trace = Sampler(predictor, schedule, Greedy()).run((1, length), rng=[seed])
    x, last, evaluations, taken = [-1] * length, 0, 0, 0
    while -1 in x:
        p = probabilities(predictor, x)
        back = {}
        for at in (at for at in range(length) if x[at] >= 0):
            hidden = [token if place != at else -1 for place, token in enumerate(x)]
            back[at] = probabilities(predictor, hidden)[at, x[at]]
        evaluations += 1 + len(back)
        sure = {at: p[at].max() for at in range(length) if x[at] < 0}
        accepted = [at for at in sure if sure[at] >= wide] or [max(sure, key=sure.get)]
        gone = sorted((at for at in back if back[at] < narrow), key=back.get)
        gone = gone[: max(last - 1, 0)] if len(accepted) > 1 else []
        for at in accepted:
            x[at] = int(p[at].argmax())
        for at in gone:
            x[at] = -1
        last, taken = len(accepted), taken + len(gone)
    assert trace.tokens[0].tolist() == x
    assert trace.evaluations.tolist() == [evaluations]
    assert trace.versions.taken == taken


def test_some_draft_is_taken_back():
    schedule = Schedule(size.Threshold(0.5), SURE, revision.Verify(0.9))
    assert Sampler(network(sharp=4.0, seed=3), schedule, Greedy()).run((16, 12), rng=0).versions.taken > 0


@pytest.mark.parametrize("seed", range(4))
def test_edits_are_the_joint_threshold_loop(seed):
    predictor, length, threshold, edit, afterwards = network(sharp=5.0, seed=seed), 12, 0.5, 0.35, 5
    schedule = Schedule(size.Threshold(threshold), SURE, revision.Edit(edit, afterwards))
    trace = Sampler(predictor, schedule, Greedy()).run((1, length), rng=[seed])
    x, evaluations, after, changed = [-1] * length, 0, 0, 0
    while True:
        masked = [at for at in range(length) if x[at] < 0]
        if not masked:
            after += 1
            if after > afterwards:
                break
        p = probabilities(predictor, x)
        evaluations += 1
        best, chance = p.argmax(axis=1), p.max(axis=1)
        moves = {at: best[at] for at in masked if chance[at] >= threshold}
        if masked and not moves:
            first = max(masked, key=lambda at: chance[at])
            moves = {first: best[first]}
        edits = {at: best[at] for at in range(length) if x[at] >= 0 and best[at] != x[at] and chance[at] > edit}
        changed += len(edits)
        for at, token in (moves | edits).items():
            x[at] = int(token)
        if not moves and not edits:
            break
    assert trace.tokens[0].tolist() == x
    assert trace.evaluations.tolist() == [evaluations]
    assert trace.versions.rewritten == changed


# What every rule keeps to

RUNS = {
    "cap": Schedule(size.Even(4), RANDOM, revision.Cap(0.5)),
    "cap, cosine, comb": Schedule(size.Cosine(4), order.Comb(), revision.Cap(0.5)),
    "rescale, by themselves": Schedule(size.LogLinear(6), RANDOM, revision.Rescale(0.5)),
    "least sure, random sizes": Schedule(size.TC(4), order.Spread(), revision.LeastSure()),
    "loop": Schedule(size.Even(4), RANDOM, revision.Loop(3, 0.3, 0.5)),
    "planner": Schedule(size.Even(4), SURE, revision.Planner(3.0)),
    "planner in blocks": Schedule(size.Even(2), order.Blocks(SURE, 6), revision.Planner(3.0)),
    "likeliest": Schedule(size.Threshold(0.5), SURE, revision.Likeliest()),
    "verify": Schedule(size.Threshold(0.3), SURE, revision.Verify(0.9)),
    "verify what is seen": Schedule(size.Even(4), order.Margin(), revision.Verify(0.95, hidden=False)),
    "verify in blocks": Schedule(size.Threshold(0.3), order.Blocks(order.Entropy(), 4), revision.Verify(0.9)),
    "edit": Schedule(size.Even(4), RANDOM, revision.Edit(0.3, 3)),
    "edit, threshold": Schedule(size.Threshold(0.9), order.LeftToRight(), revision.Edit(0.2, 3)),
    "planner, random sizes": Schedule(size.LogLinear(6), SURE, revision.Planner(3.0)),
    "gibbs": Schedule(size.Even(4), order.LeftToRight(), revision.Gibbs(3, 2)),
    "gibbs at the end": Schedule(size.Threshold(0.5), SURE, revision.Gibbs(3, finally_only=True)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_sequence_is_the_same_alone_and_in_a_batch(name):
    predictor, schedule = network(), RUNS[name]
    start = torch.full((6, 12), predictor.mask)
    start[2, :5], start[4, 3] = torch.tensor([1, 2, 3, 4, 0]), 2
    together = Sampler(predictor, schedule).run(start, rng=list(range(6)))
    for row in range(6):
        alone = Sampler(predictor, schedule).run(start[row : row + 1], rng=[row])
        assert torch.equal(alone.tokens[0], together.tokens[row])
        assert torch.equal(alone.revealed[0], together.revealed[row])
        assert alone.evaluations[0] == together.evaluations[row]


@pytest.mark.parametrize("name", RUNS)
def test_everything_is_filled_and_what_was_given_stays(name):
    predictor = network()
    start = torch.full((5, 12), predictor.mask)
    start[:, 2:5] = torch.tensor([3, 1, 4])
    trace = Sampler(predictor, RUNS[name]).run(start, rng=1)
    assert bool((trace.tokens < predictor.vocab).all())
    assert bool((trace.revealed[:, 2:5] == GIVEN).all())
    assert torch.equal(trace.tokens[:, 2:5], start[:, 2:5])
    assert not set(trace.versions.position.tolist()) & {2, 3, 4}


@pytest.mark.parametrize("name", RUNS)
def test_every_evaluation_is_counted(name):
    predictor = Counted(network())
    trace = Sampler(predictor, RUNS[name]).run((4, 12), rng=2)
    assert int(trace.evaluations.sum()) == predictor.sequences
    assert trace.calls == predictor.calls


@pytest.mark.parametrize("name", ["cap", "cap, cosine, comb", "planner", "verify what is seen"])
def test_as_many_tokens_stand_after_a_step_as_the_size_says(name):
    schedule = RUNS[name]
    trace = Sampler(network(), schedule).run((4, 12), rng=3)
    ends = np.cumsum(schedule.size.sizes(12))
    assert trace.versions.taken > 0
    states = list(trace.versions.states(np.full((4, 12), MASKED), trace.steps))[1:]
    assert [(state != MASKED).sum(axis=1).tolist() for state in states] == [[end] * 4 for end in ends]
    assert trace.evaluations.tolist() == [4] * 4


@pytest.mark.parametrize(
    "which", [RANDOM, order.Spread(), order.Comb(), order.LeftToRight(), SURE, order.Blocks(RANDOM, 5)]
)
@pytest.mark.parametrize("how", [size.Even(4), size.TC(4), size.Threshold(0.5)])
def test_a_rule_that_takes_nothing_back_changes_nothing(which, how):
    rule = revision.Edit(1.0) if isinstance(how, size.Threshold) else revision.Cap(0.0)
    plain = Sampler(network(), Schedule(how, which)).run((5, 12), rng=4)
    revised = Sampler(network(), Schedule(how, which, rule)).run((5, 12), rng=4)
    assert torch.equal(plain.tokens, revised.tokens)
    assert torch.equal(plain.revealed, revised.revealed)
    assert plain.evaluations.tolist() == revised.evaluations.tolist()


@pytest.mark.parametrize("name", RUNS)
def test_the_record_has_every_version_of_a_token(name):
    trace = Sampler(network(), RUNS[name]).run((3, 12), rng=5)
    last = list(trace.versions.states(np.full((3, 12), MASKED), trace.steps))[-1]
    assert last.tolist() == trace.tokens.tolist()
    frames = list(trace.frames(lambda ids: "".join("abcde"[token] for token in ids)))
    assert frames[0] == ["_" * 12] * 3
    assert frames[-1] == ["".join("abcde"[token] for token in row) for row in trace.tokens.tolist()]
    data = trace.to_json()
    assert "nll" not in data
    assert sum(len(each) for each in data["versions"]) == len(trace.versions.step)
    assert "taken back" in str(trace)


def test_records_of_several_batches_are_joined():
    schedule, predictor = RUNS["cap"], network()
    whole = Sampler(predictor, schedule).run((5, 12), rng=list(range(5)))
    from unmask.sequences import Sequences

    start = torch.full((5, 12), predictor.mask)
    joined = Sampler(predictor, schedule).fill(
        Sequences.of(start, torch.ones_like(start, dtype=torch.bool)), rng=list(range(5)), batch=2
    )
    assert torch.equal(whole.tokens, joined.tokens)
    states = list(joined.versions.states(np.full((5, 12), MASKED), joined.steps))
    assert states[-1].tolist() == joined.tokens.tolist()


def test_a_text_whose_tokens_were_taken_back_has_no_likelihood():
    predictor = network()
    trace = Sampler(predictor, RUNS["cap"]).run((2, 12), rng=0)
    with pytest.raises(InputError, match="no exact likelihood"):
        _ = trace.nll
    with pytest.raises(InputError, match="several paths"):
        replay(predictor, RUNS["cap"], trace.tokens, rng=0)


@pytest.mark.parametrize("name", RUNS)
def test_an_answer_that_ended_is_settled(name):
    """Padding comes after an end that is still there, and nothing of such a text changes later."""
    predictor = network(sharp=1.0)
    trace = Sampler(predictor, RUNS[name], stop=Stop(0, 1)).run((32, 12), rng=6)
    closed = (trace.revealed == PADDED).any(dim=1)
    assert bool(closed.any())
    for row in torch.nonzero(closed)[:, 0].tolist():
        first = int(torch.nonzero(trace.revealed[row] == PADDED)[0, 0])
        ends = (trace.tokens[row] == 0) & (trace.revealed[row] >= 0)
        assert bool(ends[:first].any())


def test_a_random_order_stays_one_whatever_was_drawn():
    """Keys are independent of the numbers that draw tokens: a place comes again as often after either token.

    Within five standard errors of what both have in common: a false alarm has a chance below 1e-6.
    """
    joint = np.full((2,) * 4, 1 / 16)
    schedule = Schedule(size.Even(4), RANDOM, revision.Cap(1.0))
    trace = Sampler(ExactPredictor(Table(joint)), schedule).run((4000, 4), rng=0)
    versions, hits = trace.versions, {0: [], 1: []}
    by_row = [[] for _ in range(4000)]
    for step, row, place, token in zip(
        versions.step, versions.sequence, versions.position, versions.token, strict=True
    ):
        by_row[row].append((step, place, token))
    for changes in by_row:
        first = next((place, token) for step, place, token in changes if step == 0 and token != MASKED)
        second = [place for step, place, token in changes if step == 1 and token != MASKED]
        third = [place for step, place, token in changes if step == 2 and token != MASKED]
        if first[0] not in second and len(third) > 0:
            hits[int(first[1])].append(first[0] in third)
    both = [each for found in hits.values() for each in found]
    for found in hits.values():
        assert abs(np.mean(found) - np.mean(both)) < 5 * (0.25 / len(found)) ** 0.5


def test_progress_counts_what_stands():
    reported = []
    Sampler(network(), RUNS["cap"]).batches((4, 12), rng=0, progress=reported.append)
    assert sum(reported) == 48
    assert min(reported) >= 0


def test_a_size_that_prefers_positions_does_so_with_a_revision_too():
    class Last(size.Reactive):
        def preferred(self, ranked):
            return ranked.valid & (ranked.valid.cumsum(1) == ranked.valid.sum(1, keepdim=True))

        def count(self, ranked):
            return ranked.valid.any(1).long()

    for rule in (None, revision.Edit(1.0)):
        trace = Sampler(network(), Schedule(Last(), order.LeftToRight(), rule)).run((1, 12), rng=0)
        assert trace.revealed[0].tolist() == list(range(11, -1, -1))


def test_a_draw_or_an_order_of_ones_own_is_checked():
    class Far(Greedy.__mro__[1]):
        def __call__(self, log_probabilities, uniform, rows):
            return torch.full_like(rows, 99)

    class Short(order.ReactiveOrder):
        def score(self, prediction):
            return prediction.confidence[:1]

    with pytest.raises(InputError, match="token ids from 0"):
        Sampler(network(), RUNS["cap"], Far()).run((1, 12), rng=0)
    with pytest.raises(InputError, match="one number for each"):
        Sampler(network(), Schedule(size.Even(4), Short(), revision.Cap())).run((1, 12), rng=0)


def test_a_network_that_remembers_is_run_anew():
    from unmask.models.causal import CausalConfig

    torch.manual_seed(0)
    shape = {"width": 16, "layers": 1, "readers": 1, "heads": 2, "hidden": 24, "reader_hidden": 24}
    predictor = CausalConfig(vocab=5, length=12, **shape).network().eval().predictor()
    for name in ("cap", "planner", "gibbs"):
        trace = Sampler(predictor, RUNS[name]).run((3, 12), rng=0)
        assert bool((trace.tokens < 5).all())


@pytest.mark.parametrize("name", RUNS)
def test_a_schedule_with_a_revision_is_saved_and_loaded(name, tmp_path):
    RUNS[name].save(tmp_path / "schedule.json")
    assert Schedule.load(tmp_path / "schedule.json") == RUNS[name]
    assert "revision" not in Schedule(RUNS[name].size, RUNS[name].order).to_json()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schedule(size.Threshold(0.5), SURE, revision.Cap()), "must be a blind size, not Threshold"),
        (lambda: Schedule(size.Even(2), RANDOM, revision.Planner()), "be Confidence"),
        (lambda: Schedule(size.Even(2), RANDOM, revision.Likeliest()), "be Confidence"),
        (lambda: Schedule(size.LogLinear(2), order.Blocks(RANDOM, 4), revision.Cap()), "no blocks"),
        (lambda: Schedule(size.Even(2), RANDOM, size.Even(2)), "revision of unmask.revision"),
        (
            lambda: Schedule(size.Even(2), order.Spaced(SURE, 2), revision.Cap()),
            "keeps positions apart",
        ),
        (lambda: Schedule(size.Even(2), order.EndLater([0]), revision.Cap()), "weights depend on position or progress"),
        (lambda: Schedule(size.Stable(0.9), SURE, revision.Verify()), "compares two steps"),
        (lambda: revision.Cap(1.5), "at most 1"),
        (lambda: revision.Rescale(-0.1), "at least 0"),
        (lambda: revision.Loop(0), "at least 1"),
        (lambda: revision.Planner(-1), "at least 0"),
        (lambda: revision.Verify(2), "a probability between 0 and 1, not 2"),
        (lambda: revision.Edit(0.5, -1), "at least 0"),
        (lambda: revision.Gibbs(0), "at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_bar_is_not_full_while_tokens_may_be_looked_at_again():
    from unmask.cli.generate import _advancing
    from unmask.cli.output import progress

    bar = progress()
    for revises, seen in (
        (True, [(4, "Generating"), (7.92, "Looking at tokens again"), (6, "Generating")]),
        (False, None),
    ):
        task = bar.add_task("Generating", total=8)
        advance = _advancing(bar, task, 8, revises=revises)
        found = []
        for done in (4, 4, -2):
            advance(done)
            found.append((bar.tasks[task].completed, bar.tasks[task].description))
        assert found == (seen or [(4, "Generating"), (8, "Generating"), (6, "Generating")])


@pytest.mark.parametrize(
    ("word", "way_out"),
    [
        ("spaced-8", "spaced-8/confidence"),
        ("spaced-3/", "spaced-3/confidence"),
        ("spaced", "spaced-8/confidence"),
        ("spaced/margin", "spaced-8/margin"),
    ],
)
def test_spacing_without_an_order_says_what_to_write(word, way_out):
    from unmask.words.schedules import order_named

    with pytest.raises(InputError) as caught:
        order_named(word)
    assert str(caught.value) == f"Argument 'order' must be spaced-DISTANCE/ORDER, not '{word}'. Try {way_out}."


@pytest.mark.parametrize(
    ("word", "way_out"),
    [
        ("spaced-2/spaced-3/margin", "spaced-2/margin"),
        ("spaced-2/spaced-3/comb-16", "spaced-2/comb-16"),
        ("spaced-2/spaced-3/nothing", "spaced-2/confidence"),
        ("spaced-2/spaced-3", "spaced-2/confidence"),
        ("spaced-2/spaced", "spaced-2/confidence"),
        ("spaced-0/spaced-3/margin", "spaced-8/margin"),
        ("spaced-2/spaced-3/comb-0", "spaced-2/confidence"),
        ("spaced-16777217/spaced-2/margin", "spaced-8/margin"),
        ("spaced-1/" * 3000 + "margin", "spaced-1/margin"),
    ],
)
def test_spacing_twice_is_one_sentence_however_often_it_is_repeated(word, way_out):
    from unmask.words.schedules import order_named

    said = r"^Argument 'order' must be spaced only once, not '[^']{2,40}'\. Try "
    with pytest.raises(InputError, match=said) as caught:
        order_named(word)
    assert str(caught.value).endswith(f" Try {way_out}.")
    order_named(way_out)


def test_what_does_not_go_together_is_said_in_the_words_of_the_command():
    from unmask.words.revisions import revised

    with pytest.raises(InputError, match="'order' must be confidence for the revision planner, not 'random'"):
        revised(Schedule(size.Even(2), RANDOM), "planner")
    with pytest.raises(InputError, match="'size' must not look at predictions with this revision"):
        revised(Schedule(size.Threshold(0.5), SURE), "cap")
