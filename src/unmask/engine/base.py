"""What an engine is, and the one that works here."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, final

import unmask._check as check

SHARD = 32  # texts of a shard: as many as a device needs to be busy, few enough for many workers

S = TypeVar("S")
R = TypeVar("R")
Report = Callable[[int], object]
Work = Callable[[S, Report], R]
Progress = Callable[[int, int], object]
Run = Callable[[Sequence[S], Progress], list[R]]


def unseen(shard: int, done: int) -> None:
    """The progress that nobody watches."""


class Engine(ABC):
    """Does the same work on many shards.

    Work is called as `work(shard, report)`. It holds what all shards share, such as a model, and may tell
    `report(amount)` how far it is. Its result may depend on nothing but the work and the shard.

    An engine is used as `with engine: …`, which gives back what it holds.
    """

    @abstractmethod
    def prepare(self, work: Work[S, R]) -> Run[S, R]:
        """Hand out the work, once; the answer maps it over shards, as often as wanted.

        What was handed out stays as it was: a model that is trained on needs to be handed out again.
        """

    def map(self, work: Work[S, R], shards: Sequence[S], progress: Progress = unseen) -> list[R]:
        """The results of all shards, in their order.

        Arguments:
            work: What to do with each.
            shards: The shards.
            progress: Called with the number of a shard and the amount done of it since the last call. The amounts of
                a shard add up to the same whoever does it, and however often it is tried.

        Raises:
            Exception: that of the first shard seen to fail; the rest is then given up.
        """
        return self.prepare(work)(shards, progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        return None


@final
class Local(Engine):
    """One shard after the other, in this process.

    Example:
        >>> Local().map(lambda shard, report: sum(shard), [[1, 2], [3]])
        [3, 3]
    """

    def prepare(self, work: Work[S, R]) -> Run[S, R]:
        def run(shards: Sequence[S], progress: Progress) -> list[R]:
            return [work(shard, partial(progress, index)) for index, shard in enumerate(shards)]

        return run


LOCAL = Local()


def parts(count: int, size: int = SHARD) -> list[slice]:
    """Consecutive slices of `size` of `count` things, the last one maybe shorter.

    Example:
        >>> parts(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = check.integer("batch", size, least=1)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
