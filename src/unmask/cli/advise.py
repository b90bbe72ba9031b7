"""`unmask advise`: in plain words, how many steps, which order and which sizes."""

import math
import shlex
import textwrap
from pathlib import Path
from typing import Any

import click

from unmask import _check as check
from unmask import models
from unmask.calibrate import Calibration, Forecast
from unmask.calibrate.advice import Advice
from unmask.calibrate.advice import advise as find
from unmask.cli import calibrate as measuring
from unmask.cli import model as shared
from unmask.cli import options, schedules
from unmask.cli.output import abbreviated, check_place, counted, print_json, terminal
from unmask.size import Even


@click.command()
@shared.source
@click.option("--calibration", "file", type=options.FILE, metavar="FILE", help="What `unmask calibrate` wrote.")
@click.option("--text", type=options.FILE, metavar="FILE", help="Or a text, to measure now; this takes minutes.")
@click.option("--target", type=options.NUMBER, metavar="BITS", help="Bits per token allowed above one by one.")
@click.option("--steps", type=options.INTEGER, metavar="K", help="The number of steps, if that is settled.")
@click.option("--save", type=options.FILE, metavar="FILE", help="Write the schedule, for `unmask generate --schedule`.")
@shared.texts
@shared.length
@options.seed
@options.as_json
def advise(
    source: shared.Source,
    file: Path | None,
    text: Path | None,
    target: float | None,
    steps: int | None,
    save: Path | None,
    count: int | None,
    length: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Say how many steps to take, in which order and with which sizes.

    The target is what you are ready to lose, in bits per token, against the best one-by-one likelihood among the
    measured orders: the best this model does when nothing is revealed in parallel. The advice is the schedule with the
    fewest steps that is predicted to stay within it, or with --steps the best schedule of so many.

    The built-in model comes with its calibration, on English text; other models need one.

    \b
    Examples:
      unmask advise --target 0.05
      unmask advise --calibration calibration.json --target 0.05
      unmask advise --calibration calibration.json --steps 16 --save schedule.json
      unmask advise --model my-run --text held-out.txt --target 0.1 --json
    Then:
      unmask generate --schedule schedule.json

    JSON: model (null where a calibration is of an unnamed one), length, target, reference {order, bits_per_token},
    steps, order, sizes, nll (predicted, nats per token), bits_per_token, error (the standard error of nll, about),
    above (bits per token over the reference), runner_up {order, bits_per_token, steps_for_target} or null, even_random
    {bits_per_token, steps_for_target} or null, schedule, saved, advice. A steps_for_target of null means never.
    """
    if file is not None and text is not None:
        raise check.InputError(
            "", "Say where the model was measured: either --calibration FILE or --text FILE, not both"
        )
    if target is None and steps is None:
        raise click.UsageError("Say what is wanted: either --target BITS or --steps K.")
    if text is None and count is not None:
        raise check.InputError("", "Without --text there is no use for --texts", remedy="Leave it out.")
    check_place("save", save)
    if file is not None:
        calibration = shared.read_calibration(file)
        known = _is_of(calibration, file, source, length)
    else:
        calibration, known = _of(source.load_for(length), text, count, seed), True
    advice = find(calibration, target=target, steps=steps)
    if save is not None:
        advice.plan.schedule.save(save)
    words = sentences(advice, calibration, target)
    if as_json:
        name = source.name if known else None
        print_json(_record(advice, name, calibration.length, target, save, " ".join(words)))
        return
    screen = terminal()
    for number, sentence in enumerate(words):
        lines = textwrap.wrap(sentence, min(screen.width, 80) - 1)
        screen.print("\n".join(lines), style="bold" if number == 0 else "", markup=False)
        screen.print()
    if save is not None:
        screen.print(f"Written: {save}", soft_wrap=True, markup=False)
        of = source.words if known else "--model MODEL"
        line = f"Next: unmask generate {of} --length {calibration.length} --schedule {shlex.quote(str(save))}"
        screen.print(line, soft_wrap=True, markup=False)
    else:
        line = "Next: the same with --save schedule.json, for `unmask generate --schedule schedule.json`"
        screen.print(line, soft_wrap=True, markup=False)


def _is_of(calibration: Calibration, file: Path, source: shared.Source, length: int | None) -> bool:
    """Whether the calibration is one of the model. Advice needs no model, so only one that was named must be right."""
    if length is not None and length != calibration.length:
        raise check.InputError("length", f"be that of the calibration, {calibration.length}", found=f"{length}")
    model = source.load_for(None, calibration)
    if not source.chosen and calibration.model != model.fingerprint:
        return False
    shared.check_calibration(calibration, file, model)
    return True


def _of(model: models.Model, text: Path | None, count: int | None, seed: int) -> Calibration:
    """The calibration of a model: measured now if there is a text, else the one it comes with."""
    if text is None:
        found = models.calibration_of(model)
        if found is None:
            raise check.InputError("", "Say where the model was measured: either --calibration FILE or --text FILE")
        return found
    tokens = shared.read_windows(model, text, count)
    kinds = {name: schedules.blind_named(name) for name in measuring.ORDERS}
    wanted = {name: kind for name, kind in kinds.items() if schedules.fits(kind, model.length)}
    start = measuring.blank(model, tokens, seed)
    return measuring.measured(model, wanted, tokens, seed, measuring.POINTS, start, lambda each: None)[0]


def _bits(nats: float, length: int) -> float:
    return nats / length / math.log(2)


def _sizes(plan: Forecast, length: int) -> str:
    values = plan.sizes
    if values.tolist() == Even(values.size).sizes(length).tolist():
        whole = length % values.size == 0
        return f"even sizes, {values[0]} tokens each" if whole else f"even sizes, {values[0]} or {values[-1]} tokens"
    return f"the sizes {abbreviated(values, 16)}"


def _title(name: str) -> str:
    return f"{name.removeprefix('comb-')} comb segments ({name})" if name.startswith("comb-") else f"{name} order"


def sentences(advice: Advice, calibration: Calibration, target: float | None) -> list[str]:
    """The advice for people: what to do, what it costs, what else there is, and what is not known yet."""
    length, steps = calibration.length, counted(advice.steps, "step")
    best, cost = _bits(advice.best, length), _bits(advice.plan.nll, length)
    above = cost - best
    result = [f"Take {steps}: {_title(advice.order)}, {_sizes(advice.plan, length)}."]
    price = (
        f"Predicted cost: {cost:.3f} bits per token (standard error about "
        f"{_bits(advice.plan.error, length):.3f}), which is {abs(above):.3f} {'above' if above >= 0 else 'below'} the "
        f"best one-by-one likelihood among the measured orders, {best:.3f} in {_title(advice.reference)} with "
        f"{counted(length, 'step')}."
    )
    if target is not None and advice.limit is not None:
        kept = advice.plan.nll <= advice.limit * (1 + 1e-12)
        price += f" The target of {target:g} bits per token above it is {'kept' if kept else 'missed'}."
        if _bits(advice.plan.error, length) > target:
            price += " The standard error is larger than the target: calibrate with more --texts before relying on it."
    result.append(price)
    name, count, least = advice.least
    if least < advice.best * (1 - 1e-9):
        result.append(
            f"The least of all measured costs is {_bits(least, length):.3f}, {_title(name)} with "
            f"{counted(count, 'step')}. It is below that likelihood: a target of 0 can be kept too."
        )
    if advice.runner_up is not None:
        name, plan = advice.runner_up
        more = f"The runner-up with {steps}, {_title(name)}, would cost {_bits(plan.nll, length):.3f}"
        if target is not None:
            needed = advice.runner_up_steps
            more += f" and keep the target with {counted(needed, 'step')}" if needed else " and never keep the target"
        result.append(more + ".")
    if advice.even is not None:
        even = f"Even sizes in random order would cost {_bits(advice.even, length):.3f} with {steps}"
        if target is not None:
            needed = advice.even_steps
            even += f", and need {counted(needed, 'step')} for the target" if needed else ", and never keep the target"
        result.append(even + ".")
    if calibration.missing:
        known, all_ = len(calibration.losses), len(calibration.wanted)
        result.append(
            f"Only {known} of {all_} orders are measured so far: {', '.join(calibration.missing)} "
            f"{'is' if all_ - known == 1 else 'are'} missing. Give the calibrate command again to finish it."
        )
    return result


def _record(
    advice: Advice, model_name: str | None, length: int, target: float | None, save: Path | None, words: str
) -> dict[str, Any]:
    def bits(nats: float) -> float:
        return _bits(nats, length)

    name, plan = advice.runner_up or (None, None)
    return {
        "model": model_name,
        "length": length,
        "target": target,
        "reference": {"order": advice.reference, "bits_per_token": bits(advice.best)},
        "steps": advice.steps,
        "order": advice.order,
        "sizes": advice.plan.sizes.tolist(),
        "nll": advice.plan.nll / length,
        "bits_per_token": bits(advice.plan.nll),
        "error": advice.plan.error / length,
        "above": bits(advice.plan.nll - advice.best),
        "runner_up": None
        if plan is None
        else {"order": name, "bits_per_token": bits(plan.nll), "steps_for_target": advice.runner_up_steps},
        "even_random": None
        if advice.even is None
        else {"bits_per_token": bits(advice.even), "steps_for_target": advice.even_steps},
        "schedule": advice.plan.schedule.to_json(),
        "saved": None if save is None else str(save),
        "advice": words,
    }
