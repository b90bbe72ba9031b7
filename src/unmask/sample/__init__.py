"""The sampler: predict, rank, cut, draw.

    sampler    the loop
    state      what it has at hand between two steps, and what one step did
    agenda     what can be known of a batch beforehand: its sets and sizes
    plan       which positions come at which step, for a batch
    reaction   the same where it depends on predictions
    ranking    candidates of a step where that depends on predictions
    start      what a batch starts from
    seeds      where its randomness comes from
    draw       how a token is drawn from its prediction
    trace      the record of a run
    verified   lossless steps: drafts that are verified one by one

Positions first, tokens second: no rule looks at a token before it decides to keep it.
"""

from unmask.sample.draw import Categorical, Draw, Greedy, Replay, TopK, TopP, draw_for
from unmask.sample.sampler import Sampler
from unmask.sample.seeds import Seeds, seeds_of
from unmask.sample.start import booleans
from unmask.sample.state import State, Step, Stop
from unmask.sample.trace import GIVEN, OPEN, PADDED, Counts, Trace, Verification
from unmask.sample.verified import Verified

__all__ = [
    "GIVEN",
    "OPEN",
    "PADDED",
    "Categorical",
    "Counts",
    "Draw",
    "Greedy",
    "Replay",
    "Sampler",
    "Seeds",
    "State",
    "Step",
    "Stop",
    "TopK",
    "TopP",
    "Trace",
    "Verification",
    "Verified",
    "booleans",
    "draw_for",
    "seeds_of",
]
