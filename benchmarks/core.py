"""Speeds of the exact core as ratios, each measured side by side in this run. `make bench` prints the table.

table    cells of the O(KL) recursion per second, against a NumPy multiply-add over as many cells
draws    schedules of π_tc per second, against a literal transcription of the paper's formulas
plan     seconds and memory of everything `unmask plan` computes, against what the issue allows
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from unmask import gauge, size
from unmask.distribution import Markov
from unmask.information.curve import Curve
from unmask.size.minimax import solve


def seconds(function, repeat=3):
    """The fastest of a few runs: noise only ever adds."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def row(name, value, against, ratio):
    print(f"{name:<44}{value:>22}{against:>26}{ratio:>10}", flush=True)


def bench_table(length, steps):
    cells = steps * (length - steps + 1)
    ours = seconds(lambda: size.tc_scheme(length).table(steps))
    values, result = np.random.default_rng(0).random(cells), np.empty(cells)

    def multiply_add():
        np.multiply(values, 1.5, out=result)
        np.add(result, values, out=result)

    floor = seconds(multiply_add)
    name = f"table L={length} K={steps}, cells/s"
    row(name, f"{cells / ours:.3g}", f"multiply-add {cells / floor:.3g}", f"{floor / ours:.2f}")
    rolling = seconds(lambda: size.tc_scheme(length).coefficient(steps))
    row(
        "  one level kept, cells/s",
        f"{cells / rolling:.3g}",
        f"multiply-add {cells / floor:.3g}",
        f"{floor / rolling:.2f}",
    )


def literal_draw(coefficients, steps, length, rng):
    """One schedule of π_tc, every weight computed as the paper writes it."""
    sizes, left = [], length
    for k in range(steps, 1, -1):
        level = coefficients[k - 2]
        i = np.arange(1, left - k + 1)
        m = left - i
        f, g = level[m - (k - 1)], level[m - k]
        weights = np.concatenate([[1.0], np.cumprod(m * f / (1 + (m - 2) * g))])
        sizes.append(1 + int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum())))
        left -= sizes[-1]
    return [*sizes, left]


def bench_draws(length, steps, count):
    rng = np.random.default_rng(0)
    table = size.tc_scheme(length).table(steps)
    table.draw(rng=rng, count=2)
    ours = seconds(lambda: table.draw(rng=rng, count=count), repeat=1)
    literal = seconds(lambda: [literal_draw(table.coefficients, steps, length, rng) for _ in range(20)], repeat=1) / 20
    name = f"{count:,} draws L={length} K={steps}"
    row(name, f"{ours:.2f} s", f"literal {literal * count:.0f} s", f"{literal * count / ours:.0f}")
    # Floor: one uniform number per step.
    floor = seconds(lambda: rng.random(count * steps // 10)) * 10
    row("  against one uniform number per step", f"{ours:.2f} s", f"floor {floor:.2f} s", f"{floor / ours:.2f}")


def bench_minimax():
    """Linear cost: ten times the length may take fourteen times as long, and no more than two seconds."""
    solve(gauge.tc(100), 10)
    small, large = (seconds(lambda n=n: solve(gauge.tc(n), n // 10)) for n in (10**5, 10**6))
    row("minimax L=10^6 K=10^5", f"{large:.2f} s", "allowed 2 s", f"{large / 2:.2f}")
    row("  growth from L=10^5", f"{large:.2f} s", f"at 10^5 {small:.3f} s", f"{large / small:.1f}")
    memory = isolated("from unmask.size.minimax import solve; from unmask import gauge; solve(gauge.tc(10**6), 10**5)")
    imports = isolated("from unmask.size.minimax import solve; from unmask import gauge; solve(gauge.tc(100), 10)")
    row(
        "  memory beyond the imports",
        f"{(memory - imports) * 1024:.0f} MiB",
        "allowed 200 MB",
        f"{(memory - imports) * 1024 * 1.048576 / 200:.2f}",
    )


def bench_optimal():
    curve = Markov.sticky(27, 0.9, 4096).curve()
    size.best_paths(Curve([1.0, 0.5]), 2)
    took = seconds(lambda: size.Optimal(512, curve).sizes(4096))
    row("optimal L=4096 K=512", f"{took:.3f} s", "allowed 3 s", f"{took / 3:.3f}")


def plan(length, steps):
    """What `unmask plan` computes, for both schemes."""
    for schedule in (size.TC(steps), size.DTC(steps)):
        schedule.mean_sizes(length)
        schedule.overhang(length)
        schedule.draw(length, rng=np.random.default_rng(0))


def bench_plan(length, steps, allowed_seconds, allowed_gib):
    """In a process of its own, so that its memory is its own; the time includes the imports."""
    start = time.perf_counter()
    memory = isolated(f"core.plan({length}, {steps})")
    took = time.perf_counter() - start
    name = f"plan tc and dtc L={length} K={steps}"
    row(
        name,
        f"{took:.1f} s {memory:.2f} GiB",
        f"allowed {allowed_seconds} s {allowed_gib} GiB",
        f"{took / allowed_seconds:.2f}",
    )


def isolated(code):
    """Peak memory in GiB of a process that runs `code`."""
    command = [sys.executable, "-c", f"import core; {code}; core.report_memory()"]
    return float(subprocess.run(command, cwd=sys.path[0], capture_output=True, text=True, check=True).stdout)


def report_memory():
    """Peak memory of this process in GiB; `getrusage` would report the parent's where that was larger."""
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) / 2**20)


if __name__ == "__main__":
    size.tc_scheme(9).table(3).draw(rng=np.random.default_rng(0))  # compile before timing
    size.tc_scheme(9).coefficient(3)
    row("what", "ours", "against", "ratio")
    bench_table(32768, 1024)
    bench_draws(2000, 1000, 100_000)
    bench_minimax()
    bench_optimal()
    bench_plan(32768, 8192, 5, 3)
    bench_plan(10**6, 10**5, 30, 1)
