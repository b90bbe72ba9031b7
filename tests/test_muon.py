"""Muon on stacked matrices is torch's Muon on single ones."""

import pytest

torch = pytest.importorskip("torch")

from unmask.train.muon import Muon  # noqa: E402


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="needs torch 2.9")
def test_the_updates_are_those_of_torch():
    """Torch iterates in bfloat16, whose rounding is 0.4 %; ours is in float32 on a CPU."""
    shapes = [(12, 8), (8, 12), (12, 8), (6, 6), (8, 12)]
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=random) for shape in shapes]
    mine, theirs = ([torch.nn.Parameter(value.clone()) for value in start] for _ in range(2))
    ours = Muon(mine, lr=0.02, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        for one, other in zip(mine, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=random)
            other.grad = one.grad.clone()
        ours.step()
        reference.step()
        for one, other, begin in zip(mine, theirs, start, strict=True):
            moved = (other.detach() - begin).abs().max()
            assert (one.detach() - other.detach()).abs().max() < 0.03 * moved


def test_a_matrix_without_gradient_stays():
    still, moving = (torch.nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    moving.grad = torch.eye(3, 2)
    Muon([still, moving], lr=0.1).step()
    assert torch.equal(still, torch.ones(3, 2))
    assert not torch.equal(moving, torch.ones(3, 2))


def test_updates_are_close_to_orthogonal():
    matrix = torch.nn.Parameter(torch.zeros(20, 9))
    matrix.grad = torch.randn((20, 9), generator=torch.Generator().manual_seed(1)) ** 3
    Muon([matrix], lr=1.0, weight_decay=0.0).step()
    values = torch.linalg.svdvals(matrix.detach()) / (0.2 * 20**0.5)
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3
