"""The likelihood of the sampler as a function of weights: its values, its gradients, and what it keeps in memory."""

import csv
import gc
import importlib
import weakref
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import InputError, order, size  # noqa: E402
from unmask.evaluate import log_likelihood, replay  # noqa: E402
from unmask.models.caches import Cached, Dual  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.models.transformer import Config  # noqa: E402
from unmask.predict import Guided, Logits, Suppressed, Tempered  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

FOLDER = Path(__file__).parent.parent / "experiments"
VOCAB, LENGTH, END = 4, 6, 3
SHAPE = {"vocab": VOCAB, "length": LENGTH, "width": 8, "heads": 2, "hidden": 8, "reader_hidden": 8, "layers": 1}
SCHEDULES = {
    "planned": Schedule(size.Even(3), order.Comb(shift=0)),
    "blocks": Schedule(size.Even(2), order.Blocks(order.Spread(), 4)),
    "random order": Schedule(size.Even(3), order.Random()),
    "random size": Schedule(size.TC(3), order.Random()),
    "reactive order": Schedule(size.Even(3), order.Confidence()),
    "reactive size": Schedule(size.Threshold(0.4), order.Margin()),
    "both reactive": Schedule(size.EntropyBound(1.0), order.Entropy()),
}
KINDS = {"both ways": Config, "causal": CausalConfig}


def network(kind, seed=0, **shape):
    """A network in float64 with weights of random sizes, so that nothing it looks at is negligible."""
    torch.manual_seed(seed)
    model = KINDS[kind](readers=1, **(SHAPE | shape)).network().double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return model


def mixed(count=9):
    """Texts of different lengths with prompts, gaps and ends, one of them with nothing to fill.

    Something is given of each: told nothing, a network that looks both ways says the same of all positions, and
    rounding would decide which comes first.
    """
    source = np.random.default_rng(5)
    lengths = source.integers(2, LENGTH + 1, size=count)
    tokens = [source.integers(VOCAB, size=each).tolist() for each in lengths]
    given = [(source.random(each) < 0.2) | (np.arange(each) == source.integers(each)) for each in lengths]
    return Sequences.of(tokens, [(~each & (number != 4)).tolist() for number, each in enumerate(given)])


def gradient(model, value):
    model.zero_grad()
    value.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    return SCHEDULES[request.param]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("end", [None, END])
def test_it_is_the_likelihood_of_a_replay(kind, schedule, end):
    predictor, texts, seeds = network(kind).predictor(), mixed(), list(range(9))
    found = log_likelihood(predictor, schedule, texts, rng=seeds, end=end, batch=4)
    expected = replay(predictor, schedule, texts, rng=seeds, end=end, batch=4).nll
    assert found.requires_grad
    assert found.dtype == torch.float64
    torch.testing.assert_close(-found.detach(), expected, atol=1e-12, rtol=0)


def test_its_gradient_is_that_of_finite_differences(kind, schedule):
    """Along single weights and along random directions of all, to 1e-6 of the steepest weight."""
    model, texts, seeds = network(kind, 1), mixed(), list(range(9))
    predictor = model.predictor()

    def value():
        return log_likelihood(predictor, schedule, texts, rng=seeds, end=END).sum()

    found = gradient(model, value())
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    source, step = np.random.default_rng(0), 1e-5
    directions = [np.eye(len(found))[source.integers(len(found))] for _ in range(4)]
    directions += list(source.standard_normal((3, len(found))) / np.sqrt(len(found)))
    for direction in map(torch.as_tensor, directions):
        moved = []
        for sign in (1, -1):
            parts = torch.split(sign * step * direction, [weight.numel() for weight in weights])
            with torch.no_grad():
                for weight, part in zip(weights, parts, strict=True):
                    weight += part.view_as(weight)
                moved.append(float(value()))
                for weight, part in zip(weights, parts, strict=True):
                    weight -= part.view_as(weight)
        slope = (moved[0] - moved[1]) / (2 * step)
        assert float(found @ direction) == pytest.approx(slope, abs=1e-6 * float(found.abs().max()))


def test_what_is_computed_again_has_the_same_gradient(kind, schedule):
    model, texts, seeds = network(kind, 2), mixed(), list(range(9))
    found = [
        gradient(model, log_likelihood(model.predictor(), schedule, texts, rng=seeds, recompute=again, batch=5).sum())
        for again in (True, False)
    ]
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("recompute", [True, False])
def test_what_is_held_in_memory_does_not_grow_with_the_steps(recompute):
    """The outputs of all layers that are alive at once, in the forward pass and in the backward one."""
    model = network("both ways", length=24)
    texts = torch.randint(VOCAB, (2, 24), generator=torch.Generator().manual_seed(0))
    alive, peak = [], 0

    def note(module, inputs, output):
        nonlocal peak
        alive[:] = [each for each in alive if each() is not None] + [weakref.ref(output)]
        peak = max(peak, len(alive))

    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.RMSNorm):
            module.register_forward_hook(note)
    peaks = []
    for steps in (3, 6, 24):
        alive, peak = [], 0
        gc.collect()
        schedule = Schedule(size.Even(steps), order.Random())
        log_likelihood(model.predictor(), schedule, texts, rng=0, recompute=recompute).sum().backward()
        peaks.append(peak)
    if recompute:
        assert peaks[0] == peaks[1] == peaks[2]
    else:
        assert peaks[2] > 3 * peaks[0]


@pytest.mark.parametrize("recompute", [True, False])
def test_what_is_kept_for_the_gradient_does_not_grow_with_the_steps(recompute):
    """Numbers with a fraction that the graph saves outside of what is computed again."""
    model = network("both ways", length=24)
    texts = torch.randint(VOCAB, (2, 24), generator=torch.Generator().manual_seed(0))
    saved = []
    for steps in (3, 24):
        count = 0

        def keep(tensor):
            nonlocal count
            count += tensor.numel() if tensor.is_floating_point() else 0
            return tensor

        schedule = Schedule(size.Even(steps), order.Random())
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            log_likelihood(model.predictor(), schedule, texts, rng=0, recompute=recompute)
        saved.append(count)
    assert (saved[1] == saved[0]) if recompute else (saved[1] > 4 * saved[0])


def test_a_causal_network_is_run_once_whatever_the_steps():
    model, seen = network("causal"), []
    hidden = model.hidden
    model.hidden = lambda tokens, step: seen.append(len(tokens)) or hidden(tokens, step)
    texts = torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    log_likelihood(model.predictor(), SCHEDULES["planned"], texts, rng=0).sum().backward()
    assert len(seen) == 1


def test_the_probabilities_of_all_texts_sum_to_one_and_their_mean_score_is_zero(kind, schedule):
    """Σ p(x) = 1 and Σ p(x) ∇ log p(x) = 0: what policy gradients with a baseline rest on."""
    model = network(kind, 3)
    texts = torch.tensor(list(product(range(3), repeat=4)))
    predictor = Suppressed(model.predictor(), [3])
    value = log_likelihood(predictor, schedule, texts, rng=[7] * len(texts))
    weight = value.detach().exp()
    assert float(weight.sum()) == pytest.approx(1, abs=1e-12)
    assert float(gradient(model, (weight * value).sum()).abs().max()) < 1e-12


def test_networks_in_training_are_scored_in_evaluation_mode_and_put_back(kind):
    model, texts = network(kind), torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    predictor, schedule = model.predictor(), SCHEDULES["random order"]
    expected = gradient(model, log_likelihood(predictor, schedule, texts, rng=0).sum())
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    model.train()
    found = gradient(model, log_likelihood(predictor, schedule, texts, rng=0).sum())
    assert torch.equal(found, expected)
    assert all(part.training for part in model.modules())


def test_a_text_has_the_same_gradient_alone_and_among_others(kind, schedule):
    model, texts, seeds = network(kind, 4), mixed(), list(range(9))
    together = log_likelihood(model.predictor(), schedule, texts, rng=seeds, batch=9)
    for number in (0, 3, 8):
        alone = log_likelihood(model.predictor(), schedule, texts[[number]], rng=[seeds[number]])
        expected = torch.autograd.grad(alone[0], model.head.weight)[0]
        found = torch.autograd.grad(together[number], model.head.weight, retain_graph=True)[0]
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)


def test_what_a_sampler_wrote_has_the_likelihood_of_its_trace(kind, schedule):
    predictor = network(kind, 5).predictor()
    trace = Sampler(predictor, schedule).run((5, LENGTH), rng=3)
    found = log_likelihood(predictor, schedule, trace.tokens, rng=trace.seeds)
    torch.testing.assert_close(-found.detach(), trace.nll, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["planned", "reactive order"])
def test_altered_predictions_have_gradients_too(kind, name):
    model, texts = network(kind, 6), torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    altered = [Tempered(model.predictor(), 0.5)]
    if kind == "both ways":
        altered.append(Guided(model.predictor(), torch.arange(LENGTH) < 2, 0.5))
    for predictor in altered:
        found = log_likelihood(predictor, SCHEDULES[name], texts, rng=0)
        expected = replay(predictor, SCHEDULES[name], texts, rng=0).nll
        torch.testing.assert_close(-found.detach(), expected, atol=1e-12, rtol=0)
        assert float(gradient(model, found.sum()).abs().max()) > 0


def test_what_cannot_be_differentiated_or_understood_is_refused():
    model = network("both ways")
    texts, schedule = torch.zeros((1, LENGTH), dtype=torch.int64), SCHEDULES["planned"]
    with pytest.raises(InputError, match="'predictor' must predict all steps of a text in one pass, or have no memory"):
        log_likelihood(Cached(model.predictor(), Dual(2)), schedule, texts, rng=0)
    with pytest.raises(InputError, match="'schedule' must be a Schedule"):
        log_likelihood(model.predictor(), size.Even(3), texts, rng=0)
    with pytest.raises(InputError, match="'recompute' must be True or False"):
        log_likelihood(model.predictor(), schedule, texts, rng=0, recompute=1)
    with pytest.raises(InputError, match="'end' must be at most 3, not 9"):
        log_likelihood(model.predictor(), schedule, texts, rng=0, end=9)
    with pytest.raises(InputError, match="'predictor' must predict all steps of a text in one pass, but Reading"):
        model.predictor().stepped(texts, texts, texts[0])
    nothing = Logits(lambda tokens: torch.full((*tokens.shape, VOCAB), torch.nan), VOCAB, VOCAB)
    with pytest.raises(InputError, match="not numbers"):
        log_likelihood(nothing, schedule, texts, rng=0)


# The two examples.


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def table(name):
    with (FOLDER / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["planned", "reactive order"])
def test_score_function_estimates_have_the_exact_gradient_as_their_mean(script, name):
    """The gradient of the goal by summing over all texts, against 150 estimates, along five directions.

    Within 5 standard errors each; by chance one in 300,000 tests would fail.
    """
    example = script("reward")
    model = network("causal", 7)
    predictor, schedule = model.predictor(), SCHEDULES[name]
    worth, entropy = example.exact(predictor, schedule, VOCAB, 4)
    expected = gradient(model, worth + example.BETA * entropy)
    source = np.random.default_rng(3)
    found = [
        gradient(model, example.estimated(predictor, schedule, 16, 4, rng=np.random.default_rng(number))[0])
        for number in range(150)
    ]
    directions = torch.as_tensor(source.standard_normal((len(expected), 5)))
    drawn, exact = torch.stack(found) @ directions, expected @ directions
    error = drawn.std(dim=0) / len(drawn) ** 0.5
    assert bool(((drawn.mean(dim=0) - exact).abs() < 5 * error).all())
    assert bool((exact.abs() > 5 * error).any())  # there is something to be found


def test_the_reward_is_learned_as_is_said():
    rows = table("reward.csv")
    goals, most = [float(row["goal"]) for row in rows], float(rows[0]["most"])
    assert int(rows[-1]["update"]) == 300
    assert all(later > before - 0.001 for before, later in pairwise(goals))
    assert max(goals) < most
    page = " ".join((FOLDER.parent / "docs" / "sampling.md").read_text(encoding="utf-8").split())
    assert f"the objective rises from {goals[0]:.3f} to {goals[-1]:.3f} in 300 updates" in page
    assert f"no distribution can reach more than {most:.3f}" in page


def test_fine_tuning_on_the_likelihood_of_the_comb_gains_what_is_said():
    rows = {row.pop("way"): {key: float(value) for key, value in row.items()} for row in table("finetune.csv")}
    assert rows["replay"]["over_uniform"] < -5 * rows["replay"]["over_uniform_error"]
    assert rows["replay"]["over_uniform"] < rows["masks"]["over_uniform"]
    page = (FOLDER.parent / "docs" / "sampling.md").read_text(encoding="utf-8")
    for way, row in rows.items():
        if way != "floor":
            assert f"`{way}`) | {row['over_floor']:.4f} ± {row['over_floor_error']:.4f} |" in page
    assert abs(rows["longer"]["bits"] - rows["replay"]["bits"]) < 0.1 * abs(rows["replay"]["over_uniform"])
