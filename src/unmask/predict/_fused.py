"""What a sampler reads of a row of logits, in one pass over it on a GPU.

Written with torch's own operations, the largest probability, the margin and the entropy of a row take several passes
over the vocabulary, each through the memory of the GPU: more than the matrix product that made the logits. Here one
Triton program reads a row once, in the model's dtype, and keeps running values in float32.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unmask._torch import Tensor, torch

_BLOCK = 4096  # logits of a row that one program reads at a time


def statistics(logits: Tensor) -> Tensor:
    """Confidence, margin and entropy of each row, shape `(3, rows)`, in float32."""
    logits = logits.contiguous()
    result = torch.empty((3, logits.shape[0]), dtype=torch.float32, device=logits.device)
    if logits.shape[0]:
        # Triton launches on the current device; its interpreter, on a CPU, has none.
        with torch.cuda.device(logits.device if logits.is_cuda else -1):
            _kernel()[(logits.shape[0],)](logits, result, logits.shape[0], logits.shape[1], _BLOCK, num_warps=8)
    return result


def usable(logits: Tensor) -> bool:
    """Whether `statistics` can run on these logits: on a GPU with Triton, in float32 or less."""
    return logits.is_cuda and logits.dtype != torch.float64 and _runs()


@lru_cache(maxsize=1)
def _runs() -> bool:
    # Triton compiles at the first launch, with a C compiler that a machine may lack: find out once.
    try:
        return bool(statistics(torch.zeros((1, 2), device="cuda")).isfinite().all())
    except Exception:
        return False


if TYPE_CHECKING:

    def _kernel() -> Any: ...

else:
    # Triton reads the function below as text of a language of its own; taken for Python, its types make no sense.

    @lru_cache(maxsize=1)
    def _kernel():
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(logits, result, rows, vocab, block: tl.constexpr):
            row = tl.program_id(0)
            start = logits + row.to(tl.int64) * vocab
            columns = tl.arange(0, block)
            # Largest and second largest logit so far, Σ e^d and Σ d·e^d with d the distance below the largest.
            best, second, total, weighted = float("-inf"), float("-inf"), 0.0, 0.0
            for begin in range(0, vocab, block):
                x = tl.load(start + begin + columns, mask=begin + columns < vocab, other=float("-inf")).to(tl.float32)
                top = tl.max(x, axis=0)
                where = tl.argmax(x, axis=0)
                runner = tl.max(tl.where(columns == where, float("-inf"), x), axis=0)
                second = tl.maximum(tl.maximum(second, runner), tl.minimum(best, top))
                largest = tl.maximum(best, top)
                # Where nothing finite was seen yet the differences would be ∞ − ∞.
                shift = tl.where(best == float("-inf"), 0.0, best - largest)
                distance = tl.where(x == float("-inf"), 0.0, x - largest)
                weight = tl.where(x == float("-inf"), 0.0, tl.exp(distance))
                scale = tl.exp(shift)
                weighted = scale * (weighted + shift * total) + tl.sum(distance * weight, axis=0)
                total = scale * total + tl.sum(weight, axis=0)
                best = largest
            # Where no token is possible: not a number, as softmax says.
            total = tl.where(best == float("-inf"), float("nan"), total)
            tl.store(result + row, 1.0 / total)
            tl.store(result + rows + row, (1.0 - tl.exp(second - best)) / total)
            tl.store(result + 2 * rows + row, tl.log(total) - weighted / total)

        return kernel
