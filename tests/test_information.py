import math

import dit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import InputError, information
from unmask.information import (
    dual_total_correlation,
    entropy,
    information_curve,
    information_sum,
    kl,
    loss_curve,
    measures,
    total_correlation,
)
from unmask.information.curve import Curve

BIT = math.log(2)


@st.composite
def joints(draw, most_length: int = 4) -> np.ndarray:
    """Random joints, many of them sparse."""
    length = draw(st.integers(1, most_length))
    vocab = draw(st.integers(2, 3))
    cells = vocab**length
    entry = st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 1000))
    weights = np.array(draw(st.lists(entry, min_size=cells, max_size=cells)), dtype=float)
    if weights.sum() == 0:
        weights[0] = 1
    return (weights / weights.sum()).reshape((vocab,) * length)


def _dit(joint: np.ndarray) -> dit.Distribution:
    outcomes = ["".join(map(str, index)) for index in np.ndindex(joint.shape)]
    return dit.Distribution(outcomes, joint.ravel().tolist(), trim=False)


@settings(max_examples=40)
@given(joints())
def test_measures_agree_with_dit(joint):
    other = _dit(joint)
    assert entropy(joint) / BIT == pytest.approx(dit.multivariate.entropy(other), abs=1e-9)
    assert total_correlation(joint) / BIT == pytest.approx(dit.multivariate.total_correlation(other), abs=1e-9)
    assert dual_total_correlation(joint) / BIT == pytest.approx(
        dit.multivariate.dual_total_correlation(other), abs=1e-9
    )


@settings(max_examples=25)
@given(joints(), st.data())
def test_conditional_measures_agree_with_dit(joint, data):
    position = st.integers(0, joint.ndim - 1)
    chosen = sorted(data.draw(st.sets(position, min_size=1)))
    known = sorted(data.draw(st.sets(position)) - set(chosen))
    other = _dit(joint)
    alone = [[i] for i in chosen]
    assert entropy(joint, chosen, known) / BIT == pytest.approx(
        dit.multivariate.entropy(other, [chosen], known), abs=1e-9
    )
    assert total_correlation(joint, chosen, known) / BIT == pytest.approx(
        dit.multivariate.total_correlation(other, alone, known), abs=1e-9
    )
    assert dual_total_correlation(joint, chosen, known) / BIT == pytest.approx(
        dit.multivariate.dual_total_correlation(other, alone, known), abs=1e-9
    )


def test_positions_default_to_all_that_are_not_given():
    joint = np.random.default_rng(0).dirichlet([1.0] * 16).reshape(2, 2, 2, 2)
    assert entropy(joint, given=[1]) == pytest.approx(entropy(joint, [0, 2, 3], [1]))
    assert total_correlation(joint, given=[1]) == pytest.approx(total_correlation(joint, [0, 2, 3], [1]))


def test_given_tokens_add_nothing():
    joint = np.random.default_rng(0).dirichlet([1.0] * 8).reshape(2, 2, 2)
    for measure in (entropy, total_correlation, dual_total_correlation):
        assert measure(joint, [0, 1], [1]) == pytest.approx(measure(joint, [0], [1]), abs=1e-12)
        assert measure(joint, [0], [0]) == pytest.approx(0.0, abs=1e-12)


def test_conditional_total_correlation_of_equal_bits_is_zero():
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[1, 1, 1] = 0.5
    assert total_correlation(joint) == pytest.approx(2 * BIT)
    assert total_correlation(joint, [0, 1], [2]) == pytest.approx(0.0, abs=1e-15)


def test_axes_may_differ_in_size():
    joint = np.random.default_rng(1).dirichlet([1.0] * 24).reshape(2, 3, 4)
    information_of = information_curve(joint)
    assert information_of[1] == pytest.approx(np.mean([entropy(joint, [i]) for i in range(3)]))
    assert information_of[3] == pytest.approx(entropy(joint))


def test_curve_in_slices_is_the_curve_at_once(monkeypatch):
    joint = np.random.default_rng(2).dirichlet([0.2] * 3**6).reshape((3,) * 6)
    whole = information_curve(joint)
    monkeypatch.setattr(measures, "_CELLS_AT_ONCE", 20)
    np.testing.assert_allclose(information_curve(joint), whole, rtol=1e-13)


def test_curve_of_parity_bits_carries_every_measure():
    joint = np.zeros((2, 2, 2, 2))
    for index in np.ndindex(joint.shape):
        joint[index] = (sum(index) % 2 == 0) / 8
    curve = Curve(loss_curve(information_curve(joint)))
    assert curve.total_correlation == pytest.approx(total_correlation(joint))
    assert curve.dual_total_correlation == pytest.approx(dual_total_correlation(joint))
    assert curve.information_sum == pytest.approx(information_sum(joint))
    assert information.drops(curve.loss) == pytest.approx([0, 0, BIT], abs=1e-14)


def test_divergence_is_infinite_off_the_support_and_zero_at_home():
    p = np.array([0.5, 0.5, 0.0])
    assert kl(p, p) == 0.0
    assert kl(p, [0.5, 0.0, 0.5]) == math.inf
    assert kl([0.5, 0.0, 0.5], [0.25, 0.5, 0.25]) == pytest.approx(BIT)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: entropy(1.0), "Argument 'joint' must have at least one axis, one per token."),
        (lambda: entropy([0.5, 0.6]), "Argument 'joint' must sum to 1, but the sum is off by 0.1."),
        (
            lambda: entropy([1.5, -0.5]),
            "Argument 'joint' must hold one or more finite numbers, none of them negative.",
        ),
        (lambda: entropy([0.5, 0.5], [1]), "Argument 'positions' must be at most 0, not 1."),
        (lambda: entropy([0.5, 0.5], [-1]), "Argument 'positions' must be at least 0, not -1."),
        (lambda: entropy([[0.5, 0.5]], [0, 0]), "Argument 'positions' must hold different positions, not [0, 0]."),
        (lambda: entropy([0.5, 0.5], given=[3]), "Argument 'given' must be at most 0, not 3."),
        (lambda: kl([1.0], [0.5, 0.5]), "Argument 'q' must have the shape of 'p', (1,), not (2,)."),
        (
            lambda: loss_curve([1.0]),
            "Argument 'information' must be a list of at least 2 numbers, but its shape is (1,).",
        ),
        (lambda: information.drops([]), "Argument 'loss' must be a list of at least 1 number, but its shape is (0,)."),
    ],
)
def test_bad_arguments_are_answered_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match="Argument") as error:
        call()
    assert str(error.value) == sentence


def test_a_joint_too_large_for_its_curve_is_refused_before_any_work():
    joint = np.zeros((2,) * 20)
    joint[(0,) * 20] = 1.0
    with pytest.raises(ValueError, match=r"at most 2\^31 cells, .* unmask.distribution.estimate_curve"):
        information_curve(joint)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_curve_may_rise_by_rounding_and_by_no_more(scale):
    """Rounding is 1e-9 of the largest value, or of 1 nat if all are smaller."""
    for rise in (0.0, 0.5e-9):
        assert Curve(scale * np.array([1.0, 0.5, 0.5 + rise])).length == 3
        assert Curve(scale * np.array([1.0, 0.5, -rise])).length == 3
    for rise in (2e-9, 1e-6, 5e-4):
        with pytest.raises(InputError, match=r"must not increase, but it rises by .* from 1 to 2 visible"):
            Curve(scale * np.array([1.0, 0.5, 0.5 + rise]))
        with pytest.raises(InputError, match="Argument 'loss' must not be negative, but it ends at -"):
            Curve(scale * np.array([1.0, 0.5, -rise]))
    with pytest.raises(InputError, match="rises"):
        Curve(np.array([1e-12, 1e-12 + 2e-9]))
    assert Curve(np.array([1e-12, 1e-12 + 0.5e-9])).drops.tolist() == [0.0]
