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
    """Texts of every rule and draw, for so many rows; what is there is not written again."""
    texts = sequences(rows, count, device)
    found: dict[str, NDArray[np.generic]] = {}
    if path.exists():
        with np.load(path) as kept:
            found = {name: kept[name] for name in kept.files if len(kept[name]) == len(texts)}
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


def scored(kind: Kind, rows: Rows, path: Path, count: int) -> Iterator[dict[str, object]]:
    """For every rule and draw its scores with their errors, its evaluations, and how varied its texts are.

    Scores are compared, text by text, with those of one token at a time in random order, drawn in the same way.

    Arguments:
        kind: The kind.
        rows: The test rows that texts were written for.
        path: Where the texts are.
        count: Tokens to fill in a text, in the one that has most.
    """
    with np.load(path) as kept:
        names = [name for name in kept.files if not name.endswith("|evaluations")]
        written = {name: kept[name].astype(np.int64) for name in names}
        spent = {name: kept[f"{name}|evaluations"] for name in names}
    part = rows.spread(len(next(iter(written.values()))))
    scores = {name: kind.scores(tokens, part) for name, tokens in written.items()}
    for name, tokens in written.items():
        rule, draw = name.split("|")
        row: dict[str, object] = {
            "rule": rule, "draw": draw, "texts": len(tokens), "evaluations": float(spent[name].mean()),
            "tokens_per_forward": float(part.hidden.sum() / spent[name].sum()), **variety(tokens, part.hidden),
        }  # fmt: skip
        usual = scores.get(f"random/even:{count}|{draw}")
        for score, values in scores[name].items():
            row |= {score: float(values.mean()), f"{score}_error": _error(values)}
            if usual is not None:
                over = values - usual[score]
                row |= {f"{score}_over": float(over.mean()), f"{score}_over_error": _error(over)}
        yield row


def variety(tokens: NDArray[np.int64], hidden: NDArray[np.bool_]) -> dict[str, float]:
    """How varied texts are where they were filled: different pairs and triples, and bits of a single token.

    Example:
        >>> variety(np.array([[9, 0, 1, 0, 1]]), np.array([[False, True, True, True, True]]))
        {'distinct_2': 0.6666666666666666, 'distinct_3': 1.0, 'entropy': 1.0}
    """
    found = {}
    for n in (2, 3):
        grams, there = (np.lib.stride_tricks.sliding_window_view(each, n, axis=1) for each in (tokens, hidden))
        own = grams[there.all(axis=2)]
        found[f"distinct_{n}"] = len(np.unique(own, axis=0)) / max(1, len(own))
    chances = np.bincount(tokens[hidden]) / hidden.sum()
    chances = chances[chances > 0]
    return {**found, "entropy": float(-(chances * np.log2(chances)).sum())}


def _error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
