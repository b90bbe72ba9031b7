"""Unmasking schedules for masked diffusion language models: design, verify, run.

A **predictor** gives, for every masked position, its distribution given the revealed tokens. An **order** ranks the
masked positions (which); a **size** decides how many of them to reveal. The pair is the **schedule**, and a **sampler**
repeats predict, rank, cut, draw. With random positions,

    E KL = Σ_i d_i r_i

is the exact error: the drops `d` are all that matters of the data, the overhang `r` all that matters of the sizes.

    >>> import unmask
    >>> chain = unmask.distribution.Markov.sticky(vocab=27, stay=0.4, length=128)
    >>> round(unmask.expected_kl(unmask.size.Even(16), chain), 2)
    4.21

Parts and names load when they are first used: nothing here imports torch before a model is to run.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

# lazy_loader has no types; those of the names are in the stub beside this file.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
