"""The newest request of every open page: work on anything older ends, and is not shown any more.

The page numbers what it asks for (`turned` in page.js), since only it knows in which order its fields were changed.
"""

from dataclasses import dataclass, field
from threading import Lock

_PAGES = 1000  # remembered; of these the one that was quiet for longest is forgotten first


@dataclass(frozen=True, eq=False)
class Work:
    """What one page has asked for.

    Attributes:
        page: Which page. turn: The number of its request. newest: By page, the number of the newest.
    """

    page: str | None
    turn: int
    newest: dict[str | None, int] = field(repr=False)

    @property
    def current(self) -> bool:
        """Whether the page has asked for nothing since."""
        return self.newest.get(self.page, self.turn) <= self.turn


class Current:
    """The newest work on one form, by page."""

    def __init__(self) -> None:
        self._newest: dict[str | None, int] = {}
        self._lock = Lock()

    def begin(self, page: str | None, turn: object) -> Work:
        """A page asks for something; what it has asked for before is out of date from now on.

        Arguments:
            page: Which page. turn: The number of its request; requests may arrive in another order.
        """
        work = Work(page, int(str(turn)), self._newest)
        with self._lock:
            self._newest[page] = max(work.turn, self._newest.pop(page, 0))
            if len(self._newest) > _PAGES:
                del self._newest[next(iter(self._newest))]
        return work
