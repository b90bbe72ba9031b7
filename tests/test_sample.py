"""The sampler: its laws on explicit tables, its promises about rows, work and records."""

import itertools
import json
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from enumeration import Conditionals, expected_divergence, laws, mixture  # noqa: E402
from pairs import LATER, ORDERS, PAIRS, label, random_table  # noqa: E402
from reference import chi_square  # noqa: E402
from unmask import InputError, _torch, order, size  # noqa: E402
from unmask.distribution import Markov, Mixture, Parity, ReedSolomon, Table  # noqa: E402
from unmask.evaluate import expected_kl, replay, replayed_kl  # noqa: E402
from unmask.evaluate.enumeration import output_law  # noqa: E402
from unmask.information.curve import Curve  # noqa: E402
from unmask.predict import Counted, ExactPredictor, Headed, Logits, Tempered  # noqa: E402
from unmask.sample import Sampler, Stop  # noqa: E402
from unmask.sample.draw import Categorical, Greedy, Replay  # noqa: E402
from unmask.sample.trace import GIVEN, OPEN, PADDED  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

TABLE = random_table(1)
CONDITIONALS = Conditionals(TABLE.probabilities)
EVERYTHING = torch.tensor(list(itertools.product(range(2), repeat=4)))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def counts_of(tokens, shape):
    cells = np.ravel_multi_index(tuple(tokens.numpy().T), shape)
    return np.bincount(cells, minlength=int(np.prod(shape)))


# Laws


@pytest.mark.parametrize(("which", "how_many"), PAIRS, ids=label)
def test_the_output_follows_the_enumerated_law(which, how_many):
    """Chi-square over the 16 sequences at level 1e-6 for each pair: all 500 together fail by chance in 5e-4."""
    chances = mixture(laws(TABLE.probabilities, which, how_many, CONDITIONALS))
    sampler = Sampler(ExactPredictor(TABLE), Schedule(how_many, which))
    trace = sampler.run((700, 4), rng=generator(3))
    assert chi_square(counts_of(trace.tokens, (2,) * 4), chances) > 1e-6


@pytest.mark.parametrize(
    ("which", "how_many"),
    [
        (order.Random(), size.TC(2)),
        (order.Comb(), size.Even(2)),
        (order.Confidence(), size.Even(2)),
        (order.Entropy(), size.EntropyBound(1.2)),
        (order.Blocks(order.Margin(), 2), size.Threshold(0.4)),
    ],
    ids=label,
)
def test_the_output_follows_the_enumerated_law_with_three_tokens_and_many_draws(which, how_many):
    """Chi-square over 81 sequences and 10,000 draws at level 1e-6 for each of 5 pairs."""
    table = random_table(2, vocab=3)
    chances = mixture(laws(table.probabilities, which, how_many))
    trace = Sampler(ExactPredictor(table), Schedule(how_many, which)).run((10_000, 4), rng=generator(4))
    counts = counts_of(trace.tokens, (3,) * 4)
    assert chi_square(counts, chances) > 1e-6
    assert chi_square(counts, table.probabilities) < 1e-4, "the test would not see the difference from the data's law"


@pytest.mark.parametrize("how_many", [s for o, s in PAIRS if o == ORDERS[0] and isinstance(s, size.Blind)], ids=label)
def test_the_two_enumerations_of_random_order_agree(how_many):
    parts = laws(TABLE.probabilities, order.Random(), how_many, CONDITIONALS)
    law = output_law(TABLE.marginals, how_many, TABLE.probabilities)
    np.testing.assert_allclose(mixture(parts), law.output, atol=1e-12)
    assert np.isclose(expected_divergence(TABLE.probabilities, parts), law.expected_kl, atol=1e-12)


@pytest.mark.parametrize("which", [*ORDERS, *LATER], ids=label)
def test_one_token_per_step_gives_the_distribution_itself_in_every_order(which):
    """By enumeration to 1e-12, and by 4,000 draws: chi-square at level 1e-6 for each of 10 orders."""
    parts = laws(TABLE.probabilities, which, size.Even(4), CONDITIONALS)
    np.testing.assert_allclose(mixture(parts), TABLE.probabilities, atol=1e-12)
    trace = Sampler(ExactPredictor(TABLE), Schedule(size.Even(4), which)).run((4000, 4), rng=generator(5))
    assert chi_square(counts_of(trace.tokens, (2,) * 4), TABLE.probabilities) > 1e-6


@pytest.mark.parametrize(("which", "how_many"), PAIRS, ids=label)
def test_replay_gives_each_sequence_its_probability(which, how_many):
    """For every seed `Σ_x exp(−nll(x)) = 1`: with its randomness fixed, the sampler's law is a law."""
    schedule = Schedule(how_many, which)
    for seed in range(3):
        trace = Sampler(ExactPredictor(TABLE), schedule, Replay(EVERYTHING)).run(
            EVERYTHING, torch.ones_like(EVERYTHING, dtype=torch.bool), rng=[seed] * 16
        )
        assert torch.equal(trace.tokens, EVERYTHING)
        assert torch.exp(-trace.nll).sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("which", [*ORDERS, *LATER, order.Blocks(order.Entropy(), 2)], ids=label)
@pytest.mark.parametrize("how_many", [size.Even(2), size.TC(2), size.Threshold(0.7), size.EntropyBound(0.5)], ids=label)
def test_replay_with_a_fixed_seed_is_one_of_the_enumerated_laws(which, how_many):
    parts = laws(TABLE.probabilities, which, how_many, CONDITIONALS)
    everywhere = torch.ones_like(EVERYTHING, dtype=torch.bool)
    for seed in range(4):
        trace = Sampler(ExactPredictor(TABLE), Schedule(how_many, which), Replay(EVERYTHING)).run(
            EVERYTHING, everywhere, rng=[seed] * 16
        )
        mine = torch.exp(-trace.nll).numpy()
        assert any(np.allclose(mine, law.ravel(), atol=1e-12) for _, law in parts)


def test_positions_first_tokens_second():
    """Two independent bits with P(1) = 0.6, one per step, are 11 with probability 0.36 in every order of ours.

    A rule that draws both bits and keeps the one whose drawn token is likelier gives 0.504 (theory, section 5).
    4,000 draws; within 5 standard errors (failure under 1e-6 for each of 10 orders).
    """
    bits = Table(np.outer([0.4, 0.6], [0.4, 0.6]))
    for which in [o for o in [*ORDERS, *LATER] if not isinstance(o, order.SpreadGrid | order.CombGrid | order.Sets)]:
        assert mixture(laws(bits.probabilities, which, size.Even(2)))[1, 1] == pytest.approx(0.36)
        trace = Sampler(ExactPredictor(bits), Schedule(size.Even(2), which)).run((4000, 2), rng=generator(6))
        share = float((trace.tokens.sum(dim=1) == 2).double().mean())
        assert abs(share - 0.36) < 5 * np.sqrt(0.36 * 0.64 / 4000)

    # The other rule: of two drawn tokens the likelier is kept (the first on a tie), the other drawn afresh.
    p, both = [0.4, 0.6], 0.0
    for first, second in itertools.product(range(2), repeat=2):
        kept = first if p[first] >= p[second] else second
        both += p[first] * p[second] * (kept == 1) * p[1]
    assert both == pytest.approx(0.504)


def test_every_choice_of_positions_can_be_replayed_before_any_token_is_drawn():
    """The sets of a reactive rule do not change with the draws of the step: same state, other tokens, same rows."""
    schedule = Schedule(size.Even(2), order.Confidence())
    first, second = (
        Sampler(ExactPredictor(TABLE), schedule, draw)
        for draw in (Greedy(), Replay(torch.zeros((1, 4), dtype=torch.int64)))
    )
    _, one = first.step(first.init((1, 4), rng=[0]))
    _, two = second.step(second.init((1, 4), rng=[0]))
    assert torch.equal(one.rows, two.rows)


@pytest.mark.parametrize("which", [order.Confidence(), order.Margin(), order.Entropy()], ids=label)
def test_ties_go_to_the_first_position(which):
    model = Logits(lambda tokens: torch.zeros((*tokens.shape, 3)), 3, 3)
    trace = Sampler(model, Schedule(size.Even(50), which)).run((2, 100), rng=generator())
    assert torch.equal(trace.revealed, (torch.arange(100) // 2).expand(2, -1))


# Replay against exact errors


@pytest.mark.parametrize(
    "distribution",
    [ReedSolomon(7, 4, 8), Markov.sticky(3, 0.7, 8), Mixture([0.5, 0.5], [[[0.9, 0.1]] * 6, [[0.2, 0.8]] * 6])],
    ids=lambda d: type(d).__name__,
)
@pytest.mark.parametrize("how_many", [size.Even(3), size.TC(3), size.DTC(2), size.Logit(3)], ids=label)
def test_mean_replay_minus_entropy_is_the_exact_expected_kl(distribution, how_many):
    """Random order, 1,000 texts, within 4 standard errors: 12 cases fail by chance in 8e-4."""
    exact = expected_kl(how_many, distribution.curve())
    estimate = replayed_kl(Schedule(how_many, order.Random()), distribution, 1000, rng=generator(7))
    assert abs(estimate.mean - exact) <= 4 * estimate.standard_error + 1e-9


@pytest.mark.parametrize(
    ("which", "how_many"),
    [(o, s) for o, s in PAIRS if isinstance(o, order.ReactiveOrder) or isinstance(s, size.Reactive)],
    ids=label,
)
def test_mean_replay_of_rules_that_look_is_their_enumerated_expected_kl(which, how_many):
    """400 texts, within 4.5 standard errors: about 130 cases fail by chance in 1e-3."""
    exact = expected_divergence(TABLE.probabilities, laws(TABLE.probabilities, which, how_many, CONDITIONALS))
    estimate = replayed_kl(Schedule(how_many, which), TABLE, 400, rng=generator(8))
    assert abs(estimate.mean - exact) <= 4.5 * estimate.standard_error + 1e-9


# Without symmetries: equal probabilities that differ in their last digit could be ranked in two ways.
STRUCTURED = [
    ReedSolomon(4, 2, 4),
    Markov(np.random.default_rng(1).dirichlet(np.ones(3), size=3), 4),
    Mixture([0.3, 0.7], np.random.default_rng(2).dirichlet(np.ones(2), size=(2, 5))),
]
REACTIVE = [
    (order.Confidence(), size.Even(2)),
    (order.Margin(), size.Threshold(0.6)),
    (order.Entropy(), size.EntropyBound(0.7)),
    (order.Random(), size.Factor(1.0)),
]


@pytest.mark.parametrize("distribution", STRUCTURED, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize(("which", "how_many"), REACTIVE, ids=label)
def test_mean_replay_of_rules_that_look_on_codes_chains_and_mixtures(distribution, which, how_many):
    """2,000 texts against the enumerated expected KL, within 4 standard errors: 12 cases fail by chance in 8e-4."""
    joint = Table.of(distribution).probabilities
    exact = expected_divergence(joint, laws(joint, which, how_many))
    estimate = replayed_kl(Schedule(how_many, which), distribution, 2000, rng=generator(9))
    assert abs(estimate.mean - exact) <= 4 * estimate.standard_error + 1e-9


def test_a_wrong_predictor_costs_more_than_a_right_one():
    texts = torch.from_numpy(TABLE.sample(2000, rng=np.random.default_rng(0)))
    schedule = Schedule(size.Even(4), order.LeftToRight())
    right = replay(ExactPredictor(TABLE), schedule, texts, rng=generator())
    wrong = replay(Tempered(ExactPredictor(TABLE), 2.0), schedule, texts, rng=generator())
    np.testing.assert_allclose(right.nll, -TABLE.log_probability(texts.numpy()), atol=1e-12)
    assert wrong.per_sequence.mean > right.per_sequence.mean
    assert right.per_token.mean == pytest.approx(right.per_sequence.mean / 4)
    assert right.mean_evaluations == 4


def test_replay_scores_what_is_masked_given_the_rest():
    texts = torch.from_numpy(TABLE.sample(50, rng=np.random.default_rng(1)))
    masked = torch.tensor([False, True, False, True]).expand(50, 4)
    result = replay(
        ExactPredictor(TABLE), Schedule(size.Even(2), order.Random()), texts, masked=masked, rng=generator(), batch=7
    )
    joint = TABLE.log_probability(texts.numpy())
    given = np.log(TABLE.marginal([0, 2]).probabilities[tuple(texts[:, [0, 2]].T.numpy())])
    np.testing.assert_allclose(-result.nll, joint - given, atol=1e-12)
    assert torch.equal(result.revealed, torch.full((50,), 2))


def test_replay_refuses_tokens_that_do_not_exist():
    with pytest.raises(ValueError, match="Argument 'tokens' must hold token ids from 0 to 1"):
        replay(ExactPredictor(TABLE), Schedule(size.Even(2), order.Random()), torch.full((1, 4), 2), rng=generator())


@pytest.mark.parametrize("tokens", [torch.zeros(4, dtype=torch.int64), torch.zeros((1, 4)), EVERYTHING[:0]], ids=str)
def test_replay_refuses_what_is_no_batch_of_texts(tokens):
    with pytest.raises(ValueError, match=r"Argument 'tokens' must hold token ids of shape \(count, length\)"):
        replay(ExactPredictor(TABLE), Schedule(size.Even(2), order.Random()), tokens, rng=generator())


def test_replay_takes_seeds_and_texts_with_nothing_to_score():
    masked = torch.ones_like(EVERYTHING, dtype=torch.bool)
    masked[0] = False
    schedule, predictor = Schedule(size.TC(2), order.Random()), ExactPredictor(TABLE)
    seeds = list(range(16))
    result = replay(predictor, schedule, EVERYTHING, masked=masked, rng=seeds, batch=5)
    again = replay(predictor, schedule, EVERYTHING, masked=masked, rng=seeds)
    assert torch.equal(result.nll, again.nll)
    assert (result.nll[0], result.evaluations[0]) == (0, 0)
    np.testing.assert_allclose(result.per_token.mean, result.nll[1:].mean() / 4)
    with pytest.raises(ValueError, match=r"Argument 'masked' must hold booleans of shape \(16, 4\)"):
        replay(predictor, schedule, EVERYTHING, masked=masked[:1], rng=seeds)


# Rows


class RowWise:
    """A model whose logits for a sequence are a fixed random function of that sequence, computed one by one."""

    def __init__(self, vocab=7, length=12, seed=0):
        source = torch.Generator().manual_seed(seed)
        self.vocab, self.mask = vocab, vocab
        self.embed = torch.randn((vocab + 1, 16), generator=source)
        self.place = torch.randn((length, 16), generator=source)
        self.mix = torch.randn((16, 16), generator=source)
        self.out = torch.randn((16, vocab), generator=source)

    def hidden(self, tokens):
        def one(row):
            states = self.embed[row] + self.place[: row.numel()]
            return torch.tanh((states + states.mean(dim=0)) @ self.mix)

        return torch.stack([one(row) for row in tokens])

    def head(self, hidden):
        return torch.stack([row @ self.out for row in hidden])

    def predictor(self):
        return Headed(self.hidden, self.head, self.vocab, self.mask)


SCHEDULES = [
    Schedule(size.Even(4), order.Random()),
    Schedule(size.LogLinear(6), order.Spread()),
    Schedule(size.TC(3), order.Comb()),
    Schedule(size.Even(3), order.Confidence()),
    Schedule(size.Universal(3), order.Entropy()),
    Schedule(size.Threshold(0.3), order.Confidence()),
    Schedule(size.EntropyBound(3.0), order.Random()),
    Schedule(size.Even(2), order.Blocks(order.Margin(), 5)),
    Schedule(size.Factor(1.5), order.Blocks(order.Comb(3), 5)),
    Schedule(size.DTC(2), order.Blocks(order.Random(), 5)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{label(s.order)}-{label(s.size)}")
def test_a_row_is_bit_identical_alone_and_in_any_batch(schedule):
    """Tokens, steps, log-probabilities and evaluations, with uneven masks and in another order of the rows."""
    model = RowWise()
    source = generator(9)
    start = torch.randint(7, (6, 12), generator=source)
    masked = torch.rand((6, 12), generator=source) < torch.tensor([1.0, 0.8, 0.5, 0.3, 0.1, 0.0])[:, None]
    seeds = [11, 12, 13, 14, 15, 16]
    sampler = Sampler(model.predictor(), schedule)
    whole = sampler.run(start, masked, rng=seeds)
    for rows in ([0], [3], [4, 1], [5], [2, 0, 5, 3]):
        part = sampler.run(start[rows], masked[rows], rng=[seeds[row] for row in rows])
        assert torch.equal(part.tokens, whole.tokens[rows])
        assert torch.equal(part.revealed, whole.revealed[rows])
        assert torch.equal(part.log_probability, whole.log_probability[rows])
        assert np.array_equal(part.evaluations, whole.evaluations[rows])
    assert torch.equal(whole.tokens[~masked], start[~masked])
    assert torch.equal(whole.revealed == GIVEN, ~masked)


@pytest.mark.parametrize("how_many", [size.Even(2), size.EntropyBound(20.0)], ids=label)
def test_rows_are_identical_alone_with_a_vocabulary_beyond_one_thread(how_many):
    """Long sums are split over threads when a row is alone; the result must not show it."""
    logits = torch.randn((3, 2, 40_000), generator=generator(1)) * 3

    def model(tokens):
        return logits[: tokens.shape[0]]

    sampler = Sampler(Logits(model, 40_000, 40_000), Schedule(how_many, order.Entropy()))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        whole, alone = sampler.run((3, 2), rng=[1, 2, 3]), sampler.run((1, 2), rng=[1])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(whole.log_probability[:1], alone.log_probability)
    assert torch.equal(whole.revealed[:1], alone.revealed)


def test_the_same_seed_repeats_and_another_differs():
    sampler = Sampler(RowWise().predictor(), SCHEDULES[0])
    first, again, other = (sampler.run((3, 12), rng=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.revealed, again.revealed)
    assert not torch.equal(first.tokens, other.tokens)
    assert not torch.equal(first.tokens[0], first.tokens[1])
    repeated = sampler.run((1, 12), rng=[first.seeds[2]])
    assert torch.equal(repeated.tokens[0], first.tokens[2])


def test_nothing_touches_global_randomness():
    torch.manual_seed(5)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for schedule in SCHEDULES:
        Sampler(RowWise().predictor(), schedule).run((2, 12), rng=generator())
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_positions_keep_their_numbers_under_every_schedule():
    """The uniform number of a position does not depend on the schedule: common randomness for comparisons."""
    states = [Sampler(RowWise().predictor(), schedule).init((2, 12), rng=[1, 2]) for schedule in SCHEDULES]
    assert all(torch.equal(state.uniform, states[0].uniform) for state in states)


# Work


def test_no_evaluation_is_paid_for_steps_of_size_zero():
    for how_many in (size.LogLinear(500), size.Ceil(7)):
        counted = Counted(ExactPredictor(Parity(8)))
        trace = Sampler(counted, Schedule(how_many, order.Random())).run((1, 8), rng=generator(2))
        assert counted.calls == trace.calls == int((trace.sizes.sum(dim=0) > 0).sum()) <= 8
        counted = Counted(ExactPredictor(Parity(8)))
        Sampler(counted, Schedule(how_many, order.Confidence())).run((1, 8), rng=generator(2))
        assert counted.calls <= 8


@pytest.mark.parametrize("which", [order.Random(), order.Confidence(), order.Blocks(order.Comb(), 3)], ids=label)
@pytest.mark.parametrize("how_many", [size.LogLinear(40), size.Ceil(5)], ids=label)
def test_steps_are_counted_by_what_a_sequence_reveals(which, how_many):
    """Sizes of zero are no steps, planned or reactive, and do not spread a batch over more calls."""
    counted = Counted(RowWise().predictor())
    trace = Sampler(counted, Schedule(how_many, which)).run((9, 12), rng=generator(4))
    assert torch.equal((trace.sizes > 0).sum(dim=1), torch.from_numpy(trace.evaluations))
    for sizes, steps in zip(trace.sizes, trace.evaluations, strict=True):
        assert bool((sizes[:steps] > 0).all())
    assert counted.calls == trace.calls == trace.steps == trace.evaluations.max()


def test_a_whole_predictor_is_given_every_sequence_and_answers_the_same():
    """Something kept for each sequence, here an offset of its logits, must meet its own sequence at every call."""
    offset = torch.arange(3.0)[:, None, None]

    def model(tokens):
        return RowWise().head(RowWise().hidden(tokens).flatten(0, 1)).view(*tokens.shape, 7) + offset[: len(tokens)]

    start = torch.full((3, 12), 7)
    start[0, :11], start[1, :5] = 1, 2
    for schedule in SCHEDULES:
        counted = Counted(Logits(model, 7, 7, whole=True))
        trace = Sampler(counted, schedule).run(start, rng=[1, 2, 3])
        assert counted.sequences == 3 * counted.calls
        plain = Sampler(RowWise().predictor(), schedule).run(start, rng=[1, 2, 3])
        assert torch.equal(trace.revealed, plain.revealed)
        assert torch.equal(trace.tokens, plain.tokens)
        assert np.array_equal(trace.evaluations, plain.evaluations)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{label(s.order)}-{label(s.size)}")
def test_sequences_with_nothing_to_reveal_are_not_evaluated(schedule):
    model = RowWise()
    counted = Counted(model.predictor())
    masked = torch.zeros((4, 12), dtype=torch.bool)
    masked[0], masked[1, 3:5], masked[2, 0] = True, True, True
    trace = Sampler(counted, schedule).run(torch.zeros((4, 12), dtype=torch.int64), masked, rng=generator(3))
    assert trace.evaluations[3] == 0
    assert trace.evaluations[2] == 1
    assert counted.sequences == trace.evaluations.sum()
    assert counted.calls == trace.calls


def test_a_blind_schedule_asks_for_the_revealed_rows_only():
    for schedule in SCHEDULES:
        if schedule.blind:
            counted = Counted(RowWise().predictor())
            Sampler(counted, schedule).run((3, 12), rng=generator())
            assert counted.rows == 36


def test_nothing_to_do_costs_nothing():
    for schedule in SCHEDULES:
        counted = Counted(RowWise().predictor())
        sampler = Sampler(counted, schedule)
        given = torch.zeros((2, 12), dtype=torch.int64)
        trace = sampler.run(given, rng=generator())
        assert torch.equal(trace.tokens, given)
        assert (trace.calls, trace.steps, trace.tokens_per_evaluation, counted.calls) == (0, 0, 0.0, 0)
        assert sampler.run((0, 12), rng=generator()).tokens.shape == (0, 12)
        assert sampler.run((2, 0), rng=generator()).tokens.shape == (2, 0)


# Prompts, early stops, failures


@pytest.mark.parametrize(("which", "how_many"), PAIRS[::7], ids=label)
def test_prompts_are_untouched_and_every_mask_is_filled(which, how_many):
    if isinstance(how_many, size.Explicit | size.Optimal | size.OptimalTable | size.SquareRoot):
        return  # made for four tokens
    start = torch.tensor([[0, 2, 2, 1], [2, 2, 2, 2], [1, 1, 1, 2], [0, 1, 0, 1]])
    trace = Sampler(ExactPredictor(TABLE), Schedule(how_many, which)).run(start, rng=generator())
    assert torch.equal(trace.tokens[start != 2], start[start != 2])
    assert int(trace.tokens.max()) < 2
    assert torch.equal(trace.revealed == GIVEN, start != 2)


def end_at(position, vocab=5, length=8, end=3):
    """Logits that make `end` certain at one position and token 0 elsewhere."""
    logits = torch.full((length, vocab), -20.0)
    logits[:, 0] = 0.0
    logits[position] = torch.tensor([-20.0] * vocab)
    logits[position, end] = 0.0
    return Logits(lambda tokens: logits.expand(tokens.shape[0], -1, -1), vocab, vocab)


@pytest.mark.parametrize("how_many", [size.Even(8), size.Even(4), size.Threshold(0.9)], ids=label)
@pytest.mark.parametrize(
    "which",
    [order.LeftToRight(), order.Random(), order.Confidence(), order.Blocks(order.Random(), 2)],
    ids=label,
)
def test_after_the_end_token_the_rest_is_padding(which, how_many):
    sampler = Sampler(end_at(3), Schedule(how_many, which), Greedy(), Stop(end=3, pad=4))
    trace = sampler.run((2, 8), rng=generator(1))
    assert torch.equal(trace.tokens[:, :4], torch.tensor([[0, 0, 0, 3]] * 2))
    # What was revealed after the end before it was reached stays; the rest is padding and is never drawn again.
    assert torch.equal(trace.revealed[:, 4:] == PADDED, trace.tokens[:, 4:] == 4)
    assert bool((trace.log_probability[trace.revealed == PADDED] == 0).all())
    # Neither the end nor what was revealed after it counts.
    assert trace.valid_tokens.tolist() == [3, 3]
    assert trace.tokens_per_evaluation == pytest.approx(6 / trace.evaluations.sum())


def test_an_early_stop_saves_evaluations():
    schedule = Schedule(size.Even(8), order.LeftToRight())
    stopped = Sampler(end_at(3), schedule, stop=Stop(end=3, pad=4)).run((2, 8), rng=generator())
    assert stopped.tokens[0].tolist() == [0, 0, 0, 3, 4, 4, 4, 4]
    assert stopped.calls == 4
    assert Sampler(end_at(3), schedule).run((2, 8), rng=generator()).calls == 8


def test_rows_that_go_on_are_not_changed_by_rows_that_stop():
    model = RowWise(vocab=3)
    for schedule in (SCHEDULES[0], SCHEDULES[3], SCHEDULES[7]):
        sampler = Sampler(model.predictor(), schedule, stop=Stop(end=2, pad=0))
        whole = sampler.run((5, 12), rng=[1, 2, 3, 4, 5])
        for row in range(5):
            alone = sampler.run((1, 12), rng=[row + 1])
            assert torch.equal(alone.tokens[0], whole.tokens[row])
            assert torch.equal(alone.revealed[0], whole.revealed[row])


def test_an_end_token_in_the_prompt_does_not_stop():
    start = torch.tensor([[3, 5, 5, 5, 5, 5, 5, 5]])
    trace = Sampler(end_at(6), Schedule(size.Even(7), order.LeftToRight()), stop=Stop(3, 4)).run(start, rng=[0])
    assert trace.tokens[0].tolist() == [3, 0, 0, 0, 0, 0, 3, 4]


@pytest.mark.parametrize("draw", [Categorical(), Greedy()], ids=label)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("which", [order.Random(), order.Confidence(), order.Entropy()], ids=label)
def test_logits_that_are_not_numbers_are_an_error_not_a_token(draw, bad, which):
    model = Logits(lambda tokens: torch.full((*tokens.shape, 4), bad), 4, 4)
    with pytest.raises(
        ValueError, match="The predictor returned logits that are not numbers, or ruled out every token"
    ):
        Sampler(model, Schedule(size.Even(2), which), draw).run((2, 6), rng=generator())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("vocab", [1, 4])
def test_logits_that_are_not_numbers_are_an_error_of_manual_stepping_too(bad, vocab, monkeypatch):
    """On a CPU at once; on a GPU in the record of any state, finished or not, since the loop does not wait to look."""
    model = Logits(lambda tokens: torch.full((*tokens.shape, vocab), bad), vocab, vocab)
    sampler = Sampler(model, Schedule(size.Even(3), order.Random()))
    state = sampler.init((2, 6), rng=[1, 2])
    assert state.trace().steps == 0
    with pytest.raises(InputError, match="The predictor returned logits that are not numbers"):
        sampler.step(state)
    monkeypatch.setattr(_torch, "at_hand", lambda values: False)
    waiting = Sampler(model, Schedule(size.Even(3), order.Confidence()))
    with pytest.raises(InputError, match="The predictor returned logits that are not numbers"):
        waiting.step(waiting.init((2, 6), rng=[1, 2]))
    state, step = sampler.step(state)
    assert bool(torch.isnan(step.log_probability).all())
    with pytest.raises(ValueError, match="The predictor returned logits that are not numbers"):
        state.trace()


@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=label)
def test_sizes_made_for_one_length_say_which_they_met(which):
    """A last block that is shorter, or a row with a prompt: refused before any evaluation."""
    counted = Counted(RowWise().predictor())
    curve = Curve([1.0, 0.8, 0.3, 0.1])
    for how_many, reason in (
        (size.Explicit([1, 3]), "must be the sum of the sizes, 4, not 2"),
        (size.Optimal(2, curve), "must be the length 4 of the curve, not 2"),
    ):
        sentence = f"Argument 'length' {reason}. The size had to split the 2 masked positions of a sequence or block."
        with pytest.raises(ValueError, match=re.escape(sentence)):
            Sampler(counted, Schedule(how_many, order.Blocks(which, 4))).run((1, 6), rng=[0])
        fits = Sampler(counted, Schedule(how_many, order.Blocks(which, 4))).run((2, 8), rng=[0, 1])
        assert fits.steps == 4
    assert counted.calls == 8


def test_a_size_of_ones_own_that_reveals_nothing_is_an_error():
    class Lazy(size.Reactive):
        def count(self, ranked):
            return ranked.valid.sum(-1) * 0

    with pytest.raises(ValueError, match="The size must reveal at least one of the masked positions, but <"):
        Sampler(ExactPredictor(TABLE), Schedule(Lazy(), order.Random())).run((2, 4), rng=[1, 2])


def test_bad_arguments_get_one_sentence():
    schedule = Schedule(size.Even(2), order.Random())
    with pytest.raises(ValueError, match=r"Argument 'predictor' must be a mask predictor, not a Linear. Wrap a model"):
        Sampler(torch.nn.Linear(2, 2), schedule)
    with pytest.raises(ValueError, match=r"Argument 'schedule' must be a Schedule, not Even\(steps=2\)"):
        Sampler(ExactPredictor(TABLE), schedule.size)
    with pytest.raises(ValueError, match=r"Argument 'draw' must be a Draw, not 0.7"):
        Sampler(ExactPredictor(TABLE), schedule, 0.7)
    with pytest.raises(ValueError, match=r"Argument 'end' must be an integer, not None"):
        Stop(None, 0)
    sampler = Sampler(ExactPredictor(TABLE), Schedule(size.Even(2), order.Random()))
    start = torch.zeros((2, 4), dtype=torch.int64)
    with pytest.raises(ValueError, match=r"Argument 'start' must hold token ids of shape \(batch, length\)"):
        sampler.run(start.float(), rng=generator())
    with pytest.raises(
        ValueError, match="Argument 'start' must hold token ids from 0 to 1 at positions that are not masked"
    ):
        sampler.run(start + 5, rng=generator())
    with pytest.raises(ValueError, match="Argument 'start' must be a tensor of token ids or a shape"):
        sampler.run([[0, 1]], rng=generator())
    with pytest.raises(ValueError, match="Argument 'batch' must be at least 0, not -1"):
        sampler.run((-1, 4), rng=generator())
    with pytest.raises(ValueError, match="Argument 'masked' can be used only with token ids, not with a shape"):
        sampler.run((2, 4), start.bool(), rng=generator())
    with pytest.raises(ValueError, match=r"Argument 'masked' must hold booleans of shape \(2, 4\)"):
        sampler.run(start, start[:1].bool(), rng=generator())
    with pytest.raises(ValueError, match="Argument 'rng' must hold one seed for each of the 2 sequences, not 3"):
        sampler.run((2, 4), rng=[1, 2, 3])
    with pytest.raises(ValueError, match="Argument 'rng' must be at least 0, not -1"):
        sampler.run((1, 4), rng=[-1])
    with pytest.raises(
        ValueError, match=r"Argument 'rng' must be a seed, a torch generator, a numpy generator, or a list"
    ):
        sampler.run((1, 4), rng=0.5)


# Stepping and records


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{label(s.order)}-{label(s.size)}")
def test_stepping_by_hand_watching_and_running_are_the_same(schedule):
    sampler = Sampler(RowWise().predictor(), schedule)
    watched = []
    trace = sampler.run((3, 12), rng=[1, 2, 3], watch=lambda state, step: watched.append((state, step)))
    first = state = sampler.init((3, 12), rng=[1, 2, 3])
    steps = []
    for state, step in sampler.steps(state):  # noqa: B007, B020
        steps.append(step)
    assert torch.equal(state.tokens, trace.tokens)
    assert torch.equal(state.revealed, trace.revealed)
    assert len(steps) == len(watched) == trace.calls
    assert bool(first.masked.all()), "states are never changed in place"
    assert all(
        torch.equal(a.rows, b.rows) and torch.equal(a.tokens, b.tokens)
        for a, (_, b) in zip(steps, watched, strict=True)
    )
    assert all(
        torch.equal(trace.revealed.flatten()[step.rows], torch.full_like(step.rows, step.index)) for step in steps
    )
    finished, nothing = sampler.step(state)
    assert nothing is None
    assert finished is state


def test_the_trace_says_what_happened():
    start = torch.tensor([[1, 4, 4, 4], [4, 4, 4, 4]])
    logits = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125]))
    model = Logits(lambda tokens: logits.expand(*tokens.shape, 4), 4, 4)
    trace = Sampler(model, Schedule(size.Explicit([2, 1]), order.LeftToRight())).run(start[:1], rng=[5])
    assert trace.revealed.tolist() == [[-1, 0, 0, 1]]
    assert trace.sizes.tolist() == [[2, 1]]
    assert (trace.steps, trace.calls, trace.evaluations.tolist(), trace.seeds) == (2, 2, [2], (5,))
    expected = [0.0, *(logits[token].item() for token in trace.tokens[0, 1:])]
    np.testing.assert_allclose(trace.log_probability[0], expected, rtol=1e-6)
    np.testing.assert_allclose(trace.nll, [-sum(expected)], rtol=1e-6)
    assert trace.tokens_per_evaluation == 1.5  # three tokens drawn; the prompt does not count

    batch = Sampler(model, Schedule(size.Even(2), order.LeftToRight())).run(start, rng=[5, 6])
    data = json.loads(json.dumps(batch.to_json()))
    assert data["tokens"] == batch.tokens.tolist()
    assert data["revealed"] == batch.revealed.tolist()
    assert data["sizes"] == [[2, 1], [2, 2]]
    assert data["seeds"] == [5, 6]
    assert (data["calls"], data["evaluations"], data["tokens_per_evaluation"]) == (2, [2, 2], 7 / 4)
    np.testing.assert_allclose(data["nll"], batch.nll)
    np.testing.assert_allclose(data["log_probability"], batch.log_probability, atol=1e-9)


def test_a_state_can_be_recorded_before_it_is_finished():
    sampler = Sampler(end_at(2, length=4), Schedule(size.Even(4), order.LeftToRight()))
    state, _ = sampler.step(sampler.init(torch.tensor([[0, 5, 5, 5]]), rng=[0]))
    trace = state.trace()
    assert trace.revealed.tolist() == [[GIVEN, 0, OPEN, OPEN]]
    assert (trace.steps, trace.sizes.tolist(), trace.tokens_per_evaluation) == (1, [[1]], 1.0)
    assert list(trace.frames(lambda ids: "abcd"[ids[0]])) == [["a___"], ["aa__"]]


def test_frames_show_the_text_as_it_appears():
    sampler = Sampler(end_at(2, length=4), Schedule(size.Even(4), order.LeftToRight()), stop=Stop(3, 4))
    trace = sampler.run((1, 4), rng=[0])
    frames = list(trace.frames(lambda ids: "".join("abcd."[token] for token in ids)))
    assert frames == [["____"], ["a___"], ["aa__"], ["aad."]]
    prompt = torch.tensor([[0, 5, 5, 5]])
    trace = Sampler(end_at(2, length=4), Schedule(size.Even(1), order.Random())).run(prompt, rng=[0])
    assert list(trace.frames(lambda ids: "abcd."[ids[0]], blank="·")) == [["a···"], ["aada"]]


def test_a_progress_bar_is_shown_when_asked_and_changes_nothing(capsys):
    sampler = Sampler(ExactPredictor(Parity(6)), Schedule(size.Even(3), order.Random()))
    quiet, shown = (sampler.run((2, 6), rng=[1, 2], progress=progress) for progress in (False, True))
    assert torch.equal(quiet.tokens, shown.tokens)
    assert capsys.readouterr().out == ""
