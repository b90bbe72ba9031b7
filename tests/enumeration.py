"""The law of a sampler on a small table by enumeration, written apart from the library: nothing here imports it.

Orders and sizes are recognised by the names of their classes and read as their definitions say. Everything a schedule
draws before it sees predictions is enumerated with its probability; given that, the path on a sequence `x` is
determined, and the probability of `x` is the product of the predicted probabilities of its tokens along the path.
"""

from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np


class Conditionals:
    """Conditional marginals of a table, shape `(length, vocab)` for each context; uniform where it is impossible."""

    def __init__(self, joint):
        self.joint, self.known = joint, {}

    def __call__(self, revealed, history=()):
        key = tuple(sorted(revealed.items()))
        if key not in self.known:
            part = self.joint
            for position, token in key:
                part = np.where(
                    np.indices(part.shape)[position] == token, part, 0.0
                )  # zero out what contradicts the context
            total = part.sum()
            length, vocab = part.ndim, part.shape[0]
            result = np.full((length, vocab), 1 / vocab)
            if total > 0:
                for i in range(length):
                    result[i] = part.sum(axis=tuple(j for j in range(length) if j != i)) / total
            self.known[key] = result
        return self.known[key]


def van_der_corput(length):
    """Positions in the order in which 0, 1/2, 1/4, 3/4, 1/8 … first falls into them."""
    walk, n = [], 0
    while len(walk) < length:
        value, scale, m = 0.0, 0.5, n
        while m:
            value += scale * (m & 1)
            scale, m = scale / 2, m >> 1
        position = int(value * length)
        if position not in walk:
            walk.append(position)
        n += 1
    return walk


def arrangements(order, positions, length, steps):
    """`[(probability, positions in order)]` of a blind order, or one entry `None` of a reactive one."""
    kind, count = type(order).__name__, len(positions)
    if kind == "Random":
        all_of_them = list(permutations(positions))
        return [(1 / len(all_of_them), list(p)) for p in all_of_them]
    if kind == "LeftToRight":
        return [(1.0, list(positions))]
    if kind == "Spread":
        walks = [[(p + shift) % length for p in van_der_corput(length)] for shift in range(length)]
        return [(1 / length, [p for p in walk if p in positions]) for walk in walks]
    if kind == "SpreadGrid":
        assert (order.height, order.width) == (2, 2)
        result = []
        for down, right in product(range(2), repeat=2):
            cells = [(0, 0), (1, 1), (0, 1), (1, 0)]  # diagonal quarters first
            walk = [2 * ((r + down) % 2) + (c + right) % 2 for r, c in cells]
            result.append((0.25, [p for p in walk if p in positions]))
        return result
    if kind == "CombGrid":
        assert (order.height, order.width) == (2, 2)
        teeth = min(int(np.ceil(np.sqrt(count))) if steps is None else steps, count)
        # All at once; the diagonals; the diagonal that is not the first, then the corners; one by one.
        tooth = {1: [[0, 0, 0, 0]], 2: [[0, 1, 1, 0], [1, 0, 0, 1]], 3: [[2, 0, 0, 1]], 4: None}[teeth]
        tooth = tooth or [[(i - shift) % 4 for i in range(4)] for shift in range(4)]
        diagonals = [0, 3, 1, 2]
        walks = [sorted(diagonals, key=lambda p, each=each: each[p]) for each in tooth]
        return [(1 / len(walks), [p for p in walk if p in positions]) for walk in walks]
    if kind == "Sets":
        return [(1.0, [p for step in order.sets for p in step if p in positions])]
    if kind == "Comb":
        if order.segments is None:
            teeth = int(np.ceil(np.sqrt(count))) if steps is None else min(steps, count)
        else:
            teeth = int(np.ceil(count / min(order.segments, count)))
        place = van_der_corput(count)
        result = []
        shifts = teeth if count % teeth == 0 else 1
        for shift in range(shifts):
            key = [((i - shift) % teeth, place.index(i)) for i in range(count)]
            result.append((1 / shifts, [positions[i] for i in sorted(range(count), key=key.__getitem__)]))
        return result
    if kind == "Periodic":
        period, place, result = len(order.residues), van_der_corput(count), []
        shifts = period if count % period == 0 else 1
        for shift in range(shifts):
            key = [(order.residues.index((i - shift) % period), place.index(i)) for i in range(count)]
            result.append((1 / shifts, [positions[i] for i in sorted(range(count), key=key.__getitem__)]))
        return result
    if kind == "Dilated":
        left, walk, t = list(range(count)), [], 1
        while left:
            stride = max(count // 2**t, 1)
            now = [i for i in left if i % stride == 0]
            walk, left, t = walk + now, [i for i in left if i not in now], t + 1
        return [(1.0, [positions[i] for i in walk])]
    if kind == "Halton":
        walk = halton(order, positions, length)
        turns = [walk[turn:] + walk[:turn] for turn in range(len(walk))] if order.rolled else [walk]
        return [(1 / len(turns), [i for i in each if i in positions]) for each in turns]
    if kind == "Nearby":
        return [(1.0, nearby(order, positions, length, steps))]
    return [(1.0, None)]


def radical_inverse(n, base):
    value, scale = 0.0, 1.0
    while n:
        scale /= base
        value, n = value + scale * (n % base), n // base
    return value


def halton(order, positions, length):
    """Cells in the order in which the points `(h_2(n), h_3(n))` from `n = 1` on first fall into them."""
    first, height, width = (0, order.height, order.width) if order.height else (positions[0], None, 1)
    height = height or positions[-1] - positions[0] + 1
    walk, n = [], 1
    while len(walk) < height * width:
        cell = int(radical_inverse(n, 2) * height) * width + int(radical_inverse(n, 3) * width + 1e-12)
        walk, n = walk if first + cell in walk else [*walk, first + cell], n + 1
    return walk


def nearby(order, positions, length, steps):
    """Near to what was known before the step, far from what the step has; even steps, the longer first."""
    left, count = list(positions), len(positions)
    steps = min(int(np.ceil(np.sqrt(count))) if steps is None else steps, count)
    walk = []
    for number in range(steps):
        known = [i for i in range(length) if i not in left]
        own = []
        distance = order.distance or steps
        while len(own) < count // steps + (number < count % steps):
            gaps = {i: min((abs(i - j) for j in own), default=np.inf) for i in left if i not in own}
            free = [i for i in gaps if gaps[i] >= distance]
            if not free:
                distance //= 2
                continue
            near = {i: min((abs(i - j) for j in known), default=np.inf) for i in free}
            own.append(min(free, key=lambda i: (near[i], i)))
        walk += own
        left = [i for i in left if i not in own]
    return walk


def far_apart(order, ranking, count, whole, fixed):
    """What a spaced order takes of a ranking: `count` of it if that is fixed, or what is far enough among so many."""
    distance = order.distance
    if order.fading:
        distance = min(distance, max(2, len(ranking) * distance // whole))
    own = []
    while len(own) < count:
        found = [i for i in (ranking if fixed else ranking[:count]) if i not in own]
        found = [i for i in found if all(abs(i - j) >= distance for j in own)]
        if not found and not fixed:
            break
        if not found:
            distance //= 2
        own += found[:1]
    return own


def size_draws(size, count):
    """`[(probability, sizes)]` of a blind size for `count` tokens and its steps, or one entry `None`."""
    if not hasattr(size, "steps"):
        return [(1.0, None)], None
    if type(size).__name__ not in ("LogLinear", "Explicit") and size.steps > count:
        size = replace(size, steps=count)
    draws = []
    for sizes in product(range(count + 1), repeat=size.steps):
        chance = np.exp(size.log_probability(sizes)) if sum(sizes) == count else 0.0
        if chance > 0:
            draws.append((chance, sizes))
    return draws, size.steps


def ranked(order, arrangement, left, p, whole, progress):
    kind = type(order).__name__
    if arrangement is not None:
        return [i for i in arrangement if i in left]
    if kind == "Confidence":
        return sorted(left, key=lambda i: -p[i].max())
    if kind == "Margin":
        return sorted(left, key=lambda i: -(np.sort(p[i])[-1] - np.sort(p[i])[-2]))
    if kind == "EndLater":
        weight = {i: order.weight + (1 - order.weight) * progress if p[i].argmax() in order.tokens else 1 for i in left}
        return sorted(left, key=lambda i: -weight[i] * p[i].max())
    if kind == "Calibrated":
        start = min(whole)
        told = {i: -p[i].max() * np.log(order.frequencies[p[i].argmax()] + 1e-9) for i in left}
        return sorted(left, key=lambda i: -np.exp(-order.decay * (i - start)) * min(order.most, told[i]))
    assert kind == "Entropy"
    return sorted(left, key=lambda i: entropy(p[i]))


def entropy(p):
    return float(-sum(v * np.log(v) for v in p if v > 0))


def settled(size, ranking, p, before):
    """The positions that are sure and have not moved over the last steps, if that is what the size asks for."""
    if type(size).__name__ in ("AtLeast", "AtMost"):
        return settled(size.size, ranking, p, before)
    if type(size).__name__ != "Stable" or len(before) < size.history:
        return []
    steps = [*before[-size.history :], p]
    ready = []
    for i in ranking:
        moved = [float((new[i] * np.log(new[i] / old[i])).sum()) for old, new in pairwise(steps)]
        if p[i].max() > size.threshold and max(moved) < size.divergence:
            ready.append(i)
    return ready


def accepted(size, ranking, p, ready=()):
    """How many of the ranked positions a reactive size accepts."""
    kind = type(size).__name__
    if kind == "AtLeast":
        return min(max(accepted(size.size, ranking, p, ready), size.least), len(ranking))
    if kind == "AtMost":
        return min(accepted(size.size, ranking, p, ready), size.most)
    if kind == "Stable":
        return max(1, len(ready))
    best, taken = 1, []
    for rank, position in enumerate(ranking, start=1):
        taken.append(position)
        uncertain = [entropy(p[i]) for i in taken]
        fine = {
            "Threshold": lambda i=position: p[i].max() >= size.threshold,
            "Factor": lambda i=position, r=rank: p[i].max() >= 1 - size.factor / (r + 1),
            "EntropyBound": lambda h=uncertain: sum(h) - max(h) <= size.bound,
        }[kind]()
        if not fine:
            break
        best = rank
    return best


def split_blocks(order, positions):
    if type(order).__name__ != "Blocks":
        return order, [list(positions)]
    first = positions[0]
    blocks = {}
    for position in positions:
        blocks.setdefault((position - first) // order.length, []).append(position)
    return order.order, [blocks[number] for number in sorted(blocks)]


def laws(joint, order, size, conditionals=None):
    """`[(probability, law)]`: what the schedule draws blindly, and the law of the output given that."""
    length, vocab = joint.ndim, joint.shape[0]
    conditionals = conditionals or Conditionals(joint)
    inner, blocks = split_blocks(order, list(range(length)))
    delimited, inner = (inner, inner.order) if type(inner).__name__ == "Delimited" else (None, inner)
    spaced, inner = (inner, inner.order) if type(inner).__name__ == "Spaced" else (None, inner)
    choices = []
    for block in blocks:
        draws, steps = size_draws(size, len(block))
        orders = arrangements(inner, block, length, steps)
        choices.append([(a * b, (block, o, s)) for a, o in orders for b, s in draws])
    result = []
    for combination in product(*choices):
        weight = np.prod([chance for chance, _ in combination])
        law = np.empty(joint.shape)
        for x in product(range(vocab), repeat=length):
            law[x] = path_probability(
                x, inner, size, [part for _, part in combination], conditionals, spaced, delimited
            )
        result.append((weight, law))
    return result


def path_probability(x, order, size, parts, conditionals, spaced=None, delimited=None):
    revealed, history, chance = {}, (), 1.0
    for block, arrangement, sizes in parts:
        rest, turns, before, taken = list(block), list(sizes) if sizes is not None else None, [], 0
        steps = len([count for count in sizes or () if count])
        left, own = ([], []) if delimited is not None else (rest, block)
        while rest:
            p = conditionals(revealed, history)
            if not left:
                before = []
                left = own = [i for i in rest if i < delimiter(delimited, rest, p, len(block))]
            progress = 1 - len(left) / len(own) if turns is None else taken / max(1, steps - 1)
            ranking = ranked(order, arrangement, left, p, own, progress)
            ready = settled(size, ranking, p, before)
            ranking = [*ready, *(i for i in ranking if i not in ready)]
            count = turns.pop(0) if turns is not None else accepted(size, ranking, p, ready)
            before.append(p)
            now = ranking[:count]
            if spaced is not None:
                now = far_apart(spaced, ranking, count, len(block), turns is not None)
            for position in now:
                chance *= p[position][x[position]]
            step = {i: x[i] for i in now}
            revealed, history = {**revealed, **step}, (*history, tuple(step.items())) if step else history
            left, rest, taken = [i for i in left if i not in now], [i for i in rest if i not in now], taken + bool(now)
    return chance


def delimiter(order, rest, p, whole):
    """The position after the end of a block that begins at the first of what is left to fill."""
    first, last = rest[0], rest[-1] + 1
    ahead = [i for i in rest if i < first + int(order.window * whole) and p[i].argmax() in order.delimiters]
    best = max(ahead, key=lambda i: p[i].max(), default=None)
    if best is not None and p[best].max() >= order.threshold:
        return best + 1
    return min(first + order.length, last)


def mixture(parts):
    return sum(weight * law for weight, law in parts)


def expected_divergence(joint, parts):
    """Mean over what is drawn blindly of `KL(joint ‖ law)`."""
    support = joint > 0
    return sum(weight * float(np.sum(joint[support] * np.log(joint[support] / law[support]))) for weight, law in parts)
