"""Figures in one style. Only this module uses `matplotlib`, and imports it only when it has to draw.

Figures are made through the object interface, never `pyplot`: no window, no global state, the same file each time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from unmask import _check as check
from unmask import names
from unmask import paper as reproduce
from unmask._packages import Package

_MATPLOTLIB = Package("matplotlib", "matplotlib", 'Run: pip install "unmask[plot]"', "3.8 and later")

# One colour per role, distinguishable in print and by colour-blind readers (Okabe & Ito).
_SCHEME, _BOUND, _CEIL, _OFFSET = "#0072B2", "#555555", "#D55E00", "#009E73"

DRAWN = tuple(name for name, entry in names.SIZES.items() if entry.look is not None)
_CYCLE = ("#D55E00", "#0072B2", "#009E73", "#AA3377", "#E69F00", "#56B4E9", "#7A4A1E", "#000000")

_ROUNDING = 1e-9  # errors below this are zero
_NO_ERROR = "no error: a cut fits"
ERROR = "expected KL (nats)"

_STYLE: dict[Any, Any] = {
    "font.size": 12,
    "axes.titlesize": 12.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 12,
    "legend.fontsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 2.6,  # long enough to show a dash
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "unmask",  # the same drawing gives the same file
}

_AXES = {
    "iteration": "iteration $k$",
    "steps": "number of steps $K$",
    "tc": "total correlation (nats)",
    "dtc": "dual total correlation (nats)",
}
_PI = {"tc": r"$\pi_{\mathrm{tc}}$", "dtc": r"$\pi_{\mathrm{dtc}}$"}


def require() -> None:
    """Refuse with one sentence if figures cannot be drawn here.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
        ImportError: if it is, and is too old or fails while it is imported.
    """
    with _MATPLOTLIB:
        import matplotlib  # noqa: F401  # pyright: ignore[reportUnusedImport]
        from matplotlib.figure import Figure  # noqa: F401  # pyright: ignore[reportUnusedImport] - whether it is there


def line(name: str) -> dict[str, Any]:
    """How the size of that name is drawn: keywords for `plot`, its label among them."""
    look = names.SIZES[check.known("size", name, DRAWN)].look
    assert look is not None  # of those that are drawn
    return {"label": name, "color": look.colour, **({"dashes": look.dashes} if look.dashes else {})}


def paper_figure(figure: reproduce.Figure, paths: Sequence[Path]) -> None:
    """Draw a figure of the paper, once per path; the suffix of a path decides the format."""
    with sheet(len(figure.panels), (10.5, 4.6), paths, legend_columns=3) as axes:
        for panel, ax in zip(figure.panels, axes, strict=True):
            if panel.axis == "iteration":
                _draw_sizes(panel, ax)
            else:
                _draw_errors(panel, ax)
            ax.set_xlabel(_AXES[panel.axis])
        axes[0].set_ylabel("mean number of tokens revealed" if figure.name == "figure1" else ERROR)


def comparison(
    steps: Sequence[int], errors: Mapping[str, Mapping[str, Sequence[float]]], marked: int, path: Path, title: str
) -> None:
    """Draw the error of several schedules against the number of steps, one panel per distribution.

    Arguments:
        steps: The numbers of steps.
        errors: Distribution -> schedule -> one error per number of steps, in nats.
        marked: A number of steps to mark with a vertical line.
        path: Where to; the suffix decides the format.
        title: One line above all panels.
    """
    with sheet(len(errors), (12.0, 4.8), [path], title=title) as axes:
        for ax, (distribution, curves) in zip(axes, errors.items(), strict=True):
            tradeoffs(ax, steps, curves, marker="o", markersize=3.5)
            ax.axvline(marked, color="#bbbbbb", linewidth=1, zorder=0)
            ax.set_title(distribution)
        axes[0].set_ylabel(ERROR)


def tradeoffs(ax: Any, steps: Sequence[int], errors: Mapping[str, Sequence[float]], **look: Any) -> None:
    """Draw errors against steps on logarithmic axes, one line per schedule; errors of zero are marked at the foot."""
    rows = 0
    for name, values in errors.items():
        error = np.where(np.asarray(values) > _ROUNDING, values, np.nan)
        ax.plot(steps, error, **line(name), **look)
        zeros = np.asarray(steps)[np.isnan(error)]
        _mark_zeros(ax, zeros, line(name)["color"], rows)
        rows += bool(zeros.size)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks([k for k in steps if k & (k - 1) == 0])
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(_AXES["steps"])


def costs(rows: Sequence[Mapping[str, Any]], reference: float | None, path: Path) -> None:
    """Draw the measured bits per token of schedules against evaluations, one line per order and size, or per file.

    Arguments:
        rows: Each with order, size, steps, evaluations, bits_per_token and standard_error, and with file if it is a
            saved schedule.
        reference: Bits per token one by one in random order, drawn as a line.
        path: Where to; the suffix decides the format.
    """
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        # Sizes that decide the steps themselves are points of one line: threshold:0.9 and threshold:0.5.
        name = row.get("file") or f"{row['order']}, {row['size'].partition(':')[0]}"
        lines.setdefault(name, []).append(row)
    with sheet(1, (7.5, 5.0), [path], legend_columns=3) as axes:
        ax = axes[0]
        for index, (name, points) in enumerate(lines.items()):
            points = sorted(points, key=lambda row: row["evaluations"])
            ax.errorbar(
                [row["evaluations"] for row in points],
                [row["bits_per_token"] for row in points],
                yerr=[row["standard_error"] for row in points],
                label=name,
                marker="osD^v"[index // len(_CYCLE) % 5],
                markersize=4,
                capsize=2,
                color=_CYCLE[index % len(_CYCLE)],
            )
        if reference is not None:
            ax.axhline(reference, color="#777777", linewidth=1, dashes=(4, 3), label="random order, one by one")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_xlabel("evaluations per sequence")
        ax.set_ylabel("bits per token")


@contextmanager
def sheet(
    columns: int,
    inches: tuple[float, float],
    paths: Sequence[Path],
    *,
    title: str | None = None,
    legend_columns: int = 9,
    narrow: Sequence[Path] = (),
    rows: int = 1,
) -> Iterator[Any]:
    """Axes to draw on, side by side; the drawing is saved to every path at the end, with one legend below.

    Arguments:
        columns: The number of panels in a row.
        inches: Width and height of the whole.
        paths: Where to; their suffixes decide the formats.
        title: One line above all panels.
        legend_columns: At most so many entries of the legend in a row.
        narrow: Where the same drawing goes for phones, with its panels one above the other.
        rows: The number of rows.
    """
    require()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        page = Figure(figsize=inches, layout="constrained")
        axes: Any = page.subplots(rows, columns, squeeze=False)
        if title:
            page.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        yield axes.ravel()
        # One legend for all panels: equal entries once, the footnote last.
        pairs = [pair for ax in axes.ravel() for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
        pairs.sort(key=lambda pair: pair[1] == _NO_ERROR)
        entries = {label: handle for handle, label in pairs}
        legend = _legend(page, entries, legend_columns)
        _save(page, paths)
        if narrow:
            legend.remove()
            _stack(page, axes.ravel(), title)
            _legend(page, entries, 2)
            _save(page, narrow)


def _legend(page: Any, entries: Mapping[str, Any], columns: int) -> Any:
    rows = -(-len(entries) // columns)
    legend = page.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=-(-len(entries) // max(rows, 1))
    )
    for handle in legend.legend_handles:
        handle.set_alpha(1)
    return legend


def _save(page: Any, paths: Sequence[Path]) -> None:
    for path in paths:
        # A date in the file would make every run differ.
        undated = {"Date": None} if path.suffix == ".svg" else {}
        page.savefig(path, dpi=160, metadata=undated)


def _stack(page: Any, axes: Sequence[Any], title: str | None) -> None:
    """Put panels that stand side by side one above the other, as wide as a phone."""
    from matplotlib.gridspec import GridSpec

    grid = GridSpec(len(axes), 1, figure=page)
    for row, ax in enumerate(axes):
        ax.set_subplotspec(grid[row])
        ax.set_ylabel(ax.get_ylabel() or axes[0].get_ylabel())
        ax.set_title("\n".join(wrap(ax.get_title(loc="left"), 46)), loc="left", fontsize=11)
    if title:
        page.suptitle("\n".join(wrap(title, 42)), x=0.01, ha="left", fontsize=12, fontweight="bold")
    page.get_layout_engine().set(h_pad=0.14)
    page.set_size_inches(4.9, 3.4 * len(axes) + 1.2)


def _draw_sizes(panel: reproduce.Panel, ax: Any) -> None:
    x = [point.x for point in panel.points]
    shown = panel.points[12::25]  # a thousand markers would hide the curve
    ax.plot(x, [point.exact for point in panel.points], color=_SCHEME, label="exact", zorder=3)
    _estimates(shown, ax, "Monte Carlo, every 25th step")
    ax.plot(x, [point.ceil for point in panel.points], color=_CEIL, label=r"fixed $\lceil L/K\rceil$", zorder=2)
    ax.plot(
        x,
        [point.offset for point in panel.points],
        "--",
        color=_OFFSET,
        label="equal, random phase",
        zorder=2,
        dashes=(4, 3),
    )
    ax.set_ylim(bottom=0)
    ax.set_title(f"({panel.name}) {_PI[panel.scheme]}, $K={panel.points[0].steps}$, $L={reproduce.LENGTH}$")


def _draw_errors(panel: reproduce.Panel, ax: Any) -> None:
    points = panel.points
    x = np.array([point.x for point in points])
    sampled = [point for point in points if point.estimate is not None]
    ceil = np.array([point.ceil for point in points])
    lowest = min(point.exact for point in points) / 2
    ax.plot(x[ceil > 0], ceil[ceil > 0], ".", color=_CEIL, markersize=5, label=r"fixed $\lceil L/K\rceil$")
    ax.plot(x, [point.offset for point in points], "--", color=_OFFSET, label="equal, random phase", dashes=(4, 3))
    ax.plot(
        x, [point.bound for point in points], ":", color=_BOUND, label=f"theorem {1 if panel.scheme == 'tc' else 2}"
    )
    ax.plot(x, [point.exact for point in points], color=_SCHEME, label="exact")
    _estimates(sampled, ax, "Monte Carlo")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(bottom=lowest)
    _mark_zeros(ax, x[ceil == 0], _CEIL, 0)
    ax.set_title(f"({panel.name}) {_setting(panel)}")
    if panel.axis == "steps":
        ax.set_xticks([50, 100, 200, 500, 1000])
        ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.yaxis.set_major_formatter("{x:g}")


def _setting(panel: reproduce.Panel) -> str:
    first = panel.points[0]
    if panel.axis != "steps" or first.dimension is None:
        return f"{_PI[panel.scheme]}, $K={first.steps}$"
    if panel.scheme == "tc":
        return f"{_PI[panel.scheme]}, codimension {reproduce.LENGTH - first.dimension}"
    return f"{_PI[panel.scheme]}, dimension {first.dimension}"


def _estimates(points: Sequence[reproduce.Point], ax: Any, label: str) -> None:
    known = [(point.x, point.estimate) for point in points if point.estimate is not None]
    ax.errorbar(
        [x for x, _ in known],
        [estimate.mean for _, estimate in known],
        yerr=[2 * estimate.standard_error for _, estimate in known],
        fmt="o",
        color=_SCHEME,
        markerfacecolor="white",
        markersize=4.5,
        elinewidth=1.2,
        capsize=2,
        linestyle="none",
        label=f"{label} (±2 s.e.)",
        zorder=4,
    )


def _mark_zeros(ax: Any, x: Any, colour: str, row: int) -> None:
    """On a logarithmic axis an error of zero has no place, so it is marked at the foot, one row per schedule."""
    if len(x):
        height = np.full(len(x), 0.02 + 0.035 * row)
        ax.plot(x, height, "v", color=colour, markersize=4.5, transform=ax.get_xaxis_transform())
        ax.plot([], [], "v", color="black", markersize=4.5, label=_NO_ERROR)


def dependence(matrices: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Draw how much each position tells of each other one, as heat maps.

    Arguments:
        matrices: Title -> nats, shape `(length, length)`: row `i` says what tells of position `i`.
        paths: Where to; their suffixes decide the formats.
    """
    with sheet(len(matrices), (4.9 * len(matrices), 4.4), paths) as axes:
        for ax, (title, matrix) in zip(axes, matrices.items(), strict=True):
            shown = np.array(matrix, dtype=np.float64)
            np.fill_diagonal(shown, np.nan)  # a position tells all of itself
            image = ax.imshow(shown, cmap="Blues", vmin=0.0, interpolation="nearest")
            ax.grid(visible=False)
            ax.set_title(title)
            ax.set_xlabel("position revealed")
            ax.set_ylabel("position predicted")
            ax.figure.colorbar(image, ax=ax, shrink=0.85, label="dependence (nats)")


def distances(curves: Mapping[str, tuple[Any, Any, Any]], paths: Sequence[Path]) -> None:
    """Draw how much a revealed position tells of another one, against the distance between them.

    Arguments:
        curves: Label -> distances, nats, and their standard errors.
        paths: Where to; their suffixes decide the formats.
    """
    with sheet(1, (7.5, 4.6), paths, legend_columns=3) as axes:
        ax = axes[0]
        for index, (label, (far, values, errors)) in enumerate(curves.items()):
            colour = _CYCLE[index % len(_CYCLE)]
            ax.plot(far, values, "o-", markersize=3.5, label=label, color=colour)
            ax.fill_between(
                far, np.subtract(values, errors), np.add(values, errors), color=colour, alpha=0.2, linewidth=0
            )
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_xlabel("distance in tokens")
        ax.set_ylabel("dependence (nats)")
