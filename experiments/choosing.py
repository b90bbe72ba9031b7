"""The decision tree of `docs/choosing.md`: four questions, and what to take where the answer is yes."""

from collections.abc import Sequence
from pathlib import Path

import common

from unmask import plot

# Question -> what to take if the answer is yes, and what that is worth.
TREE = {
    "Greedy decoding?": ("Confidence or Entropy order,\nThreshold or EntropyBound", "no guarantee:\njudge by quality"),
    "Loss curve known?": ("Optimal(K, curve)\nin random order", "no sizes do better"),
    "Unseen text at hand?": (
        "calibrate, then advise:\norder, steps and sizes",
        "as good as the text:\ncheck by replay",
    ),
    "Guarantee for all data?": ("Minimax(K, gauge)\nin random order", "the best worst case:\ncosts a logarithm more"),
}
ELSE = ("Even(K) in Comb or\nSpread order", "for text, without a guarantee; other data: see the atlas")


QUESTION = {"boxstyle": "round,pad=0.55", "facecolor": "#eef1fb", "edgecolor": "#4051b5"}
LEAF = {"boxstyle": "round,pad=0.45", "facecolor": "#ffffff", "edgecolor": "#999999"}
ARROW = {"arrowstyle": "->", "color": "#555555", "linewidth": 1.3}
QUIET = {"va": "center", "color": "#555555", "fontsize": 10.5}


def wide(figures: Sequence[Path]) -> None:
    """Questions below one another, and beside each what to take and what that is worth."""
    with plot.sheet(1, (8.6, 5.2), figures) as axes:
        ax = axes[0]
        ax.set(xlim=(0, 11), ylim=(len(TREE) + 0.4, -0.4))
        ax.axis("off")
        for row, (asked, (take, worth)) in enumerate(TREE.items()):
            ax.annotate("", (4.6, row), (3.4, row), arrowprops=ARROW)
            ax.annotate("", (1.75, row + 0.74), (1.75, row + 0.2), arrowprops=ARROW)
            ax.text(3.95, row - 0.12, "yes", ha="center", **QUIET)
            ax.text(1.85, row + 0.46, "no", ha="left", **QUIET)
            ax.text(1.75, row, asked, ha="center", va="center", fontweight="bold", bbox=QUESTION)
            ax.text(4.75, row, take, ha="left", va="center", bbox=LEAF)
            ax.text(8.75, row, worth, ha="left", **QUIET)
        take, worth = ELSE
        ax.text(1.75, len(TREE), take, ha="center", va="center", bbox=LEAF)
        ax.text(3.5, len(TREE), worth, ha="left", **QUIET)


def tall(figures: Sequence[Path]) -> None:
    """The same for phones: what to take, and what that is worth, below its question."""
    with plot.sheet(1, (4.9, 7.6), figures) as axes:
        ax = axes[0]
        ax.set(xlim=(0, 10), ylim=(2 * len(TREE) + 1.1, -0.5))
        ax.axis("off")
        for place, (asked, (take, worth)) in enumerate(TREE.items()):
            row = 2 * place
            ax.annotate("", (0.5, row + 1.72), (0.5, row + 0.32), arrowprops=ARROW)
            ax.annotate("", (1.65, row + 0.62), (1.65, row + 0.32), arrowprops=ARROW)
            ax.text(0.7, row + 1.53, "no", ha="left", **QUIET)
            ax.text(1.85, row + 0.46, "yes", ha="left", **QUIET)
            ax.text(0.2, row, asked, ha="left", va="center", fontweight="bold", bbox=QUESTION)
            ax.text(1.15, row + 1, take, ha="left", va="center", bbox=LEAF)
            ax.text(6.9, row + 1, worth, ha="left", **QUIET)
        take, worth = ELSE
        ax.text(0.2, 2 * len(TREE) + 0.2, take, ha="left", va="center", bbox=LEAF)
        ax.text(0.2, 2 * len(TREE) + 0.85, worth, ha="left", **QUIET)


def main() -> None:
    figures, _ = common.places("choosing")
    wide(figures)
    tall(common.narrow(figures))


if __name__ == "__main__":
    main()
