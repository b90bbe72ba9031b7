"""The picture of the README: which schedule for which data.

Left, dependence that sits in few tokens: 8 independent blocks of 32 tokens, each with one check token that the other 31
determine. Right, dependence that is spread evenly: a Markov chain.

The blocks form a linear code with a curve in closed form. A masked token is certain when the other `m−1` tokens of its
block are all among the `n` visible ones of the other `L−1`, which has probability `C(L−m, n−m+1) / C(L−1, n)`.
"""

from math import comb, log
from typing import Any

import common
import numpy as np

from unmask import evaluate, plot
from unmask.distribution import Markov
from unmask.information.curve import Curve

LENGTH, BLOCK, ALPHABET = 256, 32, 256
STEPS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
SIZES = {
    "even": "even",
    "cosine": "cosine",
    "tc": "tc (Zhao & Cai)",
    "minimax-min": "minimax-min (no curve needed)",
    "optimal": "optimal (for the curve)",
}


def blocks(length: int, block: int, alphabet: int) -> Curve:
    """The loss curve of independent blocks with one check token each."""
    certain = [
        comb(length - block, n - block + 1) / comb(length - 1, n) if n >= block - 1 else 0.0 for n in range(length)
    ]
    return Curve([log(alphabet) * (1 - chance) for chance in certain])


def compute() -> dict[str, dict[str, np.ndarray]]:
    """Data -> schedule -> expected KL at each number of steps."""
    curves = {
        f"checksums: one token in {BLOCK} is determined by the rest": blocks(LENGTH, BLOCK, ALPHABET),
        "Markov chain: every token depends on the next": Markov.sticky(27, 0.4, LENGTH).curve(),
    }
    return {
        title: {name: evaluate.tradeoff(family, curve, STEPS) for name, family in common.families(SIZES, curve).items()}
        for title, curve in curves.items()
    }


def main() -> None:
    figures, table = common.places("readme")
    errors = compute()
    rows: list[dict[str, Any]] = [
        {"data": title.split(":")[0], "size": name, "steps": count, "expected_kl": float(value)}
        for title, panel in errors.items()
        for name, values in panel.items()
        for count, value in zip(STEPS, values, strict=True)
    ]
    common.write(table, ("data", "size", "steps", "expected_kl"), rows)
    title = f"{LENGTH} tokens in K steps: what revealing several at once costs, exactly"
    with plot.sheet(2, (10.5, 5.0), figures, title=title, narrow=common.narrow(figures)) as axes:
        for ax, (panel, curves) in zip(axes, errors.items(), strict=True):
            for name, values in curves.items():
                ax.plot(STEPS, values, **plot.line(name) | {"label": SIZES[name]}, marker="o", markersize=4)
            ax.set(xscale="log", yscale="log", ylim=(0.15, 90))
            ax.set_xticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
            ax.set_xticks([], minor=True)
            ax.yaxis.set_major_formatter("{x:g}")
            ax.set_xlabel("number of steps $K$")
            ax.set_title(panel)
        axes[0].set_ylabel(plot.ERROR)


if __name__ == "__main__":
    main()
