"""Fixed sizes against their published rules."""

import numpy as np
import pytest

from unmask import size


def test_even_sizes_are_those_of_the_llada_code():
    """Base ⌊L/K⌋, the first L mod K steps one more."""
    for length in range(1, 40):
        for steps in range(1, length + 1):
            expected = [length // steps + (k < length % steps) for k in range(steps)]
            assert size.Even(steps).sizes(length).tolist() == expected


def test_ceil_reveals_the_same_number_until_done():
    assert size.Ceil(4).sizes(10).tolist() == [3, 3, 3, 1]
    assert size.Ceil(1000).sizes(2000).tolist() == [2] * 1000
    assert size.Ceil(7).sizes(8).tolist() == [2, 2, 2, 2, 0, 0, 0]


def test_cosine_follows_the_cosine_and_never_skips_a_step():
    for length, steps in [(256, 16), (20, 20), (20, 19), (1024, 8), (5, 1)]:
        sizes = size.Cosine(steps).sizes(length)
        assert sizes.sum() == length
        assert sizes.min() >= 1
    ends = np.cumsum(size.Cosine(8).sizes(1024))
    np.testing.assert_allclose(ends / 1024, 1 - np.cos(np.pi / 2 * np.arange(1, 9) / 8), atol=1.01 / 1024)


def test_cosine_reveals_half_of_the_tokens_after_two_thirds_of_the_steps():
    """cos(π/3) = 1/2 exactly, whatever the last digit of its floating-point value."""
    for steps in range(3, 600, 3):
        assert size.Cosine(steps).sizes(1200)[: 2 * steps // 3].sum() == 600


def test_chen_sizes_follow_their_recursion():
    """N_i = ⌊N_{i−1} + (n − N_{i−1})/ζ⌋, then ones; the DTC form N'_i = ⌈N'_{i−1}(1 − 1/ζ)⌉ is its mirror."""
    for length, zeta in [(30, 4), (100, 7), (64, 2)]:
        revealed, expected = 0, []
        while (length - revealed) // zeta > 0:
            expected.append(int(np.floor(revealed + (length - revealed) / zeta)) - revealed)
            revealed += expected[-1]
        expected += [1] * (length - revealed)
        assert size.chen_sizes(length, zeta).tolist() == expected
        left, mirrored = length, []
        while left - int(np.ceil(left * (1 - 1 / zeta) - 1e-9)) > 0:
            mirrored.append(left - int(np.ceil(left * (1 - 1 / zeta) - 1e-9)))
            left -= mirrored[-1]
        assert (mirrored + [1] * left)[::-1] == expected[::-1]


def test_chen_schedules_use_exactly_the_steps_they_are_given():
    for length in (1, 2, 7, 50, 333):
        for steps in range(1, length + 1):
            sizes = size.ChenTC(steps).sizes(length)
            assert len(sizes) == steps
            assert sizes.sum() == length
            assert sizes.min() >= 1
            assert size.ChenDTC(steps).sizes(length).tolist() == sizes[::-1].tolist()


def test_the_zeta_of_chen_cong_and_li():
    """ζ = 1 + ⌈TC/ε⌉."""
    assert [size.chen_zeta(tc, 0.5) for tc in (0.0, 0.4, 0.5, 0.6, 10.0)] == [1, 2, 2, 3, 21]


def test_chen_schedule_for_a_target_keeps_its_promise_on_mds_codes():
    """With ζ = 1 + ⌈TC/ε⌉ the expected KL on a code of that TC is at most ε."""
    length, target = 200, 0.5
    for dimension in (199, 195, 150):
        tc = (length - dimension) * np.log(256)
        schedule = size.Explicit(size.chen_sizes(length, size.chen_zeta(tc, target)))
        assert schedule.overhang(length)[dimension - 1] * np.log(256) <= target


def test_explicit_sizes_are_checked():
    with pytest.raises(ValueError, match="at least 1"):
        size.Explicit([1, 0, 2])
    with pytest.raises(ValueError, match="must hold integers"):
        size.Explicit([1.5, 2.0])
    with pytest.raises(ValueError, match="must be the sum of the sizes, 6, not 7"):
        size.Explicit([1, 2, 3]).sizes(7)
    assert size.Explicit([1, 2, 3]).steps == 3
