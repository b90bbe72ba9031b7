"""The decision tree of `docs/choosing.md`: four questions, and what to take where the answer is yes."""

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


def main() -> None:
    figures, _ = common.places("choosing")
    question = {"boxstyle": "round,pad=0.55", "facecolor": "#eef1fb", "edgecolor": "#4051b5"}
    leaf = {"boxstyle": "round,pad=0.45", "facecolor": "#ffffff", "edgecolor": "#999999"}
    arrow = {"arrowstyle": "->", "color": "#555555", "linewidth": 1.3}
    quiet = {"va": "center", "color": "#555555", "fontsize": 10.5}
    with plot.sheet(1, (8.6, 5.2), figures) as axes:
        ax = axes[0]
        ax.set(xlim=(0, 11), ylim=(len(TREE) + 0.4, -0.4))
        ax.axis("off")
        for row, (asked, (take, worth)) in enumerate(TREE.items()):
            ax.annotate("", (4.6, row), (3.4, row), arrowprops=arrow)
            ax.annotate("", (1.75, row + 0.74), (1.75, row + 0.2), arrowprops=arrow)
            ax.text(3.95, row - 0.12, "yes", ha="center", **quiet)
            ax.text(1.85, row + 0.46, "no", ha="left", **quiet)
            ax.text(1.75, row, asked, ha="center", va="center", fontweight="bold", bbox=question)
            ax.text(4.75, row, take, ha="left", va="center", bbox=leaf)
            ax.text(8.75, row, worth, ha="left", **quiet)
        take, worth = ELSE
        ax.text(1.75, len(TREE), take, ha="center", va="center", bbox=leaf)
        ax.text(3.5, len(TREE), worth, ha="left", **quiet)


if __name__ == "__main__":
    main()
