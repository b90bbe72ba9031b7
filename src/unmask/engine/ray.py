"""Many workers through Ray.

A shard is a Ray *task*. Tasks, not actors: a task whose worker dies is given to another one by Ray itself, and its
result exists once or not at all, so that nothing is lost or counted twice. And not Ray Data: its blocks are cut and
joined as suits the cluster, and the shape of a batch must not depend on it.

The work, with its model, is written into the cluster's object store once. A worker reads it when it meets its first
shard and keeps it. No machine needs the model's file, but all need the same unmask, torch and numpy.
"""

import importlib.util
import logging
import os
import pickle
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, final

from unmask import _check as check
from unmask._packages import Package
from unmask.engine.base import BROUGHT, Engine, Progress, R, Run, S, Work

# What decides how numerical libraries add up. Ray would choose for its workers; they are told what holds here.
_SETTINGS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR", "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)  # fmt: skip

_RAY = Package("Ray", "ray", 'Run: pip install "unmask[ray]"', "2.31 to 2.60")
# The last work this worker was given, by its place in the object store.
_held: dict[str, Work[Any, Any]] = {}


@final
@dataclass(eq=False)
class Ray(Engine):
    """Does shards at once on the workers of a Ray cluster: one started for the occasion, or an existing one.

    Results are those of `Local`, to the last bit where the machines are alike. A worker uses as many threads as torch
    does here (`OMP_NUM_THREADS` sets them for both); for many workers on one machine, take few threads.

    Arguments:
        workers: Shards under way at once; as many as there is room for by default.
        address: An existing cluster, such as "auto" or "host:6379"; by default one is started on this machine,
            unless this process is part of one already.
        gpu: Give every worker a GPU of its own. The work must then be on the GPU "cuda" of this process.
        retries: How often a shard is tried again when its worker dies.

    Raises:
        ModuleNotFoundError: if Ray is not installed.

    Example:
        with Ray(workers=2) as engine:
            replay(predictor, schedule, tokens, rng=rng, engine=engine)
    """

    workers: int | None = None
    address: str | None = None
    gpu: bool = False
    retries: int = 3
    _mine: bool = field(default=False, init=False, repr=False)

    def __post_init__(self):
        if self.workers is not None:
            check.integer("workers", self.workers, least=1)
        check.integer("retries", self.retries, least=0)
        if importlib.util.find_spec("ray") is None:
            raise _RAY.missing()

    def __enter__(self) -> Self:
        self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._mine:
            _library().shutdown()
            self._mine = False

    def prepare(self, work: Work[S, R]) -> Run[S, R]:
        ray, room = self._connect(), self._room()
        task = ray.remote(_run).options(
            num_cpus=1 if self.gpu else _cores(),
            num_gpus=int(self.gpu),
            max_retries=self.retries,
            runtime_env={"env_vars": _settings()},
        )
        # In a list, so that Ray hands a worker the place and not, with every shard, the thing itself.
        with _foreign_code(ray):
            place = [ray.put(_packed(ray, work))]

        def run(shards: Sequence[S], progress: Progress) -> list[R]:
            results: dict[int, R] = {}
            flying: dict[Any, int] = {}
            try:
                while len(results) < len(shards):
                    while len(flying) < room and len(results) + len(flying) < len(shards):
                        index = len(results) + len(flying)
                        flying[task.remote(place, ray.cloudpickle.dumps(shards[index]))] = index
                    for done in ray.wait(list(flying), num_returns=1)[0]:
                        answer, amount = _answer(ray, done, flying[done], self.retries)
                        index = flying.pop(done)
                        results[index] = answer
                        progress(index, amount)
            finally:
                for rest in flying:
                    ray.cancel(rest)
            return [results[index] for index in range(len(shards))]

        return run

    def _connect(self) -> Any:
        ray = _library()
        if not ray.is_initialized():
            fresh: dict[str, Any] = {"address": self.address}
            if self.address is not None:
                _knock(self.address)
            else:
                fresh = {
                    "address": "local",
                    "num_cpus": _cores() * (self.workers or self._fitting()),
                    "num_gpus": _gpus(),
                }
                fresh |= {"include_dashboard": False}
            try:
                ray.init(**fresh, logging_level=logging.ERROR, log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).split("\n")[0].rstrip(".")
                where = "this machine" if self.address is None else f"'{self.address}'"
                raise ConnectionError(f"Ray cannot be reached or started at {where}: {reason}.") from None
            self._mine = True
        return ray

    def _fitting(self) -> int:
        """How many workers this machine has room for."""
        return max(1, _gpus() if self.gpu else _processors() // _cores())

    def _room(self) -> int:
        """How many shards to have under way.

        Raises:
            InputError: if no machine has room for a single worker; Ray would wait for one for ever.
        """
        name, need = ("GPU", 1) if self.gpu else ("CPU", _cores())
        machines = [int(node["Resources"].get(name, 0)) for node in _library().nodes() if node["Alive"]]
        room = sum(each // need for each in machines)
        if room == 0:
            needs, has = (f"1 {name}", "one") if need == 1 else (f"{need} {name}s", "that many")
            raise check.InputError(
                "",
                f"A worker needs {needs}, but no machine in the cluster has {has}",
                remedy="Use the device cpu." if self.gpu else "Set OMP_NUM_THREADS to a smaller number.",
            )
        return self.workers or room


@contextmanager
def _foreign_code(ray: Any) -> Generator[None]:
    """Python code that came with a model exists in this process alone, so it travels with the work."""
    modules = [sys.modules[name] for name in sorted({"transformers_modules", *BROUGHT}) if name in sys.modules]
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _packed(ray: Any, work: Work[Any, Any]) -> bytes:
    try:
        return ray.cloudpickle.dumps(work)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = " ".join(str(error).split())
        raise check.InputError(
            "engine", "be local for this model", detail=f"because it cannot be sent to workers: {reason}"
        ) from error


def _run(place: list[Any], shard: bytes) -> tuple[bytes, int]:
    """One shard, in a worker: its result, and the amount of work that was reported."""
    ray, key = _library(), place[0].hex()
    if key not in _held:
        _held.clear()
        _held[key] = pickle.loads(ray.get(place[0]))
    threads = os.environ["UNMASK_THREADS"]
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(int(threads))
    else:
        os.environ["OMP_NUM_THREADS"] = threads  # which torch reads if the work loads it
    amounts: list[int] = []
    # As bytes, since arrays that Ray moves itself arrive read-only; and errors as results, to be raised where the user
    # is, not printed by Ray.
    try:
        result: Any = _held[key](pickle.loads(shard), amounts.append)
    except Exception as error:
        result = _Failed(error)
    return ray.cloudpickle.dumps(result), sum(amounts)


@final
@dataclass(frozen=True)
class _Failed:
    """What a shard gives that raises an error."""

    error: Exception


def _answer(ray: Any, done: Any, index: int, retries: int) -> tuple[Any, int]:
    """The result of a finished shard and its amount of work, or its error as it was raised."""
    try:
        packed, amount = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None  # of the way to the worker: something there cannot be imported, say
    except ray.exceptions.WorkerCrashedError:
        died = f"{retries + 1} workers" if retries else "its worker"
        raise ChildProcessError(
            f"Shard {index} failed: {died} died while computing it, perhaps for lack of memory."
        ) from None
    except ray.exceptions.RayError as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ChildProcessError(f"Ray lost shard {index}: {reason}.") from None
    answer = pickle.loads(packed)
    if isinstance(answer, _Failed):
        raise answer.error
    return answer, amount


def _library() -> Any:
    # A library that runs on other people's texts does not report to anyone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return _RAY.load("cloudpickle", "exceptions", "get", "put", "remote", "wait")


def _knock(address: str) -> None:
    """Refuse at once an address `host:port` where nothing answers; Ray would try for minutes.

    Raises:
        ConnectionError: if nothing does.
    """
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        raise ConnectionError(
            f"No Ray cluster answers at '{address}'. Give the address of one that is running."
        ) from None


def _cores() -> int:
    """The cores of a worker: the threads of torch, or one where there is no torch."""
    torch = sys.modules.get("torch")
    return 1 if torch is None else torch.get_num_threads()


def _processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> int:
    torch = sys.modules.get("torch")
    return 0 if torch is None else torch.cuda.device_count()


def _settings() -> dict[str, str]:
    """The environment of a worker: what decides sums here, written out where it is only a default."""
    known = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
    return {"OMP_NUM_THREADS": str(_processors()), **known, "UNMASK_THREADS": str(_cores())}
