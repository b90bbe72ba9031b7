"""The figures and tables of the atlas, from the committed results of the kinds that have some.

    python -m experiments.atlas.figure

Draws `atlas.svg`, what rules cost on each kind, and `atlas-dependence.svg`, what the data are like. Words and tables go
into docs/atlas.md by `experiments/tables.py`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from experiments import common
from experiments.atlas.kinds import KINDS

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
    "causal in the schedule, comb": ("causal", "comb", "even", {"color": "#009E73", "linewidth": 2.6}),
}


def points(rows: Iterable[Row], network: str, order: str, size: str) -> np.ndarray:
    """Evaluations and bits per token of all settings of a rule, shape `(2, settings)`."""
    found = [
        (float(r["evaluations"]), float(r["bits"]))
        for r in rows
        if (r["network"], r["order"]) == (network, order) and r["size"].startswith(size)
    ]
    return np.array(sorted(found)).reshape(-1, 2).T


def costs(paths: Sequence[Path], narrow: Sequence[Path]) -> None:
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
    ax.set_title(title)
    ax.set_xlabel("evaluations per text")
    ax.set_ylabel("bits per token")


def dependence(folder: Path, paths: Sequence[Path]) -> None:
    """Above the loss of a token against the share that is visible, below how much positions tell of each other."""
    seen = {
        name: json.loads((folder / f"atlas-{name}-seen.json").read_text(encoding="utf-8"))
        for name in common.atlas_measured(KINDS)
    }
    with plot.sheet(len(seen), (3.4 * len(seen), 6.4), paths, title="What the data are like", rows=2) as axes:
        for column, (name, found) in enumerate(seen.items()):
            above, below = axes[column], axes[len(seen) + column]
            loss = np.array(found["loss"])
            above.plot(np.linspace(0, 1, loss.size, endpoint=False), loss, color="#0072B2")
            above.set_title(f"{KINDS[name].title}\nTC {found['tc']:.2f}, DTC {found['dtc']:.2f} bits per token")
            above.set_xlabel("share of the tokens to fill that is visible")
            above.set_ylabel("bits of a masked token")
            if "distance" in found:
                told = np.array(found["distance"])
                below.plot(np.arange(1, told.size), np.maximum(told[1:], 1e-5), color="#AA3377")
                below.set(xscale="log", yscale="log", xlabel="distance", ylabel="nats told")
            else:
                below.imshow(np.array(found["map"]), cmap="viridis")
                below.set(xticks=[], yticks=[], xlabel="nats told of the cell in the middle")
                below.grid(False)


def main() -> None:
    if not common.atlas_measured(KINDS):
        raise SystemExit("Error: no kind has been measured. Run: python -m experiments.atlas KIND")
    figures, _ = common.places("atlas")
    costs(figures, common.narrow(figures))
    pictures, _ = common.places("atlas-dependence")
    dependence(common.RESULTS, pictures)


if __name__ == "__main__":
    main()
