"""What a schedule costs: exactly on a known curve, by enumeration, and by replay on texts.

    exact          the expected KL of sizes on a loss curve, and the fewest steps for a target
    enumeration    the law of what a sampler writes, and the training objective, for what is small enough
    sets           the best order there is, where every set of revealed positions can be known
    likelihood     the exact likelihood of texts under any schedule, by replay; needs torch
    gradients      the same with gradients, for fine-tuning, distillation and policy gradients; needs torch
    comparison     several schedules on the same texts, with the errors of their differences; needs torch
    given          texts and randomness, checked; needs torch
    levels         the one-by-one likelihood of texts in random order, from few evaluations; needs torch

Names load when they are first used, so that the exact part needs no torch.
"""

import lazy_loader

# lazy_loader has no types; those of the names are in the stub beside this file.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
