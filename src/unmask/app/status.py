"""How far long work has come, and what became of it."""

from html import escape


def progress(done: int, whole: int, words: str) -> str:
    """How far long work has come."""
    share = f'<progress value="{done}" max="{whole}"></progress>' if whole else "<progress></progress>"
    return f'<div class="progress" role="status">{share} {escape(words)}</div>'


def note(words: str) -> str:
    """What became of long work."""
    return f'<p class="note" role="status">{escape(words)}</p>'
