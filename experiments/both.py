"""One schedule against both TC and DTC: the worst case over all distributions.

For each schedule the smallest `c` with `E KL ≤ c · TC` for every distribution of length 2000, and the same for DTC,
divided by the coefficient of the paper's scheme for that measure, `f_tc` and `f_dtc`. The paper's two schemes and the
two minimax ones are good for one measure and hopeless for the other. `minimax-min` and `universal` do on both measures
at once about what each of the paper's two does on its own.
"""

from typing import Any

import common
import numpy as np

from unmask import gauge, plot

LENGTH = 2000
STEPS = (20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 600, 800, 1000)
SHOWN = (50, 100, 500, 1000)
SIZES = ("tc", "dtc", "minimax-tc", "minimax-dtc", "minimax-min", "universal")
GAUGES = {"tc": gauge.tc, "dtc": gauge.dtc}


def compute(steps: tuple[int, ...] = STEPS) -> dict[str, dict[str, np.ndarray]]:
    """Measure -> schedule -> the smallest factor that holds for every distribution, at each number of steps."""
    result: dict[str, dict[str, np.ndarray]] = {key: {} for key in GAUGES}
    for name, family in common.families(SIZES).items():
        overhangs = [family(count).overhang(LENGTH) for count in steps]
        for key, measure in GAUGES.items():
            result[key][name] = np.array([gauge.guarantee(overhang, measure(LENGTH)) for overhang in overhangs])
    return result


def main() -> None:
    figures, table = common.places("both")
    factors = compute()
    rows: list[dict[str, Any]] = [
        {
            "measure": key,
            "size": name,
            "steps": count,
            "factor": float(value),
            "over_paper": float(value / own),
        }
        for key, panel in factors.items()
        for name, values in panel.items()
        for count, value, own in zip(STEPS, values, panel[key], strict=True)
    ]
    common.write(table, ("measure", "size", "steps", "factor", "over_paper"), rows)
    title = f"Worst case over all distributions of {LENGTH} tokens, over the paper's scheme for that measure"
    with plot.sheet(2, (10.5, 5.2), figures, title=title, narrow=common.narrow(figures)) as (plane, near):
        shown = [STEPS.index(count) for count in SHOWN]
        for name in SIZES:
            x, y = (factors[key][name] / factors[key][key] for key in GAUGES)
            plane.plot(x[shown], y[shown], **plot.line(name), marker="o", markersize=5)
        plane.text(1.5, 1.7, "one schedule\nfor both", fontsize=10.5)
        plane.text(1.5, 1500, "for TC only", fontsize=10.5)
        plane.text(25, 1.5, "for DTC only", fontsize=10.5)
        plane.axhline(1, color="#bbbbbb", linewidth=1, zorder=0)
        plane.axvline(1, color="#bbbbbb", linewidth=1, zorder=0)
        plane.set(xscale="log", yscale="log", xlim=(0.35, 3e3), ylim=(0.35, 6e3))
        plane.xaxis.set_major_formatter("{x:g}")
        plane.yaxis.set_major_formatter("{x:g}")
        plane.set_xlabel(r"factor for TC, over $f_{\mathrm{tc}}$")
        plane.set_ylabel(r"factor for DTC, over $f_{\mathrm{dtc}}$")
        plane.set_title(f"(a) both measures, $K={', '.join(map(str, SHOWN))}$")
        for name, keys in (
            ("minimax-tc", ["tc"]),
            ("minimax-dtc", ["dtc"]),
            ("minimax-min", GAUGES),
            ("universal", GAUGES),
        ):
            for key in keys:
                look = plot.line(name)
                near.plot(
                    STEPS, factors[key][name] / factors[key][key], **look, marker="o" if key == "tc" else "s", ms=4
                )
        near.axhline(1, color="#bbbbbb", linewidth=1, zorder=0)
        near.text(1000, 0.98, "the paper's two schemes", ha="right", va="top", fontsize=10.5, color="#777777")
        near.set(xscale="log", ylim=(0, 1.6))
        near.set_xticks([20, 50, 100, 200, 500, 1000])
        near.set_xticks([], minor=True)
        near.xaxis.set_major_formatter("{x:.0f}")
        near.set_xlabel("number of steps $K$")
        near.set_ylabel("factor over the paper's")
        near.set_title("(b) the same, near 1: ● TC, ■ DTC")


if __name__ == "__main__":
    main()
