"""Calls of the public Python core with arguments that a person might give, and some that nobody would.

    python tests/fuzz_core.py --calls 77000 --seed 1      many calls; what went wrong, each as a line that repeats it
    python tests/fuzz_core.py --show 12 --seed 1          what call number 12 is, and what comes of it

Every public class and function of the rooms below is called in turn, and every method of an object of each class. An
argument is drawn from values that will do and, one time in four, from absurd ones: nothing, text, huge numbers, NaN,
complex arrays, wrong shapes, modules, functions, generators. Each value is a piece of Python, so that a call can be
copied. The laws:

* a call returns, or raises `InputError`, whose message names an argument or says what is wrong in a sentence or two;
* what it returns is sane: sizes sum to the length, probabilities to 1, and numbers are numbers;
* it takes less than 30 s and less than 4 GB.

Calls run in a forked child, whose memory is limited and whose clock is watched. If it dies, another one goes on.
What reads or writes a file may also raise `OSError`.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import itertools
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
import types
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

import unmask
from unmask import InputError

ROOMS = [
    "size",
    "order",
    "gauge",
    "bounds",
    "information",
    "distribution",
    "schedule",
    "predict",
    "sample",
    "evaluate",
    "calibrate",
]
SECONDS, BYTES = 30, 4 * 2**30

ABSURD = """
None | True | False | -1 | 0 | 1 | 7 | 10**6 | 10**9 | 10**14 | 2**63 | 2**64 | 10**30 | -10**30 | 10**5000 | 0.5 | -0.5
1.5 | float("nan") | float("inf") | -float("inf") | 1e308 | -1e308 | 5e-324 | 1j | "" | "abc" | "3" | "tc" | b"x" | []
() | {} | set() | [[]] | [1, [2, 3]] | [None] | ["a"] | [1, 2] | [0.5, 0.5] | [-1, 2] | [float("nan")] | [10**30] | [1j]
range(0) | range(3) | range(10**12) | range(10**30) | {"a": 1} | Ellipsis | object() | object | int | np | np.random
math | types | print | lambda *a, **k: None | lambda *a, **k: 3 | lambda *a, **k: a[0] if a else k | iter([1, 2])
itertools.count() | itertools.repeat(0) | (i for i in range(2)) | np.random.default_rng(0) | np.random.RandomState(0)
torch.Generator() | np.int64(3) | np.uint64(2**64 - 1) | np.float32(2.5) | np.float64("nan") | np.bool_(True)
np.array(1.0) | np.array([]) | np.zeros((3, 0)) | np.zeros((2, 3)) | np.zeros(3, dtype=int) | np.ones(3, dtype=bool)
np.full(3, np.nan) | np.full(4, np.inf) | np.array([1j, 2]) | np.array(["a", "b"]) | np.array([None, 1]) | np.arange(4)
np.zeros((1,) * 20) | np.full((2, 2), 0.25) | np.datetime64("2020-01-01") | np.ma.masked | np.eye(3)
torch.zeros(0) | torch.zeros((2, 4)) | torch.zeros((2, 4), dtype=torch.complex64) | torch.full((2, 4), torch.nan)
torch.zeros((2, 4), dtype=torch.bool) | torch.zeros((2, 4), dtype=torch.int64) | torch.full((2, 4), -torch.inf)
torch.zeros((2, 4, 3)) | torch.tensor(3) | torch.tensor(float("nan")) | torch.arange(4) | torch.full((2, 4), 10**12)
torch.zeros((0, 4), dtype=torch.int64) | torch.zeros((2, 0), dtype=torch.int64) | torch.nn.Linear(2, 2) | torch.device
fractions.Fraction(1, 3) | decimal.Decimal("1.5") | datetime.date(2020, 1, 1) | memoryview(b"ab") | NotImplemented
CURVE | CHAIN | TEXTS | PREDICTOR | SCHEDULE | size.Even(2) | size.Threshold(0.5) | order.Random() | order.Confidence()
gauge.tc | Curve | size.Even | "a" * 10000
"""

# Values that will do, by the name of the argument, and before that by the room or the thing that is called.
GOOD = {
    "length": "1 | 2 | 3 | 4 | 4 | 4 | 6 | 12",
    "steps": "1 | 2 | 2 | 3 | 4",
    "count": "0 | 1 | 3",
    "rng": "0 | 7 | np.random.default_rng(1)",
    "seed": "0 | 7",
    "draws": "2 | 5",
    "sizes": "[1, 2, 1] | [2, 2] | np.array([4]) | [1, 1, 1, 1]",
    "values": "[1, 2, 1] | [0.5, 1.0, 2.0] | np.array([3, 1])",
    "curve": "CURVE | Curve([0.5]) | CHAIN.curve()",
    "curves": "[CURVE, CURVE] | [CURVE]",
    "data": "CURVE | CHAIN | Curve([1.0, 1.0])",
    "loss": "[1.0, 0.5, 0.5, 0.25] | [0.7]",
    "losses": "np.array([[1.0, 0.5], [1.0, 0.25]])",
    "information": "[0.0, 1.0, 1.5, 1.5]",
    "family": "size.Even | size.TC | size.LogLinear | lambda k: size.Minimax(k, gauge.tc)",
    "gauge": "gauge.tc | gauge.both | gauge.Vector([1.0, 2.0, 3.0])",
    "target": "0.1 | 1.0 | 5",
    "tc": "0.5 | 3.0 | 0",
    "dtc": "0.5 | 3.0 | 0",
    "masked": "None | 3",
    "n": "1 | 10 | 1000",
    "largest": "1 | 4",
    "information_sum": "0.0 | 2.5",
    "prediction_error": "0.0 | 0.1",
    "threshold": "0.0 | 0.5 | 1.0",
    "factor": "0.0 | 1.0",
    "bound": "0.0 | 1.0",
    "least": "1 | 2",
    "most": "1 | 2",
    "table": "REACH",
    "reach": "REACH",
    "zeta": "1.5 | 3",
    "dependence": "0.5 | 3.0",
    "whole": "None | 12",
    "phases": "[0.25, 0.75] | 0.5",
    "ranked": "RANKED",
    "size": "size.Even(2) | size.TC(2) | size.LogLinear(3) | size.Optimal(2, CURVE)",
    "order": "order.Random() | order.Spread() | order.Confidence() | order.Blocks(order.Random(), 2)",
    "orders": "order.Random() | order.LeftToRight() | order.Comb()",
    "schedule": "SCHEDULE | Schedule(size.Even(2), order.Confidence()) | Schedule(size.Threshold(0.5), order.Margin())",
    "schedules": "[SCHEDULE] | [SCHEDULE, Schedule(size.Even(4), order.LeftToRight())]",
    "positions": "[0, 1, 3] | np.arange(4) | np.array([2])",
    "given": "[] | [0]",
    "segments": "None | 1 | 2 | 9",
    "residues": "[0] | [1, 0] | range(3)",
    "height": "1 | 2 | 4",
    "width": "1 | 2",
    "prediction": "PREDICTION",
    "joint": "np.full((2, 2), 0.25) | [[0.5, 0.0], [0.0, 0.5]] | [0.25, 0.75] | np.full((2, 3, 2), 1 / 12)",
    "p": "[0.5, 0.5] | [1.0, 0.0]",
    "q": "[0.5, 0.5] | [0.25, 0.75]",
    "overhang": "[1.0, 0.0, 0.0] | size.Even(2).overhang(4)",
    "distribution": "CHAIN | Parity(3) | Table([[0.5, 0.0], [0.0, 0.5]])",
    "dimension": "1 | 2",
    "alphabet": "2 | 3 | 4 | 5",
    "generator": "[[1, 0, 1], [0, 1, 1]] | [[1, 1]]",
    "transition": "[[0.9, 0.1], [0.5, 0.5]] | np.full((3, 3), 1 / 3)",
    "vocab": "2 | 3 | 5",
    "stay": "0.0 | 0.5 | 0.9",
    "weights": "[0.5, 0.5] | [1.0]",
    "components": "[[0.9, 0.1], [0.1, 0.9]] | np.full((2, 3, 2), 0.5)",
    "probabilities": "np.full((2, 2), 0.25) | [0.5, 0.5] | np.full((2, 2, 2), 0.125)",
    "distribution.tokens": "[0, 1, 1] | [[0, 0, 0], [1, 1, 0]] | np.array([[1, 0, 1]])",
    "distribution.masked": "[False, True, True] | [[True] * 3, [False] * 3] | np.array([[True, False, True]])",
    "distribution.positions": "[0] | [2, 0]",
    "role": "'size' | 'order'",
    "names": "unmask.schedule.SIZES | unmask.schedule.ORDERS",
    "thing": "size.Even(3) | order.Random()",
    "schedule.data": "SCHEDULE.to_json() | SCHEDULE.to_json()['size']",
    "path": "'missing.json' | 'kept.json' | 'curve.csv' | 'gauge.json' | '.' | 'nowhere/x'",
    "monotone": "True | False",
    "calibrate.data": "CALIBRATION.to_json()",
    "calibration": "CALIBRATION",
    "name": "'random' | 'left-to-right'",
    "calibrate.target": "0.05 | 1.0 | None",
    "predictor": "PREDICTOR | Logits(MODEL, 3, 3) | Headed(BODY, HEAD, 3, 3)",
    "tokens": "TEXTS | START | torch.zeros((2, 4), dtype=torch.int32)",
    "predict.masked": "START == 3 | torch.ones((2, 4), dtype=torch.bool)",
    "rows": "None | torch.tensor([2, 3, 5]) | torch.arange(8)",
    "model": "MODEL | lambda tokens: torch.zeros((*tokens.shape, 3))",
    "body": "BODY",
    "head": "HEAD",
    "mask": "3 | 2",
    "predict.vocab": "3",
    "predict.whole": "True | False",
    "Suppressed.tokens": "[0] | [] | (1, 2)",
    "before": "[] | [0, 1]",
    "after": "[2] | []",
    "pad": "None | 0 | 2",
    "prompt": "START == 3 | torch.tensor([True, False, False, False])",
    "scale": "0 | 1.5 | -0.5",
    "temperature": "0.5 | 1.0 | 2",
    "report": "lambda done: None",
    "parts": "(torch.zeros((5, 3)),)",
    "Prediction.head": "lambda logits: logits",
    "forecast.sizes": "size.Even(2) | size.TC(2)",
    "Prediction.tokens": "torch.tensor([0, 1, 2, 0, 1])",
    "index": "torch.tensor([0, 2]) | torch.tensor([True, False, True, False, False])",
    "start": "(2, 4) | TEXTS | START | (0, 4) | (2, 0)",
    "Prediction.start": "0 | 2",
    "stop": "None | Stop(0, 1)",
    "Prediction.stop": "None | 4",
    "sample.masked": "None | START == 3",
    "sample.rng": "0 | [1, 2] | np.random.default_rng(1) | torch.Generator().manual_seed(1)",
    "evaluate.rng": "0 | np.random.default_rng(1)",
    "replay.rng": "0 | [1, 2] | torch.Generator().manual_seed(1)",
    "replays.rng": "0 | [1, 2] | torch.Generator().manual_seed(1)",
    "replay.masked": "None | START == 3",
    "replays.masked": "None | START == 3",
    "measure.masked": "None | torch.tensor([[0, 1, 1, 1], [1, 1, 1, 0]]).bool()",
    "device": "None | 'cpu' | torch.device('cpu')",
    "watch": "None | lambda state, step: None",
    "run.progress": "False",
    "progress": "lambda *done: None",
    "engine": "unmask.engine.LOCAL",
    "batch": "1 | 2 | 64",
    "seeds_of.batch": "2",
    "state": "SAMPLER.init((2, 4), rng=0)",
    "draw": "Categorical() | Greedy() | TopP(0.9)",
    "mass": "0.5 | 1.0",
    "end": "0 | 1",
    "Stop.pad": "0 | 2",
    "log_probabilities": "torch.log_softmax(torch.arange(15.0).view(5, 3), dim=-1)",
    "uniform": "torch.linspace(0, 0.99, 5)",
    "sample.rows": "torch.arange(5)",
    "decode": "str | lambda ids: 'ab'[ids[0] % 2]",
    "blank": "'_'",
    "booleans.values": "START == 3",
    "booleans.name": "'masked'",
    "evaluate.predictor": "Table([[0.5, 0.0], [0.0, 0.5]]).marginals | CHAIN.marginals",
    "replay.predictor": "PREDICTOR",
    "replays.predictor": "PREDICTOR",
    "random_order.predictor": "PREDICTOR",
    "output_law.target": "np.full((2, 2), 0.25) | [[0.5, 0.0], [0.0, 0.5]]",
    "objective.distribution": "Table([[0.5, 0.0], [0.0, 0.5]])",
    "fewest_steps_guaranteed.gauge": "gauge.tc(4) | [1.0, 2.0]",
    "guarantee.gauge": "gauge.tc(4)",
    "tradeoff.steps": "[1, 2, 4] | range(1, 3)",
    "partitions.positions": "range(3) | (0, 1, 2)",
    "partitions.sizes": "(1, 2) | (3,)",
    "Estimate.values": "[1.0, 2.0] | [0.5]",
    "points": "1 | 3 | 33",
    "places": "() | [1, 2]",
    "measure.order": "order.Random() | order.LeftToRight() | order.Comb()",
    "Blocks.order": "order.Random() | order.Entropy()",
    "AtLeast.size": "size.Threshold(0.5)",
    "AtMost.size": "size.Threshold(0.5)",
    "Schedule.size": "size.Even(2) | size.Threshold(0.5)",
    "measured_as.steps": "2",
    "shift": "np.array([0, 1])",
    "rest": "0.0 | 0.5",
    "deviation": "0.0 | 0.1",
    "row": "0 | 1",
    "visible": "0 | 1",
    "Calibration.other": "CALIBRATION",
    "Replayed.other": "unmask.evaluate.replay(PREDICTOR, SCHEDULE, TEXTS, rng=1)",
    "calibrate.rng": "0 | np.random.default_rng(1) | torch.Generator().manual_seed(1)",
    "random_order.rng": "0 | np.random.default_rng(1) | torch.Generator().manual_seed(1)",
    "ConditionalPoisson.count": "0 | 2",
}

# An object of each class whose methods are called.
OBJECTS = {
    "size.Even": "size.Even(3)", "size.Ceil": "size.Ceil(3)", "size.Cosine": "size.Cosine(3)",
    "size.Explicit": "size.Explicit([1, 2, 1])", "size.ChenTC": "size.ChenTC(2)", "size.ChenDTC": "size.ChenDTC(2)",
    "size.LogLinear": "size.LogLinear(3)", "size.Offset": "size.Offset(2)", "size.Logit": "size.Logit(2)",
    "size.TC": "size.TC(3)", "size.DTC": "size.DTC(3)", "size.Minimax": "size.Minimax(2, gauge.tc)",
    "size.Universal": "size.Universal(2)", "size.Optimal": "size.Optimal(2, CURVE)",
    "size.OptimalTable": "size.OptimalTable(2, REACH)", "size.SquareRoot": "size.SquareRoot(2, CURVE)",
    "size.Threshold": "size.Threshold(0.5)", "size.Factor": "size.Factor()", "size.EntropyBound": "size.EntropyBound(1)",
    "size.AtLeast": "size.AtLeast(size.Threshold(0.5), 2)", "size.AtMost": "size.AtMost(size.Threshold(0.5), 2)",
    "size.Paths": "size.best_paths(CURVE, 3)", "size.Scheme": "size.tc_scheme(4)",
    "size.CoefficientTable": "size.tc_scheme(6).table(3)",
    "size.ConditionalPoisson": "size.ConditionalPoisson(np.zeros(4), 2)",
    "order.Random": "order.Random()", "order.Spread": "order.Spread()", "order.SpreadGrid": "order.SpreadGrid(2, 2)",
    "order.Comb": "order.Comb()", "order.Periodic": "order.Periodic([1, 0])", "order.LeftToRight": "order.LeftToRight()",
    "order.Dilated": "order.Dilated()", "order.Confidence": "order.Confidence()", "order.Margin": "order.Margin()",
    "order.Entropy": "order.Entropy()", "order.Blocks": "order.Blocks(order.Random(), 2)",
    "gauge.Vector": "gauge.Vector([1.0, 2.0, 3.0])", "information.Curve": "CURVE",
    "distribution.Table": "Table(np.full((2, 2, 2), 0.125))", "distribution.Parity": "Parity(3)",
    "distribution.ReedSolomon": "ReedSolomon(3, 2, 3)", "distribution.LinearCode": "LinearCode([[1, 0, 1], [0, 1, 1]], 2)",
    "distribution.Markov": "Markov.sticky(2, 0.5, 3)", "distribution.LatentParity": "LatentParity(3)",
    "distribution.Mixture": "Mixture([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], length=3)",
    "schedule.Schedule": "SCHEDULE", "predict.Prediction": "PREDICTION", "predict.ExactPredictor": "PREDICTOR",
    "predict.Logits": "Logits(MODEL, 3, 3)", "predict.Headed": "Headed(BODY, HEAD, 3, 3)",
    "predict.Counted": "Counted(PREDICTOR)", "predict.Framed": "Framed(Logits(MODEL, 3, 3), [0], [1, 2], pad=0)",
    "predict.Guided": "Guided(PREDICTOR, START == 3, 1.5)", "predict.Shifted": "Shifted(PREDICTOR)",
    "predict.Suppressed": "Suppressed(PREDICTOR, [1])", "predict.Tempered": "Tempered(PREDICTOR, 2.0)",
    "predict.Watched": "Watched(PREDICTOR, lambda done: None)",
    "sample.Sampler": "SAMPLER", "sample.State": "SAMPLER.init((2, 4), rng=0)", "sample.Trace": "SAMPLER.run((2, 4), rng=0)",
    "sample.Categorical": "Categorical(0.7)", "sample.TopK": "TopK(2)", "sample.TopP": "TopP(0.9)",
    "sample.Greedy": "Greedy()", "sample.Replay": "Replay(TEXTS)",
    "evaluate.Estimate": "unmask.evaluate.Estimate.of([1.0, 2.0])",
    "evaluate.Replayed": "unmask.evaluate.replay(PREDICTOR, SCHEDULE, TEXTS, rng=0)",
    "calibrate.Calibration": "CALIBRATION", "calibrate.Curved": "CALIBRATION.losses['random']",
    "calibrate.Tabled": "CALIBRATION.losses['left-to-right']", "calibrate.Forecast": "CALIBRATION.plan('random', 2)",
}  # fmt: skip
# What the library alone makes or calls: such objects are used here as they come from it.
MADE_HERE = {
    "size.Paths",
    "size.Scheme",
    "size.CoefficientTable",
    "size.ConditionalPoisson",
    "order.Predictions",
    "distribution.CurveEstimate",
    "information.CurveFile",
    "distribution.CurveEstimate",
    "sample.State",
    "sample.Step",
    "sample.Trace",
    "evaluate.Estimate",
    "evaluate.Law",
    "evaluate.Replayed",
    "bounds.Recommendation",
    "calibrate.Advice",
    "calibrate.Calibration",
    "calibrate.Curved",
    "calibrate.Tabled",
    "calibrate.Forecast",
    "calibrate.losses_of",
    "calibrate.Groups",
    "calibrate.Predicted",
    "schedule.encode",
    "schedule.decode",
    "size.ConditionalPoisson.pmf",
    "size.ConditionalPoisson.draw",
    "size.Threshold.count",
    "size.Factor.count",
    "size.EntropyBound.count",
    "size.AtLeast.count",
    "size.AtMost.count",
} | {
    f"calibrate.{kind}.{name}"
    for kind in ("Curved", "Tabled")
    for name in ("cost_at", "shifted", "sums", "width", "spread")
}
# Arguments that are called: what they raise themselves is theirs.
FUNCTIONS = {"family", "decode", "watch", "progress", "report", "model", "body", "head", "gauge", "predictor"}


@dataclass(frozen=True)
class Target:
    """Something to call.

    Attributes:
        name: Where it is, such as "size.Even.sizes".
        code: Python that gives it.
        parameters: Its arguments; those with a default may be left out.
        required: The ones that have none.
        reads: Whether it is read instead of called.
    """

    name: str
    code: str
    parameters: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    reads: bool = False


def namespace():
    """What the pieces of Python may speak of."""
    names = {each: importlib.import_module(f"unmask.{each}") for each in ("size", "order", "gauge")}
    for room in ("distribution", "predict", "sample"):
        module = importlib.import_module(f"unmask.{room}")
        names |= {name: getattr(module, name) for name in module.__all__}
    names |= vars(sys.modules[__name__]) | {"Curve": unmask.Curve, "Schedule": unmask.Schedule}
    torch.manual_seed(0)
    table, head = torch.randn((4, 4, 3)), torch.randn((3, 3))
    for name, code in {
        "CURVE": "Curve([1.0, 0.8, 0.3, 0.1])",
        "REACH": "np.array([[1.0, 2.0, 4.0, 6.0], [0, 0.8, 1.7, 3.0], [0, 0, 0.5, 1.2], [0, 0, 0, 0.4]])",
        "CHAIN": "Markov.sticky(3, 0.5, 4)",
        "TEXTS": "torch.tensor([[0, 1, 1, 2], [2, 2, 0, 0]])",
        "START": "torch.tensor([[0, 1, 3, 3], [3, 3, 3, 3]])",
        "PREDICTOR": "ExactPredictor(CHAIN)",
        "SCHEDULE": "Schedule(size.Even(2), order.Random())",
        "SAMPLER": "Sampler(PREDICTOR, SCHEDULE)",
        "PREDICTION": "Prediction((torch.arange(15.0).view(5, 3),), lambda logits: logits, 3)",
    }.items():
        names[name] = eval(code, names)
    names["MODEL"] = lambda tokens: table[tokens.clamp(0, 3), torch.arange(tokens.shape[1]) % 4]
    names["BODY"], names["HEAD"] = names["MODEL"], lambda hidden: hidden @ head
    ranking = types.SimpleNamespace(valid=torch.tensor([[True, True, True], [True, False, False]]))
    ranking.confidence = torch.tensor([[0.9, 0.6, 0.1], [0.2, 0.0, 0.0]])
    ranking.entropy = torch.tensor([[0.1, 0.6, 1.0], [0.9, 0.0, 0.0]])
    names["RANKED"] = ranking
    randomness = {"rng" if "rng" in inspect.signature(unmask.measure).parameters else "seed": 0}
    measured = {
        "random": unmask.measure(names["PREDICTOR"], unmask.order.Random(), names["TEXTS"], **randomness),
        "left-to-right": unmask.measure(names["PREDICTOR"], unmask.order.LeftToRight(), names["TEXTS"], **randomness),
    }
    names["CALIBRATION"] = unmask.Calibration(4, "toy", 2, measured)
    return names


def targets():
    """Everything that is public in the rooms: what can be called, and what can be read of an object."""
    found = []
    for room in ROOMS:
        module = importlib.import_module(f"unmask.{room}")
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in sorted(getattr(module, "__all__", own)):
            value, where = getattr(module, name), f"{room}.{name}"
            if name.startswith("_") or inspect.ismodule(value) or not callable(value) or inspect.isabstract(value):
                continue
            bare = inspect.isclass(value) and value.__name__ in ("Order", "Size")  # what both kinds are, and no more
            if where not in MADE_HERE and not bare and isinstance(value, type | types.FunctionType):
                found.append(_target(where, f"unmask.{where}", value))
            if inspect.isclass(value) and where in OBJECTS:
                found += _methods(where, value)
    return found


def _methods(where, kind):
    for name in sorted(dir(kind)):
        if (name.startswith("_") and name != "__call__") or f"{where}.{name}" in MADE_HERE:
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, classmethod | staticmethod):
            yield _target(f"{where}.{name}", f"unmask.{where}.{name}", getattr(kind, name))
        elif isinstance(value, types.FunctionType):
            yield _target(f"{where}.{name}", f"{OBJECTS[where]}.{name}", value.__get__(object(), kind))
        elif hasattr(value, "__get__") and not inspect.isclass(value):
            yield Target(f"{where}.{name}", f"{OBJECTS[where]}.{name}", reads=True)


def _target(name, code, thing):
    parameters = inspect.signature(thing).parameters.values()
    required = frozenset(each.name for each in parameters if each.default is each.empty)
    return Target(name, code, tuple(each.name for each in parameters), required)


def _choices(text):
    return [piece.strip() for line in text.strip().splitlines() for piece in line.split(" | ")]


def good(target, parameter):
    """The values that will do for an argument: those of what is called, of its class, of its room, or of its name."""
    parts = target.name.split(".")
    for prefix in [*reversed(parts[1:]), parts[0]]:
        if f"{prefix}.{parameter}" in GOOD:
            return _choices(GOOD[f"{prefix}.{parameter}"])
    return _choices(GOOD.get(parameter, "1 | 0.5 | [1, 2] | CURVE"))


def arguments(target, rng):
    """Pieces of Python for the arguments of a call."""
    absurd, chosen = _choices(ABSURD), {}
    # Most calls have one argument that nobody would give, or none: with more, the first would hide the others.
    odd = {str(rng.choice(target.parameters))} if target.parameters and rng.random() < 0.65 else set()
    odd |= {each for each in target.parameters if rng.random() < 0.05}
    for each in target.parameters:
        if each in target.required or each in odd or rng.random() < 0.4:
            chosen[each] = str(rng.choice(absurd if each in odd else good(target, each)))
    return chosen


def call_of(index, seed, everything):
    """Call number `index`: what is called, and the pieces of Python it is called with."""
    turn, place = divmod(index, len(everything))
    shuffled = np.random.default_rng([seed, turn]).permutation(len(everything))  # everything once in every turn
    target = everything[shuffled[place]]
    return target, arguments(target, np.random.default_rng([seed, index]))


def written(target, chosen):
    """The call as a line of Python."""
    if target.reads:
        return target.code
    return f"{target.code}({', '.join(f'{name}={code}' for name, code in chosen.items())})"


def outcome(target, chosen, names):
    """What comes of a call: "accepted", "refused", or what is wrong with it."""
    thing = eval(target.code.rsplit(".", 1)[0] if target.reads else target.code, names)
    given = {name: eval(code, names) for name, code in chosen.items()}
    try:
        result = getattr(thing, target.name.rsplit(".", 1)[1]) if target.reads else thing(**given)
        if inspect.isgenerator(result):
            result = list(itertools.islice(result, 1000))
    except InputError as error:
        return _badly_said(error) or "refused"
    except OSError as error:
        return "refused" if "path" in target.parameters else f"raised {error!r}"
    except TooLong:
        raise
    except BaseException as error:
        if any(callable(given[name]) and chosen[name] in _choices(ABSURD) for name in FUNCTIONS & set(given)):
            return "refused"
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    return insane(target, given, result) or "accepted"


def _badly_said(error):
    text = str(error)
    if "\n" in text or len(text) > 700 or not text.endswith((".", "?")) or not (text[0].isupper() or text[0] in "'-`"):
        return f"badly said: {text[:300]!r}"
    if not error.argument and len(error.must) < 15:
        return f"says nothing: {text!r}"
    return None


def insane(target, given, result):
    """What is wrong with the result of an accepted call, if anything is."""
    name = target.name.rsplit(".", 1)[1]
    try:
        length = given.get("length")
        if name in ("sizes", "draw", "draw_stratified", "sizes_at") and target.name.startswith("size.") and length:
            if np.any(result < 0) or np.any(result.sum(axis=-1) != length):
                return f"sizes that do not sum to the length: {result!r}"[:200]
        elif name in ("mean_sizes", "batch_mass") and not math.isclose(result.sum(), length, rel_tol=1e-6):
            return f"mean sizes that sum to {result.sum()}"
        elif name in ("cut_probabilities", "inclusion", "exclusion") and np.any(np.abs(result - 0.5) > 0.5 + 1e-9):
            return "probabilities outside 0 to 1"
        elif name == "marginals" and np.any(np.abs(result.sum(axis=2) - 1) > 1e-9):
            return "marginals that do not sum to 1"
        elif name == "arrange" and not np.array_equal(np.sort(result), np.asarray(given["positions"])):
            return "no order of the positions"
        elif name == "log_probability" and np.any(np.asarray(result) > 1e-9):
            return "a probability above 1"
        elif name == "run" and bool(((result.tokens < 0) | (result.tokens > 2)).any()):
            return "tokens that do not exist"
    except Exception as error:
        return f"returned what is not what it says: {error!r}, {result!r}"[:300]
    return _not_numbers(result, name)


# Where infinity or NaN is an answer: outside a support, where something possible was excluded, or of one draw alone.
OPEN_ENDED = {"log_probability", "kl", "score", "of", "per_token", "logits", "log_probabilities", "losses", "nll"}


def _not_numbers(result, name):
    values = [result]
    if isinstance(result, tuple | list):
        values = list(result)[:20]
    elif hasattr(result, "__dataclass_fields__"):
        values = [getattr(result, each) for each in result.__dataclass_fields__]
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().resolve_conj().numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
        if isinstance(value, float | np.floating | np.ndarray):
            array = np.asarray(value)
            if array.dtype.kind in "fc" and np.isnan(array).any() and name not in OPEN_ENDED:
                return f"not a number: {result!r}"[:200]
    return None


class TooLong(BaseException):
    """A call took longer than it may."""


def _ring(signum, frame):
    raise TooLong


def _work(start, stop, seed, everything, write):
    """Make calls `start … stop−1` in this process, and say of each what came of it."""
    names = namespace()
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    signal.signal(signal.SIGALRM, _ring)
    warnings.simplefilter("ignore")
    for index in range(start, stop):
        target, chosen = call_of(index, seed, everything)
        write({"begin": index})
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said = outcome(target, chosen, names)
        except TooLong:
            said = f"took over {SECONDS} s"
        except Exception as error:
            said = f"could not be judged: {error!r}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        write({"index": index, "said": said, "seconds": time.monotonic() - began})


def hunt(calls, seed, tell=lambda index: None):
    """Make the calls in forked children; their outcomes by number, and what went wrong as `(call, outcome)`."""
    everything, outcomes, start = targets(), {}, 0
    namespace()  # compiles what all children will use
    while start < calls:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                os.chdir(tempfile.mkdtemp())
                with os.fdopen(writing, "w") as pipe:
                    _work(start, calls, seed, everything, lambda each: print(json.dumps(each), file=pipe, flush=True))
            finally:
                os._exit(0)
        os.close(writing)
        current, why = start, "ended without a word"
        with os.fdopen(reading) as pipe:
            while True:
                if not select.select([pipe], [], [], 2 * SECONDS)[0]:
                    os.kill(child, signal.SIGKILL)
                    why = f"took over {SECONDS} s, and could not be interrupted"
                    break
                line = pipe.readline()
                if not line:
                    break
                said = json.loads(line)
                if "begin" in said:
                    current = said["begin"]
                else:
                    outcomes[said["index"]] = said["said"]
                    tell(said["index"])
        os.waitpid(child, 0)
        if current not in outcomes:
            outcomes[current] = why
        start = max(outcomes) + 1
    wrong = [
        (written(*call_of(index, seed, everything)), said)
        for index, said in sorted(outcomes.items())
        if said not in ("accepted", "refused")
    ]
    return outcomes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, help="Make this one call, here.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.show is not None:
        target, chosen = call_of(options.show, options.seed, targets())
        print(written(target, chosen), outcome(target, chosen, namespace()), sep="\n→ ")
        return 0
    began = time.monotonic()
    outcomes, wrong = hunt(options.calls, options.seed)
    for call, said in wrong:
        print(f"{call}\n    → {said}")
    counts = Counter(said if said in ("accepted", "refused") else "wrong" for said in outcomes.values())
    print(f"{dict(counts)} of {options.calls} calls, {len(targets())} things, in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
