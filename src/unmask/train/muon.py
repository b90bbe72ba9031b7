"""Muon: an optimiser for the matrices of a network whose every update is close to orthogonal.

The update is that of `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, which is the reference in our tests. Two
things keep this one. Torch's takes its matrices one at a time: on an H200 an update of a model of 6 million weights at
batch 64 takes 44 ms with it and 35 ms with this one, where matrices of one shape go through the iteration together. And
torch's reads its rate on the host, so that an update cannot be recorded (`unmask.train.update`); made to, by a step at
the peak rate of which a share is taken, it takes 6.8 ms when recorded and this one 4.7 ms.
"""

from typing import Any, cast, final

from unmask._torch import Tensor, torch

_QUINTIC = (3.4445, -4.7750, 2.0315)  # slope at zero as large as keeps singular values within 0.7 … 1.2
_ROUNDS = 5


@final
class Muon(torch.optim.Optimizer):
    """Momentum whose direction is orthogonalised, for parameters that are matrices.

    Arguments:
        params: Matrices, or groups of them.
        lr: Learning rate; the updates have the size of AdamW's at the same rate.
        momentum: Decay of the momentum (Nesterov's).
        weight_decay: Decay of the weights, times the learning rate.
    """

    def __init__(self, params: Any, lr: float, momentum: float = 0.95, weight_decay: float = 0.1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momentum = torch.stack([self.state[parameter]["momentum"] for parameter in parameters])
        gradient = torch.stack([parameter.grad for parameter in parameters])  # pyright: ignore[reportArgumentType]
        momentum.lerp_(gradient, 1 - group["momentum"])
        direction = _orthogonal(gradient.lerp_(momentum, group["momentum"]))
        # An orthogonal matrix has entries of size 1/√max(rows, columns); AdamW's updates have about 0.2.
        rate = 0.2 * group["lr"] * max(direction.shape[1:]) ** 0.5
        for parameter, mine, update in zip(parameters, momentum, direction, strict=True):
            self.state[parameter]["momentum"].copy_(mine)
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(rate * update)


def _orthogonal(matrices: Tensor) -> Tensor:
    """The nearest orthogonal matrices, about, by a few rounds of an odd polynomial in half precision on a GPU."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    size = cast(Tensor, x.norm(dim=(1, 2), keepdim=True))
    x = (x / size.clamp(min=1e-7)).to(torch.bfloat16 if x.is_cuda else x.dtype)
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
