"""What verification takes, forecast from texts, against what it took."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pairs import random_table  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.distribution import Markov, Parity, Table  # noqa: E402
from unmask.evaluate import verified_evaluations  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.predict import Counted, ExactPredictor  # noqa: E402
from unmask.sample import Verified  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

SCHEDULES = [
    Schedule(size.Explicit([3, 1]), order.LeftToRight()),
    Schedule(size.Even(2), order.LeftToRight()),
    Schedule(size.Even(1), order.Dilated()),
    Schedule(size.Even(2), order.Blocks(order.LeftToRight(), 2)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_the_forecast_is_exact_where_texts_have_the_law_of_the_model(schedule):
    """All sixteen texts weighed by their chances, against the mean of 4,000 runs: within 5 standard errors (1e-6)."""
    table = random_table(3)
    predictor = ExactPredictor(table)
    texts = torch.tensor(list(itertools.product(range(2), repeat=4)))
    chances = table.probabilities.ravel()
    found = verified_evaluations(predictor, schedule, texts, rng=0)
    trace = Verified(predictor, schedule).run((4000, 4), rng=1)
    for mine, theirs in ((trace.evaluations, found.evaluations), (trace.verification.rejected, found.rejected)):
        error = mine.std() / np.sqrt(len(mine))
        assert abs(mine.mean() - chances @ theirs.numpy()) < 5 * error + 1e-9


def test_the_forecast_of_a_network_is_that_of_its_own_texts():
    """Texts that it wrote, against new ones: within 5 standard errors of both (failure under 1e-6)."""
    torch.manual_seed(1)
    shape = CausalConfig(vocab=5, length=12, width=16, layers=2, readers=2, heads=2, hidden=24, reader_hidden=24)
    model = shape.network().eval()
    with torch.no_grad():
        model.embed.weight.mul_(4)
        model.head.weight.mul_(4)
    schedule = Schedule(size.Even(3), order.Comb(shift=0))
    verified = Verified(model.predictor(), schedule)
    texts, trace = verified.run((600, 12), rng=1).tokens, verified.run((600, 12), rng=2)
    found = verified_evaluations(model.predictor(), schedule, texts, rng=0)
    spread = np.hypot(found.expected.standard_error, trace.evaluations.std() / np.sqrt(600))
    assert abs(found.expected.mean - trace.evaluations.mean()) < 5 * spread
    assert trace.verification.rejected.mean() > 0.2


def test_independent_tokens_are_never_taken_back():
    bits = Table(np.einsum("i,j,k->ijk", *[[0.4, 0.6]] * 3))
    found = verified_evaluations(
        ExactPredictor(bits), Schedule(size.Even(1), order.Random()), torch.zeros(1, 3).long(), rng=0
    )
    assert found.rejected.item() == pytest.approx(0, abs=1e-12)
    assert found.evaluations.item() == pytest.approx(2)


def test_a_parity_bit_is_taken_back_half_of_the_time():
    """All at once: all but the last are fair given those before, and the last is certain where its draft is fair."""
    predictor = ExactPredictor(Parity(5))
    schedule = Schedule(size.Even(1), order.LeftToRight())
    found = verified_evaluations(predictor, schedule, torch.zeros(1, 5).long(), rng=0)
    assert found.rejected.item() == pytest.approx(0.5)
    # Taken back is the last of all tokens, after which nothing is left to evaluate.
    assert found.evaluations.item() == pytest.approx(2)
    assert set(Verified(predictor, schedule).run((50, 5), rng=0).evaluations.tolist()) == {2}


def test_batched_prefixes_are_counted_as_the_sequences_they_are():
    counted = Counted(ExactPredictor(Markov.sticky(2, 0.9, 6)))
    trace = Verified(counted, Schedule(size.Even(2), order.LeftToRight())).run((4, 6), rng=3)
    assert counted.sequences == trace.verification.sequences.sum()
    assert counted.calls == trace.calls
    assert (trace.verification.sequences > trace.evaluations).all()


def test_texts_of_any_lengths_and_prompts_are_forecast_as_they_would_be_alone():
    predictor = ExactPredictor(random_table(4))
    texts = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 1, 1]])
    masked = torch.tensor([[True, True, True, True], [False, True, True, False], [False, False, False, True]])
    schedule = Schedule(size.Even(2), order.LeftToRight())
    whole = verified_evaluations(predictor, schedule, texts, rng=[1, 2, 3], masked=masked)
    for row in range(3):
        part = slice(row, row + 1)
        alone = verified_evaluations(predictor, schedule, texts[part], rng=[row + 1], masked=masked[part])
        assert alone.evaluations[0] == whole.evaluations[row]
        assert alone.rejected[0] == whole.rejected[row]


def test_many_prefixes_are_evaluated_a_few_at_a_time(monkeypatch):
    from unmask.predict import prefixes

    schedule = Schedule(size.Even(2), order.Random())
    whole = Verified(ExactPredictor(random_table(4)), schedule).run((9, 4), rng=3)
    monkeypatch.setattr(prefixes, "_COPIES", 4)
    parts = Verified(ExactPredictor(random_table(4)), schedule).run((9, 4), rng=3)
    assert torch.equal(whole.tokens, parts.tokens)
    torch.testing.assert_close(whole.log_probability, parts.log_probability)
