"""What the networks of a kind write under every rule, and what that is worth.

Texts are written for test rows from fixed seeds, at temperature 1 and greedily, and kept (`texts-NETWORK.npz`), so that
scores that need packages of their own can be computed elsewhere (`scored`). Beside the scores of a kind stand
what likelihood does not show: how many of the pairs and triples of tokens are different, and the entropy of tokens.
"""

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from experiments.atlas.kind import Kind, Rows
from experiments.atlas.measuring import Say, sequences
from experiments.atlas.rules import Rule
from numpy.typing import NDArray

from unmask._atomic import replacing
from unmask.predict import MaskPredictor
from unmask.sample import Categorical, Greedy, Sampler

DRAWS = {"temperature 1": Categorical(), "greedy": Greedy()}


def written(
    predictor: MaskPredictor,
    wanted: Iterable[Rule],
    rows: Rows,
    count: int,
    path: Path,
    device: str,
    batch: int,
    say: Say,
) -> None:
    """Texts of every rule and draw, for the first so many rows; what is there is not written again."""
    found: dict[str, NDArray[np.generic]] = {}
    if path.exists():
        with np.load(path) as kept:
            found = {name: kept[name] for name in kept.files}
    texts = sequences(rows, count, device)
    for rule in wanted:
        for word, draw in DRAWS.items():
            name = f"{rule.name}|{word}"
            if name in found:
                continue
            begin = time.monotonic()
            sampler = Sampler(predictor, rule.schedule, draw)
            trace = sampler.fill(texts, rng=list(range(len(texts))), batch=batch)
            found[name] = trace.tokens.cpu().numpy().astype(np.uint16)
            found[f"{name}|evaluations"] = np.asarray(trace.evaluations, dtype=np.float32)
            say(f"{name}: {np.mean(trace.evaluations):.1f} evaluations, {time.monotonic() - begin:.1f} s")
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **found)


def scored(kind: Kind, rows: Rows, path: Path) -> Iterator[dict[str, object]]:
    """For every rule and draw its scores with their errors, its evaluations, and how varied its texts are."""
    with np.load(path) as kept:
        for name in kept.files:
            if name.endswith("|evaluations"):
                continue
            rule, draw = name.split("|")
            tokens = kept[name].astype(np.int64)
            part = Rows(rows.tokens[: len(tokens)], rows.hidden[: len(tokens)])
            spent = kept[f"{name}|evaluations"]
            filled = part.hidden.sum()
            row: dict[str, object] = {
                "rule": rule, "draw": draw, "texts": len(tokens), "evaluations": float(spent.mean()),
                "tokens_per_forward": float(filled / spent.sum()), **variety(tokens),
            }  # fmt: skip
            for score, values in kind.scores(tokens, part).items():
                row |= {score: float(values.mean()), f"{score}_error": float(values.std() / math.sqrt(len(values)))}
            yield row


def variety(tokens: NDArray[np.int64]) -> dict[str, float]:
    """Shares of different pairs and triples of neighbours among all, and the entropy of single tokens in bits.

    Example:
        >>> variety(np.array([[0, 1, 0, 1]]))
        {'distinct_2': 0.6666666666666666, 'distinct_3': 1.0, 'entropy': 1.0}
    """
    found = {}
    for n in (2, 3):
        grams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=1).reshape(-1, n)
        found[f"distinct_{n}"] = len(np.unique(grams, axis=0)) / len(grams)
    chances = np.bincount(tokens.ravel()) / tokens.size
    chances = chances[chances > 0]
    return {**found, "entropy": float(-(chances * np.log2(chances)).sum())}
