"""Packages of other projects: what is said when one of them is not there, is of another version, or fails inside.

An `ImportError` can mean three things, and each has its own way out. The package is not installed; or it is, and lacks
a name that we need, because it is too old or too new; or its own code, or a package that it needs in turn, fails when
it is imported. The place where the error was raised tells them apart: if only our own import statement stands in its
traceback, the package or the name is missing, and if code of others does, that code is at fault.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, final
from urllib.parse import unquote, urlsplit

from unmask._errors import clipped

_NAME = re.compile(r"cannot import name '([^']*)'")
_LETTERS = 300  # of what a package says itself


@final
@dataclass(frozen=True)
class Package:
    """A package that some module here needs: `with package:` goes around the imports from it.

    Arguments:
        title: What it is called.
        module: What is imported, such as `lm_eval`.
        remedy: How to install it, a whole sentence.
        versions: Which versions are supported, as in "0.38.0 to 0.42.1".
        project: What pip calls it, if that is not the module's name.

    Raises:
        ModuleNotFoundError: if it is not installed.
        ImportError: if it has not got a name that is needed, or fails while it is imported.

    Example:
        >>> with Package("Nothing", "nothing_of_this_name", "Run: pip install nothing"):
        ...     import nothing_of_this_name
        Traceback (most recent call last):
        ModuleNotFoundError: This needs Nothing, which is not installed. Run: pip install nothing
    """

    title: str
    module: str
    remedy: str
    versions: str = ""
    project: str = ""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, where: TracebackType | None) -> None:
        if not isinstance(error, Exception):
            return
        if not isinstance(error, ImportError) or _inside(where):
            raise self.broken(error) from error
        if error.name is not None and (error.name == self.module or error.name.startswith(f"{self.module}.")):
            if sys.modules.get(self.module) is None:  # not even its beginning was found
                raise self.missing() from None
            if lacking := _NAME.search(str(error)):
                raise self.unfit(f"{error.name}.{lacking[1]}") from None
            if isinstance(error, ModuleNotFoundError):
                raise self.unfit(error.name) from None
        raise self.broken(error) from error

    def load(self, *names: str) -> Any:
        """The package itself, for whoever imports it only when it is needed; with these names in it."""
        with self:
            found = __import__(self.module)
            lacking = [name for name in names if not hasattr(found, name)]
        if lacking:
            raise self.unfit(f"{self.module}.{lacking[0]}")
        return found

    def missing(self) -> ModuleNotFoundError:
        """The error for a package that is not installed."""
        return ModuleNotFoundError(f"This needs {self.title}, which is not installed. {self.remedy}", name=self.module)

    def unfit(self, name: str) -> ImportError:
        """The error for a version that has not got a name."""
        known = f"; supported: {self.versions}" if self.versions else ""
        return ImportError(f"This needs '{name}', which {self._installed()} does not have{known}. {self.remedy}")

    def broken(self, error: Exception) -> ImportError:
        """The error for a package that fails while it is imported, in its own words."""
        said = " ".join(str(error).split()).rstrip(".")
        said = f"{type(error).__name__}: {clipped(said, _LETTERS)}" if said else type(error).__name__
        return ImportError(f"{self._installed()} is installed, but fails when it is imported: {said}.")

    @property
    def version(self) -> str | None:
        """The version that is installed, if it can be told."""
        from importlib import metadata  # only when something is wrong: it takes a while to load

        try:
            return metadata.version(self.project or self.module)
        except metadata.PackageNotFoundError:  # a checkout on the path
            found = getattr(sys.modules.get(self.module), "__version__", None)
            return found if isinstance(found, str) else None

    def _installed(self) -> str:
        return self.title if self.version is None else f"{self.title} {self.version}"


def install(extra: str) -> str:
    """How to install what an extra of ours names: from the clone that runs, if it is one.

    Example:
        >>> install("app").startswith("Run: pip install ")
        True
    """
    from importlib import metadata

    try:
        said: Any = json.loads(metadata.distribution("unmask").read_text("direct_url.json") or "{}")
        place = urlsplit(str(said.get("url", "")))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        place = urlsplit("")
    if place.scheme == "file" and Path(folder := unquote(place.path)).is_dir():
        return f'Run: pip install --editable "{folder}[{extra}]"'
    return f'Run: pip install "unmask[{extra}]"'


def _inside(where: TracebackType | None) -> bool:
    """Whether code other than our own import statement, and Python's import itself, was running."""
    deeper = where.tb_next if where is not None else None
    while deeper is not None:
        if not deeper.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        deeper = deeper.tb_next
    return False
