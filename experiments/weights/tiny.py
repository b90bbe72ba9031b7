"""Weights and texts for a try on a CPU: random ones, which mean nothing."""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch

from unmask import InputError, models

LENGTH, TEXTS, BLOCK = 32, 3, 8
_WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "with", "on", "not", "this", "from")
_LETTERS = "abcdefghijklmnopqrstuvwxyz \n"


def written(place: Path, seed: int, lines: int = 40) -> Path:
    """A file of made-up sentences, one in each line."""
    source = random.Random(seed)
    place.parent.mkdir(parents=True, exist_ok=True)
    texts = (" ".join(source.choices(_WORDS, k=source.randint(5, 25))) for _ in range(lines))
    place.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return place


def shaken(network: torch.nn.Module) -> torch.nn.Module:
    """The network with random weights, also where it begins with zeros."""
    source = torch.Generator().manual_seed(0)
    for weights in network.parameters():
        weights.data += 0.1 * torch.randn(weights.shape, generator=source).to(weights)
    return network.eval()


@final
class _StandIn(torch.nn.Module):
    """A small network that looks both ways."""

    def __init__(self, vocab: int, length: int, width: int = 32):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(vocab + 1, width), torch.nn.Embedding(length, width)
        self.mix = torch.nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=64, batch_first=True)
        self.head = torch.nn.Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.mix(self.words(tokens) + self.places(places)))


def stand_in(name: str, length: int) -> models.Model:
    """A model with a network of our own in place of the real one."""
    vocab = len(_LETTERS)
    torch.manual_seed(0)
    network = shaken(_StandIn(vocab, length))
    return models.Bare(network, vocab=vocab, mask=vocab, tokenizer=_LETTERS, length=length).model(f"tiny {name}")


def byte_words() -> dict[str, int]:
    """The bytes as GPT-2 writes them, by their ids."""
    from tokenizers import pre_tokenizers

    return {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def byte_tokenizer(**special: str) -> Any:
    """A tokenizer of transformers in the manner of GPT-2 with a token for each byte, then the special ones."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(BPE(byte_words(), []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)


def saved(folder: Path, code: Path, classes: Mapping[str, str], shape: Mapping[str, Any]) -> Path:
    """A model of transformers with the code of that folder and random weights, as a checkpoint.

    Arguments:
        folder: Where to put it.
        code: Where its Python files are.
        classes: The `auto_map` of its configuration: what to load with, and "file.Class"; "AutoConfig" among them.
        shape: The values of its configuration.

    Raises:
        InputError: if the folder has no such files.
    """
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    files = sorted({f"{each.partition('.')[0]}.py" for each in classes.values()})
    if missing := [name for name in files if not (code / name).is_file()]:
        raise InputError("code", f"hold {missing[0]}", detail=f"but '{code}' does not")
    folder.mkdir(parents=True, exist_ok=True)
    for file in code.glob("*.py"):
        shutil.copy(file, folder)
    kinds = {name: get_class_from_dynamic_module(each, str(folder)) for name, each in classes.items()}
    config = kinds["AutoConfig"](**shape)
    torch.manual_seed(0)
    (network,) = (kind(config) for name, kind in kinds.items() if name not in ("AutoConfig", "AutoTokenizer"))
    shaken(network).save_pretrained(folder, safe_serialization=True)
    place = folder / "config.json"
    auto = {name: each for name, each in classes.items() if name != "AutoTokenizer"}
    place.write_text(json.dumps(json.loads(place.read_text()) | {"auto_map": auto}, indent=1), encoding="utf-8")
    return folder
