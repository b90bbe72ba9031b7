"""The sentences that answer bad arguments."""

import numpy as np
import pytest

from unmask import _check as check
from unmask import bounds, evaluate, gauge, size
from unmask.distribution import Parity
from unmask.evaluate.enumeration import output_law
from unmask.information.curve import Curve


class Elsewhere:
    """What numpy cannot reach: numbers on a GPU, say."""

    def __array__(self, *options, **more):
        raise TypeError("can't convert it")


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: check.integer("steps", 0, least=1), ValueError, "Argument 'steps' must be at least 1, not 0."),
        (lambda: check.integer("steps", 9, most=4), ValueError, "Argument 'steps' must be at most 4, not 9."),
        (lambda: check.integer("steps", 1.0), ValueError, "Argument 'steps' must be an integer, not 1.0."),
        (lambda: check.integer("steps", True), ValueError, "Argument 'steps' must be an integer, not True."),
        (lambda: check.integer("steps", "3"), ValueError, "Argument 'steps' must be an integer, not '3'."),
        (lambda: check.real("target", "x"), ValueError, "Argument 'target' must be a number, not 'x'."),
        (lambda: check.real("target", np.nan), ValueError, "Argument 'target' must be finite, not nan."),
        (lambda: check.real("target", -1, least=0), ValueError, "Argument 'target' must be at least 0, not -1."),
        (lambda: check.real("target", 0, above=0), ValueError, "Argument 'target' must be greater than 0, not 0."),
        (
            lambda: check.known("size", "evn", ["even", "tc"]),
            ValueError,
            "Argument 'size' must be a known name, not 'evn'. Did you mean 'even'?",
        ),
        (
            lambda: check.known("size", "zzz", ["even", "tc"]),
            ValueError,
            "Argument 'size' must be a known name, not 'zzz'. Choose from even, tc.",
        ),
        (
            lambda: check.probabilities("weights", [0.5, 0.4]),
            ValueError,
            "Argument 'weights' must sum to 1, but the sum is off by 0.1.",
        ),
        (
            lambda: Curve([1.0, 2.0]),
            ValueError,
            "Argument 'loss' must not increase, but it rises by 1 from 0 to 1 visible tokens.",
        ),
        (lambda: Curve(["a"]), ValueError, "Argument 'loss' must hold numbers, not text."),
        (
            lambda: Curve([[1.0], [1.0, 2.0]]),
            ValueError,
            "Argument 'loss' must be an array, not rows of different lengths.",
        ),
        (
            lambda: check.tokens("tokens", [[1], [1, 2]], length=2, vocab=3),
            ValueError,
            "Argument 'tokens' must be an array, not rows of different lengths.",
        ),
        (
            lambda: size.Optimal(2, Parity(4)),
            ValueError,
            "Argument 'curve' must be an unmask.Curve, not a Parity. "
            "To get the curve of a distribution, call distribution.curve().",
        ),
        (
            lambda: size.Even(2).cut_probabilities(2.5),
            ValueError,
            "Argument 'length' must be an integer, not 2.5.",
        ),
        (
            lambda: bounds.steps_for_dtc("a", 1.0, 1.0),
            ValueError,
            "Argument 'length' must be an integer, not 'a'.",
        ),
        (
            lambda: evaluate.tradeoff(size.Even, Curve([1.0, 0.5]), [1.5]),
            ValueError,
            "Argument 'steps' must be an integer, not np.float64(1.5).",
        ),
        (
            lambda: gauge.guarantee([1.0], [1.0, 2.0]),
            ValueError,
            "Argument 'gauge' must have the shape of 'overhang', (1,), not (2,).",
        ),
        (
            lambda: output_law(Parity(2).marginals, size.Even(1), [[0.5, 0.25, 0.25]]),
            ValueError,
            "Argument 'target' must have one axis per token, all of equal size, but its shape is (1, 3).",
        ),
        (lambda: Curve([None]), ValueError, "Argument 'loss' must hold numbers, not objects."),
        (
            lambda: check.tokens("tokens", ["ab"], length=2, vocab=3),
            ValueError,
            "Argument 'tokens' must hold integers, not text.",
        ),
        (
            lambda: check.array("tokens", Elsewhere()),
            ValueError,
            "Argument 'tokens' must be an array, not an Elsewhere.",
        ),
        (lambda: Curve([1.0, -0.5]), ValueError, "Argument 'loss' must not be negative, but it ends at -0.5."),
        (lambda: Curve([]), ValueError, "Argument 'loss' must be a non-empty list of finite numbers."),
    ],
)
def test_bad_arguments_get_one_sentence(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


def test_numpy_integers_are_integers():
    assert check.integer("steps", np.int32(4)) == 4
