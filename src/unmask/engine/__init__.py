"""Where work is done: in this process, or by the workers of a Ray cluster, with the same result to the last bit.

Work is cut into **shards** that do not depend on who does it: `parts(count, SHARD)` texts at a time, each text with a
seed of its own. A shard's result depends on the shard alone, results come back in the order of the shards, and whoever
adds them up does so in that order. So neither the number of workers, nor the order in which they finish, nor a worker
that is killed half-way can change a number.

A `Job` is the whole of it: texts cut into shards, one work, and any number of tasks.

    Local     one shard after the other, here; the default everywhere
    Ray       many at once, on all cores, GPUs and machines of a cluster (`pip install "unmask[ray]"`)

Sums on a CPU can depend, in their last bits, on the shape of a batch and on the number of threads: the shards are
therefore the same for both engines, and workers use as many threads as this process does.
"""

from unmask.engine.base import LOCAL, SHARD, Engine, Job, Local, Progress, Report, Work, parts, unseen
from unmask.engine.ray import Ray

__all__ = ["LOCAL", "SHARD", "Engine", "Job", "Local", "Progress", "Ray", "Report", "Work", "parts", "unseen"]
