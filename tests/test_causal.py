"""Networks that are causal in the schedule: nothing leaks, what is kept is exact, and every schedule has its law."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from enumeration import laws, mixture  # noqa: E402
from pairs import PAIRS, label  # noqa: E402
from reference import chi_square  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate import verified_evaluations  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.models.causal import GIVEN, CausalConfig  # noqa: E402
from unmask.models.transformer import Config  # noqa: E402
from unmask.predict import Counted, Places, Suppressed, Tempered  # noqa: E402
from unmask.predict.wrappers import Question  # noqa: E402
from unmask.sample import Sampler, Verified  # noqa: E402
from unmask.sample.draw import Greedy, TopK  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402
from unmask.train.masks import steps_of  # noqa: E402

SHAPE = {"vocab": 5, "length": 12, "width": 16, "layers": 2, "heads": 2, "hidden": 24, "reader_hidden": 24}
BLIND = [
    Schedule(size.Even(4), order.Random()),
    Schedule(size.TC(3), order.Spread()),
    Schedule(size.Even(3), order.Comb(shift=0)),
    Schedule(size.Even(12), order.LeftToRight()),
    Schedule(size.Even(2), order.Blocks(order.Random(), 5)),
]


def network(readers=2, scale=3.0, **shape):
    """A network with random weights that say something: as they are drawn, all its predictions are alike."""
    torch.manual_seed(1)
    model = CausalConfig(**{**SHAPE, **shape}, readers=readers).network().eval()
    with torch.no_grad():
        for weight in (model.embed.weight, model.head.weight):
            weight.mul_(scale)
    return model


def random_steps(schedule, count, seed, length=12):
    hidden = np.random.default_rng(seed).random((count, length)) < 0.8
    hidden[:, 0] = True
    return torch.from_numpy(steps_of(schedule, hidden, np.random.default_rng(seed)))


@pytest.mark.parametrize("readers", [0, 2])
@pytest.mark.parametrize("schedule", BLIND, ids=label)
def test_no_prediction_of_a_step_sees_that_step_or_a_later_one(schedule, readers):
    """Bit for bit: any change of tokens of step k or later leaves every prediction of step k as it was."""
    model = network(readers)
    tokens = torch.randint(5, (6, 12), generator=torch.Generator().manual_seed(0))
    step = random_steps(schedule, 6, 0)
    with torch.no_grad():
        before = model(tokens, step).view(6, 12, 5)
        for k in range(int(step.max()) + 1):
            after = model(torch.where(step >= k, (tokens + 1 + k % 4) % 5, tokens), step).view(6, 12, 5)
            assert torch.equal(after[step <= k], before[step <= k])
            later = step > k
            assert not later.any() or not torch.allclose(after[later], before[later])


def test_every_earlier_token_is_seen():
    """A changed token of an earlier step, or a given one, changes the predictions of every later step."""
    model = network()
    tokens = torch.randint(5, (1, 12), generator=torch.Generator().manual_seed(0))
    step = torch.tensor([[GIVEN, 0, 2, 1, 0, GIVEN, 2, 1, 0, 1, 2, 0]])
    with torch.no_grad():
        before = model(tokens, step).view(12, 5)
        for place in range(12):
            changed = tokens.clone()
            changed[0, place] = (tokens[0, place] + 1) % 5
            after = model(changed, step).view(12, 5)
            differs = (after - before).abs().amax(dim=1) > 0
            asked = step[0] != GIVEN
            assert torch.equal(differs[asked], (step[0] > step[0, place])[asked])


def test_left_to_right_one_by_one_is_the_ordinary_autoregressive_model():
    """The chances of a text are products of those of each token given all before it, and sum to 1."""
    model = network(vocab=2, length=6)
    texts = torch.tensor(list(itertools.product(range(2), repeat=6)))
    step = torch.arange(6).expand(64, -1)
    with torch.no_grad():
        chances = torch.log_softmax(model(texts, step), dim=-1).gather(1, texts.flatten()[:, None]).view(64, 6)
    assert chances.sum(dim=1).exp().sum().item() == pytest.approx(1, abs=1e-5)
    for place in range(1, 6):
        # Texts with the same beginning are told the same of what comes next.
        groups = texts[:, :place] @ (1 << torch.arange(place))
        told = {int(key): chances[groups == key][:, : place + 1] for key in groups.unique()}
        assert all(torch.equal(each[:, :place], each[:1, :place].expand(len(each), -1)) for each in told.values())


@pytest.mark.parametrize("config", [CausalConfig(**SHAPE, readers=0), CausalConfig(**SHAPE, readers=3)])
def test_a_causal_shape_knows_its_weights_and_is_read_back(config, tmp_path):
    model = config.network().eval()
    assert config.parameters == sum(each.numel() for each in model.parameters())
    assert config.tensors == len(model.state_dict())
    weights.save(model, tmp_path / "m.safetensors", about={"alphabet": "abcde"}, half=False)
    loaded, about = weights.load(tmp_path / "m.safetensors")
    tokens, step = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[1, 0, 1, 2]])
    assert torch.equal(loaded(tokens, step), model(tokens, step))
    assert about == {"alphabet": "abcde"}
    assert loaded.config == config


def test_a_file_of_one_network_is_not_taken_for_another(tmp_path):
    weights.save(Config(**SHAPE, readers=2).network(), tmp_path / "m.safetensors", about={})
    found, _ = weights.load(tmp_path / "m.safetensors")
    assert type(found).__name__ == "Transformer"


@pytest.mark.parametrize("readers", [0, 2])
@pytest.mark.parametrize(
    "which", [order.Random(), order.Comb(shift=0), order.LeftToRight(), order.Confidence()], ids=label
)
def test_cached_generation_is_one_pass_over_the_finished_text(which, readers):
    """To 1e-5 nats in float32, with prompts and gaps of different lengths."""
    predictor = network(readers).predictor()
    start = torch.randint(5, (5, 12), generator=torch.Generator().manual_seed(3))
    masked = torch.rand((5, 12), generator=torch.Generator().manual_seed(4)) < 0.7
    for steps in (1, 3, 8):
        trace = Sampler(predictor, Schedule(size.Even(steps), which)).run(start, masked, rng=0)
        rows = torch.nonzero(masked.flatten())[:, 0]
        with torch.no_grad():
            losses = predictor.stepped(trace.tokens, trace.revealed, rows).losses(trace.tokens.flatten()[rows])
        torch.testing.assert_close(losses, -trace.log_probability.flatten()[rows], atol=1e-5, rtol=0)


class Told:
    """What a network says of positions given a history, from one pass over contents and queries."""

    def __init__(self, model, length):
        self.model, self.length, self.known = model, length, {}

    def __call__(self, revealed, history):
        if history not in self.known:
            tokens, step = torch.zeros((1, self.length), dtype=torch.int64), torch.full((1, self.length), len(history))
            for number, pairs in enumerate(history):
                for place, token in pairs:
                    tokens[0, place], step[0, place] = token, number
            with torch.no_grad():
                self.known[history] = torch.softmax(self.model(tokens, step).double(), dim=-1).numpy()
        return self.known[history]


TINY = network(vocab=2, length=4, scale=6.0)
TOLD = Told(TINY, 4)
COUNT = 500


def counts_of(tokens):
    return np.bincount((tokens.numpy() * [8, 4, 2, 1]).sum(axis=1), minlength=16)


@pytest.mark.parametrize(("which", "how_many"), PAIRS, ids=label)
def test_every_pair_has_its_enumerated_law_with_a_network_that_remembers(which, how_many):
    """Chi-square over 16 sequences and 500 draws at level 1e-7 for each pair: all of them fail less than 1e-4."""
    chances = mixture(laws(np.empty((2,) * 4), which, how_many, TOLD))
    assert chances.sum() == pytest.approx(1, abs=1e-6)
    trace = Sampler(TINY.predictor(), Schedule(how_many, which)).run((COUNT, 4), rng=7)
    assert chi_square(counts_of(trace.tokens), chances.ravel() / chances.sum()) > 1e-7


def test_the_steps_of_the_past_matter_to_the_law():
    """The test above would not see it if they did not: one by one and in one step are other laws of the same order."""
    one, four = (mixture(laws(np.empty((2,) * 4), order.LeftToRight(), size.Even(k), TOLD)) for k in (1, 4))
    assert np.abs(one - four).sum() > 0.2
    halves = mixture(laws(np.empty((2,) * 4), order.LeftToRight(), size.Explicit([2, 1, 1]), TOLD))
    assert np.abs(halves - four).sum() > 0.01


VERIFIABLE = [
    (which, how_many)
    for which, how_many in PAIRS
    if Schedule(how_many, which).blind and not isinstance(which, order.SpreadGrid)
]


@pytest.mark.parametrize(("which", "how_many"), VERIFIABLE, ids=label)
def test_verified_sampling_has_the_one_by_one_law_of_the_same_order(which, how_many):
    """Chi-square over 16 sequences and 500 draws at level 1e-7 for each pair: all of them fail less than 1e-4."""
    inner = which.order if isinstance(which, order.Blocks) else which
    chances = 0.0
    # Whatever the sizes, the positions come in the order that they would have: one token per step of it.
    for weight, steps in orders_of(which, how_many):
        chances = chances + weight * one_by_one(steps)
    trace = Verified(TINY.predictor(), Schedule(how_many, which)).run((COUNT, 4), rng=8)
    assert chi_square(counts_of(trace.tokens), chances.ravel()) > 1e-7, inner


def orders_of(which, how_many):
    """Chances of orders of the positions, from draws of many seeds of the schedule itself."""
    from unmask.sample.agenda import agenda_of

    found = {}
    sources = [np.random.default_rng(seed) for seed in range(4000)]
    agenda = agenda_of(Schedule(how_many, which), np.ones((4000, 4), dtype=bool), sources, np.full(4000, 4))
    for stretches in agenda:
        key = tuple(int(each) for stretch in stretches for each in stretch.positions)
        found[key] = found.get(key, 0) + 1 / 4000
    return [(weight, key) for key, weight in found.items()]


def one_by_one(positions):
    law = np.empty((2,) * 4)
    for x in itertools.product(range(2), repeat=4):
        history, chance = (), 1.0
        for place in positions:
            chance *= TOLD({}, history)[place][x[place]]
            history = (*history, ((place, x[place]),))
        law[x] = chance
    return law / law.sum()


def test_rows_of_a_batch_are_verified_as_if_alone():
    predictor = network().predictor()
    verified = Verified(predictor, Schedule(size.Even(3), order.Random()))
    start = torch.randint(5, (4, 12), generator=torch.Generator().manual_seed(5))
    masked = torch.rand((4, 12), generator=torch.Generator().manual_seed(6)) < 0.8
    whole = verified.run(start, masked, rng=[1, 2, 3, 4])
    for row in range(4):
        alone = verified.run(start[row : row + 1], masked[row : row + 1], rng=[row + 1])
        assert torch.equal(alone.tokens[0], whole.tokens[row])
        assert torch.equal(alone.log_probability[0], whole.log_probability[row])
        assert alone.evaluations[0] == whole.evaluations[row]
        assert alone.verification.rejected[0] == whole.verification.rejected[row]
    assert torch.equal(whole.tokens[~masked], start[~masked])


@pytest.mark.parametrize("draw", [Greedy(), TopK(2)], ids=["greedy", "top-k"])
def test_draws_with_a_law_of_their_own_are_verified_by_it(draw):
    """Greedy and verified is greedy one by one, token by token; of two likeliest tokens nothing else is drawn."""
    predictor = network().predictor()
    verified = Verified(predictor, Schedule(size.Even(3), order.LeftToRight()), draw).run((3, 12), rng=0)
    if isinstance(draw, Greedy):
        alone = Sampler(predictor, Schedule(size.Even(12), order.LeftToRight()), draw).run((3, 12), rng=0)
        assert torch.equal(verified.tokens, alone.tokens)
    else:
        rows = torch.arange(36)
        step = torch.arange(12).expand(3, -1)
        with torch.no_grad():
            best = predictor.stepped(verified.tokens, step, rows).logits().topk(2, dim=-1).indices
        assert bool((best == verified.tokens.flatten()[:, None]).any(dim=1).all())


def test_evaluations_are_steps_and_what_was_taken_back():
    """1 + K + rejections, less one where the last token of all was taken back or the last step has a single one."""
    predictor = Counted(network(scale=6.0).predictor())
    for sizes, lone in (([4, 4, 4], 0), ([5, 6, 1], 1), ([12], 0)):
        trace = Verified(predictor, Schedule(size.Explicit(sizes), order.LeftToRight())).run((50, 12), rng=2)
        spent = 1 + len(sizes) + trace.verification.rejected - lone
        assert set((spent - trace.evaluations).tolist()) <= {0, 1 - lone}
        assert (trace.evaluations <= spent).all()
        assert trace.verification.rejected.sum() > 0
        assert trace.verification.verified.tolist() == [12] * 50
        assert torch.equal((trace.sizes > 0).any(dim=0), torch.ones(trace.steps, dtype=torch.bool))


def test_what_cannot_be_verified_is_refused_in_a_sentence():
    predictor = network().predictor()
    with pytest.raises(InputError, match="'schedule' must not look at predictions, because verified sampling plans"):
        Verified(predictor, Schedule(size.Even(3), order.Confidence()))

    class Mine(Greedy.__mro__[1]):
        def __call__(self, log_probabilities, uniform, rows):
            return log_probabilities.argmax(dim=-1)

    with pytest.raises(
        InputError, match="'draw' must have a known distribution if drafts are verified, but Mine has none"
    ):
        Verified(predictor, Schedule(size.Even(3), order.Random()), Mine()).run((1, 12), rng=0)


@pytest.mark.parametrize("wrap", [Counted, lambda each: Tempered(each, 0.5), lambda each: Suppressed(each, [1])])
def test_wrappers_that_alter_predictions_remember_what_is_inside(wrap):
    predictor = wrap(network().predictor())
    tokens = torch.randint(5, (2, 12), generator=torch.Generator().manual_seed(0))
    masked = torch.ones_like(tokens, dtype=torch.bool)
    memory = predictor.begin(tokens, masked)
    every = Places.of(torch.arange(24), 12)
    first, memory = memory.read(tokens, every)
    memory = memory.revealed(Places.of(torch.tensor([0, 3, 13]), 12))
    second, _ = memory.read(tokens, every)
    assert not torch.allclose(first.logits(), second.logits())
    inside = predictor.predictor.begin(tokens, masked)
    _, inside = inside.read(tokens, every)
    bare, _ = inside.revealed(Places.of(torch.tensor([0, 3, 13]), 12)).read(tokens, every)
    assert torch.equal(second.logits(), predictor._altered(bare, Question(tokens, every.rows, 2)).logits())


def test_a_memory_is_a_value_that_can_be_gone_on_from_twice():
    """From one state two runs with other draws: each has what it would have had alone."""
    predictor = network().predictor()
    plain = Sampler(predictor, Schedule(size.Even(4), order.Random()))
    greedy = Sampler(predictor, Schedule(size.Even(4), order.Random()), Greedy())
    kept = plain.init((3, 12), rng=0)
    kept, _ = plain.step(kept)

    def finished(sampler, state):
        for state, _ in sampler.steps(state):  # noqa: B007, B020 - the last state is the result
            pass
        return state.trace()

    first = finished(plain, kept)
    other = finished(greedy, kept)
    again = finished(plain, kept)
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.log_probability, again.log_probability)
    assert not torch.equal(first.tokens, other.tokens)
    # Step by step in turns, where each writes what the other has not seen.
    one = two = kept
    for _ in range(3):
        one, two = plain.step(one)[0], greedy.step(two)[0]
    assert torch.equal(one.trace().log_probability, first.log_probability)
    assert torch.equal(two.trace().log_probability, other.log_probability)


def test_sequences_of_any_lengths_are_verified_together():
    """Those of one length may be done while others go on: each has what it would have alone."""
    predictor = network().predictor()
    tokens = torch.full((3, 12), predictor.mask)
    tokens[1, 6:] = tokens[2, 3:] = predictor.pad
    masked = tokens == predictor.mask
    schedule = Schedule(size.Even(3), order.Comb(shift=0))
    for seed in range(12):
        whole = Verified(predictor, schedule).run(tokens, masked, rng=[seed, seed + 1, seed + 2])
        for row, length in enumerate((12, 6, 3)):
            alone = Verified(predictor, schedule).run((1, length), rng=[seed + row])
            assert torch.equal(alone.tokens[0], whole.tokens[row, :length])
            assert alone.evaluations[0] == whole.evaluations[row]
    texts = Sequences.of([[0] * length for length in (12, 6, 3)])
    found = verified_evaluations(predictor, schedule, texts, rng=0)
    assert (found.evaluations >= 3).all()


def test_where_nothing_is_to_be_filled_nothing_is_evaluated():
    predictor = network().predictor()
    tokens = torch.zeros((2, 12), dtype=torch.int64)
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    schedule = Schedule(size.Even(3), order.Random())
    assert Verified(predictor, schedule).run(tokens, nothing, rng=0).calls == 0
    assert verified_evaluations(predictor, schedule, tokens, rng=0, masked=nothing).evaluations.tolist() == [0, 0]
    assert len(predictor(tokens[:0], nothing[:0])) == 0
    assert Sampler(predictor, schedule).run((0, 12), rng=0).tokens.shape == (0, 12)


def test_a_memory_can_be_read_again():
    predictor = network().predictor()
    tokens = torch.zeros((2, 12), dtype=torch.int64)
    memory = predictor.begin(tokens, torch.ones_like(tokens, dtype=torch.bool))
    every = Places.of(torch.arange(24), 12)
    first, memory = memory.read(tokens, every)
    again, _ = memory.read(tokens, every)
    assert torch.equal(first.logits(), again.logits())


def test_drafts_are_accepted_once():
    """Another continuation of the same scan may have written over them, so that it is refused."""
    predictor = network().predictor()
    tokens = torch.zeros((1, 12), dtype=torch.int64)
    memory = predictor.begin(tokens, torch.ones_like(tokens, dtype=torch.bool))
    places = Places.of(torch.tensor([0, 4]), 12)
    _, _, scanned = memory.scan(tokens, places, Places.of(torch.tensor([7]), 12))
    scanned.accepted(places)
    with pytest.raises(InputError, match="Drafts can be accepted only once"):
        scanned.accepted(places)
