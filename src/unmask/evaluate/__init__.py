"""What a schedule costs: exactly on a known curve, and by replay on texts.

`unmask.evaluate.exact` needs numpy only; `replay` and `replayed_kl` need torch and are loaded when first used.
"""

from typing import TYPE_CHECKING, Any

from unmask.evaluate.exact import (
    Estimate,
    expected_kl,
    expected_nll,
    fewest_steps,
    fewest_steps_guaranteed,
    likelihoods,
    sampled_kl,
    tradeoff,
)

if TYPE_CHECKING:
    from unmask.evaluate.texts import Replayed, replay, replayed_kl

__all__ = [
    "Estimate",
    "Replayed",
    "expected_kl",
    "expected_nll",
    "fewest_steps",
    "fewest_steps_guaranteed",
    "likelihoods",
    "replay",
    "replayed_kl",
    "sampled_kl",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name in ("Replayed", "replay", "replayed_kl"):
        from unmask.evaluate import texts

        return getattr(texts, name)
    raise AttributeError(f"module 'unmask.evaluate' has no attribute '{name}'")
