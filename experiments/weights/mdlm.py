"""MDLM on OpenWebText under the protocol of `experiments.weights.protocol`.

    python -m experiments.weights.mdlm --model kuleshov-group/mdlm-owt --trust-remote-code --text mine.txt \\
        --data wikitext=wikitext.jsonl --data lambada=lambada.jsonl --data ag_news=ag_news.jsonl --output mdlm

MDLM's network is called with token ids and a noise level, `network(indices, sigma)`, gives logits for every position
at that position, and has GPT-2's tokens and the mask after them, which is its last. Trained without time conditioning
it sees `sigma = 0` whatever the noise, so the level says nothing and `Timeless` leaves it out. What its authors call
the SUBS parameterisation is what a mask predictor is: revealed tokens stay (nobody asks for them), and the mask is
never drawn (`unmask.Logits` gives it no probability). Nothing is shifted.

`py:experiments.weights.mdlm:owt` is the published model for all commands of `unmask`, from a clone of this repository.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, final

import torch
from experiments.weights import tiny
from experiments.weights.command import Recipe, main

from unmask import InputError, models

PUBLISHED = "kuleshov-group/mdlm-owt"
_SHAPE = {"model_length": 128, "hidden_dim": 32, "cond_dim": 16, "n_blocks": 2, "n_heads": 2, "dropout": 0.1}
_CODE = {"AutoConfig": "configuration_mdlm.MDLMConfig", "AutoModelForMaskedLM": "modeling_mdlm.MDLM"}


@final
class Timeless(torch.nn.Module):
    """A network of token ids and a noise level that is trained without looking at the level.

    Arguments:
        network: Maps token ids `(batch, length)` and levels `(batch,)` to logits, or to an object with `.logits`.
    """

    def __init__(self, network: torch.nn.Module):
        super().__init__()
        self.network = network

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.network(tokens, torch.zeros(len(tokens), device=tokens.device))


def model(network: Any, tokenizer: Any, length: int) -> models.Model:
    """MDLM's network as a model: GPT-2's tokens, then the mask, which is the last of its vocabulary.

    Raises:
        InputError: if the network was trained with time conditioning.
    """
    if getattr(network.config, "time_conditioning", False):
        raise InputError("model", "be trained without time conditioning", detail="as the published MDLM is")
    vocab = network.vocab_size if hasattr(network, "vocab_size") else network.config.vocab_size
    bare = models.Bare(Timeless(network), vocab=vocab, mask=vocab - 1, tokenizer=tokenizer, length=length)
    return bare.model(PUBLISHED)


def load(name: str, device: str, trusted: bool, tokenizer: Any = None) -> models.Model:
    """The published network, by its name or from a folder. It comes without a tokenizer: GPT-2's is taken."""
    import transformers

    if not trusted:
        remedy = "If you have read it and trust it, add {trust_remote_code}."
        raise InputError("", f"The model '{name}' comes with its own Python code", remedy=remedy)
    try:
        network = transformers.AutoModelForMaskedLM.from_pretrained(name, trust_remote_code=True)
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained("gpt2")
    except Exception as error:  # the library raises whatever its parts do
        old = int(transformers.__version__.partition(".")[0]) < 5 or "all_tied_weights_keys" not in str(error)
        remedy = "" if old else "Its code was written for transformers 4. Run: pip install 'transformers<5'"
        said = " ".join(str(error).split()) or type(error).__name__
        detail = f"unlike '{name}': {said}"
        raise InputError("model", "be MDLM's network as it was published", detail=detail, remedy=remedy) from None
    return model(network.eval().to(device), tokenizer, network.config.model_length)


def owt(device: str = "cpu") -> models.Model:
    """The published model; its code runs."""
    return load(PUBLISHED, str(device), True)


def made_tiny(folder: Path, code: Path) -> models.Model:
    """With the published `modeling_mdlm.py`, or with `models/dit.py` of the authors' repository."""
    tokenizer = tiny.byte_tokenizer(eos_token="<|endoftext|>")
    vocab = len(tokenizer) + 1
    if (dit := code / "models" / "dit.py").is_file():
        from omegaconf import OmegaConf

        # Alone: the package around it imports other networks, and what these need.
        spec = spec_from_file_location("mdlm_dit", dit)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sizes = {"hidden_size": 32, "cond_dim": 16, "length": 128, "n_blocks": 2, "n_heads": 2, "dropout": 0.1}
        config = OmegaConf.create({"model": {**sizes, "scale_by_sigma": True}, "time_conditioning": False})
        torch.manual_seed(0)
        return model(tiny.shaken(module.DIT(config, vocab)), tokenizer, 128)
    shape = {**_SHAPE, "vocab_size": vocab, "time_conditioning": False, "architectures": ["MDLM"]}
    return load(str(tiny.saved(folder, code, _CODE, shape)), "cpu", True, tokenizer)


RECIPE = Recipe("MDLM-OWT", PUBLISHED, load, made_tiny)

if __name__ == "__main__":
    main(RECIPE)
