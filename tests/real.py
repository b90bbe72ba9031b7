"""Tiny models made of the real code of LLaDA and Dream, for the tests against engines that only a repository has.

The code is read from a checkout that the reader has (CONTRIBUTING says which), copied into a folder of the test with
random weights and a tokenizer of a few words, and loaded as any model of Hugging Face with code of its own is.
"""

import importlib
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

import tiny

_MASK = "<|mdm_mask|>"  # what dllm calls LLaDA's, whatever the tokenizer says
WORDS = [*(_MASK if word == "[MASK]" else word for word in tiny.WORDS), "<end>"]
END, MASK = len(WORDS) - 1, WORDS.index(_MASK)
PADDED = 24  # outputs of the network: more than there are tokens, as in the published LLaDA
_DREAM = {
    "vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64, "mask_token_id": MASK,
    "pad_token_id": END,
}  # fmt: skip


def checkout(name, what):
    """The folder that an environment variable names; the test is skipped where it does not."""
    found = os.environ.get(name)
    if not found:
        pytest.skip(f"{what} is in no package: give its folder with {name}=… (CONTRIBUTING.md, by hand)")
    if not Path(found).exists():
        pytest.fail(f"{name} names '{found}', which does not exist")
    return Path(found)


def llada(folder, dllm):
    """A folder with a tiny LLaDA: the modeling code as dllm has it, the output wider than the tokenizer."""
    shape = {
        "d_model": 32, "n_heads": 2, "n_layers": 2, "mlp_hidden_size": 64, "max_sequence_length": 64, "rope": True,
        "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "weight_tying": False,
        "vocab_size": len(WORDS), "embedding_size": PADDED, "mask_token_id": MASK, "eos_token_id": END,
        "pad_token_id": END, "attention_dropout": 0.0, "residual_dropout": 0.0, "embedding_dropout": 0.0,
        "init_device": "cpu", "use_cache": False,
    }  # fmt: skip
    source = dllm / "dllm" / "pipelines" / "llada" / "models"
    return _made(folder, source, "llada", ("LLaDAConfig", "LLaDAModelLM"), shape)


def dream(folder, dllm):
    """A folder with a tiny Dream."""
    source = dllm / "dllm" / "pipelines" / "dream" / "models"
    # Dream reads a configuration of generation from its folder, and fails without one.
    (folder / "generation_config.json").write_text(json.dumps({"mask_token_id": MASK, "pad_token_id": END}))
    return _made(folder, source, "dream", ("DreamConfig", "DreamModel"), _DREAM)


def wheel(folder, archive):
    """A folder with a tiny Dream whose modeling code is that of the wheel of xlm-core, read as data.

    It is Dream's own with time embeddings added, which are off; where it imports from its own package, it is given
    what lies beside it.
    """
    root = "xlm/backbones/dream"
    with zipfile.ZipFile(archive) as held:
        config, model = (held.read(f"{root}/{name}.py").decode() for name in ("configuration_base", "modeling_dream"))
    source = folder / "source"
    source.mkdir()
    (source / "configuration_dream.py").write_text(config.replace("DreamConfigBase", "DreamConfig"))
    for theirs, ours in (
        ("from xlm.backbones.dream.configuration_base import DreamConfigBase",
         "from .configuration_dream import DreamConfig as DreamConfigBase"),
        ("from flexmdm.model_flexmdm import TimestepEmbedder", "TimestepEmbedder = None"),
        ("DreamModelCore", "DreamModel"),
    ):  # fmt: skip
        assert theirs in model, f"the wheel's code has changed: no '{theirs}' in it"
        model = model.replace(theirs, ours)
    (source / "modeling_dream.py").write_text(model)
    made = _made(folder, source, "dream", ("DreamConfig", "DreamModel"), _DREAM)
    shutil.rmtree(source)
    return made


def _made(folder, source, name, classes, shape):
    """Copy the code, draw weights, and describe both as a published model does."""
    import torch
    from safetensors.torch import save_file

    for file in source.glob("*.py"):
        if file.name != "__init__.py":
            # dllm's copy of LLaDA makes its weights on a GPU; the published one does not.
            text = file.read_text(encoding="utf-8").replace('init_device = "cuda"', 'init_device = "cpu"')
            (folder / file.name).write_text(text, encoding="utf-8")
    package = f"real_{name}_{abs(hash(str(folder)))}"
    (folder / package).symlink_to(folder)
    sys.path.insert(0, str(folder))
    try:
        kind = getattr(importlib.import_module(f"{package}.configuration_{name}"), classes[0])
        model = getattr(importlib.import_module(f"{package}.modeling_{name}"), classes[1])
    finally:
        sys.path.remove(str(folder))
        (folder / package).unlink()
    torch.manual_seed(0)
    try:
        network = model(kind(**shape)).eval()
    except KeyError:  # Dream's under transformers 5: what is said of it is tested, and there are no weights to load
        network = torch.nn.Linear(1, 1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(torch.randn_like(weights) * (0.3 if weights.ndim > 1 else 1.0))
    save_file(network.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    described = {
        **shape, "model_type": kind.model_type, "architectures": [classes[1]], "transformers_version": "4.46.3",
        "torch_dtype": "float32",
        "auto_map": {
            "AutoConfig": f"configuration_{name}.{classes[0]}", "AutoModel": f"modeling_{name}.{classes[1]}",
            "AutoModelForCausalLM": f"modeling_{name}.{classes[1]}",
        },
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(described))
    special = {"eos_token": "<end>", "pad_token": "<end>", "mask_token": _MASK}
    tiny.tokenizer(folder, WORDS, framed=False, chat=tiny.CHAT, **special)
    return network
