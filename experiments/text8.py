"""What every schedule costs the built-in model, on text it has never seen.

    python experiments/text8.py TEXT [--model builtin] [--valid 1024] [--test 1024] [--output experiments/results]

A calibration is measured on validation text. Then the exact negative log-likelihood of each sampler is measured by
replay on windows of the test split: blind schedules for 4 to 256 steps, reactive ones for several settings. All
schedules see the same texts and the same seeds. Writes

    text8.csv              order, size, steps (mean evaluations), bits per character, the excess in nats per sequence
                           over one by one in random order, what the calibration predicted, standard errors; in the
                           committed file four rules of few steps were measured later, without their excess
    text8-samples.csv      texts generated at several numbers of steps
    calibration.json       what was measured on the validation text
"""

import math
import time
from collections.abc import Iterator

import common
import corpus
import numpy as np
import torch

from unmask import gauge, models, order, size
from unmask.calibration import Calibration, measure
from unmask.calibration import advice as advise
from unmask.evaluate.exact import Estimate
from unmask.evaluate.likelihood import replay
from unmask.sample import Sampler
from unmask.schedule import Schedule

BATCH = 1024  # texts at once: enough for a large GPU
STEPS = (4, 8, 16, 32, 64, 128, 256)
BLIND = {
    "even": size.Even,
    "cosine": size.Cosine,
    "log-linear": size.LogLinear,
    "tc": size.TC,
    "dtc": size.DTC,
    "minimax-tc": lambda steps: size.Minimax(steps, gauge.tc),
    "minimax-dtc": lambda steps: size.Minimax(steps, gauge.dtc),
    "minimax-min": lambda steps: size.Minimax(steps, gauge.both),
    "universal": size.Universal,
}
RANKED = {"confidence": order.Confidence(), "margin": order.Margin(), "entropy": order.Entropy()}
REACTIVE = {
    "entropy-bound": (order.Entropy(), size.EntropyBound, (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)),
    "threshold": (order.Confidence(), size.Threshold, (0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)),
    "factor": (order.Confidence(), size.Factor, (0.05, 0.1, 16.0)),
}
FIELDS = ("order", "size", "steps", "bits", "error", "excess", "excess_error", "predicted", "predicted_error")


def calibrated(model: models.Model, texts: torch.Tensor, batch: int) -> Calibration:
    """Every order that the table needs, measured on validation text."""
    length = texts.shape[1]
    orders = {"random": order.Random(), "spread": order.Spread(), "left-to-right": order.LeftToRight()}
    orders |= {f"comb-{length // teeth}": order.Comb(length // teeth) for teeth in STEPS[:-1]}
    losses = {}
    for name, which in orders.items():
        places = range(length) if name == "left-to-right" else range(0, length, 4) if name == "spread" else ()
        points = len(places) if places else 65
        losses[name] = measure(model.predictor, which, texts, rng=1, points=points, places=places, batch=batch)
    return Calibration(length, model.fingerprint, len(texts), losses, "text8, characters 70 to 71 million")


def schedules(calibration: Calibration) -> Iterator[tuple[str, str, Schedule]]:
    """Name of the order, name of the size, schedule."""
    length = calibration.length
    yield "random", "one by one", Schedule(size.Even(length), order.Random())
    for steps in STEPS[:-1]:
        for name, family in BLIND.items():
            yield "random", name, Schedule(family(steps), order.Random())
        yield "random", "optimal", calibration.plan("random", steps).schedule
        yield "spread", "even", Schedule(size.Even(steps), order.Spread())
        if steps <= 64:
            yield "spread", "optimal", calibration.plan("spread", steps).schedule
        yield "comb", "even", Schedule(size.Even(steps), order.Comb())
        yield "advised", "calibrated", advise.advise(calibration, steps=steps).plan.schedule
        yield "left-to-right", "even", Schedule(size.Even(steps), order.LeftToRight())
        for name, which in RANKED.items():
            yield name, "even", Schedule(size.Even(steps), which)
    yield "dilated", "rounds", Schedule(size.Explicit(order.Dilated.rounds(length)), order.Dilated())
    yield "spread", "one by one", Schedule(size.Even(length), order.Spread())
    yield "left-to-right", "one by one", Schedule(size.Even(length), order.LeftToRight())
    for name, (which, family, settings) in REACTIVE.items():
        for setting in settings:
            yield which.__class__.__name__.lower(), f"{name} {setting:g}", Schedule(family(setting), which)


def table(model: models.Model, calibration: Calibration, texts: torch.Tensor, batch: int) -> Iterator[dict]:
    """One row for each schedule; the first is the reference of the excess."""
    count, length = texts.shape
    per_character = 1 / (length * math.log(2))
    reference = None
    for order_name, size_name, schedule in schedules(calibration):
        begin = time.monotonic()
        result = replay(model.predictor, schedule, texts, rng=list(range(count)), batch=batch)
        nll = result.nll.numpy()
        reference = nll if reference is None else reference
        cost, excess = Estimate.of(nll), Estimate.of(nll - reference)
        predicted = advise.forecast(calibration, schedule)
        row = {
            "order": order_name,
            "size": size_name,
            "steps": f"{result.mean_evaluations:g}",
            "bits": f"{cost.mean * per_character:.5f}",
            "error": f"{cost.standard_error * per_character:.5f}",
            "excess": f"{excess.mean:.4f}",
            "excess_error": f"{excess.standard_error:.4f}",
            "predicted": "" if predicted is None else f"{predicted[0] * per_character:.5f}",
            "predicted_error": "" if predicted is None else f"{predicted[1] * per_character:.5f}",
        }
        print(*row.values(), f"{time.monotonic() - begin:.1f} s", flush=True)
        yield row


def samples(model: models.Model, count: int) -> Iterator[dict]:
    """Texts of the same seeds under two orders and several numbers of steps."""
    for which in (order.Random(), order.Comb()):
        for steps in (4, 8, 16, 64, 256):
            sampler = Sampler(model.predictor, Schedule(size.Even(steps), which))
            trace = sampler.run((count, model.length), rng=list(range(count)), device=model.device)
            for seed, tokens in enumerate(trace.tokens.cpu().numpy()):
                name = which.__class__.__name__.lower()
                yield {"order": name, "steps": steps, "seed": seed, "text": model.codec.decode(tokens)}


def main():
    model, valid, test, output = corpus.task(__doc__, valid=1024, test=1024)
    begin = time.monotonic()
    calibration = calibrated(model, valid, BATCH)
    calibration.save(output / "calibration.json")
    print(f"calibrated in {time.monotonic() - begin:.0f} s on {model.device}", flush=True)
    common.write(output / "text8-samples.csv", ("order", "steps", "seed", "text"), samples(model, 2))
    common.write(output / "text8.csv", FIELDS, table(model, calibration, test, BATCH))


if __name__ == "__main__":
    with torch.no_grad():
        np.seterr(all="raise", under="ignore")
        main()
