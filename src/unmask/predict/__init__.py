"""Mask predictors: for every masked position, its distribution given the revealed tokens.

A predictor is called as `predictor(tokens, masked, rows)`. `rows` names the only positions whose predictions are
needed, as flat indices into `batch · length`; a model then computes hidden states everywhere and its output head on
those rows alone. The answer is a `Prediction`: logits as a means, read through what a sampler wants of them —
confidence, margin, entropy, log-probabilities — computed lazily, in chunks, in float32 or better whatever the model's
dtype, and never as a float64 array over the whole vocabulary.

    ExactPredictor     the conditional marginals of a known distribution: a perfect model
    Logits             any module or function that maps token ids to logits
    Headed             a body that gives hidden states and a head that gives logits
    Remembering        one that keeps what it made of known tokens (`unmask.predict.memory`)
    Blockwise          a network that attends to earlier blocks alone: finished ones are kept (`unmask.predict.blocks`)

Wrappers are predictors too: `Guided` (classifier-free guidance), `Suppressed` (tokens that may not be drawn), `Allowed`
(tokens that may be drawn at a position: slots),
`Shifted` (models whose output at position `i` predicts `i+1`), `Framed` (fixed tokens around every sequence),
`Tempered` (a deliberately wrong predictor), `Counted`, `Watched`.

A network in training mode is sampled and measured in evaluation mode, and then put back (`unmask.predict.networks`).
"""

from unmask.predict.allowed import Allowed
from unmask.predict.base import MaskPredictor, Prediction
from unmask.predict.blocks import BlockNetwork, Blockwise
from unmask.predict.memory import Memory, Places, Remembering
from unmask.predict.networks import device_of, evaluating, networks_of, predicting
from unmask.predict.sources import ExactPredictor, Headed, Logits
from unmask.predict.wrappers import Counted, Framed, Guided, Shifted, Suppressed, Tempered, Watched, Wrapper

__all__ = [
    "Allowed",
    "BlockNetwork",
    "Blockwise",
    "Counted",
    "ExactPredictor",
    "Framed",
    "Guided",
    "Headed",
    "Logits",
    "MaskPredictor",
    "Memory",
    "Places",
    "Prediction",
    "Remembering",
    "Shifted",
    "Suppressed",
    "Tempered",
    "Watched",
    "Wrapper",
    "device_of",
    "evaluating",
    "networks_of",
    "predicting",
]
