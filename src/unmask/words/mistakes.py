"""What else can be the request's fault, beside what the library refuses: files, missing packages, memory."""

from unmask._memory import exhausted

TOO_LARGE = "This needs more memory than there is. Use smaller numbers or a smaller model."
MISTAKES = (OSError, ImportError, MemoryError, OverflowError, RuntimeError)


def sentence(error: BaseException) -> str | None:
    """One of `MISTAKES` as a sentence; None if it is a fault of ours after all."""
    if isinstance(error, OverflowError) or exhausted(error):
        return TOO_LARGE
    if isinstance(error, OSError) and error.strerror is not None:
        what = "the output" if error.filename is None else f"'{error.filename}'"
        return f"Cannot use {what}: {error.strerror.lower()}."
    return None if isinstance(error, RuntimeError) else str(error)
