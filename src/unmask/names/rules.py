"""The names of published samplers, and of the models that ship with the library."""

from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import final


@final
@dataclass(frozen=True)
class Rule:
    """A sampler that was published under a name, as the words for its order and its size.

    Attributes:
        order: The word for its order.
        size: The word for its size.
        sentence: What it is, and by whom.
    """

    order: str
    size: str
    sentence: str


# Each is compared with an independent rewrite of its published loop in tests/test_equivalence.py.
RULES: dict[str, Rule] = {
    "llada-random": Rule("random", "even", "LLaDA's random remasking."),
    "llada": Rule("confidence", "even", "LLaDA's low-confidence remasking, at temperature 0."),
    "maskgit": Rule("confidence", "cosine", "MaskGIT, at temperature 0."),
    "mdlm": Rule("random", "log-linear", "Ancestral sampling of MDLM and SEDD."),
    "dream-margin": Rule("margin", "even", "Dream's topk_margin rule, with even sizes."),
    "dream-entropy": Rule("entropy", "even", "Dream's entropy rule, with even sizes."),
    "fast-dllm": Rule("confidence", "threshold:0.9", "Fast-dLLM's confidence threshold."),
    "fast-dllm-factor": Rule("confidence", "factor:1", "Fast-dLLM's factor rule."),
    "klass": Rule("confidence", "stable:0.9", "KLASS: predictions must be confident, and stable for two steps."),
    "eb-sampler": Rule("entropy", "entropy-bound:0.5", "Entropy-bounded unmasking (EB-Sampler)."),
}


@final
@dataclass(frozen=True)
class NamedModel:
    """A model that ships with the library.

    Attributes:
        folder: Where its files are, within `unmask.models`.
        sentence: What it is.
    """

    folder: tuple[str, ...]
    sentence: str

    def file(self, name: str) -> Traversable:
        """One of its files, if it is there."""
        return resources.files("unmask").joinpath("models", *self.folder, name)


MODELS: dict[str, NamedModel] = {
    "builtin": NamedModel(("builtin",), "Looks both ways. It works with any schedule, and runs again at every step."),
    "causal": NamedModel(
        ("builtin", "causal"),
        "Causal in the schedule. It is made for whole combs, and computes each token once.",
    ),
}
