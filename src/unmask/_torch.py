"""torch, or one sentence that says how to get it. The modules above level 2 take it from here."""

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError:
    raise ModuleNotFoundError('This needs torch, which is not installed. Run: pip install "unmask[torch]"') from None

__all__ = ["Tensor", "torch"]
