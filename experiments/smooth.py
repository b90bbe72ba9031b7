"""Error on smooth curves: where even sizes beat the worst-case schedules, and the optimum for the curve beats all.

A Markov chain over 27 letters, whose dependence is spread over the whole sequence, and a coin of unknown bias, whose
dependence is spent on its first tokens. Errors are divided by that of the optimal sizes.
"""

from typing import Any

import common
import numpy as np

from unmask import evaluate, plot
from unmask.distribution import Distribution, Markov, Mixture

LENGTH = 256
STEPS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SIZES = ("even", "cosine", "tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "square-root", "optimal")


def distributions() -> dict[str, Distribution]:
    """The data of the two panels."""
    return {
        "Markov chain: 27 letters, kept with probability 0.4": Markov.sticky(27, 0.4, LENGTH),
        "mixture: a coin of bias 0.4 or 0.6": Mixture([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], length=LENGTH),
    }


def compute() -> dict[str, dict[str, np.ndarray]]:
    """Distribution -> schedule -> expected KL at each number of steps."""
    result = {}
    for title, distribution in distributions().items():
        curve = distribution.curve()
        families = common.families(SIZES, curve)
        result[title] = {name: evaluate.tradeoff(family, curve, STEPS) for name, family in families.items()}
    return result


def main() -> None:
    figures, table = common.places("smooth")
    errors = compute()
    rows: list[dict[str, Any]] = [
        {"distribution": title.split(":")[0], "size": name, "steps": count, "expected_kl": float(value)}
        for title, panel in errors.items()
        for name, values in panel.items()
        for count, value in zip(STEPS, values, strict=True)
    ]
    common.write(table, ("distribution", "size", "steps", "expected_kl"), rows)
    title = "Smooth curves: even sizes often beat worst-case ones, sizes made for the curve beat all"
    with plot.sheet(2, (10.5, 5.4), figures, title=title, legend_columns=5, narrow=common.narrow(figures)) as axes:
        for ax, (panel, curves) in zip(axes, errors.items(), strict=True):
            for name, values in curves.items():
                ax.plot(STEPS, values / curves["optimal"], **plot.line(name), marker="o", markersize=3.5)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_ylim(0.9, 26)
            ax.set_xticks([4, 8, 16, 32, 64, 128])
            ax.xaxis.set_major_formatter("{x:.0f}")
            ax.set_yticks([1, 2, 5, 10, 20])
            ax.set_yticks([], minor=True)
            ax.yaxis.set_major_formatter("{x:g}")
            ax.set_xlabel("number of steps $K$")
            ax.set_title(panel)
        axes[0].set_ylabel("expected KL / that of optimal sizes")


if __name__ == "__main__":
    main()
