"""What a schedule costs the built-in model against how often it asks it: the figure of docs/results.md.

    python experiments/evaluations.py [FOLDER]

Draws `results/text8.csv`, which `text8.py` measured on test text.
"""

import common
import numpy as np

from unmask import plot

LINES = {
    "random order, even sizes": (("random", "even"), {"color": "#D55E00"}),
    "random order, optimal sizes": (("random", "optimal"), {"color": "#000000"}),
    "random order, the paper's $\\pi_{\\mathrm{dtc}}$": (("random", "dtc"), {"color": "#009E73", "dashes": (5, 2)}),
    "spread order, even sizes": (("spread", "even"), {"color": "#56B4E9"}),
    "comb order, even sizes": (("comb", "even"), {"color": "#0072B2", "linewidth": 2.6}),
    "entropy bound": (("entropy", "entropy-bound"), {"color": "#AA3377", "dashes": (2, 1.5)}),
    "confidence threshold": (("confidence", "threshold"), {"color": "#E69F00", "dashes": (2, 1.5)}),
}


def points(rows: list[dict[str, str]], order: str, size: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean evaluations and bits per character of all settings of a rule, by ascending evaluations."""
    mine = [(float(r["steps"]), float(r["bits"])) for r in rows if r["order"] == order and r["size"].split()[0] == size]
    steps, bits = np.array(sorted(mine)).T
    return steps, bits


def main() -> None:
    rows = common.read("text8.csv")
    figures, _ = common.places("evaluations")
    whole = {r["order"]: float(r["bits"]) for r in rows if r["size"] == "one by one"}
    title = "Sixteen steps of a comb beat 256 steps in random order"
    with plot.sheet(1, (9.0, 5.6), figures, title=title, legend_columns=3) as (ax,):
        for label, ((order, size), look) in LINES.items():
            ax.plot(*points(rows, order, size), label=label, marker="o", markersize=3.5, **look)
        for order, name in (("random", "one by one, random order"), ("left-to-right", "one by one, left to right")):
            ax.axhline(whole[order], color="#777777", linewidth=1)
            ax.text(4, whole[order] - 0.004, name, color="#555555", fontsize=10, va="top")
        ax.set_xscale("log", base=2)
        ax.set_xticks([4, 8, 16, 32, 64, 128, 256])
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_ylim(1.6, 2.3)
        ax.set_xlabel("evaluations of the model per text of 256 characters")
        ax.set_ylabel("bits per character, in all")


if __name__ == "__main__":
    main()
