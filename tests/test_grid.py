"""Orders on grids and orders that are written down: combs of lattices, and the positions of each step."""

import numpy as np
import pytest

from unmask import InputError, order, size
from unmask.schedule import Schedule


def arranged(which, length, steps=None, positions=None, seed=0):
    positions = np.arange(length) if positions is None else positions
    return which.arrange(positions, length=length, steps=steps, rng=np.random.default_rng(seed))


def nearest(cells):
    """The smallest squared distance between two of some cells."""
    apart = ((cells[:, None] - cells[None]) ** 2).sum(axis=2)
    return apart[~np.eye(len(cells), dtype=bool)].min(initial=10**9)


@pytest.mark.parametrize("width", [1, 2, 5, 12, 31])
def test_a_grid_of_one_row_is_a_comb(width):
    for steps in range(1, width + 1):
        for seed in range(3):
            grid = arranged(order.CombGrid(1, width), width, steps, seed=seed)
            np.testing.assert_array_equal(grid, arranged(order.Comb(), width, steps, seed=seed))


@pytest.mark.parametrize(("height", "width"), [(2, 2), (3, 4), (5, 6), (8, 8)])
def test_two_teeth_are_a_chessboard(height, width):
    for seed in range(4):
        walk = arranged(order.CombGrid(height, width), height * width, 2, seed=seed)
        for part in np.array_split(walk, 2):  # even sizes, the longer first
            row, column = np.divmod(part, width)
            assert len(set((row + column) % 2)) == 1


@pytest.mark.parametrize("teeth", [3, 4, 5, 7, 8, 13, 16, 30, 64])
def test_no_other_small_skew_keeps_the_cells_of_a_tooth_farther_apart(teeth):
    side = 12
    row, column = np.divmod(np.arange(side * side), side)

    def worst(tooth):
        return min(nearest(np.stack([row, column], axis=1)[tooth == k]) for k in range(teeth))

    walk = arranged(order.CombGrid(side, side, shift=0), side * side, teeth)
    of_skew = {s: (column + s * row) % teeth for s in range(min(teeth, int(2 * np.sqrt(teeth)) + 1))}
    (mine,) = (tooth for tooth in of_skew.values() if np.all(np.diff(tooth[walk]) >= 0))
    assert worst(mine) == max(worst(tooth) for tooth in of_skew.values())


@pytest.mark.parametrize(("side", "teeth"), [(8, 8), (12, 16), (9, 5), (16, 10)])
def test_each_cell_has_the_run_of_earlier_teeth_at_its_left(side, teeth):
    """In tooth `k` of `K` the `min(k, column)` cells at the left are known, and the nearest of its own is `K` away."""
    row, column = np.divmod(np.arange(side * side), side)
    walk = arranged(order.CombGrid(side, side, teeth=teeth, shift=0), side * side)
    rank = np.argsort(walk).reshape(side, side)
    skew = next(s for s in range(teeth) if np.all(np.diff(((column + s * row) % teeth)[walk]) >= 0))
    tooth = ((column + skew * row) % teeth).reshape(side, side)
    for r in range(side):
        for c in range(side):
            run = min(tooth[r, c], c)
            assert np.all(rank[r, c - run : c] < rank[r, c])


@pytest.mark.parametrize(("height", "width", "steps"), [(8, 8, 5), (6, 10, 7), (16, 16, 13), (3, 4, 5)])
def test_even_sizes_take_whole_teeth_as_nearly_as_any_shift_allows(height, width, steps):
    length = height * width
    cuts = np.cumsum(size.Even(steps).sizes(length))

    def split(shift):
        """Tokens that come in another step than most of their tooth would have them."""
        walk = arranged(order.CombGrid(height, width, shift=shift), length, steps)
        row, column = np.divmod(walk, width)
        for skew in range(steps):
            tooth = (column + skew * row - shift) % steps
            if np.all(np.diff(tooth) >= 0):
                return np.abs(np.cumsum(np.bincount(tooth, minlength=steps)) - cuts).sum()
        raise AssertionError

    best = min(split(shift) for shift in range(steps))
    for seed in range(5):
        walk = arranged(order.CombGrid(height, width), length, steps, seed=seed)
        matching = [s for s in range(steps) if np.array_equal(
            walk, arranged(order.CombGrid(height, width, shift=s), length, steps))]  # fmt: skip
        assert matching
        assert split(matching[0]) == best


def test_what_is_given_does_not_move_the_teeth():
    which = order.CombGrid(6, 6, teeth=4, shift=1)
    whole = arranged(which, 36)
    some = np.flatnonzero(np.random.default_rng(0).random(36) < 0.5)
    np.testing.assert_array_equal(arranged(which, 36, positions=some), whole[np.isin(whole, some)])


def test_a_written_order_is_taken_as_it_stands():
    which = order.Sets([[5, 0], [2], [4, 1, 3]])
    for seed in range(3):
        assert arranged(which, 6, 3, seed=seed).tolist() == [5, 0, 2, 4, 1, 3]
    assert arranged(which, 6, 3, positions=np.array([1, 2, 5])).tolist() == [5, 2, 1]
    assert which.sizes == (2, 1, 3)
    assert which.length == 6
    assert which.fixed
    assert order.Sets([2, 0, 1]) == order.Sets(np.array([[2], [0], [1]]))


@pytest.mark.parametrize("which", [order.Sets([[5, 0], [2], [4, 1, 3]]), order.CombGrid(2, 3, shift=1)])
def test_orders_of_grids_and_tables_come_back_from_a_file(which, tmp_path):
    schedule = Schedule(size.Explicit([2, 1, 3]), which)
    schedule.save(tmp_path / "schedule.json")
    assert Schedule.load(tmp_path / "schedule.json") == schedule
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        ([], "Argument 'sets' must hold at least one position in each step."),
        ([[0], []], "Argument 'sets' must hold at least one position in each step."),
        ([[0, 1], [1]], "Argument 'sets' must hold each position from 0 to 2 exactly once."),
        ([[0, 7]], "Argument 'sets' must hold each position from 0 to 1 exactly once."),
        ([0, -1], "Argument 'sets' must be at least 0, not -1."),
        ([[0.5]], "Argument 'sets' must be an integer, not 0.5."),
        (
            "01",
            "Argument 'sets' must hold a list of positions for each step, or be one list of all positions, not '01'.",
        ),
        (
            ["01"],
            "Argument 'sets' must hold a list of positions for each step, or be one list of all positions, not '01'.",
        ),
        (3, "Argument 'sets' must hold a list of positions for each step, or be one list of all positions, not 3."),
        ([[0], [10**30]], "Argument 'sets' must be at most 16777215, not a number of 31 digits."),
    ],
)
def test_a_table_that_is_no_order_gets_one_sentence(sets, sentence):
    with pytest.raises(InputError) as caught:
        order.Sets(sets)
    assert str(caught.value) == sentence


def test_bad_grids_get_one_sentence():
    with pytest.raises(InputError, match="Argument 'width' must be at least 1, not 0"):
        order.CombGrid(2, 0)
    with pytest.raises(InputError, match="Argument 'teeth' must be at least 1, not 0"):
        order.CombGrid(2, 2, teeth=0)
    with pytest.raises(InputError, match="Argument 'length' must be 2 x 3 = 6, not 5"):
        arranged(order.CombGrid(2, 3), 5)
    with pytest.raises(InputError, match="Argument 'length' must be 2, the number of positions in the order, not 5"):
        arranged(order.Sets([1, 0]), 5)
