"""What is wrong with the words of a command: one sentence, and exit code 2."""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from unmask import InputError
from unmask.words import mistakes


@contextmanager
def sentences(options: Mapping[str, str] | None = None) -> Generator[None]:
    """End the program with a sentence if a mistake is made inside.

    Arguments:
        options: What an option is called, for those with another name than the argument: argument -> option.
    """
    known = {"kind": "kind", **(options or {})}
    try:
        yield
    except InputError as error:
        said = error.sentence(lambda name: known.get(name, f"--{name.replace('_', '-')}"))
    except (ModuleNotFoundError, OSError) as error:
        said = mistakes.sentence(error)
    else:
        return
    print(f"Error: {said}", file=sys.stderr)
    raise SystemExit(2)
