"""The numbers behind the three figures of the paper: estimated, exact, and bounded.

    Figure 1    mean size of each step, K = 1000                                       (a) π_tc      (b) π_dtc
    Figure 2    expected KL of π_tc       (a) against K at codimension 5       (b) against TC at K = 500
    Figure 3    expected KL of π_dtc      (a) against K at dimension 5         (b) against DTC at K = 500

at `L = 2000`, on Reed–Solomon codes over GF(2048): `TC = (L−d) log q`, `DTC = d log q`. Every Monte-Carlo point of the
paper stands next to the exact value it estimates, the theorem's bound, the paper's fixed-size baseline `⌈L/K⌉`, and
equal sizes at a random phase — since a fixed size is at the mercy of where its cuts fall: at `K = 500` the baseline
makes no error at all on codimensions that are multiples of four, and up to three tokens' worth on the others.

The points of one panel (b) share their draws, as the codes differ and the schedule does not.

References:
    Zhao & Cai, Adaptation to intrinsic dependence in diffusion language models, 2026, Figures 1 to 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask import bounds, evaluate, size
from unmask.distribution import ReedSolomon
from unmask.evaluate.exact import Estimate
from unmask.information.curve import Curve
from unmask.size.base import Randomness

LENGTH = 2000
ALPHABET = 2048
SIZES_STEPS = 1000
SWEEP_STEPS = 500
FEW = 5  # codimension of Figure 2(a), dimension of Figure 3(a)
SAMPLED_STEPS = (50, 75, 100, 150, 250, 375, 500, 750, 1000)
ALL_STEPS = tuple(sorted({*range(50, 1001, 10), *SAMPLED_STEPS}))
RANKS = (*range(1, 21), 25, 30, 40, 50, 75, 100)

Progress = Callable[[float], None]


@final
@dataclass(frozen=True)
class Point:
    """One abscissa of a panel.

    Arguments:
        x: Iteration, number of steps, TC or DTC, as the panel's axis says.
        steps: `K`.
        dimension: Dimension of the code; None where no code is involved.
        exact: The exact value for the paper's scheme.
        bound: The theorem's bound; None where there is none.
        ceil: The same quantity for the paper's fixed sizes `⌈L/K⌉`.
        offset: The same quantity for equal sizes at a random phase.
        estimate: The Monte-Carlo estimate; None where the exact curve is drawn more finely than it is sampled.
    """

    x: float
    steps: int
    dimension: int | None
    exact: float
    bound: float | None
    ceil: float
    offset: float
    estimate: Estimate | None

    @property
    def z(self) -> float | None:
        """Deviation of the estimate in standard errors; None without an estimate or when all draws agreed."""
        if self.estimate is None or self.estimate.standard_error == 0:
            return None
        return (self.estimate.mean - self.exact) / self.estimate.standard_error


@final
@dataclass(frozen=True)
class Panel:
    """One half of a figure.

    Attributes:
        name: 'a' or 'b'.
        scheme: 'tc' or 'dtc'.
        axis: What the abscissa is.
        quantity: What the ordinate is.
        points: The points, from left to right.
    """

    name: str
    scheme: str
    axis: str
    quantity: str
    points: tuple[Point, ...]


@final
@dataclass(frozen=True)
class Figure:
    """The numbers of one figure.

    Attributes:
        name: 'figure1', 'figure2' or 'figure3'.
        panels: Its halves.
    """

    name: str
    panels: tuple[Panel, ...]

    @property
    def deviations(self) -> tuple[float, ...]:
        """Every `z` there is."""
        every = (point.z for panel in self.panels for point in panel.points)
        return tuple(z for z in every if z is not None)

    @property
    def worst(self) -> float:
        """The largest `|z|`."""
        return max((abs(z) for z in self.deviations), default=0.0)


def figure1(draws: int, *, rng: Randomness, progress: Progress = lambda share: None) -> Figure:
    """Mean size of each step of both schemes.

    Arguments:
        draws: Monte-Carlo draws per panel, at least 2.
        rng: A numpy generator, or a seed.
        progress: Called with the share of the work done since the last call.
    """
    draws = check.integer("draws", draws, least=2)
    ceil, offset = (make(SIZES_STEPS).mean_sizes(LENGTH) for make in (size.Ceil, size.Offset))
    panels: list[Panel] = []
    streams = check.generator("rng", rng).spawn(2)
    for name, scheme, schedule, stream in zip(
        "ab", ("tc", "dtc"), (size.TC(SIZES_STEPS), size.DTC(SIZES_STEPS)), streams, strict=True
    ):
        exact = schedule.mean_sizes(LENGTH)
        estimates = _sampled_sizes(schedule, draws, stream, lambda done: progress(0.5 * done / draws))
        points = (
            Point(k + 1, SIZES_STEPS, None, float(exact[k]), None, float(ceil[k]), float(offset[k]), estimates[k])
            for k in range(SIZES_STEPS)
        )
        panels.append(Panel(name, scheme, "iteration", "mean size", tuple(points)))
    return Figure("figure1", tuple(panels))


def figure2(draws: int, *, rng: Randomness, progress: Progress = lambda share: None) -> Figure:
    """Expected KL of `π_tc` on codes of low TC, against the number of steps and against TC; arguments as above."""
    scheme = _Scheme("tc", size.TC, lambda rank: LENGTH - rank, _total, bounds.theorem_1)
    return _errors("figure2", scheme, draws, rng, progress)


def figure3(draws: int, *, rng: Randomness, progress: Progress = lambda share: None) -> Figure:
    """Expected KL of `π_dtc` on codes of low DTC, against the number of steps and against DTC; arguments as above."""
    scheme = _Scheme("dtc", size.DTC, lambda rank: rank, _dual, bounds.theorem_2)
    return _errors("figure3", scheme, draws, rng, progress)


@final
@dataclass(frozen=True)
class _Scheme:
    """What differs between Figures 2 and 3: the schedule, the codes it is made for, the measure and its theorem."""

    name: str
    family: Callable[[int], size.Blind]
    dimension: Callable[[int], int]
    measure: Callable[[Curve], float]
    theorem: Callable[[int, int, float], float]

    def curve(self, rank: int) -> Curve:
        return ReedSolomon(LENGTH, self.dimension(rank), ALPHABET).curve()

    def point(self, x: float, steps: int, rank: int, estimate: Estimate | None) -> Point:
        curve = self.curve(rank)
        exact, ceil, offset = (
            evaluate.expected_kl(make(steps), curve) for make in (self.family, size.Ceil, size.Offset)
        )
        bound = self.theorem(LENGTH, steps, self.measure(curve))
        return Point(x, steps, self.dimension(rank), exact, bound, ceil, offset, estimate)


def _total(curve: Curve) -> float:
    return curve.total_correlation


def _dual(curve: Curve) -> float:
    return curve.dual_total_correlation


def _errors(name: str, scheme: _Scheme, draws: int, rng: Randomness, progress: Progress) -> Figure:
    draws = check.integer("draws", draws, least=2)
    # A draw costs one unit per step and some for the tokens, whatever the number of steps.
    cost = {steps: steps + 200 for steps in SAMPLED_STEPS}
    sweep_cost = cost[SWEEP_STEPS] + 10 * len(RANKS)
    total = draws * (sum(cost.values()) + sweep_cost)
    streams = check.generator("rng", rng).spawn(len(SAMPLED_STEPS) + 1)

    sampled: dict[int, Estimate] = {}
    for steps, stream in zip(SAMPLED_STEPS, streams[:-1], strict=True):

        def advance(done: int, each: int = cost[steps]) -> None:
            progress(each * done / total)

        curves = [scheme.curve(FEW)]
        (sampled[steps],) = evaluate.sampled_kl(scheme.family(steps), curves, draws, rng=stream, progress=advance)
    by_steps = tuple(scheme.point(steps, steps, FEW, sampled.get(steps)) for steps in ALL_STEPS)

    curves = [scheme.curve(rank) for rank in RANKS]
    estimates = evaluate.sampled_kl(
        scheme.family(SWEEP_STEPS),
        curves,
        draws,
        rng=streams[-1],
        progress=lambda done: progress(sweep_cost * done / total),
    )
    by_measure = tuple(
        scheme.point(scheme.measure(curve), SWEEP_STEPS, rank, estimate)
        for rank, curve, estimate in zip(RANKS, curves, estimates, strict=True)
    )
    panels = (
        Panel("a", scheme.name, "steps", "expected KL", by_steps),
        Panel("b", scheme.name, scheme.name, "expected KL", by_measure),
    )
    return Figure(name, panels)


def _sampled_sizes(
    schedule: size.Blind, draws: int, rng: np.random.Generator, progress: Callable[[int], None]
) -> list[Estimate]:
    total, squares = np.zeros(schedule.steps), np.zeros(schedule.steps)
    done = 0
    while done < draws:
        sizes: NDArray[np.int64] = schedule.draw(LENGTH, rng=rng, count=min(5000, draws - done))
        # Integers of this size are summed exactly in double precision.
        total += sizes.sum(axis=0)
        squares += (sizes**2).sum(axis=0)
        done += sizes.shape[0]
        progress(sizes.shape[0])
    means = total / draws
    spread = np.sqrt(np.maximum(squares - draws * means**2, 0.0) / (draws - 1))
    errors = spread / np.sqrt(draws)
    return [Estimate(float(mean), float(error), draws) for mean, error in zip(means, errors, strict=True)]
