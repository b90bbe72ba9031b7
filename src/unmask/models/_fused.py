"""Small parts of a layer as one kernel each on a GPU.

Written with torch's own operations, turning states by their positions takes seven short kernels and a gate two. In a
step with few tokens the launches of these are a third of all the time. Here one Triton program does each, in float32
inside. Only where nothing is learned: there are no gradients, and compiled training fuses them anyway.
"""

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from unmask._torch import Tensor, torch

_BLOCK = 1024


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """States turned by the angles of their positions, as `unmask.models._attention.rotate`.

    Arguments:
        x: States, shape `(…, positions …, heads …, width)`.
        cos, sin: Shape `(positions …, 1 …, width / 2)`, the same for all that comes before.
    """
    half = cos.shape[-1]
    groups = x.ndim - cos.ndim + _positions(cos)  # where the axes of heads begin
    inner = prod(x.shape[groups:])
    flat = x.reshape(-1, inner)
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (flat.shape[0], -(-inner // (2 * _BLOCK)))
    if prod(grid):
        with _device(x):
            _rotation()[grid](
                flat, cos.contiguous(), sin.contiguous(), result, flat.stride(0), inner // 2,
                cos.numel() // half, half, _BLOCK,
            )  # fmt: skip
    return result


def gated(x: Tensor) -> Tensor:
    """`silu(first half) · second half` along the last axis."""
    x = x.contiguous()
    hidden = x.shape[-1] // 2
    result = torch.empty((*x.shape[:-1], hidden), dtype=x.dtype, device=x.device)
    if result.numel():
        with _device(x):
            _gate()[(-(-result.numel() // _BLOCK),)](x, result, hidden, result.numel(), _BLOCK)
    return result


def usable(x: Tensor) -> bool:
    """Whether these can stand in for torch's operations: on a GPU with Triton, without gradients."""
    return not torch.is_grad_enabled() and x.is_cuda and x.dtype != torch.float64 and _runs()


def _positions(cos: Tensor) -> int:
    """The axes of positions: all but the last and the axes of length one before it."""
    axes = cos.ndim - 1
    while axes and cos.shape[axes - 1] == 1:
        axes -= 1
    return axes


def _device(x: Tensor) -> Any:
    # Triton launches on the current one; an interpreter has none.
    return torch.cuda.device(x.device if x.is_cuda else -1)


@lru_cache(maxsize=1)
def _runs() -> bool:
    # Triton compiles at the first launch, with a C compiler that a machine may lack: find out once.
    try:
        return bool(gated(torch.ones((1, 2), device="cuda")).isfinite().all())
    except Exception:
        return False


if TYPE_CHECKING:

    def _rotation() -> Any: ...
    def _gate() -> Any: ...

else:
    # Triton reads the functions below as text of a language of its own; taken for Python, its types make no sense.

    @lru_cache(maxsize=1)
    def _rotation():
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, cos, sin, result, stride, pairs, positions, half: tl.constexpr, block: tl.constexpr):
            row = tl.program_id(0).to(tl.int64)
            number = tl.program_id(1) * block + tl.arange(0, block)
            inside = number < pairs
            column = number % half
            place = number // half * (2 * half) + column
            angle = row % positions * half + column
            first = tl.load(x + row * stride + place, mask=inside).to(tl.float32)
            second = tl.load(x + row * stride + place + half, mask=inside).to(tl.float32)
            c = tl.load(cos + angle, mask=inside).to(tl.float32)
            s = tl.load(sin + angle, mask=inside).to(tl.float32)
            start = result + row * (2 * pairs) + place
            tl.store(start, (first * c - second * s).to(result.dtype.element_ty), mask=inside)
            tl.store(start + half, (second * c + first * s).to(result.dtype.element_ty), mask=inside)

        return kernel

    @lru_cache(maxsize=1)
    def _gate():
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, result, hidden, total, block: tl.constexpr):
            number = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
            inside = number < total
            start = x + number // hidden * (2 * hidden) + number % hidden
            gate = tl.load(start, mask=inside).to(tl.float32)
            up = tl.load(start + hidden, mask=inside).to(tl.float32)
            tl.store(result + number, (gate / (1.0 + tl.exp(-gate)) * up).to(result.dtype.element_ty), mask=inside)

        return kernel
