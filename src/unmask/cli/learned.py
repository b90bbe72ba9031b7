"""What `unmask advise --dependence` does: an order learned from how much positions tell of each other."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask import _check as check
from unmask import order, size
from unmask.calibration.dependence import ByDistance, Dependence, load_dependence
from unmask.calibration.learning import ignored, learned_order, learned_orders
from unmask.cli.output import progress
from unmask.cli.pairs import sides, wrong_cells
from unmask.cli.report import Column, Report, dim, grid, plain, title, words
from unmask.schedule import Schedule
from unmask.words.models import Source
from unmask.words.outputs import check_place
from unmask.words.sentences import bits, counted, evaluated
from unmask.words.texts import Texts

if TYPE_CHECKING:  # torch takes a second to load
    from unmask.calibration.confirmation import Confirmed
    from unmask.models import Model
    from unmask.sequences import Sequences

EVALUATIONS = 256  # of each text, that a search may spend where nobody says how many
_STARTS = 4  # learned orders that a search on texts begins with


def learned(
    source: Source,
    file: Path,
    steps: int | None,
    layout: str | None,
    save: Path | None,
    length: int | None,
    seed: int,
    *,
    texts: Texts,
    evaluations: int | None,
    named: bool,
) -> Report:
    """The order, the sizes that go with it, and what it keeps apart; with texts also what it costs on them.

    Arguments:
        source: The model.
        file: What was measured.
        steps: The number of steps.
        layout: Rows and columns, as in 28x28.
        save: Where the schedule goes.
        length: The number of tokens, if it was said.
        seed: Draws where the search begins.
        texts: Texts to refine the order and to compare it on, if there are any.
        evaluations: Evaluations of each text for the search, if that was said.
        named: Whether the model was named: it must then be the one that was measured.
    """
    if steps is None:
        raise check.InputError(
            "steps", "be given", remedy="A learned order is for a fixed number of steps. For example: {steps} 16."
        )
    if evaluations is not None:
        check.integer("evaluations", evaluations, least=1)
    check_place("save", save)
    grid_of = sides(layout)
    must = "be a file written by `unmask calibrate --dependence`"
    with check.blamed("dependence", must, str(file)), check.renamed("path", "dependence"):
        found = load_dependence(file)
    if length is not None and length != found.length:
        raise check.InputError("length", f"be {found.length}, as in {{dependence}}", found=f"{length}")
    if grid_of is not None and grid_of[0] * grid_of[1] != found.length:
        raise wrong_cells(grid_of, found.length)
    check.steps_and_length(steps, found.length)
    sizes: list[int] = size.Even(steps).draw(found.length, rng=0)[0].tolist()
    kinds: dict[str, order.BlindOrder] = {"whole-comb": order.Comb(shift=0), "spread": order.Spread()}
    grids: dict[str, order.BlindOrder] = {}
    if grid_of is not None:
        grids = {"comb-grid": order.CombGrid(*grid_of, shift=0), "spread-grid": order.SpreadGrid(*grid_of)}
    note, tried, seconds = "", None, 0.0
    if texts.none:
        if named:
            _check_measured(source.load_for(None), found, file)
        best = learned_order(found, sizes, layout=grid_of, rng=seed)
    else:
        model = source.load_for(found.length)
        _check_measured(model, found, file)
        rows, note = _rows(model, texts, found.length, seed)
        starts = learned_orders(found, sizes, layout=grid_of, rng=seed)[:_STARTS]
        begun = time.perf_counter()
        with check.blamed("model", "be usable", source.name, parts=False):
            tried = _tried(model, starts, sizes, rows, grids, seed, evaluations or EVALUATIONS)
        seconds = time.perf_counter() - begun
        best = tried.refined.order
    known = {name: _cut(kind, sizes, found.length) for name, kind in {**kinds, **grids}.items()}
    known["random"] = _cut(order.Random(), sizes, found.length)
    nats = [{"order": "learned", "nats": ignored(found, best)}]
    nats += [{"order": name, "nats": ignored(found, each)} for name, each in known.items()]
    schedule, sets = Schedule(size.Explicit(best.sizes), best), [list(each) for each in best.sets]
    if tried is None:
        kept = next((name for name, each in known.items() if _same(each, best)), None)
        said = f"Take {steps} steps in the learned order, which keeps dependent positions apart. Before you use it, "
        said += "compare it with a comb (`unmask evaluate`)."
        if kept is not None:
            said = f"Take {steps} steps in {kept} order: no other order clearly has less dependence inside its steps."
            schedule = Schedule(size.Even(steps), {"random": order.Random(), **kinds, **grids}[kept])
    else:
        kept, said = tried.kept, _verdict(tried, steps, found.length)
        if kept is not None:  # said of any number of tokens, where a learned order is for one
            schedule = Schedule(size.Even(steps), tried.order)
            sets = None if kept == "random" else [list(each) for each in known[kept].sets]
    if save is not None:
        schedule.save(save)
    record: dict[str, Any] = {
        "model": source.name if named or tried is not None else None,
        "length": found.length,
        "texts": found.texts,
        "steps": steps,
        "sizes": sizes,
        "sets": sets,
        "ignored": nats,
        "kept": kept,
        **_record(tried, found.length, seconds),
        "schedule": schedule.to_json(),
        "saved": None if save is None else str(save),
        "advice": said,
    }
    of = source.words if named or tried is not None else "--model MODEL"
    following = f"add --save schedule.json to this command, and then run: unmask generate {of} --schedule schedule.json"
    if save is not None:
        following = f"unmask generate {of} --length {found.length} --schedule {shlex.quote(str(save))}"
    shown = [title(f"{said}\n"), *_compared(record)]
    shown += [
        plain("Dependence between positions of the same step, which that step ignores:"),
        grid((words("order"), Column("nats", lambda row: f"{row['nats']:.3f}")), nats),
    ]
    return Report(record, shown, written=[save], next=following, note=note)


def _check_measured(model: "Model", found: Dependence | ByDistance, file: Path) -> None:
    if model.fingerprint != found.model:
        remedy = "Give the {model} that was measured, or run `unmask calibrate --dependence` for this one."
        raise check.InputError("", f"The dependence file '{file}' was measured on another model", remedy=remedy)


def _rows(model: "Model", texts: Texts, length: int, seed: int) -> tuple["Sequences", str]:
    """The texts, and what is to be said of them; refused unless an order of so many tokens goes with them."""
    from unmask.calibration.confirmation import LEAST_TEXTS

    if texts.count is not None:
        check.integer("texts", texts.count, least=LEAST_TEXTS)
    taken = texts.collected(model, seed)
    rows, where = taken.sequences, "text" if texts.data is None else "data"
    if not rows.equal or rows.tokens.shape[1] != length or not bool(rows.masked.all()):
        what = f"have rows of {length} tokens, all of them to be filled"
        raise check.InputError(where, what, remedy="A learned order works for one length only.")
    if len(rows) < LEAST_TEXTS:
        what = f"have at least {LEAST_TEXTS} sequences of {length} tokens"
        raise check.InputError(where, what, found=f"{len(rows)}", remedy="Half of them are held out from the search.")
    return rows, taken.note


def _tried(
    model: "Model",
    starts: list[order.Sets],
    sizes: list[int],
    rows: "Sequences",
    grids: dict[str, order.BlindOrder],
    seed: int,
    evaluations: int,
) -> "Confirmed":
    """The search on half of the texts and the comparison on the other half, with a bar."""
    from unmask.calibration.confirmation import confirmed_order, confirming_evaluations

    begin: dict[str, order.BlindOrder] = {f"learned {n}": each for n, each in enumerate(starts)}
    with progress() as bar:
        total = confirming_evaluations(len(rows), len(sizes), evaluations, standard=len(grids))
        task = bar.add_task("order", total=total)
        return confirmed_order(
            model.predictor, begin, sizes, rows, rng=seed, standard=grids, evaluations=evaluations,
            progress=lambda done: bar.advance(task, done),
        )  # fmt: skip


def _verdict(tried: "Confirmed", steps: int, length: int) -> str:
    """What to take, and why."""
    gain, error = bits(tried.gain.mean, length), bits(tried.gain.standard_error, length)
    on = f"on {counted(tried.held_out, 'text')} that the search has not seen"
    if tried.kept is None:
        best = min((name for name in tried.costs if name != "learned"), key=lambda name: tried.costs[name].mean)
        less = f"{gain:.3f} ± {error:.3f} bits per token less than {best} order, the best standard order"
        return f"Take {steps} steps in the learned order: {on}, it costs {less}."
    difference = "the search found no better order"
    if tried.gain.mean != 0:
        than = f"{abs(gain):.3f} ± {error:.3f} bits per token {'less' if gain > 0 else 'more'}"
        within = ", which is within the noise" if gain > 0 else ""
        difference = f"{on}, the learned order costs {than}{within}"
    return f"Take {steps} steps in {tried.kept} order, the best standard order: {difference}."


def _record(tried: "Confirmed | None", length: int, seconds: float) -> dict[str, Any]:
    if tried is None:
        return dict.fromkeys(("compared", "gain", "gain_error", "searched", "held_out", "evaluations", "seconds"))
    rows = [
        {"order": name, "bits_per_token": bits(cost.mean, length), "error": bits(cost.standard_error, length)}
        for name, cost in sorted(tried.costs.items(), key=lambda item: item[1].mean)
    ]
    return {
        "compared": rows,
        "gain": bits(tried.gain.mean, length),
        "gain_error": bits(tried.gain.standard_error, length),
        "searched": tried.searched,
        "held_out": tried.held_out,
        "evaluations": tried.refined.evaluations,
        "seconds": round(seconds, 1),
    }


def _compared(record: dict[str, Any]) -> list[Any]:
    """What the orders cost on texts, if there were any."""
    if record["compared"] is None:
        return []
    columns = (
        words("order"),
        Column("bits/token", lambda row: f"{row['bits_per_token']:.3f}"),
        Column("± error", lambda row: f"{row['error']:.3f}"),
    )
    spent = f"{evaluated(record['evaluations'])} of each of {counted(record['searched'], 'other text')}"
    return [
        plain(f"Cost on the {counted(record['held_out'], 'text')} that were held out:"),
        grid(columns, record["compared"]),
        dim(f"  The search took {spent}; search and comparison took {record['seconds']:.0f} s.\n"),
    ]


def _cut(kind: order.BlindOrder, sizes: list[int], length: int) -> order.Sets:
    """The steps of an order."""
    walk = kind.arrange(np.arange(length), length=length, steps=len(sizes), rng=0)
    return order.Sets([part.tolist() for part in np.split(walk, np.cumsum(sizes)[:-1])])


def _same(one: order.Sets, other: order.Sets) -> bool:
    return [sorted(step) for step in one.sets] == [sorted(step) for step in other.sets]
