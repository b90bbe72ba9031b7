"""What the networks of a kind write under every rule, and what that is worth.

Texts are written for test rows from fixed seeds, at temperature 1 and greedily, and kept (`texts-NETWORK.npz`), so that
scores that need packages of their own can be computed elsewhere (`scored`). Beside the scores of a kind stand
what likelihood does not show: how many of the pairs and triples of tokens are different, and the entropy of tokens.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Kind, Rows
from experiments.atlas.measuring import Say, check_rows, error, sequences, without
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
    """Texts of every rule and draw, for so many rows; what is there is not written again.

    Raises:
        InputError: if texts are there for another number of rows.
    """
    texts = sequences(rows, count, device)
    found: dict[str, NDArray[np.generic]] = {}
    if path.exists():
        found |= files.read_arrays(path)
    for each in found.values():
        check_rows(path, len(each), len(texts))
    for rule in wanted:
        if all(f"{rule.key}|{word}" in found for word in DRAWS):
            continue
        found = without(found, rule)
        for word, draw in DRAWS.items():
            name = f"{rule.key}|{word}"
            begin = time.monotonic()
            sampler = Sampler(predictor, rule.schedule, draw)
            trace = sampler.fill(texts, rng=list(range(len(texts))), batch=batch)
            found[name] = trace.tokens.cpu().numpy().astype(np.uint16)
            found[f"{name}|evaluations"] = np.asarray(trace.evaluations, dtype=np.float32)
            say(f"{rule.name}, {word}: {np.mean(trace.evaluations):.1f} evaluations, {time.monotonic() - begin:.1f} s")
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **found)


def scored(kind: Kind, rows: Rows, path: Path, wanted: Iterable[Rule], usual: Rule) -> Iterator[dict[str, object]]:
    """For every rule and draw that has texts: scores with their errors, evaluations, and how varied its texts are.

    Scores are compared, text by text, with those of one rule, drawn in the same way. Errors treat texts as independent,
    as they are but for scores that ask whether a text repeats another.

    Arguments:
        kind: The kind.
        rows: The test rows that texts were written for.
        path: Where the texts are.
        wanted: The rules.
        usual: The rule to compare with.
    """
    kept = files.read_arrays(path)
    names = {(rule.name, draw): name for rule in wanted for draw in DRAWS if (name := f"{rule.key}|{draw}") in kept}
    written = {key: kept[name].astype(np.int64) for key, name in names.items()}
    spent = {key: kept[f"{name}|evaluations"] for key, name in names.items()}
    if not written:
        return
    part = rows.spread(len(next(iter(written.values()))))
    scores = {key: kind.scores(tokens, part) for key, tokens in written.items()}
    for (rule, draw), tokens in written.items():
        evaluations = spent[rule, draw]
        row: dict[str, object] = {
            "rule": rule, "draw": draw, "texts": len(tokens), "evaluations": float(evaluations.mean()),
            "tokens_per_forward": float(part.hidden.sum() / evaluations.sum()), **variety(tokens, part.hidden),
        }  # fmt: skip
        other = scores.get((usual.name, draw))
        for score, values in scores[rule, draw].items():
            row |= {score: float(values.mean()), f"{score}_error": error(values)}
            if other is not None:
                over = values - other[score]
                row |= {f"{score}_over": float(over.mean()), f"{score}_over_error": error(over)}
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
