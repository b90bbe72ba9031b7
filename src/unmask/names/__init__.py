"""The names of things: the one table that files, the command line, the page, figures, completion and the docs read.

Inside the library, code chooses an object by making it, never by a name. Names are for people and for files. Each name
is listed here once, with what it makes, what that needs, how it is drawn, and one sentence of explanation:

    SIZES            how many tokens each step reveals
    ORDERS           which ones
    REVISIONS        which of them are taken back
    GAUGES           what a guarantee is measured against
    DISTRIBUTIONS    data whose distribution is known
    RULES            samplers that were published under a name: an order and a size
    MODELS           models that ship with the library

To add a size: its class in `unmask.size`, a line here, and a page that says what it is for.
"""

from unmask.names.distributions import DISTRIBUTIONS, GAUGES, NamedDistribution, NamedGauge
from unmask.names.orders import ORDERS, NamedOrder
from unmask.names.revisions import REVISIONS, NamedRevision
from unmask.names.rules import MODELS, RULES, NamedModel, Rule
from unmask.names.sizes import SIZES, Look, NamedSize, Need, sizes_that_need

__all__ = [
    "DISTRIBUTIONS",
    "GAUGES",
    "MODELS",
    "ORDERS",
    "REVISIONS",
    "RULES",
    "SIZES",
    "Look",
    "NamedDistribution",
    "NamedGauge",
    "NamedModel",
    "NamedOrder",
    "NamedRevision",
    "NamedSize",
    "Need",
    "Rule",
    "sizes_that_need",
]
