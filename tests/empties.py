"""SGLang's own classes on a machine without a GPU.

`make` puts the engine and the few packages that its classes import into `engines`, a folder beside the environment's
own packages, where nothing else looks (`.ci/engines.txt`). `open_engines` puts it at the end of the path, so that what
the environment has comes first, and lets empty modules stand for what is compiled for CUDA: none of them is called.
"""

import importlib.machinery
import sys
import types
from pathlib import Path

ENGINES = Path(sys.prefix) / "engines"
COMPILED = ("sgl_kernel", "triton", "torchvision", "flashinfer", "tvm_ffi")


class Anything(type):
    """Classes whose attributes are classes like them, and whose objects return what they are called with."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return anything(name)


def anything(name):
    def found(self, name):
        return getattr(type(self), name)

    members = {"__init__": lambda *_, **__: None, "__call__": lambda _, *given: given[0], "__getattr__": found}
    return Anything(name, (), members)


class Empty(types.ModuleType):
    __path__, __version__ = (), "99.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return anything(name)


class Empties:
    """Finds an empty module for each of the names, and for whatever is looked for inside it."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in COMPILED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def open_engines():
    sys.path.append(str(ENGINES))
    sys.meta_path.insert(0, Empties())
