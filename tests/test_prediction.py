"""What is read of a model's logits: statistics in float32 or better, in chunks, in one pass on a GPU."""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.predict import _fused as fused  # noqa: E402
from unmask.predict import base as prediction  # noqa: E402
from unmask.predict.base import Prediction  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def prediction_of(logits):
    return Prediction((logits,), lambda rows: rows, logits.shape[-1])


def statistics_of(logits):
    """Confidence, margin and entropy in float64, row by row."""
    p = torch.softmax(logits.double(), dim=-1).numpy()
    top = np.sort(p, axis=-1)
    second = top[:, -2] if p.shape[1] > 1 else 0.0
    entropy = [-sum(v * np.log(v) for v in row if v > 0) for row in p]
    return top[:, -1], top[:, -1] - second, np.array(entropy)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab", [1, 2, 5, 600, 1300, 9000])
@pytest.mark.parametrize("device", DEVICES)
def test_statistics_equal_their_float64_references(dtype, vocab, device):
    logits = (torch.randn((9, vocab), generator=generator(1)) * 4).to(dtype)
    mine = prediction_of(logits.to(device))
    for values, reference in zip((mine.confidence, mine.margin, mine.entropy), statistics_of(logits), strict=True):
        assert values.dtype in (torch.float32, torch.float64)
        np.testing.assert_allclose(values.double().cpu(), reference, rtol=3e-6, atol=3e-6)


def test_confidences_near_one_do_not_tie():
    """Bfloat16 logits; probabilities between 0.998 and 1 that bfloat16 would all call 1."""
    logits = torch.zeros((6, 3), dtype=torch.bfloat16)
    logits[:, 0] = torch.tensor([7.0, 8.0, 9.0, 10.0, 11.0, 12.0])
    half = torch.softmax(logits, dim=-1)[:, 0]
    assert half.unique().numel() < 6
    for values in (prediction_of(logits).confidence, prediction_of(logits).margin, -prediction_of(logits).entropy):
        assert bool((values.diff() > 0).all())
    assert float(prediction_of(logits).confidence.min()) > 0.998
    # Large common offsets must not cost digits either.
    shifted = prediction_of(logits.float() + 64)
    assert bool((shifted.confidence.diff() > 0).all())


@pytest.mark.parametrize("device", DEVICES)
def test_impossible_tokens_and_rows_are_handled(device):
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf, 3.0, -torch.inf]], device=device)
    mine = prediction_of(logits)
    np.testing.assert_allclose(mine.confidence.cpu(), [0.5, 1.0])
    np.testing.assert_allclose(mine.margin.cpu(), [0.0, 1.0])
    np.testing.assert_allclose(mine.entropy.cpu(), [np.log(2), 0.0], atol=1e-7)
    assert bool(torch.isnan(prediction_of(torch.full((1, 3), -torch.inf, device=device)).confidence).all())


def test_the_kernel_agrees_with_softmax_in_an_interpreter():
    """The GPU's kernel, run by Triton's interpreter on a CPU, with impossible tokens over whole blocks and a tie."""
    pytest.importorskip("triton")
    script = """
import torch
from unmask.predict import _fused as fused
for vocab in (1, 2, 27, 5000, 9000):
    logits = torch.randn((6, vocab), generator=torch.Generator().manual_seed(vocab)) * 5
    if vocab > 5000:
        logits[1, :5000], logits[2, :] = -torch.inf, -torch.inf
        logits[2, 7777], logits[3, 10] = 1.0, logits[3].max()
    p = torch.softmax(logits.double(), dim=-1)
    top = torch.cat([p, torch.zeros(6, 1)], dim=-1).topk(2, dim=-1).values
    exact = torch.stack([top[:, 0], top[:, 0] - top[:, 1], torch.special.entr(p).sum(dim=-1)])
    torch.testing.assert_close(fused.statistics(logits).double(), exact, rtol=1e-5, atol=3e-6)
assert fused.statistics(torch.full((1, 3), -torch.inf)).isnan().all()
"""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, env=environment)


def test_a_cpu_has_no_kernel():
    assert not fused.usable(torch.zeros(2, 3))


@pytest.mark.parametrize("elements", [1, 7, 40, 1000])
def test_chunks_do_not_change_results(monkeypatch, elements):
    logits = torch.randn((11, 10), generator=generator(2))
    whole = prediction_of(logits)
    expected = whole.confidence, whole.margin, whole.entropy
    monkeypatch.setattr(prediction, "_ELEMENTS", elements)
    parts = prediction_of(logits)
    assert parts.chunks()[0] == (0, min(11, max(1, elements // 10)))
    assert [stop for _, stop in parts.chunks()][-1] == 11
    for mine, reference in zip((parts.confidence, parts.margin, parts.entropy), expected, strict=True):
        assert torch.equal(mine, reference)
    model = Logits(table_model(), 6, 6)
    schedule = Schedule(size.Even(2), order.Entropy())
    chunked = Sampler(model, schedule).run((4, 5), rng=[1, 2, 3, 4])
    monkeypatch.undo()
    plain = Sampler(model, schedule).run((4, 5), rng=[1, 2, 3, 4])
    assert torch.equal(chunked.tokens, plain.tokens)
    assert torch.equal(chunked.log_probability, plain.log_probability)


def test_a_lone_row_has_the_statistics_of_a_row_among_others():
    """Bit by bit, also where torch would split the sum of a single long row over its threads."""
    logits = torch.randn((5, 40_000), generator=generator(9)) * 3
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        whole = prediction_of(logits)
        for row in range(5):
            alone = prediction_of(logits[row : row + 1])
            assert torch.equal(alone.confidence, whole.confidence[row : row + 1])
            assert torch.equal(alone.margin, whole.margin[row : row + 1])
            assert torch.equal(alone.entropy, whole.entropy[row : row + 1])
            assert torch.equal(alone.log_probabilities(), whole.log_probabilities()[row : row + 1])
    finally:
        torch.set_num_threads(threads)


def test_statistics_leave_the_models_logits_alone():
    logits = torch.randn((4, 9), generator=generator(3))
    before = logits.clone()
    prediction = prediction_of(logits)
    _ = prediction.confidence, prediction.margin, prediction.entropy
    assert torch.equal(logits, before)


@pytest.mark.parametrize("elements", [1, 40, 1000])
def test_losses_are_those_of_the_tokens_given(monkeypatch, elements):
    monkeypatch.setattr(prediction, "_ELEMENTS", elements)
    logits = torch.randn((11, 10), generator=generator(4))
    tokens = torch.randint(10, (11,), generator=generator(5))
    expected = torch.nn.functional.cross_entropy(logits.double(), tokens, reduction="none")
    losses = prediction_of(logits).losses(tokens)
    assert losses.dtype == torch.float64
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    assert prediction_of(logits[:0]).losses(tokens[:0]).shape == (0,)


def test_take_and_slices_select_rows():
    logits = torch.randn((8, 4), generator=generator(4))
    prediction = prediction_of(logits)
    index = torch.tensor([5, 0, 5])
    assert torch.equal(prediction.take(index).logits(), logits[index])
    assert len(prediction.take(index)) == 3
    assert torch.equal(prediction.logits(2, 4), logits[2:4])
    np.testing.assert_allclose(prediction.log_probabilities(1, 3).exp().sum(dim=-1), 1, rtol=1e-6)
    empty = prediction.take(torch.zeros(0, dtype=torch.int64))
    assert empty.confidence.shape == empty.margin.shape == empty.entropy.shape == (0,)
