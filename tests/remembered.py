"""A predictor on a small table that depends on the steps in which tokens became known, and every split of positions.

Nothing here imports the library.
"""

from itertools import chain, combinations

import numpy as np

from enumeration import Conditionals


class Remembered:
    """The true conditional marginals, distorted by noise that depends on the whole history; without noise as they are.

    A history is a tuple of steps, each a tuple of pairs `(position, token)`: the same tokens in other steps are another
    history.
    """

    def __init__(self, joint, noise=1.0):
        self.conditionals, self.noise, self.known = Conditionals(joint), noise, {}

    def __call__(self, history, position):
        key = (history, position)
        if key not in self.known:
            true = self.conditionals(dict(chain(*history)))[position]
            # 97 stands for the end of a step.
            seed = [position, *chain(*((*chain(*step), 97) for step in history))]
            weights = true * np.exp(self.noise * np.random.default_rng(seed).standard_normal(true.size))
            self.known[key] = weights / weights.sum()
        return self.known[key]


def history_of(sets, x):
    """The tokens of `x` at these sets, one step each."""
    return tuple(tuple((i, int(x[i])) for i in each) for each in sets)


def splits(positions, sizes):
    """Every split of positions into sets of these sizes, in order."""
    if not sizes:
        yield ()
        return
    for first in combinations(positions, sizes[0]):
        for rest in splits(tuple(i for i in positions if i not in first), sizes[1:]):
            yield (first, *rest)


def random_joint(seed, length=4, vocab=2):
    return np.random.default_rng(seed).dirichlet(np.full(vocab**length, 0.4)).reshape((vocab,) * length)
