"""Names at the ends of curves: they cover neither each other nor a curve, and the legend has those without room."""

import re
from itertools import pairwise

import numpy as np
import pytest

from unmask.app import labels, outcomes
from unmask.app.data import results
from unmask.app.labels import End


def spans(html):
    """Line, left edge and height of every name, the places as shares of the chart."""
    found = re.findall(r'data-line="(\d+)" style="left:([-\d.]+)%;bottom:([-\d.]+)%">([^<▾]+)</span>', html)
    return [(int(line), float(left) / 100, float(up) / 100, name) for line, left, up, name in found]


def curve(*points):
    return np.array(points, dtype=float)


def names(ends, curves):
    return [name for *_, name in spans(labels.html(ends, curves)[0])]


def test_a_name_stands_next_to_an_end_inside_the_chart_where_nothing_is_in_the_way():
    end = End("alone", 0, 0, 0.4, 0.5)
    assert names([end], [curve((0, 0.9), (0.4, 0.5))]) == ["alone"]


def test_a_name_that_would_cover_a_curve_is_left_to_the_legend():
    end = End("crowded", 0, 0, 0.4, 0.5)
    own, others = curve((0, 0.9), (0.4, 0.5)), [curve((0, at), (1, at)) for at in (0.43, 0.5, 0.57)]
    assert names([end], [own, *others]) == []


def test_a_name_covers_no_point_that_stands_by_itself():
    end, own = End("a longer name", 0, 0, 0.4, 0.5), curve((0, 0.9), (0.4, 0.5))
    places = [(left + 0.02, up) for _, left, up, _ in spans(labels.html([end], [own])[0])]
    assert len(places) == 1
    moved = spans(labels.html([end], [own, curve(*places)])[0])
    assert [(left + 0.02, up) for _, left, up, _ in moved] != places


def test_a_name_is_not_cut_off_from_its_end_by_another_curve():
    """Every place but the one below is taken, and a curve runs between that one and the end."""
    end = End("below", 0, 0, 0.4, 0.5)
    curves = [curve((0, 0.9), (0.4, 0.5)), curve((0.405, 0.52), (1, 0.52)), curve((0.405, 0.6), (1, 0.6))]
    assert names([end], curves) == ["below"]
    assert names([end], [*curves, curve((0, 0.48), (1, 0.48))]) == []


def test_names_at_the_right_edge_stand_beside_the_chart_whatever_is_in_it():
    end = End("edge", 0, 0, 1.0, 0.5)
    html, room = labels.html([end], [curve((0, 0.5), (1, 0.5))])
    assert [(left, name) for _, left, _, name in spans(html)] == [(1.0, "edge")]
    assert room == 4


@pytest.mark.parametrize("axis", results.AXES)
@pytest.mark.parametrize("which", results.WHICH)
@pytest.mark.parametrize("key", results.collections())
def test_no_name_of_the_results_lies_on_a_curve(key, which, axis):
    html = outcomes.compared(results.compare([key], axis, which))
    drawn = re.findall(r'data-kind="(?:line|points)"[^>]* d="M([-\d. ]+)"', html)
    places = [np.array(path.split(), dtype=float).reshape(-1, 2) / 1000 for path in drawn]
    assert places
    # Points along every curve, so close that no letter fits between two of them.
    share = np.linspace(0, 1, 200)
    between = [a + share[:, None] * (b - a) for path in places for a, b in pairwise(path)]
    along = np.concatenate([*places, *between])
    for _, left, up, name in spans(html):
        inside = (along[:, 0] > left + 0.006) & (along[:, 0] < left + 0.0105 * len(name))
        assert not (inside & (np.abs(1 - along[:, 1] - up) < 0.025)).any(), name
