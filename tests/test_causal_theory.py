"""What docs/theory.md says of models that are causal in the schedule: the objective in one pass, and the error."""

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from remembered import Remembered, history_of, random_joint, splits  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.information.measures import kl, total_correlation  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.train.masks import EveryStep, ScheduleMasks, steps_of  # noqa: E402

SIZES = [(2, 2), (1, 3), (1, 2, 1), (1, 1, 1, 1), (4,)]
SCHEDULES = [
    Schedule(size.Even(3), order.Random()),
    Schedule(size.Even(3), order.Comb()),
    Schedule(size.LogLinear(4), order.Random()),
    Schedule(size.Even(2), order.Blocks(order.LeftToRight(), 4)),
]


def network(length=6, vocab=3, seed=0):
    torch.manual_seed(seed)
    config = CausalConfig(vocab, length, width=8, layers=1, readers=1, heads=2, hidden=8, reader_hidden=8)
    model = config.network().double()
    for parameter in model.parameters():  # as they start, all predictions are nearly alike
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def one_step(model, tokens, step, now):
    """Losses of all positions from what came before step `now`; those that are masked hide what they hold."""
    hidden = torch.where(step < now, tokens, 0)
    logits = model(hidden, step.clamp(max=now))
    return torch.nn.functional.cross_entropy(logits, tokens.flatten(), reduction="none").view_as(tokens)


def all_steps(model, tokens, step):
    return torch.nn.functional.cross_entropy(model(tokens, step), tokens.flatten(), reduction="none").view_as(tokens)


def rated(joint, predictor, sets, *, masked):
    """The mean over texts and steps of one split: of what is masked at a step, or of what is revealed by it."""
    length, total = joint.ndim, 0.0
    for x in product(*map(range, joint.shape)):
        for k, now in enumerate(sets):
            history = history_of(sets[:k], x)
            scored = [i for each in sets[k:] for i in each] if masked else now
            logs = [np.log(predictor(history, i)[x[i]]) for i in scored]
            total += joint[x] * len(now) / length * length / len(scored) * sum(logs)
    return total


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("given", [0.0, 1.0], ids=["free", "given"])
@torch.no_grad()
def test_one_pass_is_the_mean_over_a_step_drawn_in_proportion_to_its_size(schedule, given):
    """The step of a uniformly random hidden position is drawn in proportion to its size: all are gone through."""
    model, rng = network(), np.random.default_rng(1)
    batch = EveryStep((schedule,), given=given).batch(rng.integers(3, size=(5, 6)), 3, rng=rng)
    tokens, step = batch.inputs
    mean = 0.0
    for text, steps in zip(tokens[:, None], step[:, None], strict=True):
        hidden = torch.nonzero(steps[0] >= 0)[:, 0]
        for position in hidden:
            now = steps[0, position]
            mean += one_step(model, text, steps, now)[steps == now].mean() / (len(hidden) * len(tokens))
    losses = all_steps(model, tokens, step)
    one_pass = torch.stack([row[each >= 0].mean() for row, each in zip(losses, step, strict=True)]).mean()
    assert torch.isclose(mean, one_pass, rtol=1e-12)
    assert torch.isclose(batch.loss(model(tokens, step)).double(), one_pass, rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_in_random_order_all_that_is_masked_has_the_mean_of_what_the_step_reveals(sizes):
    """Over all splits of one kind, with a predictor that depends on the steps: the two forms of the objective agree."""
    joint = random_joint(2)
    predictor = Remembered(joint)
    every = list(splits(range(4), sizes))
    means = [np.mean([rated(joint, predictor, sets, masked=masked) for sets in every]) for masked in (True, False)]
    assert np.isclose(*means, rtol=1e-12)


def test_in_random_order_masks_of_one_step_have_the_mean_of_one_pass():
    """Every mask that `ScheduleMasks` can draw, scored wherever it is masked, against every plan at once."""
    model = network(length=4, vocab=2)
    tokens = torch.tensor([[0, 1, 1, 0]])
    paper, one_pass, every = 0.0, 0.0, list(splits(range(4), (1, 2, 1)))
    with torch.no_grad():
        for sets in every:
            step = torch.empty((1, 4), dtype=torch.int64)
            for k, each in enumerate(sets):
                step[0, list(each)] = k
            for now in step[0]:
                paper += one_step(model, tokens, step, now)[step >= now].mean() / (4 * len(every))
            one_pass += all_steps(model, tokens, step).mean() / len(every)
    assert torch.isclose(paper, one_pass, rtol=1e-12)
    drawn = ScheduleMasks(Schedule(size.Explicit((1, 2, 1)), order.Random())).draw(500, 4, rng=np.random.default_rng(3))
    possible = {tuple(i in sum(sets[k:], ()) for i in range(4)) for sets in every for k in range(3)}
    assert set(map(tuple, drawn.tolist())) == possible


def test_in_comb_order_all_that_is_masked_has_another_mean():
    """The difference of the objectives of a wrong predictor and of the true one is its error for one of them alone."""
    joint = random_joint(4)
    wrong, true = Remembered(joint), Remembered(joint, noise=0.0)
    comb = Schedule(size.Even(2), order.Comb(shift=0))
    step = steps_of(comb, np.ones((1, 4), dtype=bool), np.random.default_rng(0))[0]
    sets = tuple(tuple(np.flatnonzero(step == k).tolist()) for k in range(2))
    assert sets == ((0, 2), (1, 3))
    law, ideal = (law_of(joint.shape, each, sets) for each in (wrong, true))
    excess = kl(joint.ravel(), law.ravel()) - kl(joint.ravel(), ideal.ravel())
    of_step, of_masked = (
        rated(joint, true, sets, masked=masked) - rated(joint, wrong, sets, masked=masked) for masked in (False, True)
    )
    assert np.isclose(of_step, excess, rtol=1e-12)
    assert abs(of_masked - excess) > 0.01


def test_the_step_taken_exactly_never_increases_the_covariance_of_the_gradient():
    """Covariances over all texts, splits and steps; both of what a step reveals and of all that is masked at it."""
    model, joint = network(length=3, vocab=2, seed=5), random_joint(6, length=3)
    chances, drawn, exact = [], {"step": [], "masked": []}, {"step": [], "masked": []}
    every = list(splits(range(3), (1, 2)))
    for x, sets in product(product(range(2), repeat=3), every):
        tokens, step = torch.tensor([x]), torch.tensor([[next(k for k in (0, 1) if i in sets[k]) for i in range(3)]])
        means = {"step": 0.0, "masked": 0.0}
        for k in (0, 1):
            losses = one_step(model, tokens, step, torch.tensor(k))
            for kind, scored in (("step", step == k), ("masked", step >= k)):
                gradient = flat_gradient(model, losses[scored].mean())
                drawn[kind].append(gradient)
                means[kind] = means[kind] + len(sets[k]) / 3 * gradient
            chances.append(joint[x] / len(every) * len(sets[k]) / 3)
        for kind, mean in means.items():
            exact[kind] += [mean, mean]
        assert np.allclose(means["step"], flat_gradient(model, all_steps(model, tokens, step).mean()), atol=1e-12)
    for kind in ("step", "masked"):
        gap = covariance(drawn[kind], chances) - covariance(exact[kind], chances)
        eigenvalues = np.linalg.eigvalsh(gap)
        assert eigenvalues[0] > -1e-12
        assert eigenvalues[-1] > 1e-4


def test_one_pass_and_all_that_is_masked_at_one_step_vary_more_or_less_than_each_other():
    """The two examples of the page, with losses in place of gradients: two tokens one by one in random order."""
    for first, second, one_pass, one_step_of in (
        ({0: 1.0, 1: -1.0}, {0: 0.0, 1: 0.0}, 0.25, 0.0),  # depends on the position, if nothing is known
        ({0: 1.0, 1: 1.0}, {0: -1.0, 1: -1.0}, 0.0, 1.0),  # depends on how much is known
    ):
        passes, draws = [], []
        for i, j in ((0, 1), (1, 0)):
            passes.append((first[i] + second[j]) / 2)
            draws += [(first[i] + first[j]) / 2, second[j]]
        assert np.mean(passes) == np.mean(draws)
        assert (np.var(passes), np.var(draws)) == (one_pass, one_step_of)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_error_of_a_sampler_that_remembers_is_the_ideal_one_and_that_of_its_predictor(sizes):
    joint = random_joint(7)
    predictor, true = Remembered(joint), Remembered(joint, noise=0.0)
    errors = []
    for sets in splits(range(4), sizes):
        law = law_of(joint.shape, predictor, sets)
        assert np.isclose(law.sum(), 1.0, rtol=1e-12)
        ideal, own, earlier = 0.0, 0.0, ()
        for k, each in enumerate(sets):
            ideal += total_correlation(joint, each, earlier)
            earlier += each
            for x, i in product(product(range(2), repeat=4), each):
                history = history_of(sets[:k], x)
                own += joint[x] * kl(true(history, i), predictor(history, i))
        assert np.isclose(kl(joint.ravel(), law.ravel()), ideal + own, rtol=1e-12)
        assert np.isclose(kl(joint.ravel(), law_of(joint.shape, true, sets).ravel()), ideal, rtol=1e-9, atol=1e-12)
        assert own > 0
        errors.append(own)
    every = list(splits(range(4), sizes))
    best, real = (np.mean([rated(joint, each, sets, masked=True) for sets in every]) for each in (true, predictor))
    assert np.isclose(np.mean(errors), best - real, rtol=1e-11)


def law_of(shape, predictor, sets):
    law = np.ones(shape)
    for x in product(*map(range, shape)):
        for k, each in enumerate(sets):
            for i in each:
                law[x] *= predictor(history_of(sets[:k], x), i)[x[i]]
    return law


def flat_gradient(model, loss):
    parts = torch.autograd.grad(loss, [model.blank, model.head.weight], retain_graph=True)
    return torch.cat([part.flatten() for part in parts]).numpy()


def covariance(values, chances):
    values, chances = np.array(values), np.array(chances)
    centred = values - chances @ values
    return centred.T @ (centred * chances[:, None])
