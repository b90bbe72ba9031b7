"""Slow, literal rewrites that the tests compare the library with. Nothing here imports it."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
from scipy.stats import chi2


def paper_coefficients(length, first, factor, update, number=Decimal, digits=60):
    """`f(K, L')` for all `1 ≤ K ≤ L' ≤ length` by the paper's formulas as printed, in `number` arithmetic.

    `first(m)` is `f(1, m)`; `factor(m, f, g)` the ratio in the weights with `f = f(K−1, m)` and `g = f(K−1, m−1)`;
    `update(m, g, total)` the new coefficient from `g = f(K−1, m−1)` and `total = Ψ(K, m)`.
    """
    with localcontext() as context:
        context.prec = digits
        table = {(1, m): first(m) for m in range(1, length + 1)}
        for k in range(2, length + 1):
            total = number(1)
            table[k, k] = update(k, table[k - 1, k - 1], total)
            for m in range(k + 1, length + 1):
                total = 1 + factor(m - 1, table[k - 1, m - 1], table[k - 1, m - 2]) * total
                table[k, m] = update(m, table[k - 1, m - 1], total)
        return table


def paper_tc(length, number=Decimal):
    """The TC-adaptive scheme, equations (7) to (9) of the paper."""
    return paper_coefficients(
        length,
        first=lambda m: number(0 if m == 1 else 1),
        factor=lambda m, f, g: m * f / (1 + (m - 2) * g),
        update=lambda m, g, total: 1 - (1 + (m - 2) * g) / total,
        number=number,
    )


def paper_dtc(length, number=Decimal):
    """The DTC-adaptive scheme, equations (10) to (13) of the paper."""
    return paper_coefficients(
        length,
        first=lambda m: number(m - 1) / number(length - m + 1),
        factor=lambda m, f, g: (length - m) * f / (1 + (length - m + 2) * g),
        update=lambda m, g, total: -1 + (1 + (length - m + 2) * g) / total,
        number=number,
    )


def paper_size_law(table, factor, steps, length):
    """`{sizes: probability}` of the framework: recurse on the first batch exactly as it is described."""
    if steps == 1:
        return {(length,): Fraction(1)}
    weights = [Fraction(1)]
    for size in range(2, length - steps + 2):
        m = length - size + 1
        weights.append(weights[-1] * factor(m, table[steps - 1, m], table[steps - 1, m - 1]))
    total = sum(weights)
    law = {}
    for size, weight in enumerate(weights, start=1):
        for rest, chance in paper_size_law(table, factor, steps - 1, length - size).items():
            law[size, *rest] = weight / total * chance
    return law


def cut_design_law(odds, steps):
    """`{sizes: probability}` of the design `P(cuts = B) ∝ Π odds_j` over `j = 1 … L−1`, as fractions."""
    length = len(odds) + 1
    law = {}
    for cuts in combinations(range(1, length), steps - 1):
        weight = Fraction(1)
        for cut in cuts:
            weight *= odds[cut - 1]
        ends = (0, *cuts, length)
        law[tuple(b - a for a, b in pairwise(ends))] = weight
    total = sum(law.values())
    return {sizes: weight / total for sizes, weight in law.items()}


def stirling_first_kind(n):
    """Row `n` of the unsigned Stirling numbers of the first kind: permutations of `n` items by number of cycles."""
    row = [1]
    for m in range(n):
        row = [(row[k - 1] if k else 0) + (m * row[k] if k < len(row) else 0) for k in range(len(row) + 1)]
    return row


def stirling_dtc(length, digits=60):
    """`f_dtc(K, L)` for all `1 ≤ K ≤ L ≤ length`: `Σ_{l<L} q(l)/(l+1) / q(L)` with `q(l) = c(l, K)/l!`."""
    with localcontext() as context:
        context.prec = digits
        result = {}
        below = [Decimal(1)] + [Decimal(0)] * length  # c(l, K−1)/l!
        for k in range(1, length + 1):
            q, total = [Decimal(0)] * (length + 1), Decimal(0)
            for m in range(k, length + 1):
                q[m] = (below[m - 1] + (m - 1) * q[m - 1]) / m
                result[k, m] = total / q[m]
                total += q[m] / (m + 1)
            below = q
        return result


def law_moments(law, length, steps):
    """Cut probabilities, mean sizes and overhang of an enumerated law of sizes."""
    cut, mean, overhang = [0.0] * (length - 1), [0.0] * steps, [0.0] * (length - 1)
    for sizes, chance in law.items():
        chance, revealed, ends = float(chance), 0, []
        for step, size in enumerate(sizes):
            mean[step] += chance * size
            revealed += size
            ends += [revealed] * size
            if size and revealed < length:
                cut[revealed - 1] += chance
        for rank in range(1, length):
            overhang[rank - 1] += chance * (ends[rank - 1] - rank)
    return cut, mean, overhang


def chi_square(counts, chances):
    """P-value of observed counts under given chances; cells expected fewer than five times are pooled.

    Zero if something happened that cannot.
    """
    counts, chances = np.ravel(counts).astype(float), np.ravel(chances).astype(float)
    if counts[chances <= 1e-15].sum() > 0:
        return 0.0
    expected = chances * counts.sum()
    order = np.argsort(-expected)
    large = order[expected[order] >= 5]
    observed = [*counts[large], counts.sum() - counts[large].sum()]
    wanted = [*expected[large], counts.sum() - expected[large].sum()]
    if wanted[-1] < 5 and len(wanted) > 1:
        rest_observed, rest_wanted = observed.pop(), wanted.pop()
        observed[-1], wanted[-1] = observed[-1] + rest_observed, wanted[-1] + rest_wanted
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True))
    return float(chi2.sf(statistic, len(wanted) - 1)) if len(wanted) > 1 else 1.0
