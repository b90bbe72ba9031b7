"""Measure how much positions tell you about each other after every set of others, for a small number of positions.

Pairs given so many others on average do not tell all (`unmask.calibration.dependence`). With at most 16 positions there
is no need to average: every set `A` is made visible on texts, and predictions given `A` are compared with those given
`A ∪ {j}`, for all `j`. What any order costs above one by one is a sum of such numbers, and the best order is found
exactly (`unmask.evaluate.sets`). It takes `2^L` evaluations of each text, and each serves `L` comparisons.

`OwnPredictions` is what is taken by default: the divergence of two predictions has an error in proportion to itself. On
a 3 × 4 Ising grid 64 texts find the best order so, and with `OnTexts` they do not. For a perfect predictor both have
the same mean; of another one the first says what the model believes of its own texts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import final

import numpy as np
from numpy.typing import NDArray

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.calibration.measurement import check_measurable
from unmask.calibration.revealing import Gain, OwnPredictions
from unmask.calibration.shards import finite
from unmask.engine import LOCAL, Engine, Job, Report
from unmask.evaluate.given import texts_of
from unmask.evaluate.sets import SetDependence, check_short
from unmask.predict import MaskPredictor, Prediction, Watched, predicting
from unmask.sequences import Sequences

OWN = OwnPredictions()


def measure_sets(
    predictor: MaskPredictor,
    tokens: Sequences | Tensor,
    *,
    gain: Gain = OWN,
    batch: int = 64,
    engine: Engine = LOCAL,
    progress: Callable[[int], object] = lambda done: None,
) -> SetDependence:
    """Measure the dependence of every two positions after every set of others, on texts of few positions.

    Arguments:
        predictor: The model.
        tokens: Texts of one length of at most 16, at least 2, of which nothing is given.
        gain: What is taken at each position.
        batch: Texts at once; of fewer texts, several sets at once.
        engine: Who does it. The result does not depend on it.
        progress: Called with the number of sequences evaluated since the last call.

    Raises:
        InputError: if an argument is not what it should be, or the model gives losses that are not finite numbers.

    Example:
        >>> from unmask.distribution import Parity
        >>> from unmask.predict import ExactPredictor
        >>> table = measure_sets(ExactPredictor(Parity(3)), torch.from_numpy(Parity(3).sample(4, rng=0)))
        >>> round(table.excess([[0, 1], [2]]), 4), round(table.excess([[0], [1, 2]]), 4)  # only the last is decided
        (0.0, 0.6931)
        >>> table.best([2, 1]).sizes
        (2, 1)
    """
    texts = texts_of(tokens, predictor, least=2)
    check_measurable(predictor)
    check.instance("gain", gain, Gain, "be a Gain, such as OnTexts()")
    check.function("progress", progress)
    if not texts.equal or not bool(texts.masked.all()):
        raise check.InputError("tokens", "be texts of the same length without given tokens")
    length = texts.tokens.shape[1]
    check_short("tokens", length)
    batch = check.integer("batch", batch, least=1)
    cuts = texts.cuts(batch, pad=predictor.pad, whole=predictor.whole)
    most = max(comb(length, n) * (length - n) for n in range(length))
    check.room("batch", min(batch, len(texts)), most * predictor.vocab)
    job = Job(engine, _Sets(predictor, gain, batch), (texts.tokens,), cuts)
    (found,) = job([()], lambda task, done: progress(done))
    total = torch.stack(found).sum(dim=0) / len(texts)
    finite(total)
    values = total.numpy()
    return SetDependence(length, (values + values.transpose(0, 2, 1)) / 2)


@final
@dataclass(frozen=True, eq=False)
class _Sets:
    """Work on shards of texts. Its result is a table of sums over them: set, telling position, told position."""

    predictor: MaskPredictor
    gain: Gain
    batch: int

    @predicting
    def __call__(self, shard: tuple[Tensor], report: Report) -> Tensor:
        (tokens,) = shard
        predictor, length = Watched(self.predictor, report), tokens.shape[1]
        result = torch.zeros((1 << length, length, length), dtype=torch.float64)
        later, row = tokens, np.zeros(1 << length, dtype=np.int64)  # no prediction is later than the first
        each = max(1, self.batch // len(tokens))
        for count in reversed(range(length)):
            hidden = np.array(list(combinations(range(length), length - count)), dtype=np.int64)
            sets = (1 << length) - 1 - (1 << hidden).sum(axis=1)
            parts: list[Tensor] = []
            for start in range(0, len(sets), each):
                some, seen = hidden[start : start + each], sets[start : start + each]
                parts.append(self._predicted(predictor, tokens, some))
                if count < length - 1:
                    after = later[torch.as_tensor(row[seen[:, None] | 1 << some]).to(later.device)]
                    result[torch.as_tensor(seen)] = self._told(parts[-1], after, some, tokens)
            row[sets] = np.arange(len(sets))
            later = torch.cat(parts)  # so that two counts of visible positions are kept, and not all
        return result

    def _predicted(self, predictor: MaskPredictor, tokens: Tensor, hidden: NDArray[np.int64]) -> Tensor:
        """Log-probabilities of the hidden positions of each set: sets, texts, positions, vocabulary."""
        masked = torch.zeros((len(hidden), tokens.shape[1]), dtype=torch.bool)
        masked[torch.arange(len(hidden))[:, None], torch.as_tensor(hidden)] = True
        masked = masked.to(tokens.device).repeat_interleave(len(tokens), dim=0)
        rows = torch.nonzero(masked.flatten())[:, 0]
        given = tokens.repeat(len(hidden), 1).masked_fill(masked, predictor.mask)
        values = predictor(given, masked, rows).log_probabilities()
        return values.view(len(hidden), len(tokens), hidden.shape[1], -1)

    def _told(self, before: Tensor, after: Tensor, hidden: NDArray[np.int64], tokens: Tensor) -> Tensor:
        """Sums over texts of what each hidden position tells of each other one, for each set."""
        sets, width = hidden.shape
        others = np.array([[b for b in range(width) if b != a] for a in range(width)])
        places = torch.as_tensor(hidden[:, others])  # of whom is told: set, telling position, others
        early = before[:, :, torch.as_tensor(others).to(before.device)].transpose(1, 2)
        own = tokens[:, places.to(tokens.device)].permute(1, 2, 0, 3)
        values = self.gain(_prediction(early), _prediction(after), own.flatten()).double()
        sums = values.view(sets, width, len(tokens), width - 1).sum(dim=2).cpu()
        result = torch.zeros((sets, tokens.shape[1], tokens.shape[1]), dtype=torch.float64)
        result[torch.arange(sets)[:, None, None], torch.as_tensor(hidden)[:, :, None], places] = sums
        return result


def _prediction(values: Tensor) -> Prediction:
    """Predictions from their log-probabilities, one row for each."""
    rows = values.reshape(-1, values.shape[-1])
    return Prediction((rows,), _same, rows.shape[1])


def _same(rows: Tensor) -> Tensor:
    return rows
