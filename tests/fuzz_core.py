"""Calls of the public Python core with arguments that a person might give, and some that nobody would.

    python tests/fuzz_core.py --calls 77000 --seed 1      many calls; what went wrong, each as a line that repeats it
    python tests/fuzz_core.py --show 12 --seed 1          what call number 12 is, and what comes of it

Every public class and function of the parts below is called in turn, and every method of an object of each class. An
argument is drawn from values that will do and, one time in four, from absurd ones: nothing, text, huge numbers, NaN,
complex arrays, wrong shapes, modules, functions, generators. Each value is a piece of Python, so that a call can be
copied. The laws:

* a call returns, or raises `InputError`, whose message names an argument or says what is wrong in a sentence or two;
* what it returns is sane: sizes sum to the length, probabilities to 1, and numbers are numbers;
* it takes less than 30 s of a processor and less than 4 GB.

Calls run in a forked child, whose memory is limited and whose clock is watched. If it dies, another one goes on.
What reads or writes a file may also raise `OSError`.
"""

import argparse
import contextlib
import datetime  # noqa: F401 - the pieces of Python below speak of it, as of the next two
import decimal  # noqa: F401
import fractions  # noqa: F401
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
from pathlib import Path

import numpy as np
import torch

import unmask
from fuzz_core_values import ABSURD, FUNCTIONS, GOOD, MADE_HERE, OBJECTS
from unmask import InputError

PARTS = (
    "size", "order", "gauge", "bounds", "information", "distribution", "schedule", "predict", "sample", "evaluate",
    "calibration",
    "data",
)  # fmt: skip
SECONDS, BYTES = 30, 4 * 2**30


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
    for part in ("distribution", "predict", "sample"):
        module = importlib.import_module(f"unmask.{part}")
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
    """Everything that is public in the parts: what can be called, and what can be read of an object."""
    found = []
    for part in PARTS:
        module = importlib.import_module(f"unmask.{part}")
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in sorted(getattr(module, "__all__", own)):
            value, where = getattr(module, name), f"{part}.{name}"
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
    """The values that will do for an argument: those of what is called, of its class, of its part, or of its name."""
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
            if each == "draws" and chosen[each] == "10**6":  # which a person may well wait for
                chosen[each] = "-1"
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
            if np.any(result < 0) or np.any(result.sum(axis=-1) != int(length)):
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
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    signal.signal(signal.SIGPROF, _ring)
    warnings.simplefilter("ignore")
    for index in range(start, stop):
        target, chosen = call_of(index, seed, everything)
        write({"begin": index})
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said = outcome(target, chosen, names)
        except TooLong:
            said = f"took over {SECONDS} s"
        except Exception as error:
            said = f"could not be judged: {error!r}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
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
                if not select.select([pipe], [], [], 6 * SECONDS)[0]:
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
    parser.add_argument("--json", action="store_true", help="Print what was found for a program to read.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.show is not None:
        target, chosen = call_of(options.show, options.seed, targets())
        print(written(target, chosen), outcome(target, chosen, namespace()), sep="\n→ ")
        return 0
    began = time.monotonic()
    outcomes, wrong = hunt(options.calls, options.seed)
    counts = Counter(said if said in ("accepted", "refused") else "wrong" for said in outcomes.values())
    if options.json:
        calls = Counter(call_of(index, options.seed, targets())[0].name for index in outcomes)
        print(json.dumps({"counts": counts, "calls": calls, "wrong": wrong}))
        return 1 if wrong else 0
    for call, said in wrong:
        print(f"{call}\n    → {said}")
    print(f"{dict(counts)} of {options.calls} calls, {len(targets())} things, in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
