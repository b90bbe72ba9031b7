"""Sudoku: 9×9 boards, to be filled from clues.

Full boards are found by a search that tries digits in random order. Each is turned into ten training boards by random
symmetries: digits renamed, rows permuted within bands and bands among each other, columns likewise, rows and columns
exchanged. Boards to measure on are fresh ones, from which clues are removed in random order for as long as the solution
stays unique and their number is above one drawn for each board.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

from unmask._compiled import compiled

CELLS = 81
FEWEST, MOST = 26, 34  # clues that a puzzle aims at
SEED = 9


@compiled
def search(board: NDArray[np.int8], digits: NDArray[np.int8], most: int) -> int:
    """Fill the empty cells of a board; the cell with the fewest possible digits goes first.

    Arguments:
        board: Digits from 0 to 8, or −1 for an empty cell; it is left as the last solution if there are `most`, and
            as it was otherwise.
        digits: The order in which digits are tried in each cell, shape `(81, 9)`.
        most: The number of solutions to stop at.

    Returns:
        How many solutions were found: all, or `most`.
    """
    free = np.full((3, 9), 511, dtype=np.int64)  # digits that a row, a column and a box lack, a bit for each
    for cell in range(81):
        if board[cell] >= 0:
            bit = 1 << board[cell]
            row, column = cell // 9, cell % 9
            box = row // 3 * 3 + column // 3
            if not free[0, row] & free[1, column] & free[2, box] & bit:
                return 0
            free[0, row] ^= bit
            free[1, column] ^= bit
            free[2, box] ^= bit
    cells = np.zeros(81, dtype=np.int64)
    tried = np.zeros(81, dtype=np.int64)
    depth = found = 0
    while True:
        chosen, fewest = -1, 10
        for cell in range(81):
            if board[cell] < 0:
                row, column = cell // 9, cell % 9
                possible = free[0, row] & free[1, column] & free[2, row // 3 * 3 + column // 3]
                count = 0
                while possible:
                    possible &= possible - 1
                    count += 1
                if count < fewest:
                    chosen, fewest = cell, count
        if chosen >= 0:
            cells[depth] = chosen
            tried[depth] = 0
            depth += 1
        else:
            found += 1
            if found == most:
                return found
        while depth:  # the next digit of the last cell that has one
            cell = cells[depth - 1]
            row, column = cell // 9, cell % 9
            box = row // 3 * 3 + column // 3
            if board[cell] >= 0:
                bit = 1 << board[cell]
                free[0, row] ^= bit
                free[1, column] ^= bit
                free[2, box] ^= bit
                board[cell] = -1
            possible = free[0, row] & free[1, column] & free[2, box]
            while tried[depth - 1] < 9 and board[cell] < 0:
                digit = digits[cell, tried[depth - 1]]
                tried[depth - 1] += 1
                if possible >> digit & 1:
                    bit = 1 << digit
                    free[0, row] ^= bit
                    free[1, column] ^= bit
                    free[2, box] ^= bit
                    board[cell] = digit
            if board[cell] >= 0:
                break
            depth -= 1
        if not depth:
            return found


@compiled
def fill(boards: NDArray[np.int8], digits: NDArray[np.int8]) -> None:
    """Solve many boards; `digits` has the shape `(count, 81, 9)`."""
    for number in range(len(boards)):
        search(boards[number], digits[number], 1)


@compiled
def thin(
    boards: NDArray[np.int8], places: NDArray[np.int8], clues: NDArray[np.int64], digits: NDArray[np.int8]
) -> None:
    """Empty cells of full boards, in the order `places`, down to so many clues or as far as solutions stay unique."""
    for number in range(len(boards)):
        board = boards[number]
        left = 81
        for place in places[number]:
            if left == clues[number]:
                break
            digit = board[place]
            board[place] = -1
            if search(board.copy(), digits, 2) == 1:
                left -= 1
            else:
                board[place] = digit


def full(count: int, *, rng: np.random.Generator) -> NDArray[np.int8]:
    """So many full boards, shape `(count, 81)`."""
    boards = np.full((count, CELLS), -1, dtype=np.int8)
    for begin in range(0, count, 10_000):
        part = boards[begin : begin + 10_000]
        digits = np.tile(np.arange(9, dtype=np.int8), (len(part), CELLS, 1))
        fill(part, rng.permuted(digits, axis=2))
    return boards


def thinned(boards: NDArray[np.int8], *, rng: np.random.Generator) -> NDArray[np.int8]:
    """Puzzles with unique solutions made of full boards; an empty cell is −1."""
    puzzles = boards.copy()
    places = rng.permuted(np.tile(np.arange(CELLS, dtype=np.int8), (len(boards), 1)), axis=1)
    clues = rng.integers(FEWEST, MOST + 1, size=len(boards))
    thin(puzzles, places, clues, np.tile(np.arange(9, dtype=np.int8), (CELLS, 1)))
    return puzzles


def turned(boards: NDArray[np.uint8], *, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Each board after a random symmetry of the game."""
    count = len(boards)

    def lines() -> NDArray[np.intp]:
        """A permutation of nine lines for each board that keeps the bands."""
        bands = rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)
        within = rng.permuted(np.tile(np.arange(3), (count, 3, 1)), axis=2)
        return (3 * bands[:, :, None] + within).reshape(count, 9)

    names = rng.permuted(np.tile(np.arange(9, dtype=np.uint8), (count, 1)), axis=1)
    cells = 9 * lines()[:, :, None] + lines()[:, None, :]
    swapped = rng.random(count) < 0.5
    cells[swapped] = cells[swapped].swapaxes(1, 2)
    moved = np.take_along_axis(boards, cells.reshape(count, CELLS), axis=1)
    return np.take_along_axis(names, moved.astype(np.intp), axis=1)


@final
class Sudoku(Kind):
    name = "sudoku"
    title = KINDS[name].title
    length = CELLS
    vocab = 9
    layout = (9, 9)
    tested = 1024
    judged = ("solved",)
    bases = 150_000  # full boards that were searched for, from which training boards are made
    boards = 1_500_000  # training boards
    clues = (17, 60)  # given cells of a training board: at least, at most

    def make(self, folder: Path, shared: Path | None) -> None:
        def base() -> NDArray[np.uint8]:
            # The puzzles' boards come out of the same search, so that none of them is among those to learn. The search
            # prefers some boards to their mirror images; symmetries make up for it.
            rng = np.random.default_rng(SEED)
            found = turned(full(self.bases + self.bases // 100 + 2 * self.rows, rng=rng).astype(np.uint8), rng=rng)
            _, first = np.unique(found, axis=0, return_index=True)
            return found[np.sort(first)][: self.bases + 2 * self.rows]

        def puzzles() -> NDArray[np.uint8]:
            solved = files.load(folder, "boards")[self.bases :].astype(np.int8)
            return np.packbits(thinned(solved, rng=np.random.default_rng(SEED + 1)) < 0, axis=1)

        files.keep(folder, "boards", base)
        files.keep(folder, "hidden", puzzles)

    def read(self, folder: Path) -> Data:
        boards = files.load(folder, "boards")
        hidden = np.unpackbits(files.load(folder, "hidden"), axis=1, count=CELLS).astype(np.bool_)
        base, solved = boards[: self.bases], boards[self.bases :].astype(np.int64)
        rng = np.random.default_rng(SEED + 2)
        train = np.empty((self.boards, CELLS), dtype=np.uint8)
        for begin in range(0, self.boards, 50_000):
            part = train[begin : begin + 50_000]
            part[:] = turned(base[(begin + np.arange(len(part))) % len(base)], rng=rng)
        count = len(solved) // 2
        return Data(train, Rows(solved[:count], hidden[:count]), Rows(solved[count:], hidden[count:]))

    def visible(self, count: int, *, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Random sets of cells, their number uniform between the bounds of `clues`."""
        clues = rng.integers(self.clues[0], self.clues[1] + 1, size=(count, 1))
        return rng.permuted(np.tile(np.arange(CELLS), (count, 1)), axis=1) < clues

    def alike(self) -> NDArray[np.int64]:
        """Pairs of cells by what they share: a row, a column, a box. Distance says nothing on a board."""
        row, column = np.divmod(np.arange(CELLS), 9)
        units = (row, column, row // 3 * 3 + column // 3)
        return sum((unit[:, None] == unit).astype(np.int64) << bit for bit, unit in enumerate(units))  # pyright: ignore[reportReturnType]

    def alphabet(self, folder: Path) -> dict[str, str]:
        return {"alphabet": "123456789"}

    def text(self, tokens: NDArray[np.int64]) -> str:
        return "\n".join(" ".join(str(digit + 1) for digit in row) for row in tokens.reshape(9, 9))

    def scores(self, tokens: NDArray[np.int64], rows: Rows) -> Mapping[str, NDArray[np.float64]]:
        """Whether the board is the solution, and the share of the empty cells that are right."""
        right = tokens == rows.tokens
        cells = (right & rows.hidden).sum(axis=1) / np.maximum(rows.hidden.sum(axis=1), 1)
        return {"solved": right.all(axis=1).astype(np.float64), "cells": cells}
