"""The live view: a text appearing step by step in the terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from unmask.models.text import Codec
from unmask.sample import State, Step
from unmask.sample.revising import RevisedPlan
from unmask.sample.trace import GIVEN, PADDED
from unmask.schedule import Schedule
from unmask.size import Blind
from unmask.words.sentences import visible

_FRAME, _SHOW = 0.15, 6.0  # seconds: the least time for a step of the live view, and about how long it may take in all


@contextmanager
def live(screen: Console, codec: Codec, schedule: Schedule, count: int) -> Iterator[Callable[[State, Step], None]]:
    """Draws a frame after every step: what was given, what is new, what is still masked. All vanish at the end."""
    view = Live(console=screen, auto_refresh=False, transient=True)
    last = time.monotonic()

    def look(state: State, step: Step) -> None:
        nonlocal last
        width = min(screen.width, 80) - 2
        lines: list[Text] = []
        shown = 0
        taken: set[int] = set() if step.taken is None else set(step.taken.tolist())
        for row, (tokens, revealed, masked) in enumerate(
            zip(state.tokens.tolist(), state.revealed.tolist(), state.masked.tolist(), strict=True)
        ):
            text = Text()
            for place, (token, when, hidden) in enumerate(zip(tokens, revealed, masked, strict=True)):
                gone = row * len(tokens) + place in taken
                text.append(*_letter(codec, token, when, hidden, step.index, gone))
            block = [text[start : start + width] for start in range(0, len(text), width)]
            # The whole frame must fit the window, or the terminal could not draw over it.
            if shown and len(lines) + len(block) + 3 > screen.height:
                break
            lines += [*block, Text()]
            shown += 1
        done = int((~state.masked).sum()) / state.masked.numel()
        whole = f" of {schedule.size.steps}" if isinstance(schedule.size, Blind) else ""
        if isinstance(state.plan, RevisedPlan):  # which has steps of its own
            steps = state.plan.steps
            whole = "" if steps is None or step.index >= steps else f" of {steps}"
        foot = f"step {step.index + 1}{whole}   {done:4.0%} revealed"
        foot += f"   {len(taken)} taken back" if taken else ""
        foot += f"   {shown} of {count} sequences" if shown < count else ""
        view.update(Group(*lines, Text(foot, style="dim")), refresh=True)
        pause = min(_FRAME, _SHOW * step.rows.numel() / state.masked.numel())
        time.sleep(max(0.0, last + pause - time.monotonic()))
        last = time.monotonic()

    with view:
        yield look


def _letter(codec: Codec, token: int, when: int, hidden: bool, now: int, gone: bool) -> tuple[str, str]:
    if gone:  # taken back by this step
        return "_", "bold white on red"
    if hidden:
        return "_", "dim"
    if when == PADDED:  # the answer was over
        return "", ""
    return visible(codec.piece(token)), "bold black on green" if when == now else "cyan" if when == GIVEN else ""
