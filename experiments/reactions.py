"""A pre-trained masked language model of chemistry under schedules: half of a reaction given, the other half filled.

    pip download --no-deps rxnmapper==0.4.3
    python experiments/reactions.py rxnmapper-0.4.3-py3-none-any.whl [FOLDER]

The wheel of rxnmapper (MIT licence; Schwaller et al., Science Advances 7, eabe4166, 2021) carries an ALBERT trained on
1.3 million reactions at 15 % masking. It is read as data and loaded through `unmask.models`; the package itself is not
needed. `reactions.txt` has 57 textbook reactions of 33 to 50 tokens. 20 tokens of each are masked, in two ways, and
revealed by every schedule. Sizes marked "optimal" are computed from a calibration on every other reaction and scored
on the rest, both ways. Writes `results/reactions.csv`; errors are over reactions. `over_even` is the
paired difference to even sizes in random order with as many steps.
"""

import argparse
import json
import math
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, write

from unmask import models, order, size
from unmask.calibration import Calibration, measure
from unmask.evaluate.likelihood import replay
from unmask.schedule import Schedule

INSIDE = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
# An atom in brackets, an element, a bond, a branch, a ring, an arrow: one token each.
TOKEN = r"\[[^\]]+]|Br?|Cl?|[NOSPFIbcnosp()\.=#\-+\\/:~@?*$]|>>?|%[0-9]{2}|[0-9]"
MASKED, WAYS, SEED, PAD = 20, 2, 0, 0  # the first word of the vocabulary is padding
STEPS = (1, 2, 4, 10, 20)
ORDERS = {
    "random": order.Random(),
    "spread": order.Spread(),
    "left-to-right": order.LeftToRight(),
    "confidence": order.Confidence(),
}
COLUMNS = (
    "order",
    "size",
    "steps",
    "evaluations",
    "bits_per_token",
    "standard_error",
    "predicted",
    "over_even",
    "over_even_error",
)


def reactions() -> list[str]:
    return (Path(__file__).parent / "reactions.txt").read_text().split()


def unpack(wheel: Path, folder: Path) -> None:
    """The model in a folder as transformers reads it: the wheel's weights, and a tokenizer made of its vocabulary."""
    import tokenizers
    from tokenizers import decoders, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    with zipfile.ZipFile(wheel) as archive:
        for name in ("config.json", "pytorch_model.bin"):
            (folder / name).write_bytes(archive.read(f"{INSIDE}/{name}"))
        special = json.loads(archive.read(f"{INSIDE}/special_tokens_map.json"))
        words = archive.read(f"{INSIDE}/vocab.txt").decode().split()
    ids = {word: number for number, word in enumerate(words)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=special["unk_token"]))
    inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(TOKEN), "isolated")
    inner.decoder = decoders.Fuse()
    ends = [(word, ids[word]) for word in (special["cls_token"], special["sep_token"])]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=512, **special).save_pretrained(folder)


def load(wheel: Path) -> models.Model:
    """The model of the wheel; its weights are a pickle file, which torch reads without running anything in it."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(wheel, Path(folder))
        return models.load(f"hf:{folder}", allow_pickle=True)


def texts(model: models.Model) -> tuple[torch.Tensor, torch.Tensor]:
    """Every reaction in `WAYS` rows, filled up with padding, and where each row is masked."""
    found = [model.codec.encode(text) for text in reactions()]
    tokens = np.full((len(found) * WAYS, max(map(len, found))), PAD)
    masked = np.zeros(tokens.shape, dtype=bool)
    for row in range(len(tokens)):
        text = found[row // WAYS]
        tokens[row, : text.size] = text
        masked[row, np.random.default_rng([SEED, row]).permutation(text.size)[:MASKED]] = True
    return torch.from_numpy(tokens), torch.from_numpy(masked)


def per_reaction(nll: torch.Tensor) -> np.ndarray:
    """Bits per masked token of each reaction, the mean of its ways."""
    return nll.numpy().reshape(-1, WAYS).mean(axis=1) / MASKED / math.log(2)


def calibrated(model: models.Model, tokens: torch.Tensor, masked: torch.Tensor) -> Calibration:
    losses = measure(model.predictor, ORDERS["random"], tokens, rng=SEED, masked=masked, points=MASKED)
    return Calibration(MASKED, model.fingerprint, len(tokens), {"random": losses})


def compute(model: models.Model, steps: tuple[int, ...] = STEPS) -> list[dict[str, object]]:
    tokens, masked = texts(model)
    halves = [torch.arange(len(tokens)) // WAYS % 2 == half for half in (0, 1)]
    known = [calibrated(model, tokens[~half], masked[~half]) for half in halves]
    unit = MASKED * math.log(2)
    rows = []

    def score(name: str, kind: str, wanted: int | None, schedules: list[Schedule]) -> np.ndarray:
        """Bits per masked token of every reaction, and a row of the table."""
        bits, spent = np.empty(len(tokens) // WAYS), 0.0
        for half, schedule in zip(halves, schedules, strict=True):
            seeds = torch.nonzero(half)[:, 0].tolist()
            result = replay(model.predictor, schedule, tokens[half], rng=seeds, masked=masked[half])
            bits[half[::WAYS].numpy()] = per_reaction(result.nll)
            spent += float(result.evaluations.sum()) / len(tokens)
        plain = isinstance(schedules[0].order, order.Random) and kind != "cosine"
        guess = [
            found.predict("random", schedule.size.sizes(MASKED))[0] / unit
            for found, schedule in zip(known, schedules, strict=True)
            if plain
        ]
        values = (name, kind, wanted, spent, bits.mean(), error(bits), float(np.mean(guess)) if plain else None)
        rows.append(dict(zip(COLUMNS, (*values, None, None), strict=True)))
        print(*(f"{value:.4g}" if isinstance(value, float) else value for value in values), flush=True)
        return bits

    for wanted in steps:
        base = score("random", "even", wanted, [Schedule(size.Even(wanted), ORDERS["random"])] * 2)
        others = {(name, "even"): [Schedule(size.Even(wanted), kind)] * 2 for name, kind in ORDERS.items()}
        if wanted < MASKED:  # where each step has one token, all sizes are the same
            others["random", "cosine"] = [Schedule(size.Cosine(wanted), ORDERS["random"])] * 2
            others["random", "optimal"] = [found.plan("random", wanted).schedule for found in known]
        for (name, kind), schedules in others.items():
            if wanted > 1 and (name, kind) != ("random", "even"):  # one step is the same in every order
                over = score(name, kind, wanted, schedules) - base
                rows[-1] |= {"over_even": float(over.mean()), "over_even_error": error(over)}
    for limit in (0.5, 0.9):
        score("confidence", f"threshold:{limit}", None, [Schedule(size.Threshold(limit), ORDERS["confidence"])] * 2)
    return rows


def error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS)
    options = parser.parse_args()
    model = load(options.wheel)
    write(options.folder / "reactions.csv", COLUMNS, compute(model))


if __name__ == "__main__":
    main()
