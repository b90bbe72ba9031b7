"""What else can be the request's fault, beside what the library refuses: files, missing packages, memory."""

import sys

TOO_LARGE = "The numbers given are too large for this machine's memory. Take smaller ones."
MISTAKES = (OSError, ImportError, MemoryError, OverflowError, RuntimeError)


def sentence(error: BaseException) -> str | None:
    """One of `MISTAKES` as a sentence; None if it is a fault of ours after all."""
    if isinstance(error, MemoryError | OverflowError) or _out_of_memory(error):
        return TOO_LARGE
    if isinstance(error, OSError) and error.strerror is not None:
        what = "the output" if error.filename is None else f"'{error.filename}'"
        return f"Cannot use {what}: {error.strerror.lower()}."
    return None if isinstance(error, RuntimeError) else str(error)


def _out_of_memory(error: BaseException) -> bool:
    """Whether torch could not get the memory it asked for: on a GPU an error of its own, on a CPU only by its words."""
    kind = getattr(sys.modules.get("torch"), "OutOfMemoryError", None)
    if kind is not None and isinstance(error, kind):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)
