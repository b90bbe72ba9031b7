"""The common case in a few functions: `load`, `generate`, `calibrate`, `advise`, and a schedule to save.

    model = unmask.load("causal")
    unmask.generate(model, ["the ____ of the ____"], steps=8)
    found = unmask.calibrate(model, ["one text", "and another"])
    advice = unmask.advise(found, steps=4)
    unmask.generate(model, "the ____", schedule=advice.schedule)

Here, as on the command line, an order and a size may be named; everything below takes objects. What these functions do
not offer, `Sampler`, `measure` and `replay` do.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from unmask import _check as check
from unmask import models
from unmask._torch import Tensor, plain
from unmask.calibration.calibration import Calibration
from unmask.calibration.series import POINTS, blank, measure_orders, measure_rules
from unmask.data import Row, collect, rows
from unmask.models.start import start_of
from unmask.models.text import Store
from unmask.order import BlindOrder
from unmask.sample import Sampler, Seeds, draw_for, seeds_of
from unmask.schedule import Schedule
from unmask.sequences import Sequences
from unmask.words.calibrating import usual
from unmask.words.own import own_order, own_steps, shortened, unfamiliar
from unmask.words.rules import rules_named
from unmask.words.schedules import USUAL_ORDERS, build, fits, measurable

_TEXTS = 32

Data = Sequences | Tensor | str | os.PathLike[str] | Sequence[str] | Sequence[Mapping[str, Any]]


def generate(
    model: models.Model | str,
    prompts: str | Sequence[str] | None = None,
    *,
    steps: int | None = None,
    order: str | None = None,
    size: str = "even",
    schedule: Schedule | None = None,
    count: int = 1,
    length: int | None = None,
    chat: bool = False,
    temperature: float = 1.0,
    seed: Seeds = 0,
) -> list[str]:
    """Texts that a model writes.

    Arguments:
        model: A model, or its name (`unmask.load`).
        prompts: What is given, for one text or for each of several: `_`, or the model's own mask token, stands for a
            token to be filled. None for texts of the model's own.
        steps: Number of steps; of a prompt with fewer tokens to fill, so many. By default as many as the model was
            trained for, and 16 if for any.
        order: Which tokens come first, by name; as the model was trained by default, and a comb if for any order.
        size: How many each step reveals, by name.
        schedule: A schedule in place of these three.
        count: How many texts for each prompt.
        length: Tokens in all; of each prompt as many as it has by default, and the model's own without one.
        chat: Whether the prompts are messages to be answered; `length` is then that of the answers, which are returned
            alone.
        temperature: 1 draws from what the model predicts; 0 takes the most likely token.
        seed: The seed of the first text, from which the others count on; a seed for each, or a generator.

    Returns:
        The texts, those of the first prompt first.

    Example:
        >>> import unmask
        >>> text = unmask.generate("causal", "the _____ of the _____", seed=3)[0]
        >>> text[:4], text[9:17], len(text)
        ('the ', ' of the ', 22)
    """
    found = _loaded(model)
    count = check.integer("count", count, least=1)
    must = "be a text or a list of texts"
    given = [prompts] if prompts is None or isinstance(prompts, str) else check.listed("prompts", prompts, must)
    if not given:
        raise check.InputError("prompts", "hold at least one text")
    with check.renamed("prompt", "prompts"):
        starts = [start_of(found, prompt, length, chat=chat) for prompt in given for _ in range(count)]
    mask = found.predictor.mask
    hidden = [start[0] == mask for start, _ in starts]
    sequences = Sequences.of(
        [plain(start[0].masked_fill(where, 0)) for (start, _), where in zip(starts, hidden, strict=True)],
        [plain(where) for where in hidden],
        device=found.device,
    )
    if schedule is None:
        most = int(sequences.counts.max())
        wanted = own_steps(found) if steps is None else check.integer("steps", steps, least=1)
        schedule = build(order or own_order(found), size, min(wanted, most), most).schedule
    for note in (unfamiliar(found, schedule), shortened(schedule, int(sequences.counts.min()))):
        if note:
            warnings.warn(note, stacklevel=2)
    draw = draw_for(temperature)
    # As on the command line: the first text of a seed is that of the seed alone.
    one = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    with check.renamed("rng", "seed"):
        seeds = [check.seed("seed", seed) + row for row in range(len(starts))] if one else seeds_of(seed, len(starts))
    trace = Sampler(found.predictor, schedule, draw, found.stop).fill(sequences, rng=seeds)
    return found.texts(trace, [first for _, first in starts])


def calibrate(
    model: models.Model | str,
    data: Data,
    *,
    orders: Sequence[str] | None = None,
    rules: Sequence[str] = (),
    blocks: int | None = None,
    texts: int = _TEXTS,
    points: int = POINTS,
    seed: int = 0,
    progress: Callable[[str, int], object] = lambda name, done: None,
) -> Calibration:
    """Measure a model on data like those it will be used on; `advise` then says which schedule to take.

    Arguments:
        model: A model, or its name.
        data: What it is measured on: one long text, of which windows are taken; a path to a file of rows
            (`unmask.data`); a list of texts, or of rows such as `{"prompt": …, "answer": …}`; or sequences of tokens.
        orders: Names of the orders to measure; by default the usual ones that fit, and none of a model that remembers,
            of which planned schedules are measured (`rules`).
        rules: Names of schedules to measure one by one, such as "confidence/threshold:0.9"; of a model that remembers
            "planned" by default: one pass each.
        blocks: Tokens of a block, for a model that fills one after the other: several orders inside blocks are then
            measured as rules, and none of the whole text unless `orders` says so.
        texts: How many sequences, at most.
        points: How many different numbers of visible tokens to try for an order; more is finer and slower.
        seed: Seeds everything that is random.
        progress: Called with the name of an order or rule and the number of texts evaluated since the last call.
    """
    found = _loaded(model)
    sequences = sequences_of(found, data, check.integer("texts", texts, least=2), seed)
    longest = int(sequences.counts.max())
    asked = check.listed("orders", USUAL_ORDERS if orders is None else orders, "be a list of names")
    named = check.listed("rules", rules, "be a list of names")
    asked, named = usual(found, list(asked), list(named), said=orders is not None, blocks=blocks)
    kinds: dict[str, BlindOrder] = {name: measurable(name) for name in asked}
    wanted = {name: kind for name, kind in kinds.items() if fits(kind, longest)}
    schedules = rules_named(named, longest)
    kept = blank(found.fingerprint, sequences, seed)
    kept = measure_orders(found.predictor, wanted, sequences, kept, rng=seed, points=points, progress=progress)
    return measure_rules(found.predictor, schedules, sequences, kept, rng=seed, progress=progress)


def sequences_of(model: models.Model, data: Data, texts: int, seed: int) -> Sequences:
    """Whatever data are, as sequences on the model's device; at most so many."""
    if isinstance(data, Sequences | Tensor):
        return Sequences.of(data, device=model.device)
    if isinstance(data, str):
        if os.path.isfile(data):  # a Path would stumble over a text that is too long for a name
            remedy = f"To use its rows, pass Path({data!r}). To use it as one text, pass Path({data!r}).read_text()."
            raise check.InputError("data", "be a text", detail="but this is the name of a file", remedy=remedy)
        cut = model.cut()
        with check.renamed("text", "data"):
            store = Store.of(data, model.codec)
        most = len(store) // cut.length
        if most < 2:
            wanted = f"have at least two sequences of {cut.length} tokens"
            raise check.InputError(
                "data",
                wanted,
                detail=f"but this text has {len(store)} tokens",
                remedy="Give a longer text, or a list of texts.",
            )
        windows = store.even_windows(cut.length, min(texts, most))
        return Sequences.of(windows.tolist(), device=model.device)
    if isinstance(data, os.PathLike):
        source = rows(data)
    else:
        given = check.listed("data", data, "be a text, a path, Sequences, or a list of texts or rows")
        source = (_row(number, each) for number, each in enumerate(given, 1))
    return collect(model, source, most=texts, rng=seed).required().sequences.to(model.device)


def _loaded(model: models.Model | str) -> models.Model:
    if isinstance(model, str):
        return models.load(model)
    return check.instance("model", model, models.Model, "be a model or the name of one")


def _row(number: int, given: object) -> Row:
    if isinstance(given, str):
        return Row("data", number, text=given)
    if isinstance(given, Mapping):
        parts = cast("Mapping[str, Any]", given)
        if unknown := sorted(set(parts) - {"prompt", "answer", "text", "given"}):
            raise check.InputError(
                "data", "have rows with only the fields prompt, answer, text and given", found=f"'{unknown[0]}'"
            )
        return Row("data", number, **parts)
    raise check.InputError("data", "hold texts or rows", found=check.shown(given))
