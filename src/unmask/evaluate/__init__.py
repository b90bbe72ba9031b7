"""What a schedule costs: exactly on a known curve, and by replay on texts.

`unmask.evaluate.exact` needs numpy only; `replay`, `replays` and `replayed_kl` need torch and are loaded on first use.
"""

from typing import TYPE_CHECKING, Any

from unmask.evaluate.exact import (
    Estimate,
    conditional_kl,
    expected_kl,
    expected_nll,
    fewest_steps,
    fewest_steps_guaranteed,
    sampled_kl,
    tradeoff,
)

if TYPE_CHECKING:
    from unmask.evaluate.texts import Replayed as Replayed
    from unmask.evaluate.texts import replay as replay
    from unmask.evaluate.texts import replayed_kl as replayed_kl
    from unmask.evaluate.texts import replays as replays

__all__ = [
    "Estimate",
    "conditional_kl",
    "expected_kl",
    "expected_nll",
    "fewest_steps",
    "fewest_steps_guaranteed",
    "sampled_kl",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name in ("Replayed", "replay", "replayed_kl", "replays"):
        from unmask.evaluate import texts

        return getattr(texts, name)
    raise AttributeError(f"module 'unmask.evaluate' has no attribute '{name}'")
