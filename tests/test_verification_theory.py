"""What docs/theory.md says of verified drafts: their law, how many are rejected, and what that costs.

The algorithm is gone through literally, evaluation by evaluation, with the probability of everything it can do.
"""

from collections import defaultdict
from itertools import pairwise, product
from math import isclose, prod, sqrt

import numpy as np
import pytest

from remembered import Remembered, random_joint
from unmask.information.measures import kl, total_correlation

PLANS = [
    ((2, 0, 3, 1),),
    ((0, 1), (2, 3)),
    ((1, 3), (2, 0)),
    ((3,), (0, 2, 1)),
    ((1, 0, 2), (3,)),
    ((0,), (2, 1), (3,)),
    ((0,), (1,), (2,), (3,)),
]


def singles(known):
    """A history of tokens that came one after the other."""
    return tuple((pair,) for pair in known)


def outcomes(predictor, plan):
    """Chances of `(pairs of position and token as they came, rejections, evaluations, one saved at the end)`."""
    law = defaultdict(float)
    law[(), 0, 1, False] = 1.0  # the first evaluation predicts the positions of the first step
    for number, positions in enumerate(plan):
        last = number == len(plan) - 1
        after = defaultdict(float)
        for (known, rejected, evaluations, _), chance in law.items():
            drafts_of = [predictor(singles(known), i) for i in positions]
            for drafts in product(*(np.flatnonzero(q > 0) for q in drafts_of)):
                first = prod(q[token] for q, token in zip(drafts_of, drafts, strict=True))
                start = tuple(int(token) for token in drafts)
                for result, more in verified(predictor, known, positions, start, drafts_of, last, fresh=True):
                    tokens, number_of, passes, saved = result
                    after[tokens, rejected + number_of, evaluations + passes, saved] += chance * first * more
        law = after
    return law


def verified(predictor, known, positions, drafts, drafts_of, last, *, fresh):
    """One evaluation and what follows from it: results of a step, and their chances."""
    if last and (not positions or (fresh and len(positions) == 1)):
        # Nothing to predict, and nothing to score: a lone draft was made with the past it has.
        yield (known + tuple(zip(positions, drafts, strict=True)), 0, 0, True), 1.0
        return
    # The evaluation scores all drafts, each given those before it as they are.
    drafted = tuple(zip(positions, drafts, strict=True))
    scores = [predictor(singles(known + drafted[:j]), i) for j, i in enumerate(positions)]
    reached = 1.0
    for j, (p, q, token) in enumerate(zip(scores, drafts_of, drafts, strict=True)):
        accepted = min(1.0, p[token] / q[token])
        if accepted < 1:
            residual = np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
            for other in np.flatnonzero(residual > 0):
                corrected = known + drafted[:j] + ((positions[j], int(other)),)
                rest = positions[j + 1 :], drafts[j + 1 :], drafts_of[j + 1 :]
                for result, chance in verified(predictor, corrected, *rest, last, fresh=False):
                    tokens, rejected, passes, saved = result
                    yield (tokens, rejected + 1, passes + 1, saved), reached * (1 - accepted) * residual[other] * chance
        reached *= accepted
    yield (known + drafted, 0, 1, False), reached


def one_by_one(predictor, plan):
    """Chances of pairs of position and token, drawn one by one."""
    law = {(): 1.0}
    for position in sum(plan, ()):
        law = {
            (*known, (position, token)): chance * share
            for known, chance in law.items()
            for token, share in enumerate(predictor(singles(known), position))
        }
    return law


def pairs(predictor, plan):
    """For every draft: chances of its past one by one, its score `p` and what it was drawn from, `q`."""
    for number, positions in enumerate(plan):
        before = sum(plan[:number], ())
        for j, position in enumerate(positions):
            for known, chance in one_by_one(predictor, (before, positions[:j])).items():
                past = known[: len(before)]
                yield number, j, chance, predictor(singles(known), position), predictor(singles(past), position)


def distance(p, q):
    return np.abs(p - q).sum() / 2


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_verified_drafts_have_the_one_by_one_law(plan, noise):
    predictor = Remembered(random_joint(1), noise)
    law = defaultdict(float)
    for (tokens, *_), chance in outcomes(predictor, plan).items():
        law[tokens] += chance
    exact = one_by_one(predictor, plan)
    assert set(law) == set(exact)
    assert all(isclose(law[tokens], exact[tokens], rel_tol=1e-12, abs_tol=1e-14) for tokens in exact)


def test_verified_drafts_have_the_one_by_one_law_where_tokens_are_impossible():
    joint = random_joint(2, length=3, vocab=3)
    joint[np.random.default_rng(3).random(joint.shape) < 0.5] = 0.0
    predictor = Remembered(joint / joint.sum())
    for plan in (((0, 1, 2),), ((1,), (2, 0)), ((2, 1), (0,))):
        law = defaultdict(float)
        for (tokens, *_), chance in outcomes(predictor, plan).items():
            law[tokens] += chance
        exact = {tokens: chance for tokens, chance in one_by_one(predictor, plan).items() if chance > 0}
        assert all(isclose(law[tokens], chance, rel_tol=1e-12) for tokens, chance in exact.items())
        assert isclose(sum(law[tokens] for tokens in exact), 1.0, rel_tol=1e-12)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_rejections_are_the_distance_of_scores_and_drafts(plan, noise):
    predictor = Remembered(random_joint(4), noise)
    mean = sum(chance * rejected for (_, rejected, *_), chance in outcomes(predictor, plan).items())
    exact = sum(chance * distance(p, q) for _, _, chance, p, q in pairs(predictor, plan))
    assert isclose(mean, exact, rel_tol=1e-12, abs_tol=1e-14)
    assert all(distance(p, q) == 0 for _, j, _, p, q in pairs(predictor, plan) if j == 0)


@pytest.mark.parametrize("plan", PLANS)
def test_every_rejection_costs_one_evaluation(plan):
    """Whatever happens: one to begin, one for each step and one for each rejection, but for what nobody needs."""
    predictor = Remembered(random_joint(5))
    for (_, rejected, evaluations, saved), _ in outcomes(predictor, plan).items():
        assert evaluations == 1 + len(plan) + rejected - saved
    if len(plan[-1]) == 1:
        assert all(saved for _, _, _, saved in outcomes(predictor, plan))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_rejections_are_bounded_by_what_drafts_would_lose(plan, noise):
    """Pinsker, Jensen and Cauchy with the divergence of the one-by-one law from that of unverified drafts."""
    predictor = Remembered(random_joint(6), noise)
    rejections = sum(chance * distance(p, q) for _, _, chance, p, q in pairs(predictor, plan))
    by_draft = defaultdict(float)
    for number, j, chance, p, q in pairs(predictor, plan):
        by_draft[number, j] += chance * kl(p, q)
    law = one_by_one(predictor, plan)
    drafted = dict.fromkeys(law, 1.0)
    for known in law:
        for start, stop in pairwise(np.cumsum([0, *map(len, plan)])):
            past = singles(known[:start])
            drafted[known] *= prod(predictor(past, position)[token] for position, token in known[start:stop])
    lost = kl(list(law.values()), list(drafted.values()))
    assert isclose(sum(drafted.values()), 1.0, rel_tol=1e-12)
    assert isclose(sum(by_draft.values()), lost, rel_tol=1e-9, abs_tol=1e-12)
    bounds = [sum(sqrt(each / 2) for each in by_draft.values()), sqrt((4 - len(plan)) * lost / 2)]
    assert rejections <= bounds[0] + 1e-12
    assert bounds[0] <= bounds[1] + 1e-9


@pytest.mark.parametrize("plan", PLANS)
def test_rejections_of_a_perfect_predictor_are_bounded_by_the_dependence_inside_a_step(plan):
    joint = random_joint(7)
    predictor = Remembered(joint, noise=0.0)
    rejections, informations = defaultdict(float), defaultdict(float)
    for number, j, chance, p, q in pairs(predictor, plan):
        rejections[number] += chance * distance(p, q)
        informations[number, j] += chance * kl(p, q)
    inside, earlier = [], ()
    for number, positions in enumerate(plan):
        inside.append(total_correlation(joint, positions, earlier))
        earlier += positions
        own = [informations[number, j] for j in range(len(positions))]
        assert isclose(sum(own), inside[-1], rel_tol=1e-9, abs_tol=1e-12)
        total = sum(sqrt(each / 2) for each in own)
        assert rejections[number] <= total + 1e-12
        assert total <= sqrt((len(positions) - 1) * max(inside[-1], 0.0) / 2) + 1e-7
    assert sum(rejections.values()) <= sqrt((4 - len(plan)) * max(sum(inside), 0.0) / 2) + 1e-7
