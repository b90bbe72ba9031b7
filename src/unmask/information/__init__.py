"""What describes data: their loss curve, and the measures of dependence that are sums of its drops.

    curve       the loss curve: all that a schedule with random positions can see of a distribution
    measures    entropy, TC, DTC, mutual information and KL of a distribution given as a table
    files       loss curves and gauges kept in files

Everything is in nats.
"""

import lazy_loader

# lazy_loader has no types; those of the names are in the stub beside this file.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
