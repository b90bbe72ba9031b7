"""The paper's Figures 2(a) and 3(a) with the minimax schedules added: exact curves.

Reed–Solomon codes of length 2000 over 2048 letters, with 5 check tokens (low TC) and with 5 free ones (low DTC). At the
same number of steps the minimax schedule makes about half the error of the paper's scheme for that measure, and
`minimax-min` about the same error as each of the paper's two.
"""

from typing import Any

import common
import numpy as np

from unmask import evaluate, plot
from unmask import paper as reproduce
from unmask.distribution import ReedSolomon

STEPS = tuple(range(50, 1001, 10))
PANELS = {  # title -> dimension of the code, schedules
    "low TC: 5 check tokens of 2000": (reproduce.LENGTH - reproduce.FEW, ("offset", "tc", "minimax-tc", "minimax-min")),
    "low DTC: 5 free tokens of 2000": (reproduce.FEW, ("offset", "dtc", "minimax-dtc", "minimax-min")),
}


def compute(steps: tuple[int, ...] = STEPS) -> dict[str, dict[str, np.ndarray]]:
    """Panel -> schedule -> expected KL at each number of steps."""
    result = {}
    for title, (dimension, names) in PANELS.items():
        curve = ReedSolomon(reproduce.LENGTH, dimension, reproduce.ALPHABET).curve()
        families = common.families(names, curve)
        result[title] = {name: evaluate.tradeoff(family, curve, steps) for name, family in families.items()}
    return result


def main() -> None:
    figures, table = common.places("minimax")
    errors = compute()
    rows: list[dict[str, Any]] = [
        {"dimension": PANELS[title][0], "size": name, "steps": count, "expected_kl": float(value)}
        for title, panel in errors.items()
        for name, values in panel.items()
        for count, value in zip(STEPS, values, strict=True)
    ]
    common.write(table, ("dimension", "size", "steps", "expected_kl"), rows)
    title = "The paper's Figures 2(a) and 3(a) with minimax schedules: about half the error"
    with plot.sheet(2, (10.5, 4.9), figures, title=title, narrow=common.narrow(figures)) as axes:
        for ax, (panel, curves) in zip(axes, errors.items(), strict=True):
            for name, values in curves.items():
                label = {"label": "equal sizes, random phase"} if name == "offset" else {}
                ax.plot(STEPS, values, **plot.line(name) | label)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks([50, 100, 200, 500, 1000])
            ax.set_xticks([], minor=True)
            ax.xaxis.set_major_formatter("{x:.0f}")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.set_xlabel("number of steps $K$")
            ax.set_title(panel)
        axes[0].set_ylabel(plot.ERROR)


if __name__ == "__main__":
    main()
