"""What an engine is, and the one that runs in this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, final

from unmask import _check as check

SHARD = 32  # texts of a shard: as many as a device needs to be busy, few enough for many workers

S = TypeVar("S")
R = TypeVar("R")
Report = Callable[[int], object]
Work = Callable[[S, Report], R]
Progress = Callable[[int, int], object]
Run = Callable[[Sequence[S], Progress], list[R]]


# Modules of Python that no worker could import, since they were read from files that the user named.
BROUGHT: set[str] = set()


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


class Sliced(Protocol):
    """Something with one entry for each text: a tensor, or a tuple."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice, /) -> Any: ...


@final
class Job(Generic[R]):
    """The same work on the same texts, for one task after another: cut into shards, handed out, gathered.

    A shard is `(*task, *part)`: what is asked, then a few texts with all that belongs to them. A job is called with
    tasks and gives, for each of them, the results of its shards in the order of the texts.

    Arguments:
        engine: Who does it.
        work: What to do with a shard. It is handed out once, whatever number of tasks there will be.
        columns: What there is of the texts, each cut alike.
        cuts: The texts of each shard, as `parts` gives them.

    Example:
        >>> job = Job(LOCAL, lambda shard, report: shard[0] * sum(shard[1]), [(1, 2, 3)], parts(3, 2))
        >>> job([(1,), (10,)])
        [[3, 3], [30, 30]]
    """

    def __init__(self, engine: Engine, work: Work[Any, R], columns: Sequence[Sliced], cuts: Sequence[slice]) -> None:
        check.instance("engine", engine, Engine, "be an Engine")
        self._parts = [tuple(_copied(column[part]) for column in columns) for part in cuts]
        self._run: Run[Any, R] = engine.prepare(work)

    def __call__(self, tasks: Sequence[tuple[Any, ...]], progress: Progress = unseen) -> list[list[R]]:
        """The results of all shards, for each task.

        Arguments:
            tasks: What is asked, one tuple each.
            progress: Called with the number of a task and the amount done of it since the last call.
        """
        size = len(self._parts)
        shards = [(*task, *part) for task in tasks for part in self._parts]
        found = self._run(shards, lambda shard, done: progress(shard // size, done))
        return [found[number * size : (number + 1) * size] for number in range(len(tasks))]


def _copied(part: Any) -> Any:
    # A slice of a tensor would travel with the whole it was cut from.
    return part.clone() if hasattr(part, "clone") else part
