"""Functions that end their process: right before or right after the call with a given number, counted over all."""

import itertools
import os
import signal


def arm(places, fatal: int | None, before: bool) -> None:
    """Replace attributes, given as pairs of an object and a name; None as the number for functions that do no harm."""
    calls = itertools.count(1)

    def deadly(function):
        def called(*values, **options):
            mine = next(calls)
            if mine == fatal and before:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*values, **options)
            if mine == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return called

    for place, name in places:
        setattr(place, name, deadly(getattr(place, name)))
