"""Training a mask predictor on the paper's objective.

    loop      a whole run: batches, rates, checkpoints, the log
    update    one update, and the same recorded once and replayed
    home      the folder of a run: checkpoint, log, lock
    memory    what a run needs of it, at the least
    masks     what an update learns from: masked sets, uniform or those that a schedule visits, or every step of it

A run can be stopped at any time and goes on where it was.
"""

from unmask.train.home import Progress
from unmask.train.loop import Recipe, rate_share, train
from unmask.train.masks import EveryStep, Lessons, Masks, MixedMasks, ScheduleMasks, Steps, UniformMasks

__all__ = [
    "EveryStep",
    "Lessons",
    "Masks",
    "MixedMasks",
    "Progress",
    "Recipe",
    "ScheduleMasks",
    "Steps",
    "UniformMasks",
    "rate_share",
    "train",
]
