"""Sizes that look at predictions, on rankings made by hand."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import size  # noqa: E402
from unmask.size import Ranked  # noqa: E402


class Given(Ranked):
    """Confidences or entropies written down, the same for one sequence."""

    def __init__(self, values, longest=None):
        self.values = torch.zeros(1, longest or len(values), dtype=torch.float64)
        self.values[0, : len(values)] = torch.tensor(values, dtype=torch.float64)
        self.valid = torch.arange(self.values.shape[1])[None] < len(values)

    @property
    def confidence(self):
        return self.values

    @property
    def entropy(self):
        return self.values


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.9, 0.75, 0.5], 2), ([0.75, 0.75, 0.75], 3), ([0.9, 0.75 - 1e-12, 0.9], 1), ([0.1, 0.9], 1), ([], 0)],
)
def test_a_threshold_accepts_what_is_equal_to_it(values, expected):
    """The leading positions with confidence at least 0.75, and always one where there is any."""
    assert size.Threshold(0.75).count(Given(values, longest=4)).tolist() == [expected]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.5, 0.25, 0.25], 3), ([0.25, 0.5, 0.25], 3), ([0.5, 0.25, 0.25 + 1e-12], 2), ([2.0, 2.0], 1), ([], 0)],
)
def test_an_entropy_bound_accepts_what_is_equal_to_it(values, expected):
    """The longest prefix with Σ H − max H ≤ 0.5."""
    assert size.EntropyBound(0.5).count(Given(values, longest=4)).tolist() == [expected]


@pytest.mark.parametrize(("values", "expected"), [([0.5, 0.75, 0.8], 3), ([0.5, 0.66], 1), ([0.5, 2 / 3, 0.74], 2)])
def test_a_factor_asks_for_more_at_every_rank(values, expected):
    """The r-th confidence at least 1 − 1/(r+1): one half, two thirds, three quarters."""
    assert size.Factor(1.0).count(Given(values)).tolist() == [expected]


def test_bounds_on_another_size():
    ranked = Given([0.9, 0.9, 0.9, 0.1, 0.1])
    assert size.AtMost(size.Threshold(0.5), 2).count(ranked).tolist() == [2]
    assert size.AtLeast(size.Threshold(0.5), 4).count(ranked).tolist() == [4]
    assert size.AtLeast(size.Threshold(0.5), 9).count(ranked).tolist() == [5]
    with pytest.raises(ValueError, match="'size' must be a size that looks at predictions, not Even"):
        size.AtMost(size.Even(2), 2)  # pyright: ignore[reportArgumentType]


def test_to_make_a_reactive_size_needs_no_torch():
    code = "import sys; from unmask import size; size.AtMost(size.Threshold(), 3); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_numbers_of_a_rule_are_checked():
    for wrong in (1.5, -0.1, np.nan, "a"):
        with pytest.raises(ValueError, match="Argument 'threshold' must be "):
            size.Threshold(wrong)
    with pytest.raises(ValueError, match="Argument 'bound' must be at least 0, not -1"):
        size.EntropyBound(-1)
