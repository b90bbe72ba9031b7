"""Options that name files: which are read and which are written, and that no file is both."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

import click

from unmask import _check as check
from unmask.cli.completion import Words
from unmask.words.models import file_of


@final
class Written(click.Path):
    """A file that the command writes."""


@final
class Folder(click.Path):
    """A folder that the command fills.

    Arguments:
        names: Files in it that the command replaces whatever they are; it looks at all others before.
    """

    def __init__(self, *names: str):
        super().__init__(path_type=Path)
        self.names = names


FILE = click.Path(path_type=Path)  # which the command reads
WRITTEN = Written(path_type=Path)
FOLDER = Folder()


def check_apart(params: Iterable[click.Parameter], values: Mapping[str, Any]) -> None:
    """Refuse, before any work, to write to a file that the same command reads, or writes something else to.

    Arguments:
        params: The options of the command.
        values: What was given to them, by the names of their variables.
    """
    given = [(param, path) for param in params for path in _files(param, values.get(param.name or ""))]
    taken = [(param, path) for param, path in given if not isinstance(param.type, Written | Folder)]
    for param, path in given:
        if not isinstance(param.type, Written | Folder):
            continue
        for other, theirs in taken:
            if _same(path, theirs):
                both = f"both are '{path}'" if path == theirs else f"'{path}' and '{theirs}' are the same file"
                name, must = _word(param), f"be a different file from {{{_word(other)}}}"
                if isinstance(param.type, Folder):
                    must, both = (
                        f"be a different folder from that of {{{_word(other)}}}",
                        f"'{theirs}' would be replaced",
                    )
                raise check.InputError(name, must, detail=f"but {both}", remedy=f"Choose another {{{name}}}.")
        taken.append((param, path))


def _files(param: click.Parameter, value: Any) -> Iterator[Path]:
    """The files that an option names."""
    kind = param.type
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(kind, Words) and kind.files and each is not None and each not in kind.words:
            yield file_of(each)
        elif isinstance(kind, Folder):
            yield from (each / name for name in kind.names if each is not None)
        elif isinstance(kind, click.Path) and each is not None and str(each) != "-":
            yield each


def _same(one: Path, other: Path) -> bool:
    """Whether two names lead to the same file, which need not exist. Devices and pipes are not replaced."""
    try:
        if one.exists() and other.exists():
            return one.is_file() and one.samefile(other)
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # a name that is too long, or has a null character: no such file can be written
        return False


def _word(param: click.Parameter) -> str:
    return param.opts[0].lstrip("-")
