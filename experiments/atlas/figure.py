"""The figures and tables of the atlas, from the committed results of the kinds that have some.

    python -m experiments.atlas.figure

Draws `atlas.svg`, what rules cost on each kind, and `atlas-dependence.svg`, what the data are like. The tables go into
docs/atlas.md by `experiments/tables.py`; its words are written by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from experiments import common
from experiments.atlas.kinds import KINDS
from matplotlib.ticker import LogLocator, NullLocator

from unmask import plot

Row = Mapping[str, str]
# Label -> network, order, beginning of the size, look.
LINES: dict[str, tuple[str, str, str, dict[str, object]]] = {
    "random order": ("both", "random", "even", {"color": "#D55E00"}),
    "spread": ("both", "spread", "even", {"color": "#56B4E9"}),
    "comb": ("both", "comb", "even", {"color": "#0072B2", "linewidth": 2.6}),
    "confidence": ("both", "confidence", "even", {"color": "#E69F00"}),
    "margin": ("both", "margin", "even", {"color": "#AA3377"}),
    "confidence threshold": ("both", "confidence", "threshold", {"color": "#E69F00", "dashes": (2, 1.5)}),
    "entropy bound": ("both", "entropy", "entropy-bound", {"color": "#AA3377", "dashes": (2, 1.5)}),
    "advised": ("both", "advised", "", {"color": "#000000", "linestyle": "none", "markersize": 8, "fillstyle": "none"}),
    "causal in the schedule, whole comb": ("causal", "whole-comb", "even", {"color": "#009E73", "linewidth": 2.6}),
}


def points(rows: Iterable[Row], network: str, order: str, size: str) -> np.ndarray:
    """Evaluations and bits per token of all settings of a rule, shape `(2, settings)`."""
    found = [
        (float(r["evaluations"]), float(r["bits"]))
        for r in rows
        if (r["network"], r["order"]) == (network, order) and r["size"].startswith(size)
    ]
    return np.array(sorted(found)).reshape(-1, 2).T


def costs(paths: Sequence[Path], narrow: Sequence[Path] = ()) -> None:
    """Bits per token against evaluations, a panel for each kind."""
    kinds = common.atlas_measured(KINDS)
    columns = min(3, len(kinds))
    height = -(-len(kinds) // columns)
    title = "What schedules cost on different kinds of data"
    with plot.sheet(
        columns, (4.4 * columns, 3.6 * height + 0.8), paths, title=title, legend_columns=5, narrow=narrow, rows=height
    ) as axes:
        for ax, kind in zip(axes, kinds, strict=False):
            _panel(ax, KINDS[kind].title, common.atlas_rows(kind))
        for ax in axes[len(kinds) :]:
            ax.set_visible(False)


def _panel(ax, title: str, rows: Sequence[Row]) -> None:
    for label, (network, order, size, look) in LINES.items():
        evaluations, bits = points(rows, network, order, size)
        if evaluations.size:
            ax.plot(evaluations, bits, **{"label": label, "marker": "o", "markersize": 3, **look})
    anchor = points(rows, "left-to-right", "left-to-right", "even")
    if anchor.size:
        ax.axhline(anchor[1, 0], color="#777777", linewidth=1, dashes=(4, 3), label="left to right, one by one")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.set_yscale("log")  # rules that fail cost several times as much as others, which would be drawn over each other
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_title(title)
    ax.set_xlabel("evaluations per text")
    ax.set_ylabel("bits per token")


def dependence(paths: Sequence[Path], narrow: Sequence[Path] = ()) -> None:
    """For each kind the loss of a token against the share that is visible, and below it how much positions tell."""
    kinds = common.atlas_measured(KINDS)
    columns = min(3, len(kinds))
    bands = -(-len(kinds) // columns)
    title = "What the data are like"
    with plot.sheet(columns, (4.4 * columns, 6 * bands), paths, title=title, rows=2 * bands) as axes:
        for place in range(bands * columns):
            band, column = divmod(place, columns)
            above, below = axes[2 * band * columns + column], axes[(2 * band + 1) * columns + column]
            if place >= len(kinds):
                above.set_visible(False)
                below.set_visible(False)
                continue
            name = kinds[place]
            _seen(above, below, KINDS[name].title, common.atlas_seen(name))
    if not narrow:
        return
    # On a phone both panels of a kind stand together, and the second has its name too.
    with plot.sheet(1, (4.9, 6.6 * len(kinds)), narrow, title=title, rows=2 * len(kinds)) as axes:
        for place, name in enumerate(kinds):
            above, below = axes[2 * place : 2 * place + 2]
            _seen(above, below, KINDS[name].title, common.atlas_seen(name))
            below.set_title(KINDS[name].title)


def _seen(above, below, title: str, found: Mapping[str, Any]) -> None:
    loss = np.array(found["loss"])
    above.plot(np.linspace(0, 1, loss.size, endpoint=False), loss, color="#0072B2")
    above.set_title(f"{title}\nTC {found['tc']:.2f}, DTC {found['dtc']:.2f} bits per token")
    above.set(xlabel="share of the tokens to fill that is visible", ylabel="bits of a masked token", ylim=(0, None))
    if "distance" in found:
        middle, bits = averaged(np.array(found["distance"]) / np.log(2))
        below.plot(middle, bits, color="#AA3377", marker="o", markersize=3)
        below.set(xscale="log", yscale="log", xlabel="distance in tokens", ylabel="bits that one\ntells of another")
        below.set_xticks([each for each in (1, 2, 4, 8, 16, 32, 64) if each <= middle[-1]])
        below.xaxis.set_major_formatter("{x:.0f}")
        below.xaxis.set_minor_locator(NullLocator())
        decades = np.log10(bits.max() / bits.min())
        below.yaxis.set_major_locator(LogLocator(subs=(1,) if decades > 1.5 else (1, 2, 3, 5)))
        below.yaxis.set_major_formatter("{x:g}")
        below.yaxis.set_minor_locator(NullLocator())
    else:
        image = below.imshow(np.array(found["map"]) / np.log(2), cmap="viridis")
        below.figure.colorbar(image, ax=below, shrink=0.8)
        below.set(xticks=[], yticks=[], xlabel="bits that each cell\ntells of the middle one")
        below.grid(False)


def averaged(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over stretches of distances that grow with them, and their middles: far apart, single values are noise,
    and means that are not above zero are left out.
    """
    ends = np.unique(np.round(np.geomspace(1, values.size, 16)).astype(int))
    means = np.array([values[low:high].mean() for low, high in pairwise(ends)])
    middles = np.array([(low + high - 1) / 2 for low, high in pairwise(ends)])
    return middles[means > 0], means[means > 0]


def main() -> None:
    if not common.atlas_measured(KINDS):
        raise SystemExit("Error: no kind has been measured. Run: python -m experiments.atlas KIND")
    figures, _ = common.places("atlas")
    costs(figures, common.narrow(figures))
    pictures, _ = common.places("atlas-dependence")
    dependence(pictures, common.narrow(pictures))


if __name__ == "__main__":
    main()
