"""Pictures made of letters, for terminals."""

import numpy as np
from numpy.typing import NDArray

_BLOCKS = " ▁▂▃▄▅▆▇█"


def picture(values: NDArray[np.float64], *, width: int = 60, height: int = 6) -> list[str]:
    """A bar chart in block characters, one line of text per row, with the scale at its left.

    More values than columns are averaged. Values that differ by more than a factor of twenty are drawn on a
    logarithmic scale, whose bottom is half the smallest, and the last line says so. The scale then names the smallest
    value where its bar ends, and not the bottom, which is no value.
    """
    columns = min(len(values), width)
    edges = np.arange(columns + 1) * len(values) // columns
    means = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    logarithmic = means.min() > 0 and means.max() > 20 * means.min()
    top, bottom = (means.max(), means.min() / 2) if logarithmic else (means.max(), 0.0)
    share = np.log(means / bottom) / np.log(top / bottom) if logarithmic else means / top
    eighths = np.maximum(np.rint(share * height * 8).astype(int), 1)
    each = width // columns
    lowest = height - (int(eighths.min()) + 7) // 8 if logarithmic else height - 1
    labels = {0: f"{top:.3g}", lowest: f"{means.min() if logarithmic else 0.0:.3g}"}
    margin = max(len(label) for label in labels.values())
    lines: list[str] = []
    for row in range(height):
        filled = np.clip(eighths - 8 * (height - 1 - row), 0, 8)
        bars = "".join(_BLOCKS[level] * each for level in filled)
        lines.append(f"{labels.get(row, ''):>{margin}} ┤{bars}".rstrip())
    first, last = "step 1", f"step {len(values)}"
    gap = max(each * columns - len(first) - len(last), 1)
    lines.append(" " * (margin + 2) + first + " " * gap + last)
    what = "mean size of each step" if columns == len(values) else "mean size, averaged over the steps of a column"
    lines.append(" " * (margin + 2) + what + (", logarithmic scale" if logarithmic else ""))
    return lines
