"""The modeling code of block-causal models as it is published, with tiny random weights.

The code is not ours to ship: `UNMASK_BLOCK_SOURCES` names a folder with a subfolder for each family, and families that
are not there are skipped. What is compared with ours is what each model's own loop calls, with transformers 4.57.

    llada2      modeling_llada2_moe.py and its configuration, as on the hub or in dllm (pipelines/llada2/models)
    sdar        modeling_sdar.py and its configuration, as on the hub; generate.py of JetAstra/SDAR
    fastdllm    modeling.py and configuration.py of Fast-dLLM v2, as on the hub
    bd3lm       modeling_bd3lm.py and its configuration, of kuleshov-group/bd3lms (models/hf)
"""

import importlib.util
import inspect
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny  # noqa: E402
from unmask import models, order, size  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

SOURCES = os.environ.get("UNMASK_BLOCK_SOURCES")
BLOCK, LENGTH, MASK = 4, 18, 4
WORDS = [*tiny.WORDS, *(f"w{number}" for number in range(64 - len(tiny.WORDS)))]
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": LENGTH + 6, "pad_token_id": 0,
}  # fmt: skip
FAMILIES = {
    "llada2": (
        "modeling_llada2_moe.LLaDA2MoeModelLM", "configuration_llada2_moe.LLaDA2MoeConfig", "AutoModelForCausalLM",
        {**SMALL, "model_type": "llada2_moe", "num_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
         "moe_intermediate_size": 16, "num_shared_experts": 1, "first_k_dense_replace": 1, "block_size": BLOCK,
         "attention_dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0},
    ),
    "sdar": (
        "modeling_sdar.SDARForCausalLM", "configuration_sdar.SDARConfig", "AutoModelForCausalLM",
        {**SMALL, "model_type": "sdar", "block_size": BLOCK, "fuse_cross_entropy": False},
    ),
    "fastdllm": (
        "modeling.Fast_dLLM_QwenForCausalLM", "configuration.Fast_dLLM_QwenConfig", "AutoModelForCausalLM",
        {**SMALL, "model_type": "Fast_dLLM_Qwen", "bd_size": BLOCK},
    ),
    "bd3lm": (
        "modeling_bd3lm.BD3LM", "configuration_bd3lm.BD3LMConfig", "AutoModelForMaskedLM",
        {"model_type": "bd3lm", "block_size": BLOCK, "vocab_size": 64, "model_length": 24, "hidden_dim": 32,
         "cond_dim": 16, "n_blocks": 3, "n_heads": 4, "dropout": 0.0, "attn_backend": "sdpa"},
    ),
}  # fmt: skip


def full(name, network, tokens):
    """Logits of a text as the model's own loop asks for them, without any cache, on all blocks so far."""
    length = tokens.shape[1]
    number = torch.arange(length) // BLOCK
    seen = (number[:, None] >= number).float()
    if name == "llada2":
        return network(tokens, attention_mask=seen[None, None].log(), position_ids=torch.arange(length)[None]).logits
    if name == "sdar":
        return network(tokens, attention_mask=seen[None], position_ids=torch.arange(length)[None]).logits
    if name == "fastdllm":
        logits = network(input_ids=tokens, use_cache=True, block_size=BLOCK).logits
        return torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
    return network(input_ids=tokens, timesteps=torch.zeros(len(tokens)), sample_mode=True, return_dict=True).logits


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request, tmp_path_factory):
    """A tiny model of a family, as `hf:` loads it."""
    if SOURCES is None or not (Path(SOURCES) / request.param).is_dir():
        pytest.skip(f"needs the code of {request.param} under UNMASK_BLOCK_SOURCES")
    import transformers

    model, config, loader, shape = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    for file in (Path(SOURCES) / request.param).glob("*.py"):
        shutil.copy(file, folder)
    described = {**shape, "architectures": [model.split(".")[1]], "mask_token_id": MASK}
    described["auto_map"] = {"AutoConfig": config, loader: model}
    (folder / "config.json").write_text(json.dumps(described))
    tiny.tokenizer(folder, WORDS, framed=False, eos_token="[SEP]", sep_token=None, cls_token=None)
    torch.manual_seed(0)
    with transformers.utils.logging.tqdm_lib.tqdm(disable=True):
        built = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
        network = getattr(transformers, loader).from_config(built, trust_remote_code=True).float().eval()
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights) * 0.1)
        if network.get_output_embeddings() is not None:
            network.get_output_embeddings().weight[:5] = (
                0  # their own loops may draw any token: let it be none of these
            )
    network.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(described))
    return request.param, models.load(f"hf:{folder}", trust_remote_code=True)


def prompted():
    tokens = torch.randint(5, 64, (4, LENGTH), generator=torch.Generator().manual_seed(1))
    masked = torch.ones_like(tokens, dtype=torch.bool)
    for number, given in enumerate((3, 7, 1, 10)):
        masked[number, :given] = False
    return tokens, masked


def test_blocks_mask_and_family_are_read_from_the_configuration(loaded):
    _, model = loaded
    inner = model.predictor
    while not hasattr(inner, "network"):
        inner = inner.predictor
    assert (inner.network.block, inner.mask) == (BLOCK, MASK)
    assert not inner.remembers


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(size.Even(2), order.Blocks(order.Comb(), BLOCK, start=0)),
        Schedule(size.Even(3), order.Blocks(order.Confidence(), BLOCK, start=0)),
        Schedule(size.Even(5), order.Random()),
    ],
    ids=["comb in blocks", "confidence in blocks", "all over"],
)
def test_every_step_is_told_what_the_models_own_full_pass_says(loaded, schedule):
    name, model = loaded
    tokens, masked = prompted()
    sampler = Sampler(model.predictor, schedule)
    state = sampler.init(tokens, masked, rng=range(4))
    with torch.no_grad():
        for after, step in sampler.steps(state):
            logits = full(name, model.module, state.tokens).flatten(0, 1)[step.rows].float()
            logits[:, MASK] = -torch.inf  # never drawn
            logits[:, 1] = -torch.inf  # nor what is unknown
            said = torch.log_softmax(logits, dim=-1).gather(1, step.tokens[:, None])[:, 0].double()
            assert float((said - step.log_probability).abs().max()) < 1e-5
            state = after
    assert not bool(state.masked.any())


def test_replay_and_rows_alone_agree(loaded):
    _, model = loaded
    tokens, masked = prompted()
    schedule = Schedule(size.Even(2), order.Blocks(order.Comb(), BLOCK, start=0))
    trace = Sampler(model.predictor, schedule).run(tokens, masked, rng=range(4))
    again = replay(model.predictor, schedule, trace.tokens, masked=masked, rng=range(4))
    assert torch.allclose(again.nll, trace.nll, atol=1e-4)
    for row in range(4):
        alone = Sampler(model.predictor, schedule).run(tokens[row : row + 1], masked[row : row + 1], rng=[row])
        assert torch.allclose(alone.log_probability[0], trace.log_probability[row], atol=1e-5)


def written(name, network, prompt, new):
    """What a model's own loop writes, the most likely token at each of two or more positions a step.

    Most confident first for LLaDA 2, two at once; from left to right for the others, whose loops have no quotas.
    """
    if name == "llada2":
        inner = network.forward

        def forward(
            tokens, attention_mask, **others
        ):  # the loop makes its mask in half precision, whatever the weights
            return inner(tokens, attention_mask=attention_mask.float(), **others)

        network.forward = forward
        # That of 2.1 also rewrites tokens that it has revealed, if it is more certain of others than this.
        edits = {"editing_threshold": 2.0, "num_to_transfer": 2}
        known = inspect.signature(network.generate).parameters
        options = {name: value for name, value in edits.items() if name in known}
        options |= {"block_length": BLOCK, "steps": 2, "gen_length": new, "threshold": 2.0}
        try:
            found = network.generate(inputs=prompt, eos_id=10**6, mask_id=MASK, **options)
        finally:
            del network.forward
        return found[0, :new]
    if name == "sdar":
        spec = importlib.util.spec_from_file_location("sdar_loop", Path(SOURCES) / "sdar" / "generate.py")
        loop = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loop)
        found = loop.block_diffusion_generate(
            network, {"input_ids": prompt}, MASK, gen_length=new, block_length=BLOCK, denoising_steps=2, top_k=1,
            remasking_strategy="sequential",
        )  # fmt: skip
        return found[0, prompt.shape[1] :]
    found = network.generate(prompt, max_new_tokens=3 * BLOCK, mask_id=MASK, block_size=BLOCK, small_block_size=1)
    return found[0, prompt.shape[1] : prompt.shape[1] + new]


@pytest.mark.parametrize("given", [3, 8, 9])  # Fast-dLLM v2 forgets a prompt of just one block
def test_the_text_is_that_of_the_models_own_loop(loaded, given):
    name, model = loaded
    if name == "bd3lm":
        pytest.skip("its loop is not part of the model")
    prompt = torch.randint(5, 64, (1, given), generator=torch.Generator().manual_seed(given))
    new = 3 * BLOCK - given % BLOCK  # whole blocks
    with torch.no_grad():
        theirs = written(name, model.module, prompt, new)
    within = order.Confidence() if name == "llada2" else order.LeftToRight()
    sizes = size.Even(BLOCK) if name == "fastdllm" else _Halves(2)
    tokens = torch.cat([prompt, torch.full((1, new), MASK)], dim=1)
    schedule = Schedule(sizes, order.Blocks(within, BLOCK, start=0))
    ours = Sampler(model.predictor, schedule, Greedy()).run(tokens, rng=[0])
    assert ours.tokens[0, given:].tolist() == theirs.tolist()


class _Halves(size.Planned):
    """Half of a whole block at each step, whatever is left of the first one: so the loops count."""

    def sizes(self, length):
        return np.array([min(BLOCK // 2, length), max(length - BLOCK // 2, 0)])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-n0"]))
