"""Overhang of each schedule over its gauge: what a guarantee is made of.

A schedule promises `E KL ≤ c · TC` for every distribution when its overhang `r_i` stays below `c (L−i)` at every rank,
and `c · DTC` when it stays below `c i`. The figure shows the two ratios. The paper's `tc` is flat at `f_tc`; the
minimax schedule is flat at about half of it, and no schedule has a lower maximum.
"""

from typing import Any

import common
import numpy as np

from unmask import gauge, plot

LENGTH, STEPS = 256, 32
SIZES = ("even", "offset", "tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "universal")
GAUGES = {"tc": gauge.tc, "dtc": gauge.dtc}


def compute() -> dict[str, dict[str, np.ndarray]]:
    """Measure -> schedule -> `r_i / g_i` for every rank."""
    overhangs = {name: make(STEPS).overhang(LENGTH) for name, make in common.families(SIZES).items()}
    return {
        key: {name: overhang / measure(LENGTH) for name, overhang in overhangs.items()}
        for key, measure in GAUGES.items()
    }


def main() -> None:
    figures, table = common.places("overhang")
    ratios = compute()
    ranks = np.arange(1, LENGTH)
    rows: list[dict[str, Any]] = [
        {"measure": key, "size": name, "rank": int(rank), "ratio": float(value)}
        for key, panel in ratios.items()
        for name, values in panel.items()
        for rank, value in zip(ranks, values, strict=True)
    ]
    common.write(table, ("measure", "size", "rank", "ratio"), rows)
    title = f"Overhang over gauge at every rank, {LENGTH} tokens in {STEPS} steps: its maximum is the guarantee"
    with plot.sheet(2, (10.5, 5.4), figures, title=title, legend_columns=4, narrow=common.narrow(figures)) as axes:
        for ax, (key, panel) in zip(axes, ratios.items(), strict=True):
            for name, values in panel.items():
                own = name in (key, f"minimax-{key}")
                look = (
                    {"zorder": 3} if own or name in ("minimax-min", "universal") else {"alpha": 0.55, "linewidth": 1.3}
                )
                ax.plot(ranks, np.where(values > 0, values, np.nan), **plot.line(name), **look)
                if own:
                    ax.annotate(
                        f"{'paper' if name == key else 'minimax'} {values.max():.3f}",
                        (160 if name == "dtc" else 6, values.max()),
                        (0, 5),
                        textcoords="offset points",
                        color=plot.line(name)["color"],
                        fontsize=10.5,
                        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.5},
                        zorder=4,
                    )
            ax.set_yscale("log")
            ax.set_ylim(0.01, 30)
            ax.set_xlim(0, LENGTH)
            ax.set_xticks(range(0, LENGTH + 1, 64))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.set_xlabel("rank $i$ of the token")
        axes[0].set_title("gauge of TC: $r_i / (L-i)$")
        axes[1].set_title("gauge of DTC: $r_i / i$")
        axes[0].set_ylabel("overhang / gauge")


if __name__ == "__main__":
    main()
