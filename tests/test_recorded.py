"""Small kernels and recorded steps of a network that remembers: the same numbers as without them."""

import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.models import _fused as fused  # noqa: E402
from unmask.models import _tables as tables  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def network():
    torch.manual_seed(0)
    shape = {"width": 64, "layers": 2, "readers": 2, "heads": 2, "hidden": 96, "reader_hidden": 96}
    return CausalConfig(vocab=11, length=96, **shape).network().eval()


def test_the_kernels_agree_with_torch_in_an_interpreter():
    """The GPU's kernels, run by Triton's interpreter on a CPU, for every way in which a network lays out its states."""
    pytest.importorskip("triton")
    script = """
import torch
from unmask.models import _fused as fused

def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

draw = lambda *shape: torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
for states, angles in [
    ((5, 2, 4, 6), (5, 1, 1, 3)),          # a flat list, queries and keys at once
    ((3, 7, 2, 4, 6), (3, 7, 1, 1, 3)),    # a batch, likewise
    ((2, 7, 4, 6), (2, 7, 1, 3)),          # a batch whose rows have places of their own
    ((3, 7, 4, 6), (7, 1, 3)),             # a batch whose rows have the same places
    ((1, 2, 4, 6), (1, 1, 1, 3)),
    ((2, 1500, 2, 1400), (1500, 1, 700)),  # more than one program for a row
]:
    x, cos, sin = draw(*states), draw(*angles), draw(*angles) + 1
    torch.testing.assert_close(fused.rotate(x, cos, sin), rotated(x, cos, sin))
joint, cos = draw(5, 3, 4, 6), draw(5, 1, 1, 3)
torch.testing.assert_close(fused.rotate(joint[:, :2], cos, cos), rotated(joint[:, :2], cos, cos))
for x in (draw(7, 2000), draw(2, 3, 8), draw(0, 4), draw(4, 6).bfloat16()):
    gate, up = x.float().chunk(2, dim=-1)
    torch.testing.assert_close(fused.gated(x), (torch.nn.functional.silu(gate) * up).to(x.dtype))
"""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, env=environment)


def test_a_cpu_has_no_kernels():
    assert not fused.usable(torch.zeros(2, 2))


@on_a_gpu
def test_kernels_are_not_used_where_something_is_learned():
    x = torch.zeros(2, 2, device="cuda")
    assert not fused.usable(x)
    with torch.no_grad():
        assert fused.usable(x)


def test_a_predictor_with_recordings_can_be_sent_away():
    predictor = pickle.loads(pickle.dumps(network().predictor()))
    trace = Sampler(predictor, Schedule(size.Even(4), order.Comb(shift=0))).run((2, 96), rng=[1, 2])
    assert trace.calls == 4


@on_a_gpu
@pytest.mark.parametrize("steps", [4, 7, 96])
@pytest.mark.parametrize("kind", [order.Comb(shift=0), order.Random(), order.Confidence()], ids=["comb", "random", "c"])
def test_recorded_steps_have_the_numbers_of_others(monkeypatch, kind, steps):
    """Also those of later batches, in the tables and with the recordings that an earlier one left."""
    model = network().cuda()
    runs = []
    for most in (0, 8):
        monkeypatch.setattr(tables, "_MOST", most)
        sampler = Sampler(model.predictor(), Schedule(size.Even(steps), kind))
        runs += [sampler.run((3, 96), rng=[1, 2, seed], device="cuda") for seed in (3, 4, 3)]
    for first, second in zip(runs[:3], runs[3:], strict=True):
        assert torch.equal(first.tokens, second.tokens)
        assert torch.equal(first.log_probability, second.log_probability)
    assert torch.equal(runs[0].tokens, runs[2].tokens)
    assert not torch.equal(runs[0].tokens, runs[1].tokens)


@on_a_gpu
def test_two_batches_at_once_do_not_share_tables():
    sampler = Sampler(network().cuda().predictor(), Schedule(size.Even(8), order.Comb(shift=0)))
    alone = [sampler.run((2, 96), rng=[1, seed], device="cuda") for seed in (2, 3)]
    states = [sampler.init((2, 96), rng=[1, seed], device="cuda") for seed in (2, 3)]
    for _ in range(8):
        states = [sampler.step(state)[0] for state in states]
    for state, expected in zip(states, alone, strict=True):
        assert torch.equal(state.trace().tokens, expected.tokens)


@on_a_gpu
def test_recordings_do_not_outlive_the_weights_they_read():
    model = network().cuda()
    sampler = Sampler(model.predictor(), Schedule(size.Even(8), order.Comb(shift=0)))
    for _ in range(2):
        before = sampler.run((2, 96), rng=[1, 2], device="cuda")
    model.cpu()
    model.cuda()
    with torch.no_grad():
        model.head.weight.neg_()
    assert not torch.equal(sampler.run((2, 96), rng=[1, 2], device="cuda").tokens, before.tokens)
