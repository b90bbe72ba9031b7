"""LLaDA-8B under the protocol of `experiments.weights.protocol`.

    python -m experiments.weights.llada --model GSAI-ML/LLaDA-8B-Base --trust-remote-code --text mine.txt \\
        --data wikitext=wikitext.jsonl --data lambada=lambada.jsonl --data ag_news=ag_news.jsonl --output llada

The mask is token 126,336 (`mask_token_id` of its configuration); the output at a position predicts that position.
"""

from pathlib import Path

from experiments.weights import tiny
from experiments.weights.command import Recipe, main

from unmask import models

_SHAPE = {
    "d_model": 32, "n_heads": 2, "n_kv_heads": 2, "n_layers": 2, "mlp_hidden_size": 64, "max_sequence_length": 128,
    "activation_type": "silu", "block_type": "llama", "layer_norm_type": "rms", "rms_norm_eps": 1e-5, "rope": True,
    "include_bias": False, "include_qkv_bias": False, "weight_tying": False, "attention_dropout": 0.0,
    "embedding_dropout": 0.0, "residual_dropout": 0.0, "flash_attention": False, "init_device": "cpu",
}  # fmt: skip
_CODE = {"AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM"}


def load(name: str, device: str, trusted: bool) -> models.Model:
    return models.load(f"hf:{name}", device=device, trust_remote_code=trusted)


def made_tiny(folder: Path, code: Path) -> models.Model:
    tokenizer = tiny.byte_tokenizer(eos_token="<|endoftext|>", pad_token="<|endoftext|>", mask_token="<|mdm_mask|>")
    ids = {"mask_token_id": tokenizer.mask_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {"vocab_size": len(tokenizer), "embedding_size": -(-len(tokenizer) // 16) * 16}  # padded, as the real one
    shape = {**_SHAPE, **sizes, **ids, "pad_token_id": tokenizer.pad_token_id, "architectures": ["LLaDAModelLM"]}
    tiny.saved(folder, code, _CODE, shape)
    tokenizer.save_pretrained(folder)
    return load(str(folder), "cpu", True)


RECIPE = Recipe("LLaDA-8B", "GSAI-ML/LLaDA-8B-Base", load, made_tiny)

if __name__ == "__main__":
    main(RECIPE)
