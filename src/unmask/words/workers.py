"""Who does the work: the words for an engine become one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import final

from unmask import _check as check
from unmask.engine import LOCAL, Engine, Ray

ENGINES = ("local", "ray")


@final
@dataclass(frozen=True)
class Workers:
    """Who does the work of a command.

    Attributes:
        engine: The word for the engine.
        workers: How many workers, if that was said.
        address: Where they are, if that was said.
    """

    engine: str
    workers: int | None
    address: str | None

    def on(self, device: str = "cpu") -> Engine:
        """The engine, for that device."""
        if self.engine == "ray":
            if ":" in device:
                wanted, remedy = "be cpu, cuda or auto with {engine} ray", "With cuda, every worker has its own GPU."
                raise check.InputError("device", wanted, found=check.shown(device), remedy=remedy)
            return Ray(self.workers, self.address, gpu=device == "cuda")
        for option, value in (("workers", self.workers), ("address", self.address)):
            if value is not None:
                raise check.lacking(option, "{engine} ray")
        return LOCAL


@contextmanager
def working(engine: Engine) -> Iterator[Engine]:
    """The engine at work. What Ray has to say meanwhile, of a worker that died, must not end up in the output."""
    with redirect_stdout(sys.stderr), engine:
        yield engine
