"""What a model and a schedule were made for: what a model is asked for where nobody says, and what does not fit."""

from dataclasses import replace
from typing import TYPE_CHECKING

from unmask import order
from unmask.schedule import Schedule
from unmask.size import Blind
from unmask.size.base import Planned
from unmask.words.schedules import order_title
from unmask.words.sentences import counted

if TYPE_CHECKING:  # what follows needs torch, which takes a second to load
    from unmask.models import Model

_STEPS = 16


def own_order(model: "Model") -> order.BlindOrder | order.ReactiveOrder:
    """The order that most of a model's training was in; a comb if nobody said, or it was trained for all."""
    return model.schedules[0].within if model.schedules else order.Comb()


def own_steps(model: "Model") -> int:
    """The number of steps that most of a model's training was for; 16 if nobody said."""
    first = model.schedules[0].size if model.schedules else None
    return first.steps if isinstance(first, Blind) else _STEPS


def unfamiliar(model: "Model", schedule: Schedule) -> str:
    """One sentence if a model was trained for other schedules than this one; nothing if it was not.

    Numbers of steps and of segments make no other schedule: what the model was trained for is an order.
    """
    known = list(dict.fromkeys(order_title(_kind(each.within)) for each in model.schedules))
    own = schedule.blind and schedule.spaced is None and order_title(_kind(schedule.within)) in known
    if not known or own:
        return ""
    orders = "order" if len(known) == 1 else "orders"
    names = f"{', '.join(known[:-1])} and {known[-1]}" if known[1:] else known[0]
    trained = f"The model '{model.name}' was trained for other schedules: planned ones in the {orders} {names}."
    return f"{trained} With this schedule, its texts are worse."


def shortened(schedule: Schedule, count: int) -> str:
    """One sentence if with so many tokens a schedule takes fewer steps than it could; nothing if it does not."""
    sizes = schedule.size
    if not isinstance(sizes, Planned) or isinstance(schedule.order, order.Blocks | order.Delimited):
        return ""
    possible, taken = min(sizes.steps, count), sizes.fitted(count).steps
    if taken >= possible:
        return ""
    tokens, steps = counted(count, "token"), counted(taken, "step")
    return f"This schedule was made for longer texts. With {tokens} to fill, it takes {steps} instead of {possible}."


def _kind(which: order.BlindOrder | order.ReactiveOrder) -> order.Order:
    return replace(which, segments=None) if isinstance(which, order.Comb) else which
