"""Dream-7B under the protocol of `experiments.weights.protocol`.

    python -m experiments.weights.dream --model Dream-org/Dream-v0-Base-7B --trust-remote-code --text mine.txt \\
        --data wikitext=wikitext.jsonl --data lambada=lambada.jsonl --data ag_news=ag_news.jsonl --output dream

The mask is token 151,666 (`mask_token_id` of its configuration); the output at a position predicts the next one, which
the library undoes (`unmask.predict.Shifted`).
"""

import json
from pathlib import Path

from experiments.weights import tiny
from experiments.weights.command import Recipe, main

from unmask import models

_SHAPE = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip
_CODE = {
    "AutoConfig": "configuration_dream.DreamConfig",
    "AutoModel": "modeling_dream.DreamModel",
    "AutoTokenizer": "tokenization_dream.DreamTokenizer",
}


def load(name: str, device: str, trusted: bool) -> models.Model:
    return models.load(f"hf:{name}", device=device, trust_remote_code=trusted)


def made_tiny(folder: Path, code: Path) -> models.Model:
    words = tiny.byte_words()
    end, mask, vocab = len(words), len(words) + 1, -(-(len(words) + 2) // 16) * 16
    ids = {"mask_token_id": mask, "pad_token_id": end, "eos_token_id": end}
    tiny.saved(folder, code, _CODE, {**_SHAPE, **ids, "vocab_size": vocab, "architectures": ["DreamModel"]})
    (folder / "vocab.json").write_text(json.dumps(words), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    special = {str(end): "<|endoftext|>", str(mask): "<|mask|>"}
    added = {number: {"content": word, "special": True} for number, word in special.items()}
    settings = {
        "tokenizer_class": "DreamTokenizer", "auto_map": {"AutoTokenizer": [_CODE["AutoTokenizer"], None]},
        "added_tokens_decoder": added, "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
        "mask_token": "<|mask|>", "unk_token": None, "bos_token": None, "model_max_length": 128,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return load(str(folder), "cpu", True)


RECIPE = Recipe("Dream-7B", "Dream-org/Dream-v0-Base-7B", load, made_tiny)

if __name__ == "__main__":
    main(RECIPE)
